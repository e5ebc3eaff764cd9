//! What only shows on a real connection: deadlines, limits of the head, and stopping.

use crate::world::{TOKEN, World};
use api::ApiConfig;
use domain::limits;
use std::{net::SocketAddr, sync::atomic::Ordering, time::Duration};
use store::{Change, StoreError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

pub(crate) struct Served {
    pub(crate) world: World,
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

pub(crate) async fn served(configure: impl FnOnce(&mut ApiConfig)) -> Served {
    served_with_grace(Duration::from_secs(10), configure).await
}

/// With this time for open requests to end in when the server stops.
async fn served_with_grace(grace: Duration, configure: impl FnOnce(&mut ApiConfig)) -> Served {
    served_from_with_grace(World::with(configure).await, grace).await
}

pub(crate) async fn served_from(world: World) -> Served {
    served_from_with_grace(world, Duration::from_secs(10)).await
}

async fn served_from_with_grace(world: World, grace: Duration) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(api::serve(listener, world.service.clone(), stop.clone(), grace));
    Served { world, address, stop, serving }
}

impl Served {
    pub(crate) async fn connect(&self) -> TcpStream {
        connect(self.address).await
    }

    /// A client whose system takes in next to nothing for it.
    #[expect(clippy::disallowed_methods, reason = "the client of these tests")]
    pub(crate) async fn connect_narrow(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 * 1024).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends this and reads until the server closes.
    pub(crate) async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(bytes).await;
        until_closed(&mut stream).await
    }
}

#[expect(clippy::disallowed_methods, reason = "the client of these tests")]
async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

