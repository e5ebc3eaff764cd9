//! Configuration: what is created is found, by its account alone, and changed only over the version that was read.

use crate::fixtures::*;
use domain::{
    account::Account,
    client_certificate::ClientCertificate,
    delivery_settings::DeliverySettings,
    destination::{
        Auth, AwsCredentials, Destination, Disabled, DisabledReason, Format, KeptKeyPair, Previous,
        PreviousKeyPair, RateLimit, Scheme, Secrets, Signing,
    },
    filter::Filter,
    id::{AccountId, DestinationId, RouteId, SourceId},
    limits,
    oauth2::{ClientAuth, OAuth2Client},
    retry::{RetryPolicy, RetryStatus},
    route::Route,
    seal::Sealed,
    source::Source,
    testing::audit_entry,
};
use serde_json::json;
use std::time::Duration;
use store::{Page, StoreError};

// --- Versions and changes ------------------------------------------------------------------------------------------

pub(crate) async fn every_change_takes_the_accounts_next_version(world: World) {
    let account = world.account().await;
    let mut last = account.version;
    let mut grown = async |what: &str| {
        let version = world.version(&account).await;
        assert!(version > last, "{what}: {version} after {last}");
        last = version;
    };
    let source = world.source(&account).await;
    grown("create source").await;
    let destination = world.destination(&account).await;
    grown("create destination").await;
    let route = world.route(&destination).await;
    grown("create route").await;
    let source = world.store.update_source(&source, &audit_entry()).await.unwrap();
    grown("update source").await;
    let destination = world.store.update_destination(&destination, &audit_entry()).await.unwrap();
    grown("update destination").await;
    let route = world.store.update_route(&route, &audit_entry()).await.unwrap();
    grown("update route").await;
    assert_eq!(route.version, world.version(&account).await, "the row has the version of its change");
    world.store.delete_route(account.id, route.id, at(1), &audit_entry()).await.unwrap();
    grown("delete route").await;
    world.store.delete_destination(account.id, destination.id, at(1), &audit_entry()).await.unwrap();
    grown("delete destination").await;
    world.store.delete_source(account.id, source.id, at(1), &audit_entry()).await.unwrap();
    grown("delete source").await;
}

pub(crate) async fn one_accounts_changes_are_none_of_anothers(world: World) {
    let (ours, theirs) = (world.ground().await, world.ground().await);
    let before = world.version(&ours.account).await;
    world.route(&theirs.destination).await;
    assert_eq!(world.version(&ours.account).await, before);
    let changes = world.store.changes(ours.account.id, 0).await.unwrap();
    assert_eq!(changes.routes.iter().map(|route| route.id).collect::<Vec<_>>(), [ours.route.id]);
}

pub(crate) async fn changes_are_what_is_newer_than_a_version(world: World) {
    let ground = world.ground().await;
    let disabled = Route { enabled: false, ..route(&ground.destination) };
    let disabled = world.store.create_route(&disabled, &audit_entry()).await.unwrap();
    let short_lived = world.route(&ground.destination).await;

    let all = world.store.changes(ground.account.id, 0).await.unwrap();
    assert_eq!(all.version, world.version(&ground.account).await);
    assert_eq!(
        all.routes.iter().map(told).collect::<Vec<_>>(),
        [&ground.route, &disabled, &short_lived].map(told)
    );
    assert!(all.removed_routes.is_empty());

    let none = world.store.changes(ground.account.id, all.version).await.unwrap();
    assert_eq!((none.version, none.routes.len(), none.removed_routes.len()), (all.version, 0, 0));

    let changed = world.store.update_route(&disabled, &audit_entry()).await.unwrap();
    world.store.delete_route(ground.account.id, short_lived.id, at(1), &audit_entry()).await.unwrap();
    let newer = world.store.changes(ground.account.id, all.version).await.unwrap();
    assert_eq!(newer.routes.iter().map(told).collect::<Vec<_>>(), [told(&changed)]);
    assert_eq!(newer.removed_routes, [short_lived.id]);
    assert_eq!(newer.version, world.version(&ground.account).await);

    is_not_found(world.store.changes(AccountId::at(at(0), chance()), 0).await.map(|_| ()), "account");
}

