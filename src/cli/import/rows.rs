//! Rows of a file, turned into the bodies of requests.
//!
//! Everything here blocks and runs on a thread of its own. Nothing is allocated for a row that is sound: its
//! fields are borrowed from the reader's buffer and written straight into the body. A score is never parsed:
//! its text goes on as it stands.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use csv::ByteRecord;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::ids::{Id, Ids, RowIds};
use super::input::{BUFFER_BYTES, Format, Input, InputError};
use super::progress::Progress;
use super::rejects::{Rejection, Source, Text};
use crate::cli::text::shortened;
use crate::http::events::COLUMNS;
use crate::http::extract::BODY_BYTES_MAX;

/// The longest row, in bytes. An open quotation mark makes a row of the rest of the file: this bounds what is
/// kept of it.
const ROW_BYTES_MAX: usize = 1 << 20;
/// The longest event in a body, in bytes.
const EVENT_BYTES_MAX: usize = 1 << 16;
/// A body of this size, in bytes, takes no further event: one more may fill it.
const BODY_BYTES_FULL: usize = BODY_BYTES_MAX - EVENT_BYTES_MAX - BODY_END.len();
/// How many names of ignored columns are collected.
const IGNORED_NAMES_MAX: usize = 32;

/// The kind of rejection of a row that was not sent, because it can't be read.
const UNREADABLE: &str = "unreadable";
const UNREADABLE_TITLE: &str = "Row can't be read";

const BODY_START: &[u8] = b"{\"events\":[";
const BODY_END: &[u8] = b"]}";

/// What the rows become.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The board; its id needs no escapes in JSON.
    pub(super) board: String,
    /// The most rows of a batch.
    pub(super) batch_rows: u64,
    /// How many rows at the start have been acknowledged and are left out.
    pub(super) skip: u64,
    /// What the ids of rows without one follow from.
    pub(super) ids: Ids,
    /// Whether the text of each row is kept, for the file of those that are rejected.
    pub(super) keeps_text: bool,
}

/// Some rows that follow each other, and what is to be sent for them.
#[derive(Debug)]
pub(super) struct Batch {
    /// How many rows of the file come before it.
    pub(super) first_row: u64,
    /// How many rows it covers, those that can't be read included.
    pub(super) rows: u64,
    /// The request; no event may be in it.
    pub(super) body: Bytes,
    /// Where each event in it comes from.
    pub(super) sources: Vec<Source>,
    /// How many of them have an id that was generated.
    pub(super) generated: u64,
    /// The rows that can't be read.
    pub(super) unreadable: Vec<Rejection>,
    /// The header of a CSV file.
    pub(super) header: Option<Arc<ByteRecord>>,
    /// How many bytes of the file had been read when it was complete.
    pub(super) bytes_read: u64,
    /// Whether the file ends behind it.
    pub(super) is_last: bool,
}

/// The texts of a row's fields, in the order of [`COLUMNS`]; of the score the text of a JSON number.
pub(super) type Row<'a> = [Option<Cow<'a, str>>; COLUMNS.len()];

pub(super) const ID: usize = 0;
pub(super) const MEMBER: usize = 1;
pub(super) const SCORE: usize = 2;
pub(super) const AT: usize = 3;
const _: () = {
    assert!(matches!(COLUMNS[ID].as_bytes(), b"id"));
    assert!(matches!(COLUMNS[MEMBER].as_bytes(), b"member"));
    assert!(matches!(COLUMNS[SCORE].as_bytes(), b"score"));
    assert!(matches!(COLUMNS[AT].as_bytes(), b"at"));
};

/// Why reading ends before the file does.
enum Stop {
    /// Nobody takes batches any more.
    Unwanted,
    Failed(InputError),
}

type Batches = mpsc::Sender<Result<Batch, InputError>>;

/// Reads the whole file; sends its batches, of which the last one is marked, or what went wrong behind them.
pub(super) fn read(input: Input, target: &Target, batches: &Batches, progress: &Progress) {
    let name = input.name();
    let mut rows = Batcher::new(&input, target, batches, progress);
    let result = match input.decode() {
        Ok(text) => match text.format {
            Format::Csv => read_csv(text.read, &mut rows, &name),
            Format::Ndjson => read_ndjson(text.read, &mut rows, &name),
        },
        Err(cause) => Err(Stop::Failed(InputError::Read { path: name, cause })),
    };
    match result.and_then(|()| rows.close(true)) {
        Ok(()) | Err(Stop::Unwanted) => {}
        Err(Stop::Failed(error)) => {
            // Rows before the fault are sent; if nobody waits for them any more, nothing is left to do.
            if rows.close(false).is_ok() {
                let _ = batches.blocking_send(Err(error));
            }
        }
    }
}

