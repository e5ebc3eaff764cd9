//! How ids, times, words and free-form documents are described in the OpenAPI document. The rules know nothing of
//! OpenAPI, so these stand in for them: `#[schema(value_type = schema::EventId)]`.

use domain::{
    account::{self, KeyKind},
    delivery, destination, gate, lane, member, outcome, replay,
};
use std::borrow::Cow;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        KnownFormat, Object, ObjectBuilder, RefOr, Schema, SchemaFormat,
        schema::{AdditionalProperties, Type},
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
    SourceId: id("src");
    DestinationId: id("dst");
    RouteId: id("rte");
    EventId: id("evt");
    DeliveryId: id("dlv");
    AttemptId: id("att");
    ReplayId: id("rpl");
    NodeId: id("nod");
    Timestamp: timestamp();
    Headers: headers();
    EventTypePattern: pattern();
    Filter: document("A JSON match document over `type`, `data`, `headers` and `metadata`.");
    Metadata: document("Anything the publisher wants to find again, as a JSON object.");
    Anything: anything();
    ApiKeyKind: words(KeyKind::WORDS).description(Some("What a key may be used for.")).build();
    DeliveryStatus: words(delivery::Status::WORDS).build();
    HoldReason: words(gate::HoldReason::WORDS).build();
    OnDeadLetter: words(destination::OnDeadLetter::WORDS).build();
    Ordering: words(destination::Ordering::WORDS).build();
    Outcome: words(outcome::Outcome::WORDS).build();
    ReplayStatus: words(replay::ReplayStatus::WORDS).build();
    Role: words(member::Role::WORDS).build();
    Scope: words(account::Scope::WORDS).description(Some("A permission of a key.")).build();
    SigningScheme: words(destination::Scheme::WORDS).build();
    WaitKind: words(lane::WaitKind::WORDS).build();
}

/// One of an enum's words.
fn words(words: &'static [&'static str]) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.iter().copied()))
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
    /// Answers from 300 to 499 that are worth a retry.
    #[schema(required, max_items = 32)]
    retry_statuses: Vec<u16>,
}

/// How often and for how long a delivery is to be tried. What is left out takes its default.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes domain::retry::RetryPolicy")]
pub struct RetryPolicyInput {
    #[schema(max_items = 20)]
    schedule_seconds: Option<Vec<u64>>,
    #[schema(minimum = 0.0, maximum = 1.0)]
    jitter: Option<f64>,
    #[schema(minimum = 1, maximum = 7776000)]
    expire_after_seconds: Option<u64>,
    #[schema(max_items = 32)]
    retry_statuses: Option<Vec<u16>>,
}

fn id(prefix: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(format!("^{prefix}_[0-7][0-9a-hjkmnp-tv-z]{{25}}$")))
        .examples([format!("{prefix}_01h455vb4pex5vsknk084sn02q")])
        .build()
}

fn timestamp() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .description(Some("RFC 3339, shown in UTC with six decimals; any offset is accepted."))
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

fn pattern() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(
            "`payment.succeeded` exactly, `payment.*` one segment more, `payment.**` any depth, `*` everything.",
        ))
        .examples(["payment.*"])
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
        check::<RetryPolicyInput>(domain::retry::RetryPolicy::default());
        check::<RateLimit>(destination::RateLimit { requests: 1, per_seconds: 1 });
    }
}