// --- Sources -------------------------------------------------------------------------------------------------------

pub(crate) async fn a_source_reads_back_as_it_was_created(world: World) {
    let account = world.account().await;
    let mut given = source(&account);
    (given.uid, given.enabled, given.rate_limit) = (Some("shop".into()), false, Some(9));
    let created = world.store.create_source(&given, &audit_entry()).await.unwrap();
    assert_eq!(created.version, world.version(&account).await);
    given.version = created.version;
    assert_eq!(created, given);
    assert_eq!(world.store.source(account.id, given.id).await.unwrap(), given);
    assert_eq!(world.store.sources(account.id, first(10)).await.unwrap().rows, [given]);
}

pub(crate) async fn a_source_is_found_by_its_token(world: World) {
    let account = world.account().await;
    let given = world.source(&account).await;
    assert_eq!(world.store.source_by_token(&given.token_hash).await.unwrap(), Some(given.clone()));
    assert_eq!(world.store.source_by_token(b"unknown").await.unwrap(), None);
    let moved = Source { token_hash: vec![1; 32], ..given.clone() };
    let moved = world.store.update_source(&moved, &audit_entry()).await.unwrap();
    assert_eq!(world.store.source_by_token(&given.token_hash).await.unwrap(), None);
    assert_eq!(world.store.source_by_token(&[1; 32]).await.unwrap(), Some(moved));
    world.store.delete_source(account.id, given.id, at(1), &audit_entry()).await.unwrap();
    assert_eq!(world.store.source_by_token(&[1; 32]).await.unwrap(), None);
}

pub(crate) async fn a_source_is_updated_only_over_the_version_it_was_read_with(world: World) {
    let account = world.account().await;
    let read = world.source(&account).await;
    let mut wanted = Source { name: "Store".into(), enabled: false, updated_at: at(3), ..read.clone() };
    wanted.version = world.store.update_source(&wanted, &audit_entry()).await.unwrap().version;
    assert_eq!(world.store.source(account.id, read.id).await.unwrap(), wanted);
    is_changed(world.store.update_source(&read, &audit_entry()).await);
    assert_eq!(world.store.source(account.id, read.id).await.unwrap(), wanted);
}

pub(crate) async fn deleting_a_source_removes_its_routes_and_no_others(world: World) {
    let ground = world.ground().await;
    let source = world.source(&ground.account).await;
    let from_source = Route { source_id: Some(source.id), ..route(&ground.destination) };
    let from_source = world.store.create_route(&from_source, &audit_entry()).await.unwrap();
    let before = world.version(&ground.account).await;

    world.store.delete_source(ground.account.id, source.id, at(1), &audit_entry()).await.unwrap();
    is_not_found(world.store.source(ground.account.id, source.id).await, "source");
    assert!(world.store.sources(ground.account.id, first(10)).await.unwrap().rows.is_empty());
    is_not_found(world.store.route(ground.account.id, from_source.id).await, "route");
    assert_eq!(world.store.routes(ground.account.id, first(10)).await.unwrap().rows.len(), 1);
    let changes = world.store.changes(ground.account.id, before).await.unwrap();
    assert_eq!((changes.routes.len(), changes.removed_routes), (0, vec![from_source.id]));
    is_not_found(
        world.store.delete_source(ground.account.id, source.id, at(2), &audit_entry()).await,
        "source",
    );
    is_not_found(world.store.update_source(&source, &audit_entry()).await, "source");
}

// --- Destinations --------------------------------------------------------------------------------------------------

