//! Reads rows of NDJSON: one event object per line.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::rejects::RowText;
use super::rows::{Batcher, DATA, Ignored, ROW_BYTES_MAX, Row, SCORE, Stop, content, json_field};
use crate::domain::document::{self, DocumentError};
use crate::events::body::COLUMNS;

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
            parse(&buffer, &mut batcher.ignored)
        } else {
            Err("the line has more than 1 MiB".to_owned())
        };
        let text = || is_whole.then(|| RowText::Ndjson(buffer.clone()));
        batcher.push(line, row, text)?;
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

fn parse<'a>(line: &'a [u8], ignored: &mut Ignored) -> Result<Row<'a>, String> {
    let text = str::from_utf8(line.trim_ascii_end()).map_err(|_| "the line is not UTF-8")?;
    let mut json = serde_json::Deserializer::from_str(text);
    EventFields(ignored)
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

/// Reads the fields of an event, and notes the names of others.
struct EventFields<'i>(&'i mut Ignored);

impl<'de> DeserializeSeed<'de> for EventFields<'_> {
    type Value = Row<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Row<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventFields<'_> {
    type Value = Row<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row<'de>, A::Error> {
        let mut row = Row::default();
        while let Some((JsonText(name), value)) = map.next_entry::<_, &RawValue>()? {
            let Some(column) = COLUMNS.iter().position(|column| *column == name) else {
                self.0.add(&name);
                continue;
            };
            let field = match column {
                SCORE | DATA => json_field(column, value.get()),
                _ => text_field(&name, value.get()),
            };
            let before = std::mem::replace(&mut row[column], field.map_err(A::Error::custom)?);
            if before.is_some() {
                return Err(A::Error::custom(format_args!("has the field {name} twice")));
            }
        }
        Ok(row)
    }
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
