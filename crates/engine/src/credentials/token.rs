//! Tokens of OAuth 2.0: asked for at the destination's token endpoint, kept, and asked for again when they end or when the
//! destination refuses one.
//!
//! An endpoint is asked over the transport of the deliveries, so behind the same address guard and under the same lease.
//! At any time one asks for a destination, and all attempts that need a token wait for its answer, each as long as its own
//! deadline allows; the asking goes on without them. What was no token is remembered for a moment, so that a failing
//! endpoint is not asked by every attempt; so is a token that took the place of a refused one.
//!
//! What is kept outlives a change of its destination and belongs to one version of its credentials: another URL, client,
//! secret, scope or parameter has a source of its own, which begins with nothing.

use super::{Credential, CredentialError, CredentialSource, append};
use crate::{
    sink::Permit,
    transport::{AnswerRoom, HttpAnswer, HttpFailure, HttpRequest, HttpResponse, Transport},
};
use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    id::DestinationId,
    limits,
    oauth2::{self, OAuth2Client, TokenRequest, TokenTrouble},
    outcome::Fault,
    retry::parse_retry_after,
    time::Timestamp,
};
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use http::{HeaderMap, HeaderValue, Uri, header};
use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Sends one request to a token endpoint.
type Post = Arc<dyn Fn(HttpRequest) -> BoxFuture<'static, HttpAnswer> + Send + Sync>;

/// The tokens of a node's destinations.
pub struct TokenKeeper {
    post: Post,
    kept: Mutex<HashMap<DestinationId, KeptSource>>,
}

struct KeptSource {
    client: OAuth2Client,
    source: Arc<TokenSource>,
}

/// What a client is made of when it is opened.
pub(super) struct OpenedClient {
    pub(super) secret: Zeroizing<String>,
    pub(super) params: Vec<(String, Zeroizing<String>)>,
}

impl TokenKeeper {
    pub(crate) fn over<T: Transport + 'static>(transport: &Arc<T>) -> Self {
        let transport = Arc::clone(transport);
        let post = move |request| {
            let transport = Arc::clone(&transport);
            async move { transport.send(request).await }.boxed()
        };
        Self { post: Arc::new(post), kept: Mutex::default() }
    }

    /// The source for these credentials: the one there is, if they are the same to the byte.
    pub(super) fn source(
        &self,
        id: DestinationId,
        client: &OAuth2Client,
        open: impl FnOnce() -> Result<OpenedClient, String>,
    ) -> Result<Arc<TokenSource>, String> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(&id).filter(|known| known.client == *client) {
            return Ok(Arc::clone(&known.source));
        }
        if kept.len() >= limits::TOKENS_KEPT {
            // Those that no destination at work has go first.
            kept.retain(|_, known| Arc::strong_count(&known.source) > 1);
            if kept.len() >= limits::TOKENS_KEPT {
                kept.clear();
            }
        }
        let source = Arc::new(TokenSource::new(client, &open()?, Arc::clone(&self.post))?);
        kept.insert(id, KeptSource { client: client.clone(), source: Arc::clone(&source) });
        Ok(source)
    }
}

/// The token of one destination.
pub(super) struct TokenSource(Arc<TokenState>);

struct TokenState {
    post: Post,
    uri: Uri,
    headers: HeaderMap,
    form: Bytes,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    token: Option<KeptToken>,
    asking: Option<Asking>,
    /// What came instead of a token, and until when that is an answer.
    trouble: Option<(CredentialError, Instant)>,
    /// The next one takes the place of one that was refused.
    was_refused: bool,
}

type Asking = Shared<BoxFuture<'static, Result<Arc<Credential>, CredentialError>>>;

struct KeptToken {
    credential: Arc<Credential>,
    got_at: Instant,
    good_until: Instant,
    renewed: bool,
}

impl TokenSource {
    fn new(client: &OAuth2Client, opened: &OpenedClient, post: Post) -> Result<Self, String> {
        // Read as the API has read it, as the destination's own URL is.
        let url = url::Url::parse(&client.token_url).map_err(|_| "its token URL cannot be used")?;
        let uri = url.as_str().parse::<Uri>().map_err(|_| "its token URL cannot be used")?;
        let params: Vec<(&str, &str)> =
            opened.params.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let request = TokenRequest::new(client, &opened.secret, &params);
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(crate::sink::USER_AGENT));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        if let Some(authorization) = &request.authorization {
            append(&mut headers, header::AUTHORIZATION.as_str(), authorization)?;
        }
        let form = Bytes::copy_from_slice(request.form.as_bytes());
        Ok(Self(Arc::new(TokenState { post, uri, headers, form, known: Mutex::default() })))
    }
}

#[async_trait]
impl CredentialSource for TokenSource {
    fn at_hand(&self, _: Timestamp) -> Option<Arc<Credential>> {
        self.0.known().at_hand()
    }

    async fn obtain(&self, now: Timestamp) -> Result<Arc<Credential>, CredentialError> {
        let asking = {
            let mut known = self.0.known();
            if let Some(credential) = known.at_hand() {
                return Ok(credential);
            }
            if let Some((error, until)) = &known.trouble
                && Instant::now() < *until
            {
                return Err(error.clone());
            }
            known.asking.get_or_insert_with(|| Arc::clone(&self.0).begin(now)).clone()
        };
        asking.await
    }

