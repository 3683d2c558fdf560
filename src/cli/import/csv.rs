//! Reads rows of CSV: finds the fields and the line on which a row begins, and bounds the length of rows.

use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::Arc;

use ::csv::ByteRecord;

use super::input::BUFFER_BYTES;
use super::rejects::RowText;
use super::rows::{
    Batcher, DATA, Ignored, MEMBER, ROW_BYTES_MAX, Row, SCORE, Stop, content, json_field,
};
use crate::cli::text::shortened;
use crate::events::body::COLUMNS;

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
    let columns =
        Columns::find(&header, &mut batcher.ignored).map_err(|detail| content(name, 1, &detail))?;
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
        batcher.push(line_of(&record, &reader), row, text)?;
    }
}

/// The places of the fields in a CSV file, in the order of [`COLUMNS`].
struct Columns([Option<usize>; COLUMNS.len()]);

impl Columns {
    fn find(header: &ByteRecord, ignored: &mut Ignored) -> Result<Self, String> {
        let mut columns = [None; COLUMNS.len()];
        for (index, name) in header.iter().enumerate() {
            let name = String::from_utf8_lossy(name.trim_ascii());
            let known = name.to_ascii_lowercase();
            let Some(column) = COLUMNS.iter().position(|column| *column == known) else {
                ignored.add(&name);
                continue;
            };
            if columns[column].replace(index).is_some() {
                return Err(format!("the header has {} twice", shortened(&name)));
            }
        }
        for required in [MEMBER, SCORE] {
            if columns[required].is_none() {
                return Err(missing(COLUMNS[required], header));
            }
        }
        Ok(Self(columns))
    }

    fn row<'r>(&self, record: &'r ByteRecord) -> Result<Row<'r>, String> {
        let mut row = Row::default();
        for (column, index) in self.0.iter().enumerate() {
            let Some(index) = index else { continue };
            let text = std::str::from_utf8(&record[*index])
                .map_err(|_| format!("{} is not UTF-8", COLUMNS[column]))?;
            // An empty field counts as absent.
            if !text.trim_ascii().is_empty() || (column != SCORE && !text.is_empty()) {
                row[column] = match column {
                    SCORE | DATA => json_field(column, text)?,
                    _ => Some(Cow::Borrowed(text)),
                };
            }
        }
        Ok(row)
    }
}

fn missing(column: &str, header: &ByteRecord) -> String {
    let names = header.iter().map(String::from_utf8_lossy);
    let found = shortened(&names.collect::<Vec<_>>().join(", "));
    let hint = if header.len() > 1 {
        ""
    } else {
        "; columns are separated by commas"
    };
    format!("the header has no column {column}: {found}{hint}")
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
