//! Details as they come, more or less: what `scripts/dictionary` makes a dictionary's tables of.

use domain::attempt::{AttemptError, Detail, Response, Timing};

/// The same numbers from the same seed, for ever.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) % u64::from(end)) as u32
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u32) as usize]
    }

    fn word(&mut self, letters: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(letters[self.below(letters.len() as u32) as usize])).collect()
    }

    fn hex(&mut self, length: usize) -> String {
        self.word(b"0123456789abcdef", length)
    }
}

pub(super) fn of(seed: u64) -> impl Iterator<Item = Detail> {
    let mut dice = Dice(seed);
    std::iter::repeat_with(move || sample(&mut dice))
}

fn sample(dice: &mut Dice) -> Detail {
    let reused = dice.below(3) > 0;
    let failed = dice.below(10) == 0;
    let url = url(dice);
    let mut timing = Timing::default();
    if !reused {
        let tls = url.starts_with("https").then(|| 2_000 + dice.below(90_000));
        timing = Timing { connect_us: Some(100 + dice.below(60_000)), tls_us: tls, ..timing };
        timing.dns_us = (dice.below(2) == 0).then(|| 100 + dice.below(20_000));
    }
    let mut detail = Detail {
        url,
        request_headers: request_headers(dice),
        connection_reused: reused,
        timing,
        ..Detail::default()
    };
    if failed {
        detail.error = Some(error(dice));
    } else {
        detail.timing.first_byte_us = Some(300 + dice.below(300_000));
        detail.response = Some(response(dice));
        detail.retry_after_seconds = (dice.below(30) == 0).then(|| u64::from(1 + dice.below(120)));
    }
    detail
}

fn url(dice: &mut Dice) -> String {
    const LETTERS: &[u8] = b"aaabcdeeeeefghiiijklmnnnooooprrrssstttuvwy";
    let length = 4 + dice.below(6) as usize;
    let name = dice.word(LETTERS, length);
    let place = dice.one(&["api.", "hooks.", "webhooks.", "app.", "www.", ""]);
    let end = dice.one(&[".com", ".io", ".net", ".dev", ".example.com", ".internal", ".de", ".co.uk"]);
    let path = dice.one(&[
        "/webhooks/",
        "/webhook/",
        "/webhook",
        "/hooks/",
        "/api/webhooks/",
        "/v1/webhooks/",
        "/api/v1/events",
        "/events/",
        "/integrations/",
        "/callback/",
        "/",
    ]);
    let rest = match (path.ends_with('/'), dice.below(4)) {
        (true, 0) => dice.hex(32),
        (true, 1) => dice.word(LETTERS, 6),
        (true, 2) => dice.word(b"0123456789", 5),
        _ => String::new(),
    };
    let (scheme, port) = match dice.below(6) {
        0 => ("http://", format!(":{}", dice.one(&["8080", "3000", "8000", "80"]))),
        _ => ("https://", String::new()),
    };
    format!("{scheme}{place}{name}{end}{port}{path}{rest}")
}

fn request_headers(dice: &mut Dice) -> Vec<(String, String)> {
    const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut headers = Vec::new();
    if dice.below(8) == 0 {
        headers.push((dice.one(&["authorization", "x-api-key"]).into(), "***".into()));
    }
    let mut signature = format!("v1,{}=", dice.word(BASE64, 43));
    if dice.below(12) == 0 {
        signature += &format!(" v1,{}=", dice.word(BASE64, 43));
    }
    headers.push(("webhook-signature".into(), signature));
    if dice.below(8) == 0 {
        let trace = format!("00-{}-{}-01", dice.hex(32), dice.hex(16));
        headers.push(("traceparent".into(), trace));
    }
    headers
}

