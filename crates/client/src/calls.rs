//! One method per endpoint, in the order of the API's own table.

use crate::{
    Accepted, Account, ApiKey, Attempt, BatchResult, Client, DeadLetterGroup, Delivery, Destination,
    DestinationStats, Error, Event, FanoutStats, NewAccount, NewApiKey, NewDestination, NewReplay, NewRoute,
    NewSource, Node, Page, Publish, Readiness, Replay, ReplayEstimate, Route, Secret, Source, Stats,
};
use bytes::Bytes;
use domain::{
    delivery::Status,
    id::{AccountId, ApiKeyId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId},
};
use http::{HeaderName, HeaderValue, Method};
use http_body_util::Full;
use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

/// Accounts and keys.
impl Client {
    /// Operator only, as are the next two.
    pub async fn create_account(&self, account: &NewAccount) -> Result<Account, Error> {
        self.post("/v1/accounts", account).await
    }

    pub async fn accounts(&self, cursor: Option<&str>) -> Result<Page<Account>, Error> {
        self.list("/v1/accounts", Query::new(cursor)).await
    }

    pub async fn account(&self, id: AccountId) -> Result<Account, Error> {
        self.get(&format!("/v1/accounts/{id}")).await
    }

    /// The account of the key.
    pub async fn own_account(&self) -> Result<Account, Error> {
        self.get("/v1/account").await
    }

    /// A merge patch of the account of the key.
    pub async fn update_own_account(&self, patch: &Value) -> Result<Account, Error> {
        self.patch("/v1/account", patch).await
    }

    pub async fn create_api_key(&self, key: &NewApiKey) -> Result<ApiKey, Error> {
        self.post("/v1/api-keys", key).await
    }

    pub async fn api_keys(&self, cursor: Option<&str>) -> Result<Page<ApiKey>, Error> {
        self.list("/v1/api-keys", Query::new(cursor)).await
    }

    pub async fn revoke_api_key(&self, id: ApiKeyId) -> Result<(), Error> {
        self.delete(&format!("/v1/api-keys/{id}")).await
    }
}

/// Sources, and the door they open.
impl Client {
    pub async fn create_source(&self, source: &NewSource) -> Result<Source, Error> {
        self.post("/v1/sources", source).await
    }

    pub async fn sources(&self, cursor: Option<&str>) -> Result<Page<Source>, Error> {
        self.list("/v1/sources", Query::new(cursor)).await
    }

    pub async fn source(&self, id: SourceId) -> Result<Source, Error> {
        self.get(&format!("/v1/sources/{id}")).await
    }

    pub async fn delete_source(&self, id: SourceId) -> Result<(), Error> {
        self.delete(&format!("/v1/sources/{id}")).await
    }

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
}

/// Destinations.
impl Client {
    pub async fn create_destination(&self, destination: &NewDestination) -> Result<Destination, Error> {
        self.post("/v1/destinations", destination).await
    }

    pub async fn destinations(&self, cursor: Option<&str>) -> Result<Page<Destination>, Error> {
        self.list("/v1/destinations", Query::new(cursor)).await
    }

    pub async fn destination(&self, id: DestinationId) -> Result<Destination, Error> {
        self.get(&format!("/v1/destinations/{id}")).await
    }

    /// A merge patch.
    pub async fn update_destination(&self, id: DestinationId, patch: &Value) -> Result<Destination, Error> {
        self.patch(&format!("/v1/destinations/{id}"), patch).await
    }

    pub async fn delete_destination(&self, id: DestinationId) -> Result<(), Error> {
        self.delete(&format!("/v1/destinations/{id}")).await
    }

    pub async fn destination_secret(&self, id: DestinationId) -> Result<Secret, Error> {
        self.get(&format!("/v1/destinations/{id}/secret")).await
    }

    pub async fn rotate_secret(&self, id: DestinationId) -> Result<Destination, Error> {
        self.act(&format!("/v1/destinations/{id}/rotate-secret")).await
    }

    pub async fn pause(&self, id: DestinationId) -> Result<Destination, Error> {
        self.act(&format!("/v1/destinations/{id}/pause")).await
    }

    pub async fn resume(&self, id: DestinationId) -> Result<Destination, Error> {
        self.act(&format!("/v1/destinations/{id}/resume")).await
    }

