//! Judges the head of a request by its bytes, before hyper sees it.
//!
//! hyper takes heads that another reader of the same connection, a proxy in front of us, may read differently: lines
//! that end with a line feed alone, a length beside a transfer coding, no host. Whoever can make the two disagree about
//! where a request ends smuggles one in. So there is one way to write a head here, and all else is refused.

use crate::error::ApiError;
use domain::limits;
use http::Uri;
use memchr::{memchr, memchr_iter};

/// How the body is framed that follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// None has no bytes.
    Sized(u64),
    Chunked,
}

/// Why a head is refused. The connection ends with it: what follows cannot be told from a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadFault {
    Malformed(&'static str),
    UriTooLong,
    TooLarge,
}

impl From<HeadFault> for ApiError {
    fn from(fault: HeadFault) -> Self {
        match fault {
            HeadFault::Malformed(why) => Self::malformed_request(why),
            HeadFault::UriTooLong => {
                Self::uri_too_long(format!("a URI may have {} bytes", limits::URI_BYTES))
            }
            HeadFault::TooLarge => {
                let detail = format!("at most {} headers in {} bytes", limits::HEADERS, limits::HEAD_BYTES);
                Self::headers_too_large(detail)
            }
        }
    }
}

const fn malformed<T>(why: &'static str) -> Result<T, HeadFault> {
    Err(HeadFault::Malformed(why))
}

/// Where the head ends that these bytes begin with; None if more of it has to come. `scanned` is how far an earlier look
/// has come, so that a head that trickles in is looked at once.
pub(super) fn end(bytes: &[u8], scanned: &mut usize) -> Result<Option<usize>, HeadFault> {
    let start = start(bytes);
    for line_end in memchr_iter(b'\n', &bytes[*scanned..]) {
        let end = *scanned + line_end + 1;
        if !bytes[..end].ends_with(b"\r\n") {
            return malformed("a line ends with carriage return and line feed");
        }
        if end >= start + 4 && bytes[..end].ends_with(b"\r\n\r\n") {
            return if end - start > limits::HEAD_BYTES {
                Err(too_large(&bytes[start..]))
            } else {
                Ok(Some(end))
            };
        }
    }
    *scanned = bytes.len();
    if bytes.len() - start >= limits::HEAD_BYTES {
        return Err(too_large(&bytes[start..]));
    }
    Ok(None)
}

/// Empty lines before a request are left over from the one before, and mean nothing.
fn start(bytes: &[u8]) -> usize {
    bytes.chunks_exact(2).take_while(|pair| pair == b"\r\n").count() * 2
}

/// Which of its parts is the large one.
fn too_large(head: &[u8]) -> HeadFault {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let target = line.split(|byte| *byte == b' ').nth(1).unwrap_or(line);
    if target.len() > limits::URI_BYTES { HeadFault::UriTooLong } else { HeadFault::TooLarge }
}

/// What follows this head, which is whole.
pub(super) fn judge(bytes: &[u8]) -> Result<Framing, HeadFault> {
    let mut lines = Lines(&bytes[start(bytes)..]);
    let request_line = RequestLine::read(lines.next().unwrap_or_default())?;
    let (mut count, mut host, mut length, mut chunked) = (0, None, None, false);
    for line in lines.take_while(|line| !line.is_empty()) {
        count += 1;
        if count > limits::HEADERS {
            return Err(HeadFault::TooLarge);
        }
        let (name, value) = header(line)?;
        if name.eq_ignore_ascii_case(b"host") {
            if host.replace(value).is_some() {
                return malformed("there is more than one `host`");
            }
        } else if name.eq_ignore_ascii_case(b"content-length") {
            if length.replace(content_length(value)?).is_some() {
                return malformed("there is more than one `content-length`");
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if chunked || !request_line.is_1_1 || !value.eq_ignore_ascii_case(b"chunked") {
                return malformed("the only transfer coding is `chunked`, once, in HTTP/1.1");
            }
            chunked = true;
        }
    }
    request_line.check_host(host)?;
    match (length, chunked) {
        (Some(_), true) => malformed("`content-length` and `transfer-encoding` contradict each other"),
        (_, true) => Ok(Framing::Chunked),
        (length, false) => Ok(Framing::Sized(length.unwrap_or(0))),
    }
}

/// Lines without their ends, which are known to be whole.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = memchr(b'\n', self.0)?;
        let (line, rest) = self.0.split_at(end + 1);
        self.0 = rest;
        Some(&line[..end - 1])
    }
}

struct RequestLine<'a> {
    /// What the target names as its host, if it does.
    authority: Option<&'a [u8]>,
    is_1_1: bool,
}

