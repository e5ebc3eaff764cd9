use super::schema;
use domain::{account::Account, id::AccountId, time::Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

/// The tenant that owns everything.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Account)]
pub struct AccountView {
    #[schema(value_type = schema::AccountId)]
    pub id: AccountId,
    /// The operator's own id of it.
    #[schema(required)]
    pub uid: Option<String>,
    pub name: String,
    /// How long ended work is kept.
    pub retention_days: u32,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub updated_at: Timestamp,
}

impl From<&Account> for AccountView {
    fn from(account: &Account) -> Self {
        Self {
            id: account.id,
            uid: account.uid.clone(),
            name: account.name.clone(),
            retention_days: account.retention_days,
            created_at: account.created_at,
            updated_at: account.updated_at,
        }
    }
}