pub(crate) async fn a_destination_reads_back_as_it_was_created(world: World) {
    let account = world.account().await;
    let mut given = destination(&account);
    given.uid = Some("billing".into());
    given.settings.timeout = Some(Duration::from_secs(7));
    given.settings.max_concurrency = Some(250);
    given.rate_limit = Some(RateLimit { requests: 3, per_seconds: 2 });
    given.headers = vec![("x-b".into(), "2".into()), ("x-a".into(), "ä".into()), ("x-b".into(), "3".into())];
    given.forward_headers = vec!["x-trace".into()];
    given.auth = Auth::Basic { username: "u".into(), password: Sealed(vec![0, 255]) };
    given.format = Format::CloudeventsStructured;
    given.signing = Signing {
        scheme: Scheme::Github,
        ed25519: true,
        header: Some("x-signature".into()),
        ..Signing::default()
    };
    let pair = |byte| KeptKeyPair { private: Sealed(vec![byte; 92]), public: format!("whpk_{byte}") };
    given.secret = Secrets {
        current: Sealed(vec![1; 60]),
        previous: Some(Previous { secret: Sealed(vec![2; 60]), until: at(7) }),
        key_pair: Some(pair(3)),
        previous_key_pair: Some(PreviousKeyPair { pair: pair(4), until: at(8) }),
    };
    given.settings.retry_policy.schedule = Some(vec![Duration::from_secs(5)]);
    given.settings.retry_policy.retry_statuses = Some(vec![RetryStatus::Class(4), RetryStatus::Code(307)]);
    let created = world.store.create_destination(&given, &audit_entry()).await.unwrap();
    assert_eq!(created.version, world.version(&account).await);
    given.version = created.version;
    assert_eq!(created, given);
    assert_eq!(world.store.destination(account.id, given.id).await.unwrap(), given);
    assert_eq!(world.store.destinations(account.id, first(10)).await.unwrap().rows, [given]);
}

pub(crate) async fn every_way_to_authenticate_is_kept_as_it_is(world: World) {
    let account = world.account().await;
    let sealed = |byte| Sealed(vec![0, byte, 255]);
    let client = OAuth2Client {
        token_url: "https://auth.example.com/token".into(),
        client_id: "me".into(),
        client_secret: sealed(1),
        scope: Some("a b".into()),
        audience: None,
        client_auth: ClientAuth::Post,
        params: vec![("resource".into(), sealed(2))],
    };
    let certificate = ClientCertificate {
        certificate: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".into(),
        private_key: sealed(3),
        subject: "CN=Zoë".into(),
        expires_at: account.created_at,
    };
    let aws = AwsCredentials {
        access_key_id: "AKIDEXAMPLE".into(),
        secret_access_key: sealed(4),
        session_token: Some(sealed(5)),
        region: "eu-central-1".into(),
        service: "lambda".into(),
    };
    let ways = [
        Auth::None,
        Auth::Bearer { token: sealed(6) },
        Auth::Basic { username: "u".into(), password: sealed(7) },
        Auth::Headers { headers: vec![("x-a".into(), sealed(8))] },
        Auth::OAuth2(client),
        Auth::Mtls(certificate),
        Auth::AwsSigv4(aws),
    ];
    let mut row = world.store.create_destination(&destination(&account), &audit_entry()).await.unwrap();
    for auth in ways {
        row.auth = auth;
        row.version = world.store.update_destination(&row, &audit_entry()).await.unwrap().version;
        assert_eq!(world.store.destination(account.id, row.id).await.unwrap().auth, row.auth);
    }
}

pub(crate) async fn a_destination_that_says_nothing_keeps_no_default(world: World) {
    let account = world.account().await;
    let created = world.store.create_destination(&destination(&account), &audit_entry()).await.unwrap();
    assert_eq!(created.settings, DeliverySettings::default());
    assert_eq!(world.store.destination(account.id, created.id).await.unwrap().settings, created.settings);
    let mut said = created.clone();
    said.settings.max_concurrency = Some(limits::MAX_CONCURRENCY_DEFAULT);
    let said = world.store.update_destination(&said, &audit_entry()).await.unwrap();
    assert_eq!(world.store.destination(account.id, said.id).await.unwrap().settings, said.settings);
    let unsaid = Destination { settings: DeliverySettings::default(), ..said };
    world.store.update_destination(&unsaid, &audit_entry()).await.unwrap();
    assert_eq!(world.store.destination(account.id, unsaid.id).await.unwrap().settings, unsaid.settings);
}

