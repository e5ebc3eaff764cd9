//! The cookie: `__Host-sid`, which no other host can set and no plain connection carries; on loopback without TLS, where a
//! browser would not take that one, `sid`.

use super::Transport;
use crate::installation_secrets::InstallationSecrets;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{dice::Dice, session::SecretHash};
use http::{HeaderMap, HeaderValue, header};
use std::fmt;
use zeroize::Zeroizing;

const BYTES: usize = 32;

/// 256 bits that nobody else knows: those of a session, or of a link of either kind.
pub(super) struct SessionSecret(Zeroizing<[u8; BYTES]>);

impl SessionSecret {
    pub(super) fn generate(dice: &dyn Dice) -> Self {
        let mut bytes = Zeroizing::new([0; BYTES]);
        dice.fill(bytes.as_mut());
        Self(bytes)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        // Longer ones are not decoded.
        if text.len() > BYTES * 2 {
            return None;
        }
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(text).ok()?);
        bytes.as_slice().try_into().ok().map(|bytes| Self(Zeroizing::new(bytes)))
    }

    /// Of the cookie; two of the name are none.
    pub(super) fn presented(transport: Transport, headers: &HeaderMap) -> Option<Self> {
        let name = cookie_name(transport)?;
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut ours = pairs.filter(|(known, _)| *known == name).map(|(_, value)| value);
        let (Some(value), None) = (ours.next(), ours.next()) else { return None };
        Self::parse(value)
    }

    pub(super) fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(URL_SAFE_NO_PAD.encode(self.0.as_ref()))
    }

    pub(super) fn hash(&self, secrets: &InstallationSecrets) -> SecretHash {
        secrets.hash(&Zeroizing::new([b"session ", &self.0[..]].concat()))
    }

    pub(super) fn portal_hash(&self, secrets: &InstallationSecrets) -> SecretHash {
        secrets.hash(&Zeroizing::new([b"portal ", &self.0[..]].concat()))
    }

    pub(super) fn link_hash(&self, secrets: &InstallationSecrets) -> SecretHash {
        secrets.hash(&Zeroizing::new([b"link ", &self.0[..]].concat()))
    }
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(***)")
    }
}

fn cookie_name(transport: Transport) -> Option<&'static str> {
    match transport {
        Transport::Tls => Some("__Host-sid"),
        Transport::Loopback => Some("sid"),
        Transport::Plain => None,
    }
}

/// Hands the session to the browser.
pub(super) fn set(transport: Transport, secret: &SessionSecret) -> HeaderValue {
    written(transport, &secret.text(), "")
}

/// Takes it back.
pub(super) fn clear(transport: Transport) -> HeaderValue {
    written(transport, "", "; Max-Age=0")
}

fn written(transport: Transport, value: &str, rest: &str) -> HeaderValue {
    let secure = if transport == Transport::Tls { "; Secure" } else { "" };
    let name = cookie_name(transport).unwrap_or("sid");
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{rest}");
    let mut cookie = HeaderValue::try_from(cookie).expect("base64 is ASCII");
    cookie.set_sensitive(true);
    cookie
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::testing::CountingDice;

    #[test]
    fn a_cookie_reads_back_by_the_name_of_its_transport_alone() {
        let secret = SessionSecret::generate(&CountingDice::default());
        let text = secret.text();
        let cookies =
            |text: String| HeaderMap::from_iter([(header::COOKIE, HeaderValue::try_from(text).unwrap())]);
        let found = |transport, text: String| {
            SessionSecret::presented(transport, &cookies(text)).map(|found| found.text())
        };
        assert_eq!(found(Transport::Loopback, format!("a=b; sid={}", *text)), Some(text.clone()));
        assert_eq!(found(Transport::Tls, format!("__Host-sid={}", *text)), Some(text.clone()));
        assert_eq!(found(Transport::Tls, format!("sid={}", *text)), None, "a neighbour can set that one");
        assert_eq!(found(Transport::Plain, format!("sid={}", *text)), None);
        assert_eq!(found(Transport::Loopback, format!("sid={0}; sid={0}", *text)), None);
        assert_eq!(found(Transport::Loopback, "sid=short".into()), None);
    }

    #[test]
    fn a_cookie_is_as_narrow_as_its_transport_allows() {
        let secret = SessionSecret::generate(&CountingDice::default());
        let set = |transport| set(transport, &secret).to_str().unwrap().replace(secret.text().as_str(), "…");
        assert_eq!(set(Transport::Tls), "__Host-sid=…; Path=/; HttpOnly; SameSite=Lax; Secure");
        assert_eq!(set(Transport::Loopback), "sid=…; Path=/; HttpOnly; SameSite=Lax");
    }
}
