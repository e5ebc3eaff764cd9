use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Both ends of a connection. No task reads here, so it is not noticed by itself that the other side has closed.
async fn connection() -> (TcpStream, Socket) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (ours, _) = listener.accept().await.unwrap();
    (client, Socket::new(ours))
}

fn begin(log: &Arc<Log>, socket: &Socket) -> OpenRequest {
    OpenRequest::begin(log.clone(), log.of("a"), &HeaderMap::new(), None, socket.clone()).0
}

#[tokio::test]
async fn a_request_whose_sender_has_hung_up_is_over_though_nobody_has_noticed() {
    let log = Arc::new(Log::new(0, Script::ok(), Recording::Full));
    let (first, second, third) = (connection().await, connection().await, connection().await);
    let _open = [begin(&log, &first.1), begin(&log, &second.1)];
    // Both slots are taken and one times out: its connection is closed, and only then the next request is sent.
    drop(first.0);
    let next = begin(&log, &third.1);
    assert_eq!((log.of("a").state().max_open, next.open_at_start), (2, 2));
}

#[tokio::test]
async fn an_excess_is_an_excess() {
    let log = Arc::new(Log::new(0, Script::ok(), Recording::Full));
    let (first, second, third) = (connection().await, connection().await, connection().await);
    let _open = [begin(&log, &first.1), begin(&log, &second.1), begin(&log, &third.1)];
    assert_eq!(log.of("a").state().max_open, 3, "all three senders still listen");
    // That one closes afterwards does not undo it.
    drop(first.0);
    let fourth = connection().await;
    let next = begin(&log, &fourth.1);
    assert_eq!((log.of("a").state().max_open, next.open_at_start), (3, 3));
}

#[tokio::test]
async fn what_has_ended_is_asked_no_more() {
    let log = Arc::new(Log::new(0, Script::ok(), Recording::Counts));
    let (_client, socket) = connection().await;
    begin(&log, &socket).end(RequestEnd::Answered(200));
    let destination = log.of("a");
    let state = destination.state();
    assert!(state.sockets.is_empty());
    assert_eq!((state.open, state.max_open), (0, 1));
}
