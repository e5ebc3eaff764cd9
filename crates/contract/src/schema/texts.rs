//! What texts may be: the bounds of `domain`, said as JSON Schema says them. Where a pattern cannot say a rule, the
//! description does: what fits the schema and is refused all the same is refused for what is written here.

use domain::{limits, pattern::PATTERN_MAX_BYTES};
use utoipa::openapi::{
    Object, ObjectBuilder, RefOr, Schema,
    schema::{AdditionalProperties, SchemaType, Type},
};

/// No control characters, and something that can be seen.
const VISIBLE: &str = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$";
const TOKEN: &str = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";
/// Bytes in base64, with padding, and nothing in the bits that are left over.
const BASE64: &str = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?";

pub(super) fn name() -> Object {
    text(1, limits::NAME_CHARS, VISIBLE)
        .description(Some("For people. Not only white space."))
        .examples(["Orders"])
        .build()
}

pub(super) fn uid() -> Object {
    let pattern = r"^([A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*|\.{3,})$";
    text(1, limits::UID_BYTES, pattern).examples(["order-service"]).build()
}

/// An id of ours, or the caller's own.
pub(super) fn reference(prefix: &str) -> Object {
    text(1, limits::UID_BYTES, "^[A-Za-z0-9._-]+$")
        .description(Some("Its id, or its uid. An id counts first."))
        .examples([format!("{prefix}_01h455vb4pex5vsknk084sn02q"), "order-service".to_owned()])
        .build()
}

pub(super) fn event_type() -> Object {
    text(1, limits::EVENT_TYPE_BYTES, r"^(?!posthaste(\.|$))[A-Za-z0-9._-]+$")
        .description(Some("What happened. `posthaste.` is ours."))
        .examples(["payment.succeeded"])
        .build()
}

pub(super) fn event_type_pattern() -> Object {
    let pattern = r"^(\*\*|(\*|[A-Za-z0-9_-]+)(\.(\*|[A-Za-z0-9_-]+))*(\.\*\*)?)$";
    text(1, PATTERN_MAX_BYTES, pattern)
        .description(Some(
            "`payment.succeeded` exactly, `payment.*` one segment more, `payment.**` any depth, `*` everything.",
        ))
        .examples(["payment.*"])
        .build()
}

pub(super) fn idempotency_key() -> Object {
    text(1, limits::IDEMPOTENCY_KEY_BYTES, "^[ -~]+$").examples(["order-1042-paid"]).build()
}

/// As a header: quoted, or as it is.
pub(super) fn idempotency_key_header() -> Object {
    text(1, limits::IDEMPOTENCY_KEY_BYTES, r#"^([!#-~]([ -~]*[!-~])?|"([ !#-\[\]-~]|\\["\\])+")$"#)
        .description(Some(
            "A key of your own, by which a repeat is recognised. A quoted string, as the draft of the header has it, is \
             the same key as the text inside.",
        ))
        .examples(["order-1042-paid"])
        .build()
}

pub(super) fn ordering_key() -> Object {
    text(1, limits::ORDERING_KEY_BYTES, r"^[^\x00-\x1f\x7f-\x9f]+$")
        .description(Some("At most 255 bytes of UTF-8."))
        .examples(["customer-7"])
        .build()
}

pub(super) fn tag() -> Object {
    text(1, limits::TAG_CHARS, r"^[^\x00-\x1f\x7f-\x9f]+$").examples(["order-7"]).build()
}

pub(super) fn dismissal_note() -> Object {
    text(1, limits::DISMISS_NOTE_CHARS, r"^[^\x00-\x1f\x7f-\x9f]+$")
        .description(Some("Why. It is kept with the dead letters and in the audit log."))
        .examples(["sent by hand"])
        .build()
}

pub(super) fn tag_path() -> Object {
    text(1, limits::TAG_PATH_BYTES, r"^[^\x00-\x1f\x7f-\x9f.]+(\.[^\x00-\x1f\x7f-\x9f.]+)*$")
        .description(Some("At most 256 bytes of UTF-8."))
        .examples(["order.id"])
        .build()
}

pub(super) fn tag_prefix() -> Object {
    text(0, limits::TAG_CHARS, r"^[^\x00-\x1f\x7f-\x9f]*$").examples(["order-"]).build()
}

pub(super) fn content_type() -> Object {
    let pattern = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+ *(;[ -~]*)?$";
    text(1, limits::CONTENT_TYPE_BYTES, pattern).examples(["text/csv"]).build()
}

pub(super) fn base64() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .content_encoding("base64")
        .pattern(Some(format!("^{BASE64}$")))
        .examples(["aGVsbG8="])
        .build()
}

