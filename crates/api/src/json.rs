//! JSON in: bodies of management requests, and the parsing that publishing shares with them.
//!
//! What is not JSON is a 400 with line and column; what is JSON and does not fit is a 422 with a pointer to the place.

mod strict;
mod words;

use crate::{
    app::App,
    body,
    error::{ApiError, FieldError},
    place::Place,
};
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use domain::{id::AccountId, limits};
use http::{HeaderMap, Method, header};
use ingest::ReservedBytes;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};
use std::fmt::Write as _;
use strict::{Distinct, Strict};

/// The body of a management request. Types say `#[serde(deny_unknown_fields)]`.
pub struct Body<T>(pub T);

impl<T: serde::de::DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        management(request, app, limits::MANAGEMENT_BODY_BYTES).await.map(Self)
    }
}

/// The same, of another size.
pub struct BodyUpTo<const BYTES: usize, T>(pub T);

impl<const BYTES: usize, T: serde::de::DeserializeOwned> FromRequest<App> for BodyUpTo<BYTES, T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        management(request, app, BYTES).await.map(Self)
    }
}

async fn management<T: serde::de::DeserializeOwned>(
    request: Request,
    app: &App,
    limit: usize,
) -> Result<T, ApiError> {
    // Operators have a share of their own.
    let account = request.extensions().get().copied().unwrap_or(AccountId::MIN);
    let place = request.extensions().get::<Place>().cloned();
    if let Some(place) = &place {
        place.give_up();
    }
    let (bytes, _reserved) = read(request, app, account, limit).await?;
    if let Some(place) = place {
        place.take_again().await?;
    }
    check_shape(&bytes, Some(limits::JSON_KEYS))?;
    parse::<Distinct>(&bytes)?;
    parse(&bytes)
}

/// Reads a JSON body: 415 for another content type or an encoded body, 413 beyond the limit.
pub(crate) async fn read(
    request: Request,
    app: &App,
    account: AccountId,
    limit: usize,
) -> Result<(Bytes, ReservedBytes), ApiError> {
    if !is_json(request.headers(), request.method() == Method::PATCH) {
        return Err(ApiError::unsupported_media_type("send `content-type: application/json`"));
    }
    body::check_unencoded(request.headers())?;
    let (stream, budget) = (request.into_body(), app.admission.budget());
    body::read(stream, limit, &app.config.deadlines, budget, account).await
}

fn is_json(headers: &HeaderMap, patch: bool) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        || patch && essence.eq_ignore_ascii_case("application/merge-patch+json")
}

/// Bytes to a checked type. Every document is an object.
pub(crate) fn parse<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, ApiError> {
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        serde_json::from_slice::<IgnoredAny>(bytes).map_err(malformed)?;
        return Err(ApiError::invalid_field("", "invalid_type", "expected an object, found a list"));
    }
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut from);
    let parsed = parsed.map_err(|error| (pointer(error.path()), error.into_inner()));
    match parsed.and_then(|value| from.end().map(|()| value).map_err(|error| (String::new(), error))) {
        Ok(value) => Ok(value),
        Err((pointer, error)) if error.is_data() => {
            // A document that breaks further down is malformed, whatever else is wrong with it.
            serde_json::from_slice::<IgnoredAny>(bytes).map_err(malformed)?;
            Err(ApiError::invalid(vec![field_error(pointer, &error.to_string())]))
        }
        Err((_, error)) => Err(malformed(error)),
    }
}

/// A document that is already a [`Value`] to a checked type.
pub fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(Strict(value)).map_err(|error| {
        ApiError::invalid(vec![field_error(pointer(error.path()), &error.inner().to_string())])
    })
}

/// A form with a patch merged into it, to a checked type. The type does not see what a patch removes, so it is asked
/// about those members one by one: what it does not know is refused, `null` or not.
pub fn patched<T: serde::de::DeserializeOwned>(form: Value, patch: Value) -> Result<T, ApiError> {
    known_removals::<T>(&patch)?;
    from_value(merge_patch(form, patch))
}

