//! `posthaste verify`: which signature of a request is good, and if none is, why. For people whose receiver refuses what
//! Posthaste has sent, or accepts what it should not: it tries every signature there is and hides nothing.

use super::input::file_or_input;
use crate::{clock::SystemClock, commands::print_json, failure::Failure, output};
use clap::Args;
use domain::{
    destination::Scheme,
    signature::{
        self, SigningSecret,
        key_pair::{PublicKey, SignedContent},
        text::{self, TextSecret},
    },
    time::Clock,
};
use serde::Serialize;

/// What the libraries of Standard Webhooks and of Stripe allow.
const TOLERANCE_SECONDS: u64 = 300;

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The body, byte for byte as it came: a file, or - for standard input
    #[arg(value_name = "FILE|-", default_value = "-")]
    body: String,
    /// The secret; once more for another
    #[arg(long, value_name = "SECRET", env = "POSTHASTE_VERIFY_SECRET", hide_env_values = true)]
    secret: Vec<String>,
    /// The public key of an Ed25519 signature; once more for another
    #[arg(long, value_name = "whpk_…")]
    public_key: Vec<String>,
    /// A header of the request; once more for each of them
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// A file with the headers, one in a line, as curl and most proxies print them
    #[arg(long, value_name = "FILE")]
    headers_from: Option<String>,
    /// The header of a signature as Stripe makes it, if it is another than stripe-signature
    #[arg(long, value_name = "NAME", default_value = "stripe-signature")]
    stripe_header: String,
    /// The header of a signature as GitHub makes it, if it is another than x-hub-signature-256
    #[arg(long, value_name = "NAME", default_value = "x-hub-signature-256")]
    github_header: String,
    /// How many seconds its timestamp may be from now
    #[arg(long, value_name = "SECONDS", default_value_t = TOLERANCE_SECONDS)]
    tolerance: u64,
    /// When it came, in seconds since 1970 [default: now]
    #[arg(long, value_name = "SECONDS")]
    at: Option<i64>,
}

/// What became of one signature.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Finding {
    header: String,
    scheme: &'static str,
    good: bool,
    /// By which of the keys, in the order they were given, or why it is not good.
    detail: String,
}

pub(crate) fn run(args: VerifyArgs, json: bool) -> Result<(), Failure> {
    let keys = Keys::read(&args)?;
    let headers = RequestHeaders::read(&args)?;
    let body = file_or_input(&args.body)?;
    let now = args.at.unwrap_or_else(|| SystemClock.now().seconds());
    let findings = Examined { args: &args, keys: &keys, headers: &headers, body: &body, now }.findings();
    let good = findings.iter().any(|finding| finding.good);
    if json {
        print_json(&serde_json::json!({ "good": good, "signatures": findings }))?;
    } else {
        for Finding { header, scheme, good, detail } in &findings {
            let word = if *good { "good" } else { "NOT GOOD" };
            output::line(format_args!("{word}  {header}  {scheme}  {detail}"));
        }
    }
    match (good, findings.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => Err(Failure::failed(anyhow::anyhow!(
            "there is no signature in these headers: looked for webhook-signature, svix-signature, {} and {}",
            args.stripe_header,
            args.github_header
        ))),
        (false, false) => Err(Failure::failed(anyhow::anyhow!("none of its signatures is good"))),
    }
}

struct Keys {
    standard: Vec<(usize, SigningSecret)>,
    text: Vec<(usize, TextSecret)>,
    public: Vec<PublicKey>,
}

impl Keys {
    fn read(args: &VerifyArgs) -> Result<Self, Failure> {
        let (mut standard, mut of_text) = (Vec::new(), Vec::new());
        for (place, secret) in args.secret.iter().enumerate() {
            // One that is fit for no scheme at all is a slip.
            Scheme::Stripe
                .check_secret(secret)
                .map_err(|error| Failure::configuration(format!("--secret: {error}")))?;
            standard.extend(secret.parse::<SigningSecret>().ok().map(|secret| (place + 1, secret)));
            of_text.extend(TextSecret::new(secret).ok().map(|secret| (place + 1, secret)));
        }
        let public =
            args.public_key.iter().map(|key| key.parse::<PublicKey>()).collect::<Result<Vec<_>, _>>();
        let public = public.map_err(|error| Failure::configuration(format!("--public-key: {error}")))?;
        if args.secret.is_empty() && public.is_empty() {
            return Err(Failure::configuration(
                "nothing to verify with: give --secret (or POSTHASTE_VERIFY_SECRET), or --public-key",
            ));
        }
        Ok(Self { standard, text: of_text, public })
    }
}

struct RequestHeaders(Vec<(String, String)>);

