//! Schemas that are made to try something and taken away afterwards, with everything in them.

use super::{
    open::{SetupConnection, answer_in_time},
    url::Address,
};
use crate::OpenError;
use domain::limits;

/// Schemas whose name begins so are nobody's data.
pub const SCRATCH: &str = "posthaste_bench_";

/// Takes away the schema that the URL names (`?schema=…`). One that is not for trying things is refused.
pub async fn drop_scratch(url: &str) -> Result<(), OpenError> {
    let address = Address::parse(url)?;
    let schema = address.schema.as_deref().filter(|schema| schema.starts_with(SCRATCH)).ok_or_else(|| {
        OpenError::BadUrl(format!("only a schema whose name begins with {SCRATCH} is taken away"))
    })?;
    let connection = SetupConnection::open(&address).await?;
    let sql = format!("drop schema if exists {schema} cascade");
    answer_in_time(limits::MIGRATION_WAIT.as_secs(), connection.client.batch_execute(&sql)).await
}
