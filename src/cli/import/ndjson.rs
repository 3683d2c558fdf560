//! Reads rows of NDJSON: one event object per line.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::rejects::Text;
use super::rows::{
    Batcher, DATA, Ignored, ROW_BYTES_MAX, Row, SCORE, Stop, canonical_data, content, is_number,
};
use crate::cli::text::shortened;
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
            parse_ndjson(&buffer, &mut batcher.ignored)
        } else {
            Err("the line has more than 1 MiB".to_owned())
        };
        let text = || is_whole.then(|| Text::Ndjson(buffer.clone()));
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

fn parse_ndjson<'a>(line: &'a [u8], ignored: &mut Ignored) -> Result<Row<'a>, String> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let row = EventSeed(ignored).deserialize(&mut json);
    row.and_then(|row| json.end().map(|()| row))
        .map_err(|error| {
            let text = error.to_string();
            // The error counts lines from this one.
            let message = text.rsplit_once(" at line ").map(|(message, _)| message);
            message.unwrap_or(&text).to_owned()
        })
}

/// Reads an event and notes the names of other fields.
struct EventSeed<'i>(&'i mut Ignored);

/// A string that is borrowed if it has no escapes; `null` counts as absent.
#[derive(Deserialize)]
struct JsonText<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for EventSeed<'_> {
    type Value = Row<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Row<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventSeed<'_> {
    type Value = Row<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row<'de>, A::Error> {
        let mut row = Row::default();
        while let Some(JsonText(name)) = map.next_key()? {
            let Some(column) = COLUMNS.iter().position(|column| *column == name) else {
                self.0.add(&name);
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let text = if column == SCORE {
                let score = map.next_value::<&RawValue>()?.get();
                if !is_number(score) {
                    let score = shortened(score);
                    let text = format_args!("the score {score} is not a number");
                    return Err(A::Error::custom(text));
                }
                Some(Cow::Borrowed(score))
            } else if column == DATA {
                let data = map.next_value::<&RawValue>()?.get();
                canonical_data(data).map_err(A::Error::custom)?
            } else {
                let text: Option<JsonText<'de>> = map.next_value()?;
                text.map(|JsonText(text)| text)
            };
            if std::mem::replace(&mut row[column], text).is_some() {
                let text = format_args!("has the field {name} twice");
                return Err(A::Error::custom(text));
            }
        }
        Ok(row)
    }
}
