//! The search box. It speaks the words of the API: `type:invoice.* status:dead_letter destination:billing since:1h`. The values
//! of one word widen, different words narrow. A word that only deliveries have lists deliveries, else events are listed.

use contract::{DeliveryQuery, EventQuery, FanoutState, MetadataIs};
use domain::{
    delivery::{EndReason, Status},
    id::{DestinationId, EventId, ReplayId, RouteId, SourceId},
    time::Timestamp,
};
use std::{collections::HashMap, fmt::Display, str::FromStr, time::Duration};

/// Longer than anything that is typed.
const TEXT_MAX: usize = 2_000;
const WORDS_MAX: usize = 50;

/// Every word with what it takes and an example: for completion, for help, and for telling what is none.
pub(crate) const WORDS: &[(&str, &str)] = &[
    ("type", "event type or pattern: type:invoice.*"),
    ("status", "queued, delivering, retry_scheduled, delivered, dead_letter, cancelled"),
    ("destination", "name, uid or id of a destination"),
    ("http_status", "of the last attempt: http_status:503"),
    ("reason", "why it ended: exhausted, rejected, gone, expired, …"),
    ("tag", "a tag of the event: tag:order-4711"),
    ("source", "name, uid or id of a source"),
    ("route", "name, uid or id of a route"),
    ("replay", "id of a replay"),
    ("event", "id of an event"),
    ("idempotency_key", "as it was sent with the event"),
    ("fanout", "incomplete, complete or unmatched"),
    ("metadata.", "a member of the metadata, with since: metadata.team:billing since:1d"),
    ("since", "30m, 1h, 2d or 2026-04-03T14:30:00Z"),
    ("until", "the same, the end"),
];

/// What was typed, word by word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// Empty: free text.
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
    /// As it was typed, to be shown where it is wrong.
    pub(crate) typed: String,
}

/// What is to be listed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wanted {
    Events(EventQuery),
    Deliveries(DeliveryQuery),
}

/// What is wrong, said to the one who typed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) typed: String,
    pub(crate) said: String,
}

/// Ids by name and uid, as far as the words need them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) destinations: HashMap<String, Vec<DestinationId>>,
    pub(crate) sources: HashMap<String, Vec<SourceId>>,
    pub(crate) routes: HashMap<String, Vec<RouteId>>,
}

/// Takes the text apart. Values may be in quotes, where `\` takes the next character as it is.
pub(crate) fn words(text: &str) -> Result<Vec<Word>, Mistake> {
    if text.len() > TEXT_MAX {
        return Err(mistake("…", format!("a search has at most {TEXT_MAX} characters")));
    }
    let mut found: Vec<Word> = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|next| next.is_whitespace()).is_some() {}
        if rest.peek().is_none() {
            break;
        }
        if found.len() == WORDS_MAX {
            return Err(mistake("…", format!("a search has at most {WORDS_MAX} words")));
        }
        let (mut name, mut values, mut value, mut typed) = (None, Vec::new(), String::new(), String::new());
        while let Some(next) = rest.next_if(|next| !next.is_whitespace()) {
            typed.push(next);
            match next {
                '"' => loop {
                    let Some(next) = rest.next() else {
                        return Err(mistake(&typed, "a quote is opened here and never closed"));
                    };
                    typed.push(next);
                    match next {
                        '"' => break,
                        '\\' => match rest.next() {
                            Some(next) => {
                                typed.push(next);
                                value.push(next);
                            }
                            None => return Err(mistake(&typed, "a quote is opened here and never closed")),
                        },
                        other => value.push(other),
                    }
                },
                ':' if name.is_none() && is_name(&value) => name = Some(std::mem::take(&mut value)),
                ',' if name.is_some() => values.push(std::mem::take(&mut value)),
                other => value.push(other),
            }
        }
        values.push(value);
        values.retain(|value| !value.is_empty());
        match name {
            Some(_) if values.is_empty() => return Err(mistake(&typed, "there is nothing after the colon")),
            Some(name) => found.push(Word { name, values, typed }),
            None if values.is_empty() => {}
            None => found.push(Word { name: String::new(), values, typed }),
        }
    }
    Ok(found)
}

/// Whether a text before a colon is meant as a word: `https://…` is not.
fn is_name(text: &str) -> bool {
    text.starts_with("metadata.") && text.len() > "metadata.".len()
        || !text.is_empty()
            && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            && !matches!(text, "http" | "https")
}

