use contract::{SourceTag, SourceView, VerificationView};
use domain::{
    source::Source,
    tag::{TagPlace, TagRule},
    verification::Verification,
};

/// Without its ingest URL.
pub(crate) fn source(source: &Source) -> SourceView {
    SourceView {
        id: source.id,
        uid: source.uid.clone(),
        name: source.name.clone(),
        enabled: source.enabled,
        ingest_url: None,
        verification: verification(&source.verification),
        rate_limit: source.rate_limit,
        tags: source.tags.iter().map(source_tag).collect(),
        keep_refused: source.keep_refused,
        created_at: source.created_at,
        updated_at: source.updated_at,
    }
}

fn verification(verification: &Verification) -> VerificationView {
    let rule = verification.hmac.clone();
    let (timestamp_header, id_header, signed_content) = rule
        .as_ref()
        .map(|rule| (rule.timestamp_header.clone(), rule.id_header.clone(), rule.signed_content.clone()))
        .unwrap_or_default();
    VerificationView {
        kind: verification.kind,
        secret_count: verification.secrets.len(),
        tolerance_seconds: verification.tolerance_seconds.or_else(|| {
            let has_none = rule.as_ref().is_some_and(|rule| rule.timestamp_header.is_none());
            verification.kind.tolerance_seconds().filter(|_| !has_none)
        }),
        allowed_addresses: verification.allowed_addresses.iter().map(ToString::to_string).collect(),
        header: rule.as_ref().map(|rule| rule.header.clone()),
        prefix: rule.as_ref().map(|rule| rule.prefix.clone()),
        encoding: rule.as_ref().map(|rule| rule.encoding),
        algorithm: rule.as_ref().map(|rule| rule.algorithm),
        timestamp_header,
        id_header,
        signed_content,
    }
}

pub(crate) fn source_tag(rule: &TagRule) -> SourceTag {
    let prefix = Some(rule.prefix.clone()).filter(|prefix| !prefix.is_empty());
    match rule.place.clone() {
        TagPlace::Path(path) => SourceTag { path: Some(path), prefix, ..SourceTag::default() },
        TagPlace::Header(header) => SourceTag { header: Some(header), prefix, ..SourceTag::default() },
    }
}
