use contract::{SourceView, VerificationKind, VerificationView};
use domain::source::{Source, Verification};

/// Without its ingest URL.
pub(crate) fn source(source: &Source) -> SourceView {
    let kind = match source.verification {
        Verification::None => VerificationKind::None,
    };
    SourceView {
        id: source.id,
        uid: source.uid.clone(),
        name: source.name.clone(),
        enabled: source.enabled,
        ingest_url: None,
        verification: VerificationView { kind },
        rate_limit: source.rate_limit,
        created_at: source.created_at,
        updated_at: source.updated_at,
    }
}
