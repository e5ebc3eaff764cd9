//! Destinations: where deliveries go, and at what pace. How they are signed is in [`signing`].

mod signing;

pub use signing::{KeptKeyPair, Previous, PreviousKeyPair, Scheme, Secrets, Signing, header_of_new};

use crate::{
    client_certificate::ClientCertificate,
    delivery::Position,
    delivery_settings::{DeliverySettings, kept},
    gate::{Hold, HoldReason},
    id::{AccountId, DeliveryId, DestinationId},
    oauth2::OAuth2Client,
    seal::Sealed,
    time::Timestamp,
    word::words,
};
use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};

/// A destination as it is kept. The API checks what it writes; what is read back is checked again when a request is
/// built, because a row that no longer fits must end in a dead letter and not in a panic. A new member has a `#[serde(default)]`,
/// or every destination that is kept already does not read any more (`kept_documents.rs`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Destination {
    pub id: DestinationId,
    pub account_id: AccountId,
    pub uid: Option<String>,
    pub name: String,
    pub url: String,
    /// What it says itself of slots, timeout and retries; what holds is [`crate::delivery_settings::EffectiveSettings`].
    #[serde(flatten, with = "kept::of_destination")]
    pub settings: DeliverySettings,
    pub rate_limit: Option<RateLimit>,
    pub ordering: Ordering,
    /// Deliveries are numbered although they are in no order. What is ordered is numbered in any case.
    #[serde(default)]
    pub sequence: bool,
    pub on_dead_letter: OnDeadLetter,
    pub headers: Vec<(String, String)>,
    pub forward_headers: Vec<String>,
    pub auth: Auth,
    /// What of an event is sent, and how it is written.
    #[serde(default)]
    pub format: Format,
    pub signing: Signing,
    pub secret: Secrets,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Columns of their own in the store, each with one writer.
    #[serde(skip)]
    pub switch: Switch,
    /// The account's version at which this row last changed; kept by the store.
    #[serde(skip)]
    pub version: i64,
}

/// What a person, or a 410, has switched.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Switch {
    pub paused_at: Option<Timestamp>,
    /// Nothing expires while paused: the age of a delivery counts from here again.
    pub resumed_at: Option<Timestamp>,
    pub disabled: Option<Disabled>,
    /// When a person last asked to end a hold and try. Written by that command only.
    pub probed_at: Option<Timestamp>,
    /// Deleted, and kept until its lane is empty.
    pub deleted_at: Option<Timestamp>,
}

impl Destination {
    pub fn numbering(&self) -> Numbering {
        match self.ordering {
            Ordering::None if self.sequence => Numbering::Unordered,
            ordering => ordering.into(),
        }
    }

    /// What its switches hold it for: disabled before paused.
    pub fn holds(&self) -> Vec<Hold> {
        let hold = |reason, since, detail: &str| Hold {
            reason,
            since,
            until: None,
            detail: detail.into(),
            step: None,
            probing: false,
        };
        let disabled = self.switch.disabled.as_ref().map(|disabled| {
            let detail = match disabled.reason {
                DisabledReason::Requested => "disabled by request",
                DisabledReason::Gone => "the destination answered 410 Gone",
            };
            hold(HoldReason::Disabled, disabled.at, detail)
        });
        let paused = self.switch.paused_at;
        let paused = paused.map(|since| hold(HoldReason::Paused, since, self.why_paused(since)));
        disabled.into_iter().chain(paused).collect()
    }