impl RequestHeaders {
    fn read(args: &VerifyArgs) -> Result<Self, Failure> {
        let mut found = Vec::new();
        for line in &args.headers {
            let pair = pair(line);
            found.push(pair.ok_or_else(|| {
                Failure::configuration(format!("--header {line:?}: expected `name: value`"))
            })?);
        }
        if let Some(path) = &args.headers_from {
            // A request line, and whatever a tool prints around, is no header.
            let text = String::from_utf8_lossy(&file_or_input(path)?).into_owned();
            let lines = text.lines().map(|line| line.trim_start_matches(['>', '<', '*', ' ']));
            found.extend(lines.filter_map(pair));
        }
        Ok(Self(found))
    }

    fn all<'h>(&'h self, name: &str) -> impl Iterator<Item = &'h str> {
        self.0
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The only one.
    fn one(&self, name: &str) -> Result<&str, String> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (Some(value), None) => Ok(value),
            (None, _) => Err(format!("the header {name} is missing")),
            (Some(_), Some(_)) => Err(format!("the header {name} is there twice")),
        }
    }
}

fn pair(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let is_name =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    is_name.then(|| (name.to_owned(), value.trim().to_owned()))
}

struct Examined<'a> {
    args: &'a VerifyArgs,
    keys: &'a Keys,
    headers: &'a RequestHeaders,
    body: &'a [u8],
    now: i64,
}

impl Examined<'_> {
    fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for family in ["webhook", "svix"] {
            for header in self.headers.all(&format!("{family}-signature")) {
                header.split_ascii_whitespace().for_each(|entry| findings.push(self.standard(family, entry)));
            }
        }
        for header in self.headers.all(&self.args.stripe_header) {
            self.stripe(header, &mut findings);
        }
        let new = domain::destination::header_of_new(&self.args.github_header);
        for name in [&self.args.github_header, &new] {
            for header in self.headers.all(name) {
                findings.push(self.github(name, header));
            }
        }
        findings
    }

    fn standard(&self, family: &str, entry: &str) -> Finding {
        let scheme = match entry.split_once(',') {
            Some(("v1", _)) => "v1",
            Some(("v1a", _)) => "v1a",
            _ => "?",
        };
        let judged = || {
            let [id, timestamp] =
                ["id", "timestamp"].map(|part| self.headers.one(&format!("{family}-{part}")));
            let (id, timestamp) = (id?, timestamp?);
            if id.is_empty() || id.contains('.') {
                return Err("the id is empty or contains a full stop".to_owned());
            }
            let by = match scheme {
                "v1" if self.keys.standard.is_empty() => {
                    Err("no `whsec_` secret was given to try it with".to_owned())
                }
                "v1a" if self.keys.public.is_empty() => {
                    Err("no public key was given to try it with".to_owned())
                }
                "v1" => self.tried(|body| {
                    let seconds = timestamp.parse::<i64>().ok()?;
                    let is_by = |secret| text::is_same(&signature::sign([secret], id, seconds, body), entry);
                    let by = self.keys.standard.iter().find(|(_, secret)| is_by(secret));
                    by.map(|(place, _)| format!("by secret {place}"))
                }),
                "v1a" => self.tried(|body| {
                    let content = SignedContent::new(id, timestamp, body);
                    let by = self.keys.public.iter().position(|key| key.matches(&content, entry));
                    by.map(|place| format!("by public key {}", place + 1))
                }),
                _ => Err("it is of no scheme that is known here".to_owned()),
            };
            self.fresh(timestamp, by?)
        };
        finding(&format!("{family}-signature"), scheme, judged())
    }

    fn stripe(&self, header: &str, findings: &mut Vec<Finding>) {
        let parts: Vec<(&str, &str)> =
            header.split(',').filter_map(|part| part.trim().split_once('=')).collect();
        let timestamp = parts.iter().find(|(name, _)| *name == "t").map(|(_, value)| *value);
        for (_, signature) in parts.iter().filter(|(name, _)| *name == "v1") {
            let judged = || {
                let timestamp = timestamp.ok_or("it has no `t=`")?;
                let by = self.tried(|body| {
                    let seconds = timestamp.parse::<i64>().ok()?;
                    self.by_text(|secret| {
                        let ours = text::stripe([secret], seconds, body);
                        ours.rsplit('=').next().is_some_and(|ours| text::is_same(ours, signature))
                    })
                });
                self.fresh(timestamp, by?)
            };
            findings.push(finding(&self.args.stripe_header, "stripe", judged()));
        }
    }

    fn github(&self, name: &str, header: &str) -> Finding {
        let by = self.tried(|body| self.by_text(|secret| text::is_same(&text::github(secret, body), header)));
        finding(name, "github", by)
    }

    fn by_text(&self, matches: impl Fn(&TextSecret) -> bool) -> Option<String> {
        let by = self.keys.text.iter().find(|(_, secret)| matches(secret));
        by.map(|(place, _)| format!("by secret {place}"))
    }

    /// By which key it is. If by none: whether it would be with a body that an editor or a shell has changed.
    fn tried(&self, by: impl Fn(&[u8]) -> Option<String>) -> Result<String, String> {
        if self.keys.text.is_empty() && self.keys.public.is_empty() {
            return Err("no secret was given to try it with".into());
        }
        if let Some(by) = by(self.body) {
            return Ok(by);
        }
        let cut = self.body.strip_suffix(b"\n").map(|body| body.strip_suffix(b"\r").unwrap_or(body));
        if let Some(by) = cut.and_then(&by) {
            return Err(format!(
                "it would be, {by}, without the line end that the body has here and did not come with"
            ));
        }
        Err("it is of another key, or of other bytes: the body has to be as it came, not parsed and written again".into())
    }

    fn fresh(&self, timestamp: &str, by: String) -> Result<String, String> {
        let seconds: i64 =
            timestamp.parse().map_err(|_| "the timestamp is no number of seconds".to_owned())?;
        let apart = self.now.saturating_sub(seconds);
        if apart.unsigned_abs() <= self.args.tolerance {
            return Ok(by);
        }
        let way = if apart > 0 { "old" } else { "ahead" };
        Err(format!(
            "it is, {by}, but {} s {way}, and {} are allowed (--at, --tolerance)",
            apart.unsigned_abs(),
            self.args.tolerance
        ))
    }
}

