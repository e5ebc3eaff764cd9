//! Answers that are not HTTP, or barely. Each answer that has a head names the attempt it answers, so that none can be
//! taken for the answer to another.

use anyhow::Result;
use std::time::Duration;

use super::conduct::{Conduct, NONCE, Step};
use super::expectation::{Expectation, SLACK};
use super::kinds::{Case, Surroundings};

/// An answer nobody asked for. It names no attempt.
const STRAY: &str = "HTTP/1.1 200 OK\r\nx-nonce: stray\r\ncontent-length: 0\r\n\r\n";

pub(super) fn cases(_: &Surroundings<'_>) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, answer) in not_http() {
        cases.push(Case::new(name, Conduct::says_last(answer), Expectation::not_http()));
    }
    for (name, answer) in taken() {
        cases.push(Case::new(name, Conduct::says(answer), Expectation::delivered(200)));
    }
    for (name, answer) in bodies_cut_short() {
        let expects = Expectation::delivered(200).takes(0.0..=1.0 + SLACK);
        cases.push(Case::new(name, Conduct::says_last(answer), expects));
    }
    for status in [600, 999] {
        let answer = format!("HTTP/1.1 {status} What\r\nx-nonce: {NONCE}\r\ncontent-length: 0\r\n\r\n");
        cases.push(Case::new(
            format!("status {status}"),
            Conduct::says(answer),
            Expectation::meaningless(status),
        ));
    }
    let empty = |status: &str| format!("HTTP/1.1 {status}\r\nx-nonce: {NONCE}\r\n\r\nand a body");
    cases.push(Case::new("204 with a body", Conduct::says(empty("204 No")), Expectation::delivered(204)));
    cases.push(Case::new("304 with a body", Conduct::says(empty("304 No")), Expectation::rejected(304)));
    cases.push(Case::new(
        "switching protocols",
        Conduct::says_last(format!(
            "HTTP/1.1 101 Go\r\nx-nonce: {NONCE}\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
        )),
        Expectation::meaningless(101),
    ));
    cases.push(Case::new("nothing at all", Conduct::says_last(""), Expectation::cut_off()));
    cases.extend(interim_answers());
    cases.extend(strays());
    Ok(cases)
}

/// With these headers and no body.
fn head(lines: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nx-nonce: {NONCE}\r\n{lines}\r\n")
}

fn ok() -> String {
    head("content-length: 0\r\n")
}

/// So many headers, of so many bytes each.
fn headers(count: usize, bytes: usize) -> String {
    let value = "v".repeat(bytes);
    (0..count).map(|n| format!("x-{n}: {value}\r\n")).collect()
}