/// The word of the API that this one stands for.
fn of_api(name: &str) -> &str {
    match name {
        "destination" | "dest" => "destination_id",
        "source" => "source_id",
        "route" => "route_id",
        "replay" => "replay_id",
        "event" => "event_id",
        "code" => "http_status",
        other => other,
    }
}

const OF_DELIVERIES: &[&str] =
    &["status", "reason", "destination_id", "route_id", "http_status", "replay_id", "event_id"];
const OF_EVENTS: &[&str] = &["tag", "idempotency_key", "fanout"];
const OF_BOTH: &[&str] = &["type", "source_id", "since", "until"];

/// Which names have to be known before the words can be read: destinations, sources, routes.
pub(crate) fn names_wanted(words: &[Word]) -> (bool, bool, bool) {
    fn any<I: FromStr>(words: &[Word], name: &str) -> bool {
        words.iter().any(|word| {
            of_api(&word.name) == name && word.values.iter().any(|value| value.parse::<I>().is_err())
        })
    }
    (
        any::<DestinationId>(words, "destination_id"),
        any::<SourceId>(words, "source_id"),
        any::<RouteId>(words, "route_id"),
    )
}

/// What the words ask for.
pub(crate) fn read(words: &[Word], now: Timestamp, names: &Names) -> Result<Wanted, Mistake> {
    let of_deliveries = words.iter().find(|word| OF_DELIVERIES.contains(&of_api(&word.name)));
    match of_deliveries {
        Some(first) => deliveries(words, first, now, names).map(Wanted::Deliveries),
        None => events(words, now, names).map(Wanted::Events),
    }
}

fn events(words: &[Word], now: Timestamp, names: &Names) -> Result<EventQuery, Mistake> {
    let mut query = EventQuery::default();
    let mut free = Vec::new();
    for word in words {
        match of_api(&word.name) {
            "" => free.extend(word.values.iter().map(String::as_str)),
            "type" => query.types.extend(parsed(word)?),
            "source_id" => query.source_id.extend(named(word, &names.sources, "source")?),
            "tag" => query.tag.extend(word.values.iter().cloned()),
            "idempotency_key" => query.idempotency_key.extend(word.values.iter().cloned()),
            "fanout" => query.fanout = Some(fanout(word)?),
            "since" => query.since = Some(moment(word, now)?),
            "until" => query.until = Some(moment(word, now)?),
            metadata if metadata.starts_with("metadata.") => {
                let key = &metadata["metadata.".len()..];
                let each = |value: &String| MetadataIs { key: key.into(), value: value.clone() };
                query.metadata.extend(word.values.iter().map(each));
            }
            _ => return Err(unknown(word)),
        }
    }
    if !free.is_empty() {
        query.q = Some(free.join(" "));
    }
    Ok(query)
}

fn deliveries(words: &[Word], first: &Word, now: Timestamp, names: &Names) -> Result<DeliveryQuery, Mistake> {
    let mut query = DeliveryQuery::default();
    for word in words {
        match of_api(&word.name) {
            "type" => query.types.extend(parsed(word)?),
            "status" => query.status.extend(statuses(word)?),
            "reason" => {
                for reason in &word.values {
                    if EndReason::read(reason).is_none() {
                        return Err(mistake(&word.typed, "no delivery ends for this reason"));
                    }
                    query.reason.push(reason.clone());
                }
            }
            "destination_id" => query.destination_id.extend(named(word, &names.destinations, "destination")?),
            "source_id" => query.source_id.extend(named(word, &names.sources, "source")?),
            "route_id" => query.route_id.extend(named(word, &names.routes, "route")?),
            "http_status" => query.http_status.extend(http_statuses(word)?),
            "replay_id" => query.replay_id.extend(parsed::<ReplayId>(word)?),
            "event_id" => query.event_id.extend(parsed::<EventId>(word)?),
            "since" => query.since = Some(moment(word, now)?),
            "until" => query.until = Some(moment(word, now)?),
            "" => match word.values.iter().map(|value| value.parse()).collect::<Result<Vec<EventId>, _>>() {
                Ok(ids) => query.event_id.extend(ids),
                Err(_) => {
                    let said = format!("free text finds events; `{}` asks for deliveries", first.typed);
                    return Err(mistake(&word.typed, said));
                }
            },
            name if OF_EVENTS.contains(&name) || name.starts_with("metadata.") => {
                let said = format!(
                    "this word finds events, and `{}` asks for deliveries: use one of them",
                    first.typed
                );
                return Err(mistake(&word.typed, said));
            }
            _ => return Err(unknown(word)),
        }
    }
    Ok(query)
}