impl<'a> RequestLine<'a> {
    fn read(line: &'a [u8]) -> Result<Self, HeadFault> {
        let mut words = line.split(|byte| *byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return malformed("a request begins with a method, a target and a version");
        };
        if method.is_empty() || !method.iter().all(|byte| is_token(*byte)) {
            return malformed("the method is not a word");
        }
        if target.len() > limits::URI_BYTES {
            return Err(HeadFault::UriTooLong);
        }
        let is_1_1 = match version {
            b"HTTP/1.1" => true,
            b"HTTP/1.0" => false,
            _ => return malformed("the version is not HTTP/1.1"),
        };
        Ok(Self { authority: authority(method, target)?, is_1_1 })
    }

    fn check_host(&self, host: Option<&[u8]>) -> Result<(), HeadFault> {
        let Some(host) = host else {
            return if self.is_1_1 { malformed("there is no `host`") } else { Ok(()) };
        };
        if !host.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte)) {
            return malformed("`host` is not a host");
        }
        match self.authority {
            Some(authority) if !authority.eq_ignore_ascii_case(host) => {
                malformed("the target and `host` name different hosts")
            }
            _ => Ok(()),
        }
    }
}

/// The host in a target; None where the target is a path, as usual.
fn authority<'a>(method: &[u8], target: &'a [u8]) -> Result<Option<&'a [u8]>, HeadFault> {
    let is_usual = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~?=&%+:,;@!$'()*".contains(byte);
    if target.first() == Some(&b'/') && target.iter().all(is_usual) {
        return Ok(None);
    }
    // Whatever hyper would not take: it would say so without a reason.
    if target.contains(&b'#') || Uri::try_from(target).is_err() {
        return malformed("the target is not a URI");
    }
    if target.first() == Some(&b'/') || (target == b"*" && method == b"OPTIONS") {
        return Ok(None);
    }
    let after_scheme = [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| {
        let begins = target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        begins.then(|| &target[scheme.len()..])
    });
    let Some(after_scheme) = after_scheme else { return malformed("the target is neither a path nor a URL") };
    let end = after_scheme.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(after_scheme.len());
    Ok(Some(&after_scheme[..end]))
}

fn header(line: &[u8]) -> Result<(&[u8], &[u8]), HeadFault> {
    // A line that begins with a space continues the one before, or it does not: it depends on who reads it.
    let Some(colon) = memchr(b':', line) else { return malformed("a header has no colon") };
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
        return malformed("the name of a header is not a word");
    }
    let is_text = |byte: &u8| (*byte >= b' ' && *byte != 0x7f) || *byte == b'\t';
    if !line[colon + 1..].iter().all(is_text) {
        return malformed("a header has a control character");
    }
    Ok((name, value))
}

fn content_length(value: &[u8]) -> Result<u64, HeadFault> {
    // Nineteen digits always fit.
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return malformed("`content-length` is not a number");
    }
    Ok(value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// What a method and the name of a header are made of.
fn is_token(byte: u8) -> bool {
    const TOKEN: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let others = b"!#$%&'*+-.^_`|~";
        let mut at = 0;
        while at < others.len() {
            table[others[at] as usize] = true;
            at += 1;
        }
        table
    };
    TOKEN[usize::from(byte)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(head: &str) -> Result<Framing, HeadFault> {
        judge(head.as_bytes())
    }

    #[test]
    fn a_head_says_how_its_body_is_framed() {
        let table = [
            ("", Framing::Sized(0)),
            ("content-length: 17\r\n", Framing::Sized(17)),
            ("Content-Length:\t9999999999999999999 \r\n", Framing::Sized(9_999_999_999_999_999_999)),
            ("TRANSFER-ENCODING: Chunked\r\n", Framing::Chunked),
        ];
        for (lines, framing) in table {
            assert_eq!(judged(&format!("POST / HTTP/1.1\r\nhost: x\r\n{lines}\r\n")), Ok(framing), "{lines}");
        }
    }

    #[test]
    fn the_end_is_found_however_the_bytes_come() {
        let head = b"\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n";
        let mut scanned = 0;
        for count in 0..head.len() {
            assert_eq!(end(&head[..count], &mut scanned), Ok(None), "{count}");
        }
        assert_eq!(end(&[head, &b"rest"[..]].concat(), &mut scanned), Ok(Some(head.len())));
        assert_eq!(judge(head), Ok(Framing::Sized(0)));
    }

    #[test]
    fn a_bare_line_feed_is_seen_before_the_head_is_whole() {
        for bytes in ["\n", "GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nhost: x\r\n\n"] {
            assert!(matches!(end(bytes.as_bytes(), &mut 0), Err(HeadFault::Malformed(_))), "{bytes:?}");
        }
    }

    #[test]
    fn of_a_head_without_end_the_large_part_is_named() {
        let long = |start: &str| format!("{start}{}", "x".repeat(limits::HEAD_BYTES));
        assert_eq!(end(long("GET /").as_bytes(), &mut 0), Err(HeadFault::UriTooLong));
        assert_eq!(end(long("GET / HTTP/1.1\r\nx: ").as_bytes(), &mut 0), Err(HeadFault::TooLarge));
    }
}
