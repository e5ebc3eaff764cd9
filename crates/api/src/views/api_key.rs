use contract::ApiKeyView;
use domain::account::{ApiKey, KeyKind};

pub(crate) fn api_key(key: &ApiKey) -> ApiKeyView {
    ApiKeyView {
        id: key.id,
        name: key.name.clone(),
        kind: key.kind,
        prefix: prefix(key),
        scopes: key.scopes.clone(),
        source_id: key.source_id,
        rate_limit: key.rate_limit,
        expires_at: key.expires_at,
        allowed_addresses: key.allowed_addresses.iter().map(ToString::to_string).collect(),
        last_used_at: key.last_used_at,
        revoked_at: key.revoked_at,
        created_at: key.created_at,
    }
}

/// Four characters of the public part tell two keys apart.
fn prefix(key: &ApiKey) -> String {
    let kind = match key.kind {
        KeyKind::Account => "phk",
        KeyKind::Ingest => "phi",
        KeyKind::Operator => "pho",
        KeyKind::Platform => "php",
    };
    let begins: String = key.lookup.chars().take(4).collect();
    format!("{kind}_{begins}…")
}
