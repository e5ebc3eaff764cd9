//! Members: the nodes that share the work, and what each is there for.

use crate::word::words;

words! {
    "a role",
    /// What a node is there for.
    #[derive(Default)]
    Role {
        /// Listens and delivers.
        #[default]
        All = "all",
        /// Listens, and leaves the lanes to others.
        Api = "api",
        /// Delivers.
        Worker = "worker",
    }
}

impl Role {
    /// Whether it has a share of the shards.
    pub const fn owns_lanes(self) -> bool {
        matches!(self, Self::All | Self::Worker)
    }

    /// Whether it answers requests of the API.
    pub const fn listens(self) -> bool {
        matches!(self, Self::All | Self::Api)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_listens_owns_nothing() {
        assert_eq!(Role::ALL.map(Role::owns_lanes), [true, false, true]);
        assert_eq!(Role::ALL.map(Role::listens), [true, true, false]);
    }
}
