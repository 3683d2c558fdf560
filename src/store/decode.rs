//! Decodes the replies of scripts by serde: the type beside a call says what the script returns.
//!
//! | type | reply |
//! | --- | --- |
//! | number, text | itself; a number may be text |
//! | `bool` | 1 or 0, which may be text |
//! | `Option` | an empty text: `None` |
//! | list, tuple, struct | a list; a struct has its fields in their order |
//! | enum | a code; or a list that begins with one, and goes on with the content of the variant |
//! | [`Raw`], [`Packed`] | bytes; `MessagePack` |
//! | [`Tail`], [`Flat`] | the rest of the list; things without lists of their own |

use std::vec::IntoIter;

use bytes::Bytes;
use fred::types::Value;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer,
    SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use super::StoreError;
use super::reply::{bytes_of, unexpected, unknown_code};
use crate::domain::ties::{TieKey, Ties};
use crate::domain::time::Timestamp;

/// Reads a reply. [`StoreError::Stale`] if it has the code `STALE`, and the type has no such variant.
pub(super) fn decode<T: DeserializeOwned>(reply: Value) -> Result<T, StoreError> {
    T::deserialize(Part::of(&mut vec![reply].into_iter()))
}

/// What follows `OK`, of a script that has no other code but `STALE`.
#[derive(Deserialize)]
pub(super) enum Done<T = ()> {
    #[serde(rename = "OK")]
    Ok(T),
}

/// The code of a reply that has nothing else.
#[derive(Deserialize)]
pub(super) struct Code((String,));

impl Code {
    /// Whether it is `yes`; otherwise it has to be `no`.
    pub(super) fn is(&self, yes: &str, no: &str) -> Result<bool, StoreError> {
        match self.0.0.as_str() {
            code if code == yes => Ok(true),
            code if code == no => Ok(false),
            "STALE" => Err(StoreError::Stale),
            other => unknown_code(other),
        }
    }
}

/// All that is left of the list that it stands in, as what a list is read as.
#[derive(Deserialize)]
pub(super) struct Tail<T>(pub(super) T);

/// A list of things of some parts each, all of which follow each other.
#[derive(Deserialize)]
pub(super) struct Flat<T>(pub(super) Vec<T>);

/// Bytes.
#[derive(Debug)]
pub(super) struct Raw(pub(super) Bytes);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfBytes;
        impl Visitor<'_> for OfBytes {
            type Value = Raw;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Raw, E> {
                Ok(Raw(bytes.into()))
            }
        }
        from.deserialize_byte_buf(OfBytes)
    }
}

/// `MessagePack`.
#[derive(Debug)]
pub(super) struct Packed<T>(pub(super) T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Packed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Raw(packed) = Raw::deserialize(from)?;
        let read = rmp_serde::from_slice(&packed);
        read.map(Self).map_err(D::Error::custom)
    }
}

/// An instant in milliseconds since the epoch.
pub(super) fn ms<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    i64::deserialize(from).map(Timestamp::from_ms_clamped)
}

/// An instant in microseconds since the epoch.
pub(super) fn us<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    i64::deserialize(from).map(Timestamp::from_us_clamped)
}

/// The instant of a tie key of `ties: first`.
pub(super) fn tie_key<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    let at = TieKey::from_number(u64::deserialize(from)?).instant(Ties::First);
    at.ok_or_else(|| D::Error::custom("an instant beyond all times"))
}

/// A text that a type reads.
pub(super) fn parsed<'de, D: Deserializer<'de>, T: std::str::FromStr>(
    from: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    let unreadable = || D::Error::custom(format!("{text:?} can't be read"));
    text.parse().map_err(|_| unreadable())
}

impl serde::de::Error for StoreError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Unexpected(message.to_string())
    }
}

/// The next part of a list.
struct Part<'a> {
    list: &'a mut IntoIter<Value>,
    /// If it is to be a list: all that is left of `list`.
    is_rest: bool,
    /// If it is to be a list: each of its things takes some parts of it.
    is_flat: bool,
}

impl<'a> Part<'a> {
    fn of(list: &'a mut IntoIter<Value>) -> Self {
        Self {
            list,
            is_rest: false,
            is_flat: false,
        }
    }

    fn rest(list: &'a mut IntoIter<Value>) -> Self {
        Self {
            is_rest: true,
            ..Self::of(list)
        }
    }

    fn value(&mut self) -> Result<Value, StoreError> {
        let value = self.list.next();
        value.ok_or_else(|| StoreError::custom("a reply that is too short"))
    }

    fn integer(mut self) -> Result<i64, StoreError> {
        let value = self.value()?;
        value
            .as_i64()
            .ok_or_else(|| unexpected("an integer", &value))
    }

    fn list<'de, V: Visitor<'de>>(
        mut self,
        visitor: V,
        is_fixed: bool,
    ) -> Result<V::Value, StoreError> {
        let is_flat = self.is_flat;
        let mut own;
        let list = if self.is_rest {
            self.list
        } else {
            own = list_of(self.value()?)?;
            &mut own
        };
        visitor.visit_seq(Parts {
            list,
            is_fixed,
            is_flat,
        })
    }
}

fn list_of(value: Value) -> Result<IntoIter<Value>, StoreError> {
    match value {
        Value::Array(parts) => Ok(parts.into_iter()),
        other => Err(unexpected("an array", &other)),
    }
}