pub(crate) async fn a_target_carries_its_accounts_defaults(world: World) {
    let ground = world.ground().await;
    let id = ground.destination.id;
    let record = async || world.store.destination_records(&[id]).await.unwrap().remove(0).unwrap();
    assert_eq!(record().await.account_defaults, DeliverySettings::default());

    let account = world.store.account(ground.account.id).await.unwrap();
    let mut defaults = DeliverySettings { max_concurrency: Some(3), ..DeliverySettings::default() };
    defaults.retry_policy.retry_statuses = Some(vec![RetryStatus::Class(4)]);
    let changed = account.clone().with_defaults(defaults.clone());
    let kept = world.store.update_account(&changed, &audit_entry()).await.unwrap();
    assert_eq!((kept.defaults_version, kept.version), (account.version + 1, account.version + 1));
    assert_eq!(world.store.account(account.id).await.unwrap(), kept);
    assert_eq!(record().await.account_defaults, defaults);
    assert_eq!(record().await.account_version, kept.version);
    assert_eq!(
        record().await.destination.unwrap().settings,
        DeliverySettings::default(),
        "nothing is copied"
    );

    let stale = account.with_defaults(DeliverySettings::default());
    assert!(matches!(world.store.update_account(&stale, &audit_entry()).await, Err(StoreError::Changed)));
    let renamed = Account { name: "other".into(), ..kept.clone().with_defaults(defaults) };
    let renamed = world.store.update_account(&renamed, &audit_entry()).await.unwrap();
    assert_eq!(renamed.defaults_version, kept.version, "the same again is no change");
}

pub(crate) async fn a_destinations_switches_are_written_with_it(world: World) {
    let account = world.account().await;
    let read = world.destination(&account).await;
    let mut wanted = read.clone();
    wanted.switch.paused_at = Some(at(1));
    wanted.switch.resumed_at = Some(at(2));
    wanted.switch.disabled = Some(Disabled { at: at(3), reason: DisabledReason::Requested });
    wanted.version = world.store.update_destination(&wanted, &audit_entry()).await.unwrap().version;
    assert_eq!(world.store.destination(account.id, read.id).await.unwrap(), wanted);
    is_changed(world.store.update_destination(&read, &audit_entry()).await);

    wanted.switch = Default::default();
    wanted.version = world.store.update_destination(&wanted, &audit_entry()).await.unwrap().version;
    assert_eq!(world.store.destination(account.id, read.id).await.unwrap(), wanted);
}

pub(crate) async fn a_uid_is_unique_within_its_account_and_kind(world: World) {
    let (ours, theirs) = (world.account().await, world.account().await);
    let named = |account| Destination { uid: Some("main".into()), ..destination(account) };
    let held = world.store.create_destination(&named(&ours), &audit_entry()).await.unwrap();
    is_taken(world.store.create_destination(&named(&ours), &audit_entry()).await, "uid");
    world.store.create_destination(&named(&theirs), &audit_entry()).await.expect("another account");
    let source = Source { uid: Some("main".into()), ..source(&ours) };
    world.store.create_source(&source, &audit_entry()).await.expect("another kind");
    is_taken(
        world
            .store
            .create_source(&Source { uid: source.uid, ..crate::fixtures::source(&ours) }, &audit_entry())
            .await,
        "uid",
    );
    let route = Route { uid: Some("main".into()), ..route(&held) };
    world.store.create_route(&route, &audit_entry()).await.expect("a third kind");
    is_taken(
        world
            .store
            .create_route(&Route { uid: route.uid, ..crate::fixtures::route(&held) }, &audit_entry())
            .await,
        "uid",
    );

    let mut other = world.destination(&ours).await;
    other.uid = held.uid.clone();
    is_taken(world.store.update_destination(&other, &audit_entry()).await, "uid");
    let held = world.store.update_destination(&held, &audit_entry()).await.expect("it may keep its own");
    world.store.delete_destination(ours.id, held.id, at(1), &audit_entry()).await.unwrap();
    world.store.create_destination(&named(&ours), &audit_entry()).await.expect("a deleted one's uid is free");
}