fn error(dice: &mut Dice) -> AttemptError {
    let (code, message) = [
        ("timeout", "no answer within 30 s"),
        ("timeout", "no answer within 10 s"),
        ("timeout", "no connection within 10 s"),
        ("connect_error", "connection refused"),
        ("connect_error", "connection reset by peer"),
        ("connect_error", "the connection was closed before an answer came"),
        ("dns_error", "failed to lookup address information: Name or service not known"),
        ("tls_error", "invalid peer certificate: Expired"),
        ("tls_error", "invalid peer certificate: UnknownIssuer"),
        ("blocked_target", "the address is private or reserved"),
        ("protocol_error", "what came is not HTTP"),
    ][dice.below(11) as usize];
    AttemptError { code: code.into(), kind: None, message: message.into() }
}

fn response(dice: &mut Dice) -> Response {
    let (kind, body) = [
        ("", ""),
        ("", ""),
        ("", ""),
        ("text/plain", "ok"),
        ("text/plain; charset=utf-8", "OK"),
        ("text/html; charset=utf-8", ""),
        ("application/json", "{}"),
        ("application/json", r#"{"ok":true}"#),
        ("application/json", r#"{"success":true}"#),
        ("application/json", r#"{"status":"ok"}"#),
        ("application/json; charset=utf-8", r#"{"received":true}"#),
        ("application/json; charset=utf-8", r#"{"message":"accepted"}"#),
        ("application/json", r#"{"error":"internal server error"}"#),
        ("application/json", r#"{"error":{"code":"not_found","message":"not found"}}"#),
        (
            "text/html",
            "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1>\
             </center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n",
        ),
        (
            "text/html",
            "<html>\r\n<head><title>503 Service Temporarily Unavailable</title></head>\r\n<body>\r\n<center><h1>503 \
             Service Temporarily Unavailable</h1></center>\r\n</body>\r\n</html>\r\n",
        ),
    ][dice.below(16) as usize];
    let mut headers = Vec::new();
    let mut header = |name: &str, value: String| headers.push((name.to_owned(), value));
    let bare = dice.below(3) == 0;
    if !bare && dice.below(2) == 0 {
        header("server", dice.one(&["nginx", "cloudflare", "nginx/1.24.0", "awselb/2.0", "envoy"]).into());
    }
    if !bare {
        header("date", date(dice));
    }
    if !kind.is_empty() {
        header("content-type", kind.into());
    }
    header("content-length", body.len().to_string());
    if !bare {
        for _ in 0..dice.below(4) {
            match dice.below(8) {
                0 => header("connection", "keep-alive".into()),
                1 => header("x-powered-by", "Express".into()),
                2 => {
                    let tag = dice.hex(11);
                    header("etag", format!("W/\"{tag}\""));
                }
                3 => {
                    let groups = [8, 4, 4, 4, 12].map(|length| dice.hex(length));
                    header("x-request-id", groups.join("-"));
                }
                4 => header("cache-control", "no-cache, private".into()),
                5 => header("strict-transport-security", "max-age=31536000; includeSubDomains".into()),
                6 => header("vary", "Accept-Encoding".into()),
                _ => {
                    let ray = dice.hex(16);
                    header("cf-ray", format!("{ray}-FRA"));
                }
            }
        }
    }
    Response { headers, body: Some(body.into()), ..Response::default() }
}

fn date(dice: &mut Dice) -> String {
    let day = dice.one(&["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]);
    let month =
        dice.one(&["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]);
    let [hour, minute, second] = [24, 60, 60].map(|end| dice.below(end));
    let (number, year) = (1 + dice.below(28), 2026 + dice.below(4));
    format!("{day}, {number:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

#[test]
#[ignore = "writes files for another dictionary"]
fn samples() {
    let folder = std::env::var("POSTHASTE_SAMPLES").expect("POSTHASTE_SAMPLES names a folder");
    std::fs::create_dir_all(&folder).expect("the folder");
    for (at, detail) in of(1).take(4_000).enumerate() {
        let text = serde_json::to_string(&detail).expect("JSON");
        std::fs::write(format!("{folder}/{at:04}"), text).expect("a file");
    }
}
