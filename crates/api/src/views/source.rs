use super::schema;
use domain::{
    id::SourceId,
    source::{Source, Verification},
    time::Timestamp,
};
use serde::Serialize;
use utoipa::ToSchema;

/// A door events come in by.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Source)]
pub struct SourceView {
    #[schema(value_type = schema::SourceId)]
    pub id: SourceId,
    #[schema(required)]
    pub uid: Option<String>,
    pub name: String,
    pub enabled: bool,
    /// Where to post events to. Whoever knows it can bring events in, so treat it as a secret.
    pub ingest_url: String,
    pub verification: VerificationView,
    /// Requests per second.
    #[schema(required)]
    pub rate_limit: Option<u32>,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub updated_at: Timestamp,
}

/// How a source checks its callers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Verification)]
pub struct VerificationView {
    #[serde(rename = "type")]
    pub kind: VerificationKind,
}

#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = VerificationType)]
pub enum VerificationKind {
    None,
}

impl SourceView {
    pub fn new(source: &Source, ingest_url: String) -> Self {
        let kind = match source.verification {
            Verification::None => VerificationKind::None,
        };
        Self {
            id: source.id,
            uid: source.uid.clone(),
            name: source.name.clone(),
            enabled: source.enabled,
            ingest_url,
            verification: VerificationView { kind },
            rate_limit: source.rate_limit,
            created_at: source.created_at,
            updated_at: source.updated_at,
        }
    }
}
