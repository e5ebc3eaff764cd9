//! CloudEvents 1.0 over HTTP: read as they come in, in each of the three modes, and said again as they go out.
//!
//! What a CloudEvent is about is the payload, byte for byte; its attributes are kept with the event as the headers that binary
//! mode has for them, whatever mode it came in. So an event needs nothing that others have not, its filters find `ce-subject`
//! among the headers, and what goes out needs no more than the event. An event that was no CloudEvent is made one of what is
//! known of it. HTTP headers know texts only: a number or a truth value comes out as the text that stands for it.

mod encoding;
mod json;
#[cfg(test)]
mod tests;

pub use json::{Structured, WrongDocument, batch};

use crate::{
    event::{Event, EventType, Headers},
    limits,
    time::{NotATime, Timestamp},
};
use aws_lc_rs::digest;
use std::{borrow::Cow, fmt::Write as _};

/// What the names of attributes begin with as headers.
pub const PREFIX: &str = "ce-";
pub const STRUCTURED: &str = "application/cloudevents+json";
pub const BATCHED: &str = "application/cloudevents-batch+json";
/// What a document takes beside its data: the attributes, as they may be kept with an event, written anew.
pub const DOCUMENT_ROOM_BYTES: usize = 2 * limits::EVENT_HEADERS_BYTES;
const VERSION: &str = "1.0";
/// What each has; of those that are headers one is enough to be taken for a CloudEvent.
const REQUIRED: [&str; 4] = ["specversion", "id", "source", "type"];

/// The attributes of a CloudEvent, as texts. The content type of its data is the event's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvent {
    pub id: String,
    pub source: String,
    /// In its producer's words.
    pub kind: String,
    /// `time`, `subject`, `dataschema` and extensions, in the order they came in.
    pub others: Vec<(String, String)>,
}

/// How a request carries CloudEvents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Binary,
    Structured,
    Batched,
}

/// Its content type is of CloudEvents, and of a format that is not known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownFormat;

/// What is wrong with an attribute, by its name; that of the data is `data` or `data_base64`, and no name stands for all of
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongAttribute {
    pub name: String,
    /// A stable word.
    pub code: &'static str,
    pub detail: Cow<'static, str>,
}

impl WrongAttribute {
    fn new(name: &str, code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        // As much of it as one can have: it is repeated in an answer.
        let name = name.chars().take(limits::CLOUD_EVENT_NAME_BYTES).collect();
        Self { name, code, detail: detail.into() }
    }
}

impl Mode {
    /// By the content type first, as the standard has it. None: it is no CloudEvent.
    pub fn of(content_type: &str, has_header: impl Fn(&str) -> bool) -> Result<Option<Self>, UnknownFormat> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match essence {
            _ if essence.eq_ignore_ascii_case(STRUCTURED) => Ok(Some(Self::Structured)),
            _ if essence.eq_ignore_ascii_case(BATCHED) => Ok(Some(Self::Batched)),
            _ if starts_with_ignoring_case(essence, "application/cloudevents") => Err(UnknownFormat),
            _ => Ok(["ce-specversion", "ce-id", "ce-source", "ce-type"]
                .into_iter()
                .any(has_header)
                .then_some(Self::Binary)),
        }
    }
}