/// None of these is an answer.
fn not_http() -> Vec<(&'static str, Vec<u8>)> {
    let line = |line: &str| format!("{line}\r\ncontent-length: 0\r\n\r\n").into_bytes();
    let with = |lines: &str| head(lines).into_bytes();
    let with_bytes = |lines: &[u8]| [b"HTTP/1.1 200 OK\r\n", lines, b"content-length: 0\r\n\r\n"].concat();
    vec![
        ("100,000 headers", with(&headers(100_000, 1))),
        ("101 headers", with(&headers(101, 1))),
        ("a header of a mebibyte", with(&headers(1, 1 << 20))),
        ("a head of 100 KiB", with(&headers(50, 2048))),
        ("a status line of a mebibyte", line(&format!("HTTP/1.1 200 {}", "O".repeat(1 << 20)))),
        ("a negative length", with("content-length: -1\r\n")),
        ("two lengths", with("content-length: 5\r\ncontent-length: 6\r\n")),
        ("two lengths in one", with("content-length: 5, 6\r\n")),
        ("a length beyond numbers", with("content-length: 99999999999999999999999\r\n")),
        ("the largest of lengths", with("content-length: 18446744073709551615\r\n")),
        ("a length of letters", with("content-length: abc\r\n")),
        ("a length with a sign", with("content-length: +5\r\n")),
        ("a length of nothing", with("content-length:\r\n")),
        ("a length in hexadecimal", with("content-length: 0x5\r\n")),
        ("HTTP/0.9, a body alone", b"<html>hello</html>\r\n\r\n".to_vec()),
        ("HTTP/0.9 by name", line("HTTP/0.9 200 OK")),
        ("HTTP/2 by name", line("HTTP/2.0 200 OK")),
        ("HTTP/3.1", line("HTTP/3.1 200 OK")),
        ("a preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("another protocol", b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec()),
        ("a status of two digits", line("HTTP/1.1 20 OK")),
        ("a status of four digits", line("HTTP/1.1 2000 OK")),
        ("a status of letters", line("HTTP/1.1 abc OK")),
        ("a status of zeros", line("HTTP/1.1 000 OK")),
        ("a negative status", line("HTTP/1.1 -20 OK")),
        ("two spaces before the status", line("HTTP/1.1  200 OK")),
        ("small letters", line("http/1.1 200 OK")),
        ("a space before everything", line(" HTTP/1.1 200 OK")),
        ("a NUL before everything", line("\0HTTP/1.1 200 OK")),
        ("a NUL in the reason", line("HTTP/1.1 200 O\0K")),
        ("a NUL in a value", with_bytes(b"x-a: a\0b\r\n")),
        ("a NUL in a name", with_bytes(b"x-\0a: b\r\n")),
        ("a name that is not ASCII", with_bytes(b"x-\xc3\xa4: b\r\n")),
        ("a header without a colon", with_bytes(b"x-a\r\n")),
        ("a header without a name", with_bytes(b": b\r\n")),
        ("a space before the colon", with_bytes(b"x-a : b\r\n")),
        ("a folded header", with_bytes(b"x-a: b\r\n c\r\n")),
        ("a CR alone", with_bytes(b"x-a: b\rx-b: c\r\n")),
        ("a DEL in a value", with_bytes(b"x-a: \x7f\r\n")),
        ("an interim answer with a body", b"HTTP/1.1 100 C\r\ncontent-length: 5\r\n\r\nhello".to_vec()),
        ("a request", b"POST / HTTP/1.1\r\nhost: you\r\n\r\n".to_vec()),
        ("noise", (0..=255).cycle().take(64 * 1024).collect()),
    ]
}

/// Odd, and an answer all the same.
fn taken() -> Vec<(&'static str, Vec<u8>)> {
    let with = |lines: &str| head(lines).into_bytes();
    let chunked = |lines: &str, body: &str| {
        format!("{}{body}", head(&format!("{lines}transfer-encoding: chunked\r\n"))).into_bytes()
    };
    vec![
        ("90 headers", with(&format!("{}content-length: 0\r\n", headers(90, 1)))),
        ("a head of 30 KiB", with(&format!("{}content-length: 0\r\n", headers(30, 1000)))),
        ("the same length twice", with("content-length: 0\r\ncontent-length: 0\r\n")),
        ("no reason", format!("HTTP/1.1 200\r\nx-nonce: {NONCE}\r\ncontent-length: 0\r\n\r\n").into()),
        ("lines that end in LF", ok().replace("\r\n", "\n").into()),
        ("empty lines before everything", format!("\r\n\r\n{}", ok()).into()),
        ("a value in Latin-1", b"HTTP/1.1 200 OK\r\nx-a: \xe4\xff\r\ncontent-length: 0\r\n\r\n".to_vec()),
        ("a value in UTF-8", with("x-a: é日本\r\ncontent-length: 0\r\n")),
        ("a reason in UTF-8", ok().replace("OK", "Très bien").into()),
        ("a body that is no text", b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n\xff\xfe\0".to_vec()),
        ("length and chunks", chunked("content-length: 3\r\n", "0\r\n\r\n")),
        ("trailers", chunked("", "1\r\nx\r\n0\r\nx-nonce: stray\r\n\r\n")),
        ("an extension of a chunk", chunked("", "1;a=b\r\nx\r\n0\r\n\r\n")),
        ("to be closed and kept", with("connection: close, keep-alive\r\ncontent-length: 0\r\n")),
        ("kept for a negative time", with("keep-alive: timeout=-1\r\ncontent-length: 0\r\n")),
        ("a control word of noise", with("webhook-delivery: \u{1f4a3}\r\ncontent-length: 0\r\n")),
        ("an hour to wait, and no reason to", with("retry-after: -1\r\ncontent-length: 0\r\n")),
    ]
}

/// The head says 200, and what comes then is nothing, too much, or cut off.
fn bodies_cut_short() -> Vec<(&'static str, Vec<u8>)> {
    let chunked = |body: &[u8]| [head("transfer-encoding: chunked\r\n").as_bytes(), body].concat();
    let with = |lines: &str, body: &[u8]| [head(lines).as_bytes(), body].concat();
    vec![
        ("less than its length", with("content-length: 100\r\n", b"abc")),
        ("of 10 GiB, and closed", with("content-length: 10737418240\r\n", b"abc")),
        ("a chunk of no number", chunked(b"zz\r\nabc\r\n")),
        ("a chunk of a negative number", chunked(b"-1\r\nabc\r\n")),
        ("a chunk beyond numbers", chunked(b"fffffffffffffffff\r\nabc\r\n")),
        ("the largest of chunks", chunked(b"ffffffffffffffff\r\nabc\r\n")),
        ("a chunk longer than it says", chunked(b"1\r\nabc\r\n0\r\n\r\n")),
        ("a chunk of an endless extension", chunked(&[b"1;", &[b'a'; 1 << 20][..]].concat())),
        ("trailers of a mebibyte", chunked(&[b"0\r\nx-a: ", &[b'a'; 1 << 20][..]].concat())),
        ("no last chunk", chunked(b"3\r\nabc\r\n")),
        ("until it is closed", with("", b"abc")),
        ("an encoding of transfer that nobody knows", with("transfer-encoding: x\r\n", b"abc")),
        ("HTTP/1.0, until it is closed", b"HTTP/1.0 200 OK\r\n\r\nabc".to_vec()),
    ]
}

fn interim_answers() -> Vec<Case> {
    let then_ok = |interim: &str| Conduct::says(format!("{interim}{}", ok()));
    let flood = |interim: &'static [u8]| {
        Conduct::plain([Step::ReadRequest, Step::Flood(interim.repeat(1_000).into())])
    };
    let hint = "HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\n";
    let million = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000_000);
    let delivered = || Expectation::delivered(200);
    vec![
        Case::new("100 and then 200", then_ok("HTTP/1.1 100 Continue\r\n\r\n"), delivered()),
        Case::new("102 and then 200", then_ok("HTTP/1.1 102 Wait\r\n\r\n"), delivered()),
        Case::new("early hints and then 200", then_ok(hint), delivered()),
        Case::new("100 a hundred times", then_ok(&"HTTP/1.1 100 C\r\n\r\n".repeat(100)), delivered()),
        Case::new("100 a million times", then_ok(&million), Expectation::cut_off()),
        Case::new("100 without end", flood(b"HTTP/1.1 100 Continue\r\n\r\n"), Expectation::cut_off()),
        Case::new(
            "early hints without end",
            flood(b"HTTP/1.1 103 Hints\r\nlink: </a>\r\n\r\n"),
            Expectation::cut_off(),
        ),
    ]
}

