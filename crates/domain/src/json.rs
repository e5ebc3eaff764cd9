//! JSON to be looked at and forgotten: what filters read of a payload.
//!
//! A tree of values takes some seventy times the room of a text of small ones: five megabytes of them became 345 MiB. Here
//! the text stays where it is, a value is a word of four bytes, and a string or a large number some more: at most five times
//! the text. Which texts are JSON is decided by serde_json, so that this reader and a tree agree.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::{borrow::Cow, collections::HashMap, fmt};

/// Members of an object from which on they are found by their order and not one by one.
const WIDE: usize = 16;
/// Values that an explanation shows of an array or an object; of a larger one it says how large it is.
const SHOWN_VALUES: usize = 1_000;

/// A text that is JSON, and where its values are.
#[derive(Debug, Clone)]
pub struct Document<'t> {
    text: Cow<'t, str>,
    tape: Tape,
}

/// A value of a document.
#[derive(Debug, Clone, Copy)]
pub struct JsonValue<'d> {
    document: &'d Document<'d>,
    at: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum JsonKind<'d> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'d str),
    Array,
    Object,
}

/// All values in the order of the text, each a word: three bits say what it is, the others where the rest of it is.
/// An array or an object has a second word, the place after its last value; in an object names and values alternate.
#[derive(Debug, Clone, Default)]
struct Tape {
    words: Vec<u32>,
    numbers: Vec<Number>,
    /// Beginning and length, in the text or in `unescaped`.
    texts: Vec<(u32, u32)>,
    /// What strings with escapes mean.
    unescaped: String,
    /// Of wide objects: the places of their names, sorted by name, and then by place.
    sorted: HashMap<u32, Box<[u32]>>,
}

const TAG_BITS: u32 = 3;
const LARGEST: u32 = u32::MAX >> TAG_BITS;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Tag {
    Word,
    Small,
    Number,
    Text,
    Unescaped,
    Array,
    Object,
}

const TAGS: [Tag; 7] =
    [Tag::Word, Tag::Small, Tag::Number, Tag::Text, Tag::Unescaped, Tag::Array, Tag::Object];

impl<'t> Document<'t> {
    /// None if it is not JSON.
    pub fn parse(text: &'t [u8]) -> Option<Self> {
        Self::read(Cow::Borrowed(std::str::from_utf8(text).ok()?))
    }

    pub fn of(value: &Value) -> Document<'static> {
        Document::read(Cow::Owned(value.to_string())).unwrap_or_else(|| Document {
            text: Cow::Borrowed("null"),
            tape: Tape { words: vec![0], ..Tape::default() },
        })
    }

    fn read(text: Cow<'t, str>) -> Option<Self> {
        if text.len() > LARGEST as usize {
            return None;
        }
        let mut reader = Reader { text: &text, tape: Tape::default() };
        let mut input = serde_json::Deserializer::from_str(&text);
        reader.deserialize(&mut input).ok()?;
        input.end().ok()?;
        let tape = reader.tape;
        Some(Self { text, tape })
    }

    pub fn root(&self) -> JsonValue<'_> {
        JsonValue { document: self, at: 0 }
    }

    fn text(&self, at: usize) -> &str {
        let (tag, rest) = self.tape.word(at);
        let (start, length) = self.tape.texts[rest as usize];
        let from: &str = if tag == Tag::Unescaped { &self.tape.unescaped } else { &self.text };
        &from[start as usize..(start + length) as usize]
    }
}

