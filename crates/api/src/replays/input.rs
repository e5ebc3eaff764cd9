//! What a replay is asked to do.

use crate::{deliveries::filter, error::ApiError, validate::Checks};
use contract::{DeliveryQuery, ReplayInput};
use domain::{delivery::Status, id::DeliveryId, limits};
use store::Selection;

/// A wish that can be granted.
pub(super) struct CheckedReplay {
    pub(super) selection: Selection,
    /// Ids in the order in which they were given.
    pub(super) given: Vec<DeliveryId>,
    pub(super) rate: u32,
    pub(super) dry_run: bool,
    /// The same for the same wish.
    pub(super) text: String,
}

pub(super) fn checked(input: ReplayInput) -> Result<CheckedReplay, ApiError> {
    let mut checks = Checks::default();
    let rate = input.rate.unwrap_or(limits::REPLAY_RATE_DEFAULT);
    checks.range("/rate", rate, 1..=limits::REPLAY_RATE_MAX);
    match (&input.filter, &input.delivery_ids) {
        (Some(filter), None) => check_filter(filter, &mut checks),
        (None, Some(ids)) if ids.is_empty() => {
            checks.refuse("/delivery_ids", "missing_value", "name a delivery, or give a filter");
        }
        (None, Some(ids)) if ids.len() > limits::REPLAY_IDS => {
            checks.refuse("/delivery_ids", "too_many", format!("at most {} ids", limits::REPLAY_IDS));
        }
        (None, Some(_)) => {}
        (Some(_), Some(_)) => {
            checks.refuse("/delivery_ids", "not_allowed", "give a filter or ids, not both");
        }
        (None, None) => checks.refuse("/filter", "missing_field", "give a filter or `delivery_ids`"),
    }
    checks.done()?;
    let text = serde_json::to_string(&input).map_err(ApiError::from_bug)?;
    let given = input.delivery_ids.clone().unwrap_or_default();
    let selection = match (input.filter, input.delivery_ids) {
        (_, Some(mut ids)) => {
            ids.sort_unstable();
            ids.dedup();
            Selection::Deliveries(ids)
        }
        (filter, None) => {
            let mut filter = filter::filter(&filter.unwrap_or_default());
            if filter.statuses.is_empty() {
                filter.statuses = vec![Status::DeadLetter];
            }
            Selection::Filter(filter)
        }
    };
    Ok(CheckedReplay { selection, given, rate, dry_run: input.dry_run, text })
}

fn check_filter(filter: &DeliveryQuery, checks: &mut Checks) {
    filter::check(filter, "/filter", checks);
    for (index, status) in filter.status.iter().enumerate() {
        if !status.ended() {
            let detail = "only what has ended can be replayed";
            checks.refuse(format!("/filter/status/{index}"), "not_allowed", detail);
        }
    }
}
