//! What only bytes on a connection can get wrong: how a body is framed, and who still listens.

use crate::{connections::served, world::TOKEN};
use tokio::io::AsyncWriteExt;

fn post(headers: &str, body: &str) -> Vec<u8> {
    format!("POST /ingest/{TOKEN} HTTP/1.1\r\nhost: x\r\n{headers}\r\n{body}").into_bytes()
}

#[tokio::test]
async fn a_body_that_is_not_chunked_as_it_says_is_malformed() {
    let served = served(|_| {}).await;
    for body in
        ["zz\r\nhello\r\n0\r\n\r\n", "ffffffffffffffff1\r\nhello", "5\r\nhello0\r\n\r\n", "-1\r\nhello\r\n"]
    {
        let answer = served.exchange(&post("transfer-encoding: chunked\r\n", body)).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains("\"malformed_request\"") && answer.contains("connection: close"), "{answer}");
    }
    served.world.assert_nothing_stored().await;
}

#[tokio::test]
async fn the_only_transfer_coding_is_chunked() {
    let served = served(|_| {}).await;
    for codings in [
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
    ] {
        let answer = served.exchange(&post(codings, "5\r\nhello\r\n0\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("connection: close"), "{answer}");
    }
    served.world.assert_nothing_stored().await;
}

#[tokio::test]
async fn who_closes_its_side_after_asking_still_hears_the_answer() {
    let served = served(|_| {}).await;
    let mut stream = served.connect().await;
    stream.write_all(&post("content-length: 5\r\n", "hello")).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = crate::connections::until_closed(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer:?}");
}