/// Collects rows until a batch is full.
struct Batcher<'a> {
    target: &'a Target,
    batches: &'a Batches,
    progress: &'a Progress,
    bytes_read: Arc<AtomicU64>,
    ids: RowIds,
    ignored: Ignored,
    header: Option<Arc<ByteRecord>>,
    rows: u64,
    first_row: u64,
    body: Vec<u8>,
    sources: Vec<Source>,
    generated: u64,
    unreadable: Vec<Rejection>,
}

impl<'a> Batcher<'a> {
    fn new(
        input: &Input,
        target: &'a Target,
        batches: &'a Batches,
        progress: &'a Progress,
    ) -> Self {
        Self {
            target,
            batches,
            progress,
            bytes_read: input.bytes_read(),
            ids: RowIds::new(target.ids, input.id_prefix()),
            ignored: Ignored::default(),
            header: None,
            rows: 0,
            first_row: target.skip,
            body: BODY_START.to_vec(),
            sources: Vec::new(),
            generated: 0,
            unreadable: Vec::new(),
        }
    }

    /// `text`: the row as it stands.
    fn push(
        &mut self,
        line: u64,
        row: Result<Row<'_>, String>,
        text: impl FnOnce() -> Option<Text>,
    ) -> Result<(), Stop> {
        self.rows += 1;
        // A row that has been acknowledged before takes part in what makes ids, and in nothing else.
        let row = row.and_then(checked);
        let event = row.and_then(|row| Ok((self.ids.of(&row, self.rows)?, row)));
        if self.rows <= self.target.skip {
            return Ok(());
        }
        let text = self.target.keeps_text.then(text).flatten();
        let source = Source { line, text };
        match event.and_then(|(id, row)| self.write(&id, &row)) {
            Ok(()) => self.sources.push(source),
            Err(detail) => {
                let rejection = Rejection::new(source, UNREADABLE, UNREADABLE_TITLE, &detail);
                self.unreadable.push(rejection);
            }
        }
        let rows = self.rows - self.first_row;
        if rows >= self.target.batch_rows || self.body.len() >= BODY_BYTES_FULL {
            self.close(false)?;
        }
        Ok(())
    }

    fn write(&mut self, id: &Id, row: &Row<'_>) -> Result<(), String> {
        let start = self.body.len();
        let written = self.write_event(id, row);
        let length = self.body.len() - start;
        let detail = match written {
            Ok(()) if length <= EVENT_BYTES_MAX => {
                self.generated += u64::from(row[ID].is_none());
                return Ok(());
            }
            Ok(()) => format!("the event has {length} bytes, and {EVENT_BYTES_MAX} are allowed"),
            Err(error) => error.to_string(),
        };
        self.body.truncate(start);
        Err(detail)
    }

    fn write_event(&mut self, id: &Id, row: &Row<'_>) -> io::Result<()> {
        let body = &mut self.body;
        if !self.sources.is_empty() {
            body.push(b',');
        }
        write!(body, "{{\"board\":\"{}\"", self.target.board)?;
        if row[ID].is_none() {
            // It needs no escapes.
            write!(body, ",\"id\":\"{}\"", self.ids.shown(id))?;
        }
        for (index, (name, text)) in COLUMNS.iter().zip(row).enumerate() {
            let Some(text) = text else { continue };
            write!(body, ",\"{name}\":")?;
            if index == SCORE {
                body.extend_from_slice(text.as_bytes());
            } else {
                serde_json::to_writer(&mut *body, text)?;
            }
        }
        body.push(b'}');
        Ok(())
    }

