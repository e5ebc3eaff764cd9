//! `/docs/errors`: every problem code on one page, with an anchor for each, so that the `type` of a problem leads
//! somewhere. Made from the codes themselves.

use crate::{answers::share_of_all, error::Code};
use axum::response::{IntoResponse, Response};
use http::header;
use std::{fmt::Write as _, sync::LazyLock};

pub(crate) async fn errors() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::CACHE_CONTROL, "public, max-age=300"),
    ];
    static PAGE: LazyLock<String> = LazyLock::new(page);
    share_of_all((headers, PAGE.as_str()).into_response())
}

/// Nothing in it comes from outside: there is nothing to escape.
fn page() -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Posthaste: problems</title>\n<h1>Problems</h1>\n\
         <p>Whatever is refused, or fails, is answered with a problem document (RFC 9457). Its <code>code</code> is \
         stable; its <code>request_id</code> leads to the line in the log.</p>\n",
    );
    for code in Code::ALL {
        let (word, status, title) = (code.as_str(), code.status(), code.title());
        let _ = write!(
            page,
            "<h2 id=\"{word}\">{word}</h2>\n<p><strong>{status}. {title}.</strong> {}</p>\n",
            advice(*code)
        );
    }
    page.push_str("</html>\n");
    page
}

/// What to do about it.
const fn advice(code: Code) -> &'static str {
    match code {
        Code::InvalidJson => "The detail says at which line and column the body stops being JSON.",
        Code::InvalidHeader => "The detail names the header and what it may be.",
        Code::InvalidCursor => {
            "A cursor belongs to one account, one list and its filters. Begin again without one."
        }
        Code::InvalidParameter => "The detail names the parameter and what it may be.",
        Code::MalformedRequest => {
            "The body broke off or was framed wrongly, most likely by a proxy on the way. The connection is closed."
        }
        Code::CredentialInUrl => {
            "URLs are kept in logs and histories. Revoke the key, and send the new one as \
             <code>Authorization: Bearer</code>."
        }
        Code::Unauthorized => {
            "Send <code>Authorization: Bearer</code> with a key that is neither revoked nor expired."
        }
        Code::SignInRefused => {
            "The key, or the name with its password, is none that may sign in to the dashboard, or the link has been used."
        }
        Code::CrossSite => {
            "Of the dashboard alone: a page of another site has tried to change something with the visitor's session, or the \
             session's token was missing. Load the page anew."
        }
        Code::TlsNeeded => {
            "Of the dashboard alone: a session would travel in the clear. Put TLS in front, and say so by \
             <code>public_url</code> or by <code>trusted_proxies</code>; or come by <code>localhost</code>."
        }
        Code::SignatureInvalid => {
            "The source verifies its callers, and this one did not sign with a secret it knows."
        }
        Code::ScopeMissing => "The detail names the scope. Use a key that has it.",
        Code::RevealDisabled => {
            "The operator has set <code>secrets.reveal = false</code>: a secret is shown by the answer that makes it, and never \
             again. Make a new one: <code>rotate-secret</code> of a destination, <code>rotate-token</code> of a source."
        }
        Code::SourceDisabled => "Enable the source to take events in by it again.",
        Code::NotFound => "There is no such thing, or it belongs to another account.",
        Code::MethodNotAllowed => "The <code>Allow</code> header names what is.",
        Code::NotAcceptable => {
            "Leave <code>Accept</code> out, or let it include <code>application/json</code>."
        }
        Code::RequestTimeout => {
            "A head has ten seconds, a body thirty, and it must not come at less than a kilobyte a second."
        }
        Code::UidTaken => {
            "Another object of the account has this uid. Choose another, or change that object."
        }
        Code::IdempotencyConflict => {
            "The key stands for what was sent with it first. Use a new key for something new."
        }
        Code::DeliveryEnded => "What has ended stays as it is. Replay it to send it again.",
        Code::DeliveryWaiting => "Only what has ended can be replayed. Retry it, or wait for its end.",
        Code::ReplayEnded => "It is completed or cancelled, and stays so. Make a new one.",
        Code::DestinationBusy => {
            "What waits has its place under the ordering there is. Let it be delivered, or cancel it, and try again."
        }
        Code::NodesBehind => {
            "What you ask for writes what such a node does not read. The detail names it: upgrade it, and ask again."
        }
        Code::NotRotated => {
            "Nothing was changed. The detail names the node, or the account, that stands in the way, and what to do."
        }
        Code::TestNotSent => {
            "<code>waiting_for</code> says what it waited for. Ask again later, or with <code>\"force\": true</code> if it \
             is not a slot."
        }
        Code::QuotaExceeded => "The detail says of what there is too much.",
        Code::Unreadable => {
            "Its row in the database was damaged, or written by a newer version: asking again does not help. The request id \
             leads to what is wrong with it in the log; the operator can mend it, or go back to a backup. Lists are shown \
             without it."
        }
        Code::PayloadErased => "Somebody has erased it. The event is still there, without its payload.",
        Code::PayloadInUse => {
            "A delivery of the event waits, is under way or is yet to be made. Cancel it, or wait for its end."
        }
        Code::AccountInUse => "The setting `operations.account` names it. Name another account there first.",
        Code::Pruned => "It is older than the account's retention.",
        Code::VersionMismatch => {
            "Somebody has changed it since it was read. Read it again, and send its <code>ETag</code> as \
             <code>If-Match</code>."
        }
        Code::PayloadTooLarge => "The detail says how large a body may be here.",
        Code::UriTooLong => "Use fewer or shorter query parameters.",
        Code::UnsupportedMediaType => {
            "Send <code>application/json</code>; to an ingest URL anything, but without \
             <code>Content-Encoding</code>."
        }
        Code::ValidationFailed => {
            "<code>errors</code> has everything that is wrong, each with a JSON pointer to its place."
        }
        Code::RateLimited => {
            "The key or the source brings in more events a second than its <code>rate_limit</code>. Wait for as many \
             seconds as <code>Retry-After</code> says; <code>RateLimit</code> tells what is left. It is also the \
             answer to an address that has sent many credentials that were none. Of actions and of the stream, the detail says how often, or how many times at once."
        }
        Code::BacklogFull => {
            "As many of the account's deliveries wait as may. Look for the destinations that do not take theirs; the \
             caps are the settings <code>limits.backlog_rows</code> and <code>limits.backlog_bytes</code>."
        }
        Code::HeadersTooLarge => "At most 100 headers in 32 KiB.",
        Code::Internal => "This is a bug. Please report it with the request id and what the log says of it.",
        Code::Overloaded => "Nothing was stored. Send it again after <code>Retry-After</code>.",
        Code::Unavailable => {
            "The database does not answer. Nothing is lost; send it again after <code>Retry-After</code>."
        }
        Code::Draining => "Ask another node, or this one again in a moment.",
        Code::OnlyDelivers => {
            "It was started with <code>--role worker</code>. Ask a node that listens; a balancer finds those by \
             <code>/readyz?for=ingest</code>."
        }
        Code::OutcomeUnknown => {
            "The store did not confirm, and the event may be there or not. Send it again with the same idempotency \
             key: it will be stored once."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_anchor() {
        let page = page();
        for code in Code::ALL {
            assert_eq!(page.matches(&format!("<h2 id=\"{}\">", code.as_str())).count(), 1, "{code:?}");
        }
    }
}
