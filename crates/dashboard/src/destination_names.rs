//! The names of the destinations that a list mentions.

use crate::{format, reads::together, visit::Visit};
use api::read;
use contract::DestinationView;
use domain::{
    account::Scope,
    id::{AccountId, DestinationId},
    limits,
};
use futures_util::FutureExt;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct DestinationNames(BTreeMap<DestinationId, DestinationView>);

impl DestinationNames {
    /// Those that are still there, if the visitor may see them.
    pub(crate) async fn of(
        visit: &Visit,
        account: AccountId,
        ids: impl IntoIterator<Item = DestinationId>,
    ) -> Self {
        if !visit.may(Scope::DestinationsRead) {
            return Self::default();
        }
        let ids: BTreeSet<DestinationId> = ids.into_iter().collect();
        let each = ids.into_iter().take(limits::PAGE_MAX);
        let each = each.map(|id| read::destination(&visit.app, account, id).boxed()).collect();
        let found = together(each).await;
        Self(found.into_iter().flatten().map(|found| (found.view.id, found.view)).collect())
    }

    /// The one that a page is about.
    pub(crate) fn of_one(destination: &DestinationView) -> Self {
        Self(BTreeMap::from([(destination.id, destination.clone())]))
    }

    pub(crate) fn get(&self, id: DestinationId) -> Option<&DestinationView> {
        self.0.get(&id)
    }

    /// What is in the way of some of them.
    pub(crate) fn held(&self) -> impl Iterator<Item = &DestinationView> {
        self.0.values().filter(|destination| destination.hold.is_some())
    }

    pub(crate) fn name(&self, id: DestinationId) -> String {
        self.get(id).map_or_else(|| format::short_id(id), |destination| destination.name.clone())
    }

    pub(crate) fn link(&self, id: DestinationId) -> Markup {
        html! { a.plain href={ "/destinations/" (id) } title=(id) { (self.name(id)) } }
    }
}
