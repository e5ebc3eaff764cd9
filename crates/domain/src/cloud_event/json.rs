//! A CloudEvent as one JSON document, read and written. The data is cut out of it as it stands there, and put in as it is.

use super::{CloudEvent, STRUCTURED, VERSION, WrongAttribute};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// A CloudEvent with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structured<'a> {
    pub event: CloudEvent,
    /// Of the data, in its producer's words.
    pub content_type: String,
    pub payload: Cow<'a, [u8]>,
}

/// A document is none, or what is wrong with what it says.
#[derive(Debug)]
pub enum WrongDocument {
    /// With its place, if it is no JSON, or what else it is.
    Malformed(String),
    Attribute(WrongAttribute),
}

impl From<WrongAttribute> for WrongDocument {
    fn from(wrong: WrongAttribute) -> Self {
        Self::Attribute(wrong)
    }
}

/// Those that have to be strings.
const STRINGS: [&str; 8] =
    ["specversion", "id", "source", "type", "time", "subject", "dataschema", "datacontenttype"];

/// The documents of a batch, at most so many.
pub fn batch(bytes: &[u8], at_most: usize) -> Result<Vec<&RawValue>, WrongDocument> {
    require_begin(bytes, b'[', "expected a list of events")?;
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let documents = (&mut from).deserialize_seq(Documents(at_most));
    let documents = documents.and_then(|documents| from.end().map(|()| documents));
    documents.map_err(|error| WrongDocument::Malformed(error.to_string()))
}

impl<'a> Structured<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WrongDocument> {
        require_begin(bytes, b'{', "expected an object")?;
        let members = serde_json::from_slice::<Members<'a>>(bytes);
        let Members(members) = members.map_err(|error| WrongDocument::Malformed(error.to_string()))?;
        let (mut attributes, mut content_type) = (Vec::new(), None);
        let (mut data, mut base64) = (None, None);
        for (name, value) in members {
            let taken = match &*name {
                "data" => data.replace(value).is_some(),
                "data_base64" => base64.replace(value).is_some(),
                // As if it were not there.
                _ if value.get() == "null" => false,
                "datacontenttype" => content_type.replace(text(&name, value)?).is_some(),
                _ => {
                    attributes.push((name.clone().into_owned(), text(&name, value)?));
                    false
                }
            };
            if taken {
                return Err(WrongAttribute::new(&name, "duplicate", "can be given once only").into());
            }
        }
        let base64 = base64.filter(|value| value.get() != "null");
        let payload = match (data, base64) {
            (Some(_), Some(_)) => {
                let detail = "stands beside `data`: an event has one of them";
                return Err(WrongAttribute::new("data_base64", "conflict", detail).into());
            }
            (Some(value), None) if content_type.as_deref().is_none_or(is_json) => {
                Cow::Borrowed(value.get().as_bytes())
            }
            // Of another type a string has the data in it, and anything else is the data.
            (Some(value), None) => match serde_json::from_str::<String>(value.get()) {
                Ok(text) => Cow::Owned(text.into_bytes()),
                Err(_) => Cow::Borrowed(value.get().as_bytes()),
            },
            (None, Some(value)) => Cow::Owned(from_base64(value)?),
            (None, None) => {
                content_type.get_or_insert_with(|| "application/octet-stream".into());
                Cow::Borrowed(&b""[..])
            }
        };
        let content_type = content_type.unwrap_or_else(|| "application/json".into());
        Ok(Self { event: CloudEvent::checked(attributes)?, content_type, payload })
    }
}

/// Told by ourselves: serde would repeat all of what it has found instead.
fn require_begin(bytes: &[u8], with: u8, expected: &str) -> Result<(), WrongDocument> {
    match bytes.trim_ascii_start().first() {
        Some(first) if *first == with => Ok(()),
        _ => Err(WrongDocument::Malformed(expected.into())),
    }
}

/// The text that an attribute's value is, or stands for.
fn text(name: &str, value: &RawValue) -> Result<String, WrongAttribute> {
    let written = value.get();
    let refuse = |detail| Err(WrongAttribute::new(name, "invalid_type", detail));
    match written.as_bytes() {
        [b'"', ..] => serde_json::from_str(written)
            .map_err(|_| WrongAttribute::new(name, "invalid_value", "is not a string of Unicode")),
        _ if STRINGS.contains(&name) => refuse("expected a string"),
        b"true" | b"false" => Ok(written.to_owned()),
        _ if written.parse::<i32>().is_ok() => Ok(written.to_owned()),
        _ => refuse("expected a string, a truth value or a whole number of 32 bits"),
    }
}

fn from_base64(value: &RawValue) -> Result<Vec<u8>, WrongAttribute> {
    let text = serde_json::from_str::<Cow<'_, str>>(value.get()).ok();
    text.and_then(|text| STANDARD.decode(text.as_bytes()).ok()).ok_or_else(|| {
        WrongAttribute::new(
            "data_base64",
            "invalid_value",
            "expected standard base64, with padding, as a string",
        )
    })
}

impl CloudEvent {
    /// The document that has this payload in it: as it is where it is JSON, else in base64. At most 4/3 of its length, and
    /// what the attributes take.
    pub fn document(&self, content_type: &str, payload: &[u8]) -> Vec<u8> {
        let attributes: usize = self.others.iter().map(|(name, value)| name.len() + value.len() + 6).sum();
        let mut out = Vec::with_capacity(payload.len() + attributes + 512);
        out.push(b'{');
        member(&mut out, "specversion", VERSION);
        member(&mut out, "id", &self.id);
        member(&mut out, "source", &self.source);
        member(&mut out, "type", &self.kind);
        for (name, value) in &self.others {
            member(&mut out, name, value);
        }
        member(&mut out, "datacontenttype", content_type);
        if is_json(content_type) && serde_json::from_slice::<&RawValue>(payload).is_ok() {
            out.extend_from_slice(b",\"data\":");
            out.extend_from_slice(payload);
        } else if !payload.is_empty() {
            out.extend_from_slice(b",\"data_base64\":\"");
            out.extend_from_slice(STANDARD.encode(payload).as_bytes());
            out.push(b'"');
        }
        out.push(b'}');
        out
    }

    /// What a document is sent as.
    pub const DOCUMENT_TYPE: &'static str = STRUCTURED;
}

fn member(out: &mut Vec<u8>, name: &str, value: &str) {
    if out.len() > 1 {
        out.push(b',');
    }
    serde_json::to_writer(&mut *out, name).expect("a name is written");
    out.push(b':');
    serde_json::to_writer(&mut *out, value).expect("a text is written");
}

/// Whether it says that the data is JSON.
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = essence.split_once('/').map_or("", |(_, subtype)| subtype);
    subtype == "json" || subtype.ends_with("+json")
}

/// The members of an object, as they are written.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let mut found = Vec::new();
                while let Some(Name(name)) = members.next_key()? {
                    // Those that count, the data, and none that are null a hundred thousand times.
                    if found.len() > crate::limits::CLOUD_EVENT_ATTRIBUTES + 8 {
                        return Err(de::Error::custom("it has too many members"));
                    }
                    found.push((name, members.next_value()?));
                }
                Ok(found)
            }
        }

        from.deserialize_map(MembersVisitor).map(Self)
    }
}

/// Borrowed where it can be: a `Cow` alone never is.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// So many documents, and no more.
struct Documents(usize);

impl<'de> Visitor<'de> for Documents {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(item) = items.next_element()? {
            if found.len() == self.0 {
                return Err(de::Error::custom(format!("a batch has at most {} events", self.0)));
            }
            found.push(item);
        }
        Ok(found)
    }
}