macro_rules! integers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StoreError> {
            visitor.visit_i64(self.integer()?)
        })*
    };
}

impl<'de> Deserializer<'de> for Part<'_> {
    type Error = StoreError;

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, StoreError> {
        Err(StoreError::custom("no type that replies have"))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StoreError> {
        visitor.visit_bool(self.integer()? == 1)
    }

    fn deserialize_string<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, StoreError> {
        let text = String::from_utf8(bytes_of(self.value()?)?.into());
        visitor.visit_string(text.map_err(|error| unexpected("text", &error))?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StoreError> {
        self.deserialize_string(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, StoreError> {
        visitor.visit_byte_buf(bytes_of(self.value()?)?.into())
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, StoreError> {
        let is_none = match self.list.as_slice().first() {
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Bytes(bytes)) => bytes.is_empty(),
            Some(other) => other.is_null(),
            None => return visitor.visit_none(),
        };
        if is_none {
            self.value()?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StoreError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, StoreError> {
        self.is_rest |= name == "Tail";
        self.is_flat |= name == "Flat";
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StoreError> {
        self.list(visitor, false)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, StoreError> {
        self.list(visitor, true)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, StoreError> {
        self.list(visitor, true)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StoreError> {
        self.list(visitor, true)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StoreError> {
        let mut content = match self.value()? {
            Value::Array(parts) => parts.into_iter(),
            code => vec![code].into_iter(),
        };
        visitor.visit_enum(Coded(&mut content))
    }

    forward_to_deserialize_any! { i128 u128 f32 f64 char bytes unit_struct map identifier ignored_any }
}

/// What a list is read as.
struct Parts<'a> {
    list: &'a mut IntoIter<Value>,
    /// Whether it is known how many there are.
    is_fixed: bool,
    is_flat: bool,
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = StoreError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, StoreError> {
        if !self.is_fixed && self.list.len() == 0 {
            return Ok(None);
        }
        let part = if self.is_flat {
            Part::rest(self.list)
        } else {
            Part::of(self.list)
        };
        seed.deserialize(part).map(Some)
    }
}

/// A code, and the content of its variant.
struct Coded<'a>(&'a mut IntoIter<Value>);

impl<'de> EnumAccess<'de> for Coded<'_> {
    type Error = StoreError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), StoreError> {
        let code: String = Deserialize::deserialize(Part::of(self.0))?;
        let known = seed.deserialize(code.as_str().into_deserializer());
        let known = known.map_err(|error: StoreError| match code.as_str() {
            "STALE" => StoreError::Stale,
            _ => error,
        });
        Ok((known?, self))
    }
}

impl<'de> VariantAccess<'de> for Coded<'_> {
    type Error = StoreError;

    fn unit_variant(self) -> Result<(), StoreError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, StoreError> {
        seed.deserialize(Part::rest(self.0))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, StoreError> {
        Part::rest(self.0).list(visitor, true)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StoreError> {
        Part::rest(self.0).list(visitor, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list<const N: usize>(parts: [&str; N]) -> Value {
        Value::Array(parts.map(Value::from).to_vec())
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    enum Reply {
        Ok(u64, Option<String>),
        NoRoom,
        #[serde(deserialize_with = "ms")]
        Closed(Timestamp),
    }

    #[test]
    fn a_reply_is_read_by_its_code() {
        let read = |reply: Value| decode::<Reply>(reply);
        assert_eq!(read(list(["OK", "7", ""])).unwrap(), Reply::Ok(7, None));
        let some = Reply::Ok(7, Some("x".to_owned()));
        assert_eq!(read(list(["OK", "7", "x"])).unwrap(), some);
        assert_eq!(read(list(["NO_ROOM"])).unwrap(), Reply::NoRoom);
        assert_eq!(read(Value::from("NO_ROOM")).unwrap(), Reply::NoRoom);
        let closed = Reply::Closed(Timestamp::from_ms_clamped(5));
        assert_eq!(read(list(["CLOSED", "5"])).unwrap(), closed);
        assert!(matches!(read(list(["STALE"])), Err(StoreError::Stale)));
        // A list of Lua ends before a last `nil`.
        assert_eq!(read(list(["OK", "7"])).unwrap(), Reply::Ok(7, None));
        for wrong in [list(["OTHER"]), list(["OK"]), list(["OK", "x", ""])] {
            assert!(matches!(read(wrong), Err(StoreError::Unexpected(_))));
        }
    }

    #[test]
    fn the_rest_of_a_list_may_be_things_of_some_parts() {
        let reply = list(["OK", "next", "ann", "1", "bob", "0"]);
        let Done::Ok((next, Tail(Flat(found)))) =
            decode::<Done<(String, Tail<Flat<(String, bool)>>)>>(reply).unwrap();
        assert_eq!(next, "next");
        assert_eq!(found, [("ann".to_owned(), true), ("bob".to_owned(), false)]);
        let Done::Ok(Tail(none)) = decode::<Done<Tail<Vec<u64>>>>(list(["OK"])).unwrap();
        assert!(none.is_empty());
        assert!(
            decode::<Code>(list(["MORE"]))
                .unwrap()
                .is("MORE", "DONE")
                .unwrap()
        );
    }
}
