//! The objects of the API as they are shown: one file each.
//!
//! A view is made from domain values and knows nothing of HTTP; a value that is not there is `null`, never left out.
//! Secrets have no place here: the few that are shown once are handed in by whoever just made them.

mod account;
mod api_key;
mod attempt;
mod delivery;
mod destination;
mod event;
mod node;
mod replay;
mod route;
pub mod schema;
mod source;
mod stats;
mod stream;

pub use account::AccountView;
pub use api_key::{ApiKeyView, NewApiKeyView};
pub use attempt::{AttemptErrorView, AttemptView, EveryRequest, RequestView, ResponseView, TimingView};
pub use delivery::{DeliveryDetailView, DeliveryView, WaitingForView};
pub use destination::{
    AuthView, DestinationStatus, DestinationView, HoldEntryView, HoldView, LaneState, RateLimitView,
    RetryPolicyView, SecretView, SigningView,
};
pub use event::{EventDetailView, EventView, FanoutView};
pub use node::{NodeStatus, NodeView};
pub use replay::{DeadLetterGroupView, ReplayEstimateView, ReplayView};
pub use route::{PreviewView, RoutePreviewView, RouteView, WhyView};
pub use source::{SourceView, VerificationView};
pub use stats::{
    DailyView, DestinationStatsView, FanoutStatsView, PointView, QuantilesView, StatsView, StatusCountView,
    TotalsView,
};

pub use stream::{AttemptSummaryView, DeliveryChangeView, DestinationChangeView};

/// Words of the rules, as the OpenAPI document describes them.
pub(crate) mod words {
    pub(crate) use super::{
        api_key::{KeyKindWord, ScopeWord},
        delivery::{OutcomeWord, StatusWord},
        destination::{OnDeadLetterWord, OrderingWord, RetryPolicyWord},
    };
}

use serde::{Serialize, Serializer, ser::SerializeMap};
use std::collections::BTreeMap;

/// Headers as an object by lower-case name. One that came twice is shown once, its values joined as HTTP joins them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeadersView(Vec<(String, String)>);

impl HeadersView {
    pub fn new(headers: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut shown: Vec<(String, String)> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            match places.get(&name) {
                Some(place) => {
                    shown[*place].1.push_str(", ");
                    shown[*place].1.push_str(&value);
                }
                None => {
                    places.insert(name.clone(), shown.len());
                    shown.push((name, value));
                }
            }
        }
        Self(shown)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl From<&[(String, String)]> for HeadersView {
    fn from(headers: &[(String, String)]) -> Self {
        Self::new(headers.iter().cloned())
    }
}

impl Serialize for HeadersView {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_came_twice_is_shown_once() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = HeadersView::new([pair("Via", "a"), pair("date", "today"), pair("via", "b")]);
        assert_eq!(serde_json::to_string(&headers).unwrap(), r#"{"via":"a, b","date":"today"}"#);
    }
}
