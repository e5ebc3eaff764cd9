//! What a command is given to read: a file, or standard input.

use crate::{config::MAX_BODY_BYTES, failure::Failure};
use anyhow::Context;
use std::{fs::File, io::Read};

/// `-` is standard input.
pub(super) fn file_or_input(path: &str) -> Result<Vec<u8>, Failure> {
    match path {
        "-" => read(std::io::stdin().lock(), "standard input"),
        path => read(File::open(path).with_context(|| format!("{path} cannot be read"))?, path),
    }
}

/// All of it, but no more than any server takes.
fn read(from: impl Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let most = MAX_BODY_BYTES as u64;
    from.take(most + 1).read_to_end(&mut bytes).with_context(|| format!("{name} cannot be read"))?;
    if bytes.len() as u64 > most {
        return Err(Failure::configuration(format!("{name} has more than {most} bytes")));
    }
    Ok(bytes)
}