pub(crate) async fn a_refused_write_takes_no_version(world: World) {
    let ground = world.ground().await;
    let named = Destination { uid: Some("main".into()), ..destination(&ground.account) };
    let named = world.store.create_destination(&named, &audit_entry()).await.unwrap();
    let before = world.version(&ground.account).await;
    let again = Destination { uid: named.uid, ..destination(&ground.account) };
    is_taken(world.store.create_destination(&again, &audit_entry()).await, "uid");
    let stale = Destination { version: ground.destination.version + 100, ..ground.destination.clone() };
    is_changed(world.store.update_destination(&stale, &audit_entry()).await);
    is_not_found(
        world
            .store
            .delete_route(ground.account.id, RouteId::at(at(0), chance()), at(1), &audit_entry())
            .await,
        "route",
    );
    assert_eq!(world.version(&ground.account).await, before);
}

pub(crate) async fn deleting_a_destination_hides_it_and_removes_its_routes(world: World) {
    let ground = world.ground().await;
    let kept = world.destination(&ground.account).await;
    let kept_route = world.route(&kept).await;
    let before = world.version(&ground.account).await;

    world
        .store
        .delete_destination(ground.account.id, ground.destination.id, at(1), &audit_entry())
        .await
        .unwrap();
    is_not_found(world.store.destination(ground.account.id, ground.destination.id).await, "destination");
    is_not_found(world.store.update_destination(&ground.destination, &audit_entry()).await, "destination");
    is_not_found(
        world.store.delete_destination(ground.account.id, ground.destination.id, at(2), &audit_entry()).await,
        "destination",
    );
    assert_eq!(world.store.destinations(ground.account.id, first(10)).await.unwrap().rows, [kept]);
    is_not_found(world.store.route(ground.account.id, ground.route.id).await, "route");
    let routes = world.store.routes(ground.account.id, first(10)).await.unwrap().rows;
    assert_eq!(routes.iter().map(told).collect::<Vec<_>>(), [told(&kept_route)]);
    let changes = world.store.changes(ground.account.id, before).await.unwrap();
    assert_eq!((changes.routes.len(), changes.removed_routes), (0, vec![ground.route.id]));
}

pub(crate) async fn targets_come_in_the_order_asked_for_and_see_deleted_ones(world: World) {
    let ground = world.ground().await;
    let gone = world.destination(&ground.account).await;
    world.store.delete_destination(ground.account.id, gone.id, at(9), &audit_entry()).await.unwrap();
    let ids = [gone.id, DestinationId::at(at(0), chance()), ground.destination.id];
    let records = world.store.destination_records(&ids).await.unwrap();
    assert_eq!(records.len(), 3);

    let deleted = records[0].as_ref().expect("its lane may not be empty yet");
    assert_eq!(deleted.destination.as_ref().unwrap().switch.deleted_at, Some(at(9)));
    assert!(records[1].is_none());
    let live = records[2].as_ref().expect("a live one");
    assert_eq!(
        (live.id, live.account_id, live.shard),
        (ground.destination.id, ground.account.id, ground.destination.id.shard())
    );
    assert_eq!(live.destination.as_ref().unwrap(), &ground.destination);
    assert_eq!(live.data_key, ground.account.data_key);
    assert!(live.overrides.is_empty());
    assert!(world.store.destination_records(&[]).await.unwrap().is_empty());
}

pub(crate) async fn a_target_carries_its_routes_own_settings(world: World) {
    let ground = world.ground().await;
    let patient = Route { timeout_seconds: Some(30), ..route(&ground.destination) };
    let patient = world.store.create_route(&patient, &audit_entry()).await.unwrap();
    let stubborn = Route { retry_policy: RetryPolicy::default().into(), ..route(&ground.destination) };
    let stubborn = world.store.create_route(&stubborn, &audit_entry()).await.unwrap();
    let unsigned = Route { signing: Some(Signing::default()), ..route(&ground.destination) };
    let unsigned = world.store.create_route(&unsigned, &audit_entry()).await.unwrap();

    let record = world.store.destination_records(&[ground.destination.id]).await.unwrap().remove(0).unwrap();
    assert_eq!(
        record.overrides.iter().map(told).collect::<Vec<_>>(),
        [&patient, &stubborn, &unsigned].map(told)
    );

    world.store.delete_route(ground.account.id, patient.id, at(1), &audit_entry()).await.unwrap();
    let record = world.store.destination_records(&[ground.destination.id]).await.unwrap().remove(0).unwrap();
    let ids: Vec<RouteId> = record.overrides.iter().map(|route| route.id).collect();
    assert_eq!(
        ids,
        [patient.id, stubborn.id, unsigned.id],
        "what waits by a removed route keeps its schedule"
    );
}

