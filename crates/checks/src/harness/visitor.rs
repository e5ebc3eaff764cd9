//! A browser that has signed in by the account's key, as far as a page's time at the server is concerned.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::raw_http::{RawAnswer, exchange};
use super::test_node::TestNode;
use super::testbed::API_KEY;

const LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Visitor {
    addr: SocketAddr,
    cookie: String,
}

impl Visitor {
    pub(crate) async fn sign_in(node: &TestNode) -> Result<Visitor> {
        let mut visitor = Visitor { addr: node.addr, cookie: String::new() };
        let body = serde_json::json!({ "key": API_KEY }).to_string();
        let answer = visitor.send("POST", "/ui/sign-in", &body).await?;
        ensure!(answer.status == Some(200), "signing in: {}", answer.text);
        let cookie = answer.header("set-cookie").context("a session")?;
        visitor.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Ok(visitor)
    }

    /// How long a whole page took, on a connection of its own.
    pub(crate) async fn open(&self, path: &str) -> Result<Duration> {
        let answer = self.send("GET", path, "").await?;
        ensure!(answer.status == Some(200), "{path}: {}", answer.text);
        ensure!(answer.body().ends_with("</html>"), "{path} is not whole");
        Ok(answer.took)
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> Result<RawAnswer> {
        let Visitor { addr, cookie } = self;
        let length = body.len();
        // By the address of this machine: a session begins nowhere else without TLS.
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\nsec-fetch-site: same-origin\r\n\
             cookie: {cookie}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        Ok(exchange(*addr, request.as_bytes(), LIMIT).await?)
    }
}