pub(crate) async fn until_closed(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

async fn one_answer(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    let mut buffer = [0; 4096];
    while !answer.ends_with('}') {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "closed after {answer}");
        answer.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    answer
}

fn post(body: &str) -> String {
    format!("POST /ingest/{TOKEN} HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let served = served(|_| {}).await;
    let mut stream = served.connect().await;
    for body in ["first", "second"] {
        stream.write_all(post(body).as_bytes()).await.unwrap();
        assert!(one_answer(&mut stream).await.starts_with("HTTP/1.1 202 Accepted\r\n"));
    }
    assert_eq!(served.world.events().await.len(), 2);
}

#[tokio::test]
async fn a_half_sent_head_is_a_408() {
    let served = served(|config| config.deadlines.head = Duration::from_millis(50)).await;
    let answer = served.exchange(b"POST /ingest/x HTTP/1.1\r\nhost: h\r\nx-half").await;
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    assert!(
        answer.contains("\"code\":\"request_timeout\"") && answer.contains("connection: close"),
        "{answer}"
    );
    served.world.assert_nothing_stored().await;
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for() {
    let served = served(|config| config.deadlines.head = Duration::from_millis(50)).await;
    assert_eq!(served.exchange(b"").await, "");
    // Nor between two requests.
    let served = self::served(|config| config.deadlines.idle = Duration::from_millis(50)).await;
    let answer = served.exchange(post("x").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
}

#[tokio::test]
async fn a_body_that_never_ends_is_a_408() {
    let served = served(|config| config.deadlines.body_grace = Duration::from_millis(50)).await;
    let head = format!("POST /ingest/{TOKEN} HTTP/1.1\r\nhost: h\r\n");
    for rest in ["content-length: 100\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let answer = served.exchange(format!("{head}{rest}").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
    served.world.assert_nothing_stored().await;
}

#[tokio::test]
async fn a_body_too_large_is_refused_and_the_client_gets_to_see_it() {
    let served = served(|_| {}).await;
    let body = " ".repeat(6 * 1024 * 1024);
    let answer = served.exchange(post(&body).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{answer}");
    // Who only announces it is told at once.
    let announced = format!(
        "POST /ingest/{TOKEN} HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 9999999\r\n\r\n"
    );
    let answer = served.exchange(announced.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    served.world.assert_nothing_stored().await;
}

#[tokio::test]
async fn a_head_too_large_or_malformed_is_refused() {
    let served = served(|_| {}).await;
    let large = format!("GET /healthz HTTP/1.1\r\nhost: h\r\nx-large: {}\r\n\r\n", "x".repeat(40_000));
    let many = format!("GET /healthz HTTP/1.1\r\nhost: h\r\n{}\r\n", "x-many: 1\r\n".repeat(101));
    for bytes in [large, many] {
        let answer = served.exchange(bytes.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
    for bytes in [
        "NONSENSE\r\n\r\n",
        "POST /ingest/x HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx",
        "POST /ingest/x HTTP/1.1\r\nhost: h\r\ntransfer-encoding: gzip\r\n\r\nx",
    ] {
        let answer = served.exchange(bytes.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{bytes}: {answer}");
    }
    served.world.assert_nothing_stored().await;
}

#[tokio::test]
async fn a_connection_too_many_is_turned_away() {
    let served = served(|config| config.connections = 1).await;
    let mut first = served.connect().await;
    first.write_all(post("x").as_bytes()).await.unwrap();
    one_answer(&mut first).await;
    let mut second = served.connect().await;
    let answer = until_closed(&mut second).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1"), "{answer}");
}

#[tokio::test]
async fn a_change_is_told_even_if_the_client_hangs_up() {
    // The server waits for its grace, because a request of a client that has hung up is open all the same.
    let grace = Duration::from_millis(100);
    let Served { world, address, stop, serving } = served_with_grace(grace, |_| {}).await;
    let held = world.recording.hearing.lock().await;
    let mut stream = connect(address).await;
    let pause = format!(
        "POST /v1/destinations/{}/pause HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {}\r\n\r\n",
        world.destination, world.key
    );
    stream.write_all(pause.as_bytes()).await.unwrap();
    world.recording.telling.notified().await;
    drop(stream);
    // The server has nothing open any more: the connection is gone, with all that ran in it.
    stop.cancel();
    serving.await.unwrap();
    drop(held);
    timeout(Duration::from_secs(10), world.recording.heard.notified()).await.expect("the engine is told");
    let change = Change::Destinations(world.account, vec![world.destination]);
    assert_eq!(world.recording.taken(), [format!("changed {change:?}")]);
}

impl Served {
    /// Asks for a test that is not answered, and waits until so many are under way.
    async fn begin_test(&self, under_way: usize) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(self.test().as_bytes()).await.unwrap();
        self.tests_are(under_way).await;
        stream
    }

    fn test(&self) -> String {
        let World { destination, key, .. } = &self.world;
        let head =
            format!("POST /v1/destinations/{destination}/test HTTP/1.1\r\nhost: h\r\nconnection: close\r\n");
        format!("{head}authorization: Bearer {key}\r\n\r\n")
    }

    async fn tests_are(&self, under_way: usize) {
        let mut open = self.world.sender.open.subscribe();
        let told = timeout(Duration::from_secs(10), open.wait_for(|open| *open == under_way)).await;
        assert!(told.is_ok(), "{} tests are under way, not {under_way}", *self.world.sender.open.borrow());
    }
}

#[tokio::test]
async fn a_test_ends_when_its_client_hangs_up() {
    let served = served(|_| {}).await;
    served.world.sender.hangs.store(true, Ordering::Relaxed);
    let stays = served.begin_test(1).await;
    drop(served.begin_test(2).await);
    served.tests_are(1).await;
    let reset = served.begin_test(2).await;
    reset.set_zero_linger().unwrap();
    drop(reset);
    served.tests_are(1).await;
    drop(stays);
    served.tests_are(0).await;
}

#[tokio::test]
async fn tests_that_hang_leave_their_address_room_for_others() {
    let served = served(|config| config.connections = 16).await;
    served.world.sender.hangs.store(true, Ordering::Relaxed);
    let mut hanging = Vec::new();
    for under_way in 1..=limits::TESTS_PER_ACCOUNT {
        hanging.push(served.begin_test(under_way).await);
    }
    for _ in 0..20 {
        let answer = served.exchange(served.test().as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: 1"), "{answer}");
    }
    let mut other = served.connect().await;
    other.write_all(post("x").as_bytes()).await.unwrap();
    assert!(one_answer(&mut other).await.starts_with("HTTP/1.1 202"));
    hanging.pop();
    served.tests_are(limits::TESTS_PER_ACCOUNT - 1).await;
    hanging.push(served.begin_test(limits::TESTS_PER_ACCOUNT).await);
}

#[tokio::test]
async fn bodies_that_do_not_come_keep_no_other_request_of_their_account_out() {
    let served = served(|_| {}).await;
    let key = &served.world.key;
    let mut sending = Vec::new();
    for _ in 0..2 * limits::REQUESTS {
        let mut stream = served.connect().await;
        let head =
            "POST /v1/destinations HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 100\r\n";
        let head = format!("{head}content-type: application/json\r\nauthorization: Bearer {key}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // The body is asked for: it is what is waited for now.
        let mut asked = [0; 25];
        stream.read_exact(&mut asked).await.unwrap();
        assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
        sending.push(stream);
    }
    let list = format!(
        "GET /v1/destinations HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\r\n"
    );
    let answer = served.exchange(list.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_may_have_been_written_is_told_now_and_when_its_statement_has_ended() {
    let world = World::new().await;
    let written = async |outcome: Result<(), StoreError>| {
        let _ = world.app.config_written(world.account, &[world.destination], outcome).await;
        world.recording.taken().len()
    };
    assert_eq!(written(Err(StoreError::NotFound { what: "destination" })).await, 0);
    assert_eq!(written(Ok(())).await, 1);
    assert_eq!(written(Err(StoreError::OutcomeUnknown("cut".into()))).await, 1);
    tokio::time::sleep(limits::STORE_STATEMENT * 2).await;
    assert_eq!(world.recording.taken().len(), 1);
}

#[tokio::test]
async fn stopping_finishes_what_is_open_and_closes_what_rests() {
    let served = served(|_| {}).await;
    let mut resting = served.connect().await;
    resting.write_all(post("x").as_bytes()).await.unwrap();
    one_answer(&mut resting).await;
    let mut busy = served.connect().await;
    busy.write_all(
        format!(
            "POST /ingest/{TOKEN} HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n"
        )
        .as_bytes(),
    )
    .await
    .unwrap();
    // The handler runs once it asks for the body.
    let mut asked = [0; 25];
    busy.read_exact(&mut asked).await.unwrap();
    served.stop.cancel();
    assert_eq!(until_closed(&mut resting).await, "");
    busy.write_all(b"late").await.unwrap();
    let answer = until_closed(&mut busy).await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    served.serving.await.unwrap();
    assert_eq!(served.world.events().await.len(), 2);
}

#[tokio::test]
async fn a_request_that_meets_the_stop_on_a_kept_connection_is_turned_away_in_words() {
    let served = served(|_| {}).await;
    let (mut kept, mut begun) = (served.connect().await, served.connect().await);
    for stream in [&mut kept, &mut begun] {
        stream.write_all(post("x").as_bytes()).await.unwrap();
        one_answer(stream).await;
    }
    let next = post("y");
    let (first, rest) = next.split_at(20);
    begun.write_all(first.as_bytes()).await.unwrap();
    served.stop.cancel();
    until_refused(served.address).await;
    // The door is shut, and these are inside.
    kept.write_all(next.as_bytes()).await.unwrap();
    begun.write_all(rest.as_bytes()).await.unwrap();
    for stream in [&mut kept, &mut begun] {
        let answer = until_closed(stream).await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\"draining\""), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
    served.serving.await.unwrap();
}

#[tokio::test]
async fn a_node_that_is_about_to_stop_has_its_connections_given_up_one_by_one() {
    let served = served(|_| {}).await;
    let mut kept = served.connect().await;
    kept.write_all(post("x").as_bytes()).await.unwrap();
    let answer = one_answer(&mut kept).await;
    assert!(!answer.contains("connection: close"), "{answer}");
    served.world.app.retire();
    kept.write_all(post("y").as_bytes()).await.unwrap();
    let answer = until_closed(&mut kept).await;
    assert!(answer.starts_with("HTTP/1.1 202") && answer.contains("connection: close"), "{answer}");
}

/// Until nobody is let in any more.
#[expect(clippy::disallowed_methods, reason = "the client of these tests")]
async fn until_refused(address: SocketAddr) {
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