/// Refuses a patch that removes a member which `T` does not have.
pub fn known_removals<T: serde::de::DeserializeOwned>(patch: &Value) -> Result<(), ApiError> {
    for removal in removals(patch) {
        let Err(error) = serde_path_to_error::deserialize::<_, T>(Strict(removal)) else { continue };
        let told = field_error(pointer(error.path()), &error.inner().to_string());
        if told.code == "unknown_field" {
            return Err(ApiError::invalid(vec![told]));
        }
    }
    Ok(())
}

/// A document for each member that the patch removes, with that member alone.
fn removals(patch: &Value) -> Vec<Value> {
    let Value::Object(members) = patch else { return Vec::new() };
    let alone = |name: &String, value| Value::Object([(name.clone(), value)].into_iter().collect());
    members
        .iter()
        .flat_map(|(name, change)| match change {
            Value::Null => vec![alone(name, Value::Null)],
            deeper => removals(deeper).into_iter().map(|removal| alone(name, removal)).collect(),
        })
        .collect()
}

/// RFC 7396: members of the patch replace, `null` removes, objects go deeper.
pub fn merge_patch(current: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    let mut merged = match current {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    for (name, change) in patch {
        if change.is_null() {
            merged.shift_remove(&name);
        } else {
            let before = merged.get_mut(&name).map(Value::take).unwrap_or_default();
            merged.insert(name, merge_patch(before, change));
        }
    }
    Value::Object(merged)
}

fn malformed(error: serde_json::Error) -> ApiError {
    ApiError::invalid_json(error.to_string())
}

/// Depth, and the number of keys if asked for: one pass over the bytes, before anything is built from them.
pub(crate) fn check_shape(bytes: &[u8], max_keys: Option<usize>) -> Result<(), ApiError> {
    let (mut depth, mut keys, mut in_string, mut escaped) = (0usize, 0usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                if depth > limits::JSON_DEPTH {
                    return Err(ApiError::invalid_json(format!("nested deeper than {}", limits::JSON_DEPTH)));
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' => keys += 1,
            _ => {}
        }
    }
    match max_keys {
        Some(max) if keys > max => Err(ApiError::invalid_json(format!("more than {max} keys"))),
        _ => Ok(()),
    }
}

/// `errors[0].name` of serde as the JSON pointer `/errors/0/name`.
pub(crate) fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => write!(pointer, "/{index}").expect("writing to a String"),
            Segment::Map { key } => {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

/// Serde tells by its message alone what was wrong; the words are stable, and a test holds them.
pub(crate) fn field_error(mut pointer: String, message: &str) -> FieldError {
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    let name = message.split('`').nth(1).unwrap_or_default();
    let code = match message {
        _ if message.starts_with("unknown field") => "unknown_field",
        _ if message.starts_with("missing field") => "missing_field",
        _ if message.starts_with("duplicate field") => "duplicate_field",
        _ if message.starts_with("unknown variant") => "unknown_value",
        _ if message.starts_with("invalid type") => "invalid_type",
        _ if message.starts_with("invalid length") => "invalid_length",
        _ => "invalid_value",
    };
    // The path of these ends at the object; the member is meant.
    let names_member = matches!(code, "unknown_field" | "missing_field" | "duplicate_field");
    if names_member && pointer.rsplit('/').next() != Some(name) {
        pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
    }
    FieldError::new(pointer, code, words::plain(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use serde_json::json;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[allow(dead_code, reason = "only parsed")]
        name: String,
        #[serde(default)]
        #[allow(dead_code, reason = "only parsed")]
        inner: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[allow(dead_code, reason = "only parsed")]
        count: u32,
    }

    fn check(body: &str, pointer: &str, code: &str) {
        let error = parse::<Outer>(body.as_bytes()).unwrap_err();
        assert_eq!(error.code(), Code::ValidationFailed, "{body}");
        let problem = error.problem(domain::id::RequestId::MIN);
        assert_eq!(
            (problem.errors[0].pointer.as_str(), &*problem.errors[0].code),
            (pointer, code),
            "{problem:?}"
        );
    }

    #[test]
    fn what_does_not_fit_is_pointed_at() {
        check(r#"{"name":"a","colour":1}"#, "/colour", "unknown_field");
        check(r#"{"name":"a","inner":[{"count":1},{"count":"two"}]}"#, "/inner/1/count", "invalid_type");
        check(r#"{"name":"a","inner":[{"count":1,"x":1}]}"#, "/inner/0/x", "unknown_field");
        check(r#"{"name":"a","inner":[{}]}"#, "/inner/0/count", "missing_field");
        check(r#"{"inner":[]}"#, "/name", "missing_field");
        check(r#"{"name":"a","name":"b"}"#, "/name", "duplicate_field");
        check(r#"7"#, "", "invalid_type");
    }

    #[test]
    fn a_list_is_no_object() {
        check(r#" ["a",[]]"#, "", "invalid_type");
        for (document, place) in [(json!(["a", []]), ""), (json!({"name": "a", "inner": [[1]]}), "/inner/0")]
        {
            let error = from_value::<Outer>(document).unwrap_err().problem(domain::id::RequestId::MIN);
            assert_eq!((&*error.errors[0].pointer, &*error.errors[0].code), (place, "invalid_type"));
        }
        assert!(from_value::<Outer>(json!({"name": "a", "inner": [{"count": 1}]})).is_ok());
    }

    #[test]
    fn no_member_is_given_twice() {
        let check = |body: &str, place: &str| {
            let error = parse::<Distinct>(body.as_bytes()).map(drop).unwrap_err();
            let problem = error.problem(domain::id::RequestId::MIN);
            assert_eq!((&*problem.errors[0].pointer, &*problem.errors[0].code), (place, "duplicate_field"));
        };
        check(r#"{"a":1,"a":2}"#, "/a");
        check(r#"{"a":[{"b":{"c":1,"c":1}}]}"#, "/a/0/b/c");
        assert!(parse::<Distinct>(br#"{"a":{"a":[1,2.5,"x",null,true,-1]},"b":{"a":1}}"#).is_ok());
    }

    #[test]
    fn a_patch_removes_only_what_there_is() {
        let check = |patch: Value| {
            let form = json!({"name": "a", "inner": [{"count": 1}]});
            patched::<Outer>(form, patch).map(|outer| outer.inner.len()).map_err(|error| {
                let FieldError { pointer, code, .. } =
                    error.problem(domain::id::RequestId::MIN).errors.remove(0);
                format!("{pointer} {code}")
            })
        };
        assert_eq!(check(json!({"inner": null})), Ok(0));
        assert_eq!(check(json!({"colour": null})).unwrap_err(), "/colour unknown_field");
        assert_eq!(check(json!({"inner": null, "name": null})).unwrap_err(), "/name missing_field");
    }

    #[test]
    fn what_is_not_json_is_told_with_its_place() {
        for body in ["", "{", r#"{"name":1,}"#, r#"{"name":"a"} x"#, "{'name':1}"] {
            let error = parse::<Outer>(body.as_bytes()).unwrap_err();
            assert_eq!(error.code(), Code::InvalidJson, "{body}");
            assert!(error.to_string().contains("line 1 column"), "{error}");
        }
    }

    #[test]
    fn depth_and_keys_are_bounded_and_strings_do_not_count() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(check_shape(deep(limits::JSON_DEPTH).as_bytes(), None).is_ok());
        assert!(check_shape(deep(limits::JSON_DEPTH + 1).as_bytes(), None).is_err());
        assert!(check_shape(format!(r#""{}\"{}""#, "[".repeat(99), "[".repeat(99)).as_bytes(), None).is_ok());
        assert!(check_shape(br#"{"a":1,"b":{"c":":"}}"#, Some(3)).is_ok());
        assert!(check_shape(br#"{"a":1,"b":{"c":":"}}"#, Some(2)).is_err());
    }

    #[test]
    fn a_merge_patch_follows_the_rfc() {
        let table = [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"foo"}), json!(null), json!(null)),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ];
        for (current, patch, merged) in table {
            assert_eq!(merge_patch(current.clone(), patch.clone()), merged, "{current} with {patch}");
        }
    }
}
