//! Decodes the replies of scripts with serde: the type at a call says what the script returns.
//!
//! | type | reply |
//! | --- | --- |
//! | number, text | itself; a number may be text |
//! | `bool` | 1 or 0, which may be text |
//! | `Option` | an empty text: `None` |
//! | list, tuple, struct | a list; of a struct, its fields in order |
//! | enum | a code; or a list of a code and the content of the variant |
//! | [`Raw`], [`Packed`] | bytes; `MessagePack` |
//! | [`Tail`], [`Flat`] | the rest of the list; items that are not in nested lists |
//! | [`Done`], [`Coded`] | the content after a code |

use bytes::Bytes;
use fred::types::Value;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer,
    SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use super::StoreError;
use super::reply::{Reply, require, unknown_code};
use crate::domain::ties::{TieKey, Ties};
use crate::domain::time::Timestamp;

/// Decodes a reply. [`StoreError::Stale`] if it has the code `STALE`, and the type has no such variant.
pub(crate) fn decode<T: DeserializeOwned>(reply: Value) -> Result<T, StoreError> {
    Reply::of_one(reply).read()
}

impl Reply {
    /// Decodes the next part.
    pub(crate) fn read<T: DeserializeOwned>(&mut self) -> Result<T, StoreError> {
        T::deserialize(Part::of(self))
    }
}

/// The content after `OK`, of a script without other codes but `STALE`.
#[derive(Deserialize)]
pub(crate) enum Done<T = ()> {
    #[serde(rename = "OK")]
    Ok(T),
}

/// A code, and the content after it if it has some.
pub(crate) struct Coded<T = ()> {
    code: String,
    content: Option<T>,
}

impl<T> Coded<T> {
    /// Whether the code is `yes`; otherwise it has to be `no`.
    pub(crate) fn is(&self, yes: &str, no: &str) -> Result<bool, StoreError> {
        match self.code.as_str() {
            code if code == yes => Ok(true),
            code if code == no => Ok(false),
            "STALE" => Err(StoreError::Stale),
            other => unknown_code(other),
        }
    }

    /// The content after the code `yes`; `None` if the code is `no`, whose reason the caller knows.
    pub(crate) fn after(self, yes: &str, no: &str) -> Result<Option<T>, StoreError> {
        let is_there = self.is(yes, no)?;
        let content = || require(self.content, "there is nothing after the code");
        is_there.then(content).transpose()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Coded<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (code, Tail(content)) = <(String, Tail<Option<T>>)>::deserialize(from)?;
        Ok(Self { code, content })
    }
}

/// The rest of the list that it is in, decoded as a list.
#[derive(Deserialize)]
pub(crate) struct Tail<T>(pub(crate) T);

/// Items of several parts each, all in one list.
#[derive(Deserialize)]
pub(crate) struct Flat<T>(pub(crate) Vec<T>);

#[derive(Debug)]
pub(crate) struct Raw(pub(crate) Bytes);

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

#[derive(Debug)]
pub(crate) struct Packed<T>(pub(crate) T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Packed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Raw(packed) = Raw::deserialize(from)?;
        let read = rmp_serde::from_slice(&packed);
        read.map(Self).map_err(D::Error::custom)
    }
}

/// Decodes `MessagePack` content.
pub(crate) fn packed<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
) -> Result<T, D::Error> {
    Packed::deserialize(from).map(|Packed(read)| read)
}

/// An instant in milliseconds since the epoch.
pub(crate) fn ms<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    i64::deserialize(from).map(Timestamp::from_ms_clamped)
}

/// An instant in microseconds since the epoch.
pub(crate) fn us<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    i64::deserialize(from).map(Timestamp::from_us_clamped)
}

/// The instant of a tie key of `ties: first`.
pub(crate) fn tie_key<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    let at = TieKey::from_number(u64::deserialize(from)?).instant(Ties::First);
    at.ok_or_else(|| D::Error::custom("an instant beyond all times"))
}