fn unknown(word: &Word) -> Mistake {
    let known = OF_BOTH.iter().chain(OF_EVENTS).chain(OF_DELIVERIES).copied();
    let near = known.min_by_key(|known| distance(known.trim_end_matches("_id"), &word.name));
    match near.filter(|near| distance(near.trim_end_matches("_id"), &word.name) <= 2) {
        Some(near) => mistake(
            &word.typed,
            format!("there is no such word; `{}` perhaps?", near.trim_end_matches("_id")),
        ),
        None => mistake(&word.typed, "there is no such word; put text with a colon in quotes"),
    }
}

fn parsed<T: FromStr<Err: Display>>(word: &Word) -> Result<Vec<T>, Mistake> {
    let each =
        |value: &String| value.parse().map_err(|error: T::Err| mistake(&word.typed, error.to_string()));
    word.values.iter().map(each).collect()
}

fn http_statuses(word: &Word) -> Result<Vec<u16>, Mistake> {
    let each =
        |value: &String| value.parse().map_err(|_| mistake(&word.typed, "expected a number such as 503"));
    word.values.iter().map(each).collect()
}

/// With the words that the pages show.
fn statuses(word: &Word) -> Result<Vec<Status>, Mistake> {
    let mut found = Vec::new();
    for value in &word.values {
        match value.as_str() {
            "dead" => found.push(Status::DeadLetter),
            "retrying" => found.push(Status::RetryScheduled),
            "waiting" => found.extend([Status::Queued, Status::RetryScheduled]),
            value => found.push(
                value
                    .parse()
                    .map_err(|error: domain::word::UnknownWord| mistake(&word.typed, error.to_string()))?,
            ),
        }
    }
    Ok(found)
}

fn fanout(word: &Word) -> Result<FanoutState, Mistake> {
    match word.values.as_slice() {
        [one] if one == "incomplete" => Ok(FanoutState::Incomplete),
        [one] if one == "complete" => Ok(FanoutState::Complete),
        [one] if one == "unmatched" => Ok(FanoutState::Unmatched),
        _ => Err(mistake(&word.typed, "a fan-out is one of incomplete, complete, unmatched")),
    }
}

/// Ids as they are, all else by name or uid.
fn named<I: FromStr + Copy>(
    word: &Word,
    names: &HashMap<String, Vec<I>>,
    what: &str,
) -> Result<Vec<I>, Mistake> {
    let mut ids = Vec::new();
    for value in &word.values {
        match (value.parse(), names.get(value)) {
            (Ok(id), _) => ids.push(id),
            (Err(_), Some(found)) => ids.extend(found),
            (Err(_), None) => {
                return Err(mistake(&word.typed, format!("no {what} has this name, uid or id")));
            }
        }
    }
    Ok(ids)
}

/// `90s`, `30m`, `1h`, `2d` ago, or the moment itself.
fn moment(word: &Word, now: Timestamp) -> Result<Timestamp, Mistake> {
    let expected = || mistake(&word.typed, "expected 30m, 1h, 2d or a time such as 2026-04-03T14:30:00Z");
    // A time has colons, and no commas.
    let [value] = word.values.as_slice() else { return Err(expected()) };
    if let Ok(at) = value.parse() {
        return Ok(at);
    }
    let split = value.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
    let (count, unit) = value.split_at(split);
    let seconds = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err(expected()),
    };
    let count: u64 = count.parse().map_err(|_| expected())?;
    Ok(now.minus(Duration::from_secs(count.saturating_mul(seconds))))
}

fn mistake(typed: &str, said: impl Into<String>) -> Mistake {
    Mistake { typed: typed.to_owned(), said: said.into() }
}