const URL: &str =
    r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/?#@\\\x00-\x1f\x7f-\x9f]+([/?][^\s#\\\x00-\x1f\x7f-\x9f]*)?$";

pub(super) fn destination_url() -> Object {
    text(1, limits::URL_BYTES, URL)
        .description(Some(
            "https, or http where the operator allows it; no user name, no password, no fragment. At most 2,048 bytes, \
             also when it is written out. What does not parse as a URL is refused, and a host that the operator does not \
             let us call: private and local ones, as a rule.",
        ))
        .examples(["https://fulfillment.example.com/webhooks"])
        .build()
}

/// The shapes of it are those of the schemes.
pub(super) fn scheme_secret() -> Object {
    text(limits::TEXT_SECRET_MIN_BYTES, limits::TEXT_SECRET_MAX_BYTES, "^[!-~]([ -~]*[!-~])?$")
        .description(Some(
            "With the schemes `standard` and `none`: `whsec_` and 24 to 64 bytes in base64. With `stripe` and `github`: any \
             visible ASCII characters, and spaces between them; receivers know the same characters.",
        ))
        .examples(["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"])
        .build()
}

pub(super) fn header_name() -> Object {
    text(1, limits::CUSTOM_HEADER_NAME_BYTES, TOKEN)
        .description(Some(
            "The name of a header; case does not count, and none is given twice. Refused are those of HTTP itself, \
             `authorization` and `cookie` (set these by `auth`), and those that begin with `webhook-`, `posthaste-`, \
             `svix-` or `proxy-`.",
        ))
        .examples(["x-team"])
        .build()
}

pub(super) fn headers_input() -> Object {
    by_name(
        limits::CUSTOM_HEADER_VALUE_BYTES,
        "Values by name, sent in the clear with every request; null is none. Names are the same in any case, and none is \
         given twice. Refused are those of HTTP itself, `authorization` and `cookie` (set these by `auth`), and those that \
         begin with `webhook-`, `posthaste-`, `svix-` or `proxy-`.",
    )
    .build()
}

const AUTH_NAMES: &str = "Values by name, kept as secrets; null is none, and one is needed. Names are the same in any \
                          case, and none is given twice, here or by `headers`. Refused are those of HTTP itself, and \
                          those that begin with `webhook-`, `posthaste-`, `svix-` or `proxy-`.";

pub(super) fn auth_headers() -> Object {
    by_name(limits::AUTH_VALUE_BYTES, AUTH_NAMES).build()
}

pub(super) fn verification_secret() -> Object {
    text(1, limits::VERIFICATION_SECRET_BYTES, "^[!-~]([ -~]*[!-~])?$")
        .examples(["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"])
        .build()
}

/// Any header of a request that comes in.
pub(super) fn inbound_header_name() -> Object {
    text(1, limits::CUSTOM_HEADER_NAME_BYTES, TOKEN)
        .description(Some("The name of a header; case does not count."))
        .examples(["x-signature"])
        .build()
}

pub(super) fn signed_text() -> Object {
    text(0, limits::SIGNED_CONTENT_BYTES, "^[ -~]*$").build()
}

pub(super) fn network() -> Object {
    text(2, 43, "^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$")
        .description(Some("An address, or a network in CIDR notation."))
        .examples(["192.0.2.0/24"])
        .build()
}

pub(super) fn auth_value() -> Object {
    text(1, limits::AUTH_VALUE_BYTES, "^[!-~]([ -~]*[!-~])?$").build()
}

