//! How ids, times, words and free-form documents are described in the OpenAPI document. The rules know nothing of
//! OpenAPI, so these stand in for them: `#[schema(value_type = schema::EventId)]`. What is sent in one of several shapes
//! is described in `inputs`, what texts may be in `texts`.

mod inputs;
mod texts;

pub use inputs::{
    ApiKeyInput, AuthInput, AuthPatch, DismissInput, PreviewInput, Publish, RateLimitInput, ReplayInput,
    SigningChoice, SigningInput,
};

use domain::{
    account::{self, KeyKind},
    audit, delivery, delivery_settings, destination, erasure, gate, lane, limits, member, oauth2, outcome,
    portal_link, replay, session, verification,
};
use std::borrow::Cow;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        KnownFormat, Object, ObjectBuilder, RefOr, Schema, SchemaFormat,
        schema::{AdditionalProperties, OneOfBuilder, Type},
    },
};

macro_rules! texts {
    ($($name:ident: $described:expr;)*) => {$(
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> { RefOr::T(Schema::Object($described)) }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> { Cow::Borrowed(stringify!($name)) }
        }
    )*};
}

texts! {
    AccountId: id("acc");
    ApiKeyId: id("key");
    UserId: id("usr");
    PortalLinkId: id("ptl");
    HolderId: holder();
    SourceId: id("src");
    DestinationId: id("dst");
    RouteId: id("rte");
    EventId: id("evt");
    DeliveryId: id("dlv");
    AttemptId: id("att");
    ReplayId: id("rpl");
    AuditId: id("aud");
    NodeId: id("nod");
    // What can be named by its uid as well.
    AccountRef: texts::reference("acc");
    SourceRef: texts::reference("src");
    DestinationRef: texts::reference("dst");
    RouteRef: texts::reference("rte");
    Timestamp: timestamp();
    Name: texts::name();
    Uid: texts::uid();
    EventType: texts::event_type();
    EventTypePattern: texts::event_type_pattern();
    IdempotencyKey: texts::idempotency_key();
    OrderingKey: texts::ordering_key();
    Tag: texts::tag();
    DismissalNote: texts::dismissal_note();
    TagPath: texts::tag_path();
    TagPrefix: texts::tag_prefix();
    ContentType: texts::content_type();
    Base64: texts::base64();
    DestinationUrl: texts::destination_url();
    SchemeSecret: texts::scheme_secret();
    HeaderName: texts::header_name();
    AuthValue: texts::auth_value();
    AuthUsername: texts::auth_username();
    VerificationSecret: texts::verification_secret();
    InboundHeaderName: texts::inbound_header_name();
    SignedText: texts::signed_text();
    Network: texts::network();
    Cursor: texts::cursor();
    IfMatch: texts::if_match();
    IdempotencyKeyHeader: texts::idempotency_key_header();
    IngestToken: texts::ingest_token();
    Headers: headers();
    HeadersInput: texts::headers_input();
    PreviewHeaders: document("Values by name; of a header that came twice, a list.");
    AuthHeaders: texts::auth_headers();
    TokenUrl: texts::token_url();
    TokenScope: texts::token_scope();
    TokenParams: texts::token_params();
    ClientAuth: words(oauth2::ClientAuth::WORDS)
        .description(Some("How the client shows its secret: by `Authorization: Basic`, or in the body."))
        .build();
    CertificateChain: texts::certificate_chain();
    PrivateKey: texts::private_key();
    AwsKeyId: texts::aws_key_id();
    AwsName: texts::aws_name();
    HttpStatus: number((*limits::HTTP_STATUSES.start()).into(), (*limits::HTTP_STATUSES.end()).into())
        .description(Some("A status of HTTP."))
        .build();
    PauseSeconds: number(1, 86_400).description(Some("The pause before a retry.")).build();
    Bytes: bytes();
    Filter: document(
        "A JSON match document over `type`, `data`, `headers` and `metadata`, which may be put together by `$or`, `$and` \
         and `$not`. It has at most 4 KiB, 64 clauses and 16 levels; other members, and operators that are not known, are \
         refused. Names of headers are in lower case.",
    );
    Metadata: document("Anything the publisher wants to find again, as a JSON object of at most 16 KiB.");
    AuditDifference: document("What changed, by member: `from` and `to`, or `changed`.");
    Anything: anything();
    UserRole: words(session::UserRole::WORDS).description(Some("What a user may do.")).build();
    ActorType: words(audit::ActorKind::WORDS).build();
    ApiKeyKind: words(KeyKind::WORDS).description(Some("What a key may be used for.")).build();
    DeliveryStatus: words(delivery::Status::WORDS).build();
    ErasurePhase: words(erasure::ErasurePhase::WORDS).description(Some("What is being erased, in this order.")).build();
    EndedStatus: words_of(delivery::Status::ALL.iter().filter(|status| status.ended()).map(|status| status.as_str()))
        .description(Some("The status of a delivery that has ended."))
        .build();
    ChangedStatus: words_of(
        delivery::Status::WORDS.iter().copied().filter(|word| !matches!(*word, "queued" | "delivering")),
    )
    .description(Some("The status that a change leaves a delivery in."))
    .build();
    EndReason: words_of(outcome::DeadReason::WORDS.iter().chain(delivery::CancelReason::WORDS).copied())
        .description(Some("Why a delivery ended undelivered."))
        .build();
    DeadReason: words(outcome::DeadReason::WORDS).description(Some("Why a delivery is a dead letter.")).build();
    RefusedStatus: words(&["refused"]).build();
    ReadinessFor: words(&["ingest"]).build();
    // Each tells one shape of an input from the others.
    NoAuthType: words(&["none"]).build();
    BearerAuthType: words(&["bearer"]).build();
    BasicAuthType: words(&["basic"]).build();
    HeadersAuthType: words(&["headers"]).build();
    OAuth2AuthType: words(&["oauth2"]).build();
    MtlsAuthType: words(&["mtls"]).build();
    AwsSigv4AuthType: words(&["aws_sigv4"]).build();
    AccountKeyKind: words(&["account"]).build();
    IngestKeyKind: words(&["ingest"]).build();
    OperatorKeyKind: words(&["operator"]).build();
    PlatformKeyKind: words(&["platform"]).build();
    IngestScope: words(&["ingest:write"]).build();
    HoldReason: words(gate::HoldReason::WORDS).build();
    OnDeadLetter: words(destination::OnDeadLetter::WORDS).build();
    Ordering: words(destination::Ordering::WORDS).build();
    Outcome: words(outcome::Outcome::WORDS).build();
    SettingLevel: words(delivery_settings::SettingLevel::WORDS).build();
    PortalLinkStatus: words(portal_link::PortalLinkStatus::WORDS).build();
    ReplayStatus: words(replay::ReplayStatus::WORDS).build();
    Role: words(member::Role::WORDS).build();
    Scope: words(account::Scope::WORDS).description(Some("A permission of a key.")).build();
    AccountScope: words_of(account::Scope::OF_ACCOUNT.iter().map(|scope| scope.as_str()))
        .description(Some("A permission that a key of an account may have."))
        .build();
    RotatedKey: words(&["secret", "key_pair"])
        .description(Some("The secret that a destination shares with its receivers, or the pair that it makes Ed25519 signatures with."))
        .build();
    SigningScheme: words(destination::Scheme::WORDS)
        .description(Some("Which signature is made with the secret: that of Standard Webhooks, one as Stripe or GitHub makes it, or none."))
        .build();
    DeliveryFormat: words(destination::Format::WORDS).description(Some("What a request has in it.")).build();
    WaitKind: words(lane::WaitKind::WORDS).build();
    VerificationType: words(verification::VerificationKind::WORDS).description(Some("How callers are verified: whose signatures they carry.")).build();
    RefusalReason: words(verification::RefusalReason::WORDS).description(Some("Why a request was not believed.")).build();
    SignatureEncoding: words(verification::Encoding::WORDS).build();
    HmacAlgorithm: words(verification::HmacAlgorithm::WORDS).build();
}

