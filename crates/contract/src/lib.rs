//! What the API says and takes, as types: the server writes the very types that the client reads, and a form of a page
//! is the input of the API.
//!
//! Views are what is shown: a value that is not there is `null`, never left out, and members of later versions are
//! passed over. Inputs are what is sent: a member that is not known is refused. Words (a status, an outcome) come from
//! `domain`, which has one list of each; [`schema`] describes them for the OpenAPI document from those lists.
//!
//! Nothing here knows HTTP, the store or how a view is made: that is the server's business. Secrets have no place in a
//! view, except the few that are shown once, by the answer that made them.

mod account;
mod api_key;
mod attempt;
mod audit;
mod delivery;
mod destination;
mod doctor;
mod event;
mod headers;
mod master_key;
mod node;
mod page;
mod portal_link;
mod problem;
mod publish;
mod refused_request;
mod replay;
mod route;
pub mod schema;
mod source;
mod stats;
mod stream;
mod user;

pub use account::{
    AccountView, DefaultsInput, DefaultsView, ErasureView, NewAccount, OwnAccountInput, QuotasInput,
    QuotasView, RetrySettingsView,
};
pub use api_key::{ApiKeyInput, ApiKeyView, NewApiKeyView};
pub use attempt::{AttemptErrorView, AttemptView, RequestView, ResponseView, TimingView};
pub use audit::{AuditActorView, AuditEntryView, AuditQuery};
pub use delivery::{
    DeliveryDetailView, DeliveryQuery, DeliveryView, ResolvedByView, ResolvedFilter, WaitingForView,
};
pub use destination::{
    AuthInput, AuthKind, AuthView, DestinationStatus, DestinationView, HoldRecordView, HoldView,
    NewDestination, RetryPolicyFromView, RotateSecret, RotatedKey, SecretView, SettingsFromView,
    SigningInput, SigningView, TestEvent,
};
pub use doctor::{ExaminationView, FindingLevel, FindingView};
pub use event::{
    EventDetailView, EventQuery, EventReplayInput, EventView, FanoutState, FanoutView, MetadataIs,
};
pub use headers::HeadersView;
pub use master_key::{
    DataKeyRotationView, MasterKeyView, MasterKeysView, RotateDataKeys, RotateMasterKey, RotationView,
};
pub use node::{NodeStatus, NodeView};
pub use page::{DestinationQuery, ListBody, NameQuery};
pub use portal_link::{NewPortalLinkView, PortalLinkInput, PortalLinkView, PortalSessionView};
pub use problem::{Code, FieldError, Problem};
pub use publish::{Accepted, AcceptedStatus, BatchAnswer, BatchResult, NotJson, Publish, Refused};
pub use refused_request::RefusedRequestView;
pub use replay::{
    BackfillEvents, BackfillMatch, DeadLetterGroupQuery, DeadLetterGroupView, DestinationCountView,
    DismissInput, DismissedView, ReplayEstimateView, ReplayInput, ReplayView, ReplayWaitKind, ReplayWaitView,
};
pub use route::{
    DraftPreviewView, DraftRoute, NewRoute, PreviewInput, PreviewView, RoutePreviewView, RouteView, WhyView,
};
pub use source::{IngestUrlView, NewSource, SourceTag, SourceView, VerificationInput, VerificationView};
pub use stats::{
    DailyView, DestinationStatsView, FanoutStatsView, PointView, QuantilesView, SeriesBy, SeriesLatencyView,
    SeriesPointView, SeriesQuery, SeriesTotalsView, SeriesView, StatsQuery, StatsView, StatusCountView,
    TotalsView,
};
pub use stream::{AttemptSummaryView, DeliveryChangeView, DestinationChangeView, StreamKind, StreamQuery};
pub use user::{UserInput, UserView};
