//! Pages of routes as they were read last: an account that sends one large event after the other has its routes read
//! once, and then only its version.

use domain::{
    destination::Numbering,
    id::{AccountId, DestinationId, RouteId, SourceId},
    limits,
    route::Route,
};
use std::{collections::HashMap, sync::Arc};
use store::{Expansions, RoutePage, RouteWalk, StoreError};

/// The one used last comes first.
#[derive(Default)]
pub(in crate::chores) struct Pages(Vec<Page>);

struct Page {
    key: (AccountId, Option<SourceId>, Option<(DestinationId, RouteId)>),
    version: i64,
    routes: Arc<[Route]>,
    numberings: Arc<Numberings>,
}

/// Of the destinations that number, among those that a page leads to.
pub(in crate::chores) type Numberings = HashMap<DestinationId, Numbering>;

impl Pages {
    /// The routes the walk comes to next, as they are now.
    pub(in crate::chores) async fn read<S: Expansions + ?Sized>(
        &mut self,
        store: &S,
        walk: RouteWalk,
    ) -> Result<(Arc<[Route]>, Arc<Numberings>), StoreError> {
        let key = (walk.account_id, walk.source_id, walk.after);
        let kept = self.0.iter().position(|page| page.key == key).map(|place| self.0.remove(place));
        let known = kept.as_ref().map(|page| page.version);
        let page = match (store.routes_after(&RouteWalk { known, ..walk }).await?, kept) {
            (RoutePage::Unchanged, Some(page)) => page,
            (RoutePage::Read { version, routes, numberings }, _) => {
                let numberings = Arc::new(numberings.into_iter().collect());
                Page { key, version, routes: routes.into(), numberings }
            }
            (RoutePage::Unchanged, None) => {
                return Err(StoreError::Unavailable("the store knows a page that is not there".into()));
            }
        };
        let read = (Arc::clone(&page.routes), Arc::clone(&page.numberings));
        self.0.insert(0, page);
        self.forget_the_rest();
        Ok(read)
    }

    #[cfg(test)]
    pub(super) fn routes(&self) -> usize {
        self.0.iter().map(|page| page.routes.len()).sum()
    }

    fn forget_the_rest(&mut self) {
        let mut routes = 0;
        let fits = |page: &&Page| {
            routes += page.routes.len().max(1);
            routes <= limits::EXPANSION_ROUTES_KEPT
        };
        let kept = self.0.iter().take_while(fits).count();
        self.0.truncate(kept);
    }
}
