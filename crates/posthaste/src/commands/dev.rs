//! The keys of `serve --dev`, kept in `<data_dir>/dev.toml` so that every start has the same ones.

use crate::{dice::SystemDice, failure::Failure};
use anyhow::Context;
use api::keys::KeyText;
use domain::account::KeyKind;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

const FILE: &str = "dev.toml";
const HEAD: &str =
    "# Made by `posthaste serve --dev`. Whoever reads this can use the installation: for development only.\n";

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DevKeys {
    pub(crate) master_key: String,
    pub(crate) api_key: String,
}

impl DevKeys {
    /// The keys of this folder; made and kept if it has none.
    pub(crate) fn read_or_make(data_dir: &Path) -> Result<Self, Failure> {
        if let Some(keys) = Self::read(data_dir)? {
            return Ok(keys);
        }
        let keys = Self {
            master_key: super::keys::new_master_key("k1"),
            api_key: KeyText::generate(KeyKind::Account, &SystemDice).expose().to_owned(),
        };
        keys.write(data_dir)?;
        Ok(keys)
    }

    /// The same with another API key, kept instead: the old one has been revoked.
    pub(crate) fn with_new_key(self, data_dir: &Path) -> Result<Self, Failure> {
        let api_key = KeyText::generate(KeyKind::Account, &SystemDice).expose().to_owned();
        let keys = Self { api_key, ..self };
        keys.write(data_dir)?;
        Ok(keys)
    }

    fn write(&self, data_dir: &Path) -> Result<(), Failure> {
        let path = Self::path(data_dir);
        let text = format!("{HEAD}{}", toml::to_string(self).map_err(Failure::failed)?);
        // Whole or not at all: a start that is killed here must not leave a folder that no later one can open.
        let fresh = data_dir.join(format!("{FILE}.new"));
        let written = write_private(&fresh, &text).and_then(|()| fs::rename(&fresh, &path));
        Ok(written.with_context(|| format!("{} cannot be written", path.display()))?)
    }

    pub(crate) fn path(data_dir: &Path) -> PathBuf {
        data_dir.join(FILE)
    }

    pub(crate) fn read(data_dir: &Path) -> Result<Option<Self>, Failure> {
        let path = Self::path(data_dir);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let keys = toml::from_str(&text).map_err(|error| {
                    Failure::configuration(format!(
                        "{} is damaged ({}); remove it together with the database to begin afresh",
                        path.display(),
                        error.message()
                    ))
                })?;
                Ok(Some(keys))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(anyhow::Error::new(error).context(format!("{} cannot be read", path.display())).into())
            }
        }
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_keys_are_made_once_and_only_their_owner_can_read_them() {
        let folder = tempfile::tempdir().unwrap();
        let first = DevKeys::read_or_make(folder.path()).unwrap();
        let second = DevKeys::read_or_make(folder.path()).unwrap();
        assert_eq!((first.master_key, first.api_key), (second.master_key, second.api_key));
        let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
