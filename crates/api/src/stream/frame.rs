//! Server-sent events as text. Nothing that is written here contains a line break of its own: ids are plain, data is
//! JSON.

use super::position::StreamPosition;
use domain::limits;
use serde::Serialize;
use std::fmt::Write as _;

/// Why something may be missing: a client that keeps a copy has to read it anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reset {
    /// The stream goes on from where it was left, but some of that is older than what is kept.
    Pruned,
    /// The stream begins now: where it was left is not known to the store any more.
    Lost,
}

impl Reset {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Pruned => ("pruned", "some of what happened since is older than what is kept"),
            Self::Lost => {
                ("lost", "the store does not know this id any more: what happened since is in the lists")
            }
        }
    }
}

/// The first words of every stream: how long a client should wait before it comes back, and where it is. One that is cut
/// before it has heard anything else goes on from there.
pub(super) fn hello(position: &StreamPosition) -> String {
    format!("retry: {}\nid: {position}\n\n", limits::STREAM_RECONNECT.as_millis())
}

pub(super) fn reset(reset: Reset, position: &StreamPosition) -> String {
    let (reason, detail) = reset.words();
    event("reset", position, &serde_json::json!({ "reason": reason, "detail": detail }))
}

pub(super) fn event(name: &str, position: &StreamPosition, data: &impl Serialize) -> String {
    let data = serde_json::to_string(data).expect("a view is plain data");
    format!("id: {position}\nevent: {name}\ndata: {data}\n\n")
}

/// A sign of life, and where to go on from: an `id` without data is no event, but it is remembered.
pub(super) fn heartbeat(position: &StreamPosition) -> String {
    format!(": still here\nid: {position}\n\n")
}

/// The last words.
pub(super) fn goodbye(why: &str) -> String {
    let mut text = String::new();
    let _ = write!(text, ": {why}\n\n");
    text
}
