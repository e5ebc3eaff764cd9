//! Secrets that can be found again: texts that stand nowhere else, wherever a secret is given, and the secrets that a node
//! has made itself. What holds one of them, as it is or in hexadecimal digits or base64, has told a secret.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// By so many bytes a place that may be one is found.
const HEAD: usize = 8;

#[derive(Debug, Clone, Default)]
pub(crate) struct Canaries {
    /// What each is, and how many of them there are.
    planted: BTreeMap<String, usize>,
    /// By their first bytes.
    needles: BTreeMap<[u8; HEAD], Vec<(Vec<u8>, String)>>,
}

impl Canaries {
    /// A new one. Letters and digits alone: it may stand wherever a secret may.
    pub(crate) fn plant(&mut self, what: &str) -> String {
        let text = format!("Kanari{:032x}", rand::random::<u128>());
        self.know(what, &text);
        text
    }

    /// One that was made elsewhere, of at least sixteen bytes.
    pub(crate) fn know(&mut self, what: &str, secret: impl AsRef<[u8]>) {
        let secret = secret.as_ref();
        assert!(secret.len() >= 2 * HEAD, "too short to be found by chance: {what}");
        *self.planted.entry(what.to_owned()).or_default() += 1;
        let hexadecimal: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        // Without the end, which depends on what follows.
        let base64 = STANDARD.encode(&secret[..secret.len() / 3 * 3]);
        for needle in [secret.to_vec(), hexadecimal.to_uppercase().into(), hexadecimal.into(), base64.into()]
        {
            let head = needle[..HEAD].try_into().expect("it is long enough");
            self.needles.entry(head).or_default().push((needle, what.to_owned()));
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.planted.values().sum()
    }

    /// Of what kind there are how many.
    pub(crate) fn kinds(&self) -> &BTreeMap<String, usize> {
        &self.planted
    }

    /// What of them is in there.
    pub(crate) fn found_in(&self, hay: &[u8]) -> BTreeSet<&str> {
        // Most places are passed over by two bytes alone.
        let mut beginnings = vec![false; 1 << 16];
        for head in self.needles.keys() {
            beginnings[usize::from(u16::from_le_bytes([head[0], head[1]]))] = true;
        }
        let mut found = BTreeSet::new();
        for (at, window) in hay.windows(HEAD).enumerate() {
            if !beginnings[usize::from(u16::from_le_bytes([window[0], window[1]]))] {
                continue;
            }
            let head: [u8; HEAD] = window.try_into().expect("a window");
            for (needle, what) in self.needles.get(&head).into_iter().flatten() {
                if hay[at..].starts_with(needle) {
                    found.insert(what.as_str());
                }
            }
        }
        found
    }

    /// Every file below this folder, each with what is in it; and how many bytes were looked through.
    pub(crate) fn found_in_files(&self, folder: &Path) -> Result<(Vec<String>, u64)> {
        let (mut found, mut bytes, mut left) = (Vec::new(), 0, vec![folder.to_owned()]);
        while let Some(folder) = left.pop() {
            // Files of a database come and go while they are looked at.
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let path = entry.path();
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => left.push(path),
                    Ok(kind) if kind.is_file() => {
                        let Ok(hay) = std::fs::read(&path) else { continue };
                        bytes += hay.len() as u64;
                        found.extend(
                            self.found_in(&hay).iter().map(|what| format!("{what} in {}", path.display())),
                        );
                    }
                    _ => {}
                }
            }
        }
        Ok((found, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_as_it_is_and_in_what_it_is_usually_written_as() {
        let mut canaries = Canaries::default();
        let token = canaries.plant("a token");
        canaries.know("a key", [7; 32]);
        let hexadecimal: String = token.bytes().map(|byte| format!("{byte:02X}")).collect();
        for hay in [
            token.clone(),
            format!("xx{token}yy"),
            format!("\\x{hexadecimal}"),
            format!("x{}", hexadecimal.to_lowercase()),
            format!("AAAA{}", STANDARD.encode(&token)),
        ] {
            assert_eq!(canaries.found_in(hay.as_bytes()), BTreeSet::from(["a token"]), "{hay}");
        }
        assert_eq!(canaries.found_in(&[7; 40]), BTreeSet::from(["a key"]));
        assert_eq!(canaries.found_in(&[7; 31]), BTreeSet::new());
        assert_eq!(canaries.found_in(&token.as_bytes()[1..]), BTreeSet::new());
        assert_eq!(canaries.count(), 2);
    }
}