    /// As far as it is known: a request notes its own time as the last change, a dead letter's pause does not.
    fn why_paused(&self, since: Timestamp) -> &'static str {
        match self.on_dead_letter {
            OnDeadLetter::Continue => "paused by request",
            OnDeadLetter::Pause if since > self.updated_at => {
                "paused by a dead letter (`on_dead_letter`): its list of dead letters says which"
            }
            OnDeadLetter::Pause => {
                "paused by request or by a dead letter (`on_dead_letter`): its list of dead letters says which"
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Disabled {
    pub at: Timestamp,
    pub reason: DisabledReason,
}

words! {
    "why a destination was disabled",
    DisabledReason {
        /// By API.
        Requested = "requested",
        /// The destination answered 410, or `webhook-delivery: disable`.
        Gone = "gone",
    }
}

impl DisabledReason {
    pub fn parse(text: &str) -> Self {
        text.parse().unwrap_or(Self::Requested)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    pub requests: u32,
    pub per_seconds: u32,
}

words! {
    "an ordering",
    #[derive(Default)]
    Ordering {
        #[default]
        None = "none",
        Strict = "strict",
        Key = "key",
    }
}

impl Ordering {
    /// A word that is not known orders nothing.
    pub fn read(word: &str) -> Self {
        word.parse().unwrap_or_default()
    }

    /// The track of a delivery: for ever the same, whatever happens to be known of other keys. Two keys may share one; an
    /// event without a key has one of its own, and waits for none.
    pub fn track(self, key: Option<&str>, delivery: DeliveryId) -> i64 {
        let mixed = match (self, key) {
            (Self::None, _) => return Position::UNORDERED,
            (Self::Strict, _) => return Position::STRICT,
            (Self::Key, Some(key)) => {
                let digest = digest::digest(&digest::SHA256, key.as_bytes());
                digest.as_ref().iter().take(8).fold(0, |bits, byte| (bits << 8) | u64::from(*byte))
            }
            (Self::Key, None) => delivery.uuid().as_u64_pair().1,
        };
        // Positive, and none of those that mean something.
        (mixed >> 1).max(Position::STRICT as u64 + 1) as i64
    }
}

words! {
    "how deliveries are numbered",
    #[derive(Default)]
    Numbering {
        #[default]
        None = "none",
        /// By commit, so that a receiver sees what is missing or out of order. Nothing waits for it.
        Unordered = "unordered",
        Strict = "strict",
        Key = "key",
    }
}

impl Numbering {
    /// A word that is not known numbers nothing.
    pub fn read(word: &str) -> Self {
        word.parse().unwrap_or_default()
    }

    pub fn ordering(self) -> Ordering {
        match self {
            Self::None | Self::Unordered => Ordering::None,
            Self::Strict => Ordering::Strict,
            Self::Key => Ordering::Key,
        }
    }
}

impl From<Ordering> for Numbering {
    fn from(ordering: Ordering) -> Self {
        match ordering {
            Ordering::None => Self::None,
            Ordering::Strict => Self::Strict,
            Ordering::Key => Self::Key,
        }
    }
}

words! {
    "what follows a dead letter",
    #[derive(Default)]
    OnDeadLetter {
        #[default]
        Continue = "continue",
        Pause = "pause",
    }
}

words! {
    "a format of deliveries",
    #[derive(Default)]
    Format {
        /// The payload, with its own content type.
        #[default]
        Standard = "standard",
        /// The same, as a CloudEvent whose attributes are headers.
        CloudeventsBinary = "cloudevents-binary",
        /// A CloudEvent in one JSON document, which has the payload in it.
        CloudeventsStructured = "cloudevents-structured",
    }
}

/// How we prove to a destination who we are. Secret values are sealed (see [`crate::seal`]).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Auth {
    #[default]
    None,
    Bearer {
        token: Sealed,
    },
    Basic {
        username: String,
        password: Sealed,
    },
    Headers {
        /// Name in the clear, value sealed.
        headers: Vec<(String, Sealed)>,
    },
    /// A token that is asked for.
    #[serde(rename = "oauth2")]
    OAuth2(OAuth2Client),
    /// Shown when TLS is agreed on.
    Mtls(ClientCertificate),
    AwsSigv4(AwsCredentials),
}

impl Auth {
    fn sealed_mut(&mut self) -> Vec<&mut Sealed> {
        match self {
            Self::None => Vec::new(),
            Self::Bearer { token } => vec![token],
            Self::Basic { username: _, password } => vec![password],
            Self::Headers { headers } => headers.iter_mut().map(|(_, value)| value).collect(),
            Self::OAuth2(client) => client.sealed_mut(),
            Self::Mtls(certificate) => vec![&mut certificate.private_key],
            Self::AwsSigv4(AwsCredentials {
                secret_access_key,
                session_token,
                access_key_id: _,
                region: _,
                service: _,
            }) => [secret_access_key].into_iter().chain(session_token).collect(),
        }
    }
}

/// What requests to a service of AWS are signed with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AwsCredentials {
    pub access_key_id: String,
    pub secret_access_key: Sealed,
    /// Of credentials that are good for a while.
    pub session_token: Option<Sealed>,
    pub region: String,
    pub service: String,
}

impl Destination {
    /// Where its signing secrets are sealed, the current and the previous one: as text, `whsec_…`.
    pub fn secret_place(id: DestinationId) -> String {
        format!("destinations|secret|{id}")
    }

    /// Where the private parts of its key pairs are sealed, the current and the previous one: as text, `whsk_…`.
    pub fn key_pair_place(id: DestinationId) -> String {
        format!("destinations|key_pair|{id}")
    }

    /// Where all values of [`Auth`] are sealed.
    pub fn auth_place(id: DestinationId) -> String {
        format!("destinations|auth|{id}")
    }

    /// Everything of it that is sealed, with its place.
    pub fn sealed_mut(&mut self) -> Vec<(String, &mut Sealed)> {
        let [secret, pair, auth] =
            [Self::secret_place(self.id), Self::key_pair_place(self.id), Self::auth_place(self.id)];
        let (secrets, pairs) = self.secret.sealed_mut();
        let all = [(secret, secrets), (pair, pairs), (auth, self.auth.sealed_mut())];
        all.into_iter().flat_map(|(place, all)| all.into_iter().map(move |it| (place.clone(), it))).collect()
    }

    /// A destination with every default of the product.
    pub fn new(id: DestinationId, account_id: AccountId, name: &str, url: &str, now: Timestamp) -> Self {
        Self {
            id,
            account_id,
            uid: None,
            name: name.into(),
            url: url.into(),
            settings: DeliverySettings::default(),
            rate_limit: None,
            ordering: Ordering::None,
            sequence: false,
            on_dead_letter: OnDeadLetter::Continue,
            headers: Vec::new(),
            forward_headers: Vec::new(),
            auth: Auth::None,
            format: Format::default(),
            signing: Signing::default(),
            secret: Secrets::default(),
            created_at: now,
            updated_at: now,
            switch: Switch::default(),
            version: 0,
        }
    }
}
