//! Every kind of hostility, as data: its cases, and what must become of each. A kind is a check by itself, by its name,
//! and all of them together are `everything_hostile`.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;

use super::bombs;
use super::certificates::Certificates;
use super::conduct::{Conduct, Door, NONCE, Step};
use super::expectation::{CONNECT, DEADLINE, Expectation, SLACK};
use super::malformed;

pub(crate) struct Kind {
    /// Of its check.
    pub(crate) name: &'static str,
    pub(crate) cases: fn(&Surroundings<'_>) -> Result<Vec<Case>>,
    /// Of each case.
    pub(crate) deliveries: u64,
    pub(crate) slots: u32,
    /// Over so long; zero: all at once.
    pub(crate) over: Duration,
    /// In turn.
    pub(crate) payload_bytes: &'static [usize],
    /// In seconds, before the second attempt and so on.
    pub(crate) pauses: &'static [u64],
    /// Memory may grow by so much.
    pub(crate) grows_mib: f64,
    /// CPU time of the node for an attempt at most, where it is about that.
    pub(crate) cpu_ms: Option<f64>,
}

/// What cases refer to.
pub(crate) struct Surroundings<'a> {
    pub(crate) certificates: &'a Certificates,
    /// URLs of which nobody but a redirect speaks.
    pub(crate) canaries: &'a [String],
}

#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) conduct: Conduct,
    pub(crate) expects: Expectation,
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, conduct: Conduct, expects: Expectation) -> Case {
        Case { name: name.into(), conduct, expects }
    }
}

/// By the name of its check.
pub(crate) fn named(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

const SMALL: &[usize] = &[512];
const SPREAD: Duration = Duration::from_secs(4);

const KIND: Kind = Kind {
    name: "",
    cases: |_| Ok(Vec::new()),
    deliveries: 200,
    slots: 100,
    over: Duration::ZERO,
    payload_bytes: SMALL,
    pauses: &[1],
    grows_mib: 64.0,
    cpu_ms: None,
};

/// In the order of the reliability table.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "call_never_taken", cases: call_never_taken, ..KIND },
    Kind { name: "answer_never_comes", cases: answer_never_comes, ..KIND },
    Kind { name: "dripping_head", cases: dripping_head, ..KIND },
    Kind { name: "endless_body", cases: endless_body, deliveries: 100, slots: 50, ..KIND },
    // Fifty at once, 64 KiB each that are read of it, and a little for the rest.
    Kind {
        name: "huge_body",
        cases: huge_body,
        deliveries: 200,
        slots: 50,
        over: SPREAD,
        grows_mib: 50.0 / 16.0 + 16.0,
        ..KIND
    },
    Kind {
        name: "decompression_bomb",
        cases: decompression_bomb,
        deliveries: 40,
        slots: 10,
        over: SPREAD,
        grows_mib: 32.0,
        cpu_ms: Some(5.0),
        ..KIND
    },
    Kind { name: "answer_cut_off", cases: answer_cut_off, deliveries: 40, slots: 10, over: SPREAD, ..KIND },
    Kind { name: "broken_tls", cases: broken_tls, deliveries: 10, slots: 5, over: SPREAD, ..KIND },
    Kind { name: "redirects", cases: redirects, deliveries: 10, slots: 5, over: SPREAD, ..KIND },
    Kind {
        name: "malformed_answers",
        cases: malformed::cases,
        deliveries: 5,
        slots: 1,
        over: SPREAD,
        ..KIND
    },
    Kind {
        name: "stale_connection",
        cases: stale_connection,
        deliveries: 60,
        slots: 2,
        over: Duration::from_secs(6),
        pauses: &[1, 1, 1, 1, 1, 1, 1],
        ..KIND
    },
    // A mebibyte, and as much as an event may have; at most 128 MiB of them are in memory, and copies on their way there.
    Kind {
        name: "body_not_read",
        cases: body_not_read,
        deliveries: 8,
        slots: 4,
        over: SPREAD,
        payload_bytes: &[1024 * 1024, 4_900_000],
        grows_mib: 256.0,
        ..KIND
    },
];

fn call_never_taken(_: &Surroundings<'_>) -> Result<Vec<Case>> {
    let hole = Conduct::plain([]).behind(Door::NeverOpens);
    Ok(vec![Case::new("black hole", hole, Expectation::timed_out(CONNECT).never_arrives())])
}

