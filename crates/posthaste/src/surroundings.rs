//! What around a node is not as it should be, and yet no reason not to start: the log says it at the start, `doctor` at
//! any time.

use crate::{commands::open, config::Config};
use ipnet::IpNet;
use std::{
    fs::{self, Metadata},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Concern {
    /// What was looked at, in a word.
    pub(crate) check: &'static str,
    pub(crate) detail: String,
    pub(crate) fix: String,
}

/// Before anything is made: the first look tells a new folder from one whose database is gone.
pub(crate) fn concerns(config: &Config) -> Vec<Concern> {
    let mut found = Vec::new();
    found.extend(config.secret_files.iter().filter_map(|path| open_to_others(path)));
    found.extend(folders(config).iter().filter_map(|path| writable_by_all(path)));
    found.extend(everything_allowed(&config.addresses.allow));
    if config.password_in_arguments {
        found.push(Concern {
            check: "arguments",
            detail: "a password is among the arguments: everybody on this machine can read it in `ps`".into(),
            fix: "Set it by the environment, POSTHASTE_DATABASE or POSTHASTE_DATABASE_FILE, instead of --database".into(),
        });
    }
    if let Some(file) = open::file(config) {
        found.extend(lost(&file, &config.secret_files));
        found.extend(second_name(&file));
    }
    found
}

/// The data folder, and that of the database if it is another.
fn folders(config: &Config) -> Vec<PathBuf> {
    let mut folders = vec![config.data_dir.clone()];
    folders.extend(open::file(config).map(|file| folder_of(&file).to_owned()));
    folders.dedup();
    folders
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Not the group: a service may well read what belongs to root by it.
fn open_to_others(path: &Path) -> Option<Concern> {
    let mode = mode(&fs::metadata(path).ok()?);
    (mode & 0o006 != 0).then(|| Concern {
        check: "secret_files",
        detail: format!(
            "{} has mode {mode:o}: every user of this machine can read the secrets in it",
            path.display()
        ),
        fix: format!("`chmod 600 {}`", path.display()),
    })
}

fn writable_by_all(folder: &Path) -> Option<Concern> {
    let mode = mode(&fs::metadata(folder).ok()?);
    (mode & 0o002 != 0).then(|| Concern {
        check: "folder_modes",
        detail: format!(
            "{} has mode {mode:o}: every user of this machine can replace what is in it",
            folder.display()
        ),
        fix: format!("`chmod 700 {}`", folder.display()),
    })
}

fn mode(found: &Metadata) -> u32 {
    found.permissions().mode() & 0o777
}

/// By one network or by several together.
fn everything_allowed(allow: &[IpNet]) -> Option<Concern> {
    let all = IpNet::aggregate(&allow.to_vec()).into_iter().find(|network| network.prefix_len() == 0)?;
    Some(Concern {
        check: "egress",
        detail: format!(
            "egress.allow covers {all}: whoever makes a destination can have this machine's own network called, cloud \
             metadata included"
        ),
        fix: "Name only the private networks that destinations are in; public ones need no entry".into(),
    })
}

/// A database that is missing or empty where one seems to have been: lost, or on a volume that is not mounted.
fn lost(file: &Path, secrets: &[PathBuf]) -> Option<Concern> {
    if fs::metadata(file).is_ok_and(|found| found.len() > 0) {
        return None;
    }
    let (folder, name) = (folder_of(file), file.file_name()?.to_str()?);
    let real = fs::canonicalize(folder).ok()?;
    let is_sign = |found: &str| {
        let of_ours =
            found.strip_prefix(name).is_some_and(|rest| [".lock", ".reserve", "-wal"].contains(&rest));
        let ends = [".db", ".db.part", ".sqlite", ".key"].iter().any(|ending| found.ends_with(ending));
        let secret =
            secrets.iter().any(|path| fs::canonicalize(path).is_ok_and(|path| path == real.join(found)));
        found != name && (of_ours || ends || secret || found == "dev.toml")
    };
    let entries = fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut signs: Vec<String> = entries.filter(|found| is_sign(found)).collect();
    signs.sort();
    let sign = signs.first()?;
    let state = if file.exists() { "is empty" } else { "is not there" };
    Some(Concern {
        check: "database_file",
        detail: format!(
            "{} {state}, and its folder is not new ({sign} lies there): a start makes a new, empty store",
            file.display()
        ),
        fix: "Is the right volume mounted, and is --data-dir right? If the database was lost: stop, restore a backup, \
              start"
            .into(),
    })
}

fn second_name(file: &Path) -> Option<Concern> {
    (fs::metadata(file).ok()?.nlink() > 1).then(|| Concern {
        check: "database_file",
        detail: format!(
            "{} has a second name (a hard link): SQLite's log belongs to one of them, and what is in it is not found by \
             the other",
            file.display()
        ),
        fix: "Remove the other name; `posthaste backup` makes a copy".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_can_read_or_replace_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("master.key");
        fs::write(&key, "k1:abc").unwrap();
        for (mode, told) in [(0o600, false), (0o640, false), (0o644, true), (0o602, true)] {
            set_mode(&key, mode);
            assert_eq!(open_to_others(&key).is_some(), told, "{mode:o}");
        }
        for (mode, told) in [(0o700, false), (0o755, false), (0o777, true)] {
            set_mode(folder.path(), mode);
            assert_eq!(writable_by_all(folder.path()).is_some(), told, "{mode:o}");
        }
    }

    #[test]
    fn networks_that_cover_everything_are_told_also_when_they_do_so_together() {
        let of = |text: &str| {
            let networks: Vec<IpNet> = text.split(',').map(|network| network.parse().unwrap()).collect();
            everything_allowed(&networks).is_some()
        };
        assert!(of("0.0.0.0/0") && of("10.0.0.0/8,::/0") && of("0.0.0.0/1,128.0.0.0/1"));
        assert!(!of("10.0.0.0/8,127.0.0.0/8") && everything_allowed(&[]).is_none());
    }

    #[test]
    fn a_database_that_is_gone_from_a_folder_in_use_is_told_and_a_new_folder_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("posthaste.db");
        assert_eq!(lost(&file, &[]), None, "a new folder");
        assert_eq!(lost(&folder.path().join("none/posthaste.db"), &[]), None, "no folder yet");
        fs::write(folder.path().join("posthaste.lock"), "1").unwrap();
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        assert_eq!(lost(&file, &[]), None, "a start that was refused leaves its lock");
        for sign in ["posthaste.db.reserve", "posthaste.db-wal", "master.key", "monday.db", "dev.toml"] {
            let sign = folder.path().join(sign);
            fs::write(&sign, "").unwrap();
            assert!(lost(&file, &[]).unwrap().detail.contains("is not there"), "{sign:?}");
            fs::write(&file, "").unwrap();
            assert!(lost(&file, &[]).unwrap().detail.contains("is empty"), "{sign:?}");
            fs::write(&file, "rows").unwrap();
            assert_eq!(lost(&file, &[]), None);
            fs::remove_file(&file).unwrap();
            fs::remove_file(&sign).unwrap();
        }
        let secret = folder.path().join("secret");
        fs::write(&secret, "").unwrap();
        assert!(lost(&file, &[secret]).is_some(), "the file of the master key, whatever it is called");
    }

    #[test]
    fn a_second_name_of_the_database_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("posthaste.db");
        fs::write(&file, "rows").unwrap();
        assert_eq!(second_name(&file), None);
        fs::hard_link(&file, folder.path().join("copy.db")).unwrap();
        assert!(second_name(&file).is_some());
    }
}
