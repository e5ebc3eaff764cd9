//! OAuth 2.0 client credentials (RFC 6749, 4.4): what a token endpoint is asked, and what its answer means.
//!
//! Asking, keeping and asking again are the engine's. What is said of a failure is for the account: of an answer its status
//! and its error code, and no other word of it, since an endpoint may repeat what it was sent.

use crate::{limits, seal::Sealed, word::words};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{fmt, fmt::Write as _, time::Duration};
use zeroize::Zeroizing;

/// A client as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OAuth2Client {
    pub token_url: String,
    pub client_id: String,
    pub client_secret: Sealed,
    pub scope: Option<String>,
    pub audience: Option<String>,
    pub client_auth: ClientAuth,
    /// What else the endpoint wants to be told: name in the clear, value sealed.
    pub params: Vec<(String, Sealed)>,
}

impl OAuth2Client {
    /// Everything of it that is sealed.
    pub(crate) fn sealed_mut(&mut self) -> Vec<&mut Sealed> {
        [&mut self.client_secret].into_iter().chain(self.params.iter_mut().map(|(_, value)| value)).collect()
    }
}

words! {
    "a way for a client to show its secret",
    #[derive(Default)]
    ClientAuth {
        /// `Authorization: Basic`.
        #[default]
        Basic = "client_secret_basic",
        /// In the body.
        Post = "client_secret_post",
    }
}

/// Names that are ours in what an endpoint is asked.
pub const OWN_PARAMS: [&str; 5] = ["grant_type", "client_id", "client_secret", "scope", "audience"];

/// What an endpoint is asked, ready to be sent.
pub struct TokenRequest {
    /// A value of `authorization`.
    pub authorization: Option<Zeroizing<String>>,
    /// `application/x-www-form-urlencoded`.
    pub form: Zeroizing<String>,
}

/// A token, and for how long it is good by its endpoint's word.
pub struct Token {
    pub value: Zeroizing<String>,
    pub lifetime: Duration,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenTrouble {
    /// Another try may do.
    Away(String),
    /// The same request will be answered the same way.
    Refused(String),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl TokenRequest {
    /// With the secret, and the values of the further parameters.
    pub fn new(client: &OAuth2Client, secret: &str, params: &[(&str, &str)]) -> Self {
        let mut form = Zeroizing::new(String::with_capacity(FORM_ROOM));
        form.push_str("grant_type=client_credentials");
        let mut add = |name: &str, value: &str| {
            form.push('&');
            encode(&mut form, name);
            form.push('=');
            encode(&mut form, value);
        };
        if let Some(scope) = &client.scope {
            add("scope", scope);
        }
        if let Some(audience) = &client.audience {
            add("audience", audience);
        }
        for (name, value) in params {
            add(name, value);
        }
        let authorization = match client.client_auth {
            ClientAuth::Post => {
                add("client_id", &client.client_id);
                add("client_secret", secret);
                None
            }
            // Both are encoded before they are put together (RFC 6749, 2.3.1).
            ClientAuth::Basic => {
                let mut pair = Zeroizing::new(String::with_capacity(FORM_ROOM));
                encode(&mut pair, &client.client_id);
                pair.push(':');
                encode(&mut pair, secret);
                Some(Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes()))))
            }
        };
        Self { authorization, form }
    }
}

/// Few are longer; a string that grows leaves copies of its start behind, and those are not wiped.
const FORM_ROOM: usize = 8 * 1024;

/// The answer of a token endpoint, judged.
pub fn read_answer(status: u16, body: &[u8]) -> Result<Token, TokenTrouble> {
    match status {
        200..=299 => read_token(body),
        408 | 425 | 429 => Err(TokenTrouble::Away(format!("the token endpoint answered {status}"))),
        400..=499 => Err(TokenTrouble::Refused(match error_code(body) {
            Some(code) => format!("the token endpoint answered {status}, `{code}`"),
            None => format!("the token endpoint answered {status}"),
        })),
        300..=399 => {
            let said = format!("the token endpoint answered {status}: redirects are not followed");
            Err(TokenTrouble::Away(said))
        }
        _ => Err(TokenTrouble::Away(format!("the token endpoint answered {status}"))),
    }
}

fn read_token(body: &[u8]) -> Result<Token, TokenTrouble> {
    let away = |what: &str| TokenTrouble::Away(format!("the token endpoint's answer {what}"));
    let answer: Value = serde_json::from_slice(body).map_err(|_| away("is not the JSON of a token"))?;
    let value = answer.get("access_token").and_then(Value::as_str);
    let value = value.filter(|it| !it.is_empty()).ok_or_else(|| away("has no `access_token`"))?;
    if value.len() > limits::TOKEN_BYTES || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        let bound = format!(
            "has an `access_token` that is no header: 1 to {} visible ASCII characters",
            limits::TOKEN_BYTES
        );
        return Err(away(&bound));
    }
    // One that has to be used in another way is none for us, today and tomorrow.
    let kind = answer.get("token_type").and_then(Value::as_str).unwrap_or("bearer");
    if !kind.eq_ignore_ascii_case("bearer") {
        let said = "the token endpoint gives tokens of another `token_type` than `Bearer`".into();
        return Err(TokenTrouble::Refused(said));
    }
    let seconds = answer.get("expires_in").and_then(|it| match it {
        // Some write it as text.
        Value::String(text) => text.trim().parse::<f64>().ok(),
        number => number.as_f64(),
    });
    let lifetime = match seconds {
        Some(seconds) if seconds.is_finite() => {
            Duration::from_secs_f64(seconds.clamp(0.0, limits::TOKEN_LIFETIME_MAX.as_secs_f64()))
        }
        _ => limits::TOKEN_LIFETIME_DEFAULT,
    };
    Ok(Token { value: Zeroizing::new(value.into()), lifetime })
}

