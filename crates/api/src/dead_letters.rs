//! Dead letters in groups: what went wrong, where, and how often. One by one they are deliveries.

use crate::{
    app::App,
    auth::AccountCtx,
    error::ApiError,
    page::{CursorKey, List, NoFilter},
    page_params::PageParams,
    problems, read,
};
use axum::{extract::State, response::Response};
use contract::{DeadLetterGroupView, ListBody};
use domain::{account::Scope, id::DestinationId, outcome::DeadReason};
use store::GroupKey;

/// List dead letters by destination, reason and HTTP status. Scope `deliveries:read`.
#[utoipa::path(
    get, path = "/v1/dead-letters/groups", operation_id = "list_dead_letter_groups", tag = "dead letters",
    params(PageParams),
    responses(
        (status = 200, description = "A page.", body = ListBody<DeadLetterGroupView>),
        problems::Listing,
    ),
)]
pub(crate) async fn groups(
    State(app): State<App>,
    ctx: AccountCtx,
    list: List<NoFilter>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DeliveriesRead)?;
    let room = app.answers.page(account).await?;
    let found = read::dead_letter_groups(&app, account, list.page(&app, account)?).await?;
    room.json(&list.body(&app, account, found))
}

impl CursorKey for GroupKey {
    const BYTES: usize = DestinationId::BYTES + 3;

    fn write(&self, bytes: &mut Vec<u8>) {
        self.destination_id.write(bytes);
        let place = DeadReason::ALL.iter().position(|reason| *reason == self.reason).unwrap_or_default();
        bytes.push(place as u8);
        bytes.extend_from_slice(&self.http_status.unwrap_or_default().to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (destination, rest) = bytes.split_at_checked(DestinationId::BYTES)?;
        let [place, high, low] = rest.try_into().ok()?;
        Some(Self {
            destination_id: DestinationId::read(destination)?,
            reason: *DeadReason::ALL.get(usize::from(place))?,
            http_status: Some(u16::from_be_bytes([high, low])).filter(|status| *status > 0),
        })
    }
}
