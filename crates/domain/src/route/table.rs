//! An account's routes, arranged for matching: by the source they belong to, and there by destination and, of one
//! destination, by age. So the routes that would deliver the same event twice stand beside each other, and matching need
//! not remember where it has been. They are arranged by the types of events as well ([`RoutesByType`]). A change makes few
//! pages of either anew, so that an account of 100,000 routes can change one of them at any time.

use super::{
    Route,
    by_type::RoutesByType,
    pages::{RouteKey, RoutePages, key},
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

/// The routes of one source, or of what is published.
#[derive(Debug, Clone, Default)]
struct SourceRoutes {
    all: RoutePages,
    by_type: RoutesByType,
    filters: usize,
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
            if source.all.count() > 0 {
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
        self.by_source.values().flat_map(|source| source.all.iter())
    }

    /// How many routes a source has; None is what is published.
    pub fn count(&self, source_id: Option<SourceId>) -> usize {
        self.by_source.get(&source_id).map_or(0, |source| source.all.count())
    }

    /// All routes of one source, by destination, those of one oldest first.
    pub fn of_source(&self, source_id: Option<SourceId>) -> impl Iterator<Item = &Arc<Route>> {
        self.pages(source_id).flatten()
    }

    /// The same without those that take no events of this type.
    pub fn that_may_take(
        &self,
        source_id: Option<SourceId>,
        event_type: &str,
    ) -> impl Iterator<Item = &Arc<Route>> {
        let source = self.by_source.get(&source_id);
        source.into_iter().flat_map(move |source| source.by_type.that_may_take(event_type))
    }

    /// How many those are.
    pub fn count_that_may_take(&self, source_id: Option<SourceId>, event_type: &str) -> usize {
        self.by_source.get(&source_id).map_or(0, |source| source.by_type.count_that_may_take(event_type))
    }

    /// All of one source, a page at a time.
    pub(super) fn pages(&self, source_id: Option<SourceId>) -> impl Iterator<Item = &[Arc<Route>]> {
        self.by_source.get(&source_id).into_iter().flat_map(|source| source.all.pages())
    }
}

impl SourceRoutes {
    fn change(&mut self, gone: &[RouteKey], come: Vec<Arc<Route>>) {
        // Page by page is for a few; many are sorted in at once.
        if gone.len() + come.len() > ROUTES_PAGE {
            return self.rebuild(gone, come);
        }
        for key in gone {
            self.remove(*key);
        }
        for route in come {
            self.remove(key(&route));
            self.filters += usize::from(route.filter.is_some());
            self.by_type.insert(&route);
            self.all.insert(route);
        }
    }

    fn remove(&mut self, wanted: RouteKey) {
        if let Some(route) = self.all.remove(wanted) {
            self.by_type.remove(&route);
            self.filters -= usize::from(route.filter.is_some());
        }
    }

    fn rebuild(&mut self, gone: &[RouteKey], come: Vec<Arc<Route>>) {
        let mut routes: HashMap<RouteId, Arc<Route>> =
            self.all.iter().map(|route| (route.id, route.clone())).collect();
        for (_, id) in gone {
            routes.remove(id);
        }
        routes.extend(come.into_iter().map(|route| (route.id, route)));
        let mut routes: Vec<_> = routes.into_values().collect();
        routes.sort_unstable_by_key(key);
        self.filters = routes.iter().filter(|route| route.filter.is_some()).count();
        self.by_type = RoutesByType::of_sorted(&routes);
        self.all = RoutePages::of_sorted(&routes);
    }
}
