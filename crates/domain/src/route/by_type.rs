//! A source's routes by the types of events that they name: an event of an account with a hundred thousand routes is held
//! against those that name its type, and those that have a star, and no others.
//!
//! Types stand here as hashes: two that have the same one are told apart by the routes themselves. What is found by a hash
//! is in shards, so that a change makes little of it anew.

use super::{
    Route,
    pages::{RouteKey, RoutePages, key, merged},
};
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

/// Types that a shard has before there are twice as many shards.
const TYPES_A_SHARD: usize = 256;

type Shard = HashMap<u64, RoutesOfType>;

#[derive(Debug, Clone)]
pub(super) struct RoutesByType {
    /// Those that name all of their types. As many shards as a power of two.
    shards: Vec<Arc<Shard>>,
    types: usize,
    with_stars: RoutePages,
}

/// Most types are named by one route, where there are very many.
#[derive(Debug, Clone)]
enum RoutesOfType {
    One(Arc<Route>),
    Many(Box<RoutePages>),
}

impl Default for RoutesByType {
    fn default() -> Self {
        Self { shards: vec![Arc::default()], types: 0, with_stars: RoutePages::default() }
    }
}

impl RoutesByType {
    /// Of routes that are sorted.
    pub(super) fn of_sorted(routes: &[Arc<Route>]) -> Self {
        let mut named: HashMap<u64, Vec<Arc<Route>>> = HashMap::new();
        let mut with_stars = Vec::new();
        for route in routes {
            match hashes(route) {
                Some(hashes) => {
                    hashes
                        .into_iter()
                        .for_each(|hash| named.entry(hash).or_default().push(Arc::clone(route)));
                }
                None => with_stars.push(Arc::clone(route)),
            }
        }
        let count = named.len().div_ceil(TYPES_A_SHARD).next_power_of_two();
        let (types, mut shards) = (named.len(), vec![Shard::new(); count]);
        for (hash, routes) in named {
            shards[shard_of(hash, count)].insert(hash, RoutesOfType::of_sorted(routes));
        }
        let shards = shards.into_iter().map(Arc::new).collect();
        Self { shards, types, with_stars: RoutePages::of_sorted(&with_stars) }
    }

    /// It is not there.
    pub(super) fn insert(&mut self, route: &Arc<Route>) {
        let Some(hashes) = hashes(route) else { return self.with_stars.insert(Arc::clone(route)) };
        for hash in hashes {
            let shard = shard_of(hash, self.shards.len());
            match Arc::make_mut(&mut self.shards[shard]).entry(hash) {
                Entry::Occupied(mut of_type) => of_type.get_mut().insert(Arc::clone(route)),
                Entry::Vacant(place) => {
                    place.insert(RoutesOfType::One(Arc::clone(route)));
                    self.types += 1;
                }
            }
        }
        if self.types > self.shards.len() * TYPES_A_SHARD {
            self.spread();
        }
    }

    pub(super) fn remove(&mut self, route: &Arc<Route>) {
        let Some(hashes) = hashes(route) else { return drop(self.with_stars.remove(key(route))) };
        for hash in hashes {
            let shard = shard_of(hash, self.shards.len());
            if let Entry::Occupied(mut of_type) = Arc::make_mut(&mut self.shards[shard]).entry(hash)
                && of_type.get_mut().is_empty_without(key(route))
            {
                of_type.remove();
                self.types -= 1;
            }
        }
    }

    /// Over twice as many shards.
    fn spread(&mut self) {
        let count = self.shards.len() * 2;
        let mut shards = vec![Shard::new(); count];
        for (hash, of_type) in self.shards.drain(..).flat_map(Arc::unwrap_or_clone) {
            shards[shard_of(hash, count)].insert(hash, of_type);
        }
        self.shards = shards.into_iter().map(Arc::new).collect();
    }

    /// Sorted, without those that take no events of this type.
    pub(super) fn that_may_take(&self, event_type: &str) -> impl Iterator<Item = &Arc<Route>> {
        let (one, many) = match self.named(event_type) {
            Some(RoutesOfType::One(route)) => (Some(route), None),
            Some(RoutesOfType::Many(routes)) => (None, Some(routes)),
            None => (None, None),
        };
        let named = one.into_iter().chain(many.into_iter().flat_map(|routes| routes.iter()));
        merged(named, self.with_stars.iter())
    }

    pub(super) fn count_that_may_take(&self, event_type: &str) -> usize {
        let named = self.named(event_type).map_or(0, |of_type| match of_type {
            RoutesOfType::One(_) => 1,
            RoutesOfType::Many(routes) => routes.count(),
        });
        named + self.with_stars.count()
    }

    fn named(&self, event_type: &str) -> Option<&RoutesOfType> {
        let hash = hash(event_type);
        self.shards[shard_of(hash, self.shards.len())].get(&hash)
    }
}

impl RoutesOfType {
    fn of_sorted(mut routes: Vec<Arc<Route>>) -> Self {
        match routes.len() {
            1 => Self::One(routes.remove(0)),
            _ => Self::Many(Box::new(RoutePages::of_sorted(&routes))),
        }
    }

    fn insert(&mut self, route: Arc<Route>) {
        if let Self::One(first) = self {
            *self = Self::Many(Box::new(RoutePages::of_sorted(std::slice::from_ref(first))));
        }
        if let Self::Many(routes) = self {
            routes.insert(route);
        }
    }

    /// Takes it out; says whether nothing is left.
    fn is_empty_without(&mut self, gone: RouteKey) -> bool {
        match self {
            Self::One(route) => key(route) == gone,
            Self::Many(routes) => {
                routes.remove(gone);
                routes.count() == 0
            }
        }
    }
}

/// Of the types that a route names, each once. None if one of its patterns has a star.
fn hashes(route: &Route) -> Option<Vec<u64>> {
    let exact = route.event_types.iter().map(|pattern| pattern.exact().map(hash));
    let mut hashes = exact.collect::<Option<Vec<u64>>>()?;
    hashes.sort_unstable();
    hashes.dedup();
    Some(hashes)
}

fn hash(event_type: &str) -> u64 {
    // Its keys are fixed: the same type has the same hash everywhere.
    let mut hasher = DefaultHasher::new();
    hasher.write(event_type.as_bytes());
    hasher.finish()
}

fn shard_of(hash: u64, count: usize) -> usize {
    // A table of hashes looks at their upper bits, and at their lowest.
    (hash >> 32) as usize & (count - 1)
}
