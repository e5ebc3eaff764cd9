//! What we send: the request that brings an event to a destination, for those who build receivers from the document. The
//! check of the clients holds it against a request that came.

use serde_json::{Value, json};

pub(super) fn describe() -> Value {
    json!({ "delivery": { "post": {
        "tags": ["deliveries"],
        "operationId": "receive_delivery",
        "summary": "An event, brought to a destination",
        "description": "Sent to a destination's `url`, signed as Standard Webhooks has it: `webhook-signature` is a list of \
            `v1,` and the base64 of HMAC-SHA256 over `webhook-id`, `webhook-timestamp` and the body, joined by full stops, \
            under the bytes of the destination's secret; during a rotation there are two. With `signing.ed25519` there is a \
            `v1a,` with an Ed25519 signature of the same, for the destination's public key. With the schemes `stripe` and \
            `github` the signature is in a header of its own, as those make it. Headers of the destination's \
            `headers`, `auth` and `forward_headers` come on top. An event may come more than once: `webhook-id` is the same.",
        "security": [],
        "parameters": parameters(),
        "requestBody": {
            "description": "The event's payload, byte for byte, with the content type it came with. With the format \
                `cloudevents-binary` there are `ce-…` headers beside it; with `cloudevents-structured` it is in a CloudEvent, \
                and the content type `application/cloudevents+json`. What is signed are the bytes that are sent.",
            "required": true,
            "content": {
                "application/json": { "schema": { "$ref": "#/components/schemas/Anything" } },
                "*/*": { "schema": { "$ref": "#/components/schemas/Bytes" } },
            },
        },
        "responses": {
            "2XX": { "description": "Delivered." },
            "410": { "description": "Never again: the destination is disabled." },
            "429": { "description": "Too fast: the destination is held, for as long as `Retry-After` says if it is sent." },
            "4XX": { "description": "Refused: a dead letter, unless `retry_statuses` has it." },
            "5XX": { "description": "Not now: it is tried again by the retry schedule." },
        },
    } } })
}

fn parameters() -> Value {
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": "string", "pattern": "^[0-9]+$" });
    let id = |of: &str| json!({ "$ref": format!("#/components/schemas/{of}") });
    let header = |name: &str, required: bool, schema: Value, description: &str| {
        json!({
            "name": name, "in": "header", "required": required, "description": description, "schema": schema,
        })
    };
    json!([
        header("webhook-id", true, id("EventId"), "The event: the same in every attempt and replay."),
        header("webhook-timestamp", true, number(), "When this attempt was signed, in seconds since 1970."),
        header(
            "webhook-signature",
            false,
            text(),
            "With the `signing.scheme` `standard`, with `ed25519`, or both."
        ),
        header("svix-id", false, id("EventId"), "The same as `webhook-id`, with `signing.svix_headers`."),
        header(
            "svix-timestamp",
            false,
            number(),
            "The same as `webhook-timestamp`, with `signing.svix_headers`."
        ),
        header(
            "svix-signature",
            false,
            text(),
            "The same as `webhook-signature`, with `signing.svix_headers`."
        ),
        header("posthaste-event-type", true, text(), "The event's type."),
        header("posthaste-delivery", true, id("DeliveryId"), "The delivery: the same in every attempt."),
        header("posthaste-attempt", true, number(), "Which attempt of the delivery this is, from 1."),
        header(
            "posthaste-sequence",
            false,
            number(),
            "The delivery's number at a destination that is ordered, or has `sequence`."
        ),
        header("posthaste-replay", false, id("ReplayId"), "The replay that asked for it."),
        header("traceparent", true, text(), "The trace it belongs to, with the attempt as its span."),
        header("tracestate", false, text(), "As the event came with it."),
    ])
}
