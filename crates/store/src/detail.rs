//! An attempt's detail as the tables keep it: JSON, packed where that makes it smaller.
//!
//! Details are short and much alike, so they are packed with a dictionary of what is usual in them. A packed one begins
//! with the version of its dictionary, in the place of the four bytes with which every zstd frame begins. Dictionaries
//! are never changed: what was packed with one is unpacked with it.
//!
//! The 240 bytes of a plain success take 85, and 420 with an answer's headers 125, for 1 to 2 µs when they are written and
//! half of one when they are read.

use domain::{
    attempt::{AttemptError, Detail},
    dice::Dice,
    id::{AttemptId, DeliveryId},
    limits,
    seal::{DataKey, SealError, Sealed},
};
use std::{cell::RefCell, sync::LazyLock};
use zstd::{
    bulk::{Compressor, Decompressor},
    dict::{DecoderDictionary, EncoderDictionary},
    zstd_safe::{CParameter, get_frame_content_size},
};

#[cfg(test)]
mod samples;

/// Made of `words.1` by `scripts/dictionary`.
const DICTIONARY: &[u8] = include_bytes!("detail/dictionary.1");
const VERSION: u8 = 1;
const UNREADABLE: &str = "detail_unreadable";
/// The quickest: the 240 bytes of a plain success take 85, for 1.4 µs; at level 4 they take 80, for 2 µs.
const LEVEL: i32 = 1;
const FRAME: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

static PACKS: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
static UNPACKS: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));

thread_local! {
    static PACKER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// What is written of a detail.
pub(crate) enum StoredDetail {
    Text(String),
    Packed(Vec<u8>),
}

impl StoredDetail {
    pub(crate) fn of(detail: &Detail) -> Self {
        let text = serde_json::to_string(detail).expect("texts and numbers are always JSON");
        match pack(text.as_bytes()) {
            Some(packed) => Self::Packed(packed),
            None => Self::Text(text),
        }
    }
}

pub(crate) fn of_text(text: &[u8]) -> Detail {
    serde_json::from_slice(text).unwrap_or_else(|_| unreadable())
}

pub(crate) fn of_packed(packed: &[u8]) -> Detail {
    unpack(packed).map_or_else(unreadable, |text| of_text(&text))
}

/// All of a detail, sealed: of an account that has its payloads encrypted. Packed first: what is sealed does not pack.
pub fn seal_detail(detail: &Detail, of: (DeliveryId, AttemptId), key: &DataKey, dice: &dyn Dice) -> Detail {
    let text = serde_json::to_string(detail).expect("texts and numbers are always JSON");
    let packed = pack(text.as_bytes());
    let plain = packed.as_deref().unwrap_or(text.as_bytes());
    Detail { sealed: Some(key.seal_row(&place(of), plain, dice)), ..Detail::default() }
}

/// What [`seal_detail`] has sealed.
pub fn open_detail(sealed: &Sealed, of: (DeliveryId, AttemptId), key: &DataKey) -> Result<Detail, SealError> {
    let plain = key.open_row(&place(of), sealed.0.clone())?;
    // No text begins with a version.
    Ok(match plain.first() {
        Some(&VERSION) => of_packed(&plain),
        _ => of_text(&plain),
    })
}

/// What is shown of a detail whose key is gone.
pub fn shut_detail() -> Detail {
    let message = "the detail of this attempt is encrypted by a data key that its account has no more";
    let error = AttemptError { code: UNREADABLE.into(), kind: None, message: message.into() };
    Detail { error: Some(error), ..Detail::default() }
}

fn place((delivery, attempt): (DeliveryId, AttemptId)) -> String {
    format!("attempts|detail|{delivery}|{attempt}")
}

/// That an attempt was made, and what it met, is known without its detail: it is shown, and says what is missing.
fn unreadable() -> Detail {
    let message = "the detail of this attempt cannot be read: it was altered, or written by a newer version";
    let error = AttemptError { code: UNREADABLE.into(), kind: None, message: message.into() };
    Detail { error: Some(error), ..Detail::default() }
}

pub(crate) fn is_unreadable(detail: &Detail) -> bool {
    detail.error.as_ref().is_some_and(|error| error.code == UNREADABLE)
}

/// None if it is not worth it.
fn pack(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() > limits::DETAIL_UNPACKED_BYTES {
        return None;
    }
    let mut frame = PACKER.with_borrow_mut(|packer| {
        let packer = match packer {
            Some(packer) => packer,
            none => none.insert(packer_with_dictionary()?),
        };
        packer.compress(text).ok()
    })?;
    frame.drain(..FRAME.len() - 1);
    frame[0] = VERSION;
    (frame.len() <= text.len() / 8 * 7).then_some(frame)
}

fn packer_with_dictionary() -> Option<Compressor<'static>> {
    let mut packer = Compressor::with_prepared_dictionary(&PACKS).ok()?;
    // The version says which one it is.
    packer.set_parameter(CParameter::DictIdFlag(false)).ok()?;
    Some(packer)
}

