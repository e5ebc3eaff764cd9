//! The proxy forwards, and then it does not.

use std::io;
use std::time::Duration;

use lab::{Direction, Proxy, Receiver, Reply, Script};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const REQUEST: &[u8] = b"POST /d/x HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
const BRIEFLY: Duration = Duration::from_millis(60);

struct Client(TcpStream);

impl Client {
    async fn connect(proxy: &Proxy) -> Client {
        Client(TcpStream::connect(proxy.addr()).await.unwrap())
    }

    async fn post(&mut self) -> io::Result<usize> {
        self.0.write_all(REQUEST).await?;
        self.answer().await
    }

    /// Bytes of one answer; 0 when the connection was closed.
    async fn answer(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 512];
        self.0.read(&mut bytes).await
    }
}

fn setting() -> (Receiver, Proxy) {
    let receiver = Receiver::local(Script::ok());
    let proxy = Proxy::start(receiver.addr()).unwrap();
    (receiver, proxy)
}

fn reset(result: io::Result<usize>) -> bool {
    result.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
}

#[tokio::test]
async fn it_forwards_until_it_cuts_and_then_forwards_again() {
    let (receiver, proxy) = setting();
    let mut client = Client::connect(&proxy).await;
    for _ in 0..3 {
        assert!(client.post().await.unwrap() > 0);
    }
    proxy.cut_all();
    assert!(reset(client.answer().await));
    assert!(Client::connect(&proxy).await.post().await.unwrap() > 0);
    assert_eq!(receiver.total(), 4);
}

#[tokio::test]
async fn a_stall_holds_everything_back_and_loses_nothing() {
    let (receiver, proxy) = setting();
    let mut client = Client::connect(&proxy).await;
    client.post().await.unwrap();
    proxy.stall(Direction::Both);
    assert!(timeout(BRIEFLY, client.post()).await.is_err());
    assert_eq!(receiver.total(), 1);
    proxy.heal().await;
    assert!(client.answer().await.unwrap() > 0);
    assert_eq!(receiver.total(), 2);
}

#[tokio::test]
async fn a_stall_of_one_direction_lets_the_request_through() {
    let (receiver, proxy) = setting();
    let mut client = Client::connect(&proxy).await;
    proxy.stall(Direction::Down);
    assert!(timeout(BRIEFLY, client.post()).await.is_err());
    assert!(receiver.wait_for_succeeded(1, Duration::from_secs(5)).await);
    proxy.heal().await;
    assert!(client.answer().await.unwrap() > 0);
}

#[tokio::test]
async fn it_refuses_new_connections_and_keeps_the_old() {
    let (_receiver, proxy) = setting();
    let mut old = Client::connect(&proxy).await;
    old.post().await.unwrap();
    proxy.refuse(true).await;
    let refused = TcpStream::connect(proxy.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    assert!(old.post().await.unwrap() > 0);
    proxy.refuse(false).await;
    assert!(Client::connect(&proxy).await.post().await.unwrap() > 0);
}

#[tokio::test]
async fn a_lost_reply_means_done_and_never_told() {
    let (receiver, proxy) = setting();
    receiver.script("x", Reply::ok().after(Duration::from_millis(30)));
    let mut bystander = Client::connect(&proxy).await;
    proxy.cut_reply_after(b"/d/x", 1.0);
    assert!(reset(Client::connect(&proxy).await.post().await));
    assert_eq!((receiver.succeeded(), proxy.lost_replies()), (1, 1));
    proxy.cut_reply_after(b"something else", 1.0);
    assert!(bystander.post().await.unwrap() > 0);
    proxy.cut_reply_after(b"/d/x", 0.0);
    assert!(bystander.post().await.unwrap() > 0);
    assert_eq!(proxy.lost_replies(), 1);
}
