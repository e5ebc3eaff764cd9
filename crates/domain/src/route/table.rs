//! An account's routes, arranged for matching: by the source they belong to, and there in pages by destination and, of one
//! destination, by age. So the routes that would deliver the same event twice stand beside each other, and matching need
//! not remember where it has been. A change makes only the pages anew that it touches, so that an account of 100,000
//! routes can change one of them at any time. Of each page it is known which types of events its routes may take
//! ([`TypeSieve`]), so that an event is held against few of them.

use super::{
    Route,
    sieve::{TypeMark, TypeSieve},
};
use crate::{
    id::{DestinationId, RouteId, SourceId},
    limits::ROUTES_PAGE,
};
use std::{collections::HashMap, sync::Arc};

#[derive(Debug, Clone, Default)]
pub struct RouteTable {
    by_source: HashMap<Option<SourceId>, Arc<SourceRoutes>>,
}

/// Where a route stands: of which source (None: of what is published), and there by its destination and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutePlace {
    pub source_id: Option<SourceId>,
    pub destination_id: DestinationId,
    pub id: RouteId,
}

/// What a page is sorted by.
type PageKey = (DestinationId, RouteId);

/// The routes of one source, or of what is published. Pages are never empty.
#[derive(Debug, Clone, Default)]
struct SourceRoutes {
    pages: Vec<Arc<RoutePage>>,
    routes: usize,
    filters: usize,
}

#[derive(Debug, Clone)]
struct RoutePage {
    routes: Vec<Arc<Route>>,
    types: TypeSieve,
}

impl RoutePage {
    fn new(routes: Vec<Arc<Route>>) -> Self {
        Self { types: TypeSieve::of(&routes), routes }
    }

    /// What `change` says of it.
    fn change<T>(&mut self, change: impl FnOnce(&mut Vec<Arc<Route>>) -> T) -> T {
        let said = change(&mut self.routes);
        self.types = TypeSieve::of(&self.routes);
        said
    }
}

impl RouteTable {
    pub fn new(routes: impl IntoIterator<Item = Arc<Route>>) -> Self {
        Self::default().changed(&[], routes)
    }

    /// The table after these routes have gone, each named by the place it had, and these have come. One that has changed
    /// is among both.
    pub fn changed(&self, gone: &[RoutePlace], come: impl IntoIterator<Item = Arc<Route>>) -> Self {
        let mut changes: HashMap<_, (Vec<_>, Vec<_>)> = HashMap::new();
        for place in gone {
            changes.entry(place.source_id).or_default().0.push((place.destination_id, place.id));
        }
        for route in come {
            changes.entry(route.source_id).or_default().1.push(route);
        }
        let mut table = self.clone();
        for (source_id, (gone, come)) in changes {
            let mut source = table.by_source.remove(&source_id).map(Arc::unwrap_or_clone).unwrap_or_default();
            source.change(&gone, come);
            if source.routes > 0 {
                table.by_source.insert(source_id, Arc::new(source));
            }
        }
        table
    }

    pub fn has_filters(&self, source_id: Option<SourceId>) -> bool {
        self.by_source.get(&source_id).is_some_and(|source| source.filters > 0)
    }

    /// All routes, source by source.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.by_source.values().flat_map(|source| source.pages.iter().flat_map(|page| page.routes.iter()))
    }

    /// How many routes a source has; None is what is published.
    pub fn count(&self, source_id: Option<SourceId>) -> usize {
        self.by_source.get(&source_id).map_or(0, |source| source.routes)
    }

    /// All routes of one source, by destination, those of one oldest first.
    pub fn of_source(&self, source_id: Option<SourceId>) -> impl Iterator<Item = &Arc<Route>> {
        self.pages(source_id).flatten()
    }

    /// The same without most of those that do not take events of this type.
    pub fn that_may_take(
        &self,
        source_id: Option<SourceId>,
        event_type: &str,
    ) -> impl Iterator<Item = &Arc<Route>> {
        let mark = TypeMark::of(event_type);
        let pages = self.by_source.get(&source_id).map_or(&[][..], |source| &source.pages);
        pages.iter().filter(move |page| page.types.may_take(mark)).flat_map(|page| &page.routes)
    }

    /// All of one source, a page at a time.
    pub(super) fn pages(&self, source_id: Option<SourceId>) -> impl Iterator<Item = &[Arc<Route>]> {
        let pages = self.by_source.get(&source_id).map_or(&[][..], |source| &source.pages);
        pages.iter().map(|page| page.routes.as_slice())
    }
}

impl SourceRoutes {
    fn change(&mut self, gone: &[PageKey], come: Vec<Arc<Route>>) {
        // Page by page is for a few; many are sorted in at once.
        if gone.len() + come.len() > ROUTES_PAGE {
            return self.rebuild(gone, come);
        }
        for key in gone {
            self.remove(*key);
        }
        for route in come {
            self.remove(key(&route));
            self.insert(route);
        }
    }

    fn rebuild(&mut self, gone: &[PageKey], come: Vec<Arc<Route>>) {
        let mut routes: HashMap<RouteId, Arc<Route>> =
            self.pages.iter().flat_map(|page| &page.routes).map(|route| (route.id, route.clone())).collect();
        for (_, id) in gone {
            routes.remove(id);
        }
        routes.extend(come.into_iter().map(|route| (route.id, route)));
        let mut routes: Vec<_> = routes.into_values().collect();
        routes.sort_unstable_by_key(key);
        self.routes = routes.len();
        self.filters = routes.iter().filter(|route| route.filter.is_some()).count();
        self.pages = routes.chunks(ROUTES_PAGE).map(|page| Arc::new(RoutePage::new(page.to_vec()))).collect();
    }

    /// The first page that ends at or behind this key.
    fn page_of(&self, wanted: PageKey) -> usize {
        self.pages.partition_point(|page| page.routes.last().is_some_and(|last| key(last) < wanted))
    }

    fn remove(&mut self, wanted: PageKey) {
        let at = self.page_of(wanted);
        let Some(page) = self.pages.get_mut(at) else { return };
        let Ok(place) = page.routes.binary_search_by_key(&wanted, key) else { return };
        let route = Arc::make_mut(page).change(|routes| routes.remove(place));
        self.routes -= 1;
        self.filters -= usize::from(route.filter.is_some());
        if page.routes.is_empty() {
            self.pages.remove(at);
        }
    }

    /// It is not there.
    fn insert(&mut self, route: Arc<Route>) {
        self.routes += 1;
        self.filters += usize::from(route.filter.is_some());
        let at = self.page_of(key(&route));
        if at == self.pages.len() {
            // Behind all others: onto the last page while that has room, so that pages fill up one after the other.
            match self.pages.last_mut().filter(|page| page.routes.len() < ROUTES_PAGE) {
                Some(page) => Arc::make_mut(page).change(|routes| routes.push(route)),
                None => self.pages.push(Arc::new(RoutePage::new(vec![route]))),
            }
            return;
        }
        let page = Arc::make_mut(&mut self.pages[at]);
        let place = page.routes.partition_point(|other| key(other) < key(&route));
        page.change(|routes| routes.insert(place, route));
        if page.routes.len() > ROUTES_PAGE {
            let rest = page.change(|routes| routes.split_off(ROUTES_PAGE / 2));
            self.pages.insert(at + 1, Arc::new(RoutePage::new(rest)));
        }
    }
}

fn key(route: &Arc<Route>) -> PageKey {
    (route.destination_id, route.id)
}
