//! What sources, destinations and routes have in common in both databases: an owner, a uid, a version, a document, and an
//! afterlife. What is asked of them differs by no more than the table's name and the columns beside the document. The
//! texts are whole, one kind at a time, so that each can be explained.

use domain::{
    account::Quotas,
    destination::Destination,
    id::{AccountId, DestinationId, RouteId, SourceId},
    limits,
    route::Route,
    source::Source,
};
use serde::Serialize;
use std::fmt::{Debug, Display};
use uuid::Uuid;

/// Configuration that belongs to an account.
pub(crate) trait Document: Clone + Serialize + Send + Sync {
    type Id: Copy + Send + Debug + Display;
    const WHAT: &'static str;
    /// How many of them an account may have, and their name.
    const MAX: Option<(usize, &'static str)>;
    /// Above every id, where the first page begins.
    const LAST_ID: Self::Id;

    /// The version, the document and the columns beside it.
    const GET: &'static str;
    const LIST: &'static str;
    const BY_UID: &'static str;
    const VERSION: &'static str;
    /// Up to the limit, by the index of live uids.
    const COUNT: &'static str;
    const DELETE: &'static str;

    /// How many an account with these quotas may have, and their name.
    fn most(quotas: &Quotas) -> Option<(usize, &'static str)> {
        let own = match Self::WHAT {
            "destination" => quotas.destinations,
            "route" => quotas.routes,
            _ => None,
        };
        let bounded = |most: usize| own.map_or(most, |own| most.min(own as usize));
        Self::MAX.map(|(most, what)| (bounded(most), what))
    }

    fn id(&self) -> Self::Id;
    fn uuid(id: Self::Id) -> Uuid;
    fn account_id(&self) -> AccountId;
    fn version(&self) -> i64;
    /// As it is kept, with its new version.
    fn kept(&self, version: i64) -> Self;
}

macro_rules! document {
    ($kind:ident, $id:ident, $what:literal, $max:expr, $table:literal, $columns:literal) => {
        impl Document for $kind {
            type Id = $id;
            const WHAT: &'static str = $what;
            const MAX: Option<(usize, &'static str)> = $max;
            const LAST_ID: $id = $id::MAX;

            const GET: &'static str = concat!(
                "select version, doc",
                $columns,
                " from ",
                $table,
                " where id = :id and account_id = :account_id and deleted_at is null"
            );
            const LIST: &'static str = concat!(
                "select version, doc",
                $columns,
                ", id from ",
                $table,
                " where account_id = :account_id and id < :before_id and deleted_at is null",
                " order by id desc limit :limit"
            );
            const BY_UID: &'static str = concat!(
                "select id from ",
                $table,
                " where account_id = :account_id and uid = :uid and deleted_at is null"
            );
            const VERSION: &'static str = concat!(
                "select version from ",
                $table,
                " where id = :id and account_id = :account_id and deleted_at is null"
            );
            const COUNT: &'static str = concat!(
                "select count(*) as count from (select 1 from ",
                $table,
                " where account_id = :account_id and deleted_at is null limit :limit) live"
            );
            const DELETE: &'static str = concat!(
                "update ",
                $table,
                " set deleted_at = :now, version = :version",
                " where id = :id and account_id = :account_id and deleted_at is null"
            );

            fn id(&self) -> $id {
                self.id
            }

            fn uuid(id: $id) -> Uuid {
                id.uuid()
            }

            fn account_id(&self) -> AccountId {
                self.account_id
            }

            fn version(&self) -> i64 {
                self.version
            }

            fn kept(&self, version: i64) -> Self {
                Self { version, ..self.clone() }
            }
        }
    };
}

document!(Source, SourceId, "source", None, "sources", ", token_hash");
document!(
    Destination,
    DestinationId,
    "destination",
    Some((limits::DESTINATIONS_PER_ACCOUNT, "destinations")),
    "destinations",
    ", paused_at, resumed_at, disabled_at, disabled_reason, probed_at, deleted_at"
);
document!(Route, RouteId, "route", Some((limits::ROUTES_PER_ACCOUNT, "routes")), "routes", "");
