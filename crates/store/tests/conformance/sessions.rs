//! Sessions of the dashboard, links that are opened once, and users.

use crate::fixtures::*;
use domain::{
    account::ApiKey,
    id::{AccountId, ApiKeyId, SessionId, UserId},
    limits,
    session::{Holder, LinkPurpose, Session, SignInLink, User, UserRole},
    testing::audit_entry,
    time::Timestamp,
};
use std::time::Duration;
use store::{HeldSession, NewSession, Page, SessionOf};

fn hash() -> [u8; 32] {
    let mut hash = [7; 32];
    hash[..16].copy_from_slice(&chance().to_be_bytes());
    hash
}

fn new_session(holder: impl Into<Holder>, now: Timestamp) -> NewSession {
    let session = Session {
        id: SessionId::at(now, chance()),
        hash: hash(),
        holder: holder.into(),
        account_id: None,
        created_at: now,
        seen_at: now,
        expires_at: now.plus(limits::SESSION_LENGTH),
        client: "192.0.2.1".into(),
        user_agent: Some("Mozilla/5.0 (“any”)".into()),
    };
    NewSession { session, owner: None, link: None, replaces: None }
}

fn link(purpose: LinkPurpose, key_id: Option<ApiKeyId>) -> SignInLink {
    SignInLink { hash: hash(), purpose, key_id, expires_at: at(3_600) }
}

fn user(name: &str) -> User {
    User {
        id: UserId::at(at(0), chance()),
        name: name.into(),
        password: "$argon2id$…".into(),
        role: UserRole::Editor,
        accounts: vec![AccountId::at(at(0), chance()), AccountId::at(at(0), chance())],
        created_at: at(0),
        updated_at: at(0),
    }
}

async fn key(world: &World) -> ApiKey {
    let account = world.account().await;
    let lookup = format!("{:012}", chance() % 1_000_000_000_000);
    let key = ApiKey { expires_at: None, ..api_key(Some(&account), &lookup) };
    world.store.create_api_key(&key, &audit_entry()).await.unwrap();
    key
}

async fn begun(world: &World, holder: impl Into<Holder>, now: Timestamp) -> Session {
    let new = new_session(holder, now);
    world.store.create_session(&new, &audit_entry()).await.unwrap();
    new.session
}

async fn is_there(world: &World, session: &Session) -> bool {
    world.store.session(&session.hash).await.unwrap().is_some()
}

pub(crate) async fn a_session_reads_back_with_its_holder(world: World) {
    let key = key(&world).await;
    let mut new = new_session(key.id, at(1));
    new.session.account_id = key.account_id;
    new.owner = key.account_id;
    world.store.create_session(&new, &audit_entry()).await.unwrap();
    let found = world.store.session(&new.session.hash).await.unwrap();
    assert_eq!(found, Some(HeldSession { session: new.session.clone(), of: SessionOf::Key(key) }));
    assert_eq!(world.store.session(&hash()).await.unwrap(), None);

    let ada = user("ada");
    world.store.create_user(&ada, &audit_entry()).await.unwrap();
    let session = begun(&world, Holder::User(ada.id), at(2)).await;
    let found = world.store.session(&session.hash).await.unwrap();
    assert_eq!(found, Some(HeldSession { session, of: SessionOf::User(ada) }));
    let nobodys = begun(&world, Holder::User(UserId::at(at(0), chance())), at(2)).await;
    assert!(!is_there(&world, &nobodys).await, "whoever is gone has no session");
}

pub(crate) async fn what_begins_and_ends_a_session_is_written_down(world: World) {
    let key = key(&world).await;
    let count = async || {
        let ends = world.store.audit_ends(key.account_id).await.unwrap();
        ends.map_or(0, |ends| ends.last.number)
    };
    let before = count().await;
    let new = NewSession { owner: key.account_id, ..new_session(key.id, at(1)) };
    world.store.create_session(&new, &audit_entry()).await.unwrap();
    assert_eq!(count().await, before + 1);
    let (id, holder) = (new.session.id, Some(Holder::Key(key.id)));
    world.store.end_session(holder, id, key.account_id, &audit_entry()).await.unwrap();
    assert_eq!(count().await, before + 2);
    is_not_found(world.store.end_session(holder, id, key.account_id, &audit_entry()).await, "session");
    assert_eq!(count().await, before + 2, "what is refused leaves none");
}