// --- Routes --------------------------------------------------------------------------------------------------------

pub(crate) async fn a_route_reads_back_as_it_was_created(world: World) {
    let ground = world.ground().await;
    let source = world.source(&ground.account).await;
    let mut given = route(&ground.destination);
    given.uid = Some("paid".into());
    given.name = Some("Paid invoices".into());
    given.source_id = Some(source.id);
    given.event_types = vec!["invoice.*".parse().unwrap(), "refund.**".parse().unwrap()];
    given.filter = Some(Filter::compile(&json!({"data": {"amount": {"$gt": 10}, "a\"b": "ä"}})).unwrap());
    given.retry_policy.jitter = Some(0.5);
    given.retry_policy.retry_statuses = Some(vec![RetryStatus::Class(4)]);
    given.timeout_seconds = Some(12);
    let created = world.store.create_route(&given, &audit_entry()).await.unwrap();
    assert_eq!(created.version, world.version(&ground.account).await);
    given.version = created.version;
    assert_eq!(told(&created), told(&given));
    assert_eq!(told(&world.store.route(ground.account.id, given.id).await.unwrap()), told(&given));
}

pub(crate) async fn a_route_needs_both_its_ends(world: World) {
    let (ours, theirs) = (world.ground().await, world.ground().await);
    let foreign_source = world.source(&theirs.account).await;
    let to_foreign = Route { account_id: ours.account.id, ..route(&theirs.destination) };
    is_not_found(world.store.create_route(&to_foreign, &audit_entry()).await, "destination");
    let from_foreign = Route { source_id: Some(foreign_source.id), ..route(&ours.destination) };
    is_not_found(world.store.create_route(&from_foreign, &audit_entry()).await, "source");
    let moved = Route { destination_id: theirs.destination.id, ..ours.route.clone() };
    is_not_found(world.store.update_route(&moved, &audit_entry()).await, "destination");

    let gone = world.destination(&ours.account).await;
    world.store.delete_destination(ours.account.id, gone.id, at(1), &audit_entry()).await.unwrap();
    is_not_found(world.store.create_route(&route(&gone), &audit_entry()).await, "destination");
}

pub(crate) async fn a_route_is_updated_only_over_the_version_it_was_read_with(world: World) {
    let ground = world.ground().await;
    let elsewhere = world.destination(&ground.account).await;
    let mut wanted = ground.route.clone();
    (wanted.enabled, wanted.destination_id, wanted.name) = (false, elsewhere.id, Some("moved".into()));
    wanted.version = world.store.update_route(&wanted, &audit_entry()).await.unwrap().version;
    assert_eq!(told(&world.store.route(ground.account.id, wanted.id).await.unwrap()), told(&wanted));
    is_changed(world.store.update_route(&ground.route, &audit_entry()).await);
}

pub(crate) async fn a_deleted_route_is_gone(world: World) {
    let ground = world.ground().await;
    world.store.delete_route(ground.account.id, ground.route.id, at(1), &audit_entry()).await.unwrap();
    is_not_found(world.store.route(ground.account.id, ground.route.id).await, "route");
    is_not_found(world.store.update_route(&ground.route, &audit_entry()).await, "route");
    is_not_found(
        world.store.delete_route(ground.account.id, ground.route.id, at(1), &audit_entry()).await,
        "route",
    );
    assert!(world.store.routes(ground.account.id, first(10)).await.unwrap().rows.is_empty());
}

// --- Isolation and lists -------------------------------------------------------------------------------------------