    /// Sends what has been collected.
    fn close(&mut self, is_last: bool) -> Result<(), Stop> {
        if let Some(names) = self.ignored.take_new() {
            let columns = COLUMNS.join(", ");
            self.progress
                .notice(&format!("ignored: {names} (events have {columns})"));
        }
        let capacity = self.body.len();
        self.body.extend_from_slice(BODY_END);
        let body = std::mem::replace(&mut self.body, Vec::with_capacity(capacity));
        self.body.extend_from_slice(BODY_START);
        let sources_capacity = self.sources.len();
        let batch = Batch {
            first_row: self.first_row,
            rows: self.rows - self.first_row.min(self.rows),
            body: body.into(),
            sources: std::mem::replace(&mut self.sources, Vec::with_capacity(sources_capacity)),
            generated: std::mem::take(&mut self.generated),
            unreadable: std::mem::take(&mut self.unreadable),
            header: self.header.clone(),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            is_last,
        };
        self.first_row = self.rows;
        self.batches
            .blocking_send(Ok(batch))
            .map_err(|_| Stop::Unwanted)
    }
}

/// The names of columns that mean nothing here.
#[derive(Default)]
struct Ignored {
    names: BTreeSet<String>,
    is_new: bool,
}

impl Ignored {
    fn add(&mut self, name: &str) {
        if self.names.len() < IGNORED_NAMES_MAX && !self.names.contains(name) {
            self.names.insert(name.to_owned());
            self.is_new = true;
        }
    }

    /// All names, if one has come since they were last asked for.
    fn take_new(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.is_new) {
            return None;
        }
        let names: Vec<String> = self.names.iter().map(|name| shortened(name)).collect();
        Some(names.join(", "))
    }
}

