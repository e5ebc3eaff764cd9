//! SOCKS5 (RFC 1928), with a user name and a password if there are any (RFC 1929).

use super::{super::Duplex, Endpoint, Login};
use std::{io, net::SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const LOGIN: u8 = 2;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

pub(super) async fn shake_hands(
    stream: &mut dyn Duplex,
    to: Endpoint<'_>,
    login: Option<&Login>,
) -> io::Result<()> {
    let methods: &[u8] = if login.is_some() { &[NO_LOGIN, LOGIN] } else { &[NO_LOGIN] };
    say(stream, &[&[VERSION, methods.len() as u8], methods]).await?;
    let chosen = hear::<2>(stream).await?;
    match (chosen, login) {
        ([VERSION, NO_LOGIN], _) => {}
        ([VERSION, LOGIN], Some(Login { user, password })) => {
            let lengths = [user.len() as u8, password.len() as u8];
            say(stream, &[&[1, lengths[0]], user.as_bytes(), &[lengths[1]], password.as_bytes()]).await?;
            if hear::<2>(stream).await?[1] != 0 {
                return Err(io::Error::other("it does not take the user name and password"));
            }
        }
        ([VERSION, _], _) => return Err(io::Error::other("it wants to be logged in to in another way")),
        _ => return Err(io::Error::other("it does not speak SOCKS5")),
    }
    let asked = [VERSION, CONNECT, 0];
    match to {
        Endpoint::Vetted(SocketAddr::V4(to)) => {
            say(stream, &[&asked, &[IPV4], &to.ip().octets(), &to.port().to_be_bytes()]).await?;
        }
        Endpoint::Vetted(SocketAddr::V6(to)) => {
            say(stream, &[&asked, &[IPV6], &to.ip().octets(), &to.port().to_be_bytes()]).await?;
        }
        Endpoint::Named(name, port) => {
            let length = u8::try_from(name.len()).map_err(io::Error::other)?;
            say(stream, &[&asked, &[NAME, length], name.as_bytes(), &port.to_be_bytes()]).await?;
        }
    }
    let [version, reply, _, kind] = hear::<4>(stream).await?;
    if version != VERSION {
        return Err(io::Error::other("it does not speak SOCKS5"));
    }
    if reply != 0 {
        return Err(io::Error::other(format!("it answered {reply}")));
    }
    // The address it uses itself is of no interest, but it is in the way.
    let length = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => usize::from(stream.read_u8().await?),
        _ => return Err(io::Error::other("it does not speak SOCKS5")),
    };
    let mut bound = [0; u8::MAX as usize + 2];
    stream.read_exact(&mut bound[..length + 2]).await.map(drop)
}

async fn say(stream: &mut dyn Duplex, parts: &[&[u8]]) -> io::Result<()> {
    stream.write_all(&parts.concat()).await?;
    stream.flush().await
}

async fn hear<const N: usize>(stream: &mut dyn Duplex) -> io::Result<[u8; N]> {
    let mut heard = [0; N];
    stream.read_exact(&mut heard).await?;
    Ok(heard)
}