fn answer_never_comes(_: &Surroundings<'_>) -> Result<Vec<Case>> {
    let listens = Conduct::plain([Step::ReadRequest, Step::Listen]);
    let ignores = Conduct::plain([Step::Ignore]);
    Ok(vec![
        Case::new("listens", listens, Expectation::timed_out(DEADLINE)),
        Case::new("does not even listen", ignores, Expectation::timed_out(DEADLINE).never_arrives()),
    ])
}

fn dripping_head(_: &Surroundings<'_>) -> Result<Vec<Case>> {
    let drips = |head, ms| Conduct::plain([Step::ReadRequest, Step::Drip(head, Duration::from_millis(ms))]);
    let timed_out = || Expectation::timed_out(DEADLINE);
    Ok(vec![
        Case::new("a byte a second", drips(b"HTTP/1.1 200 OK\r\nx-a: b\r\n", 1_000), timed_out()),
        // Never the end of a head, however fast it comes.
        Case::new("a head of many bytes", drips(b"HTTP/1.1 200 OK\r\nx-a: ", 20), timed_out()),
    ])
}

fn endless_body(_: &Surroundings<'_>) -> Result<Vec<Case>> {
    // A second is as long as a body is waited for.
    let drips = |head: &'static str, piece| {
        let head = Step::Say(Bytes::from(format!("HTTP/1.1 200 OK\r\nx-nonce: {NONCE}\r\n{head}\r\n")));
        let drip = Step::Drip(piece, Duration::from_millis(500));
        Conduct::plain([Step::ReadRequest, head, drip])
    };
    let head = Step::Say("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n".into());
    let silent = Conduct::plain([Step::ReadRequest, head, Step::Listen]);
    let expects = || Expectation::delivered(200).takes(0.0..=1.0 + SLACK);
    Ok(vec![
        Case::new("of a known length", drips("content-length: 1000000\r\n", b"x"), expects()),
        Case::new("of chunks", drips("transfer-encoding: chunked\r\n", b"1\r\nx\r\n"), expects()),
        Case::new("until it is closed", drips("", b"x"), expects()),
        Case::new("of nothing", silent, expects()),
    ])
}

fn huge_body(_: &Surroundings<'_>) -> Result<Vec<Case>> {
    let floods = |head: &str, piece: Vec<u8>| {
        let head = Step::Say(Bytes::from(format!("HTTP/1.1 200 OK\r\nx-nonce: {NONCE}\r\n{head}\r\n")));
        Conduct::plain([Step::ReadRequest, head, Step::Flood(piece.into())])
    };
    let expects = || Expectation::delivered(200).keeps(vec![b'x'; 16 * 1024], true);
    let large = vec![b'x'; 64 * 1024];
    let chunk = [&b"10000\r\n"[..], &large, b"\r\n"].concat();
    let ten_gib = format!("content-length: {}\r\n", 10u64 << 30);
    Ok(vec![
        Case::new("of a known length", floods(&ten_gib, large.clone()), expects()),
        Case::new("of chunks", floods("transfer-encoding: chunked\r\n", chunk), expects()),
        Case::new("until it is closed", floods("", large), expects()),
        // Five bytes on the wire for each that counts.
        Case::new(
            "of the smallest chunks",
            floods("transfer-encoding: chunked\r\n", b"1\r\nx\r\n".repeat(4_096)),
            Expectation::delivered(200).takes(0.0..=1.0 + SLACK),
        ),
    ])
}

fn decompression_bomb(_: &Surroundings<'_>) -> Result<Vec<Case>> {
    let case = |name: &str, encoding: &str, bomb: Vec<u8>| {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {}\r\n\r\n",
            bomb.len()
        );
        let answer = [head.as_bytes(), &bomb].concat();
        let truncated = bomb.len() > 16 * 1024;
        Case::new(name, Conduct::says(answer), Expectation::delivered(200).keeps(bomb, truncated))
    };
    Ok(vec![
        case("gzip, of 10 MiB", "gzip", bombs::gzip(10 * 1024 * 1024)),
        case("gzip, read to its end", "gzip", bombs::gzip(60 * 1024)),
        case("zstd, 10 GiB in 320 KiB", "zstd", bombs::zstd(320 * 1024)),
        case("zstd, half a GiB in 16 KiB", "zstd", bombs::zstd(16 * 1024)),
        case("under the name of brotli", "br", bombs::gzip(1024 * 1024)),
        case("twice", "gzip, gzip", bombs::gzip(1024 * 1024)),
    ])
}

