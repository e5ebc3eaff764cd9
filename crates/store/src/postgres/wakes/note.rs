//! News as a notification's payload: JSON of less than 8,000 bytes.

use crate::{News, Wake};
use domain::{
    delivery::Position,
    id::{AccountId, DeliveryId, DestinationId},
    limits,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What one notification says. Words of a newer version are ignored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Note {
    /// The node that tells it.
    pub(super) by: u64,
    /// Destination, shard, and the position: track, rank, delivery.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wakes: Vec<(DestinationId, u16, i64, i64, DeliveryId)>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    shards: BTreeSet<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<AccountId>,
    #[serde(rename = "roll", skip_serializing_if = "std::ops::Not::not")]
    roster: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    everything: bool,
    /// Said to ourselves, to hear whether we hear.
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<u64>,
}

/// Accounts one note names: an id has 30 characters, and quotes.
const ACCOUNTS_NAMED: usize = 200;

/// As few notes as will do: lanes are named while they fit, else their shards are.
pub(super) fn write(by: u64, news: &[News]) -> Vec<String> {
    let mut note = Note { by, ..Note::default() };
    let mut changed = BTreeSet::new();
    for piece in news {
        match piece {
            News::Wakes(wakes) => note.wakes.extend(wakes.iter().map(named)),
            News::Shards(shards) => note.shards.extend(shards),
            News::Changed(account) => {
                changed.insert(*account);
            }
            News::Roster => note.roster = true,
            News::Missed => note.everything = true,
        }
    }
    let changed = Vec::from_iter(changed);
    let mut chunks = changed.chunks(ACCOUNTS_NAMED);
    let mut notes = Vec::new();
    if note != (Note { by, ..Note::default() }) {
        notes.push(fitting(note));
    }
    notes.extend(chunks.by_ref().map(|chunk| text(&Note { by, changed: chunk.to_vec(), ..Note::default() })));
    notes
}

/// All 1,024 shards are 5 KB.
fn fitting(mut note: Note) -> String {
    // The shortest name of a lane: beyond this many it is not worth trying.
    const NAME_BYTES: usize = 70;
    if note.wakes.len() * NAME_BYTES < limits::NOTIFY_BYTES {
        let text = text(&note);
        if text.len() < limits::NOTIFY_BYTES {
            return text;
        }
    }
    note.shards.extend(note.wakes.drain(..).map(|(_, shard, ..)| shard));
    text(&note)
}

/// What we say to ourselves.
pub(super) fn proof(by: u64, proof: u64) -> String {
    text(&Note { by, proof: Some(proof), ..Note::default() })
}

fn text(note: &Note) -> String {
    serde_json::to_string(note).expect("numbers, ids and lists of them")
}

pub(super) fn read(text: &str) -> Option<Note> {
    serde_json::from_str(text).ok()
}

impl Note {
    pub(super) fn news(self) -> Vec<News> {
        let wakes: Vec<Wake> = self.wakes.into_iter().map(wake).collect();
        let mut news = Vec::new();
        news.extend(self.everything.then_some(News::Missed));
        news.extend(self.roster.then_some(News::Roster));
        news.extend((!wakes.is_empty()).then_some(News::Wakes(wakes)));
        let shards = Vec::from_iter(self.shards);
        news.extend((!shards.is_empty()).then_some(News::Shards(shards)));
        news.extend(self.changed.into_iter().map(News::Changed));
        news
    }
}

fn named(wake: &Wake) -> (DestinationId, u16, i64, i64, DeliveryId) {
    let Position { track, rank, delivery_id } = wake.from;
    (wake.destination_id, wake.shard, track, rank, delivery_id)
}

fn wake(
    (destination_id, shard, track, rank, delivery_id): (DestinationId, u16, i64, i64, DeliveryId),
) -> Wake {
    Wake { destination_id, shard, from: Position { track, rank, delivery_id } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wakes(count: usize) -> News {
        let wake = |n: usize| {
            let id = DestinationId::from_uuid(uuid::Uuid::from_u128(n as u128));
            Wake { destination_id: id, shard: (n % 1024) as u16, from: Position::START }
        };
        News::Wakes((0..count).map(wake).collect())
    }

    fn heard(news: &[News]) -> Vec<News> {
        let notes = write(7, news);
        assert!(notes.iter().all(|note| note.len() < limits::NOTIFY_BYTES));
        notes.iter().flat_map(|note| read(note).expect("our own words").news()).collect()
    }

    #[test]
    fn what_is_told_is_heard() {
        let account = AccountId::from_uuid(uuid::Uuid::max());
        let news = [News::Missed, News::Roster, wakes(50), News::Shards(vec![1, 3]), News::Changed(account)];
        assert_eq!(heard(&news), news);
    }

    #[test]
    fn lanes_that_are_too_many_to_name_become_their_shards() {
        for count in [200, 100_000] {
            let shards = (0..count.min(1024) as u16).collect();
            assert_eq!(heard(&[wakes(count)]), [News::Shards(shards)]);
        }
    }

    #[test]
    fn any_number_of_accounts_is_named() {
        let account = |n| AccountId::from_uuid(uuid::Uuid::from_u128(n));
        let news: Vec<News> = (0..1_000).map(|n| News::Changed(account(n))).collect();
        assert_eq!(heard(&news), news);
    }

    #[test]
    fn the_longest_note_fits() {
        let news = [News::Missed, News::Roster, wakes(100_000)];
        assert_eq!(heard(&news).len(), 3);
    }

    #[test]
    fn other_peoples_words_are_no_news() {
        assert_eq!(read("hello"), None);
        assert_eq!(read(r#"{"by":1,"later":[1]}"#).expect("a note").news(), []);
    }
}