impl serde::de::Error for StoreError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Unexpected(message.to_string())
    }
}

/// The next part of a list.
struct Part<'a> {
    list: &'a mut Reply,
    /// As a list: it takes the rest of `list`.
    is_rest: bool,
    /// As a list: each item takes several parts of it.
    is_flat: bool,
}

impl<'a> Part<'a> {
    fn of(list: &'a mut Reply) -> Self {
        Self {
            list,
            is_rest: false,
            is_flat: false,
        }
    }

    fn rest(list: &'a mut Reply) -> Self {
        Self {
            is_rest: true,
            ..Self::of(list)
        }
    }

    fn list<'de, V: Visitor<'de>>(
        self,
        visitor: V,
        is_fixed: bool,
    ) -> Result<V::Value, StoreError> {
        let mut own;
        let list = if self.is_rest {
            self.list
        } else {
            own = self.list.list()?;
            &mut own
        };
        visitor.visit_seq(Parts {
            list,
            is_fixed,
            is_flat: self.is_flat,
        })
    }
}

macro_rules! integers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StoreError> {
            visitor.visit_i64(self.list.integer()?)
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
        visitor.visit_bool(self.list.integer()? == 1)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StoreError> {
        visitor.visit_string(self.list.text()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StoreError> {
        self.deserialize_string(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StoreError> {
        visitor.visit_byte_buf(self.list.bytes()?.into())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StoreError> {
        if self.list.skip_none() {
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

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StoreError> {
        self.list(visitor, true)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, StoreError> {
        let mut content = match self.list.next()? {
            list @ Value::Array(_) => Reply::new(list)?,
            code => Reply::of_one(code),
        };
        visitor.visit_enum(VariantContent(&mut content))
    }

    forward_to_deserialize_any! { i128 u128 f32 f64 char bytes unit_struct tuple_struct map identifier ignored_any }
}

/// Decodes the items of a list.
struct Parts<'a> {
    list: &'a mut Reply,
    /// Whether their number is known.
    is_fixed: bool,
    is_flat: bool,
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = StoreError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, StoreError> {
        if !self.is_fixed && self.list.is_empty() {
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

/// A code, and the content of the variant of an enum that has it.
struct VariantContent<'a>(&'a mut Reply);

impl<'de> EnumAccess<'de> for VariantContent<'_> {
    type Error = StoreError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), StoreError> {
        let code = self.0.text()?;
        let known =
            seed.deserialize(code.as_str().into_deserializer())
                .map_err(|error: StoreError| match code.as_str() {
                    "STALE" => StoreError::Stale,
                    _ => error,
                });
        Ok((known?, self))
    }
}

impl<'de> VariantAccess<'de> for VariantContent<'_> {
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
        // A Lua list ends before a final `nil`.
        assert_eq!(read(list(["OK", "7"])).unwrap(), Reply::Ok(7, None));
        for wrong in [list(["OTHER"]), list(["OK"]), list(["OK", "x", ""])] {
            assert!(matches!(read(wrong), Err(StoreError::Unexpected(_))));
        }
    }

    #[test]
    fn the_rest_of_a_list_may_be_groups_of_values() {
        let reply = list(["OK", "next", "ann", "1", "bob", "0"]);
        let Done::Ok((next, Tail(Flat(found)))) =
            decode::<Done<(String, Tail<Flat<(String, bool)>>)>>(reply).unwrap();
        assert_eq!(next, "next");
        assert_eq!(found, [("ann".to_owned(), true), ("bob".to_owned(), false)]);
        let Done::Ok(Tail(none)) = decode::<Done<Tail<Vec<u64>>>>(list(["OK"])).unwrap();
        assert!(none.is_empty());
        assert!(
            decode::<Coded>(list(["MORE"]))
                .unwrap()
                .is("MORE", "DONE")
                .unwrap()
        );
    }
}
