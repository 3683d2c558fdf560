//! Reads rows of NDJSON: one event object per line.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fields::{ATTRIBUTES, AVATAR_URL, NAME, Row, is_json, json_field};
use super::rejects::{Place, RowText};
use super::rows::{Batcher, ROW_BYTES_MAX, Stop, content};
use crate::domain::document::{self, DocumentError};

/// The field with the profile of an exported entry.
const PROFILE: &str = "profile";

pub(super) fn read(
    mut text: impl BufRead,
    batcher: &mut Batcher<'_>,
    name: &str,
) -> Result<(), Stop> {
    let mut buffer = Vec::new();
    for line in 1.. {
        buffer.clear();
        let is_whole = match read_line(&mut text, &mut buffer) {
            Ok(Some(is_whole)) => is_whole,
            Ok(None) => break,
            Err(error) => return Err(content(name, line, &error)),
        };
        if buffer.trim_ascii().is_empty() {
            continue;
        }
        let row = if is_whole {
            parse(&buffer, batcher)
        } else {
            Err("the line has more than 1 MiB".to_owned())
        };
        let text = || is_whole.then(|| RowText::Ndjson(buffer.clone()));
        batcher.push(Place::Line(line), row, text)?;
    }
    Ok(())
}

/// Reads a line, or as much of it as is kept; returns whether it is whole, and `None` at the end of the file.
fn read_line(text: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<Option<bool>> {
    let count = text
        .by_ref()
        .take(ROW_BYTES_MAX as u64)
        .read_until(b'\n', buffer)?;
    if count < ROW_BYTES_MAX || buffer.ends_with(b"\n") {
        return Ok((count > 0).then_some(true));
    }
    text.skip_until(b'\n')?;
    Ok(Some(false))
}

fn parse<'a>(line: &'a [u8], batcher: &mut Batcher<'_>) -> Result<Row<'a>, String> {
    let text = str::from_utf8(line.trim_ascii_end()).map_err(|_| "the line is not UTF-8")?;
    let mut json = serde_json::Deserializer::from_str(text);
    RowFields(batcher)
        .deserialize(&mut json)
        .and_then(|row| json.end().map(|()| row))
        .map_err(|error| match document::read::<IgnoredAny>(text) {
            Err(DocumentError::Malformed(detail)) => {
                // The error counts lines from this one.
                let here = detail.strip_prefix("Line 1, ").map(ToOwned::to_owned);
                here.unwrap_or(detail)
            }
            _ => document::in_json(&document::without_place(&error)),
        })
}

/// Reads the fields of a row, and notes the names of others.
struct RowFields<'i, 'b>(&'i mut Batcher<'b>);

impl<'de> DeserializeSeed<'de> for RowFields<'_, '_> {
    type Value = Row<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Row<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowFields<'_, '_> {
    type Value = Row<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row<'de>, A::Error> {
        let mut row = Row::default();
        let reads_profiles = self.0.reading.is_export && self.0.reading.profiles;
        while let Some((JsonText(name), value)) = map.next_entry::<_, &RawValue>()? {
            if reads_profiles && name == PROFILE {
                let profile = exported_profile(value.get()).map_err(A::Error::custom)?;
                [row[NAME], row[AVATAR_URL], row[ATTRIBUTES]] = profile;
                continue;
            }
            let Some(field) = self.0.names.find(|known| known == name) else {
                self.0.ignored.add(&name);
                continue;
            };
            let read = if is_json(field) {
                json_field(field, value.get())
            } else {
                text_field(&name, value.get())
            };
            let before = std::mem::replace(&mut row[field], read.map_err(A::Error::custom)?);
            if before.is_some() {
                return Err(A::Error::custom(format_args!("has the field {name} twice")));
            }
        }
        Ok(row)
    }
}

/// The name, picture and attributes of an exported profile; nothing for the `null` of a member without one.
fn exported_profile(json: &str) -> Result<[Option<Cow<'_, str>>; 3], String> {
    #[derive(Deserialize)]
    struct Exported<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(borrow)]
        avatar_url: Option<JsonText<'a>>,
        #[serde(borrow)]
        attributes: &'a RawValue,
    }
    let profile: Option<Exported<'_>> = serde_json::from_str(json).map_err(|error| {
        let detail = document::in_json(&document::without_place(&error));
        format!("{PROFILE} {detail}")
    })?;
    let Some(profile) = profile else {
        return Ok(Default::default());
    };
    let attributes = json_field(ATTRIBUTES, profile.attributes.get())?;
    let avatar_url = profile.avatar_url.map(|JsonText(url)| url);
    Ok([Some(profile.name), avatar_url, attributes])
}

/// The text of an object without the fields of this name.
pub(super) fn without_field(line: &[u8], name: &str) -> serde_json::Result<Vec<u8>> {
    struct Fields<'n>(&'n str);

    impl<'de> Visitor<'de> for Fields<'_> {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<u8>, A::Error> {
            let mut text = vec![b'{'];
            while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                let JsonText(read) = serde_json::from_str(name.get()).map_err(A::Error::custom)?;
                if read == self.0 {
                    continue;
                }
                if text.len() > 1 {
                    text.push(b',');
                }
                for part in [name.get(), ":", value.get()] {
                    text.extend_from_slice(part.as_bytes());
                }
            }
            text.push(b'}');
            Ok(text)
        }
    }

    serde_json::Deserializer::from_slice(line).deserialize_map(Fields(name))
}

/// A string that is borrowed if it has no escapes.
#[derive(Deserialize)]
struct JsonText<'a>(#[serde(borrow)] Cow<'a, str>);

/// The text of a field; `None` for `null`.
fn text_field<'a>(name: &str, json: &'a str) -> Result<Option<Cow<'a, str>>, String> {
    match serde_json::from_str::<Option<JsonText<'a>>>(json) {
        Ok(text) => Ok(text.map(|JsonText(text)| text)),
        Err(error) => {
            let detail = document::in_json(&document::without_place(&error));
            Err(format!("{name} {detail}"))
        }
    }
}
