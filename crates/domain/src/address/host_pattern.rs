//! Names in the operator's lists: one name, or every name below one.

use std::{fmt, str::FromStr};
use url::Host;

/// `hooks.example.com`, or `*.example.com` for every name below it and not itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// As a checked URL has it: ASCII, in lower case, without a trailing dot.
    name: String,
    /// Whatever is below the name, instead of the name.
    below: bool,
}

/// Patterns separated by commas.
pub fn parse_host_list(text: &str) -> Result<Vec<HostPattern>, HostListError> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::parse).collect()
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a name such as hooks.example.com nor all names below one, such as *.example.com")]
pub struct HostListError(String);

impl HostPattern {
    pub(super) fn covers(&self, name: &str) -> bool {
        match name.strip_suffix(&*self.name) {
            Some("") => !self.below,
            Some(head) => self.below && head.ends_with('.'),
            None => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = HostListError;

    fn from_str(text: &str) -> Result<Self, HostListError> {
        let wrong = || HostListError(text.into());
        let (name, below) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        // A pattern that no name fits, such as `*` or an address, would do nothing without a word.
        match Host::parse(name) {
            Ok(Host::Domain(name)) if !name.contains('*') && !name.split('.').any(str::is_empty) => {
                Ok(Self { name, below })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.name)
    }
}