/// Answers that nobody asked for, on a connection that is kept: none may be taken for the answer to the next request.
fn strays() -> Vec<Case> {
    let after = |pause_ms: u64, stray: &str| {
        let pause = Step::Pause(Duration::from_millis(pause_ms));
        let answer = Step::Say(ok().into());
        Conduct::plain([
            Step::ReadRequest,
            answer,
            pause,
            Step::SayUnasked(stray.to_owned().into()),
            Step::Again,
        ])
    };
    // A request that meets one as it is written has failed, and is made again.
    let failed = || Expectation::not_http().or_at_first(Expectation::cut_off(), 1);
    let expects = || Expectation::delivered(200).or_at_first(failed(), 2);
    let both = format!("{}{STRAY}", ok());
    let failure = "HTTP/1.1 410 Gone\r\nx-nonce: stray\r\ncontent-length: 0\r\n\r\n";
    vec![
        Case::new("a second answer with the first", Conduct::says(both), expects()),
        Case::new("410 with the first answer", Conduct::says(format!("{}{failure}", ok())), expects()),
        Case::new("a second answer at once", after(0, STRAY), expects()),
        Case::new("a second answer after 1 ms", after(1, STRAY), expects()),
        Case::new("a second answer after 5 ms", after(5, STRAY), expects()),
        Case::new("a second answer after 20 ms", after(20, STRAY), expects()),
        Case::new("noise after the answer", after(0, "noise"), expects()),
        Case::new("half an answer more", after(0, "HTTP/1.1 200"), expects()),
        Case::new(
            "a body beyond its length",
            Conduct::says(format!("{}{STRAY}", head("content-length: 1\r\n") + "x")),
            expects(),
        ),
        Case::new(
            "noise without end after the answer",
            Conduct::plain([
                Step::ReadRequest,
                Step::Say(ok().into()),
                Step::Flood(vec![b'x'; 16 * 1024].into()),
            ]),
            expects(),
        ),
    ]
}
