//! What is answered is what a client reads: every answer reads back as the type of `contract` that it is, whole and
//! without anything left over, and every input of `contract` is taken as it is written.

use crate::{
    on_every_store,
    world::{World, text},
};
use contract::{
    AccountView, ApiKeyInput, ApiKeyView, AttemptView, DeadLetterGroupView, DeliveryDetailView,
    DeliveryQuery, DeliveryView, DestinationStatsView, DestinationView, EventDetailView, EventView,
    FanoutStatsView, HoldRecordView, IngestUrlView, ListBody, NewAccount, NewApiKeyView, NewDestination,
    NewRoute, NewSource, NodeView, PreviewView, Problem, Publish, ReplayEstimateView, ReplayInput,
    ReplayView, RouteView, SecretView, SourceView, StatsView,
};
use domain::outcome::Outcome;
use http::Method;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Reads an answer and writes it again.
#[track_caller]
fn same<T: Serialize + DeserializeOwned>(answer: Value) -> T {
    let read: T = serde_json::from_value(answer.clone()).unwrap_or_else(|error| panic!("{error}: {answer}"));
    assert_eq!(serde_json::to_value(&read).unwrap(), answer);
    read
}

async fn get<T: Serialize + DeserializeOwned>(world: &World, path: &str) -> T {
    same(world.get(path).await.expect(200))
}

async fn make<T: Serialize + DeserializeOwned>(world: &World, path: &str, input: impl Serialize) -> T {
    same(world.post(path, json!(input)).await.expect(201))
}

on_every_store! {
    async fn what_is_answered_is_what_a_client_reads(world) {
        let source: SourceView = make(&world, "/v1/sources", NewSource::new("Shop")).await;
        let orders = NewDestination::new("Orders", "https://example.com/hooks");
        let destination: DestinationView = make(&world, "/v1/destinations", orders).await;
        let route: RouteView = make(&world, "/v1/routes", NewRoute::to(destination.id)).await;
        make::<RouteView>(&world, "/v1/routes", NewRoute::from_source(source.id, destination.id)).await;
        let key = ApiKeyInput { name: "reads".into(), ..ApiKeyInput::default() };
        make::<NewApiKeyView>(&world, "/v1/api-keys", key).await;
        let (operator, other) = (&world.operator_key, json!(NewAccount::new("Other")));
        let other = world.ask_as(operator, Method::POST, "/v1/accounts", Some(other)).await;
        let other: AccountView = same(other.expect(201));
        let accounts = world.ask_as(operator, Method::GET, "/v1/accounts", None).await.expect(200);
        assert!(same::<ListBody<AccountView>>(accounts).data.contains(&other));

        let event = Publish::json("invoice.paid", "{\"amount\":5}").unwrap();
        let event = text(&world.post("/v1/events", json!(event)).await.expect(202)["id"]);
        let waiting: EventDetailView = get(&world, &format!("/v1/events/{event}")).await;
        let delivery = waiting.deliveries[0].id;
        get::<DeliveryDetailView>(&world, &format!("/v1/deliveries/{delivery}")).await;
        world.attempt(&destination.id.to_string(), &delivery.to_string(), Outcome::Rejected, 404).await;
        let dead: DeliveryDetailView = get(&world, &format!("/v1/deliveries/{delivery}")).await;
        assert_eq!((dead.attempts.len(), dead.delivery.route_id), (1, route.id));

        let filter = DeliveryQuery { destination_id: vec![destination.id], ..DeliveryQuery::default() };
        let asked = ReplayInput { filter: Some(filter), ..ReplayInput::default() };
        let estimate = ReplayInput { dry_run: true, ..asked.clone() };
        same::<ReplayEstimateView>(world.post("/v1/replays", json!(estimate)).await.expect(200));
        let replay: ReplayView = same(world.post("/v1/replays", json!(asked)).await.expect(202));
        assert_eq!(get::<ReplayView>(&world, &format!("/v1/replays/{}", replay.id)).await.matched, 1);
        let preview = json!({ "event_id": event });
        same::<PreviewView>(world.post("/v1/routes/preview", preview).await.expect(200));
        same::<DestinationView>(world.tell(&format!("/v1/destinations/{}/pause", destination.id)).await.expect(200));

        let of = |rest: &str| format!("/v1/destinations/{}{rest}", destination.id);
        assert!(get::<DestinationView>(&world, &of("")).await.hold.is_some());
        get::<SecretView>(&world, &of("/secret")).await;
        assert_eq!(get::<ListBody<AttemptView>>(&world, &of("/attempts")).await.data.len(), 1);
        assert_eq!(get::<ListBody<HoldRecordView>>(&world, &of("/holds")).await.data.len(), 1);
        get::<DestinationStatsView>(&world, &of("/stats")).await;
        get::<StatsView>(&world, "/v1/stats").await;
        get::<FanoutStatsView>(&world, "/v1/stats/fanout").await;
        get::<AccountView>(&world, "/v1/account").await;
        assert!(!get::<ListBody<ApiKeyView>>(&world, "/v1/api-keys").await.data.is_empty());
        assert_eq!(get::<ListBody<DestinationView>>(&world, "/v1/destinations").await.data.len(), 1);
        let unrevealed = SourceView { ingest_url: None, ..source.clone() };
        assert_eq!(get::<ListBody<SourceView>>(&world, "/v1/sources").await.data, [unrevealed]);
        let revealed: IngestUrlView = get(&world, &format!("/v1/sources/{}/ingest-url", source.id)).await;
        assert_eq!(Some(revealed.ingest_url), source.ingest_url);
        assert_eq!(get::<ListBody<RouteView>>(&world, "/v1/routes").await.data.len(), 2);
        assert_eq!(get::<ListBody<EventView>>(&world, "/v1/events").await.data.len(), 1);
        assert_eq!(get::<ListBody<DeliveryView>>(&world, "/v1/deliveries").await.data, [dead.delivery]);
        assert_eq!(get::<ListBody<ReplayView>>(&world, "/v1/replays").await.data.len(), 1);
        assert_eq!(get::<ListBody<DeadLetterGroupView>>(&world, "/v1/dead-letters/groups").await.data[0].count, 1);
        assert!(!get::<ListBody<NodeView>>(&world, "/v1/nodes").await.data.is_empty());
        let problem: Problem = same(world.post("/v1/destinations", json!({ "name": "" })).await.expect(422));
        assert_eq!((&*problem.code, problem.errors.is_empty()), ("validation_failed", false));
    }
}
