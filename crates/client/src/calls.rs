//! One method per endpoint, in the order of the API's own table.

use crate::{Client, Error};
use bytes::Bytes;
use contract::{
    Accepted, AccountView, ApiKeyInput, ApiKeyView, AttemptView, BatchAnswer, BatchResult,
    DeadLetterGroupView, DeliveryDetailView, DeliveryQuery, DeliveryView, DestinationStatsView,
    DestinationView, EventDetailView, EventQuery, EventView, FanoutStatsView, ListBody, NewAccount,
    NewApiKeyView, NewDestination, NewRoute, NewSource, NodeView, Publish, ReplayEstimateView, ReplayInput,
    ReplayView, RouteView, SecretView, SourceView, StatsView,
};
use domain::id::{AccountId, ApiKeyId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId};
use http::{HeaderName, HeaderValue, Method};
use http_body_util::Full;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

/// Accounts and keys.
impl Client {
    /// Operator only, as are the next two.
    pub async fn create_account(&self, account: &NewAccount) -> Result<AccountView, Error> {
        self.post("/v1/accounts", account).await
    }

    pub async fn accounts(&self, cursor: Option<&str>) -> Result<ListBody<AccountView>, Error> {
        self.list("/v1/accounts", &(), cursor).await
    }

    pub async fn account(&self, id: AccountId) -> Result<AccountView, Error> {
        self.get(&format!("/v1/accounts/{id}")).await
    }

    /// The account of the key.
    pub async fn own_account(&self) -> Result<AccountView, Error> {
        self.get("/v1/account").await
    }

    /// A merge patch of the account of the key.
    pub async fn update_own_account(&self, patch: &Value) -> Result<AccountView, Error> {
        self.patch("/v1/account", patch).await
    }

    pub async fn create_api_key(&self, key: &ApiKeyInput) -> Result<NewApiKeyView, Error> {
        self.post("/v1/api-keys", key).await
    }

    pub async fn api_keys(&self, cursor: Option<&str>) -> Result<ListBody<ApiKeyView>, Error> {
        self.list("/v1/api-keys", &(), cursor).await
    }

    pub async fn revoke_api_key(&self, id: ApiKeyId) -> Result<(), Error> {
        self.delete(&format!("/v1/api-keys/{id}")).await
    }
}

/// Sources, and the URLs they open.
impl Client {
    pub async fn create_source(&self, source: &NewSource) -> Result<SourceView, Error> {
        self.post("/v1/sources", source).await
    }

    pub async fn sources(&self, cursor: Option<&str>) -> Result<ListBody<SourceView>, Error> {
        self.list("/v1/sources", &(), cursor).await
    }

    pub async fn source(&self, id: SourceId) -> Result<SourceView, Error> {
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
    pub async fn create_destination(&self, destination: &NewDestination) -> Result<DestinationView, Error> {
        self.post("/v1/destinations", destination).await
    }

    pub async fn destinations(&self, cursor: Option<&str>) -> Result<ListBody<DestinationView>, Error> {
        self.list("/v1/destinations", &(), cursor).await
    }

    pub async fn destination(&self, id: DestinationId) -> Result<DestinationView, Error> {
        self.get(&format!("/v1/destinations/{id}")).await
    }

    /// A merge patch.
    pub async fn update_destination(
        &self,
        id: DestinationId,
        patch: &Value,
    ) -> Result<DestinationView, Error> {
        self.patch(&format!("/v1/destinations/{id}"), patch).await
    }

    pub async fn delete_destination(&self, id: DestinationId) -> Result<(), Error> {
        self.delete(&format!("/v1/destinations/{id}")).await
    }

    pub async fn destination_secret(&self, id: DestinationId) -> Result<SecretView, Error> {
        self.get(&format!("/v1/destinations/{id}/secret")).await
    }

    pub async fn rotate_secret(&self, id: DestinationId) -> Result<DestinationView, Error> {
        self.act(&format!("/v1/destinations/{id}/rotate-secret")).await
    }

    pub async fn pause(&self, id: DestinationId) -> Result<DestinationView, Error> {
        self.act(&format!("/v1/destinations/{id}/pause")).await
    }

    pub async fn resume(&self, id: DestinationId) -> Result<DestinationView, Error> {
        self.act(&format!("/v1/destinations/{id}/resume")).await
    }

    pub async fn enable(&self, id: DestinationId) -> Result<DestinationView, Error> {
        self.act(&format!("/v1/destinations/{id}/enable")).await
    }

    pub async fn disable(&self, id: DestinationId) -> Result<DestinationView, Error> {
        self.act(&format!("/v1/destinations/{id}/disable")).await
    }

    pub async fn probe(&self, id: DestinationId) -> Result<DestinationView, Error> {
        self.act(&format!("/v1/destinations/{id}/probe")).await
    }

    pub async fn test(&self, id: DestinationId) -> Result<AttemptView, Error> {
        self.act(&format!("/v1/destinations/{id}/test")).await
    }

    pub async fn destination_attempts(
        &self,
        id: DestinationId,
        cursor: Option<&str>,
    ) -> Result<ListBody<AttemptView>, Error> {
        self.list(&format!("/v1/destinations/{id}/attempts"), &(), cursor).await
    }
}

/// Routes.
impl Client {
    pub async fn create_route(&self, route: &NewRoute) -> Result<RouteView, Error> {
        self.post("/v1/routes", route).await
    }

