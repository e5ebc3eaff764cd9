//! Credentials for destinations: asked for at each attempt.
//!
//! What is known when a destination is made ready is simply there. What expires has a [`CredentialSource`] that keeps
//! it, gets another one when it is needed and is told when the destination refused it. Waiting for one happens in the
//! attempt's slot, within its deadline and under the node's lease (`sink::attempt`): nothing is sent if that ends meanwhile.

mod aws;
mod certificate;
mod token;

pub use aws::AwsSignature;
pub use certificate::ShownCertificate;
pub use token::TokenKeeper;

use crate::{egress::ClientIdentity, sink::AttemptFacts};
use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{
    aws_signature::AwsSigner,
    destination::{Auth, Destination},
    outcome::Fault,
    seal::{DataKey, Sealed},
    time::Timestamp,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::{sync::Arc, time::Duration};
use token::OpenedClient;
use zeroize::Zeroizing;

/// Where an attempt has its credential from.
pub enum Credentials {
    None,
    /// Opened when the destination was made ready.
    Fixed(Credential),
    Asked(Arc<dyn CredentialSource>),
    /// Made of each request.
    Signed(Box<AwsSignature>),
    /// Shown when TLS is agreed on.
    Certificate(ShownCertificate),
}

/// A credential, as headers.
#[derive(Debug, Default)]
pub struct Credential {
    pub(crate) headers: HeaderMap,
    /// The same as people may see them: without their values.
    pub(crate) shown: Vec<(String, String)>,
}

/// Keeps a credential that expires.
#[async_trait]
pub trait CredentialSource: Send + Sync {
    /// The one it has, if that is still good: most attempts need no more.
    fn at_hand(&self, now: Timestamp) -> Option<Arc<Credential>>;

    /// Gets one. Called by every attempt that finds none at hand, and dropped when its deadline has come or its lease has
    /// ended: what is to outlive that must be a task of the source's own.
    async fn obtain(&self, now: Timestamp) -> Result<Arc<Credential>, CredentialError>;

    /// The destination refused this one. True if it is given out no more and another may be had: then the delivery is tried
    /// again at once, unless its last attempt met the same.
    fn refused(&self, credential: &Credential) -> bool;
}

/// Why there is no credential. The messages are for the account: no address, no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// Not now: the delivery is retried. The destination was not reached, so this says nothing about it.
    #[error("no credential could be had: {0}")]
    Unavailable(String),
    /// Never: the delivery cannot be made.
    #[error("no credential can be had: {0}")]
    Refused(String),
    /// It is to be had where nobody may be called.
    #[error("no credential can be had: the address of the token endpoint is not allowed")]
    Blocked,
}

impl CredentialError {
    pub(crate) fn within(timeout: Duration) -> Self {
        Self::Unavailable(format!("none came within {} s", timeout.as_secs_f64()))
    }

    pub(crate) fn facts(&self) -> AttemptFacts {
        let fault = match self {
            Self::Unavailable(_) => Fault::NoCredential,
            Self::Refused(_) => Fault::Unbuildable,
            Self::Blocked => Fault::BlockedTarget,
        };
        AttemptFacts::of_fault(fault, self.to_string())
    }
}

