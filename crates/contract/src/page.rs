//! Lists.

use crate::schema;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
