//! Several reads at once, as many as a request may have under way.

use domain::limits;
use futures_util::{StreamExt, future::BoxFuture, stream};

/// What they give, in order.
pub(crate) async fn together<T>(reads: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    stream::iter(reads).buffered(limits::READS_AT_ONCE).collect().await
}