fn finding(header: &str, scheme: &'static str, judged: Result<String, String>) -> Finding {
    let good = judged.is_ok();
    Finding { header: header.to_owned(), scheme, good, detail: judged.unwrap_or_else(|why| why) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: VerifyArgs,
    }

    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const BODY: &str = r#"{"email":"test@example.com","username":"test_user"}"#;
    const HEADERS: [&str; 3] = [
        "Webhook-Id: msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
        "webhook-timestamp: 1649367553",
        "webhook-signature: v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw= v1a,AAAA v2,x",
    ];

    fn judged(flags: &[&str], headers: &[&str], body: &str) -> Vec<String> {
        let headers = headers.iter().flat_map(|header| ["-H", *header]);
        let flags = ["verify"].into_iter().chain(flags.iter().copied()).chain(headers);
        let args = Line::parse_from(flags).args;
        let (keys, headers) = (Keys::read(&args).unwrap(), RequestHeaders::read(&args).unwrap());
        let now = args.at.unwrap_or(1_649_367_553);
        let findings =
            Examined { args: &args, keys: &keys, headers: &headers, body: body.as_bytes(), now }.findings();
        findings.into_iter().map(|it| format!("{} {} {}", it.scheme, it.good, it.detail)).collect()
    }

    #[test]
    fn each_signature_is_told_of() {
        let told = judged(&["--secret", "a secret of another scheme", "--secret", SECRET], &HEADERS, BODY);
        assert_eq!(told[0], "v1 true by secret 2");
        assert_eq!(told[1], "v1a false no public key was given to try it with");
        assert!(told[2].starts_with("? false"), "{told:?}");
    }

    #[test]
    fn why_one_is_not_good_is_told() {
        let with = ["--secret", SECRET];
        let first = |flags: &[&str], headers: &[&str], body: &str| judged(flags, headers, body).remove(0);
        assert!(first(&with, &HEADERS, "{}").contains("other bytes"));
        assert!(first(&with, &HEADERS, &format!("{BODY}\n")).contains("line end"));
        let late = ["--secret", SECRET, "--at", "1649367854"];
        assert!(first(&late, &HEADERS, BODY).contains("301 s old"));
        let early = ["--secret", SECRET, "--at", "1649367252"];
        assert!(first(&early, &HEADERS, BODY).contains("301 s ahead"));
        assert!(first(&with, &HEADERS[1..], BODY).contains("webhook-id is missing"));
        let twice = [&HEADERS[..], &["webhook-id: other"]].concat();
        assert!(first(&with, &twice, BODY).contains("is there twice"));
    }

    #[test]
    fn the_schemes_of_others_are_tried_too() {
        let secret = TextSecret::new(SECRET).unwrap();
        let stripe = format!("acme: {}", text::stripe([&secret], 1_649_367_553, b"{}"));
        let flags = ["--secret", SECRET, "--stripe-header", "Acme"];
        assert_eq!(judged(&flags, &[&stripe], "{}"), ["stripe true by secret 1"]);
        assert!(judged(&flags, &[&stripe.replace("t=16", "t=17")], "{}")[0].starts_with("stripe false"));
        let github = format!("x-hub-signature-256: {}", text::github(&secret, b"{}"));
        assert_eq!(judged(&["--secret", SECRET], &[&github], "{}"), ["github true by secret 1"]);
        assert_eq!(
            judged(&["--secret", SECRET], &["content-type: application/json"], "{}"),
            Vec::<String>::new()
        );
    }
}