/// One of an enum's words.
fn words(words: &'static [&'static str]) -> ObjectBuilder {
    words_of(words.iter().copied())
}

fn words_of(words: impl Iterator<Item = &'static str>) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words))
}

/// A whole number within bounds.
fn number(minimum: u32, maximum: u32) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
        .minimum(Some(minimum))
        .maximum(Some(maximum))
}

/// So many requests in so many seconds.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes domain::destination::RateLimit")]
pub struct RateLimit {
    requests: u32,
    per_seconds: u32,
}

/// How often and for how long a delivery is tried.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes domain::retry::RetryPolicy")]
pub struct RetryPolicy {
    /// The pause before each retry, each 1 second to 24 hours; an empty list means one attempt.
    #[schema(required, max_items = 20)]
    schedule_seconds: Vec<u64>,
    /// The part of a pause that chance may add or take away.
    #[schema(required, minimum = 0.0, maximum = 1.0)]
    jitter: f64,
    /// The age at which a delivery is given up.
    #[schema(required, minimum = 1, maximum = 7776000)]
    expire_after_seconds: u64,
    #[schema(value_type = Vec<RetryStatus>, required, max_items = 32)]
    retry_statuses: Vec<u16>,
}

/// How often and for how long a delivery is to be tried. What is left out, or null, is as it is elsewhere: a route's is the
/// destination's, a destination's the account's default, an account's the installation's.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes domain::retry::RetrySettings")]
pub struct RetryPolicyInput {
    /// All pauses together are no longer than the account keeps what has ended (`retention_days`).
    #[schema(value_type = Option<Vec<PauseSeconds>>, max_items = 20)]
    schedule_seconds: Option<Vec<u64>>,
    /// The part of a pause that chance may add or take away.
    #[schema(minimum = 0.0, maximum = 1.0)]
    jitter: Option<f64>,
    /// The age at which a delivery is given up.
    #[schema(minimum = 1, maximum = 7776000)]
    expire_after_seconds: Option<u64>,
    #[schema(value_type = Option<Vec<RetryStatus>>, max_items = 32)]
    retry_statuses: Option<Vec<u16>>,
}

