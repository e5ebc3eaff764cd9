use contract::{AuditActorView, AuditEntryView};
use domain::audit::{AuditEntry, AuditRecord};
use std::fmt::Write as _;

pub(crate) fn audit_entry(record: &AuditRecord) -> AuditEntryView {
    let AuditRecord { account_id, number, entry, hash } = record;
    let AuditEntry { id, at, actor, action, object_id, client, request_id, difference, count } =
        entry.clone();
    AuditEntryView {
        id,
        number: *number,
        account_id: *account_id,
        at,
        actor: AuditActorView {
            kind: actor.kind(),
            key_id: actor.key_id(),
            user_id: actor.user_id(),
            portal_link_id: actor.portal_link_id(),
        },
        action,
        object_id,
        client,
        request_id,
        // As it is kept: what somebody has made of it by hand is no reason to show nothing.
        difference: difference.map(|text| serde_json::from_str(&text).unwrap_or_else(|_| text.into())),
        count,
        hash: hexadecimal(hash),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