impl<'d> JsonValue<'d> {
    pub fn kind(self) -> JsonKind<'d> {
        let tape = &self.document.tape;
        let (tag, rest) = tape.word(self.at);
        match tag {
            Tag::Word if rest == 0 => JsonKind::Null,
            Tag::Word => JsonKind::Bool(rest == 1),
            Tag::Small => JsonKind::Number(rest.into()),
            Tag::Number => JsonKind::Number(tape.numbers[rest as usize].clone()),
            Tag::Text | Tag::Unescaped => JsonKind::Text(self.document.text(self.at)),
            Tag::Array => JsonKind::Array,
            Tag::Object => JsonKind::Object,
        }
    }

    /// A member of an object; of several with this name, the last.
    pub fn field(self, name: &str) -> Option<JsonValue<'d>> {
        let Self { document, at } = self;
        if document.tape.word(at).0 != Tag::Object {
            return None;
        }
        if let Some(sorted) = document.tape.sorted.get(&(at as u32)) {
            let after = sorted.partition_point(|place| document.text(*place as usize) <= name);
            let found = *sorted.get(after.checked_sub(1)?)? as usize;
            return (document.text(found) == name).then_some(JsonValue { document, at: found + 1 });
        }
        self.members().filter(|(found, _)| *found == name).last().map(|(_, value)| value)
    }

    /// The elements of an array.
    pub fn elements(self) -> Option<impl Iterator<Item = JsonValue<'d>>> {
        (self.document.tape.word(self.at).0 == Tag::Array).then(|| self.inside())
    }

    /// The members of an object, names that come twice included; nothing of anything else.
    pub fn members(self) -> impl Iterator<Item = (&'d str, JsonValue<'d>)> {
        let is_object = self.document.tape.word(self.at).0 == Tag::Object;
        let mut inside = self.inside();
        std::iter::from_fn(move || {
            let name = inside.next().filter(|_| is_object)?;
            Some((self.document.text(name.at), inside.next()?))
        })
    }

    /// As a tree, for people: of what is too large only how large it is.
    pub fn to_value(self) -> Value {
        match self.kind() {
            JsonKind::Null => Value::Null,
            JsonKind::Bool(value) => value.into(),
            JsonKind::Number(number) => Value::Number(number),
            JsonKind::Text(text) => text.into(),
            JsonKind::Array if self.end() - self.at > SHOWN_VALUES => {
                format!("an array of {} elements", self.inside().count()).into()
            }
            JsonKind::Array => self.inside().map(JsonValue::to_value).collect(),
            JsonKind::Object if self.end() - self.at > SHOWN_VALUES => {
                format!("an object of {} members", self.members().count()).into()
            }
            JsonKind::Object => {
                let members = self.members().map(|(name, value)| (name.to_owned(), value.to_value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    fn end(self) -> usize {
        self.document.tape.after(self.at)
    }

    /// Whatever is directly inside, in its order.
    fn inside(self) -> impl Iterator<Item = JsonValue<'d>> {
        let Self { document, at } = self;
        let is_container = matches!(document.tape.word(at).0, Tag::Array | Tag::Object);
        let (mut next, end) = if is_container { (at + 2, self.end()) } else { (at, at) };
        std::iter::from_fn(move || {
            let at = (next < end).then_some(next)?;
            next = document.tape.after(at);
            Some(JsonValue { document, at })
        })
    }
}

impl Tape {
    fn word(&self, at: usize) -> (Tag, u32) {
        let word = self.words[at];
        (TAGS[(word & ((1 << TAG_BITS) - 1)) as usize], word >> TAG_BITS)
    }

    /// The place after a value and all that is in it.
    fn after(&self, at: usize) -> usize {
        match self.word(at).0 {
            Tag::Array | Tag::Object => self.words[at + 1] as usize,
            _ => at + 1,
        }
    }

    fn push(&mut self, tag: Tag, rest: usize) {
        // No text has more values than bytes, so every place fits.
        self.words.push((rest as u32) << TAG_BITS | tag as u32);
    }

    fn begin(&mut self, tag: Tag) -> usize {
        let at = self.words.len();
        self.push(tag, 0);
        self.words.push(0);
        at
    }

    fn end(&mut self, at: usize) {
        self.words[at + 1] = self.words.len() as u32;
    }

    fn number(&mut self, number: Number) {
        match number.as_u64().filter(|number| *number <= u64::from(LARGEST)) {
            Some(small) => self.push(Tag::Small, small as usize),
            None => {
                self.push(Tag::Number, self.numbers.len());
                self.numbers.push(number);
            }
        }
    }
}

/// Writes down what it is told of a text.
struct Reader<'t> {
    text: &'t str,
    tape: Tape,
}

impl Reader<'_> {
    fn is_wide(&self, at: usize, names: &[u32]) -> Option<(u32, Box<[u32]>)> {
        if names.len() <= WIDE {
            return None;
        }
        let mut sorted: Box<[u32]> = names.into();
        sorted.sort_by(|a, b| self.name(*a).cmp(self.name(*b)));
        Some((at as u32, sorted))
    }

    fn name(&self, at: u32) -> &str {
        let (tag, rest) = self.tape.word(at as usize);
        let (start, length) = self.tape.texts[rest as usize];
        let from = if tag == Tag::Unescaped { &self.tape.unescaped } else { self.text };
        &from[start as usize..(start + length) as usize]
    }
}

impl<'de> DeserializeSeed<'de> for &mut Reader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Reader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.tape.push(Tag::Word, 0);
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.tape.push(Tag::Word, if value { 1 } else { 2 });
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.tape.number(value.into());
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.tape.number(value.into());
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match Number::from_f64(value) {
            Some(number) => self.tape.number(number),
            None => return self.visit_unit(),
        }
        Ok(())
    }

    /// As it stands in the text: remembered by where that is.
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        let start = (text.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        if self.text.get(start..start + text.len()) != Some(text) {
            return self.visit_str(text);
        }
        self.tape.push(Tag::Text, self.tape.texts.len());
        self.tape.texts.push((start as u32, text.len() as u32));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.tape.push(Tag::Unescaped, self.tape.texts.len());
        self.tape.texts.push((self.tape.unescaped.len() as u32, text.len() as u32));
        self.tape.unescaped.push_str(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let at = self.tape.begin(Tag::Array);
        while elements.next_element_seed(&mut *self)?.is_some() {}
        self.tape.end(at);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let at = self.tape.begin(Tag::Object);
        let mut names = Vec::new();
        loop {
            let name = self.tape.words.len() as u32;
            if members.next_key_seed(&mut *self)?.is_none() {
                break;
            }
            names.push(name);
            members.next_value_seed(&mut *self)?;
        }
        self.tape.end(at);
        let wide = self.is_wide(at, &names);
        self.tape.sorted.extend(wide);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn values_are_found_where_they_are() {
        let text = br#"{"a": [1, -2, 3.5, "x\ny", null, true, false, 18446744073709551615], "b": {"c": {}}, "a\u0062": "z"}"#;
        let document = Document::parse(text).unwrap();
        let root = document.root();
        let tree: Value = serde_json::from_slice(text).unwrap();
        assert_eq!(root.to_value(), tree);
        assert_eq!(root.field("ab").unwrap().kind(), JsonKind::Text("z"));
        assert_eq!(root.field("b").unwrap().field("c").unwrap().kind(), JsonKind::Object);
        assert!(root.field("c").is_none() && root.field("a").unwrap().field("a").is_none());
        assert_eq!(root.field("a").unwrap().elements().unwrap().count(), 8);
        assert!(root.elements().is_none());
    }

    #[test]
    fn of_members_with_one_name_the_last_one_counts() {
        let narrow = Document::parse(br#"{"a": 1, "b": 2, "a": 3}"#).unwrap();
        assert_eq!(narrow.root().field("a").unwrap().to_value(), json!(3));
        let members: Vec<String> = (0..40).map(|n| format!("\"k{}\": {n}", n % 20)).collect();
        let text = format!("{{{}}}", members.join(","));
        let wide = Document::parse(text.as_bytes()).unwrap();
        for n in 0..20 {
            assert_eq!(wide.root().field(&format!("k{n}")).unwrap().to_value(), json!(n + 20));
        }
        assert!(wide.root().field("k20").is_none() && wide.root().field("").is_none());
    }

    #[test]
    fn a_text_of_small_values_takes_at_most_five_times_its_room() {
        for value in ["1", "\"\"", "[]", "{}", "1.5", "\"\\n\"", "{\"\":1}", "[[1]]"] {
            let text = format!("[{}]", vec![value; 100_000].join(","));
            let Document { tape, .. } = Document::parse(text.as_bytes()).unwrap();
            let room = tape.words.len() * 4
                + tape.numbers.len() * size_of::<Number>()
                + tape.texts.len() * 8
                + tape.unescaped.len();
            assert!(room <= 5 * text.len() + 16, "{value}: {room} bytes for {}", text.len());
        }
    }

    #[test]
    fn what_is_not_json_is_nothing() {
        for text in [&b"{"[..], b"", b"1 2", b"{\"a\":}", b"\xff", b"1e999", b"nul"] {
            assert!(Document::parse(text).is_none());
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(Document::parse(deep.as_bytes()).is_none());
    }

    #[test]
    fn what_is_too_large_to_show_says_how_large_it_is() {
        let document = Document::of(&json!({ "a": vec![1; 2_000] }));
        assert_eq!(document.root().field("a").unwrap().to_value(), json!("an array of 2000 elements"));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            "[a-c\\n\"é]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 20, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
                prop::collection::vec(("[a-e\\t]{0,2}", inner), 0..24)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_reads_what_a_tree_reads(value in any_json()) {
            let text = value.to_string();
            let document = Document::parse(text.as_bytes()).unwrap();
            // Not `value`: a number may be another one once it was written and read.
            let tree: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(document.root().to_value(), tree.clone());
            if let Value::Object(members) = &tree {
                for (name, member) in members {
                    prop_assert_eq!(&document.root().field(name).unwrap().to_value(), member);
                }
            }
        }

        #[test]
        fn it_takes_what_a_tree_takes(text in "[\\[\\]{}:,0-9.eE\"a\\\\u-]{0,24}") {
            let tree = serde_json::from_str::<Value>(&text).ok();
            prop_assert_eq!(Document::parse(text.as_bytes()).map(|it| it.root().to_value()), tree);
        }
    }
}
