//! What a receiver repeats of our credentials is not kept: an answer is shown to people who may not see them.

use crate::credentials::Credential;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use std::borrow::Cow;

/// Stands for what is not shown.
pub(super) const HIDDEN: &str = "***";
/// A shorter value stands in too many texts by chance.
const SECRET_CHARACTERS: usize = 6;

/// The values that are not to be shown, the longest first.
#[derive(Debug, Default)]
pub(super) struct Redaction(Vec<String>);

impl Redaction {
    /// Of what is sent to prove who sends: each value, without the word of its scheme, and the password of basic.
    pub(super) fn of(credential: Option<&Credential>) -> Self {
        let mut secrets = Vec::new();
        for value in credential.into_iter().flat_map(|credential| credential.headers.values()) {
            let Ok(value) = std::str::from_utf8(value.as_bytes()) else { continue };
            secrets.push(value.to_owned());
            let Some((scheme, rest)) = value.split_once(' ') else { continue };
            secrets.push(rest.to_owned());
            if scheme.eq_ignore_ascii_case("basic") {
                let pair = STANDARD.decode(rest).ok().and_then(|pair| String::from_utf8(pair).ok());
                secrets.extend(
                    pair.and_then(|pair| pair.split_once(':').map(|(_, password)| password.to_owned())),
                );
            }
        }
        secrets.retain(|secret| secret.chars().count() >= SECRET_CHARACTERS);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    pub(super) fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.iter().fold(Cow::Borrowed(text), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), HIDDEN).into() } else { text }
        })
    }

    /// Whether bytes that are no text repeat one of the values.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|secret| bytes.windows(secret.len()).any(|window| window == secret.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redaction(value: &'static str) -> Redaction {
        let mut credential = Credential::default();
        credential.add("authorization", value).unwrap();
        Redaction::of(Some(&credential))
    }

    #[test]
    fn a_credential_is_hidden_with_and_without_the_word_of_its_scheme() {
        let bearer = redaction("Bearer open-sesame");
        assert_eq!(bearer.apply("you said Bearer open-sesame"), "you said ***");
        assert_eq!(bearer.apply("token=open-sesame;"), "token=***;");
        let basic = redaction("Basic bWU6b3Blbi1zZXNhbWU="); // me:open-sesame
        assert_eq!(basic.apply("wrong password open-sesame for me"), "wrong password *** for me");
        assert_eq!(basic.apply("bWU6b3Blbi1zZXNhbWU="), "***");
    }

    #[test]
    fn what_is_short_or_absent_changes_nothing() {
        assert_eq!(redaction("Bearer abc").apply("abc"), "abc");
        assert_eq!(Redaction::default().apply("anything"), "anything");
    }
}
