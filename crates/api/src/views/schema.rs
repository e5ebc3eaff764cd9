//! How ids, times and free-form documents are described in the OpenAPI document. The rules know nothing of OpenAPI, so
//! these stand in for them: `#[schema(value_type = schema::EventId)]`.

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
