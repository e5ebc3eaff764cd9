//! The database's URL: what libpq knows and the driver does not (`sslmode=verify-full`), what we set for everybody
//! (keep-alives, deadlines), and `schema`, by which tests keep out of each other's way.

use crate::OpenError;
use domain::limits;
use tokio_postgres::{Config, config::SslMode};
use url::Url;

/// Where to connect, and how.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) verify: Verify,
    /// Made if missing. It travels as a start-up option, which poolers refuse: for tests.
    pub(super) schema: Option<String>,
}

/// How much of the server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verify {
    /// `disable`, `prefer` and `require`: encrypted or not, but anybody's certificate will do, as with libpq.
    Nothing,
    /// `verify-ca` and `verify-full`: both check the name too; a certificate for another host proves little.
    Everything,
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, OpenError> {
        // The text may hold a password: errors name the part that is wrong and never repeat it.
        let bad = |what: String| OpenError::BadUrl(format!("the database's URL is not usable: {what}"));
        let mut url = Url::parse(text).map_err(|error| bad(error.to_string()))?;
        let (mut ssl_mode, mut verify, mut schema) = (SslMode::Prefer, Verify::Nothing, None);
        let mut rest = Vec::new();
        for (name, value) in url.query_pairs() {
            match name.as_ref() {
                "sslmode" => (ssl_mode, verify) = parse_ssl_mode(&value).map_err(bad)?,
                "schema" => schema = Some(parse_schema(&value).map_err(bad)?),
                _ => rest.push((name.into_owned(), value.into_owned())),
            }
        }
        url.set_query(None);
        if !rest.is_empty() {
            url.query_pairs_mut().extend_pairs(&rest);
        }
        // The driver decodes %20 and knows no plus sign.
        let plain = url.as_str().replace('+', "%20");
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| bad(cause(&error)))?;
        config
            .ssl_mode(ssl_mode)
            .connect_timeout(limits::STORE_CONNECT)
            .keepalives_idle(limits::STORE_KEEPALIVE)
            .keepalives_interval(limits::STORE_KEEPALIVE)
            .keepalives_retries(2)
            .tcp_user_timeout(limits::STORE_STATEMENT);
        if config.get_application_name().is_none() {
            config.application_name("posthaste");
        }
        if let Some(schema) = &schema {
            let given = config.get_options().map_or(String::new(), |options| format!("{options} "));
            config.options(format!("{given}-c search_path={schema}"));
        }
        Ok(Self { config, verify, schema })
    }
}

fn parse_ssl_mode(word: &str) -> Result<(SslMode, Verify), String> {
    match word {
        "disable" => Ok((SslMode::Disable, Verify::Nothing)),
        "allow" | "prefer" => Ok((SslMode::Prefer, Verify::Nothing)),
        "require" => Ok((SslMode::Require, Verify::Nothing)),
        "verify-ca" | "verify-full" => Ok((SslMode::Require, Verify::Everything)),
        _ => Err("sslmode is one of disable, prefer, require, verify-ca, verify-full".into()),
    }
}

/// It becomes part of an option and of a statement, so it is a plain word.
fn parse_schema(word: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let starts_well = word.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    match starts_well && word.len() < 64 && word.bytes().all(plain) {
        true => Ok(word.into()),
        false => Err("a schema is 1 to 63 of a-z 0-9 _ and does not begin with a digit".into()),
    }
}

fn cause(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    error.source().map_or("it cannot be understood".into(), |cause| cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    #[test]
    fn the_modes_of_libpq_are_understood() {
        for (word, mode, verify) in [
            ("disable", SslMode::Disable, Verify::Nothing),
            ("prefer", SslMode::Prefer, Verify::Nothing),
            ("require", SslMode::Require, Verify::Nothing),
            ("verify-full", SslMode::Require, Verify::Everything),
        ] {
            let address = parse(&format!("postgres://me@db.internal/posthaste?sslmode={word}"));
            assert_eq!((address.config.get_ssl_mode(), address.verify), (mode, verify), "{word}");
        }
        assert!(matches!(Address::parse("postgres://me@db/x?sslmode=maybe"), Err(OpenError::BadUrl(_))));
    }

    #[test]
    fn a_schema_becomes_the_search_path() {
        let address = parse("postgres://me@db/x?schema=test_1&options=-c%20jit%3Doff");
        assert_eq!(address.schema.as_deref(), Some("test_1"));
        assert_eq!(address.config.get_options(), Some("-c jit=off -c search_path=test_1"));
        for bad in ["", "a-b", "1a", "A", "a,b", "a%20b"] {
            assert!(matches!(
                Address::parse(&format!("postgres://me@db/x?schema={bad}")),
                Err(OpenError::BadUrl(_))
            ));
        }
    }

    #[test]
    fn an_error_never_repeats_the_password() {
        for url in [
            "postgres://me:hunter2@db:bad/x",
            "postgres://me:hunter2@db/x?sslmode=hunter2",
            "postgres://me:hunter2@db/x?hunter=hunter2",
        ] {
            let Err(OpenError::BadUrl(message)) = Address::parse(url) else { panic!("{url} was taken") };
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
