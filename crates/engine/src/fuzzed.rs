//! What `fuzz/` reaches of this crate.

use crate::{
    egress::{Dial, Duplex, Egress, EgressError, Resolve},
    membership::{Lease, Membership},
    sink::Permit,
    transport::{AnswerRoom, HttpRequest, HttpTransport, Transport},
};
use async_trait::async_trait;
use bytes::Bytes;
use domain::{address::AddressPolicy, id::NodeId, limits};
use http::{HeaderMap, Uri};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    runtime::{Builder, Runtime},
    time::Instant,
};

/// What a destination answers with, whatever it is asked.
static ANSWER: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
});
static EGRESS: LazyLock<Egress> = LazyLock::new(|| {
    let policy = AddressPolicy { allow_http: true, ..AddressPolicy::default() };
    let egress =
        Egress::new(Arc::new(policy), Arc::new(NoNames), Arc::new(Answering), limits::CONNECT_TIMEOUT, None);
    egress.expect("the usual settings")
});

struct NoNames;

#[async_trait]
impl Resolve for NoNames {
    async fn resolve(&self, _: &str) -> Result<Vec<IpAddr>, EgressError> {
        Err(EgressError::Dns)
    }
}

struct Answering;

impl Duplex for DuplexStream {}

#[async_trait]
impl Dial for Answering {
    async fn dial(&self, _: SocketAddr) -> io::Result<Box<dyn Duplex>> {
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        let answer = ANSWER.lock().expect("no one panics here").clone();
        tokio::spawn(async move {
            // Asked first: hyper takes what comes before the request for an answer to none.
            let _ = theirs.read(&mut [0; 4_096]).await;
            let _ = theirs.write_all(&answer).await;
        });
        Ok(Box::new(ours))
    }
}

/// One request, answered with these bytes: what is kept of the answer is bounded.
pub fn http_answer(bytes: &[u8]) {
    bytes.clone_into(&mut ANSWER.lock().expect("no one panics here"));
    RUNTIME.block_on(async {
        let membership = Membership::new(NodeId::MIN, Lease::new());
        let request = HttpRequest {
            uri: Uri::from_static("http://8.8.8.8/"),
            headers: HeaderMap::new(),
            body: Bytes::from_static(b"{}"),
            deadline: Instant::now() + Duration::from_secs(3),
            timeout: Duration::from_secs(3),
            permit: Permit::of(&membership),
            identity: None,
            room: AnswerRoom::DESTINATION,
        };
        let answer = HttpTransport::new(EGRESS.clone()).send(request).await;
        if let Ok(response) = answer.result {
            // 101 is the one below 200 that nothing follows.
            assert!(
                response.status == 101 || (200..1_000).contains(&response.status),
                "an interim answer is none"
            );
            assert!(response.body.len() <= limits::RESPONSE_BODY_KEPT_BYTES);
            assert!(response.headers.len() <= limits::RESPONSE_HEADERS);
        }
    });
}