/// How many letters have to change. Words are short, and so is this.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(32).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, right) in b.iter().enumerate() {
            let changed = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

    fn ask(text: &str) -> Result<Wanted, String> {
        let destination = DestinationId::at(NOW, 1);
        let names = Names {
            destinations: HashMap::from([("billing".to_owned(), vec![destination])]),
            ..Names::default()
        };
        words(text).and_then(|words| read(&words, NOW, &names)).map_err(|mistake| mistake.said)
    }

    fn events(text: &str) -> EventQuery {
        match ask(text) {
            Ok(Wanted::Events(query)) => query,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn deliveries(text: &str) -> DeliveryQuery {
        match ask(text) {
            Ok(Wanted::Deliveries(query)) => query,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn nothing_typed_lists_every_event() {
        assert_eq!(events(""), EventQuery::default());
        assert_eq!(events("  \t "), EventQuery::default());
        assert_eq!(events("\"\""), EventQuery::default());
    }

    #[test]
    fn words_of_events_list_events() {
        let found =
            events("type:invoice.*,order.paid tag:order-4711 since:1h fanout:unmatched metadata.team:a");
        assert_eq!(found.types.len(), 2);
        assert_eq!(found.tag, ["order-4711"]);
        assert_eq!(found.since, Some(NOW.minus(Duration::from_secs(3_600))));
        assert_eq!(found.fanout, Some(FanoutState::Unmatched));
        assert_eq!(found.metadata, [MetadataIs { key: "team".into(), value: "a".into() }]);
    }

    #[test]
    fn one_word_of_deliveries_lists_deliveries() {
        let found = deliveries(
            "type:invoice.* status:dead_letter,cancelled destination:billing http_status:503 since:2d",
        );
        assert_eq!(found.status, [Status::DeadLetter, Status::Cancelled]);
        assert_eq!((found.http_status, found.destination_id.len()), (vec![503], 1));
        assert_eq!(deliveries("status:waiting").status, [Status::Queued, Status::RetryScheduled]);
        assert_eq!(deliveries("status:dead").status, [Status::DeadLetter]);
    }

    #[test]
    fn quotes_keep_together_what_belongs_together() {
        assert_eq!(events(r#"tag:"a b:c,d" x"#).tag, ["a b:c,d"]);
        assert_eq!(events(r#""status:x""#).q.as_deref(), Some("status:x"));
        assert_eq!(events(r#"tag:"say \"hi\" \\""#).tag, [r#"say "hi" \"#]);
        assert_eq!(ask(r#"tag:"open"#).unwrap_err(), "a quote is opened here and never closed");
        assert_eq!(ask(r#"tag:"open\"#).unwrap_err(), "a quote is opened here and never closed");
    }

    #[test]
    fn free_text_is_an_id_or_an_idempotency_key() {
        assert_eq!(events("order-4711").q.as_deref(), Some("order-4711"));
        assert_eq!(events("https://x.example/a").q.as_deref(), Some("https://x.example/a"));
        let id = EventId::at(NOW, 7);
        assert_eq!(deliveries(&format!("status:delivered {id}")).event_id, [id]);
        assert!(ask("status:delivered free").unwrap_err().contains("asks for deliveries"));
    }

    #[test]
    fn moments_are_ago_or_exact() {
        let at = "2026-04-03T14:30:00Z";
        assert_eq!(events(&format!("until:{at}")).until, at.parse().ok());
        for wrong in ["since:yesterday", "since:1", "since:h", "since:99999999999999999999d", "since:1h,2h"] {
            assert!(ask(wrong).unwrap_err().starts_with("expected 30m"), "{wrong}");
        }
        assert_eq!(events("since:999999999999d").since, Some(Timestamp::MIN));
    }

    #[test]
    fn what_is_wrong_is_said_where_it_is() {
        let at = |text: &str| words(text).and_then(|words| read(&words, NOW, &Names::default())).unwrap_err();
        assert_eq!(at("type:a statsu:x").typed, "statsu:x");
        assert!(at("statsu:x").said.contains("`status` perhaps"));
        assert!(at("colour:red").said.contains("no such word"));
        assert!(at("status:lost").said.contains("dead_letter"));
        assert!(at("destination:nobody").said.contains("no destination"));
        assert!(at("http_status:lots").typed.contains("lots"));
        assert!(at("reason:boredom").said.contains("no delivery"));
        assert!(at("tag:a status:queued").said.contains("finds events"));
        assert!(at("status:").said.contains("nothing after"));
        assert!(at(&"a ".repeat(WORDS_MAX + 1)).said.contains("at most"));
        assert!(at(&"a".repeat(TEXT_MAX + 1)).said.contains("at most"));
    }

    #[test]
    fn only_names_that_are_no_ids_are_looked_up() {
        let wanted = |text: &str| names_wanted(&words(text).unwrap());
        assert_eq!(wanted("destination:billing source:src_x type:a"), (true, true, false));
        assert_eq!(wanted(&format!("destination:{}", DestinationId::at(NOW, 1))), (false, false, false));
    }

    #[test]
    fn every_word_that_is_offered_is_understood() {
        for (word, _) in WORDS {
            let word = if *word == "metadata." { "metadata.key" } else { word };
            let said = ask(&format!("{word}:x")).err().unwrap_or_default();
            assert!(!said.contains("no such word"), "{word}: {said}");
        }
    }
}
