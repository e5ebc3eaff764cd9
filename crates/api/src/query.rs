//! Query strings: unknown parameters are refused, repeated ones collect into lists.

use crate::{
    app::App,
    error::{ApiError, FieldError},
    json,
};
use axum::extract::FromRequestParts;
use http::request;
use serde::{
    Deserialize,
    de::{self, IntoDeserializer, value},
};

const METADATA: &str = "metadata.";

/// The parameters of a request as a type, whose lists take repeated parameters and whose other fields take one.
/// Types say `#[serde(deny_unknown_fields)]`.
pub struct Query<T>(pub T);

impl<T: de::DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, _: &App) -> Result<Self, ApiError> {
        Parameters::of(parts.uri.query()).read().map(Self)
    }
}

/// Names in the order of their first appearance, each with its values.
#[derive(Debug, Default)]
pub struct Parameters(Vec<(String, Vec<String>)>);

impl Parameters {
    pub(crate) fn of(query: Option<&str>) -> Self {
        let mut found = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match found.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value.into_owned()),
                None => found.0.push((name.into_owned(), vec![value.into_owned()])),
            }
        }
        found
    }

    /// Takes one parameter out; 422 if it is there more than once.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        let Some(at) = self.0.iter().position(|(known, _)| known == name) else { return Ok(None) };
        let (name, mut values) = self.0.remove(at);
        if values.len() > 1 {
            return Err(ApiError::invalid_field(format!("/{name}"), "repeated", "can be given once only"));
        }
        Ok(values.pop())
    }

    /// What was given for one parameter.
    pub(crate) fn values_mut(&mut self, name: &str) -> &mut [String] {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => values,
            None => &mut [],
        }
    }

    /// The same text for the same filters, in whatever order they were written.
    pub(crate) fn canonical(&self) -> String {
        let mut pairs: Vec<_> = self
            .0
            .iter()
            .flat_map(|(name, values)| values.iter().map(move |value| (name.as_str(), value.as_str())))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    }

    /// `metadata.<key>=<value>` as values of one parameter, whose name is no longer told by its key.
    fn with_metadata(self) -> Vec<(String, Vec<String>)> {
        let (metadata, mut others): (Vec<_>, Vec<_>) =
            self.0.into_iter().partition(|(name, _)| name.starts_with(METADATA));
        let of_key = |(name, values): (String, Vec<String>)| {
            let key = name[METADATA.len()..].to_owned();
            values.into_iter().map(move |value| format!("{key}\0{value}"))
        };
        let values: Vec<String> = metadata.into_iter().flat_map(of_key).collect();
        if !values.is_empty() {
            others.push(("metadata".into(), values));
        }
        others
    }

    pub(crate) fn read<T: de::DeserializeOwned>(self) -> Result<T, ApiError> {
        let pairs = self.with_metadata().into_iter().map(|(name, values)| (name, ParameterValues(values)));
        let from: value::MapDeserializer<'_, _, value::Error> = value::MapDeserializer::new(pairs);
        serde_path_to_error::deserialize(from).map_err(|error| {
            let told = json::field_error(json::pointer(error.path()), &error.inner().to_string());
            let code = if told.code == "unknown_field" { "unknown_parameter".into() } else { told.code };
            ApiError::invalid(vec![FieldError::new(told.pointer, code, told.detail)])
        })
    }
}

/// The values of one parameter.
struct ParameterValues(Vec<String>);

impl ParameterValues {
    fn one(mut self) -> Result<String, value::Error> {
        match (self.0.pop(), self.0.is_empty()) {
            (Some(value), true) => Ok(value),
            _ => Err(de::Error::custom("can be given once only")),
        }
    }

    fn parse<T: std::str::FromStr>(self, what: &str) -> Result<T, value::Error> {
        self.one()?.parse().map_err(|_| de::Error::custom(format!("expected {what}")))
    }
}

impl IntoDeserializer<'_, value::Error> for ParameterValues {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $what:literal),* $(,)?) => {$(
        fn $method<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
            visitor.$visit(self.parse($what)?)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for ParameterValues {
    type Error = value::Error;

    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        visitor.visit_string(self.one()?)
    }

    fn deserialize_option<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        let each = self.0.into_iter().map(|value| Self(vec![value]));
        visitor.visit_seq(value::SeqDeserializer::new(each))
    }

    fn deserialize_newtype_struct<V: de::Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: de::Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        visitor.visit_enum(self.one()?.into_deserializer())
    }

    numbers! {
        deserialize_bool visit_bool "true or false",
        deserialize_u8 visit_u8 "a whole number",
        deserialize_u16 visit_u16 "a whole number",
        deserialize_u32 visit_u32 "a whole number",
        deserialize_u64 visit_u64 "a whole number",
        deserialize_i64 visit_i64 "a whole number",
        deserialize_f64 visit_f64 "a number",
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i128 u128 f32 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct
        identifier ignored_any
    }
}

/// For lists without filters.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoFilter {}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{delivery::Status, time::Timestamp};

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, default)]
    struct Filter {
        status: Vec<Status>,
        http_status: Vec<u16>,
        since: Option<Timestamp>,
        q: Option<String>,
    }

    fn read(query: &str) -> Result<Filter, String> {
        Parameters::of(Some(query)).read().map_err(|error| {
            let FieldError { pointer, code, .. } = error.problem(domain::id::RequestId::MIN).errors.remove(0);
            format!("{pointer} {code}")
        })
    }

    #[test]
    fn repeated_parameters_are_a_list() {
        let found = read("status=queued&http_status=503&status=dead_letter&q=a%20b+c").unwrap();
        assert_eq!(found.status, [Status::Queued, Status::DeadLetter]);
        assert_eq!((found.http_status, found.q), (vec![503], Some("a b c".into())));
        assert_eq!(read("").unwrap(), Filter::default());
        assert_eq!(read("since=2026-04-03T14:30:00Z").unwrap().since, "2026-04-03T14:30:00Z".parse().ok());
    }

    #[test]
    fn what_does_not_fit_is_pointed_at() {
        assert_eq!(read("colour=red").unwrap_err(), "/colour unknown_parameter");
        assert_eq!(read("status=lost").unwrap_err(), "/status/0 unknown_value");
        assert_eq!(read("http_status=lots").unwrap_err(), "/http_status/0 invalid_value");
        assert_eq!(read("q=a&q=b").unwrap_err(), "/q invalid_value");
        assert_eq!(read("since=yesterday").unwrap_err(), "/since invalid_value");
    }

    #[test]
    fn the_canonical_text_does_not_depend_on_the_order() {
        let canonical = |query| Parameters::of(Some(query)).canonical();
        assert_eq!(canonical("b=2&a=1&b=1"), canonical("a=1&b=1&b=2"));
        assert_ne!(canonical("a=1"), canonical("a=2"));
        assert_ne!(canonical("a=1%26b%3D2"), canonical("a=1&b=2"));
    }
}