    pub async fn enable(&self, id: DestinationId) -> Result<Destination, Error> {
        self.act(&format!("/v1/destinations/{id}/enable")).await
    }

    pub async fn disable(&self, id: DestinationId) -> Result<Destination, Error> {
        self.act(&format!("/v1/destinations/{id}/disable")).await
    }

    pub async fn probe(&self, id: DestinationId) -> Result<Destination, Error> {
        self.act(&format!("/v1/destinations/{id}/probe")).await
    }

    pub async fn test(&self, id: DestinationId) -> Result<Attempt, Error> {
        self.act(&format!("/v1/destinations/{id}/test")).await
    }

    pub async fn destination_attempts(
        &self,
        id: DestinationId,
        cursor: Option<&str>,
    ) -> Result<Page<Attempt>, Error> {
        self.list(&format!("/v1/destinations/{id}/attempts"), Query::new(cursor)).await
    }
}

/// Routes.
impl Client {
    pub async fn create_route(&self, route: &NewRoute) -> Result<Route, Error> {
        self.post("/v1/routes", route).await
    }

    pub async fn routes(&self, cursor: Option<&str>) -> Result<Page<Route>, Error> {
        self.list("/v1/routes", Query::new(cursor)).await
    }

    pub async fn route(&self, id: RouteId) -> Result<Route, Error> {
        self.get(&format!("/v1/routes/{id}")).await
    }

    pub async fn update_route(&self, id: RouteId, patch: &Value) -> Result<Route, Error> {
        self.patch(&format!("/v1/routes/{id}"), patch).await
    }

    pub async fn delete_route(&self, id: RouteId) -> Result<(), Error> {
        self.delete(&format!("/v1/routes/{id}")).await
    }
}

/// Events.
impl Client {
    pub async fn publish(&self, event: &Publish) -> Result<Accepted, Error> {
        self.post("/v1/events", event).await
    }

    /// One result per event, in order.
    pub async fn publish_batch(&self, events: &[Publish]) -> Result<Vec<BatchResult>, Error> {
        #[derive(Deserialize)]
        struct Results {
            results: Vec<BatchResult>,
        }
        #[derive(serde::Serialize)]
        struct Batch<'a> {
            events: &'a [Publish],
        }
        let answer: Results = self.post("/v1/events/batch", &Batch { events }).await?;
        Ok(answer.results)
    }

    pub async fn events(&self, of: &EventsOf, cursor: Option<&str>) -> Result<Page<Event>, Error> {
        let mut query = Query::new(cursor);
        query.maybe("type", of.event_type.as_deref());
        query.maybe("source_id", of.source_id.map(|id| id.to_string()).as_deref());
        query.maybe("idempotency_key", of.idempotency_key.as_deref());
        query.maybe("fanout", of.complete.map(|complete| if complete { "complete" } else { "incomplete" }));
        self.list("/v1/events", query).await
    }

    /// With its headers, payload and first deliveries.
    pub async fn event(&self, id: EventId) -> Result<Event, Error> {
        self.get(&format!("/v1/events/{id}")).await
    }

    /// Its exact bytes.
    pub async fn event_payload(&self, id: EventId) -> Result<Bytes, Error> {
        let request = self.request(Method::GET, &format!("/v1/events/{id}/payload"), None);
        Ok(self.accepted(request).await?.into_body())
    }
}

/// Deliveries.
impl Client {
    pub async fn deliveries(&self, of: &DeliveriesOf, cursor: Option<&str>) -> Result<Page<Delivery>, Error> {
        let mut query = Query::new(cursor);
        let status = of.status.map(|status| json!(status));
        query.maybe("status", status.as_ref().and_then(Value::as_str));
        query.maybe("event_id", of.event_id.map(|id| id.to_string()).as_deref());
        query.maybe("destination_id", of.destination_id.map(|id| id.to_string()).as_deref());
        query.maybe("replay_id", of.replay_id.map(|id| id.to_string()).as_deref());
        self.list("/v1/deliveries", query).await
    }

    /// With its attempts.
    pub async fn delivery(&self, id: DeliveryId) -> Result<Delivery, Error> {
        self.get(&format!("/v1/deliveries/{id}")).await
    }

    pub async fn retry(&self, id: DeliveryId) -> Result<Delivery, Error> {
        self.act(&format!("/v1/deliveries/{id}/retry")).await
    }

