//! Lists that are looked through: what has a text in its name or its URL. No index helps with that, so a page looks at so many
//! entries at most, and goes on where it stopped. It is done here, on what the store reads: all stores find the same.

use super::Listed;
use crate::{error::ApiError, validate::Checks};
use contract::{DestinationQuery, NameQuery};
use domain::{account::Account, destination::Destination, limits, route::Route, source::Source};
use serde::Serialize;
use std::pin::Pin;
use store::{Page, StoreError};

/// What is looked for.
#[derive(Debug, Default)]
pub struct Wanted {
    pub(crate) uid: Option<String>,
    name: Option<String>,
    url: Option<String>,
    /// Of destinations.
    pub(crate) held: bool,
}

/// What can be looked for.
pub(crate) trait Searched: Serialize {
    fn uid(&self) -> Option<&str>;
    fn name(&self) -> Option<&str>;
    fn url(&self) -> Option<&str> {
        None
    }
}

impl Wanted {
    /// Destinations that are held.
    pub fn held() -> Self {
        Self { held: true, ..Self::default() }
    }

    /// Entries have to be looked at one by one.
    pub(crate) fn looks_through(&self) -> bool {
        !self.held && self.uid.is_none() && (self.name.is_some() || self.url.is_some())
    }

    pub(crate) fn has<T: Searched>(&self, row: &T) -> bool {
        let holds = |text: Option<&str>, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| text.is_some_and(|text| text.to_lowercase().contains(wanted)))
        };
        let has_uid = self.uid.as_deref().is_none_or(|uid| row.uid() == Some(uid));
        has_uid && holds(row.name(), &self.name) && holds(row.url(), &self.url)
    }

    /// 422 for a text that nothing could have.
    fn checked(name: Option<&str>, uid: Option<&str>, url: Option<&str>) -> Result<Self, ApiError> {
        let mut checks = Checks::default();
        for (pointer, text) in [("/name", name), ("/uid", uid), ("/url", url)] {
            let fits = |text: &str| (1..=limits::SEARCHED_TEXT_CHARS).contains(&text.chars().count());
            if text.is_some_and(|text| !fits(text)) {
                let detail = format!("1 to {} characters", limits::SEARCHED_TEXT_CHARS);
                checks.refuse(pointer, "invalid_length", detail);
            }
        }
        checks.done()?;
        let lower = |text: &str| text.to_lowercase();
        Ok(Self { uid: uid.map(str::to_owned), name: name.map(lower), url: url.map(lower), held: false })
    }
}

impl TryFrom<&NameQuery> for Wanted {
    type Error = ApiError;

    fn try_from(query: &NameQuery) -> Result<Self, ApiError> {
        Self::checked(query.name.as_deref(), query.uid.as_deref(), None)
    }
}

impl TryFrom<&DestinationQuery> for Wanted {
    type Error = ApiError;

    fn try_from(query: &DestinationQuery) -> Result<Self, ApiError> {
        let wanted = Self::checked(query.name.as_deref(), query.uid.as_deref(), query.url.as_deref())?;
        Ok(Self { held: query.held, ..wanted })
    }
}

impl Searched for Account {
    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}

impl Searched for Source {
    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}

impl Searched for Destination {
    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn url(&self) -> Option<&str> {
        Some(&self.url)
    }
}

impl Searched for Route {
    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// The one that has the uid, if it is what else is wanted.
pub(crate) fn only<T: Searched, K>(found: Option<T>, wanted: &Wanted) -> Listed<T, K> {
    Listed { data: found.filter(|row| wanted.has(row)).into_iter().collect(), next: None }
}

/// A part of a list, as the store reads it.
pub(crate) type Reading<'r, T, K> =
    Pin<Box<dyn Future<Output = Result<store::Listed<T, K>, StoreError>> + Send + 'r>>;

/// Reads on until the page is full, its text is, or enough was looked at.
pub(crate) async fn through<'r, T: Searched, K: Copy>(
    page: Page<K>,
    wanted: &Wanted,
    key: impl Fn(&T) -> K,
    read: impl Fn(Page<K>) -> Reading<'r, T, K>,
) -> Result<Listed<T, K>, ApiError> {
    let (mut data, mut before, mut seen, mut bytes) = (Vec::new(), page.before, 0, 0);
    loop {
        let part = read(Page { before, limit: limits::PAGE_SCAN_PART }).await?;
        let count = part.rows.len();
        for (place, row) in part.rows.into_iter().enumerate() {
            let at = key(&row);
            if !wanted.has(&row) {
                continue;
            }
            bytes += limits::PAGE_ROW_BYTES + serde_json::to_string(&row).map_or(0, |text| text.len());
            data.push(row);
            if data.len() >= page.limit || bytes >= limits::PAGE_BYTES {
                let goes_on = place + 1 < count || part.next.is_some();
                return Ok(Listed { data, next: goes_on.then_some(at) });
            }
        }
        seen += count;
        match part.next {
            None => return Ok(Listed { data, next: None }),
            next if seen >= limits::PAGE_SCAN => return Ok(Listed { data, next }),
            next => before = next,
        }
    }
}