pub(crate) async fn sessions_are_listed_by_holder_newest_first(world: World) {
    let (one, two) = (key(&world).await, key(&world).await);
    let first_of_one = begun(&world, one.id, at(1)).await;
    let of_two = begun(&world, two.id, at(2)).await;
    let second_of_one = begun(&world, one.id, at(3)).await;
    let ids = |found: Vec<Session>| found.into_iter().map(|session| session.id).collect::<Vec<_>>();
    let of = async |holder, page| ids(world.store.sessions(holder, page).await.unwrap());
    assert_eq!(of(Some(one.id.into()), first(10)).await, [second_of_one.id, first_of_one.id]);
    assert_eq!(of(None, first(2)).await, [second_of_one.id, of_two.id]);
    let page = Page { before: Some(second_of_one.id), limit: 10 };
    assert_eq!(of(Some(one.id.into()), page).await, [first_of_one.id]);
}

pub(crate) async fn a_session_is_ended_by_its_holder_or_by_anybody_who_may(world: World) {
    let (one, two) = (key(&world).await, key(&world).await);
    let (first, second) = (begun(&world, one.id, at(1)).await, begun(&world, one.id, at(2)).await);
    let foreign = world.store.end_session(Some(two.id.into()), first.id, None, &audit_entry()).await;
    is_not_found(foreign, "session");
    assert!(is_there(&world, &first).await);
    world.store.end_session(Some(one.id.into()), first.id, None, &audit_entry()).await.unwrap();
    world.store.end_session(None, second.id, None, &audit_entry()).await.unwrap();
    assert!(!is_there(&world, &first).await && !is_there(&world, &second).await);
}

pub(crate) async fn a_new_session_replaces_the_one_it_names(world: World) {
    let key = key(&world).await;
    let before = begun(&world, key.id, at(1)).await;
    let new = NewSession { replaces: Some(before.id), ..new_session(key.id, at(2)) };
    world.store.create_session(&new, &audit_entry()).await.unwrap();
    assert!(!is_there(&world, &before).await);
    assert!(is_there(&world, &new.session).await);
}

pub(crate) async fn of_many_sessions_of_a_holder_the_newest_stay(world: World) {
    let (key, other) = (key(&world).await, key(&world).await);
    let others = begun(&world, other.id, at(0)).await;
    let mut begun_ones = Vec::new();
    for second in 0..limits::SESSIONS_PER_HOLDER as u64 + 3 {
        begun_ones.push(begun(&world, key.id, at(second)).await);
    }
    let left = world.store.sessions(Some(key.id.into()), first(1_000)).await.unwrap();
    assert_eq!(left.len(), limits::SESSIONS_PER_HOLDER);
    assert!(!is_there(&world, &begun_ones[2]).await);
    assert!(is_there(&world, &begun_ones[3]).await && is_there(&world, &others).await);
}

pub(crate) async fn a_sessions_use_and_choice_are_kept(world: World) {
    let key = key(&world).await;
    let session = begun(&world, key.id, at(1)).await;
    world.store.touch_session(session.id, at(90)).await.unwrap();
    world.store.touch_session(session.id, at(60)).await.unwrap();
    world.store.touch_session(SessionId::at(at(0), chance()), at(60)).await.unwrap();
    let account = world.account().await.id;
    world.store.choose_account(session.id, Some(account)).await.unwrap();
    let found = world.store.session(&session.hash).await.unwrap().unwrap().session;
    assert_eq!((found.seen_at, found.account_id), (at(90), Some(account)), "a late note moves nothing back");
    world.store.choose_account(session.id, None).await.unwrap();
    let found = world.store.session(&session.hash).await.unwrap().unwrap().session;
    assert_eq!(found.account_id, None);
    is_not_found(world.store.choose_account(SessionId::at(at(0), chance()), None).await, "session");
}

