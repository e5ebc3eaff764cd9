//! Members: the nodes that share the work, and what each is there for.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What a node is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Listens and delivers.
    #[default]
    All,
    /// Listens, and leaves the lanes to others.
    Api,
    /// Delivers.
    Worker,
}

/// Why a word is no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a role is one of all, api, worker")]
pub struct UnknownRole;

impl Role {
    pub const EVERY: [Self; 3] = [Self::All, Self::Api, Self::Worker];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }

    /// Whether it has a share of the shards.
    pub const fn owns_lanes(self) -> bool {
        matches!(self, Self::All | Self::Worker)
    }

    /// Whether it answers requests of the API.
    pub const fn listens(self) -> bool {
        matches!(self, Self::All | Self::Api)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(word: &str) -> Result<Self, UnknownRole> {
        Self::EVERY.into_iter().find(|role| role.as_str() == word).ok_or(UnknownRole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_written_and_read_as_one_word() {
        for role in Role::EVERY {
            assert_eq!(role.to_string().parse(), Ok(role));
            assert_eq!(serde_json::to_string(&role).expect("a word"), format!("\"{role}\""));
        }
        assert_eq!("everything".parse::<Role>(), Err(UnknownRole));
    }

    #[test]
    fn who_only_listens_owns_nothing() {
        assert_eq!(Role::EVERY.map(Role::owns_lanes), [true, false, true]);
        assert_eq!(Role::EVERY.map(Role::listens), [true, true, false]);
    }
}
