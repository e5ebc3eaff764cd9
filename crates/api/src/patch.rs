//! The bodies of `PATCH`, for the OpenAPI document: the members of the body that creates, none of them required.

use utoipa::openapi::{RefOr, Schema};

/// Describes `$patch` as a merge patch of `$input`.
macro_rules! patch_schema {
    ($patch:ident as $name:literal of $input:ty) => {
        pub(crate) struct $patch;

        impl utoipa::PartialSchema for $patch {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                crate::patch::nothing_required(<$input as utoipa::PartialSchema>::schema())
            }
        }

        impl utoipa::ToSchema for $patch {
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed($name)
            }

            fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
                <$input as utoipa::ToSchema>::schemas(schemas);
            }
        }
    };
}

pub(crate) use patch_schema;

pub(crate) fn nothing_required(schema: RefOr<Schema>) -> RefOr<Schema> {
    match schema {
        RefOr::T(Schema::Object(mut object)) => {
            object.required.clear();
            let text =
                "A merge patch (RFC 7396): null restores the default, what is left out stays as it is.";
            object.description = Some(text.into());
            RefOr::T(Schema::Object(object))
        }
        other => other,
    }
}
