//! The API, from our own OpenAPI document: what there is, one operation at a time, and a form to try it by the session.

use crate::{
    command_line, format,
    frame::Screen,
    name,
    page_error::PageError,
    params::link,
    visit::{Page, Visit},
};
use axum::response::Response;
use maud::{Markup, PreEscaped, html};
use serde_json::{Map, Value};
use std::sync::LazyLock;

static DOCUMENT: LazyLock<Value> = LazyLock::new(api::document);
/// How deep an example is made up.
const DEPTH: usize = 6;

pub(crate) async fn page(visit: Visit) -> Response {
    let made = made(&visit);
    visit.show(Screen::Docs, made).await
}

struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    said: &'a Map<String, Value>,
}

impl<'a> Operation<'a> {
    fn text(&self, member: &str) -> &'a str {
        self.said.get(member).and_then(Value::as_str).unwrap_or_default()
    }

    fn id(&self) -> &'a str {
        self.text("operationId")
    }

    fn tag(&self) -> &'a str {
        self.said.get("tags").and_then(|tags| tags.get(0)).and_then(Value::as_str).unwrap_or("operations")
    }
}

fn operations() -> Vec<Operation<'static>> {
    let paths = DOCUMENT["paths"].as_object().into_iter().flatten();
    paths
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().into_iter().flatten();
            methods
                .filter_map(move |(method, said)| Some(Operation { method, path, said: said.as_object()? }))
        })
        .filter(|operation| ["get", "post", "put", "patch", "delete"].contains(&operation.method))
        .collect()
}

fn made(visit: &Visit) -> Result<Page, PageError> {
    visit.require_beyond_portal()?;
    let operations = operations();
    let asked = visit.params.get("op").unwrap_or("list_events");
    let shown = operations.iter().find(|operation| operation.id() == asked).or(operations.first());
    let body = html! {
        div.docs {
            nav.docs-list aria-label="Operations" {
                input type="search" data-find-operation placeholder="Find an operation" aria-label="Find an operation" autocomplete="off" spellcheck="false";
                @for tag in tags(&operations) {
                h2.caps { (tag) }
                ul { @for operation in operations.iter().filter(|operation| operation.tag() == tag) {
                    li data-words={ (operation.method) " " (operation.path) " " (operation.id()) } { a href=(link("/docs", &[("op", Some(operation.id()))])) aria-current=[(operation.id() == asked).then_some("page")] {
                        span class={ "method " (operation.method) } { (operation.method) } span.clip { (operation.path) } } }
                } }
            } }
            div.docs-one { @if let Some(operation) = shown { (one(visit, operation)) } }
        }
    };
    Ok(Page::new("API", body))
}

/// In the order of the document.
fn tags<'a>(operations: &[Operation<'a>]) -> Vec<&'a str> {
    let mut tags: Vec<&str> =
        DOCUMENT["tags"].as_array().into_iter().flatten().filter_map(|tag| tag["name"].as_str()).collect();
    tags.retain(|tag| operations.iter().any(|operation| operation.tag() == *tag));
    tags.extend(
        operations
            .iter()
            .map(Operation::tag)
            .filter(|tag| !DOCUMENT["tags"].to_string().contains(*tag))
            .take(1),
    );
    tags
}