pub(crate) async fn revoking_a_key_ends_its_sessions(world: World) {
    let (key, other) = (key(&world).await, key(&world).await);
    let (session, others) = (begun(&world, key.id, at(1)).await, begun(&world, other.id, at(1)).await);
    world.store.revoke_api_key(key.account_id, key.id, at(2), &audit_entry()).await.unwrap();
    assert!(!is_there(&world, &session).await);
    assert!(is_there(&world, &others).await);
}

pub(crate) async fn sessions_and_links_that_are_over_are_pruned_in_steps(world: World) {
    let key = key(&world).await;
    let mut old = Vec::new();
    for second in 0..3 {
        old.push(begun(&world, key.id, at(second)).await);
    }
    let fresh = begun(&world, key.id, at(100)).await;
    let over = SignInLink { expires_at: at(50), ..link(LinkPurpose::SignIn, Some(key.id)) };
    let good = SignInLink { expires_at: at(51), ..link(LinkPurpose::SignIn, Some(key.id)) };
    for link in [&over, &good] {
        world.store.create_link(link).await.unwrap();
    }
    let prune = async || world.store.prune_sessions(at(100), at(50), 2).await.unwrap();
    assert_eq!([prune().await, prune().await, prune().await], [2, 2, 0]);
    assert!(is_there(&world, &fresh).await && !is_there(&world, &old[2]).await);
    assert_eq!(world.store.link(&over.hash).await.unwrap(), None);
    assert_eq!(world.store.link(&good.hash).await.unwrap(), Some(good));
}

pub(crate) async fn a_link_is_opened_once(world: World) {
    let key = key(&world).await;
    let given = link(LinkPurpose::SignIn, Some(key.id));
    world.store.create_link(&given).await.unwrap();
    assert_eq!(world.store.link(&given.hash).await.unwrap(), Some(given.clone()));
    assert_eq!(world.store.key_of_link(&given.hash).await.unwrap(), Some(key.clone()));
    let open = async |now: Timestamp| {
        let new = NewSession { link: Some(given.hash), ..new_session(key.id, now) };
        world.store.create_session(&new, &audit_entry()).await.map(|()| new.session)
    };
    is_not_found(open(given.expires_at).await, "sign-in link");
    let session = open(at(10)).await.unwrap();
    assert!(is_there(&world, &session).await);
    is_not_found(open(at(11)).await, "sign-in link");
    assert_eq!(world.store.sessions(Some(key.id.into()), first(9)).await.unwrap().len(), 1);
    assert_eq!(world.store.key_of_link(&given.hash).await.unwrap(), None);
}

pub(crate) async fn of_many_that_open_a_link_at_once_one_does(world: World) {
    let key = key(&world).await;
    let given = link(LinkPurpose::SignIn, Some(key.id));
    world.store.create_link(&given).await.unwrap();
    let mut openings = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = world.store.clone();
        let new = NewSession { link: Some(given.hash), ..new_session(key.id, at(1)) };
        openings.spawn(async move { store.create_session(&new, &audit_entry()).await.is_ok() });
    }
    let opened = openings.join_all().await.into_iter().filter(|opened| *opened).count();
    assert_eq!(opened, 1);
}

pub(crate) async fn the_first_user_is_made_by_a_set_up_link(world: World) {
    let (mine, others) = (link(LinkPurpose::SetUp, None), link(LinkPurpose::SetUp, None));
    for link in [&mine, &others] {
        world.store.create_link(link).await.unwrap();
    }
    let set_up = async |link: &SignInLink, name: &str, now: Timestamp| {
        let user = user(name);
        let new = NewSession { link: Some(link.hash), ..new_session(Holder::User(user.id), now) };
        world.store.set_up(&user, &new, &audit_entry()).await.map(|()| new.session)
    };
    is_not_found(set_up(&mine, "late", mine.expires_at).await, "set-up link");
    assert_eq!(world.store.users(first(9)).await.unwrap(), []);
    let session = set_up(&mine, "ada", at(1)).await.unwrap();
    assert!(is_there(&world, &session).await);
    is_not_found(set_up(&mine, "bob", at(2)).await, "set-up link");
    is_not_found(set_up(&others, "bob", at(2)).await, "set-up link");
    let another = link(LinkPurpose::SetUp, None);
    world.store.create_link(&another).await.unwrap();
    is_not_found(set_up(&another, "bob", at(2)).await, "set-up link");
    let signs_in = NewSession { link: Some(another.hash), ..new_session(session.holder, at(3)) };
    is_not_found(world.store.create_session(&signs_in, &audit_entry()).await, "sign-in link");
    assert_eq!(world.store.users(first(9)).await.unwrap().len(), 1);
}

