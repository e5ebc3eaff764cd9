//! One method per endpoint, in the order of the API's own table.

use crate::{Client, Error};
use bytes::Bytes;
use contract::{
    Accepted, AccountView, ApiKeyInput, ApiKeyView, AttemptView, BatchAnswer, BatchResult,
    DataKeyRotationView, DeadLetterGroupView, DeliveryDetailView, DeliveryQuery, DeliveryView,
    DestinationStatsView, DestinationView, DismissInput, DismissedView, EventDetailView, EventQuery,
    EventView, FanoutStatsView, IngestUrlView, ListBody, MasterKeysView, NewAccount, NewApiKeyView,
    NewDestination, NewRoute, NewSource, NodeView, Publish, ReplayEstimateView, ReplayInput, ReplayView,
    RotateDataKeys, RotateMasterKey, RotateSecret, RotationView, RouteView, SecretView, SeriesView,
    SourceView, StatsView, TestEvent,
};
use domain::id::{AccountId, ApiKeyId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId};
use http::{HeaderName, HeaderValue, Method};
use http_body_util::Full;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

/// A method for each line: what it is given, what comes back, and what is asked for that.
macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        $name:ident($($given:ident: $of:ty),*) -> $answer:ty = $verb:ident $path:literal $(, $with:expr)*;
    )*) => {
        impl Client {$(
            $(#[$doc])*
            pub async fn $name(&self, $($given: $of),*) -> Result<$answer, Error> {
                self.$verb(&format!($path) $(, $with)*).await
            }
        )*}
    };
}

