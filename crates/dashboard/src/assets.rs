//! The files a browser loads. Their address names the contents of them all, so that they can be kept for ever and a module
//! finds the others beside it; in a debug build they are read from the source tree each time.
//!
//! They travel packed where the browser says that it takes it. Pages do not: they have a session's token beside what somebody
//! else may have written, and how well the two pack together would tell of the token.

use axum::{
    body::Bytes,
    extract::Path,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode, header};
use std::{
    borrow::Cow,
    collections::HashMap,
    fmt::Write as _,
    sync::{LazyLock, Mutex, PoisonError},
};

struct Asset {
    name: &'static str,
    content_type: &'static str,
    embedded: &'static [u8],
}

/// Above it nothing here becomes smaller.
const LEVEL: i32 = 19;
const ICON: &str = "icon.svg";
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
    "choices.js" as JAVASCRIPT,
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
    // Of another version (a node that is being replaced): what we have, for now.
    let kept = if asked == version() { "public, max-age=31536000, immutable" } else { "no-cache" };
    asset.answer(kept, &headers)
}

/// What browsers ask for by themselves, whatever a page says of its icon.
pub(crate) async fn favicon(headers: HeaderMap) -> Response {
    ASSETS
        .iter()
        .find(|asset| asset.name == ICON)
        .expect("there is an icon")
        .answer("public, max-age=86400", &headers)
}

impl Asset {
    fn answer(&self, kept: &'static str, headers: &HeaderMap) -> Response {
        let bytes = self.bytes();
        let is_packed = takes_zstd(headers);
        let etag = format!("\"{:016x}{}\"", hash(&bytes, SEED), if is_packed { "z" } else { "" });
        let about = [
            (header::ETAG, etag.clone()),
            (header::CACHE_CONTROL, kept.to_owned()),
            (header::VARY, "accept-encoding".to_owned()),
        ];
        let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        if known.is_some_and(|known| known.split(',').any(|one| one.trim() == etag)) {
            return (StatusCode::NOT_MODIFIED, about).into_response();
        }
        let content = [(header::CONTENT_TYPE, self.content_type)];
        if is_packed {
            return (about, content, [(header::CONTENT_ENCODING, "zstd")], packed(&bytes)).into_response();
        }
        (about, content, bytes.into_owned()).into_response()
    }

    fn bytes(&self) -> Cow<'static, [u8]> {
        if cfg!(debug_assertions)
            && let Ok(bytes) = std::fs::read(format!("{}/assets/{}", env!("CARGO_MANIFEST_DIR"), self.name))
        {
            return bytes.into();
        }
        self.embedded.into()
    }
}

fn takes_zstd(headers: &HeaderMap) -> bool {
    let said = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    said.split(',').any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim().eq_ignore_ascii_case("zstd")
            && !matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    })
}

/// Made the first time it is asked for.
fn packed(bytes: &[u8]) -> Bytes {
    static PACKED: LazyLock<Mutex<HashMap<u64, Bytes>>> = LazyLock::new(Mutex::default);
    let mut packed = PACKED.lock().unwrap_or_else(PoisonError::into_inner);
    // Only in a debug build are there ever more contents than files.
    if packed.len() > ASSETS.len() {
        packed.clear();
    }
    let pack = || zstd::bulk::compress(bytes, LEVEL).expect("memory to memory").into();
    packed.entry(hash(bytes, SEED)).or_insert_with(pack).clone()
}

/// The same for the same contents of all files.
fn version() -> Cow<'static, str> {
    static OF_WHAT_IS_EMBEDDED: LazyLock<String> = LazyLock::new(version_now);
    if cfg!(debug_assertions) { version_now().into() } else { OF_WHAT_IS_EMBEDDED.as_str().into() }
}

fn version_now() -> String {
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
    use http::HeaderValue;

    #[test]
    fn no_file_has_anything_of_elsewhere_in_it() {
        for asset in ASSETS {
            let text = String::from_utf8_lossy(asset.embedded).replace("http://www.w3.org/", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{}", asset.name);
        }
    }

    #[test]
    fn everything_a_page_loads_is_small() {
        let bytes: usize = ASSETS.iter().map(|asset| packed(asset.embedded).len()).sum();
        assert!(bytes < 45_000, "{bytes} bytes packed, and a page itself may have 100,000");
        let bytes: usize = ASSETS.iter().map(|asset| asset.embedded.len()).sum();
        assert!(bytes < 150_000, "{bytes} bytes for a browser that does not unpack");
    }

    #[test]
    fn a_file_travels_packed_to_whom_says_so_and_is_the_same_file() {
        let answered = |said: Option<&'static str>| {
            let headers = said.map(|said| (header::ACCEPT_ENCODING, HeaderValue::from_static(said)));
            let asset = ASSETS.iter().find(|asset| asset.name == "app.css").unwrap();
            asset.answer("no-cache", &headers.into_iter().collect())
        };
        for said in ["gzip, deflate, br, zstd", "ZSTD;q=0.5"] {
            let answer = answered(Some(said));
            assert_eq!(answer.headers()[header::CONTENT_ENCODING], "zstd");
            assert_ne!(answer.headers()[header::ETAG], answered(None).headers()[header::ETAG]);
        }
        for said in [None, Some("gzip"), Some("zstd;q=0, gzip")] {
            assert!(!answered(said).headers().contains_key(header::CONTENT_ENCODING), "{said:?}");
        }
        for asset in ASSETS {
            let unpacked = zstd::bulk::decompress(&packed(asset.embedded), asset.embedded.len()).unwrap();
            assert!(unpacked == asset.embedded, "{}", asset.name);
        }
    }
}
