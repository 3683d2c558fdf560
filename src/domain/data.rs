//! The data of an entry: a small JSON object of an event, which is shown with the entry whose score the event gave.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use thiserror::Error;

use super::document;

/// The longest data, in bytes of its canonical form.
pub const DATA_BYTES_MAX: usize = 512;
/// The greatest whole number that every JSON client holds exactly: 2^53 − 1.
const WHOLE_MAX: u64 = (1 << 53) - 1;

/// A JSON object in its canonical form (RFC 8785), of up to [`DATA_BYTES_MAX`] bytes. Data is sorted and written as the
/// bytes of this form.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct EntryData(#[serde(serialize_with = "as_json")] Arc<str>);

/// Why a text is not valid data.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum DataError {
    /// It is another kind of JSON.
    #[error("must be a JSON object")]
    NoObject,
    /// It is not JSON, or clients would interpret it differently.
    #[error("{0}")]
    Unsound(String),
    /// It is too long.
    #[error("has {0} bytes in its canonical form (RFC 8785), and {DATA_BYTES_MAX} are allowed")]
    TooLong(usize),
}

impl EntryData {
    /// Parses a JSON object in any form.
    pub fn parse(text: &str) -> Result<Self, DataError> {
        let (value, canonical) = canonical(text)?;
        if !value.is_object() {
            return Err(DataError::NoObject);
        }
        if canonical.len() > DATA_BYTES_MAX {
            return Err(DataError::TooLong(canonical.len()));
        }
        Ok(Self(canonical.into()))
    }

    /// Takes back what [`EntryData::as_str`] gave; `None` if the text is not a JSON object.
    pub fn from_stored(text: &str) -> Option<Self> {
        let is_object = text.starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok();
        is_object.then(|| Self(text.into()))
    }

    /// The canonical form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Writes JSON text verbatim as a value.
pub(crate) fn as_json<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    let value: &RawValue = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
    value.serialize(serializer)
}

/// From a response: it was checked when it came in.
impl<'de> Deserialize<'de> for EntryData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Map::deserialize(deserializer)?;
        let canonical = serde_json_canonicalizer::to_string(&object);
        Ok(Self(canonical.map_err(de::Error::custom)?.into()))
    }
}

/// Parses a JSON value that all clients understand alike, and returns its canonical form (RFC 8785).
pub(crate) fn canonical(text: &str) -> Result<(Value, String), DataError> {
    let unsound = |error| DataError::Unsound(document::without_place(&error));
    let Sound(value) = serde_json::from_str(text).map_err(unsound)?;
    let canonical = serde_json_canonicalizer::to_string(&value).map_err(unsound)?;
    Ok((value, canonical))
}

/// A JSON value that all clients understand alike: no duplicate names in an object, and no whole numbers with more digits
/// than a double holds.
struct Sound(Value);

impl<'de> Deserialize<'de> for Sound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SoundVisitor).map(Self)
    }
}

struct SoundVisitor;

impl<'de> Visitor<'de> for SoundVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        whole(number, number.into())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        whole(number.unsigned_abs(), number.into())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        let number = Number::from_f64(number);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Sound(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            let Sound(value) = fields.next_value()?;
            if object.insert(name.to_string(), value).is_some() {
                let text = format_args!("an object has the name {name:?} twice");
                return Err(de::Error::custom(text));
            }
        }
        Ok(Value::Object(object))
    }
}

fn whole<E: de::Error>(size: u64, number: Value) -> Result<Value, E> {
    if size <= WHOLE_MAX {
        return Ok(number);
    }
    let text = format_args!(
        "the number {number} is beyond ±(2^53 − 1), which not all JSON clients can represent exactly; send it as a string"
    );
    Err(E::custom(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        EntryData::parse(text).unwrap().as_str().to_owned()
    }

    fn error(text: &str) -> String {
        EntryData::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn one_object_has_one_form_however_it_is_written() {
        let form = r#"{"a":[1,true,null,{}],"b":"é\n"}"#;
        for text in [
            form,
            " { \"b\" : \"\\u00e9\\u000A\" ,\r\n\"a\":[1.0, true, null, { }] } ",
            r#"{"a":[10e-1,true,null,{}],"b":"é\n"}"#,
        ] {
            assert_eq!(canonical(text), form);
        }
        assert_eq!(canonical(&canonical(form)), form);
        assert_eq!(canonical("{}"), "{}");
    }

    /// The examples of RFC 8785, 3.2.2 and 3.2.3.
    #[test]
    fn the_canonical_form_follows_the_standard() {
        let numbers = r#"{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]}"#;
        assert_eq!(
            canonical(numbers),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
        let names = r#"{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7}"#;
        assert_eq!(
            canonical(names),
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}",
            "by the units of UTF-16"
        );
        assert_eq!(canonical(r#"{"z": -0.0, "y": -0}"#), r#"{"y":0,"z":0}"#);
        assert_eq!(
            canonical(
                r#"{"a": 5e-324, "b": 1.7976931348623157e308, "c": 295147905179352830000.0}"#
            ),
            r#"{"a":5e-324,"b":1.7976931348623157e+308,"c":295147905179352830000}"#
        );
    }

    #[test]
    fn ambiguous_json_is_refused() {
        assert_eq!(
            canonical(r#"{"n": 9007199254740991}"#),
            r#"{"n":9007199254740991}"#
        );
        let message = error(r#"{"n": 9007199254740993}"#);
        assert!(
            message.starts_with("the number 9007199254740993 is beyond"),
            "{message}"
        );
        assert!(error(r#"{"n": [-9007199254740992]}"#).contains("send it as a string"));
        assert_eq!(
            error(r#"{"a": {"b": 1, "\u0062": 2}}"#),
            "an object has the name \"b\" twice"
        );
        assert!(error(r#"{"a": 1e999}"#).contains("out of range"));
        assert!(EntryData::parse(r#"{"a": "\ud800"}"#).is_err());
    }

    #[test]
    fn data_is_an_object_of_bounded_size() {
        for text in ["null", "[]", "\"{}\"", "1", "true"] {
            assert_eq!(error(text), "must be a JSON object");
        }
        for text in ["", "{", "{\"a\":}", "{} {}", "nul"] {
            assert!(
                matches!(EntryData::parse(text), Err(DataError::Unsound(_))),
                "{text}"
            );
        }
        let of = |length: usize| format!("{{ \"a\": \"{}\" }}", "x".repeat(length - 8));
        assert_eq!(canonical(&of(DATA_BYTES_MAX)).len(), DATA_BYTES_MAX);
        assert!(error(&of(DATA_BYTES_MAX + 1)).starts_with("has 513 bytes in its canonical form"));
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(250), "]".repeat(250));
        assert!(error(&deep).contains("recursion limit"), "{}", error(&deep));
    }

    #[test]
    fn data_is_shown_as_it_is_stored() {
        let data = EntryData::parse(r#"{"b": 1e30, "a": {"c": 1.5}}"#).unwrap();
        let shown = serde_json::to_string(&data).unwrap();
        assert_eq!(shown, r#"{"a":{"c":1.5},"b":1e+30}"#);
        assert_eq!(EntryData::from_stored(&shown), Some(data));
        for text in ["", "{", "[]", "{}{}"] {
            assert_eq!(EntryData::from_stored(text), None, "{text}");
        }
        let parse = |text| EntryData::parse(text).unwrap();
        assert!(parse(r#"{"a":2}"#) > parse(r#"{"a":10}"#), "by bytes");
    }
}