/// Checks what every row needs.
fn checked(row: Row<'_>) -> Result<Row<'_>, String> {
    if row[MEMBER].as_deref().unwrap_or_default().is_empty() {
        return Err("no member".to_owned());
    }
    if row[SCORE].is_none() {
        return Err("no score".to_owned());
    }
    Ok(row)
}

/// Where a CSV file has its fields, in the order of [`COLUMNS`].
struct Columns([Option<usize>; COLUMNS.len()]);

impl Columns {
    fn find(header: &ByteRecord, ids: Ids, ignored: &mut Ignored) -> Result<Self, String> {
        let mut columns = [None; COLUMNS.len()];
        for (index, name) in header.iter().enumerate() {
            let name = String::from_utf8_lossy(name.trim_ascii());
            let known = name.to_ascii_lowercase();
            let Some(column) = COLUMNS.iter().position(|column| *column == known) else {
                ignored.add(&name);
                continue;
            };
            if columns[column].replace(index).is_some() {
                return Err(format!("the header names {} twice", shortened(&name)));
            }
        }
        for required in [MEMBER, SCORE] {
            if columns[required].is_none() {
                return Err(missing(COLUMNS[required], header));
            }
        }
        if ids == Ids::Rows && columns[ID].is_none() && columns[AT].is_none() {
            let at = COLUMNS[AT];
            return Err(format!(
                "the header has neither a column id nor a column {at}, which --ids rows needs"
            ));
        }
        Ok(Self(columns))
    }

    fn row<'r>(&self, record: &'r ByteRecord) -> Result<Row<'r>, String> {
        let mut row = Row::default();
        for (column, index) in self.0.iter().enumerate() {
            let Some(index) = index else { continue };
            let text = std::str::from_utf8(&record[*index])
                .map_err(|_| format!("{} is not UTF-8", COLUMNS[column]))?;
            // An empty field is one that isn't there.
            if !text.trim_ascii().is_empty() || (column != SCORE && !text.is_empty()) {
                let text = if column == SCORE { number(text)? } else { text };
                row[column] = Some(Cow::Borrowed(text));
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

/// The text of a JSON number, without the space around it.
fn number(text: &str) -> Result<&str, String> {
    let number = serde_json::from_str::<&RawValue>(text).map(RawValue::get);
    number.ok().filter(|text| is_number(text)).ok_or_else(|| {
        let text = shortened(text.trim_ascii());
        format!("the score {text:?} is not a number")
    })
}

/// Whether a JSON value is a number.
fn is_number(value: &str) -> bool {
    value.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

fn read_csv(text: impl Read, batcher: &mut Batcher<'_>, name: &str) -> Result<(), Stop> {
    let mut reader = csv::ReaderBuilder::new()
        .buffer_capacity(BUFFER_BYTES)
        .from_reader(Lines::new(text));
    let header = match reader.byte_headers() {
        Ok(header) => header.clone(),
        Err(error) => return Err(content(name, 1, error)),
    };
    let columns = Columns::find(&header, batcher.target.ids, &mut batcher.ignored)
        .map_err(|detail| content(name, 1, detail))?;
    batcher.header = Some(Arc::new(header));
    let mut record = ByteRecord::new();
    loop {
        let line_before = reader.position().line();
        reader.get_mut().begin_row();
        let result = reader.read_byte_record(&mut record);
        let row = match &result {
            Ok(false) => return Ok(()),
            Ok(true) => columns.row(&record),
            Err(error) => match error.kind() {
                csv::ErrorKind::UnequalLengths {
                    expected_len, len, ..
                } => Err(format!("{len} fields, and the header has {expected_len}")),
                csv::ErrorKind::Io(error) => return Err(content(name, line_before, error)),
                _ => return Err(content(name, line_before, error)),
            },
        };
        let text = || Some(Text::Csv(record.clone()));
        batcher.push(line_of(&record, &reader), row, text)?;
    }
}

fn content(path: &str, line: u64, detail: impl ToString) -> Stop {
    Stop::Failed(InputError::Content {
        path: path.to_owned(),
        line,
        detail: detail.to_string(),
    })
}

/// The line on which the record just read begins. The reader's own count is that of the line on which it
/// began to look for the record, which blank lines and the second half of `\r\n` put too low.
fn line_of<R: Read>(record: &ByteRecord, reader: &csv::Reader<Lines<R>>) -> u64 {
    let position = reader.position();
    let inside = record
        .as_slice()
        .split(|byte| *byte == b'\n')
        .skip(1)
        .count() as u64;
    let ended = u64::from(reader.get_ref().has_ended_line(position.byte()));
    position.line().saturating_sub(inside + ended).max(1)
}

/// What is read of a CSV file: bounds each row, and knows how lines end.
struct Lines<R> {
    read: R,
    row_bytes_left: usize,
    bytes: u64,
    last: u8,
    /// Whether lines end in `\r\n`; known with the first line.
    is_crlf: Option<bool>,
}

impl<R> Lines<R> {
    fn new(read: R) -> Self {
        Self {
            read,
            row_bytes_left: ROW_BYTES_MAX,
            bytes: 0,
            last: 0,
            is_crlf: None,
        }
    }

    fn begin_row(&mut self) {
        self.row_bytes_left = ROW_BYTES_MAX;
    }

    /// Whether the reader, when it stands here behind a record, has passed the record's `\n`: of `\r\n` it
    /// leaves the second half to the next record, and the file may end without one.
    fn has_ended_line(&self, position: u64) -> bool {
        self.is_crlf == Some(false) && (position < self.bytes || self.last == b'\n')
    }
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.row_bytes_left == 0 {
            let text =
                "a row of more than 1 MiB begins here; a quotation mark may have been left open";
            return Err(io::Error::other(text));
        }
        let count = self.read.read(buffer)?;
        let chunk = &buffer[..count];
        if self.is_crlf.is_none() {
            let end = chunk.iter().position(|byte| *byte == b'\n');
            self.is_crlf =
                end.map(|end| end.checked_sub(1).map_or(self.last, |last| chunk[last]) == b'\r');
        }
        self.row_bytes_left = self.row_bytes_left.saturating_sub(count);
        self.bytes += count as u64;
        self.last = chunk.last().copied().unwrap_or(self.last);
        Ok(count)
    }
}

fn read_ndjson(mut text: impl BufRead, batcher: &mut Batcher<'_>, name: &str) -> Result<(), Stop> {
    let mut buffer = Vec::new();
    for line in 1.. {
        buffer.clear();
        let is_whole = match read_line(&mut text, &mut buffer) {
            Ok(Some(is_whole)) => is_whole,
            Ok(None) => break,
            Err(error) => return Err(content(name, line, error)),
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

/// Reads a line, or as much of it as is kept; says whether it is whole, and `None` at the end of the file.
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
            // The place that the error names counts lines from this one.
            let message = text.rsplit_once(" at line ").map(|(message, _)| message);
            message.unwrap_or(&text).to_owned()
        })
}

/// Reads an event and notes the names of other fields.
struct EventSeed<'i>(&'i mut Ignored);

/// A string that is borrowed where it has no escapes; `null` is as good as none.
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

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
            } else {
                let text: Option<JsonText<'de>> = map.next_value()?;
                text.map(|JsonText(text)| text)
            };
            if std::mem::replace(&mut row[column], text).is_some() {
                let text = format_args!("the field {name} comes twice");
                return Err(A::Error::custom(text));
            }
        }
        Ok(row)
    }
}
