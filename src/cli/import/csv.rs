//! Reads rows of CSV: finds the fields and the line on which a row begins, and bounds the length of rows.

use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::Arc;

use ::csv::ByteRecord;

use super::fields::{FIELDS, FieldNames, MEMBER, NAME, Row, SCORE, is_json, json_field};
use super::input::BUFFER_BYTES;
use super::rejects::{Place, RowText};
use super::rows::{Batcher, Ignored, ROW_BYTES_MAX, Stop, content};
use crate::cli::text::shortened;
use crate::domain::export;

pub(super) fn read(text: impl Read, batcher: &mut Batcher<'_>, name: &str) -> Result<(), Stop> {
    let mut reader = ::csv::ReaderBuilder::new()
        .buffer_capacity(BUFFER_BYTES)
        .from_reader(Lines {
            read: text,
            row_bytes_remaining: ROW_BYTES_MAX,
            bytes: 0,
            last: 0,
            is_crlf: None,
        });
    let header = match reader.byte_headers() {
        Ok(header) => header.clone(),
        Err(error) => return Err(content(name, 1, &error)),
    };
    let columns = Columns::find(&header, batcher).map_err(|detail| content(name, 1, &detail))?;
    batcher.header = Some(Arc::new(header));
    let mut record = ByteRecord::new();
    loop {
        let line_before = reader.position().line();
        reader.get_mut().row_bytes_remaining = ROW_BYTES_MAX;
        let result = reader.read_byte_record(&mut record);
        let row = match &result {
            Ok(false) => return Ok(()),
            Ok(true) => columns.row(&record),
            Err(error) => match error.kind() {
                ::csv::ErrorKind::UnequalLengths {
                    expected_len, len, ..
                } => Err(format!(
                    "has {len} fields, but the header has {expected_len}"
                )),
                _ => return Err(content(name, line_before, error)),
            },
        };
        let text = || Some(RowText::Csv(record.clone()));
        batcher.push(Place::Line(line_of(&record, &reader)), row, text)?;
    }
}

/// The places of the fields in a CSV file.
struct Columns {
    /// In the order of [`FIELDS`].
    places: [Option<usize>; FIELDS.len()],
    is_export: bool,
}

impl Columns {
    fn find(header: &ByteRecord, batcher: &mut Batcher<'_>) -> Result<Self, String> {
        let (names, reading) = (&batcher.names, batcher.reading);
        let places = places(header, names, &mut batcher.ignored)?;
        // Exported cells are changed so that spreadsheets take none for a formula. No other file's are restored.
        let has_rank = header.iter().any(|name| name.trim_ascii() == RANK);
        if reading.is_export && !has_rank {
            return Err(format!("{}; is it an export?", missing("rank", header)));
        }
        // With profiles, a name is enough.
        let needs_score = !reading.profiles || places[NAME].is_none();
        let is_required = |field: usize| {
            field == MEMBER
                || field == SCORE && needs_score
                || reading.columns.contains_key(FIELDS[field])
        };
        let lacking =
            (0..FIELDS.len()).find(|field| places[*field].is_none() && is_required(*field));
        match lacking {
            Some(field) => Err(missing(names.of(field), header)),
            None => Ok(Self {
                places,
                is_export: reading.is_export,
            }),
        }
    }

    fn row<'r>(&self, record: &'r ByteRecord) -> Result<Row<'r>, String> {
        let mut row = Row::default();
        for (field, place) in self.places.iter().enumerate() {
            let Some(place) = place else { continue };
            let text = std::str::from_utf8(&record[*place])
                .map_err(|_| format!("{} is not UTF-8", FIELDS[field]))?;
            let text = if self.is_export {
                export::original(text)
            } else {
                text
            };
            // An empty field counts as absent.
            let is_empty = if is_json(field) {
                text.trim_ascii().is_empty()
            } else {
                text.is_empty()
            };
            row[field] = match field {
                _ if is_empty => None,
                field if is_json(field) => json_field(field, text)?,
                _ => Some(Cow::Borrowed(text)),
            };
        }
        Ok(row)
    }
}

/// The column that every export has, and no other file needs.
const RANK: &[u8] = b"rank";

/// The places of the fields, in the order of [`FIELDS`].
fn places(
    header: &ByteRecord,
    names: &FieldNames,
    ignored: &mut Ignored,
) -> Result<[Option<usize>; FIELDS.len()], String> {
    let mut places = [None; FIELDS.len()];
    for (place, name) in header.iter().enumerate() {
        let name = String::from_utf8_lossy(name.trim_ascii());
        let Some(field) = names.find(|known| known.eq_ignore_ascii_case(&name)) else {
            ignored.add(&name);
            continue;
        };
        if places[field].replace(place).is_some() {
            return Err(format!("the header has {} twice", shortened(&name)));
        }
    }
    Ok(places)
}

fn missing(column: &str, header: &ByteRecord) -> String {
    let names = header.iter().map(String::from_utf8_lossy);
    let found = shortened(&names.collect::<Vec<_>>().join(", "));
    let hint = if header.len() > 1 {
        ""
    } else {
        "; columns are separated by commas"
    };
    format!(
        "the header has no column {}: {found}{hint}",
        shortened(column)
    )
}

/// The line on which the record just read begins. The reader itself counts from the line on which it began to look for the
/// record, which is too low after blank lines and the second half of `\r\n`.
fn line_of<R: Read>(record: &ByteRecord, reader: &::csv::Reader<Lines<R>>) -> u64 {
    let position = reader.position();
    let inside = record.as_slice().split(|byte| *byte == b'\n').count() as u64 - 1;
    let ended = u64::from(reader.get_ref().has_ended_line(position.byte()));
    position.line().saturating_sub(inside + ended).max(1)
}

/// A reader of a CSV file that bounds each row, and knows how lines end.
struct Lines<R> {
    read: R,
    row_bytes_remaining: usize,
    bytes: u64,
    last: u8,
    /// Whether lines end in `\r\n`; known after the first line.
    is_crlf: Option<bool>,
}

impl<R> Lines<R> {
    /// Whether the reader, at this position after a record, has passed the record's `\n`: it leaves the second half of
    /// `\r\n` to the next record, and the file may end without one.
    fn has_ended_line(&self, position: u64) -> bool {
        self.is_crlf == Some(false) && (position < self.bytes || self.last == b'\n')
    }
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.row_bytes_remaining == 0 {
            let text = "a row of more than 1 MiB begins here; is a closing quotation mark missing?";
            return Err(io::Error::other(text));
        }
        let count = self.read.read(buffer)?;
        let chunk = &buffer[..count];
        if self.is_crlf.is_none() {
            let end = chunk.iter().position(|byte| *byte == b'\n');
            self.is_crlf =
                end.map(|end| end.checked_sub(1).map_or(self.last, |last| chunk[last]) == b'\r');
        }
        self.row_bytes_remaining = self.row_bytes_remaining.saturating_sub(count);
        self.bytes += count as u64;
        self.last = chunk.last().copied().unwrap_or(self.last);
        Ok(count)
    }
}
