//! Deliveries, with what their lanes say about them.

use super::{Listed, attempts};
use crate::{app::App, deliveries::filter, error::ApiError, views};
use contract::{DeliveryDetailView, DeliveryQuery, DeliveryView};
use domain::{
    delivery::Delivery,
    id::{AccountId, DeliveryId},
    lane::Explanation,
    limits,
};
use store::{DeliveryRecord, DeliveryState, Page};

/// With its attempts.
pub async fn delivery(app: &App, account: AccountId, id: DeliveryId) -> Result<DeliveryDetailView, ApiError> {
    let record = app.store.delivery(account, id).await?;
    let mut attempts = app.store.attempts_of_delivery(account, id, limits::ATTEMPTS_SHOWN).await?;
    app.open_attempts(account, &mut attempts).await?;
    let every = attempts::every_request(app, account, &record).await?;
    let attempts = attempts.iter().map(|attempt| views::attempt(attempt, &every)).collect();
    let explanation = explain(app, std::slice::from_ref(&record)).await.remove(0);
    Ok(DeliveryDetailView { delivery: views::delivery(&record, explanation), attempts })
}

pub async fn deliveries(
    app: &App,
    account: AccountId,
    query: &DeliveryQuery,
    page: Page<DeliveryId>,
) -> Result<Listed<DeliveryView, DeliveryId>, ApiError> {
    let filter = filter::checked(query)?;
    let found = app.store.deliveries(account, &filter, page).await?;
    let mut data = show(app, &found.rows).await;
    // Which of the waiting ones are being delivered is the lanes' knowledge: the store gave them all.
    data.retain(|view| filter.statuses.is_empty() || filter.statuses.contains(&view.status));
    Ok(Listed { data, next: found.next })
}

pub(super) async fn show(app: &App, records: &[DeliveryRecord]) -> Vec<DeliveryView> {
    let explained = explain(app, records).await;
    records.iter().zip(explained).map(|(record, said)| views::delivery(record, said)).collect()
}

/// One explanation a record: those that have ended need none.
async fn explain(app: &App, records: &[DeliveryRecord]) -> Vec<Explanation> {
    let open: Vec<Delivery> = records.iter().filter_map(waiting).cloned().collect();
    let said = if open.is_empty() { Vec::new() } else { app.lanes.explain(open).await };
    let mut said = said.into_iter();
    let each = |record| waiting(record).and_then(|_| said.next()).unwrap_or(Explanation::Unknown);
    records.iter().map(each).collect()
}

fn waiting(record: &DeliveryRecord) -> Option<&Delivery> {
    match &record.state {
        DeliveryState::Waiting(delivery) => Some(delivery),
        DeliveryState::Ended { .. } => None,
    }
}