fn starts_with_ignoring_case(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

impl CloudEvent {
    /// Of a request in binary mode. Headers that are no attributes are passed over.
    pub fn of_headers<'h>(
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    ) -> Result<Self, WrongAttribute> {
        let mut attributes = Vec::new();
        for (name, value) in headers {
            let Some(name) = name.strip_prefix(PREFIX) else { continue };
            let value = encoding::decoded(value).ok_or_else(|| {
                WrongAttribute::new(name, "invalid_value", "is not UTF-8 in percent-encoding")
            })?;
            // The content type says it in this mode, and alone.
            if name != "datacontenttype" {
                attributes.push((name.to_owned(), value));
            }
        }
        Self::checked(attributes)
    }

    /// With everything that the standard demands of attributes.
    fn checked(attributes: Vec<(String, String)>) -> Result<Self, WrongAttribute> {
        if attributes.len() > limits::CLOUD_EVENT_ATTRIBUTES {
            let detail = format!("are more than {}", limits::CLOUD_EVENT_ATTRIBUTES);
            return Err(WrongAttribute::new("", "too_many", detail));
        }
        let mut required: [Option<String>; REQUIRED.len()] = Default::default();
        let mut others: Vec<(String, String)> = Vec::new();
        for (name, value) in attributes {
            check_name(&name)?;
            check_value(&name, &value)?;
            let place = REQUIRED.iter().position(|known| *known == name);
            let taken = match place {
                Some(place) => required[place].is_some(),
                None => others.iter().any(|(known, _)| *known == name),
            };
            if taken {
                return Err(WrongAttribute::new(&name, "duplicate", "can be given once only"));
            }
            match place {
                Some(place) => required[place] = Some(value),
                None => others.push((name, value)),
            }
        }
        let mut needed = REQUIRED.into_iter().zip(required).map(|(name, value)| {
            value.ok_or_else(|| {
                WrongAttribute::new(name, "missing_field", "is missing: every CloudEvent has one")
            })
        });
        let mut next = || needed.next().expect("one for each that is required");
        let version = next()?;
        if version != VERSION {
            return Err(WrongAttribute::new(
                "specversion",
                "invalid_value",
                "is not `1.0`, which is what is known here",
            ));
        }
        let event = Self { id: next()?, source: next()?, kind: next()?, others };
        let size: usize = event.headers().iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > limits::EVENT_HEADERS_BYTES {
            let detail = format!("have more than {} bytes together", limits::EVENT_HEADERS_BYTES);
            return Err(WrongAttribute::new("", "too_long", detail));
        }
        Ok(event)
    }

    /// What the event is called here: its type, made to fit.
    pub fn event_type(&self) -> EventType {
        EventType::of_provider(&self.kind)
    }

    /// By what a repeat is known: source and id together name an event. Both are encoded, so that the space between them
    /// is the only one; what is too long to be shown is known by its digest.
    pub fn idempotency_key(&self) -> String {
        let key = format!("{} {}", encoding::encoded(&self.source), encoding::encoded(&self.id));
        if key.len() <= limits::IDEMPOTENCY_KEY_BYTES {
            return key;
        }
        let digest = digest::digest(&digest::SHA256, key.as_bytes());
        let mut text = String::from("sha256:");
        for byte in digest.as_ref() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Its attributes as headers, as they are kept with the event and sent in binary mode.
    pub fn headers(&self) -> Headers {
        let named =
            |name: &str, value: &str| (format!("{PREFIX}{name}"), encoding::encoded(value).into_owned());
        let first =
            [("specversion", VERSION), ("id", &self.id), ("source", &self.source), ("type", &self.kind)];
        let first = first.into_iter().map(|(name, value)| named(name, value));
        first.chain(self.others.iter().map(|(name, value)| named(name, value))).collect()
    }

    /// As which an event goes out: as it came in, if it came as one.
    pub fn of_event(event: &Event) -> Self {
        let kept = event.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let came_as_one = event.headers.iter().any(|(name, _)| name == "ce-specversion");
        // Headers that an earlier version has kept were not looked at.
        came_as_one.then(|| Self::of_headers(kept).ok()).flatten().unwrap_or_else(|| Self {
            id: event.id.to_string(),
            source: match event.source_id {
                Some(source) => format!("/sources/{source}"),
                None => format!("/accounts/{}", event.account_id),
            },
            kind: event.event_type.to_string(),
            others: vec![("time".into(), event.received_at.to_string())],
        })
    }
}

fn check_name(name: &str) -> Result<(), WrongAttribute> {
    let fits = (1..=limits::CLOUD_EVENT_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !fits {
        return Err(WrongAttribute::new(
            name,
            "invalid_name",
            "is no name of an attribute: those are of a-z and 0-9",
        ));
    }
    if name == "data" {
        return Err(WrongAttribute::new(
            name,
            "invalid_name",
            "is the name of what the event is about, not of an attribute",
        ));
    }
    Ok(())
}

fn check_value(name: &str, value: &str) -> Result<(), WrongAttribute> {
    let refuse = |detail| Err(WrongAttribute::new(name, "invalid_value", detail));
    match name {
        "id" | "source" | "type" | "subject" | "dataschema" if value.is_empty() => {
            refuse("must not be empty")
        }
        // One that cannot be a time of ours is still one.
        "time" if value.parse::<Timestamp>() == Err(NotATime::Malformed) => {
            refuse("is no time as RFC 3339 writes it, such as 2026-04-03T14:30:00Z")
        }
        _ if value.chars().any(char::is_control) => refuse("has control characters"),
        _ => Ok(()),
    }
}