pub(crate) async fn of_many_that_set_up_at_once_one_does(world: World) {
    let links = [link(LinkPurpose::SetUp, None), link(LinkPurpose::SetUp, None)];
    for link in &links {
        world.store.create_link(link).await.unwrap();
    }
    let mut attempts = tokio::task::JoinSet::new();
    for number in 0..6 {
        let (store, link) = (world.store.clone(), links[number % 2].hash);
        attempts.spawn(async move {
            let user = user(&format!("user-{number}"));
            let new = NewSession { link: Some(link), ..new_session(Holder::User(user.id), at(1)) };
            store.set_up(&user, &new, &audit_entry()).await.is_ok()
        });
    }
    assert_eq!(attempts.join_all().await.into_iter().filter(|done| *done).count(), 1);
    assert_eq!(world.store.users(first(9)).await.unwrap().len(), 1);
}

pub(crate) async fn a_user_reads_back_and_its_name_is_its_own(world: World) {
    let (ada, bob) = (user("ada"), user("bøb"));
    for user in [&ada, &bob] {
        world.store.create_user(user, &audit_entry()).await.unwrap();
    }
    is_taken(world.store.create_user(&user("ada"), &audit_entry()).await, "name");
    assert_eq!(world.store.user(ada.id).await.unwrap(), ada);
    assert_eq!(world.store.user_by_name("bøb").await.unwrap(), Some(bob.clone()));
    assert_eq!(world.store.user_by_name("eve").await.unwrap(), None);
    assert_eq!(world.store.users(first(9)).await.unwrap(), [bob.clone(), ada.clone()]);
    let page = Page { before: Some(bob.id), limit: 9 };
    assert_eq!(world.store.users(page).await.unwrap(), [ada]);
    is_not_found(world.store.user(UserId::at(at(0), chance())).await, "user");
}

pub(crate) async fn removing_a_user_ends_its_sessions(world: World) {
    let ada = user("ada");
    world.store.create_user(&ada, &audit_entry()).await.unwrap();
    let session = begun(&world, Holder::User(ada.id), at(1)).await;
    world.store.delete_user(ada.id, &audit_entry()).await.unwrap();
    assert!(!is_there(&world, &session).await);
    assert_eq!(world.store.sessions(None, first(9)).await.unwrap(), []);
    is_not_found(world.store.delete_user(ada.id, &audit_entry()).await, "user");
    world.store.create_user(&user("ada"), &audit_entry()).await.unwrap();
}

pub(crate) async fn another_password_ends_every_session_but_the_one_it_begins(world: World) {
    let ada = user("ada");
    world.store.create_user(&ada, &audit_entry()).await.unwrap();
    let before = begun(&world, Holder::User(ada.id), at(1)).await;
    let new = new_session(Holder::User(ada.id), at(1).plus(Duration::from_secs(9)));
    world.store.change_password(ada.id, "$argon2id$other", &new, &audit_entry()).await.unwrap();
    assert!(!is_there(&world, &before).await && is_there(&world, &new.session).await);
    let changed = world.store.user(ada.id).await.unwrap();
    assert_eq!((changed.password.as_str(), changed.updated_at), ("$argon2id$other", at(10)));
    let nobody = UserId::at(at(0), chance());
    let new = new_session(Holder::User(nobody), at(2));
    is_not_found(world.store.change_password(nobody, "x", &new, &audit_entry()).await, "user");
    assert_eq!(world.store.sessions(None, first(9)).await.unwrap().len(), 1);
}