/// Never more than the limit, whatever it says of itself.
fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let [VERSION, rest @ ..] = packed else { return None };
    let frame = [&FRAME, rest].concat();
    let size = usize::try_from(get_frame_content_size(&frame).ok()??).ok()?;
    if size > limits::DETAIL_UNPACKED_BYTES {
        return None;
    }
    UNPACKER.with_borrow_mut(|unpacker| {
        let unpacker = match unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(Decompressor::with_prepared_dictionary(&UNPACKS).ok()?),
        };
        unpacker.decompress(&frame, size).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::attempt::Response;

    fn read(kept: &StoredDetail) -> Detail {
        match kept {
            StoredDetail::Text(text) => of_text(text.as_bytes()),
            StoredDetail::Packed(packed) => of_packed(packed),
        }
    }

    fn packed(detail: &Detail) -> Vec<u8> {
        match StoredDetail::of(detail) {
            StoredDetail::Packed(packed) => packed,
            StoredDetail::Text(text) => panic!("not packed: {text}"),
        }
    }

    fn with_body(body: String) -> Detail {
        let response = Response { body: Some(body), ..Response::default() };
        Detail { response: Some(response), ..Detail::default() }
    }

    /// Of another seed than those the dictionary was made of.
    fn usual() -> Vec<Detail> {
        samples::of(0xfeed).take(500).collect()
    }

    #[test]
    fn what_is_kept_gives_the_detail_back() {
        let every_character: String = ('\0'..='\u{2fff}').chain(['\u{10ffff}']).collect();
        let odd = [Detail::default(), with_body(String::new()), with_body(every_character)];
        for detail in usual().into_iter().chain(odd) {
            assert_eq!(read(&StoredDetail::of(&detail)), detail);
        }
    }

    #[test]
    fn usual_details_take_less_than_half() {
        let details = usual();
        let text: usize = details.iter().map(|detail| serde_json::to_string(detail).unwrap().len()).sum();
        let kept: usize = details.iter().map(|detail| packed(detail).len()).sum();
        assert!(kept * 2 < text, "{kept} of {text}");
    }

    #[test]
    fn the_dictionary_is_the_one_of_its_words() {
        let words: String = include_str!("detail/words.1").lines().collect();
        assert!(DICTIONARY.ends_with(words.as_bytes()));
    }

    #[test]
    fn rows_of_before_are_read_as_they_are() {
        let text = br#"{"url":"https://a.example/","request_headers":[],"timing":{"dns_us":1}}"#;
        let detail = of_text(text);
        assert_eq!((detail.url.as_str(), detail.timing.dns_us), ("https://a.example/", Some(1)));
    }

    #[test]
    fn what_was_packed_with_the_first_dictionary_is_read_for_ever() {
        let detail = with_body("a message".into());
        let hex = "012058c500002061207d7d06fc119b3889ff8cf234e64e09da66ec348813";
        let kept: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        assert_eq!(of_packed(&kept), detail, "{:02x?}", packed(&detail));
    }

    #[test]
    fn what_was_altered_is_shown_as_far_as_it_can_be_read() {
        let original = usual().remove(0);
        let bytes = packed(&original);
        let mut unreadable_ones = 0;
        for at in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[at / 8] ^= 1 << (at % 8);
            unreadable_ones += usize::from(of_packed(&altered) == unreadable());
        }
        // The others have another letter somewhere, as text would have.
        assert!(unreadable_ones > bytes.len(), "{unreadable_ones} of {}", bytes.len() * 8);
        for cut in 0..bytes.len() {
            assert_eq!(of_packed(&bytes[..cut]), unreadable(), "{cut} bytes");
        }
        assert_eq!(of_text(b""), unreadable());
        assert_eq!(of_text(b"{\"url\":\"\xff\"}"), unreadable());
    }

    #[test]
    fn another_version_is_not_guessed_at() {
        let mut bytes = packed(&usual().remove(0));
        bytes[0] = VERSION + 1;
        assert_eq!(of_packed(&bytes), unreadable());
    }

    #[test]
    fn no_more_is_packed_or_unpacked_than_the_limit() {
        let fits = vec![b'x'; limits::DETAIL_UNPACKED_BYTES];
        let bytes = pack(&fits).expect("packed");
        assert_eq!(unpack(&bytes), Some(fits));
        let too_much = vec![b'x'; limits::DETAIL_UNPACKED_BYTES + 1];
        assert_eq!(pack(&too_much), None);
        let mut bomb = packer_with_dictionary().unwrap().compress(&too_much).unwrap();
        bomb.drain(..FRAME.len() - 1);
        bomb[0] = VERSION;
        assert!(bomb.len() < 200);
        assert_eq!(unpack(&bomb), None);
        let large = with_body("x".repeat(limits::DETAIL_UNPACKED_BYTES));
        let kept = StoredDetail::of(&large);
        assert!(matches!(kept, StoredDetail::Text(_)));
        assert_eq!(read(&kept), large);
    }

    #[test]
    fn a_sealed_detail_is_kept_and_opens_in_its_own_row_alone() {
        let dice = domain::testing::CountingDice::default();
        let master = domain::seal::MasterKeys::parse("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=").unwrap();
        let account = domain::id::AccountId::MIN;
        let key = master.data_key(account, &master.new_data_key(account, &dice)).unwrap();
        let (this, another) = ((DeliveryId::MIN, AttemptId::MIN), (DeliveryId::MAX, AttemptId::MIN));
        for detail in
            usual().into_iter().take(20).chain([with_body("x".repeat(limits::DETAIL_UNPACKED_BYTES))])
        {
            let sealed = seal_detail(&detail, this, &key, &dice);
            let kept = read(&StoredDetail::of(&sealed));
            assert_eq!(kept, sealed);
            let seal = kept.sealed.expect("it is sealed");
            assert_eq!(open_detail(&seal, this, &key).unwrap(), detail);
            assert_eq!(open_detail(&seal, another, &key), Err(SealError::DoesNotOpen));
            assert_eq!(Detail { sealed: None, ..sealed }, Detail::default(), "nothing is beside it");
        }
    }

    /// Run it by hand, in a release build: `cargo test --release -p store --lib -- --ignored --nocapture microseconds`.
    #[test]
    #[ignore = "a measurement"]
    fn microseconds() {
        let details = usual();
        let texts: Vec<String> =
            details.iter().map(|detail| serde_json::to_string(detail).unwrap()).collect();
        let kept: Vec<Vec<u8>> = details.iter().map(packed).collect();
        let time = |what: &str, run: &dyn Fn(usize)| {
            (0..details.len()).for_each(run);
            let begun = std::time::Instant::now();
            for _ in 0..100 {
                (0..details.len()).for_each(run);
            }
            println!("{what}: {:.2} µs", begun.elapsed().as_secs_f64() * 1e6 / (100 * details.len()) as f64);
        };
        time("pack", &|at| drop(std::hint::black_box(pack(texts[at].as_bytes()))));
        time("unpack", &|at| drop(std::hint::black_box(unpack(&kept[at]))));
        let sum = |all: &[usize]| all.iter().sum::<usize>() / all.len();
        let (texts, kept) = (texts.iter().map(String::len), kept.iter().map(Vec::len));
        println!("{} bytes of {}", sum(&kept.collect::<Vec<_>>()), sum(&texts.collect::<Vec<_>>()));
    }
}