/// The error of RFC 6749, 5.2: of its words, which are a few letters; what is longer is none of them.
fn error_code(body: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let code = answer.get("error")?.as_str()?;
    let is_word = code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    (is_word && (1..=limits::TOKEN_ERROR_CODE_BYTES).contains(&code.len())).then(|| code.into())
}

/// How long before its end a token is no longer sent: a request may take a while, and clocks differ.
pub fn margin(lifetime: Duration) -> Duration {
    limits::TOKEN_MARGIN.min(lifetime / 4)
}

fn encode(text: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(client_auth: ClientAuth) -> OAuth2Client {
        OAuth2Client {
            token_url: "https://auth.example.com/token".into(),
            client_id: "post haste".into(),
            client_secret: Sealed::default(),
            scope: Some("hooks:write a".into()),
            audience: Some("https://api.example.com/".into()),
            client_auth,
            params: Vec::new(),
        }
    }

    #[test]
    fn a_secret_is_shown_in_the_header_or_in_the_form_and_never_in_both() {
        let basic = TokenRequest::new(&client(ClientAuth::Basic), "s:3/c+r~t", &[("resource", "ü")]);
        let encoded = STANDARD.encode("post%20haste:s%3A3%2Fc%2Br~t");
        assert_eq!(basic.authorization.unwrap().as_str(), format!("Basic {encoded}"));
        let form =
            "grant_type=client_credentials&scope=hooks%3Awrite%20a&audience=https%3A%2F%2Fapi.example.com%2F";
        assert_eq!(basic.form.as_str(), format!("{form}&resource=%C3%BC"));
        let post = TokenRequest::new(&client(ClientAuth::Post), "s:3/c+r~t", &[]);
        assert!(post.authorization.is_none());
        assert_eq!(
            post.form.as_str(),
            format!("{form}&client_id=post%20haste&client_secret=s%3A3%2Fc%2Br~t")
        );
    }

    fn lifetime(body: &str) -> Duration {
        read_answer(200, body.as_bytes()).expect("a token").lifetime
    }

    #[test]
    fn a_token_is_good_for_as_long_as_its_endpoint_says() {
        let token =
            read_answer(200, br#"{"access_token":"t-1","token_type":"bearer","expires_in":3600}"#).unwrap();
        assert_eq!((token.value.as_str(), token.lifetime), ("t-1", Duration::from_secs(3600)));
        assert_eq!(lifetime(r#"{"access_token":"t","expires_in":"90"}"#), Duration::from_secs(90));
        assert_eq!(lifetime(r#"{"access_token":"t","expires_in":-1}"#), Duration::ZERO);
        assert_eq!(lifetime(r#"{"access_token":"t","expires_in":1e300}"#), limits::TOKEN_LIFETIME_MAX);
        for unsaid in [r#"{"access_token":"t"}"#, r#"{"access_token":"t","expires_in":null}"#] {
            assert_eq!(lifetime(unsaid), limits::TOKEN_LIFETIME_DEFAULT);
        }
        assert_eq!(margin(Duration::from_secs(3600)), limits::TOKEN_MARGIN);
        assert_eq!(margin(Duration::from_secs(8)), Duration::from_secs(2));
    }

    #[test]
    fn what_is_no_token_is_asked_for_again_and_a_refusal_is_not() {
        let long = format!(r#"{{"access_token":"{}"}}"#, "x".repeat(limits::TOKEN_BYTES + 1));
        let away: [(u16, &[u8]); 12] = [
            (200, b"<html>"),
            (200, b"{}"),
            (200, br#"{"access_token":""}"#),
            (200, br#"{"access_token":"a b"}"#),
            (200, br#"{"access_token":7}"#),
            (200, long.as_bytes()),
            (302, b""),
            (408, b""),
            (429, br#"{"error":"slow_down"}"#),
            (500, b""),
            (503, b""),
            (102, b""),
        ];
        for (status, body) in away {
            let trouble = read_answer(status, body).unwrap_err();
            assert!(matches!(trouble, TokenTrouble::Away(_)), "{status}: {trouble:?}");
        }
        let refused = |status, body: &str| match read_answer(status, body.as_bytes()) {
            Err(TokenTrouble::Refused(said)) => said,
            other => panic!("{other:?}"),
        };
        let said = refused(401, r#"{"error":"invalid_client","error_description":"hunter2"}"#);
        assert_eq!(said, "the token endpoint answered 401, `invalid_client`");
        assert_eq!(refused(400, r#"{"error":"Hunter2!"}"#), "the token endpoint answered 400");
        assert_eq!(refused(404, "<html>"), "the token endpoint answered 404");
        assert!(refused(200, r#"{"access_token":"t","token_type":"DPoP"}"#).contains("`token_type`"));
    }

    #[test]
    fn a_token_prints_as_none() {
        let token = read_answer(200, br#"{"access_token":"hunter2"}"#).unwrap();
        assert!(!format!("{token:?}").contains("hunter2"));
    }
}
