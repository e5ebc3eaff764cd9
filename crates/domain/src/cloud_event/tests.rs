use super::{json::WrongDocument, *};
use crate::testing;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

const LEAST: [(&str, &str); 4] =
    [("ce-specversion", "1.0"), ("ce-id", "7"), ("ce-source", "/shop"), ("ce-type", "com.example.paid")];

fn binary(headers: &[(&str, &str)]) -> Result<CloudEvent, WrongAttribute> {
    CloudEvent::of_headers(headers.iter().map(|(name, value)| (*name, value.as_bytes())))
}

fn structured(document: &Value) -> Result<Structured<'static>, WrongDocument> {
    let text: &'static str = document.to_string().leak();
    Structured::parse(text.as_bytes())
}

#[test]
fn the_content_type_tells_the_mode_and_then_the_headers() {
    let mode = |content_type, header: &str| Mode::of(content_type, |name| name == header);
    assert_eq!(mode("application/json", ""), Ok(None));
    for header in ["ce-specversion", "ce-id", "ce-source", "ce-type"] {
        assert_eq!(mode("application/json", header), Ok(Some(Mode::Binary)));
    }
    assert_eq!(mode("text/plain", "ce-subject"), Ok(None));
    assert_eq!(mode("Application/CloudEvents+JSON; charset=utf-8", "ce-id"), Ok(Some(Mode::Structured)));
    assert_eq!(mode("application/cloudevents-batch+json", ""), Ok(Some(Mode::Batched)));
    for unknown in
        ["application/cloudevents+avro", "application/cloudevents", "application/cloudevents-batch+xml"]
    {
        assert_eq!(mode(unknown, ""), Err(UnknownFormat), "{unknown}");
    }
}

