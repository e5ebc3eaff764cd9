//! Reading more strictly than serde does by itself: an object is an object, and has each member once.
//!
//! A derived `Deserialize` takes a list for a struct, by position, and a [`Value`] keeps the last of two members of one
//! name: both would store something that was not asked for.

use serde::{
    Deserialize, Deserializer,
    de::{self, IntoDeserializer, Unexpected, value},
};
use serde_json::{Error, Value};
use std::{collections::HashSet, fmt};

/// A document as a deserializer that gives structs objects only.
pub(super) struct Strict(pub(super) Value);

impl<'de> IntoDeserializer<'de, Error> for Strict {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Strict {
    type Error = Error;

    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(items) => {
                visitor.visit_seq(value::SeqDeserializer::new(items.into_iter().map(Self)))
            }
            Value::Object(members) => {
                let members = members.into_iter().map(|(name, value)| (name, Self(value)));
                visitor.visit_map(value::MapDeserializer::new(members))
            }
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: de::Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Value::Array(_) = self.0 {
            return Err(de::Error::invalid_type(Unexpected::Seq, &"an object"));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: de::Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: de::Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier ignored_any
    }
}

/// Reads over a document in which no object has a member twice.
pub(super) struct Distinct;

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Self)
    }
}

impl<'de> de::Visitor<'de> for Distinct {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if seen.contains(&name) {
                return Err(de::Error::custom(format_args!("duplicate field `{name}`")));
            }
            members.next_value::<Self>()?;
            seen.insert(name);
        }
        Ok(self)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
}
