//! `posthaste sign`: the headers that sign a body, for trying a receiver without a server.

use super::input::file_or_input;
use crate::{clock::SystemClock, commands::print_json, failure::Failure, output};
use clap::{Args, ValueEnum};
use domain::{
    destination::{Scheme, Signing},
    signature::{
        self, SigningSecret,
        key_pair::{KeyPair, SignedContent},
        text::{self, TextSecret},
    },
    time::Clock,
};
use serde_json::{Map, Value};

/// In the words of a destination's `signing.scheme`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SchemeArg {
    Standard,
    Stripe,
    Github,
    None,
}

impl From<SchemeArg> for Scheme {
    fn from(scheme: SchemeArg) -> Self {
        match scheme {
            SchemeArg::Standard => Self::Standard,
            SchemeArg::Stripe => Self::Stripe,
            SchemeArg::Github => Self::Github,
            SchemeArg::None => Self::None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SignArgs {
    /// The body, as it is sent: a file, or - for standard input
    #[arg(value_name = "FILE|-", default_value = "-")]
    body: String,
    /// The secret of a destination; once more for the one before it, which signs as well
    #[arg(long, value_name = "SECRET", env = "POSTHASTE_SIGN_SECRET", hide_env_values = true)]
    secret: Vec<String>,
    /// Sign by Ed25519 too, with this key
    #[arg(long, value_name = "whsk_…", env = "POSTHASTE_SIGN_PRIVATE_KEY", hide_env_values = true)]
    private_key: Vec<String>,
    /// The scheme to sign by with the secret
    #[arg(long, value_enum, default_value_t = SchemeArg::Standard)]
    scheme: SchemeArg,
    /// Where the signature is, with --scheme stripe or github [default: where their libraries look]
    #[arg(long, value_name = "NAME")]
    header: Option<String>,
    /// Print the headers of Standard Webhooks a second time, as svix-…
    #[arg(long)]
    svix: bool,
    /// What names the event
    #[arg(long, default_value = "msg_test")]
    id: String,
    /// When it is signed, in seconds since 1970 [default: now]
    #[arg(long, value_name = "SECONDS")]
    timestamp: Option<i64>,
}

pub(crate) fn run(args: SignArgs, json: bool) -> Result<(), Failure> {
    let headers = signed(&args, &file_or_input(&args.body)?)?;
    if json {
        let members = headers.into_iter().map(|(name, value)| (name, Value::from(value)));
        return print_json(&members.collect::<Map<_, _>>());
    }
    headers.iter().for_each(|(name, value)| output::line(format_args!("{name}: {value}")));
    Ok(())
}

fn signed(args: &SignArgs, body: &[u8]) -> Result<Vec<(String, String)>, Failure> {
    let signing = Signing {
        scheme: args.scheme.into(),
        ed25519: !args.private_key.is_empty(),
        svix_headers: args.svix,
        header: args.header.clone(),
    };
    if args.id.is_empty() || args.id.contains('.') {
        return Err(Failure::configuration("--id: a full stop would make what is signed ambiguous"));
    }
    if signing.scheme != Scheme::None && args.secret.is_empty() {
        return Err(Failure::configuration(
            "no secret: give one with --secret or POSTHASTE_SIGN_SECRET, or --scheme none with --private-key",
        ));
    }
    let at = args.timestamp.unwrap_or_else(|| SystemClock.now().seconds());
    let wrong = |flag: &'static str| {
        move |error: &dyn std::fmt::Display| Failure::configuration(format!("{flag}: {error}"))
    };
    let mut headers =
        vec![("webhook-id".to_owned(), args.id.clone()), ("webhook-timestamp".to_owned(), at.to_string())];
    let mut standard = String::new();
    if signing.scheme == Scheme::Standard {
        let secrets = args.secret.iter().map(|secret| secret.parse::<SigningSecret>());
        let secrets = secrets.collect::<Result<Vec<_>, _>>().map_err(|error| wrong("--secret")(&error))?;
        standard = signature::sign(&secrets, &args.id, at, body);
    }
    let content = SignedContent::new(&args.id, &at.to_string(), body);
    for key in &args.private_key {
        let pair = key.parse::<KeyPair>().map_err(|error| wrong("--private-key")(&error))?;
        pair.sign(&content, &mut standard);
    }
    if signing.has_standard_signature() {
        headers.push(("webhook-signature".into(), standard));
        if args.svix {
            let again =
                headers.iter().map(|(name, value)| (name.replace("webhook-", "svix-"), value.clone()));
            headers.extend(again.collect::<Vec<_>>());
        }
    } else if args.svix {
        return Err(Failure::configuration(
            "--svix repeats what Standard Webhooks has: it needs its scheme, or --private-key",
        ));
    }
    if let Some(name) = signing.own_header() {
        let secrets = args.secret.iter().map(|secret| TextSecret::new(secret));
        let secrets = secrets.collect::<Result<Vec<_>, _>>().map_err(|error| wrong("--secret")(&error))?;
        let value = match (signing.scheme, &secrets[..]) {
            (Scheme::Github, [secret]) => text::github(secret, body),
            (Scheme::Github, _) => {
                return Err(Failure::configuration(
                    "--secret: the scheme of GitHub has room for one signature",
                ));
            }
            _ => text::stripe(&secrets, at, body),
        };
        headers.push((name.to_owned(), value));
    } else if args.header.is_some() {
        return Err(Failure::configuration(
            "--header: only --scheme stripe and --scheme github have one of their own",
        ));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: SignArgs,
    }

    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const PRIVATE: &str =
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";

    fn of(flags: &[&str], body: &str) -> Result<Vec<(String, String)>, String> {
        let line = Line::parse_from([&["sign"], flags].concat());
        signed(&line.args, body.as_bytes()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_published_vectors_come_out() {
        let body = r#"{"email":"test@example.com","username":"test_user"}"#;
        let flags =
            ["--secret", SECRET, "--id", "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "--timestamp", "1649367553"];
        let headers = of(&flags, body).unwrap();
        assert_eq!(headers[2].1, "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=");
        let flags = ["--scheme", "none", "--private-key", PRIVATE, "--svix"];
        let more = ["--id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "--timestamp", "1614265330"];
        let headers = of(&[&flags[..], &more].concat(), r#"{"test": 2432232314}"#).unwrap();
        let names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "webhook-id",
                "webhook-timestamp",
                "webhook-signature",
                "svix-id",
                "svix-timestamp",
                "svix-signature"
            ]
        );
        let signature =
            "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";
        assert_eq!((headers[2].1.as_str(), headers[5].1.as_str()), (signature, signature));
    }

    #[test]
    fn what_cannot_be_signed_says_why() {
        let table: [(&[&str], &str); 7] = [
            (&[], "no secret"),
            (&["--secret", "short"], "--secret: a signing secret starts with"),
            (&["--secret", SECRET, "--header", "x"], "--header"),
            (&["--secret", SECRET, "--id", "a.b"], "--id"),
            (&["--secret", SECRET, "--scheme", "stripe", "--svix"], "--svix"),
            (&["--secret", SECRET, "--secret", SECRET, "--scheme", "github"], "room for one"),
            (&["--scheme", "none", "--private-key", SECRET], "--private-key"),
        ];
        for (flags, why) in table {
            let told = of(flags, "{}").unwrap_err();
            assert!(told.contains(why), "{flags:?}: {told}");
        }
    }
}
