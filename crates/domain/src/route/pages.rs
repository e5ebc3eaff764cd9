//! Routes by destination and, of one destination, by age, in pages: a change makes only the pages anew that it touches.

use super::Route;
use crate::{
    id::{DestinationId, RouteId},
    limits::ROUTES_PAGE,
};
use std::{iter, sync::Arc};

/// What routes are sorted by.
pub(super) type RouteKey = (DestinationId, RouteId);

pub(super) fn key(route: &Arc<Route>) -> RouteKey {
    (route.destination_id, route.id)
}

/// Pages are never empty.
#[derive(Debug, Clone, Default)]
pub(super) struct RoutePages {
    pages: Vec<Arc<Vec<Arc<Route>>>>,
    count: usize,
}

impl RoutePages {
    /// Of routes that are sorted.
    pub(super) fn of_sorted(routes: &[Arc<Route>]) -> Self {
        let pages = routes.chunks(ROUTES_PAGE).map(|page| Arc::new(page.to_vec())).collect();
        Self { pages, count: routes.len() }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.pages().flatten()
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = &[Arc<Route>]> {
        self.pages.iter().map(|page| page.as_slice())
    }

    /// The first page that ends at or behind this key.
    fn page_of(&self, wanted: RouteKey) -> usize {
        self.pages.partition_point(|page| page.last().is_some_and(|last| key(last) < wanted))
    }

    pub(super) fn remove(&mut self, wanted: RouteKey) -> Option<Arc<Route>> {
        let at = self.page_of(wanted);
        let page = self.pages.get_mut(at)?;
        let place = page.binary_search_by_key(&wanted, key).ok()?;
        let page = Arc::make_mut(page);
        let route = page.remove(place);
        if page.is_empty() {
            self.pages.remove(at);
        }
        self.count -= 1;
        Some(route)
    }

    /// It is not there.
    pub(super) fn insert(&mut self, route: Arc<Route>) {
        self.count += 1;
        let at = self.page_of(key(&route));
        if at == self.pages.len() {
            // Behind all others: onto the last page while that has room, so that pages fill up one after the other.
            match self.pages.last_mut().filter(|page| page.len() < ROUTES_PAGE) {
                Some(page) => Arc::make_mut(page).push(route),
                None => self.pages.push(Arc::new(vec![route])),
            }
            return;
        }
        let page = Arc::make_mut(&mut self.pages[at]);
        let place = page.partition_point(|other| key(other) < key(&route));
        page.insert(place, route);
        if page.len() > ROUTES_PAGE {
            let rest = page.split_off(ROUTES_PAGE / 2);
            self.pages.insert(at + 1, Arc::new(rest));
        }
    }
}

/// Both, sorted as each of them is.
pub(super) fn merged<'r>(
    one: impl Iterator<Item = &'r Arc<Route>>,
    other: impl Iterator<Item = &'r Arc<Route>>,
) -> impl Iterator<Item = &'r Arc<Route>> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if key(second) < key(first) => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}