    pub async fn cancel(&self, id: DeliveryId) -> Result<Delivery, Error> {
        self.act(&format!("/v1/deliveries/{id}/cancel")).await
    }
}

/// Dead letters and replays.
impl Client {
    pub async fn dead_letter_groups(&self, cursor: Option<&str>) -> Result<Page<DeadLetterGroup>, Error> {
        self.list("/v1/dead-letters/groups", Query::new(cursor)).await
    }

    /// The new delivery.
    pub async fn replay_delivery(&self, id: DeliveryId) -> Result<Delivery, Error> {
        self.act(&format!("/v1/deliveries/{id}/replay")).await
    }

    pub async fn replay_event(&self, id: EventId) -> Result<Replay, Error> {
        self.act(&format!("/v1/events/{id}/replay")).await
    }

    pub async fn create_replay(&self, replay: &NewReplay) -> Result<Replay, Error> {
        let body = serde_json::to_vec(replay).map_err(|error| Error::Unexpected(error.to_string()))?;
        let mut request = self.request(Method::POST, "/v1/replays", Some(body.into()));
        if let Some(key) = &replay.idempotency_key {
            let key = HeaderValue::try_from(key.as_str())
                .map_err(|_| Error::Unexpected("an idempotency key is printable ASCII".into()))?;
            request.headers_mut().insert("idempotency-key", key);
        }
        crate::parse(self.accepted(request).await?)
    }

    /// What it would do.
    pub async fn estimate_replay(&self, replay: &NewReplay) -> Result<ReplayEstimate, Error> {
        let mut body = json!(replay);
        body["dry_run"] = true.into();
        self.post("/v1/replays", &body).await
    }

    pub async fn replays(&self, cursor: Option<&str>) -> Result<Page<Replay>, Error> {
        self.list("/v1/replays", Query::new(cursor)).await
    }

    pub async fn replay(&self, id: ReplayId) -> Result<Replay, Error> {
        self.get(&format!("/v1/replays/{id}")).await
    }

    pub async fn pause_replay(&self, id: ReplayId) -> Result<Replay, Error> {
        self.act(&format!("/v1/replays/{id}/pause")).await
    }

    pub async fn resume_replay(&self, id: ReplayId) -> Result<Replay, Error> {
        self.act(&format!("/v1/replays/{id}/resume")).await
    }

    pub async fn cancel_replay(&self, id: ReplayId) -> Result<Replay, Error> {
        self.act(&format!("/v1/replays/{id}/cancel")).await
    }
}

/// Statistics, of as long as the server tells by default.
impl Client {
    pub async fn stats(&self) -> Result<Stats, Error> {
        self.get("/v1/stats").await
    }

    pub async fn fanout_stats(&self) -> Result<FanoutStats, Error> {
        self.get("/v1/stats/fanout").await
    }

    pub async fn destination_stats(&self, id: DestinationId) -> Result<DestinationStats, Error> {
        self.get(&format!("/v1/destinations/{id}/stats")).await
    }
}

/// The node itself.
impl Client {
    /// The nodes that share the store.
    pub async fn nodes(&self) -> Result<Page<Node>, Error> {
        self.get("/v1/nodes").await
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

    async fn list<T: serde::de::DeserializeOwned>(&self, path: &str, query: Query) -> Result<Page<T>, Error> {
        self.get(&query.of(path)).await
    }
}

/// Which events.
#[derive(Debug, Clone, Default)]
pub struct EventsOf {
    /// A pattern, such as `order.*`.
    pub event_type: Option<String>,
    pub source_id: Option<SourceId>,
    pub idempotency_key: Option<String>,
    pub complete: Option<bool>,
}

/// Which deliveries.
#[derive(Debug, Clone, Default)]
pub struct DeliveriesOf {
    pub status: Option<Status>,
    pub event_id: Option<EventId>,
    pub destination_id: Option<DestinationId>,
    pub replay_id: Option<ReplayId>,
}

struct Query(Serializer<'static, String>);

impl Query {
    fn new(cursor: Option<&str>) -> Self {
        let mut query = Self(Serializer::new(String::new()));
        query.maybe("limit", Some(&domain::limits::PAGE_MAX.to_string()));
        query.maybe("cursor", cursor);
        query
    }

    fn maybe(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.0.append_pair(name, value);
        }
    }

    fn of(mut self, path: &str) -> String {
        format!("{path}?{}", self.0.finish())
    }
}