pub(crate) async fn a_foreign_id_answers_as_a_random_one(world: World) {
    let (ours, theirs) = (world.ground().await, world.ground().await);
    let (me, store) = (ours.account.id, &world.store);
    let their_source = world.source(&theirs.account).await;
    let source_id = SourceId::at(at(0), chance());
    let destination_id = DestinationId::at(at(0), chance());
    let route_id = RouteId::at(at(0), chance());
    let pairs = [
        (store.source(me, their_source.id).await.map(drop), store.source(me, source_id).await.map(drop)),
        (
            store.delete_source(me, their_source.id, at(1), &audit_entry()).await,
            store.delete_source(me, source_id, at(1), &audit_entry()).await,
        ),
        (
            store.destination(me, theirs.destination.id).await.map(drop),
            store.destination(me, destination_id).await.map(drop),
        ),
        (
            store.delete_destination(me, theirs.destination.id, at(1), &audit_entry()).await,
            store.delete_destination(me, destination_id, at(1), &audit_entry()).await,
        ),
        (store.route(me, theirs.route.id).await.map(drop), store.route(me, route_id).await.map(drop)),
        (
            store.delete_route(me, theirs.route.id, at(1), &audit_entry()).await,
            store.delete_route(me, route_id, at(1), &audit_entry()).await,
        ),
    ];
    for (foreign, random) in pairs {
        assert_eq!(foreign.unwrap_err().to_string(), random.unwrap_err().to_string());
    }
    let claimed = Destination { account_id: me, ..theirs.destination.clone() };
    is_not_found(store.update_destination(&claimed, &audit_entry()).await, "destination");
    let claimed = Source { account_id: me, ..their_source.clone() };
    is_not_found(store.update_source(&claimed, &audit_entry()).await, "source");
    let claimed = Route { account_id: me, destination_id: ours.destination.id, ..theirs.route.clone() };
    is_not_found(store.update_route(&claimed, &audit_entry()).await, "route");
    assert_eq!(
        store.destination(theirs.account.id, theirs.destination.id).await.unwrap(),
        theirs.destination
    );
}

pub(crate) async fn nothing_is_created_for_an_account_that_is_not_there(world: World) {
    let nobody = account();
    is_not_found(world.store.create_source(&source(&nobody), &audit_entry()).await, "account");
    is_not_found(world.store.create_destination(&destination(&nobody), &audit_entry()).await, "account");
    is_not_found(world.store.create_route(&route(&destination(&nobody)), &audit_entry()).await, "account");
}

pub(crate) async fn lists_page_from_newest_to_oldest(world: World) {
    let account = world.account().await;
    let (mut sources, mut destinations, mut routes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        sources.insert(0, world.source(&account).await.id);
        let destination = world.destination(&account).await;
        destinations.insert(0, destination.id);
        routes.insert(0, world.route(&destination).await.id);
    }
    let found = world.store.sources(account.id, first(2)).await.unwrap().rows;
    assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), sources[..2]);
    let rest =
        world.store.sources(account.id, Page { before: Some(sources[1]), limit: 9 }).await.unwrap().rows;
    assert_eq!(rest.iter().map(|row| row.id).collect::<Vec<_>>(), sources[2..]);

    let found = world.store.destinations(account.id, first(2)).await.unwrap().rows;
    assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), destinations[..2]);
    let rest = world
        .store
        .destinations(account.id, Page { before: Some(destinations[1]), limit: 9 })
        .await
        .unwrap()
        .rows;
    assert_eq!(rest.iter().map(|row| row.id).collect::<Vec<_>>(), destinations[2..]);

    let found = world.store.routes(account.id, first(2)).await.unwrap().rows;
    assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), routes[..2]);
    let rest = world.store.routes(account.id, Page { before: Some(routes[1]), limit: 9 }).await.unwrap().rows;
    assert_eq!(rest.iter().map(|row| row.id).collect::<Vec<_>>(), routes[2..]);
}

pub(crate) async fn of_many_updates_at_once_one_is_made(world: World) {
    let ground = world.ground().await;
    let attempts = (0..8).map(|n| {
        let name = format!("Billing {n}");
        let (store, wanted) = (world.store.clone(), Destination { name, ..ground.destination.clone() });
        tokio::spawn(async move { store.update_destination(&wanted, &audit_entry()).await })
    });
    let mut made = Vec::new();
    for attempt in attempts.collect::<Vec<_>>() {
        match attempt.await.expect("no panic") {
            Ok(updated) => made.push(updated),
            refused => is_changed(refused),
        }
    }
    assert_eq!(made, [world.store.destination(ground.account.id, ground.destination.id).await.unwrap()]);
}

