//! Links by which somebody sees one account.

use crate::fixtures::*;
use domain::{
    account::{Account, ApiKey, KeyKind},
    id::{AccountId, ApiKeyId, PortalLinkId, SessionId, UserId},
    limits,
    portal_link::PortalLink,
    session::{Holder, Session, User, UserRole},
    testing::audit_entry,
    time::Timestamp,
};
use std::time::Duration;
use store::{HeldPortalLink, HeldSession, ListedPortalLink, Maker, NewSession, Page, SessionOf};

fn hash() -> [u8; 32] {
    let mut hash = [9; 32];
    hash[..16].copy_from_slice(&chance().to_be_bytes());
    hash
}

/// Of an operator.
async fn key(world: &World) -> ApiKey {
    let lookup = format!("{:012}", chance() % 1_000_000_000_000);
    let key = ApiKey { kind: KeyKind::Operator, expires_at: None, ..api_key(None, &lookup) };
    world.store.create_api_key(&key, &audit_entry()).await.unwrap();
    key
}

async fn user(world: &World) -> User {
    let user = User {
        id: UserId::at(at(0), chance()),
        name: format!("ada-{}", chance()),
        password: "$argon2id$…".into(),
        role: UserRole::Operator,
        accounts: Vec::new(),
        created_at: at(0),
        updated_at: at(0),
    };
    world.store.create_user(&user, &audit_entry()).await.unwrap();
    user
}

fn link(account: &Account, maker: impl Into<Holder>, now: Timestamp) -> PortalLink {
    PortalLink {
        id: PortalLinkId::at(now, chance()),
        hash: hash(),
        account_id: account.id,
        maker: maker.into(),
        read_only: chance().is_multiple_of(2),
        created_at: now,
        expires_at: now.plus(Duration::from_secs(3_600)),
        session_length: Duration::from_secs(7_200),
        opened_at: None,
    }
}

async fn made(world: &World, account: &Account, maker: impl Into<Holder>, now: Timestamp) -> PortalLink {
    let link = link(account, maker, now);
    world.store.create_portal_link(&link, &audit_entry()).await.unwrap();
    link
}

fn new_session(link: &PortalLink, now: Timestamp) -> NewSession {
    let session = Session {
        id: SessionId::at(now, chance()),
        hash: hash(),
        holder: Holder::PortalLink(link.id),
        account_id: Some(link.account_id),
        created_at: now,
        seen_at: now,
        expires_at: now.plus(link.session_length),
        client: "192.0.2.1".into(),
        user_agent: None,
    };
    NewSession { session, owner: Some(link.account_id), link: None, replaces: None }
}

async fn opened(world: &World, link: &PortalLink, now: Timestamp) -> Session {
    let new = new_session(link, now);
    world.store.open_portal_link(link, &new, &audit_entry()).await.unwrap();
    new.session
}

async fn is_there(world: &World, session: &Session) -> bool {
    world.store.session(&session.hash).await.unwrap().is_some()
}

async fn listed(world: &World, account: AccountId) -> Vec<ListedPortalLink> {
    world.store.portal_links(account, first(1_000)).await.unwrap()
}

async fn written(world: &World, account: AccountId) -> i64 {
    world.store.audit_ends(Some(account)).await.unwrap().map_or(0, |ends| ends.last.number)
}

pub(crate) async fn a_portal_link_reads_back_with_its_maker(world: World) {
    let (account, key, ada) = (world.account().await, key(&world).await, user(&world).await);
    let (by_key, by_user) = (made(&world, &account, key.id, at(1)).await, {
        made(&world, &account, Holder::User(ada.id), at(2)).await
    });
    let found = async |link: &PortalLink| world.store.portal_link(&link.hash).await.unwrap();
    assert_eq!(
        found(&by_key).await,
        Some(HeldPortalLink { link: by_key.clone(), maker: Maker::Key(key.clone()) })
    );
    assert_eq!(
        found(&by_user).await,
        Some(HeldPortalLink { link: by_user.clone(), maker: Maker::User(ada) })
    );
    assert_eq!(world.store.portal_link(&hash()).await.unwrap(), None);
    let nobodys = made(&world, &account, ApiKeyId::at(at(0), chance()), at(3)).await;
    assert_eq!(found(&nobodys).await, None, "whoever made it is gone");

    let session = opened(&world, &by_key, at(10)).await;
    let link = PortalLink { opened_at: Some(at(10)), ..by_key };
    let of = SessionOf::PortalLink(HeldPortalLink { link, maker: Maker::Key(key) });
    let found = world.store.session(&session.hash).await.unwrap();
    assert_eq!(found, Some(HeldSession { session, of }));
}