pub(super) fn auth_username() -> Object {
    text(1, limits::AUTH_VALUE_BYTES, "^[!-9;-~]([ -9;-~]*[!-9;-~])?$").build()
}

/// A URL like that of a destination.
pub(super) fn token_url() -> Object {
    text(1, limits::URL_BYTES, URL)
        .description(Some("Where tokens are asked for: a URL that a destination might have."))
        .examples(["https://auth.example.com/oauth/token"])
        .build()
}

pub(super) fn token_scope() -> Object {
    text(1, limits::TOKEN_SCOPE_BYTES, "^[!-~]([ -~]*[!-~])?$").examples(["hooks:write"]).build()
}

/// What else a token endpoint is told.
pub(super) fn token_params() -> Object {
    let value = text(0, limits::TOKEN_PARAM_VALUE_BYTES, "^([!-~]([ -~]*[!-~])?)?$")
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .build();
    let about = "Further parameters by name, kept as secrets; null is none. `grant_type`, `client_id`, `client_secret`, \
                 `scope` and `audience` are none of them.";
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(about))
        .property_names(Some(Schema::Object(
            text(1, limits::TOKEN_PARAM_NAME_BYTES, "^[A-Za-z0-9._-]+$").build(),
        )))
        .max_properties(Some(limits::TOKEN_PARAMS))
        .additional_properties(Some(AdditionalProperties::<Schema>::RefOr(RefOr::T(Schema::Object(value)))))
        .build()
}

pub(super) fn certificate_chain() -> Object {
    text(1, limits::CERTIFICATE_BYTES, "-----BEGIN CERTIFICATE-----")
        .description(Some("A chain of at most 8 certificates as PEM, your own first."))
        .build()
}

pub(super) fn private_key() -> Object {
    text(1, limits::PRIVATE_KEY_BYTES, "-----BEGIN [A-Z ]*PRIVATE KEY-----")
        .description(Some(
            "As PEM, not encrypted: RSA of 2,048 bits or more, ECDSA on P-256, P-384 or P-521, or Ed25519.",
        ))
        .build()
}

pub(super) fn aws_key_id() -> Object {
    text(1, limits::AWS_KEY_ID_BYTES, "^[A-Za-z0-9_]+$").examples(["AKIAIOSFODNN7EXAMPLE"]).build()
}

/// A region, or a service.
pub(super) fn aws_name() -> Object {
    text(1, limits::AWS_NAME_BYTES, "^[a-z0-9-]+$").examples(["eu-central-1", "execute-api"]).build()
}

pub(super) fn cursor() -> Object {
    text(1, 512, "^[A-Za-z0-9_-]+$")
        .description(Some(
            "`next_cursor` of the page before, of the same list with the same filters. Anything else is refused with 400 \
             `invalid_cursor`.",
        ))
        .build()
}

pub(super) fn if_match() -> Object {
    text(1, 255, r#"^(\*|(W/)?"[0-9]{1,19}"(, ?(W/)?"[0-9]{1,19}")*)$"#)
        .description(Some(
            "Change it only if its `etag` is still this one, else 412 `version_mismatch`. `*` is any.",
        ))
        .examples(["\"42\""])
        .build()
}

pub(super) fn ingest_token() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^[A-Za-z0-9_-]{32}$"))
        .description(Some("The secret part of the source's `ingest_url`."))
        .build()
}

fn by_name(value_bytes: usize, description: &str) -> ObjectBuilder {
    let value = text(0, value_bytes, "^([!-~]([ -~]*[!-~])?)?$")
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .build();
    let value = RefOr::T(Schema::Object(value));
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(description))
        .property_names(Some(Schema::Object(text(1, limits::CUSTOM_HEADER_NAME_BYTES, TOKEN).build())))
        .max_properties(Some(limits::CUSTOM_HEADERS))
        .additional_properties(Some(AdditionalProperties::<Schema>::RefOr(value)))
}

/// Of so many characters, at least and at most.
fn text(least: usize, most: usize, pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(least))
        .max_length(Some(most))
        .pattern(Some(pattern))
}