// --- What other nodes must see -------------------------------------------------------------------------------------

pub(crate) async fn versions_come_in_the_order_asked_for(world: World) {
    let (one, two) = (world.account().await, world.account().await);
    world.destination(&two).await;
    let asked = [two.id, AccountId::at(at(0), chance()), one.id, two.id];
    let versions = world.store.versions(&asked).await.unwrap();
    assert_eq!(versions, [Some(2), None, Some(1), Some(2)]);
    assert_eq!(world.store.versions(&[]).await.unwrap(), []);
}

pub(crate) async fn a_probe_is_a_change_that_the_owner_sees(world: World) {
    let ground = world.ground().await;
    let (account, id) = (ground.account.id, ground.destination.id);
    assert_eq!(ground.destination.switch.probed_at, None);
    let before = world.version(&ground.account).await;
    let probed = world.store.probe(account, id, at(5), &audit_entry()).await.unwrap();
    assert_eq!((probed.switch.probed_at, probed.version), (Some(at(5)), before + 1));
    assert_eq!(world.version(&ground.account).await, before + 1);
    assert_eq!(world.store.destination(account, id).await.unwrap(), probed);
    assert_eq!(
        world.store.destinations(account, first(1)).await.unwrap().rows,
        std::slice::from_ref(&probed)
    );
    let record = world.store.destination_records(&[id]).await.unwrap().remove(0).expect("a record");
    assert_eq!(record.destination.unwrap(), probed);
    assert_eq!(
        world.store.probe(account, id, at(6), &audit_entry()).await.unwrap().switch.probed_at,
        Some(at(6))
    );

    let other = world.account().await;
    is_not_found(world.store.probe(other.id, id, at(7), &audit_entry()).await, "destination");
    world.store.delete_destination(account, id, at(8), &audit_entry()).await.unwrap();
    is_not_found(world.store.probe(account, id, at(9), &audit_entry()).await, "destination");
    let record = world.store.destination_records(&[id]).await.unwrap().remove(0).expect("a record");
    assert_eq!(record.destination.unwrap().switch.probed_at, Some(at(6)));
}

pub(crate) async fn an_update_leaves_the_probe_alone(world: World) {
    let ground = world.ground().await;
    let (account, id) = (ground.account.id, ground.destination.id);
    let mut destination = world.store.probe(account, id, at(5), &audit_entry()).await.unwrap();
    destination.name = "Billing, once more".into();
    world.store.update_destination(&destination, &audit_entry()).await.unwrap();
    assert_eq!(world.store.destination(account, id).await.unwrap().switch.probed_at, Some(at(5)));
}

pub(crate) async fn changed_destinations_are_those_that_changed_and_those_whose_routes_did(world: World) {
    let account = world.account().await;
    let mut destinations = Vec::new();
    for _ in 0..6 {
        destinations.push(world.destination(&account).await);
    }
    let ids: Vec<DestinationId> = destinations.iter().map(|row| row.id).collect();
    let route = world.route(&destinations[3]).await;
    let since = world.version(&account).await;
    let changed = async |since, after, limit| {
        world.store.changed_destinations(account.id, since, after, limit).await.unwrap()
    };
    assert_eq!(changed(since, None, 9).await, []);
    assert_eq!(changed(0, None, 9).await, ids);
    world.store.delete_destination(account.id, ids[5], at(1), &audit_entry()).await.unwrap();
    world.store.update_route(&Route { timeout_seconds: Some(3), ..route }, &audit_entry()).await.unwrap();
    world.store.probe(account.id, ids[0], at(2), &audit_entry()).await.unwrap();
    world.ground().await;
    assert_eq!(changed(since, None, 9).await, [ids[0], ids[3], ids[5]]);
    assert_eq!(changed(since, None, 2).await, [ids[0], ids[3]]);
    assert_eq!(changed(since, Some(ids[3]), 2).await, [ids[5]]);
    assert_eq!(changed(since + 1, None, 9).await, [ids[0], ids[3]]);
}