pub(crate) async fn a_portal_link_is_opened_once_and_in_time(world: World) {
    let (account, key) = (world.account().await, key(&world).await);
    let given = made(&world, &account, key.id, at(1)).await;
    let open = async |now: Timestamp| {
        let new = new_session(&given, now);
        world.store.open_portal_link(&given, &new, &audit_entry()).await.map(|()| new.session)
    };
    is_not_found(open(given.expires_at).await, "portal link");
    let session = open(at(10)).await.unwrap();
    is_not_found(open(at(11)).await, "portal link");
    assert!(is_there(&world, &session).await);
    assert_eq!(world.store.sessions(Some(session.holder), first(9)).await.unwrap().len(), 1);
}

pub(crate) async fn of_many_that_open_a_portal_link_at_once_one_does(world: World) {
    let (account, key) = (world.account().await, key(&world).await);
    let given = made(&world, &account, key.id, at(1)).await;
    let mut openings = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (store, given) = (world.store.clone(), given.clone());
        let new = new_session(&given, at(2));
        openings.spawn(async move { store.open_portal_link(&given, &new, &audit_entry()).await.is_ok() });
    }
    let opened = openings.join_all().await.into_iter().filter(|opened| *opened).count();
    assert_eq!(opened, 1);
}

pub(crate) async fn portal_links_are_listed_by_account_with_their_sessions(world: World) {
    let (account, other, key) = (world.account().await, world.account().await, key(&world).await);
    let first_made = made(&world, &account, key.id, at(1)).await;
    made(&world, &other, key.id, at(2)).await;
    let second_made = made(&world, &account, key.id, at(3)).await;
    let session = opened(&world, &first_made, at(10)).await;
    let unopened = ListedPortalLink { link: second_made.clone(), session: None };
    let link = PortalLink { opened_at: Some(at(10)), ..first_made.clone() };
    let open = ListedPortalLink { link: link.clone(), session: Some(session.clone()) };
    assert_eq!(listed(&world, account.id).await, [unopened, open.clone()]);
    let page = Page { before: Some(second_made.id), limit: 1 };
    assert_eq!(world.store.portal_links(account.id, page).await.unwrap(), [open]);
    world.store.end_session(None, session.id, Some(account.id), &audit_entry()).await.unwrap();
    let page = Page { before: Some(second_made.id), limit: 1 };
    let over = ListedPortalLink { link, session: None };
    assert_eq!(world.store.portal_links(account.id, page).await.unwrap(), [over]);
}

pub(crate) async fn a_revoked_portal_link_is_gone_with_its_session(world: World) {
    let (account, other, key) = (world.account().await, world.account().await, key(&world).await);
    let given = made(&world, &account, key.id, at(1)).await;
    let session = opened(&world, &given, at(2)).await;
    let revoke =
        async |account: &Account| world.store.revoke_portal_link(account.id, given.id, &audit_entry()).await;
    is_not_found(revoke(&other).await, "portal link");
    assert!(is_there(&world, &session).await, "another account's is not there");
    revoke(&account).await.unwrap();
    assert!(!is_there(&world, &session).await);
    assert_eq!(world.store.portal_link(&given.hash).await.unwrap(), None);
    assert_eq!(world.store.sessions(Some(session.holder), first(9)).await.unwrap(), []);
    is_not_found(revoke(&account).await, "portal link");
}

pub(crate) async fn what_is_done_to_a_portal_link_is_written_down_in_its_accounts_chain(world: World) {
    let (account, key) = (world.account().await, key(&world).await);
    let before = written(&world, account.id).await;
    let given = made(&world, &account, key.id, at(1)).await;
    assert_eq!(written(&world, account.id).await, before + 1);
    opened(&world, &given, at(2)).await;
    assert_eq!(written(&world, account.id).await, before + 2);
    let again = world.store.open_portal_link(&given, &new_session(&given, at(3)), &audit_entry()).await;
    is_not_found(again, "portal link");
    assert_eq!(written(&world, account.id).await, before + 2, "what is refused leaves none");
    world.store.revoke_portal_link(account.id, given.id, &audit_entry()).await.unwrap();
    assert_eq!(written(&world, account.id).await, before + 3);
}