fn one(visit: &Visit, operation: &Operation<'_>) -> Markup {
    let parameters: Vec<&Value> = operation
        .said
        .get("parameters")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(resolved)
        .collect();
    let body = operation
        .said
        .get("requestBody")
        .map(resolved)
        .and_then(|body| body["content"].as_object()?.values().next()?.get("schema"));
    let example = body.map(|schema| serde_json::to_string_pretty(&needed(schema, DEPTH)).unwrap_or_default());
    let members = body.map(members).unwrap_or_default();
    let curl = curl(visit, operation, example.as_deref());
    let by_session = operation.path.starts_with("/v1/") && operation.path != "/v1/stream";
    // The summary is the beginning of the description.
    let described = if operation.text("description").is_empty() {
        operation.text("summary")
    } else {
        operation.text("description")
    };
    html! {
        h2 { span class={ "method " (operation.method) } { (operation.method) } " " code { (operation.path) } }
        p { (in_words(described)) }
        form.sheet data-try=(operation.path) data-method=(operation.method.to_uppercase()) {
            @if !parameters.is_empty() {
                h3 { "Parameters" }
                table.list.params { tbody { @for parameter in &parameters {
                    @let required = parameter["required"].as_bool().unwrap_or(false);
                    @let place = parameter["in"].as_str().unwrap_or("query");
                    tr {
                        td { code { (parameter["name"].as_str().unwrap_or_default()) } @if required { span.bad { " *" } } div.quiet { (place) " · " (kind_word(&parameter["schema"])) } }
                        td.wide { (in_words(parameter["description"].as_str().unwrap_or_else(|| resolved(&parameter["schema"])["description"].as_str().unwrap_or_default()))) }
                        td { @if by_session && place != "header" { input name=(parameter["name"].as_str().unwrap_or_default()) data-in=(place) required[required] aria-label=(parameter["name"].as_str().unwrap_or_default()); } }
                    }
                } } }
            }
            @if let Some(example) = &example {
                h3 { "Body" }
                textarea name="body" data-in="body" rows=(example.lines().count().clamp(3, 16)) spellcheck="false" aria-label="Body" { (example) }
                @if !members.is_empty() {
                    details {
                        summary { "What it may have: " (format::count(members.len() as u64, "member", "members")) }
                        table.list.params { tbody { @for member in &members { tr {
                            td { code { (member.name) } @if member.required { span.bad { " *" } } div.quiet { (kind_word(member.schema)) } }
                            td.wide { (in_words(member.description())) }
                        } } } }
                    }
                }
            }
            @if by_session {
                button.button.primary type="submit" { "Try it" }
                @if operation.method != "get" { span.hint { " It really does it, in the account you look at." } }
                div data-form-result role="status" {}
            }
        }
        h3 { "curl" }
        (name::command(&curl))
        @if let Some(command) = by_command_line(visit, operation.id()) { h3 { "posthaste" } (name::command(&command)) }
        h3 { "Answers" }
        table.list { tbody { @for (status, answer) in operation.said.get("responses").and_then(Value::as_object).into_iter().flatten() {
            @let answer = resolved(answer);
            tr { td { (crate::status::code(status.parse().ok())) } td.wide { (in_words(answer["description"].as_str().unwrap_or_default())) @if let Some(schema) = answer["content"].as_object().and_then(|content| content.values().next()).map(|content| &content["schema"]).filter(|schema| !schema.is_null()) { details { summary { (kind_word(schema)) } pre.box { (serde_json::to_string_pretty(&made_up(schema, DEPTH)).unwrap_or_default()) } } } } }
        } } }
    }
}

/// The same with the command line, where it can.
fn by_command_line(visit: &Visit, operation: &str) -> Option<String> {
    Some(match operation {
        "publish" => command_line::send(visit, "invoice.paid", r#"{"id": "in_1", "amount": 1299}"#),
        "follow_stream" => command_line::tail(visit, &[]),
        "readyz" => command_line::health(visit),
        "create_api_key" => "posthaste keys create --name ci".into(),
        "list_api_keys" => "posthaste keys list".into(),
        "examine" => "posthaste doctor".into(),
        _ => return None,
    })
}

/// What a reference refers to.
fn resolved(value: &Value) -> &Value {
    let mut value = value;
    for _ in 0..8 {
        let Some(pointer) = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) else {
            break;
        };
        match DOCUMENT.pointer(pointer) {
            Some(found) => value = found,
            None => break,
        }
    }
    value
}

/// A member of what a request may have in its body.
struct Member<'a> {
    name: &'a str,
    schema: &'a Value,
    required: bool,
}

impl<'a> Member<'a> {
    fn description(&self) -> &'a str {
        let said = |value: &'a Value| value["description"].as_str();
        let several = self.schema["oneOf"].as_array().into_iter().flatten();
        let of_one = several.filter_map(|one| said(one).or_else(|| said(resolved(one)))).next();
        said(self.schema).or(of_one).or_else(|| said(resolved(self.schema))).unwrap_or_default()
    }
}

/// Of every shape that a body may have, each once; what is needed comes first.
fn members(schema: &Value) -> Vec<Member<'_>> {
    let schema = resolved(schema);
    let several = ["oneOf", "anyOf"].into_iter().find_map(|several| schema[several].as_array());
    let shapes = several.map_or_else(|| vec![schema], |shapes| shapes.iter().map(resolved).collect());
    let mut members: Vec<Member<'_>> = Vec::new();
    for shape in shapes {
        for (name, schema) in shape["properties"].as_object().into_iter().flatten() {
            if members.iter().all(|known| known.name != name) {
                members.push(Member { name, schema, required: is_required(shape, name) });
            }
        }
    }
    members.sort_by_key(|member| !member.required);
    members
}

fn is_required(schema: &Value, member: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|name| name == member))
}

/// The least that a body must have: whoever tries it as it stands changes nothing else.
fn needed(schema: &Value, depth: usize) -> Value {
    let schema = resolved(schema);
    let said = ["example", "default", "const"].iter().any(|said| !schema[*said].is_null());
    if said || depth == 0 {
        return made_up(schema, depth);
    }
    for several in ["oneOf", "anyOf"] {
        if let Some(first) = schema[several].get(0) {
            return needed(first, depth - 1);
        }
    }
    let Some(properties) = schema["properties"].as_object() else { return made_up(schema, depth) };
    let required = properties.iter().filter(|(name, _)| is_required(schema, name));
    required.map(|(name, member)| (name.clone(), needed(member, depth - 1))).collect::<Map<_, _>>().into()
}