fn answer_cut_off(_: &Surroundings<'_>) -> Result<Vec<Case>> {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
    let mut cases = Vec::new();
    for (name, said, expects) in [
        ("before the status", "", Expectation::cut_off()),
        ("in the status line", "HTTP/1.1 2", Expectation::cut_off()),
        ("after the status line", "HTTP/1.1 200 OK\r\n", Expectation::cut_off()),
        ("in the headers", "HTTP/1.1 200 OK\r\ncontent-le", Expectation::cut_off()),
        ("after the head", head, Expectation::delivered(200).keeps("", true)),
        ("in the body", &format!("{head}abc"), Expectation::delivered(200).keeps("abc", true)),
        ("in the body of a refusal", "HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\nabc", {
            Expectation::rejected(404).keeps("abc", true)
        }),
    ] {
        let said = Step::Say(said.to_owned().into());
        let moment = Step::Pause(Duration::from_millis(20));
        let reset = Conduct::plain([Step::ReadRequest, said.clone(), moment, Step::Reset]);
        let closed = Conduct::plain([Step::ReadRequest, said]);
        cases.push(Case::new(format!("reset {name}"), reset, expects.clone()));
        cases.push(Case::new(format!("closed {name}"), closed, expects));
    }
    // Nothing of the request was read: what is thrown away is thrown away at both ends.
    let refused = Conduct::plain([Step::Reset]);
    cases.push(Case::new("reset at once", refused, Expectation::cut_off().never_arrives()));
    Ok(cases)
}

fn broken_tls(around: &Surroundings<'_>) -> Result<Vec<Case>> {
    const DISAGREED: &str = "TLS: it and we could not agree on how to speak TLS";
    const NOT_TLS: &str = "TLS: it does not speak TLS on this port";
    let of = around.certificates;
    let ok = format!("HTTP/1.1 200 OK\r\nx-nonce: {NONCE}\r\ncontent-length: 0\r\n\r\n");
    let over = |config| Conduct::says(ok.clone()).behind(Door::Tls(config));
    let raw = |steps: &[Step]| Conduct::plain(steps).behind(Door::RawTls);
    let says = |bytes: &'static [u8]| raw(&[Step::AwaitBytes, Step::Say(bytes.into()), Step::Listen]);
    let bad = |name: &str, conduct, message| Case::new(name, conduct, Expectation::bad_tls(message));
    let cut = || Expectation::cut_off().never_arrives();
    Ok(vec![
        Case::new("in order", over(of.good()?), Expectation::delivered(200)),
        bad("expired", over(of.expired()?), "TLS: its certificate has expired"),
        bad("of tomorrow", over(of.not_yet_valid()?), "TLS: its certificate is not valid yet"),
        bad("signed by itself", over(of.self_signed()?), "TLS: its certificate is signed by itself"),
        bad("of another name", over(of.of_another_name()?), "TLS: its certificate is for another name"),
        bad(
            "of an unknown authority",
            over(of.of_unknown_authority()?),
            "TLS: its certificate is signed by an authority that is not known here",
        ),
        bad("ten megabytes of certificates", over(of.giant()?), DISAGREED),
        bad("only HTTP/2", over(of.http2_only()?), DISAGREED),
        bad("an answer of TLS 1.0", says(TLS_1_0_HELLO), DISAGREED),
        bad("an alert of TLS 1.0", says(b"\x15\x03\x01\x00\x02\x02\x46"), DISAGREED),
        bad("no TLS", says(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), NOT_TLS),
        bad("an endless record", says(b"\x16\x03\x03\xff\xff"), DISAGREED),
        Case::new(
            "stalled",
            raw(&[Step::AwaitBytes, Step::Listen]),
            Expectation::timed_out(DEADLINE).never_arrives(),
        ),
        Case::new(
            "dripping",
            raw(&[Step::AwaitBytes, Step::Drip(TLS_1_2_BEGINNING, Duration::from_secs(1))]),
            Expectation::timed_out(DEADLINE).never_arrives(),
        ),
        Case::new("reset", raw(&[Step::AwaitBytes, Step::Reset]), cut()),
        Case::new(
            "reset in the middle of an answer",
            raw(&[Step::AwaitBytes, Step::Say(TLS_1_2_BEGINNING.into()), Step::Reset]),
            cut(),
        ),
        Case::new("closed", raw(&[Step::AwaitBytes]), cut()),
    ])
}

/// A record that is to become a ServerHello.
const TLS_1_2_BEGINNING: &[u8] = b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03";
/// A ServerHello that chooses TLS 1.0 and AES-128-CBC-SHA.
const TLS_1_0_HELLO: &[u8] = b"\x16\x03\x01\x00\x2a\x02\x00\x00\x26\x03\x01\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\x00\x00\x2f\x00";

