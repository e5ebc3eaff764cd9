use super::*;
use futures_util::future::join;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

const TARGET: Endpoint<'static> =
    Endpoint::Vetted(SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 114, 7)), 443));

fn login() -> Login {
    Login { user: "me".into(), password: "se:same".into() }
}

/// What comes of a handshake with a proxy that answers each message with the next of these, and what it was told.
async fn shake_hands(
    protocol: ProxyProtocol,
    to: Endpoint<'_>,
    login: Option<&Login>,
    answers: &[&[u8]],
) -> (io::Result<Vec<u8>>, Vec<u8>) {
    let (mut ours, mut theirs) = duplex(64 * 1024);
    let shaking = async move {
        match protocol {
            ProxyProtocol::Connect => connect::shake_hands(&mut ours, to, login).await?,
            ProxyProtocol::Socks5 => socks5::shake_hands(&mut ours, to, login).await?,
        }
        let mut rest = Vec::new();
        ours.read_to_end(&mut rest).await.map(|_| rest)
    };
    let proxy = async move {
        let mut told = Vec::new();
        for answer in answers {
            let _ = theirs.read_buf(&mut told).await;
            let _ = theirs.write_all(answer).await;
        }
        theirs.shutdown().await.unwrap();
        let _ = theirs.read_to_end(&mut told).await;
        told
    };
    join(shaking, proxy).await
}

#[test]
fn a_proxy_is_named_by_its_url_and_prints_without_its_credentials() {
    let shown = |text: &str| text.parse::<Proxy>().map(|proxy| format!("{proxy:?}"));
    assert_eq!(shown("http://proxy:3128"), Ok("http://proxy:3128".into()));
    assert_eq!(shown(" http://me:se%3Asame@[::1]:3128/ "), Ok("http://***@[::1]:3128".into()));
    assert_eq!(shown("http://token@proxy"), Ok("http://***@proxy:80".into()));
    assert_eq!(shown("socks5://10.0.0.1"), Ok("socks5://10.0.0.1:1080".into()));
    assert!("http://me:se%3Asame@proxy".parse::<Proxy>().unwrap().login == Some(login()));
    for bad in [
        "",
        "proxy:3128",
        "https://proxy:3128",
        "socks4://proxy",
        "socks5h://proxy",
        "http://",
        "http://proxy:0",
        "http://proxy/path",
        "http://proxy?x",
        "socks5://proxy#x",
    ] {
        assert_eq!(shown(bad), Err(ProxyUrlError), "{bad}");
    }
}

#[tokio::test]
async fn connect_tells_the_address_and_the_login_and_reads_not_one_byte_too_many() {
    let answer: &[u8] = b"HTTP/1.1 200 Connection established\r\nvia: x\r\n\r\n220 hello";
    let (done, told) = shake_hands(ProxyProtocol::Connect, TARGET, Some(&login()), &[answer]).await;
    assert_eq!(done.unwrap(), b"220 hello", "what follows is the destination's");
    let told = String::from_utf8(told).unwrap();
    assert_eq!(
        told,
        "CONNECT 203.0.114.7:443 HTTP/1.1\r\nhost: 203.0.114.7:443\r\nproxy-authorization: Basic bWU6c2U6c2FtZQ==\r\n\r\n"
    );
    let named = Endpoint::Named("hooks.example.com", 8443);
    let (done, told) = shake_hands(ProxyProtocol::Connect, named, None, &[b"HTTP/1.0 200 OK\r\n\r\n"]).await;
    assert!(done.is_ok());
    assert!(
        told.starts_with(b"CONNECT hooks.example.com:8443 HTTP/1.1\r\nhost: hooks.example.com:8443\r\n\r\n")
    );
    let v6 = Endpoint::Vetted("[2606:4700::1111]:443".parse().unwrap());
    let (_, told) = shake_hands(ProxyProtocol::Connect, v6, None, &[b"HTTP/1.0 200 OK\r\n\r\n"]).await;
    assert!(told.starts_with(b"CONNECT [2606:4700::1111]:443 HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_proxy_that_refuses_or_talks_nonsense_makes_no_connection() {
    let endless = vec![b'x'; 32 * 1024];
    let no_end = [b"HTTP/1.1 200 OK\r\n".as_slice(), &b"a: b\r\n".repeat(4_000)].concat();
    let answers: [&[u8]; 9] = [
        b"",
        b"HTTP/1.1 403 Forbidden\r\n\r\n",
        b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"SSH-2.0 200 \r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        &endless,
        &no_end,
    ];
    for answer in answers {
        let (done, _) = shake_hands(ProxyProtocol::Connect, TARGET, None, &[answer]).await;
        assert!(done.is_err(), "{:?}", String::from_utf8_lossy(&answer[..answer.len().min(40)]));
    }
    let answers: [&[&[u8]]; 8] = [
        &[b""],
        &[b"HTTP/1.1 400 Bad Request\r\n\r\n"],
        &[b"\x05\xff"],
        &[b"\x05\x02"],
        &[b"\x04\x00"],
        &[b"\x05\x00", b"\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"],
        &[b"\x05\x00", b"\x05\x00\x00\x09\x00\x00\x00\x00\x00\x00"],
        &[b"\x05\x00", b"\x05\x00\x00\x01\x00\x00"],
    ];
    for answers in answers {
        let (done, _) = shake_hands(ProxyProtocol::Socks5, TARGET, None, answers).await;
        assert!(done.is_err(), "{answers:?}");
    }
    let refused: [&[u8]; 2] = [b"\x05\x02", b"\x01\x01"];
    let (done, _) = shake_hands(ProxyProtocol::Socks5, TARGET, Some(&login()), &refused).await;
    assert!(done.is_err(), "the password is wrong");
}

#[tokio::test]
async fn socks_tells_the_address_and_the_login_and_reads_not_one_byte_too_many() {
    let answers: [&[u8]; 3] = [b"\x05\x02", b"\x01\x00", b"\x05\x00\x00\x01\x0a\x00\x00\x01\x04\x38hello"];
    let (done, told) = shake_hands(ProxyProtocol::Socks5, TARGET, Some(&login()), &answers).await;
    assert_eq!(done.unwrap(), b"hello");
    let expected: [&[u8]; 3] =
        [b"\x05\x02\x00\x02", b"\x01\x02me\x07se:same", b"\x05\x01\x00\x01\xcb\x00\x72\x07\x01\xbb"];
    assert_eq!(told, expected.concat());

    let named = Endpoint::Named("a.example", 80);
    let answers: [&[u8]; 2] = [b"\x05\x00", b"\x05\x00\x00\x03\x02hi\x00\x50"];
    let (done, told) = shake_hands(ProxyProtocol::Socks5, named, None, &answers).await;
    assert_eq!(done.unwrap(), b"");
    assert_eq!(told, b"\x05\x01\x00\x05\x01\x00\x03\x09a.example\x00\x50");

    let v6 = Endpoint::Vetted("[2606:4700::1111]:443".parse().unwrap());
    let bound = [b"\x05\x00\x00\x04".as_slice(), &[0; 18]].concat();
    let (done, told) = shake_hands(ProxyProtocol::Socks5, v6, None, &[b"\x05\x00", &bound]).await;
    assert!(done.is_ok());
    assert_eq!(told.len(), 3 + 4 + 16 + 2);
}