/// A code or a class.
pub struct RetryStatus;

impl PartialSchema for RetryStatus {
    fn schema() -> RefOr<Schema> {
        let text = "An answer that is worth a retry although it usually is final: a code, or all of a class. 410 and 429 are \
                    refused: what they mean is fixed, under `4xx` too.";
        let one_of = OneOfBuilder::new()
            .item(number(300, 499).description(Some("A code.")))
            .item(words(&["3xx", "4xx"]).description(Some("A class.")));
        RefOr::T(Schema::OneOf(one_of.description(Some(text)).build()))
    }
}

impl ToSchema for RetryStatus {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("RetryStatus")
    }
}

fn id(prefix: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(format!("^{prefix}_[0-7][0-9a-hjkmnp-tv-z]{{25}}$")))
        .examples([format!("{prefix}_01h455vb4pex5vsknk084sn02q")])
        .build()
}

/// The id of a key, a user or a portal link.
fn holder() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^(key|usr|ptl)_[0-7][0-9a-hjkmnp-tv-z]{25}$"))
        .description(Some("The id of an API key, of a user or of a portal link."))
        .examples(["key_01h455vb4pex5vsknk084sn02q"])
        .build()
}

fn timestamp() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .description(Some(
            "RFC 3339, shown in UTC with six decimals. Any offset is accepted, and a time from 1970 to 9999.",
        ))
        .examples(["2026-04-03T14:30:00.000000Z"])
        .build()
}

fn headers() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some("Header values by lower-case name."))
        .additional_properties(Some(AdditionalProperties::<Schema>::RefOr(RefOr::T(Schema::Object(
            ObjectBuilder::new().schema_type(Type::String).build(),
        )))))
        .build()
}

fn bytes() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
        .description(Some("Any bytes."))
        .build()
}

fn document(description: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(description))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)))
        .build()
}

fn anything() -> Object {
    ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::SchemaType::AnyValue)
        .description(Some("Any JSON value."))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    /// The members that a description names are those that are written.
    fn check<T: PartialSchema>(written: impl serde::Serialize) {
        let members = |value: &Value| {
            let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
            names.sort();
            names
        };
        let described = json!(T::schema());
        assert_eq!(members(&described["properties"]), members(&json!(written)));
    }

    #[test]
    fn what_stands_in_for_a_struct_of_the_rules_has_its_members() {
        check::<RetryPolicy>(domain::retry::RetryPolicy::default());
        check::<RetryPolicyInput>(domain::retry::RetrySettings::from(domain::retry::RetryPolicy::default()));
        check::<RateLimit>(destination::RateLimit { requests: 1, per_seconds: 1 });
        check::<RateLimitInput>(destination::RateLimit { requests: 1, per_seconds: 1 });
    }

    /// The members of all shapes together are those that are read.
    fn check_shapes<T: ToSchema>(read: &str) {
        let mut schemas = Vec::new();
        T::schemas(&mut schemas);
        let mut described = BTreeSet::new();
        for shape in json!(T::schema())["oneOf"].as_array().expect("one of several shapes") {
            let name =
                shape["$ref"].as_str().expect("a shape has a name").rsplit('/').next().unwrap().to_owned();
            let (_, schema) = schemas.iter().find(|(known, _)| *known == name).expect("a shape is described");
            let schema = json!(schema);
            assert_eq!(schema["additionalProperties"], json!(false), "{name}");
            described.extend(schema["properties"].as_object().unwrap().keys().cloned());
        }
        assert_eq!(described.into_iter().collect::<Vec<_>>().join(" "), read);
    }

    #[test]
    fn the_shapes_of_an_input_have_the_members_that_are_read() {
        check_shapes::<Publish>(
            "content_type data data_base64 deliver_at idempotency_key metadata ordering_key tags type",
        );
        check_shapes::<AuthInput>(
            "access_key_id audience certificate client_auth client_id client_secret headers params password \
             private_key region scope secret_access_key service session_token token token_url type username",
        );
        check_shapes::<ApiKeyInput>(
            "account_id allowed_addresses expires_at kind name rate_limit scopes source_id",
        );
        check_shapes::<ReplayInput>("delivery_ids destination_ids dry_run events filter match rate resolved");
        check_shapes::<DismissInput>("delivery_ids filter note");
        check_shapes::<PreviewInput>("data draft event_id headers metadata source_id type");
    }
}