pub(crate) async fn a_portal_link_ends_with_whoever_made_it(world: World) {
    let (account, key, other) = (world.account().await, key(&world).await, key(&world).await);
    let (ada, bob) = (user(&world).await, user(&world).await);
    let kept = made(&world, &account, other.id, at(1)).await;
    let kept_session = opened(&world, &kept, at(2)).await;
    let ends = async |maker: Holder| {
        let (unopened, given) =
            (made(&world, &account, maker, at(1)).await, made(&world, &account, maker, at(1)).await);
        (unopened, opened(&world, &given, at(2)).await)
    };
    let (unopened, session) = ends(key.id.into()).await;
    world.store.revoke_api_key(None, key.id, at(3), &audit_entry()).await.unwrap();
    assert!(!is_there(&world, &session).await, "a revoked key");
    assert_eq!(world.store.portal_link(&unopened.hash).await.unwrap(), None);

    let (unopened, session) = ends(Holder::User(ada.id)).await;
    world.store.delete_user(ada.id, &audit_entry()).await.unwrap();
    assert!(!is_there(&world, &session).await, "a removed user");
    assert_eq!(world.store.portal_link(&unopened.hash).await.unwrap(), None);

    let (unopened, session) = ends(Holder::User(bob.id)).await;
    let mut new = new_session(&kept, at(3));
    (new.session.holder, new.session.account_id, new.owner) = (Holder::User(bob.id), None, None);
    world.store.change_password(bob.id, "$argon2id$other", &new, &audit_entry()).await.unwrap();
    assert!(!is_there(&world, &session).await, "another password");
    assert_eq!(world.store.portal_link(&unopened.hash).await.unwrap(), None);

    assert!(is_there(&world, &kept_session).await, "another key's go on");
    assert_eq!(listed(&world, account.id).await.len(), 1);
}

pub(crate) async fn a_deleted_account_has_no_portal_links(world: World) {
    let (account, key) = (world.account().await, key(&world).await);
    let (unopened, given) =
        (made(&world, &account, key.id, at(1)).await, made(&world, &account, key.id, at(1)).await);
    let session = opened(&world, &given, at(2)).await;
    world.store.delete_account(account.id, at(3), &audit_entry()).await.unwrap();
    assert!(!is_there(&world, &session).await);
    assert_eq!(world.store.portal_link(&unopened.hash).await.unwrap(), None);
    assert_eq!(listed(&world, account.id).await, []);
    let late = world.store.create_portal_link(&link(&account, key.id, at(4)), &audit_entry()).await;
    is_not_found(late, "account");
}

pub(crate) async fn of_many_portal_links_of_an_account_the_newest_stay_and_what_is_over_goes_first(
    world: World,
) {
    let (account, other, key) = (world.account().await, world.account().await, key(&world).await);
    let foreign = made(&world, &other, key.id, at(1)).await;
    let oldest = made(&world, &account, key.id, at(1)).await;
    let second = made(&world, &account, key.id, at(2)).await;
    let session = opened(&world, &oldest, at(3)).await;
    let over = PortalLink { expires_at: at(5), ..link(&account, key.id, at(4)) };
    world.store.create_portal_link(&over, &audit_entry()).await.unwrap();
    for second in 0..limits::PORTAL_LINKS_PER_ACCOUNT as u64 - 3 {
        made(&world, &account, key.id, at(10 + second)).await;
    }
    assert_eq!(listed(&world, account.id).await.len(), limits::PORTAL_LINKS_PER_ACCOUNT);
    made(&world, &account, key.id, at(1_000)).await;
    let ids = async || -> Vec<_> {
        listed(&world, account.id).await.into_iter().map(|listed| listed.link.id).collect()
    };
    let now = ids().await;
    assert_eq!(now.len(), limits::PORTAL_LINKS_PER_ACCOUNT);
    assert!(!now.contains(&over.id) && now.contains(&oldest.id), "what is over goes first");
    assert!(is_there(&world, &session).await);
    made(&world, &account, key.id, at(1_001)).await;
    let now = ids().await;
    assert!(!now.contains(&oldest.id) && now.contains(&second.id), "then the oldest");
    assert!(!is_there(&world, &session).await, "with its session");
    assert_eq!(listed(&world, other.id).await[0].link.id, foreign.id, "another account's stay");
}

pub(crate) async fn portal_links_that_are_over_are_pruned_in_steps(world: World) {
    let (account, key) = (world.account().await, key(&world).await);
    for second in 1..=3 {
        made(&world, &account, key.id, at(second)).await;
    }
    let open = made(&world, &account, key.id, at(4)).await;
    opened(&world, &open, at(3_000)).await;
    let until = at(4_000);
    let prune = async || world.store.prune_sessions(at(0), until, 2).await.unwrap();
    assert_eq!([prune().await, prune().await, prune().await], [2, 1, 0]);
    let left = listed(&world, account.id).await;
    assert_eq!(left.len(), 1, "one with a session lasts as long as that may");
    assert_eq!(left[0].link.id, open.id);
    assert_eq!(world.store.prune_sessions(at(0), at(3_000 + 7_200), 2).await.unwrap(), 1);
}
