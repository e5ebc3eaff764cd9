//! The tags of an event as they are kept beside it: a list as JSON, and nothing where there are none. Beside that each is a
//! row of `event_tags`, by which it is found.

pub(crate) fn written(tags: &[String]) -> Option<String> {
    (!tags.is_empty()).then(|| serde_json::to_string(tags).expect("texts are always JSON"))
}

/// What does not read is shown as none: an event is not withheld for its tags.
pub(crate) fn read(kept: Option<&str>) -> Vec<String> {
    kept.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