#[test]
fn attributes_are_read_of_headers_and_come_back_as_them() {
    let more =
        [("ce-time", "2026-04-03T14:30:00Z"), ("ce-subject", "Euro%20%E2%82%AC"), ("ce-myext", "\"a b\"")];
    let headers = [&LEAST[..], &more, &[("content-type", "text/plain"), ("x-other", "ce-id")]].concat();
    let found = binary(&headers).unwrap();
    assert_eq!(
        (found.id.as_str(), found.source.as_str(), found.kind.as_str()),
        ("7", "/shop", "com.example.paid")
    );
    let others = [("time", "2026-04-03T14:30:00Z"), ("subject", "Euro €"), ("myext", "a b")];
    assert_eq!(found.others, others.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let expected = [
        &LEAST[..],
        &[("ce-time", "2026-04-03T14:30:00Z"), ("ce-subject", "Euro%20%E2%82%AC"), ("ce-myext", "a%20b")],
    ];
    let expected: Headers =
        expected.concat().iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    assert_eq!(found.headers(), expected);
}

#[test]
fn what_is_broken_is_told_by_its_name() {
    let with = |more: &[(&str, &str)]| binary(&[&LEAST[..], more].concat());
    let told = |answer: Result<CloudEvent, WrongAttribute>| {
        let WrongAttribute { name, code, .. } = answer.unwrap_err();
        format!("{name} {code}")
    };
    for (place, name) in REQUIRED.iter().enumerate() {
        let mut without = LEAST.to_vec();
        without.remove(place);
        assert_eq!(told(binary(&without)), format!("{name} missing_field"));
        let mut twice = LEAST.to_vec();
        twice.push(LEAST[place]);
        assert_eq!(told(binary(&twice)), format!("{name} duplicate"));
        let mut empty = LEAST.to_vec();
        empty[place].1 = "";
        assert_eq!(told(binary(&empty)), format!("{name} invalid_value"));
    }
    let mut old = LEAST;
    old[0].1 = "0.3";
    assert_eq!(told(binary(&old)), "specversion invalid_value");
    for (header, value, expected) in [
        ("ce-time", "yesterday", "time invalid_value"),
        ("ce-subject", "", "subject invalid_value"),
        ("ce-subject", "%ff", "subject invalid_value"),
        ("ce-subject", "a%0D%0Ax-injected: 1", "subject invalid_value"),
        ("ce-my-ext", "1", "my-ext invalid_name"),
        ("ce-", "1", " invalid_name"),
        ("ce-data", "1", "data invalid_name"),
    ] {
        assert_eq!(told(with(&[(header, value)])), expected, "{header}: {value}");
    }
    let many: Vec<String> = (0..limits::CLOUD_EVENT_ATTRIBUTES).map(|n| format!("ce-x{n}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "1")).collect();
    assert_eq!(told(with(&many)), " too_many");
    let long = "v".repeat(limits::EVENT_HEADERS_BYTES);
    assert_eq!(told(with(&[("ce-subject", &long)])), " too_long");
}

#[test]
fn the_data_of_a_document_is_what_is_written_there() {
    let text = r#"{"specversion":"1.0","id":"7","source":"/shop","type":"a.b","data": {"n": 1.50,  "u":"\u00fc"} ,"count":3,"ok":true,"none":null}"#;
    let found = Structured::parse(text.as_bytes()).unwrap();
    assert_eq!(found.payload, &br#"{"n": 1.50,  "u":"\u00fc"}"#[..]);
    assert_eq!(found.content_type, "application/json");
    assert_eq!(
        found.event.others,
        [("count".to_owned(), "3".to_owned()), ("ok".to_owned(), "true".to_owned())]
    );

    let least = json!({ "specversion": "1.0", "id": "7", "source": "/shop", "type": "a.b" });
    let with = |more: Value| {
        let mut document = least.clone();
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        structured(&document)
            .map(|found| (found.content_type, String::from_utf8(found.payload.into_owned()).unwrap()))
    };
    for (more, content_type, payload) in [
        (json!({}), "application/octet-stream", ""),
        (json!({ "data": null }), "application/json", "null"),
        (json!({ "data": "text" }), "application/json", "\"text\""),
        (json!({ "data": "<a/>", "datacontenttype": "application/xml" }), "application/xml", "<a/>"),
        (json!({ "data": { "a": 1 }, "datacontenttype": "text/x" }), "text/x", r#"{"a":1}"#),
        (
            json!({ "data": "x", "datacontenttype": "Application/X+JSON; a=b" }),
            "Application/X+JSON; a=b",
            "\"x\"",
        ),
        (json!({ "data_base64": "aGk=", "datacontenttype": "text/plain" }), "text/plain", "hi"),
        (json!({ "data_base64": "MQ==", "data": null }), "application/json", "1"),
    ] {
        let found = with(more.clone());
        if more.get("data_base64").is_some() && more.get("data").is_some() {
            let Err(WrongDocument::Attribute(wrong)) = found else { panic!("{found:?}") };
            assert_eq!((wrong.name.as_str(), wrong.code), ("data_base64", "conflict"));
            continue;
        }
        assert_eq!(found.unwrap(), (content_type.to_owned(), payload.to_owned()), "{more}");
    }
    for (more, told) in [
        (json!({ "id": 7 }), "id invalid_type"),
        (json!({ "subject": ["a"] }), "subject invalid_type"),
        (json!({ "ratio": 1.5 }), "ratio invalid_type"),
        (json!({ "large": 3_000_000_000u32 }), "large invalid_type"),
        (json!({ "myExt": "a" }), "myExt invalid_name"),
        (json!({ "time": "now" }), "time invalid_value"),
        (json!({ "id": null }), "id missing_field"),
        (json!({ "data_base64": "aGk" }), "data_base64 invalid_value"),
        (json!({ "data_base64": 7 }), "data_base64 invalid_value"),
    ] {
        let Err(WrongDocument::Attribute(wrong)) = with(more.clone()) else { panic!("{more}") };
        assert_eq!(format!("{} {}", wrong.name, wrong.code), told);
    }
    for text in ["", "[]", "7", "{", r#"{"id":"7"} x"#] {
        assert!(matches!(Structured::parse(text.as_bytes()), Err(WrongDocument::Malformed(_))), "{text}");
    }
    let many = format!("{{{}\"id\":\"7\"}}", "\"a\":null,".repeat(100));
    assert!(matches!(Structured::parse(many.as_bytes()), Err(WrongDocument::Malformed(_))));
    // What is told repeats no more than a name can have.
    let long = format!("{{\"{}\":1}}", "X".repeat(10_000));
    let Err(WrongDocument::Attribute(wrong)) = Structured::parse(long.as_bytes()) else { panic!("{long}") };
    assert_eq!(wrong.name.len(), limits::CLOUD_EVENT_NAME_BYTES);
    let text = format!("\"{}\"", "X".repeat(10_000));
    let Err(WrongDocument::Malformed(told)) = Structured::parse(text.as_bytes()) else { panic!("{text}") };
    assert_eq!(told, "expected an object");
    let twice = r#"{"data":1,"data":2}"#;
    assert!(matches!(Structured::parse(twice.as_bytes()), Err(WrongDocument::Attribute(_))));
}

#[test]
fn a_batch_is_a_list_and_has_an_end() {
    assert_eq!(
        batch(br#" [ {"a":1}, 2 ] "#, 2).unwrap().iter().map(|raw| raw.get()).collect::<Vec<_>>(),
        [r#"{"a":1}"#, "2"]
    );
    assert_eq!(batch(b"[]", 2).unwrap().len(), 0);
    for text in ["", "{}", "[1,2,3]", "[1", "[] x"] {
        assert!(batch(text.as_bytes(), 2).is_err(), "{text}");
    }
}

#[test]
fn source_and_id_are_the_key() {
    let key = |source: &str, id: &str| {
        binary(&[LEAST[0], ("ce-id", id), ("ce-source", source), LEAST[3]]).unwrap().idempotency_key()
    };
    assert_eq!(key("/shop", "7"), "/shop 7");
    assert_ne!(key("a b", "c"), key("a", "b c"), "they are told apart");
    let long = key("/shop", &"7".repeat(300));
    assert!(long.starts_with("sha256:") && long.len() == 71, "{long}");
    assert_ne!(long, key("/shop", &"7".repeat(301)));
}

#[test]
fn an_event_that_was_none_is_made_one() {
    let mut event = testing::event(crate::id::AccountId::MIN, Timestamp::from_seconds(1_790_000_000), 1);
    let own = CloudEvent::of_event(&event);
    assert_eq!((own.id.as_str(), own.kind.as_str()), (event.id.to_string().as_str(), "test.sent"));
    assert_eq!(own.source, format!("/accounts/{}", event.account_id));
    assert_eq!(own.others, [("time".to_owned(), event.received_at.to_string())]);
    // What an earlier version has let in.
    event.headers = vec![("ce-id".into(), "7".into()), ("ce-specversion".into(), "1.0".into())];
    assert_eq!(CloudEvent::of_event(&event), own);
    let came = binary(&LEAST).unwrap();
    event.headers = came.headers();
    assert_eq!(CloudEvent::of_event(&event), came);
}

#[test]
fn a_document_has_the_payload_as_it_is() {
    let event = binary(&LEAST).unwrap();
    let written =
        |content_type, payload: &[u8]| String::from_utf8(event.document(content_type, payload)).unwrap();
    let start =
        r#"{"specversion":"1.0","id":"7","source":"/shop","type":"com.example.paid","datacontenttype":"#;
    assert_eq!(
        written("application/json", b"{ \"a\": 1.0 }"),
        format!("{start}\"application/json\",\"data\":{{ \"a\": 1.0 }}}}")
    );
    assert_eq!(
        written("application/json", b"{cut"),
        format!("{start}\"application/json\",\"data_base64\":\"e2N1dA==\"}}")
    );
    assert_eq!(written("text/plain", b"hi"), format!("{start}\"text/plain\",\"data_base64\":\"aGk=\"}}"));
    assert_eq!(written("text/plain", b""), format!("{start}\"text/plain\"}}"));
}

proptest! {
    #[test]
    fn what_went_out_as_a_document_comes_in_as_it_was(
        id in "[^\\p{Cc}]{1,20}", subject in "[^\\p{Cc}]{1,20}", payload in proptest::collection::vec(any::<u8>(), 1..100),
        json in any::<bool>(),
    ) {
        let payload = if json { serde_json::to_vec(&json!({ "p": payload })).unwrap() } else { payload };
        let others = vec![("subject".to_owned(), subject)];
        let event = CloudEvent { id, source: "/shop".into(), kind: "a.b".into(), others };
        let content_type = if json { "application/json" } else { "application/x-any" };
        let document = event.document(content_type, &payload);
        let back = Structured::parse(&document).unwrap();
        prop_assert_eq!(&back.event, &event);
        prop_assert_eq!((back.content_type.as_str(), &*back.payload), (content_type, &payload[..]));
        // And by its headers.
        let headers = event.headers();
        let of_headers = CloudEvent::of_headers(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
        prop_assert_eq!(of_headers.unwrap(), event);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Structured::parse(&bytes);
        let _ = batch(&bytes, 3);
    }
}

#[test]
fn a_payload_in_a_document_is_bounded() {
    let payload = Bytes::from(vec![1u8; 3000]);
    assert!(binary(&LEAST).unwrap().document("text/plain", &payload).len() < 3000 / 3 * 4 + 512);
}
