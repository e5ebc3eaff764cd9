//! What a replay is asked to do.

use crate::{deliveries::DeliveryQuery, error::ApiError, validate::Checks, views::schema};
use domain::{delivery::Status, id::DeliveryId, limits};
use serde::{Deserialize, Serialize};
use store::Selection;
use utoipa::ToSchema;

/// Either `filter` or `delivery_ids`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ReplayInput {
    /// The filters of the list of deliveries, as lists; without `status`, dead letters.
    filter: Option<DeliveryQuery>,
    #[schema(value_type = Option<Vec<schema::DeliveryId>>, min_items = 1, max_items = 10_000)]
    delivery_ids: Option<Vec<DeliveryId>>,
    /// Deliveries to make a second.
    #[schema(minimum = 1, maximum = 10_000, default = 100)]
    rate: Option<u32>,
    /// Only say how much there is.
    dry_run: bool,
}

/// A wish that can be granted.
pub(super) struct Asked {
    pub(super) selection: Selection,
    /// Ids in the order in which they were given.
    pub(super) given: Vec<DeliveryId>,
    pub(super) rate: u32,
    pub(super) dry_run: bool,
    /// The same for the same wish.
    pub(super) text: String,
}

impl ReplayInput {
    pub(super) fn checked(self) -> Result<Asked, ApiError> {
        let mut checks = Checks::default();
        let rate = self.rate.unwrap_or(limits::REPLAY_RATE);
        checks.range("/rate", rate, 1..=limits::REPLAY_RATE_MAX);
        match (&self.filter, &self.delivery_ids) {
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
        let text = serde_json::to_string(&self).map_err(ApiError::from_bug)?;
        let given = self.delivery_ids.clone().unwrap_or_default();
        let selection = match (self.filter, self.delivery_ids) {
            (_, Some(mut ids)) => {
                ids.sort_unstable();
                ids.dedup();
                Selection::Deliveries(ids)
            }
            (filter, None) => {
                let mut filter = filter.unwrap_or_default().filter();
                if filter.statuses.is_empty() {
                    filter.statuses = vec![Status::DeadLetter];
                }
                Selection::Filter(filter)
            }
        };
        Ok(Asked { selection, given, rate, dry_run: self.dry_run, text })
    }
}

fn check_filter(filter: &DeliveryQuery, checks: &mut Checks) {
    filter.check("/filter", checks);
    for (index, status) in filter.filter().statuses.iter().enumerate() {
        if !status.ended() {
            let detail = "only what has ended can be replayed";
            checks.refuse(format!("/filter/status/{index}"), "not_allowed", detail);
        }
    }
}
