//! Lists.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ListBody<T> {
    pub data: Vec<T>,
    /// Null at the end of the list, and only there.
    #[schema(required)]
    pub next_cursor: Option<String>,
}
