//! What the client makes of answers: objects, problems, silence.

use client::{AcceptedStatus, Client, Error, Publish};
use lab::{Receiver, Recording, Reply, Script};

const KEY: &str = "phk_secret";

fn server(reply: Reply) -> (Receiver, Client) {
    let receiver =
        Receiver::start_with(([127, 0, 0, 1], 0).into(), Script::Always(reply), Recording::FullWithBodies);
    let receiver = receiver.unwrap();
    let client = Client::new(&receiver.url(""), KEY).unwrap();
    (receiver, client)
}

#[tokio::test]
async fn the_payload_is_sent_byte_for_byte_with_the_key() {
    let accepted =
        r#"{"id":"evt_01h455vb4pex5vsknk084sn02q","status":"queued","deliveries":1,"expanding":false}"#;
    let (receiver, client) = server(Reply::status(202).body(accepted));
    let event = Publish::json("order.paid", r#"{ "b":1,  "a":1.50 }"#).unwrap().with_key("once");
    let answer = client.publish(&event).await.unwrap();
    assert_eq!(answer.status, AcceptedStatus::Queued);

    let record = receiver.snapshot().remove(0);
    let kept = record.kept.unwrap();
    assert_eq!(kept.path, "/v1/events");
    assert_eq!(kept.headers["authorization"], format!("Bearer {KEY}"));
    let body = std::str::from_utf8(&kept.body).unwrap();
    assert_eq!(body, r#"{"type":"order.paid","data":{ "b":1,  "a":1.50 },"idempotency_key":"once"}"#);
}

#[tokio::test]
async fn a_problem_keeps_its_code_its_fields_and_its_pause() {
    let problem = r#"{"type":"/docs/errors#validation_failed","title":"Invalid","status":422,"code":"validation_failed",
        "detail":"The request has invalid fields.","request_id":"req_1",
        "errors":[{"pointer":"/url","code":"invalid_url","detail":"must use https"}]}"#;
    let (_receiver, client) = server(Reply::status(422).body(problem).header("retry-after", "3"));
    let error = client.own_account().await.unwrap_err();
    let Error::Refused { problem, retry_after_seconds } = &error else { panic!("{error}") };
    assert_eq!((&*problem.code, *retry_after_seconds), ("validation_failed", Some(3)));
    assert_eq!(
        error.to_string(),
        "The request has invalid fields. (422 validation_failed)\n  /url: must use https"
    );
}

#[tokio::test]
async fn an_error_page_of_another_server_is_a_problem_too() {
    let (_receiver, client) = server(Reply::status(502).body("<html>Bad Gateway</html>"));
    assert_eq!(client.own_account().await.unwrap_err().to_string(), "Bad Gateway (502 unknown)");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_not_reached() {
    let (receiver, client) = server(Reply::ok());
    drop(receiver);
    assert!(matches!(client.own_account().await, Err(Error::NotReached { .. })));
    assert!(matches!(Client::new("localhost:8080", KEY), Err(Error::BadUrl(_))));
}
