//! A name server that says what a check has it say, each time it is asked.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

pub(super) const ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), 53);

const HEAD: usize = 12;
const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
/// Aliases of aliases that are looked up for the asker.
const ALIASES: usize = 8;

/// What it says of a name.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    /// None: the name is there and has no address.
    Addresses(Vec<IpAddr>),
    Alias(String),
    NoSuchName,
    /// Something is wrong with the server.
    Failure,
    /// Not a word.
    Nothing,
}

impl Said {
    pub(crate) fn addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Said {
        Said::Addresses(addresses.into_iter().collect())
    }
}

pub(crate) struct NameServer {
    asked: Arc<AtomicU64>,
    answering: JoinHandle<()>,
}

impl NameServer {
    /// The script is given the name and how often the same has been asked before.
    pub(super) async fn start(script: impl Fn(&str, u64) -> Said + Send + 'static) -> io::Result<NameServer> {
        let socket = UdpSocket::bind(ADDR).await?;
        let asked = Arc::<AtomicU64>::default();
        let count = asked.clone();
        let answering = tokio::spawn(async move {
            let mut times: HashMap<(String, u16), u64> = HashMap::new();
            let mut query = [0; 1_500];
            while let Ok((length, from)) = socket.recv_from(&mut query).await {
                let Some(question) = Question::read(&query[..length]) else { continue };
                count.fetch_add(1, Relaxed);
                let nth = times.entry((question.name.clone(), question.kind)).or_default();
                if let Some(answer) = question.answer(&script, *nth) {
                    // Whoever does not take it asks again.
                    let _ = socket.send_to(&answer, from).await;
                }
                *nth += 1;
            }
        });
        Ok(NameServer { asked, answering })
    }

    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Relaxed)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

struct Question<'a> {
    /// Up to the end of the question.
    bytes: &'a [u8],
    /// In lower case, without its last dot.
    name: String,
    kind: u16,
}

impl Question<'_> {
    fn read(query: &[u8]) -> Option<Question<'_>> {
        let (mut at, mut labels) = (HEAD, Vec::new());
        loop {
            let length = usize::from(*query.get(at)?);
            let label = query.get(at + 1..at + 1 + length)?;
            at += 1 + length;
            if label.is_empty() {
                break;
            }
            labels.push(String::from_utf8_lossy(label).to_lowercase());
        }
        let kind = u16::from_be_bytes(query.get(at..at + 2)?.try_into().ok()?);
        Some(Question { bytes: query.get(..at + 4)?, name: labels.join("."), kind })
    }

    /// None: not a word.
    fn answer(&self, script: &impl Fn(&str, u64) -> Said, nth: u64) -> Option<Vec<u8>> {
        let (mut name, mut records, mut count, mut code) = (self.name.clone(), Vec::new(), 0, 0);
        // A pointer to the question: twenty addresses fit into the 512 bytes of an answer.
        let mut owner = vec![0xc0, HEAD as u8];
        for _ in 0..ALIASES {
            match script(&name, nth) {
                Said::Addresses(addresses) => {
                    for address in addresses {
                        let (kind, bytes) = match address {
                            IpAddr::V4(address) => (A, address.octets().to_vec()),
                            IpAddr::V6(address) => (AAAA, address.octets().to_vec()),
                        };
                        if kind == self.kind {
                            push_record(&mut records, &owner, kind, &bytes);
                            count += 1;
                        }
                    }
                    break;
                }
                Said::Alias(other) => {
                    push_record(&mut records, &owner, CNAME, &encoded(&other));
                    count += 1;
                    owner = encoded(&other);
                    name = other;
                }
                // Of an alias: for the asker to find out.
                Said::NoSuchName if count > 0 => break,
                Said::NoSuchName => {
                    code = 3;
                    break;
                }
                Said::Failure => {
                    code = 2;
                    break;
                }
                Said::Nothing => return None,
            }
        }
        let mut answer = self.bytes.to_vec();
        // A recursive server's answer: one question, so many records, nothing else.
        (answer[2], answer[3]) = (0x81, 0x80 | code);
        answer[4..HEAD].copy_from_slice(&[0, 1, 0, count, 0, 0, 0, 0]);
        Some([answer, records].concat())
    }
}

/// Good for no time at all.
fn push_record(to: &mut Vec<u8>, owner: &[u8], kind: u16, bytes: &[u8]) {
    to.extend(owner);
    to.extend(kind.to_be_bytes());
    to.extend([0, 1, 0, 0, 0, 0]);
    to.extend((bytes.len() as u16).to_be_bytes());
    to.extend(bytes);
}

fn encoded(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).chain([0]).collect()
}