fn redirects(around: &Surroundings<'_>) -> Result<Vec<Case>> {
    let mut targets: Vec<(&str, String)> = vec![
        ("itself", "/".into()),
        ("a path in a loop", "/d/1".into()),
        ("a file", "file:///etc/passwd".into()),
        ("nowhere", String::new()),
    ];
    targets.extend(around.canaries.iter().map(|canary| ("a canary", canary.clone())));
    let mut cases = Vec::new();
    for status in [301, 302, 303, 307, 308] {
        for (name, target) in &targets {
            let answer = redirect(status, target);
            cases.push(Case::new(
                format!("{status} to {name}"),
                Conduct::says(answer),
                Expectation::rejected(status),
            ));
        }
        let unprotected = Conduct::says(redirect(status, &around.canaries[0]));
        let protected = unprotected.behind(Door::Tls(around.certificates.good()?));
        cases.push(Case::new(
            format!("{status} from https to http"),
            protected,
            Expectation::rejected(status),
        ));
    }
    Ok(cases)
}

fn redirect(status: u16, target: &str) -> String {
    let head = format!("HTTP/1.1 {status} Elsewhere\r\nx-nonce: {NONCE}\r\nlocation: {target}\r\n");
    format!("{head}content-length: 0\r\n\r\n")
}

fn stale_connection(_: &Surroundings<'_>) -> Result<Vec<Case>> {
    let ok = format!("HTTP/1.1 200 OK\r\nx-nonce: {NONCE}\r\ncontent-length: 0\r\n\r\n");
    let answers = || [Step::ReadRequest, Step::Say(ok.clone().into())].to_vec();
    // Whether an attempt meets it is a matter of moments; it may, and then it failed and is made again.
    let expects = || Expectation::delivered(200).or_at_first(Expectation::cut_off(), 8);
    let mut cases = Vec::new();
    for ms in [0, 1, 2, 5, 10, 20, 50, 90] {
        for (ends, last) in [("closed", None), ("reset", Some(Step::Reset))] {
            let mut steps = answers();
            steps.push(Step::Pause(Duration::from_millis(ms)));
            steps.extend(last);
            cases.push(Case::new(format!("{ends} after {ms} ms"), Conduct::plain(steps), expects()));
        }
    }
    for (name, ending) in [
        ("reset at the next request's first byte", [Step::AwaitBytes, Step::Reset]),
        ("reset at the next request's head", [Step::ReadHead, Step::Reset]),
        ("reset at the next request's end", [Step::ReadRequest, Step::Reset]),
    ] {
        // A few are answered first, or it would be a matter of luck whether one ever is.
        let steps = [answers(), answers(), answers(), answers(), ending.to_vec()].concat();
        cases.push(Case::new(name, Conduct::plain(steps), expects()));
    }
    Ok(cases)
}

fn body_not_read(_: &Surroundings<'_>) -> Result<Vec<Case>> {
    // Whoever does not say that it will close has promised to read the next request too, and a body that fits into the
    // buffers on the way looks as if it were read.
    let head = |status: &str| {
        format!("HTTP/1.1 {status}\r\nx-nonce: {NONCE}\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno")
    };
    let answers = |status: &str| vec![Step::ReadHead, Step::Say(head(status).into())];
    let then = |status: &str, step| Conduct::plain([answers(status), vec![step]].concat());
    let large = "413 Content Too Large";
    let (refused, taken) =
        (|| Expectation::rejected(413).keeps("no", false), || Expectation::delivered(200).keeps("no", false));
    let a_moment = Step::Pause(Duration::from_millis(50));
    Ok(vec![
        Case::new("413, and closed", Conduct::plain(answers(large)), refused()),
        Case::new("413, and closed in a moment", then(large, a_moment.clone()), refused()),
        Case::new("413, and ignored", then(large, Step::Ignore), refused()),
        Case::new("200, and closed", Conduct::plain(answers("200 OK")), taken()),
        Case::new("200, and closed in a moment", then("200 OK", a_moment), taken()),
        Case::new("200, and ignored", then("200 OK", Step::Ignore), taken()),
        Case::new(
            "not a word",
            Conduct::plain([Step::ReadHead, Step::Ignore]),
            Expectation::timed_out(DEADLINE),
        ),
        Case::new(
            "reset in the middle",
            Conduct::plain([Step::ReadHead, Step::Reset]),
            Expectation::cut_off(),
        ),
    ])
}
