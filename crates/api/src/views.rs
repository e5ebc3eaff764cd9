//! How what is kept becomes what is shown: a function for each view of `contract`, which knows nothing of HTTP.

mod accepted;
mod account;
mod api_key;
mod attempt;
mod audit;
mod delivery;
mod destination;
mod event;
mod node;
mod portal_link;
mod refused_request;
mod replay;
mod route;
mod series;
mod source;
mod stats;
mod stream;
mod user;

pub(crate) use accepted::accepted;
pub(crate) use account::{account, erased_account};
pub(crate) use api_key::api_key;
pub(crate) use attempt::{EveryRequest, attempt};
pub(crate) use audit::audit_entry;
pub(crate) use delivery::{delivery, waiting_for};
pub(crate) use destination::{LaneSummary, destination, hold_record, revealing};
pub(crate) use event::{event, event_detail};
pub(crate) use node::node;
pub(crate) use portal_link::portal_link;
pub(crate) use refused_request::refused_request;
pub(crate) use replay::{dead_letter_group, replay, replay_estimate};
pub(crate) use route::{draft_preview, route, route_preview};
pub(crate) use series::{SeriesPieces, series};
pub(crate) use source::{source, source_tag};
pub(crate) use stats::{destination_stats, fanout_stats, stats};
pub(crate) use stream::{delivery_change, destination_change};
pub(crate) use user::user;
