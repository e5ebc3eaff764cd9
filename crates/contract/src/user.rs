//! Users of the dashboard.

use crate::schema;
use domain::{
    id::{AccountId, UserId},
    session::UserRole,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Somebody who signs in to the dashboard with a name and a password.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = User)]
pub struct UserView {
    #[schema(value_type = schema::UserId)]
    pub id: UserId,
    #[schema(example = "ada")]
    pub name: String,
    #[schema(value_type = schema::UserRole)]
    pub role: UserRole,
    /// Those it may see; none of an operator, who sees all.
    #[schema(value_type = Vec<schema::AccountId>)]
    pub accounts: Vec<AccountId>,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
}

/// A user to be made.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = UserInput)]
#[serde(deny_unknown_fields)]
pub struct UserInput {
    /// Unique; kept in small letters.
    #[schema(min_length = 1, max_length = 64, example = "ada")]
    pub name: String,
    /// The first one: whoever it is for changes it in the dashboard.
    #[schema(min_length = 12, max_length = 1024)]
    pub password: String,
    #[schema(value_type = schema::UserRole)]
    pub role: UserRole,
    /// At least one of an editor or a viewer, none of an operator.
    #[serde(default)]
    #[schema(value_type = Vec<schema::AccountId>, max_items = 100)]
    pub accounts: Vec<AccountId>,
}

impl std::fmt::Debug for UserInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserInput")
            .field("name", &self.name)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}
