//! The files a browser loads. Their address names the contents of them all, so that they can be kept for ever and a module
//! finds the others beside it; in a debug build they are read from the source tree each time.

use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, header};
use std::{borrow::Cow, fmt::Write as _};

struct Asset {
    name: &'static str,
    content_type: &'static str,
    embedded: &'static [u8],
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! assets {
    ($($name:literal as $content_type:expr),* $(,)?) => {
        const ASSETS: &[Asset] = &[$(Asset {
            name: $name,
            content_type: $content_type,
            embedded: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/", $name)),
        }),*];
    };
}

assets! {
    "app.css" as "text/css; charset=utf-8",
    "theme.js" as JAVASCRIPT,
    "app.js" as JAVASCRIPT,
    "dom.js" as JAVASCRIPT,
    "live.js" as JAVASCRIPT,
    "charts.js" as JAVASCRIPT,
    "points.js" as JAVASCRIPT,
    "filters.js" as JAVASCRIPT,
    "limits.js" as JAVASCRIPT,
    "actions.js" as JAVASCRIPT,
    "names.js" as JAVASCRIPT,
    "why.js" as JAVASCRIPT,
    "palette.js" as JAVASCRIPT,
    "login.js" as JAVASCRIPT,
    "icon.svg" as "image/svg+xml",
}

/// Where a page finds a file.
pub(crate) fn url(name: &str) -> String {
    format!("/assets/{}/{name}", version())
}

pub(crate) async fn serve(Path((asked, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return (StatusCode::NOT_FOUND, "no such file").into_response();
    };
    let bytes = asset.bytes();
    let etag = format!("\"{:016x}\"", hash(&bytes, SEED));
    // Of another version (a node that is being replaced): what we have, for now.
    let kept = if asked == version() { "public, max-age=31536000, immutable" } else { "no-cache" };
    let about = [(header::ETAG, etag.clone()), (header::CACHE_CONTROL, kept.to_owned())];
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|one| one.trim() == etag)) {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, [(header::CONTENT_TYPE, asset.content_type)], bytes.into_owned()).into_response()
}

impl Asset {
    fn bytes(&self) -> Cow<'static, [u8]> {
        if cfg!(debug_assertions)
            && let Ok(bytes) = std::fs::read(format!("{}/assets/{}", env!("CARGO_MANIFEST_DIR"), self.name))
        {
            return bytes.into();
        }
        self.embedded.into()
    }
}

/// The same for the same contents of all files.
fn version() -> String {
    let all = ASSETS.iter().fold(SEED, |so_far, asset| hash(&asset.bytes(), so_far));
    let mut text = String::new();
    let _ = write!(text, "{all:016x}");
    text
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: it tells versions apart and guards nothing.
fn hash(bytes: &[u8], seed: u64) -> u64 {
    bytes.iter().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_has_anything_of_elsewhere_in_it() {
        for asset in ASSETS {
            let text = String::from_utf8_lossy(asset.embedded).replace("http://www.w3.org/", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{}", asset.name);
        }
    }

    #[test]
    fn everything_a_page_loads_is_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.embedded.len()).sum();
        assert!(bytes < 115_000, "{bytes} bytes, and a page itself may have 35,000");
    }
}