/// A value as the schema has it, made up as far as it says nothing itself.
fn made_up(schema: &Value, depth: usize) -> Value {
    let schema = resolved(schema);
    for said in ["example", "default", "const"] {
        if !schema[said].is_null() {
            return schema[said].clone();
        }
    }
    if let Some(first) = schema["examples"].get(0).or(schema["enum"].get(0)) {
        return first.clone();
    }
    if depth == 0 {
        return Value::Null;
    }
    for several in ["oneOf", "anyOf"] {
        let each = schema[several].as_array().into_iter().flatten();
        if let Some(first) = each.into_iter().find(|one| one["type"] != "null") {
            return made_up(first, depth - 1);
        }
    }
    if let Some(all) = schema["allOf"].as_array() {
        let mut members = Map::new();
        for part in all {
            if let Value::Object(part) = made_up(part, depth - 1) {
                members.extend(part);
            }
        }
        return members.into();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => {
            kinds.iter().find(|kind| *kind != "null").and_then(Value::as_str).unwrap_or_default()
        }
        kind => kind.as_str().unwrap_or_default(),
    };
    match kind {
        "object" => {
            let members = schema["properties"].as_object().into_iter().flatten();
            members
                .map(|(name, member)| (name.clone(), made_up(member, depth - 1)))
                .collect::<Map<_, _>>()
                .into()
        }
        "array" => Value::Array(vec![made_up(&schema["items"], depth - 1)]),
        "integer" => schema["minimum"].as_i64().unwrap_or(1).into(),
        "number" => 0.5.into(),
        "boolean" => false.into(),
        "string" => "…".into(),
        _ => Value::Null,
    }
}

/// The name of a schema, or what it is.
fn kind_word(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        return name.to_owned();
    }
    if let Some(one) = schema["oneOf"].as_array().into_iter().flatten().find(|one| one["type"] != "null") {
        return kind_word(one);
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", kind_word(&schema["items"])),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds
            .iter()
            .filter_map(Value::as_str)
            .filter(|kind| *kind != "null")
            .collect::<Vec<_>>()
            .join(" or "),
        _ => "value".to_owned(),
    }
}

fn curl(visit: &Visit, operation: &Operation<'_>, body: Option<&str>) -> String {
    let mut text = format!(
        "curl -X {} '{}{}' \\\n  -H \"authorization: Bearer $POSTHASTE_KEY\"",
        operation.method.to_uppercase(),
        visit.origin,
        operation.path
    );
    if let Some(body) = body {
        text.push_str(&format!(
            " \\\n  -H 'content-type: application/json' \\\n  -d '{}'",
            body.replace('\'', r"'\''")
        ));
    }
    text
}

/// Text of the document: what is in backticks is code. All of it is ours, and escaped all the same.
fn in_words(text: &str) -> Markup {
    let mut shown = String::new();
    for (place, part) in text.split('`').enumerate() {
        let part = html! { (part) }.into_string();
        if place % 2 == 1 { shown.push_str(&format!("<code>{part}</code>")) } else { shown.push_str(&part) }
    }
    PreEscaped(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_listed_once_and_has_examples_that_end() {
        let operations = operations();
        assert!(operations.len() > 50);
        let listed: usize =
            tags(&operations).iter().map(|tag| operations.iter().filter(|it| it.tag() == *tag).count()).sum();
        assert_eq!(listed, operations.len());
        for operation in &operations {
            for answer in operation.said["responses"].as_object().into_iter().flat_map(Map::values) {
                for content in resolved(answer)["content"].as_object().into_iter().flat_map(Map::values) {
                    made_up(&content["schema"], DEPTH);
                }
            }
        }
    }

    #[test]
    fn a_body_to_try_has_what_is_needed_and_nothing_that_changes_more() {
        let body = |id: &str| {
            let operations = operations();
            let operation = operations.iter().find(|operation| operation.id() == id).unwrap();
            let content = resolved(&operation.said["requestBody"])["content"].as_object().unwrap();
            let schema = content["application/json"]["schema"].clone();
            let names: Vec<String> = members(&schema).iter().map(|member| member.name.to_owned()).collect();
            (needed(&schema, DEPTH), names)
        };
        let (made, names) = body("create_destination");
        assert_eq!(made.as_object().unwrap().keys().collect::<Vec<_>>(), ["name", "url"]);
        assert_eq!(names[..2], ["name", "url"]);
        assert!(names.contains(&"max_concurrency".to_owned()));
        assert_eq!(body("update_destination").0, serde_json::json!({}));
        assert!(body("publish").0["type"].is_string());
    }

    #[test]
    fn text_is_escaped_around_and_within_backticks() {
        assert_eq!(in_words("a <b> `c<d>`").into_string(), "a &lt;b&gt; <code>c&lt;d&gt;</code>");
    }
}
