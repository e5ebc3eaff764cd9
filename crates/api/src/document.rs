//! The OpenAPI document as clients are generated from it: what utoipa makes of the code, put into the words that say what
//! it means. Nothing is described here that the code beside its handler could say; what we send is in `webhooks`.

mod webhooks;

use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

const SCHEMAS: &str = "#/components/schemas/";

/// What has a version, and is only ever shown alone with it as its entity tag (`changes::Versioned`).
const VERSIONED: [&str; 4] = ["Account", "Destination", "Route", "Source"];

pub(crate) fn finish(described: OpenApi) -> Value {
    let mut document = serde_json::to_value(described).expect("the document is plain data");
    document["webhooks"] = webhooks::describe();
    for operation in operations(&mut document) {
        tell_in_full(operation);
        leave_bodies_out(operation);
        leave_parameters_out(operation);
        tell_entity_tags(operation);
    }
    name_list_items(&mut document);
    patch_by_parts(&mut document);
    tell_defaults(&mut document);
    walk(&mut document, &mut name_pages);
    document
}

fn operations(document: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut).filter_map(Value::as_object_mut)
}

/// The first sentence is the summary, all of them are the description.
fn tell_in_full(operation: &mut Map<String, Value>) {
    let mut text = operation.get("summary").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(rest) = operation.get("description").and_then(Value::as_str) {
        text = format!("{text}\n\n{rest}");
    }
    let first = text.split(". ").next().unwrap_or_default().split(".\n").next().unwrap_or_default();
    operation.insert("summary".into(), first.trim_end_matches('.').into());
    operation.insert("description".into(), text.into());
}

/// `Option<T>` is a body that may be missing; it is never `null`.
fn leave_bodies_out(operation: &mut Map<String, Value>) {
    let Some(body) = operation.get_mut("requestBody") else { return };
    let Some(schema) = body.pointer_mut("/content/application~1json/schema") else { return };
    if without_null(schema) {
        body["required"] = false.into();
    }
}

/// Nor is a parameter.
fn leave_parameters_out(operation: &mut Map<String, Value>) {
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(schema) = parameter.get_mut("schema") {
            without_null(schema);
        }
    }
}

/// An object that is shown by itself comes with its version.
fn tell_entity_tags(operation: &mut Map<String, Value>) {
    let answers = operation.get_mut("responses").and_then(Value::as_object_mut);
    for (_, answer) in answers.into_iter().flatten().filter(|(status, _)| status.starts_with('2')) {
        let shown = answer.pointer("/content/application~1json/schema/$ref").and_then(Value::as_str);
        let shown = shown.and_then(|reference| reference.strip_prefix(SCHEMAS));
        if shown.is_some_and(|name| VERSIONED.contains(&name)) {
            answer["headers"]["etag"] = json!({
                "description": "Its version, for `If-Match`: a change with it is made only if nobody else made one since.",
                "required": true,
                "schema": { "type": "string", "pattern": "^\"[0-9]+\"$", "example": "\"42\"" },
            });
        }
    }
}

/// Takes `null` out of what a value may be; says whether it was there.
fn without_null(schema: &mut Value) -> bool {
    let null = json!({ "type": "null" });
    if let Some(shapes) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        let before = shapes.len();
        shapes.retain(|shape| *shape != null);
        if shapes.len() == before {
            return false;
        }
        if let [only] = shapes.as_mut_slice() {
            *schema = only.take();
        }
        return true;
    }
    let Some(types) = schema.get_mut("type").filter(|types| types.is_array()) else { return false };
    let kept: Vec<Value> =
        types.as_array().into_iter().flatten().filter(|kind| *kind != "null").cloned().collect();
    match <[Value; 1]>::try_from(kept) {
        Ok([only]) => *types = only,
        Err(kept) => *types = kept.into(),
    }
    true
}

/// utoipa writes the items of a generic list out in full, once more for every list.
fn name_list_items(document: &mut Value) {
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
    let lists: Vec<String> = schemas.keys().filter(|name| name.starts_with("ListBody_")).cloned().collect();
    for list in lists {
        let item = list.trim_start_matches("ListBody_");
        assert!(schemas.contains_key(item), "`{item}` is listed and has no schema of its own");
        schemas[&list]["properties"]["data"]["items"] = json!({ "$ref": format!("{SCHEMAS}{item}") });
    }
}

/// A page of events is an `EventPage`.
fn name_pages(object: &mut Map<String, Value>) {
    let page = |name: &str| name.strip_prefix("ListBody_").map(|item| format!("{item}Page"));
    let named: Vec<(String, String)> =
        object.keys().filter_map(|name| Some((name.clone(), page(name)?))).collect();
    for (old, new) in named {
        let schema = object.shift_remove(&old).expect("it was just there");
        object.insert(new, schema);
    }
    if let Some(Value::String(reference)) = object.get_mut("$ref")
        && let Some(new) = reference.strip_prefix(SCHEMAS).and_then(page)
    {
        *reference = format!("{SCHEMAS}{new}");
    }
}

/// A patch of a destination leaves secrets out that stay, and has no signing secret.
fn patch_by_parts(document: &mut Value) {
    let Some(patch) = document.pointer_mut("/components/schemas/DestinationPatch") else { return };
    walk(patch, &mut |object| {
        if let Some(Value::String(reference)) = object.get_mut("$ref") {
            let part = match reference.trim_start_matches(SCHEMAS) {
                "AuthInput" => "AuthPatch",
                "SigningInput" => "SigningChoice",
                _ => return,
            };
            *reference = format!("{SCHEMAS}{part}");
        }
    });
}

/// What a member is if it is left out is said in words: generators take a `default` for a member that is always there, or
/// send it themselves.
fn tell_defaults(document: &mut Value) {
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
    for (name, schema) in schemas {
        let members = schema.get_mut("properties").and_then(Value::as_object_mut);
        members.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut).for_each(|member| {
            tell_default(member, name.ends_with("Patch"));
        });
    }
}

/// What a patch leaves out stays as it is.
fn tell_default(member: &mut Map<String, Value>, in_patch: bool) {
    let Some(default) = member.shift_remove("default") else { return };
    if !in_patch && !default.is_null() && default != json!([]) {
        let before = member.get("description").and_then(Value::as_str).map(|text| format!("{text} "));
        let default = default.as_str().map_or_else(|| default.to_string(), |word| format!("`{word}`"));
        let text = format!("{}{default} if it is left out.", before.unwrap_or_default());
        member.insert("description".into(), text.into());
    }
}

fn walk(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            change(members);
            members.values_mut().for_each(|member| walk(member, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, change)),
        _ => {}
    }
}
