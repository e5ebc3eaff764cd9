//! The "test" button: one request to a destination, in a slot of its lane, and what comes back. Nothing is stored.

use crate::{
    app::{App, NotSent},
    auth::AccountCtx,
    error::ApiError,
    hang_up::HangUp,
    json,
    optional_body::OptionalBody,
    path::Id,
    problems,
    views::{self, EveryRequest},
};
use axum::{Extension, Json, extract::State};
use contract::{AttemptView, TestEvent, schema};
use domain::{
    account::Scope,
    event::{Event, EventType},
    id::{AccountId, DestinationId, EventId},
    limits,
};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Send one request to a destination now and see what comes back. Nothing is stored.
///
/// It takes one of the destination's slots, and waits for it some seconds at most. A hold, a pause, a disabling and the
/// rate limit are obeyed unless it is forced. It ends when the client hangs up. Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/destinations/{id}/test", operation_id = "test_destination", tag = "destinations",
    params(("id" = schema::DestinationRef, Path)), request_body = Option<TestEvent>,
    responses((status = 200, description = "How it went.", body = AttemptView), problems::Testing),
)]
pub(crate) async fn test(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    hang_up: Option<Extension<HangUp>>,
    OptionalBody(body): OptionalBody<Map<String, Value>>,
) -> Result<Json<AttemptView>, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    let body: TestEvent = json::from_value(Value::Object(body))?;
    app.store.destination(account, id).await?;
    let _permit = app.tests.begin(account)?;
    // Written down before it is sent: it changes nothing here, but it may there.
    app.store.write_audit(Some(account), &ctx.entry(&app, id, None)).await?;
    // It has a bound of its own: while a destination takes its time it takes no place from other requests.
    drop(ctx);
    let now = app.now();
    let event_type = body.event_type.unwrap_or_else(|| EventType::of_provider("test"));
    let greeting =
        || json!({ "type": event_type, "timestamp": now, "data": { "message": "Hello from Posthaste." } });
    let payload = body.data.unwrap_or_else(greeting).to_string();
    let event = Event::new(EventId::at(now, app.dice.bits()), account, event_type, payload.into(), now);
    let every = EveryRequest::of(&event);
    let test = app.sender.test_send(id, event, body.force);
    let sent = match hang_up {
        Some(Extension(hang_up)) => hang_up.run_until(test).await,
        None => Some(test.await),
    };
    match sent {
        Some(Ok(mut attempt)) => {
            // Whoever has made it has sealed what would be kept of it.
            app.open_attempts(account, std::slice::from_mut(&mut attempt)).await?;
            Ok(Json(views::attempt(&attempt, &every)))
        }
        Some(Err(NotSent::Waits(waiting_for))) => Err(ApiError::test_waits(views::waiting_for(waiting_for))),
        Some(Err(NotSent::Failed(error))) => Err(error.into()),
        None => Err(ApiError::request_timeout("the client has hung up")),
    }
}

/// How many tests are under way, of each account that has some.
#[derive(Debug, Clone, Default)]
pub(crate) struct TestsUnderWay(Arc<Mutex<HashMap<AccountId, usize>>>);

impl TestsUnderWay {
    /// One more, until it is dropped; or 429 if that were too many.
    pub(crate) fn begin(&self, account: AccountId) -> Result<TestPermit, ApiError> {
        let mut under_way = self.lock();
        let (own, all) = (under_way.get(&account).copied().unwrap_or(0), under_way.values().sum::<usize>());
        if own >= limits::TESTS_PER_ACCOUNT {
            let most = limits::TESTS_PER_ACCOUNT;
            return Err(ApiError::rate_limited(format!("an account has {most} tests under way at most")));
        }
        if all >= limits::TESTS_PER_NODE {
            return Err(ApiError::rate_limited("too many tests are under way on this node"));
        }
        under_way.insert(account, own + 1);
        Ok(TestPermit { tests: self.clone(), account })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A test under way.
#[derive(Debug)]
pub(crate) struct TestPermit {
    tests: TestsUnderWay,
    account: AccountId,
}

impl Drop for TestPermit {
    fn drop(&mut self) {
        let mut under_way = self.tests.lock();
        if let Some(count) = under_way.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use domain::time::Timestamp;

    fn account(number: u128) -> AccountId {
        AccountId::at(Timestamp::MIN, number)
    }

    #[test]
    fn an_account_has_so_many_tests_under_way_and_a_node_too() {
        let tests = TestsUnderWay::default();
        let mut held = Vec::new();
        for number in 0..limits::TESTS_PER_NODE / limits::TESTS_PER_ACCOUNT {
            held.extend(
                (0..limits::TESTS_PER_ACCOUNT).map(|_| tests.begin(account(number as u128)).unwrap()),
            );
            assert_eq!(tests.begin(account(number as u128)).unwrap_err().code(), Code::RateLimited);
        }
        assert_eq!(tests.begin(account(1 << 40)).unwrap_err().code(), Code::RateLimited, "the node is full");
        held.truncate(1);
        assert!(tests.begin(account(1 << 40)).is_ok());
        held.clear();
        assert!(tests.lock().is_empty());
    }
}