    pub async fn routes(&self, cursor: Option<&str>) -> Result<ListBody<RouteView>, Error> {
        self.list("/v1/routes", &(), cursor).await
    }

    pub async fn route(&self, id: RouteId) -> Result<RouteView, Error> {
        self.get(&format!("/v1/routes/{id}")).await
    }

    pub async fn update_route(&self, id: RouteId, patch: &Value) -> Result<RouteView, Error> {
        self.patch(&format!("/v1/routes/{id}"), patch).await
    }

    pub async fn delete_route(&self, id: RouteId) -> Result<(), Error> {
        self.delete(&format!("/v1/routes/{id}")).await
    }
}

/// Events.
impl Client {
    pub async fn publish(&self, event: &Publish<'_>) -> Result<Accepted, Error> {
        self.post("/v1/events", event).await
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

    pub async fn events(
        &self,
        query: &EventQuery,
        cursor: Option<&str>,
    ) -> Result<ListBody<EventView>, Error> {
        self.list("/v1/events", query, cursor).await
    }

    /// With its headers, payload and first deliveries.
    pub async fn event(&self, id: EventId) -> Result<EventDetailView, Error> {
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
    pub async fn deliveries(
        &self,
        query: &DeliveryQuery,
        cursor: Option<&str>,
    ) -> Result<ListBody<DeliveryView>, Error> {
        self.list("/v1/deliveries", query, cursor).await
    }

    /// With its attempts.
    pub async fn delivery(&self, id: DeliveryId) -> Result<DeliveryDetailView, Error> {
        self.get(&format!("/v1/deliveries/{id}")).await
    }

    pub async fn retry(&self, id: DeliveryId) -> Result<DeliveryDetailView, Error> {
        self.act(&format!("/v1/deliveries/{id}/retry")).await
    }

    pub async fn cancel(&self, id: DeliveryId) -> Result<DeliveryDetailView, Error> {
        self.act(&format!("/v1/deliveries/{id}/cancel")).await
    }
}

/// Dead letters and replays.
impl Client {
    pub async fn dead_letter_groups(
        &self,
        cursor: Option<&str>,
    ) -> Result<ListBody<DeadLetterGroupView>, Error> {
        self.list("/v1/dead-letters/groups", &(), cursor).await
    }

    /// The new delivery.
    pub async fn replay_delivery(&self, id: DeliveryId) -> Result<DeliveryDetailView, Error> {
        self.act(&format!("/v1/deliveries/{id}/replay")).await
    }

    pub async fn replay_event(&self, id: EventId) -> Result<ReplayView, Error> {
        self.act(&format!("/v1/events/{id}/replay")).await
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

    /// What it would do.
    pub async fn estimate_replay(&self, replay: &ReplayInput) -> Result<ReplayEstimateView, Error> {
        self.post("/v1/replays", &ReplayInput { dry_run: true, ..replay.clone() }).await
    }

    pub async fn replays(&self, cursor: Option<&str>) -> Result<ListBody<ReplayView>, Error> {
        self.list("/v1/replays", &(), cursor).await
    }

    pub async fn replay(&self, id: ReplayId) -> Result<ReplayView, Error> {
        self.get(&format!("/v1/replays/{id}")).await
    }

    pub async fn pause_replay(&self, id: ReplayId) -> Result<ReplayView, Error> {
        self.act(&format!("/v1/replays/{id}/pause")).await
    }

    pub async fn resume_replay(&self, id: ReplayId) -> Result<ReplayView, Error> {
        self.act(&format!("/v1/replays/{id}/resume")).await
    }

    pub async fn cancel_replay(&self, id: ReplayId) -> Result<ReplayView, Error> {
        self.act(&format!("/v1/replays/{id}/cancel")).await
    }
}

/// Statistics, of as long as the server tells by default.
impl Client {
    pub async fn stats(&self) -> Result<StatsView, Error> {
        self.get("/v1/stats").await
    }

    pub async fn fanout_stats(&self) -> Result<FanoutStatsView, Error> {
        self.get("/v1/stats/fanout").await
    }

    pub async fn destination_stats(&self, id: DestinationId) -> Result<DestinationStatsView, Error> {
        self.get(&format!("/v1/destinations/{id}/stats")).await
    }
}

/// The node itself.
impl Client {
    /// The nodes that share the store.
    pub async fn nodes(&self) -> Result<ListBody<NodeView>, Error> {
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
