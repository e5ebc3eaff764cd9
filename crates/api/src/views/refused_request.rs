use base64::{Engine as _, engine::general_purpose::STANDARD};
use contract::{HeadersView, RefusedRequestView};
use domain::{refused_request::RefusedRequest, verification::RefusalReason};

pub(crate) fn refused_request(request: &RefusedRequest) -> RefusedRequestView {
    let truncated = request.body_bytes > request.body.len() as u64;
    let text = text_of(&request.body, truncated).map(str::to_owned);
    RefusedRequestView {
        at: request.at,
        reason: request.reason,
        detail: detail(request.reason).into(),
        client_address: request.client.to_string(),
        headers: HeadersView::new(request.headers.iter().cloned()),
        size_bytes: request.body_bytes,
        body_base64: text.is_none().then(|| STANDARD.encode(&request.body)),
        body: text,
        truncated,
    }
}

/// A character that was cut through at the end makes no text of something else.
fn text_of(body: &[u8], truncated: bool) -> Option<&str> {
    match std::str::from_utf8(body) {
        Ok(text) => Some(text),
        Err(error) if truncated && error.error_len().is_none() => {
            std::str::from_utf8(&body[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

fn detail(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::MissingSignature => {
            "the header or member that carries the signature is not there: the sender does not sign, is another provider than \
             the source is for, or something on the way takes headers away"
        }
        RefusalReason::WrongSignature => {
            "the signature fits none of the source's secrets: compare them with what the provider shows. If they are right, \
             something on the way has changed the body, or, where the URL is signed, the provider calls another one than the \
             `ingest_url`"
        }
        RefusalReason::Stale => {
            "the timestamp is further from now than `tolerance_seconds`: a clock is wrong, or an old request was sent again"
        }
        RefusalReason::Malformed => {
            "the signature or the timestamp is not in the form that this type of verification has: is it the right type?"
        }
        RefusalReason::RepeatedHeader => {
            "a header that the verification goes by is there twice: something on the way adds it, or somebody tries to confuse"
        }
        RefusalReason::AddressNotAllowed => {
            "it does not come from `allowed_addresses`. Behind a proxy, `trusted_proxies` says whose word about addresses counts"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_was_cut_through_a_character_is_still_a_text() {
        assert_eq!(text_of("aä".as_bytes(), true), Some("aä"));
        assert_eq!(text_of(&"aä".as_bytes()[..2], true), Some("a"));
        assert_eq!(text_of(&"aä".as_bytes()[..2], false), None);
        assert_eq!(text_of(&[b'a', 0xff, b'b'], true), None);
    }
}
