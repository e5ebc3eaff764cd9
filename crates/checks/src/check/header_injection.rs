//! Hazard: what somebody writes into a name, a value or an attribute becomes a header line of a request, or takes the place of
//! one of ours.
//!
//! Line ends, NUL, colons, bytes beyond ASCII, 64 KiB, 200 headers and the names of our own and of HTTP's headers are written
//! wherever something of a request comes from: headers, forwarded headers, credentials, the header of a signature, types,
//! content types and keys of events, attributes of CloudEvents. Then the same is put into the tables of a stopped node, where
//! no one has checked it.
//!
//! Holds if everything is refused where it is written, and nothing of it stored; if what comes by the tables ends as a dead
//! letter, undeliverable, or is left out; and if in the bytes that a receiver gets from the socket no line was made by it, and
//! each of our headers is there once.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use domain::destination::{Format, Scheme};
use domain::id::DestinationId;
use serde_json::Value;

use crate::harness::prelude::*;
use crate::harness::raw_http::{exchange, json_request, request};
use crate::harness::testbed::API_KEY;

const PATIENCE: Duration = Duration::from_secs(30);
/// A line of its own, if it gets there.
const LINE: &str = "a\r\nx-injected: 1";

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    refused(&testbed, report).await?;
    report.must_be("stored_of_what_was_refused", testbed.database.count("events").await?, 0);
    report.must_be("destinations_of_what_was_refused", testbed.database.count("destinations").await?, 0);

    let receiver = RawReceiver::start()?;
    let made = destinations(&testbed, &receiver).await?;
    for (id, _) in made.values() {
        testbed.client.pause(*id).await?;
    }
    publish(&testbed).await?;
    testbed.stop().await?;
    spoil(&testbed, &made).await?;
    testbed.database.write("update destinations set paused_at = null").await?;
    testbed.start().await?;
    testbed.must_drain(PATIENCE, report).await?;

    for (name, (id, ends)) in &made {
        let id = testbed.database.literal(id.bytes());
        let count = async |ending: &str| {
            let sql = format!("select count(*) from attempts where destination_id = {id} and {ending}");
            testbed.database.number(&sql).await
        };
        let (dead, delivered) = match ends {
            Ends::Dead => (2, 0),
            // The event with a spoiled content type is nobody's.
            Ends::Delivered => (1, 1),
        };
        let undeliverable = count("ending = 'dead_letter' and reason = 'undeliverable'").await?;
        report.must_be(&format!("{name}_undeliverable"), undeliverable, dead);
        report.must_be(&format!("{name}_delivered"), count("ending = 'delivered'").await?, delivered);
    }
    judge(&receiver, &made, report);
    testbed.must_be_running(report);
    report.must(!testbed.log().contains("panicked"), "something panicked");
    testbed.tear_down().await
}

/// Everything that is refused where it is written.
async fn refused(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let long = "v".repeat(64 * 1024);
    let hostile = [LINE, "a\nx-injected: 1", "a\rb", "a\0b", "ä", long.as_str()];
    let reserved = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "content-type",
        "user-agent",
        "expect",
        "te",
        "authorization",
        "cookie",
        "webhook-id",
        "webhook-signature",
        "svix-id",
        "posthaste-attempt",
        "traceparent",
    ];
    let mut bodies: Vec<Value> = Vec::new();
    for text in hostile {
        bodies.push(json!({ "headers": { "x-ok": text } }));
        bodies.push(json!({ "headers": { text: "1" } }));
        bodies.push(json!({ "forward_headers": [text] }));
        bodies.push(json!({ "auth": { "type": "bearer", "token": text } }));
        bodies.push(json!({ "auth": { "type": "headers", "headers": { "x-key": text } } }));
        bodies.push(json!({ "auth": { "type": "headers", "headers": { text: "1" } } }));
        bodies.push(json!({ "signing": { "scheme": "stripe", "header": text } }));
        bodies.push(json!({ "signing": { "scheme": "github", "secret": text } }));
        if text != "ä" {
            bodies.push(json!({ "name": text }));
        }
    }
    bodies.push(json!({ "headers": { "x:y": "1" } }));
    let many: serde_json::Map<String, Value> = (0..200).map(|n| (format!("x-{n}"), "1".into())).collect();
    bodies.push(json!({ "headers": many }));
    for name in reserved {
        bodies.push(json!({ "headers": { name: "1" } }));
        bodies.push(json!({ "forward_headers": [name] }));
        bodies.push(json!({ "signing": { "scheme": "stripe", "header": name } }));
    }
    let mut asked = 0u64;
    for more in bodies {
        let mut body = json!({ "name": "hostile", "url": "http://127.0.0.1:9/" });
        body.as_object_mut().context("an object")?.extend(more.as_object().context("an object")?.clone());
        must_be(testbed, "/v1/destinations", &body, 422, report).await?;
        asked += 1;
    }
    for text in hostile {
        let mut events = vec![
            json!({ "type": text, "data": 1 }),
            json!({ "type": "a", "data_base64": "MQ==", "content_type": format!("text/{text}") }),
            json!({ "type": "a", "data": 1, "idempotency_key": text }),
        ];
        if text != "ä" {
            events.push(json!({ "type": "a", "data": 1, "ordering_key": text }));
        }
        for event in events {
            must_be(testbed, "/v1/events", &event, 422, report).await?;
            asked += 1;
        }
    }
    for (name, value) in [
        ("ce-subject", "a%0D%0Ax-injected:%201"),
        ("ce-subject", "%00"),
        ("ce-subject", "%ff"),
        ("ce-a-b", "1"),
        ("ce-id", "%0D%0Ax"),
    ] {
        let bearer = format!("Bearer {API_KEY}");
        let mut headers = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "text/plain"),
            ("ce-specversion", "1.0"),
            ("ce-id", "7"),
            ("ce-source", "/s"),
            ("ce-type", "a"),
        ];
        headers.retain(|(known, _)| *known != name);
        headers.push((name, value));
        let answer = exchange(testbed.addr, &request("POST", "/v1/events", &headers, b"x"), PATIENCE).await?;
        report.must(
            answer.status == Some(400),
            format!("{name}: {value} is answered with {:?}", answer.status),
        );
        asked += 1;
    }
    report.note("refused", asked);
    Ok(())
}

