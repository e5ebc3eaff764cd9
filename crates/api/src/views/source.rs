use contract::{SourceTag, SourceView, VerificationKind, VerificationView};
use domain::{
    source::{Source, Verification},
    tag::{TagPlace, TagRule},
};

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
        tags: source.tags.iter().map(source_tag).collect(),
        created_at: source.created_at,
        updated_at: source.updated_at,
    }
}

pub(crate) fn source_tag(rule: &TagRule) -> SourceTag {
    let prefix = Some(rule.prefix.clone()).filter(|prefix| !prefix.is_empty());
    match rule.place.clone() {
        TagPlace::Path(path) => SourceTag { path: Some(path), prefix, ..SourceTag::default() },
        TagPlace::Header(header) => SourceTag { header: Some(header), prefix, ..SourceTag::default() },
    }
}