impl Credentials {
    /// What the destination's settings say; tokens are kept where those of the node are.
    pub fn of(destination: &Destination, key: &DataKey, tokens: &TokenKeeper) -> Result<Self, String> {
        let place = Destination::auth_place(destination.id);
        let open = |sealed: &Sealed| -> Result<Zeroizing<String>, String> {
            let plain = key.open(&place, sealed).map_err(|error| format!("its credentials: {error}"))?;
            let text = std::str::from_utf8(&plain).map_err(|_| "its credentials are not text")?;
            Ok(Zeroizing::new(text.to_owned()))
        };
        let mut credential = Credential::default();
        match &destination.auth {
            Auth::None => return Ok(Self::None),
            Auth::Bearer { token } => {
                let token = open(token)?;
                credential.add("authorization", &Zeroizing::new(format!("Bearer {}", token.as_str())))?;
            }
            Auth::Basic { username, password } => {
                let pair = Zeroizing::new(format!("{username}:{}", open(password)?.as_str()));
                let pair = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
                credential.add("authorization", &Zeroizing::new(format!("Basic {}", pair.as_str())))?;
            }
            Auth::Headers { headers } => {
                for (name, value) in headers {
                    credential.add(name, &open(value)?)?;
                }
            }
            Auth::OAuth2(client) => {
                let opened = || -> Result<OpenedClient, String> {
                    let opened = |(name, value): &(String, Sealed)| Ok((name.clone(), open(value)?));
                    let params = client.params.iter().map(opened).collect::<Result<_, String>>()?;
                    Ok(OpenedClient { secret: open(&client.client_secret)?, params })
                };
                return Ok(Self::Asked(tokens.source(destination.id, client, opened)?));
            }
            Auth::Mtls(kept) => {
                let key = open(&kept.private_key)?;
                return ShownCertificate::new(destination.id, kept, &key).map(Self::Certificate);
            }
            Auth::AwsSigv4(kept) => {
                let signer = AwsSigner {
                    access_key_id: kept.access_key_id.clone(),
                    secret_access_key: open(&kept.secret_access_key)?,
                    region: kept.region.clone(),
                    service: kept.service.clone(),
                };
                let session_token = kept.session_token.as_ref().map(open).transpose()?;
                return Ok(Self::Signed(Box::new(AwsSignature { signer, session_token })));
            }
        }
        Ok(Self::Fixed(credential))
    }

    /// The certificate that is shown at the handshake.
    pub(crate) fn identity(&self, now: Timestamp) -> Option<&Arc<ClientIdentity>> {
        match self {
            Self::Certificate(shown) => Some(shown.identity(now)),
            _ => None,
        }
    }
}

impl Credential {
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), String> {
        append(&mut self.headers, name, value)?;
        self.shown.push((name.into(), "***".into()));
        Ok(())
    }
}

/// A header whose value no log may show.
pub(crate) fn append(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let name =
        name.parse::<HeaderName>().map_err(|_| format!("the header name `{name:.64}` is not valid"))?;
    let mut value =
        HeaderValue::from_str(value).map_err(|_| format!("the value of header `{name}` is not valid"))?;
    value.set_sensitive(true);
    headers.append(name, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{HttpAnswer, HttpRequest, Transport};
    use domain::{
        id::{AccountId, DestinationId},
        seal::MasterKeys,
        testing::CountingDice,
    };

    /// The headers of a destination whose secret value is `s3cret`, and how they are shown.
    fn shown(auth: impl FnOnce(Sealed) -> Auth) -> Vec<(String, String)> {
        let (id, account, dice) = (DestinationId::MIN, AccountId::MIN, CountingDice::default());
        let keys = MasterKeys::parse(&STANDARD.encode([1; 32])).unwrap();
        let key = keys.data_key(account, &keys.new_data_key(account, &dice)).unwrap();
        let mut destination = Destination::new(id, account, "", "", Timestamp::MIN);
        destination.auth = auth(key.seal(&Destination::auth_place(id), b"s3cret", &dice));
        let tokens = TokenKeeper::over(&Arc::new(NoInternet));
        match Credentials::of(&destination, &key, &tokens).unwrap() {
            Credentials::Fixed(credential) => {
                assert!(credential.headers.values().all(HeaderValue::is_sensitive));
                assert!(credential.shown.iter().all(|(_, value)| value == "***"));
                let pair = |(name, value): (&HeaderName, &HeaderValue)| {
                    (name.to_string(), value.to_str().unwrap().to_owned())
                };
                credential.headers.iter().map(pair).collect()
            }
            Credentials::None => Vec::new(),
            _ => panic!("nothing is there without asking"),
        }
    }

    struct NoInternet;

    impl Transport for NoInternet {
        async fn send(&self, _: HttpRequest) -> HttpAnswer {
            panic!("nobody is asked")
        }
    }

    #[test]
    fn what_the_settings_say_is_there_without_asking() {
        let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        assert_eq!(shown(|_| Auth::None), []);
        assert_eq!(shown(|token| Auth::Bearer { token }), pair("authorization", "Bearer s3cret"));
        let basic = |password| Auth::Basic { username: "ann".into(), password };
        assert_eq!(shown(basic), pair("authorization", "Basic YW5uOnMzY3JldA=="));
        let headers = |value| Auth::Headers { headers: vec![("X-Key".into(), value)] };
        assert_eq!(shown(headers), pair("x-key", "s3cret"));
    }
}
