//! Lists.

use crate::schema;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// One page of a list as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ListBody<T> {
    pub data: Vec<T>,
    /// Null at the end of the list, and only there.
    #[schema(required)]
    pub next_cursor: Option<String>,
    /// Only where a filter looks through the entries, and only if it has looked at a part of them: at what is as new as
    /// this. `next_cursor` goes on with what is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub searched_until: Option<Timestamp>,
}

/// Which of a list are wanted, by what they are called. Different filters narrow. `name` looks at 5,000 entries a page at
/// most, and `searched_until` tells that there are more.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NameQuery {
    /// Has this in its name, in whatever case.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// Has exactly this uid, which has 1 to 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Which destinations are wanted, by what they are called and where they are. Different filters narrow. `name` and `url` look
/// at 5,000 entries a page at most, and `searched_until` tells that there are more.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DestinationQuery {
    /// Has this in its name, in whatever case.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// Has exactly this uid, which has 1 to 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Has this in its URL, in whatever case.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(min_length = 1, max_length = 200)]
    pub url: Option<String>,
    /// Only those that are held, whatever for: throttled, unhealthy, paused or disabled. They are looked for among the
    /// newest 20,000.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[param(inline)]
    pub held: bool,
}