calls! {
    // Accounts and keys.
    /// Operator only, as are the next two.
    create_account(account: &NewAccount) -> AccountView = post "/v1/accounts", account;
    accounts(cursor: Option<&str>) -> ListBody<AccountView> = list "/v1/accounts", &(), cursor;
    account(id: AccountId) -> AccountView = get "/v1/accounts/{id}";
    /// Then it tells by `account` how far it is erased.
    delete_account(id: AccountId) -> () = delete "/v1/accounts/{id}";
    /// The keys of an account, for its operator, who may also revoke them.
    account_api_keys(id: AccountId, cursor: Option<&str>) -> ListBody<ApiKeyView>
        = list "/v1/accounts/{id}/api-keys", &(), cursor;
    revoke_account_api_key(id: AccountId, key: ApiKeyId) -> () = delete "/v1/accounts/{id}/api-keys/{key}";
    /// The account of the key.
    own_account() -> AccountView = get "/v1/account";
    /// A merge patch of the account of the key.
    update_own_account(patch: &Value) -> AccountView = patch "/v1/account", patch;
    create_api_key(key: &ApiKeyInput) -> NewApiKeyView = post "/v1/api-keys", key;
    api_keys(cursor: Option<&str>) -> ListBody<ApiKeyView> = list "/v1/api-keys", &(), cursor;
    revoke_api_key(id: ApiKeyId) -> () = delete "/v1/api-keys/{id}";

    // Sources, and the URLs they open.
    create_source(source: &NewSource) -> SourceView = post "/v1/sources", source;
    sources(cursor: Option<&str>) -> ListBody<SourceView> = list "/v1/sources", &(), cursor;
    source(id: SourceId) -> SourceView = get "/v1/sources/{id}";
    source_ingest_url(id: SourceId) -> IngestUrlView = get "/v1/sources/{id}/ingest-url";
    delete_source(id: SourceId) -> () = delete "/v1/sources/{id}";

    // Destinations.
    create_destination(destination: &NewDestination) -> DestinationView = post "/v1/destinations", destination;
    destinations(cursor: Option<&str>) -> ListBody<DestinationView> = list "/v1/destinations", &(), cursor;
    destination(id: DestinationId) -> DestinationView = get "/v1/destinations/{id}";
    /// A merge patch.
    update_destination(id: DestinationId, patch: &Value) -> DestinationView = patch "/v1/destinations/{id}", patch;
    delete_destination(id: DestinationId) -> () = delete "/v1/destinations/{id}";
    destination_secret(id: DestinationId) -> SecretView = get "/v1/destinations/{id}/secret";
    rotate_secret(id: DestinationId) -> DestinationView = act "/v1/destinations/{id}/rotate-secret";
    /// The same with what is asked for.
    rotate_secret_as(id: DestinationId, how: &RotateSecret) -> DestinationView
        = post "/v1/destinations/{id}/rotate-secret", how;
    pause(id: DestinationId) -> DestinationView = act "/v1/destinations/{id}/pause";
    resume(id: DestinationId) -> DestinationView = act "/v1/destinations/{id}/resume";
    enable(id: DestinationId) -> DestinationView = act "/v1/destinations/{id}/enable";
    disable(id: DestinationId) -> DestinationView = act "/v1/destinations/{id}/disable";
    probe(id: DestinationId) -> DestinationView = act "/v1/destinations/{id}/probe";
    test(id: DestinationId, with: &TestEvent) -> AttemptView = post "/v1/destinations/{id}/test", with;
    destination_attempts(id: DestinationId, cursor: Option<&str>) -> ListBody<AttemptView>
        = list "/v1/destinations/{id}/attempts", &(), cursor;

    // Routes.
    create_route(route: &NewRoute) -> RouteView = post "/v1/routes", route;
    routes(cursor: Option<&str>) -> ListBody<RouteView> = list "/v1/routes", &(), cursor;
    route(id: RouteId) -> RouteView = get "/v1/routes/{id}";
    update_route(id: RouteId, patch: &Value) -> RouteView = patch "/v1/routes/{id}", patch;
    delete_route(id: RouteId) -> () = delete "/v1/routes/{id}";

    // Events.
    publish(event: &Publish<'_>) -> Accepted = post "/v1/events", event;
    /// For a platform: the account that is acted for is made if its uid is new.
    publish_to_new_account(event: &Publish<'_>) -> Accepted = post "/v1/events?create_account=true", event;
    events(query: &EventQuery, cursor: Option<&str>) -> ListBody<EventView> = list "/v1/events", query, cursor;
    /// With its headers, payload and first deliveries.
    event(id: EventId) -> EventDetailView = get "/v1/events/{id}";

    // Deliveries.
    deliveries(query: &DeliveryQuery, cursor: Option<&str>) -> ListBody<DeliveryView>
        = list "/v1/deliveries", query, cursor;
    /// With its attempts.
    delivery(id: DeliveryId) -> DeliveryDetailView = get "/v1/deliveries/{id}";
    retry(id: DeliveryId) -> DeliveryDetailView = act "/v1/deliveries/{id}/retry";
    cancel(id: DeliveryId) -> DeliveryDetailView = act "/v1/deliveries/{id}/cancel";

    // Dead letters and replays.
    dead_letter_groups(cursor: Option<&str>) -> ListBody<DeadLetterGroupView>
        = list "/v1/dead-letters/groups", &(), cursor;
    dismiss(what: &DismissInput) -> DismissedView = post "/v1/dead-letters/dismiss", what;
    /// The new delivery.
    replay_delivery(id: DeliveryId) -> DeliveryDetailView = act "/v1/deliveries/{id}/replay";
    /// Its payload, its headers and the answers to it.
    erase_event_payload(id: EventId) -> () = delete "/v1/events/{id}/payload";
    replay_event(id: EventId) -> ReplayView = act "/v1/events/{id}/replay";
    /// What it would do.
    estimate_replay(replay: &ReplayInput) -> ReplayEstimateView
        = post "/v1/replays", &ReplayInput { dry_run: true, ..replay.clone() };
    replays(cursor: Option<&str>) -> ListBody<ReplayView> = list "/v1/replays", &(), cursor;
    replay(id: ReplayId) -> ReplayView = get "/v1/replays/{id}";
    pause_replay(id: ReplayId) -> ReplayView = act "/v1/replays/{id}/pause";
    resume_replay(id: ReplayId) -> ReplayView = act "/v1/replays/{id}/resume";
    cancel_replay(id: ReplayId) -> ReplayView = act "/v1/replays/{id}/cancel";

    // Statistics, of as long as the server tells by default.
    stats() -> StatsView = get "/v1/stats";
    fanout_stats() -> FanoutStatsView = get "/v1/stats/fanout";
    destination_stats(id: DestinationId) -> DestinationStatsView = get "/v1/destinations/{id}/stats";
    /// By the minute, the last hour.
    stats_series() -> SeriesView = get "/v1/stats/series";
    destination_stats_series(id: DestinationId) -> SeriesView = get "/v1/destinations/{id}/stats/series";

    /// The nodes that share the store.
    nodes() -> ListBody<NodeView> = get "/v1/nodes";
    /// Operator only, as are the next two.
    master_keys() -> MasterKeysView = get "/v1/master-keys";
    /// The next step: again until it is done.
    rotate_master_key(from: &RotateMasterKey) -> RotationView = post "/v1/master-keys/rotate", from;
    rotate_data_keys(from: &RotateDataKeys) -> DataKeyRotationView = post "/v1/data-keys/rotate", from;
}

/// What is not asked for or answered as JSON, and the node itself.
impl Client {
    /// Brings an event in as a source's caller would: any bytes, no key. `path` is that of its `ingest_url`.
    pub async fn ingest(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<Accepted, Error> {
        let mut request = self.request(Method::POST, path, None);
        request.headers_mut().extend(headers.iter().cloned());
        *request.body_mut() = Full::new(body);
        crate::parse(self.accepted(request).await?)
    }

    /// One result per event, in order.
    pub async fn publish_batch(&self, events: &[Publish<'_>]) -> Result<Vec<BatchResult>, Error> {
        #[derive(Serialize)]
        struct Batch<'a> {
            events: &'a [Publish<'a>],
        }
        let answer: BatchAnswer = self.post("/v1/events/batch", &Batch { events }).await?;
        Ok(answer.results)
    }

    /// The exact bytes of an event.
    pub async fn event_payload(&self, id: EventId) -> Result<Bytes, Error> {
        let request = self.request(Method::GET, &format!("/v1/events/{id}/payload"), None);
        Ok(self.accepted(request).await?.into_body())
    }

    /// The same key and input give the same replay.
    pub async fn create_replay(
        &self,
        replay: &ReplayInput,
        idempotency_key: Option<&str>,
    ) -> Result<ReplayView, Error> {
        let body = serde_json::to_vec(replay).map_err(|error| Error::Unexpected(error.to_string()))?;
        let mut request = self.request(Method::POST, "/v1/replays", Some(body.into()));
        if let Some(key) = idempotency_key {
            let key = HeaderValue::try_from(key)
                .map_err(|_| Error::Unexpected("an idempotency key is printable ASCII".into()))?;
            request.headers_mut().insert("idempotency-key", key);
        }
        crate::parse(self.accepted(request).await?)
    }

    /// Whether it takes work; a node that does not still answers.
    pub async fn readiness(&self) -> Result<Readiness, Error> {
        let response = self.send(self.request(Method::GET, "/readyz", None)).await?;
        let text = || Value::String(String::from_utf8_lossy(response.body()).into_owned());
        Ok(Readiness {
            ready: response.status().is_success(),
            http_status: response.status().as_u16(),
            detail: serde_json::from_slice(response.body()).unwrap_or_else(|_| text()),
        })
    }

    /// The bytes of any page of the API, for what has no method of its own.
    pub async fn raw(&self, path: &str) -> Result<Bytes, Error> {
        Ok(self.accepted(self.request(Method::GET, path, None)).await?.into_body())
    }

    /// A page of a list, as large as there is one.
    async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
        cursor: Option<&str>,
    ) -> Result<ListBody<T>, Error> {
        let mut parameters = Serializer::new(String::new());
        parameters.append_pair("limit", &domain::limits::PAGE_MAX.to_string());
        parameters.extend_pairs(cursor.map(|cursor| ("cursor", cursor)));
        parameters.extend_pairs(pairs(query));
        self.get(&format!("{path}?{}", parameters.finish())).await
    }
}

/// A query as parameters: lists are repeated, and what is not there is left out.
fn pairs(query: &impl Serialize) -> Vec<(String, String)> {
    let Value::Object(members) = json!(query) else { return Vec::new() };
    let text = |value| match value {
        Value::String(text) => Some(text),
        Value::Null => None,
        other => Some(other.to_string()),
    };
    let each = |(name, value): (String, Value)| {
        let values = if let Value::Array(values) = value { values } else { vec![value] };
        values.into_iter().filter_map(text).map(|value| (name.clone(), value)).collect::<Vec<_>>()
    };
    members.into_iter().flat_map(each).collect()
}

/// What `/readyz` says.
#[derive(Debug, Clone, PartialEq)]
pub struct Readiness {
    pub ready: bool,
    pub http_status: u16,
    /// The whole answer, for people.
    pub detail: Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::FanoutState;
    use domain::delivery::Status;

    #[test]
    fn a_query_is_written_as_its_parameters() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let status = vec![Status::DeadLetter, Status::Cancelled];
        let query = DeliveryQuery { status, http_status: vec![503], ..DeliveryQuery::default() };
        let expected =
            [pair("status", "dead_letter"), pair("status", "cancelled"), pair("http_status", "503")];
        assert_eq!(pairs(&query), expected);
        let fanout = Some(FanoutState::Complete);
        let query = EventQuery { fanout, q: Some("a b".into()), ..EventQuery::default() };
        assert_eq!(pairs(&query), [pair("fanout", "complete"), pair("q", "a b")]);
        assert_eq!(pairs(&()), []);
    }
}