async fn must_be(
    testbed: &Testbed,
    path: &str,
    body: &Value,
    status: u16,
    report: &mut Report,
) -> Result<()> {
    let text = body.to_string();
    let answer = exchange(testbed.addr, &json_request("POST", path, API_KEY, &text), PATIENCE).await?;
    let shown: String = text.chars().take(200).collect();
    report.must(answer.status == Some(status), format!("{path} answers {:?} to {shown}", answer.status));
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Ends {
    Delivered,
    Dead,
}

type Made = BTreeMap<&'static str, (DestinationId, Ends)>;

async fn destinations(testbed: &Testbed, receiver: &RawReceiver) -> Result<Made> {
    let mut made = Made::new();
    for (name, ends) in [
        ("healthy", Ends::Delivered),
        ("cloud_event", Ends::Delivered),
        ("header_value", Ends::Dead),
        ("header_name", Ends::Dead),
        ("forwarded_name", Ends::Dead),
        ("signature_header", Ends::Dead),
        ("credential_name", Ends::Dead),
    ] {
        let mut plan = NewDestination { url: receiver.url(name), ..testbed.destination(name) };
        plan.headers = [("x-ok".to_owned(), "plain".to_owned())].into();
        plan.forward_headers = vec!["ce-subject".into()];
        match name {
            "cloud_event" => plan.format = Format::CloudeventsBinary,
            "signature_header" => plan.signing.scheme = Scheme::Stripe,
            "credential_name" => {
                plan.auth =
                    serde_json::from_value(json!({ "type": "headers", "headers": { "x-key": "1" } }))?;
            }
            _ => {}
        }
        made.insert(name, (testbed.add_destination(&plan, &[]).await?, ends));
    }
    Ok(made)
}

/// Two events: the first is spoiled in its attributes, the second in its content type.
async fn publish(testbed: &Testbed) -> Result<()> {
    for id in ["attributes", "content_type"] {
        let bearer = format!("Bearer {API_KEY}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "text/plain"),
            ("ce-specversion", "1.0"),
            ("ce-id", id),
            ("ce-source", "/s"),
            ("ce-type", "a"),
            ("ce-subject", "plain"),
        ];
        let answer = exchange(testbed.addr, &request("POST", "/v1/events", &headers, b"x"), PATIENCE).await?;
        ensure!(answer.status == Some(202), "a sound event is refused: {answer:?}");
    }
    Ok(())
}

async fn spoil(testbed: &Testbed, made: &Made) -> Result<()> {
    let spoiled = async |name: &str, how: fn(&mut Value)| {
        let (id, _) = made.get(name).context("a destination")?;
        let id = testbed.database.literal(id.bytes());
        let rows = testbed.database.rows(&format!("select doc from destinations where id = {id}")).await?;
        let text = rows.first().and_then(|row| row[0].text()).context("the destination is gone")?;
        let mut doc: Value = serde_json::from_str(text)?;
        how(&mut doc);
        let text = doc.to_string().replace('\'', "''");
        testbed.database.write(&format!("update destinations set doc = '{text}' where id = {id}")).await
    };
    spoiled("header_value", |doc| doc["headers"] = json!([["x-ok", LINE]])).await?;
    spoiled("header_name", |doc| doc["headers"] = json!([["x-injected: 1\r\nx-ok", "1"]])).await?;
    spoiled("forwarded_name", |doc| doc["forward_headers"] = json!(["x-injected: 1\r\nx"])).await?;
    spoiled("signature_header", |doc| doc["signing"]["header"] = json!("x-injected: 1\r\nx")).await?;
    spoiled("credential_name", |doc| {
        let sealed = doc["auth"]["headers"][0][1].clone();
        doc["auth"]["headers"] = json!([["x-injected: 1\r\nx", sealed]]);
    })
    .await?;
    let statements = r#"
        update events set headers = replace(headers, '["ce-subject","plain"]', '["ce-subject","a\r\nx-injected: 1"]')
            where idempotency_key = '/s content_type';
        update events set content_type = 'text/plain' || 'LINE' where idempotency_key = '/s content_type';
    "#;
    // Line ends as they are, in a text of SQL.
    testbed.database.write(&statements.replace("LINE", "\r\nx-injected: 1")).await?;
    // Of the first the attribute alone, in what says how it goes out.
    let attribute = r#"
        update events set headers = replace(headers, '["ce-type","a"]', '["ce-type","a\r\nx-injected: 1"]')
            where idempotency_key = '/s attributes'
    "#;
    testbed.database.write(attribute).await
}

fn judge(receiver: &RawReceiver, made: &Made, report: &mut Report) {
    let heads = receiver.heads();
    let expected = made.values().filter(|(_, ends)| matches!(ends, Ends::Delivered)).count();
    report.must_be("requests_received", heads.len(), expected);
    let (mut injected, mut unclean, mut not_once) = (0u64, 0u64, 0u64);
    for head in &heads {
        let lines: Vec<&[u8]> = split(head);
        injected +=
            lines.iter().filter(|line| line.to_ascii_lowercase().starts_with(b"x-injected")).count() as u64;
        unclean +=
            lines.iter().filter(|line| line.iter().any(|byte| !matches!(byte, b' '..=b'~'))).count() as u64;
        for ours in [
            "host",
            "content-length",
            "content-type",
            "user-agent",
            "webhook-id",
            "webhook-timestamp",
            "webhook-signature",
            "posthaste-delivery",
            "posthaste-attempt",
            "traceparent",
            "x-ok",
        ] {
            let named = |line: &&&[u8]| {
                line.split(|byte| *byte == b':')
                    .next()
                    .is_some_and(|name| name.eq_ignore_ascii_case(ours.as_bytes()))
            };
            not_once += u64::from(lines.iter().filter(named).count() != 1);
        }
    }
    report.must_be("injected_lines", injected, 0);
    report.must_be("lines_with_other_than_visible_ascii", unclean, 0);
    report.must_be("of_our_headers_not_once", not_once, 0);
}

/// The lines of a head by CRLF alone: whatever else may end a line somewhere is looked at in them.
fn split(head: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = head;
    while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
        lines.push(&rest[..at]);
        rest = &rest[at + 2..];
    }
    lines.push(rest);
    lines.retain(|line| !line.is_empty());
    lines
}

/// Keeps the heads of requests as they come from the socket.
struct RawReceiver {
    address: std::net::SocketAddr,
    heads: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl RawReceiver {
    fn start() -> Result<RawReceiver> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let heads = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let kept = Arc::clone(&heads);
        // Ends with the process: few connections come, and each is closed after its answer.
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if let Ok(head) = answer(connection) {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).push(head);
                }
            }
        });
        Ok(RawReceiver { address, heads })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    fn heads(&self) -> Vec<Vec<u8>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn answer(mut connection: TcpStream) -> Result<Vec<u8>> {
    connection.set_read_timeout(Some(Duration::from_secs(3)))?;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        let read = connection.read(&mut piece)?;
        ensure!(read > 0 && bytes.len() < 1 << 20, "a head that does not end");
        bytes.extend_from_slice(&piece[..read]);
    };
    // The body too: a connection that is closed with something unread is reset.
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head
        .split("content-length: ")
        .nth(1)
        .and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
    while bytes.len() < end + 4 + length.unwrap_or(0) {
        let read = connection.read(&mut piece)?;
        ensure!(read > 0, "a body that does not end");
        bytes.extend_from_slice(&piece[..read]);
    }
    connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    bytes.truncate(end);
    Ok(bytes)
}