    fn refused(&self, credential: &Credential) -> bool {
        let mut known = self.0.known();
        // Another than this may be at hand already.
        if known.token.as_ref().is_some_and(|token| std::ptr::eq(Arc::as_ptr(&token.credential), credential))
        {
            let is_young = |it: &KeptToken| it.renewed && it.got_at.elapsed() < limits::TOKEN_RENEWAL_PAUSE;
            if !known.token.as_ref().is_some_and(is_young) {
                known.token = None;
                known.was_refused = true;
            }
        }
        true
    }
}

impl Known {
    fn at_hand(&self) -> Option<Arc<Credential>> {
        let token = self.token.as_ref().filter(|token| Instant::now() < token.good_until)?;
        Some(Arc::clone(&token.credential))
    }
}

impl TokenState {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks in a task of its own: whoever waits may give up.
    fn begin(self: Arc<Self>, now: Timestamp) -> Asking {
        let task = tokio::spawn(async move {
            let asked = AssertUnwindSafe(self.ask(now)).catch_unwind().await;
            let asked = asked.unwrap_or_else(|_| {
                tracing::error!("asking for a token panicked");
                Err((CredentialError::Unavailable("an internal fault".into()), limits::TOKEN_AWAY_PAUSE))
            });
            self.heard(asked)
        });
        let ended = || CredentialError::Unavailable("the node is ending".into());
        async move { task.await.unwrap_or_else(|_| Err(ended())) }.boxed().shared()
    }

    fn heard(
        &self,
        asked: Result<KeptToken, (CredentialError, Duration)>,
    ) -> Result<Arc<Credential>, CredentialError> {
        let mut known = self.known();
        known.asking = None;
        match asked {
            Ok(token) => {
                let credential = Arc::clone(&token.credential);
                let renewed = std::mem::take(&mut known.was_refused);
                known.token = Some(KeptToken { renewed, ..token });
                known.trouble = None;
                Ok(credential)
            }
            Err((error, pause)) => {
                known.trouble = Some((error.clone(), Instant::now() + pause));
                Err(error)
            }
        }
    }

    /// Or why there is none, and how long nobody is to ask again.
    async fn ask(&self, now: Timestamp) -> Result<KeptToken, (CredentialError, Duration)> {
        let asked_at = Instant::now();
        let timeout = limits::TOKEN_TIMEOUT;
        let request = HttpRequest {
            uri: self.uri.clone(),
            headers: self.headers.clone(),
            body: self.form.clone(),
            deadline: asked_at + timeout,
            timeout,
            permit: Permit::of_none(),
            identity: None,
            room: AnswerRoom::TOKEN,
        };
        let received = (self.post)(request).await.result.map_err(|failure| unasked(&failure))?;
        let token = read(&received).map_err(|trouble| match trouble {
            TokenTrouble::Away(said) => (CredentialError::Unavailable(said), pause(&received, now)),
            TokenTrouble::Refused(said) => (CredentialError::Refused(said), limits::TOKEN_REFUSED_PAUSE),
        })?;
        let mut credential = Credential::default();
        let value = Zeroizing::new(format!("Bearer {}", token.value.as_str()));
        let unusable = |said| (CredentialError::Unavailable(said), limits::TOKEN_AWAY_PAUSE);
        credential.add(header::AUTHORIZATION.as_str(), &value).map_err(unusable)?;
        let good_for = token.lifetime - oauth2::margin(token.lifetime);
        Ok(KeptToken {
            credential: Arc::new(credential),
            got_at: Instant::now(),
            // Counted from before it was asked for.
            good_until: asked_at + good_for,
            renewed: false,
        })
    }
}

fn read(received: &HttpResponse) -> Result<oauth2::Token, TokenTrouble> {
    if received.truncated && (200..300).contains(&received.status) {
        let said = format!(
            "the token endpoint's answer is cut off, or longer than {} bytes",
            limits::TOKEN_ANSWER_BYTES
        );
        return Err(TokenTrouble::Away(said));
    }
    oauth2::read_answer(received.status, &received.body)
}

/// As long as the endpoint asks for, within reason.
fn pause(received: &HttpResponse, now: Timestamp) -> Duration {
    let asked = received.headers.get_all(header::RETRY_AFTER);
    let asked: Vec<&str> = asked.iter().map(|value| value.to_str().unwrap_or("")).collect();
    let asked = parse_retry_after(&asked, now.seconds()).unwrap_or(limits::TOKEN_AWAY_PAUSE);
    asked.clamp(limits::TOKEN_AWAY_PAUSE, limits::TOKEN_AWAY_PAUSE_MAX)
}

/// There was no answer. What is said of it names no address.
fn unasked(failure: &HttpFailure) -> (CredentialError, Duration) {
    let said = match failure.fault {
        Fault::BlockedTarget => return (CredentialError::Blocked, limits::TOKEN_REFUSED_PAUSE),
        Fault::Dns => "its name could not be resolved",
        Fault::ConnectTimeout => "it took no connection in time",
        Fault::ReadTimeout => "it gave no answer in time",
        Fault::Refused => "it could not be reached",
        Fault::Reset => "it closed the connection before its answer was complete",
        Fault::Protocol => "its answer is not well-formed HTTP",
        // `TLS: its certificate has expired`
        Fault::Tls => failure.message.as_str(),
        _ => "it could not be asked",
    };
    (CredentialError::Unavailable(format!("the token endpoint: {said}")), limits::TOKEN_AWAY_PAUSE)
}
