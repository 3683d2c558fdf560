//! Turns the rows of a file into the bodies of requests.
//!
//! Everything here blocks, and runs on its own thread. Nothing is allocated for a valid row: its fields are borrowed from
//! the reader's buffer and written straight into the body. A score is never parsed: its text is sent unchanged.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::csv::ByteRecord;
use bytes::Bytes;
use serde::de::IgnoredAny;
use tokio::sync::mpsc;

use super::input::{Format, Input};
use super::progress::ImportProgress;
use super::rejects::{Rejection, RowText, Source};
use super::{ImportArgs, ImportError, csv, ndjson};
use crate::cli::text::shortened;
use crate::domain::data::EntryData;
use crate::events::body::COLUMNS;
use crate::http::extract::BODY_BYTES_MAX;

/// The longest row, in bytes. An unclosed quotation mark makes a row of the rest of the file: this bounds what is kept.
pub(super) const ROW_BYTES_MAX: usize = 1 << 20;
/// The longest event in a body, in bytes.
const EVENT_BYTES_MAX: usize = 1 << 16;
/// A body of this size, in bytes, takes no further event: one more might exceed the limit.
const BODY_BYTES_FULL: usize = BODY_BYTES_MAX - EVENT_BYTES_MAX - BODY_END.len();
/// How many names of ignored columns are collected.
const IGNORED_NAMES_MAX: usize = 32;

/// The kind of rejection of a row that was not sent, because it can't be read.
const UNREADABLE: &str = "unreadable";
const UNREADABLE_TITLE: &str = "Row can't be read";

const BODY_START: &[u8] = b"{\"events\":[";
const BODY_END: &[u8] = b"]}";

/// Some consecutive rows, and what is sent for them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// How many rows of the file come before it.
    pub(super) first_row: u64,
    /// How many rows it covers, including unreadable ones.
    pub(super) rows: u64,
    /// The request; it may have no event.
    pub(super) body: Bytes,
    /// The source of each event in it.
    pub(super) sources: Vec<Source>,
    /// How many of them have a generated id.
    pub(super) generated: u64,
    /// Whether some of them have no `at`: then the service sets it in the order in which they come in.
    pub(super) is_timed_by_arrival: bool,
    /// The rows that can't be read.
    pub(super) unreadable: Vec<Rejection>,
    /// The header of a CSV file.
    pub(super) header: Option<Arc<ByteRecord>>,
    /// How many bytes of the file had been read when it was complete.
    pub(super) bytes_read: u64,
    /// Whether it is the last of the file.
    pub(super) is_last: bool,
}

/// The texts of a row's fields, in the order of [`COLUMNS`]; for the score the text of a JSON number, for the data the
/// canonical form.
pub(super) type Row<'a> = [Option<Cow<'a, str>>; COLUMNS.len()];

pub(super) const ID: usize = 0;
pub(super) const MEMBER: usize = 1;
pub(super) const SCORE: usize = 2;
pub(super) const AT: usize = 3;
pub(super) const DATA: usize = COLUMNS.len() - 1;
const _: () = {
    assert!(matches!(COLUMNS[ID].as_bytes(), b"id"));
    assert!(matches!(COLUMNS[MEMBER].as_bytes(), b"member"));
    assert!(matches!(COLUMNS[SCORE].as_bytes(), b"score"));
    assert!(matches!(COLUMNS[AT].as_bytes(), b"at"));
    assert!(matches!(COLUMNS[DATA].as_bytes(), b"data"));
};

/// Why reading ends before the file does.
pub(super) enum Stop {
    /// No batches are wanted any more.
    Unwanted,
    Failed(ImportError),
}

type Batches = mpsc::Sender<Result<Batch, ImportError>>;

/// Reads the whole file; sends its batches, of which the last one is marked, or what went wrong after them. `skip`: how
/// many rows at the start are acknowledged and left out.
pub(super) fn read(
    input: Input,
    args: &ImportArgs,
    skip: u64,
    batches: &Batches,
    progress: &ImportProgress,
) {
    let name = input.name();
    let mut rows = Batcher {
        args,
        skip,
        batches,
        progress,
        bytes_read: Arc::clone(&input.bytes_read),
        id_prefix: input.id_prefix(),
        ignored: Ignored::default(),
        header: None,
        rows: 0,
        body: BODY_START.to_vec(),
        batch: Batch {
            first_row: skip,
            ..Batch::default()
        },
    };
    let result = match input.decode() {
        Ok((text, Format::Csv)) => csv::read(text, &mut rows, &name),
        Ok((text, Format::Ndjson)) => ndjson::read(text, &mut rows, &name),
        Err(cause) => Err(Stop::Failed(ImportError::Read { path: name, cause })),
    };
    match result.and_then(|()| rows.close(true)) {
        Ok(()) | Err(Stop::Unwanted) => {}
        Err(Stop::Failed(error)) => {
            // Rows before the fault are sent; if the receiver is closed, nothing is left to do.
            if rows.close(false).is_ok() {
                let _ = batches.blocking_send(Err(error));
            }
        }
    }
}

/// Collects rows until a batch is full.
pub(super) struct Batcher<'a> {
    args: &'a ImportArgs,
    skip: u64,
    batches: &'a Batches,
    progress: &'a ImportProgress,
    bytes_read: Arc<AtomicU64>,
    /// The prefix of ids for rows without one. The row's number follows.
    id_prefix: String,
    pub(super) ignored: Ignored,
    pub(super) header: Option<Arc<ByteRecord>>,
    /// How many rows were read.
    rows: u64,
    body: Vec<u8>,
    /// The batch that is being collected. The fields that need the whole batch are set when it is full.
    batch: Batch,
}

impl Batcher<'_> {
    /// `text`: the unchanged row.
    pub(super) fn push(
        &mut self,
        line: u64,
        row: Result<Row<'_>, String>,
        text: impl FnOnce() -> Option<RowText>,
    ) -> Result<(), Stop> {
        self.rows += 1;
        if self.rows <= self.skip {
            return Ok(());
        }
        let keeps_text = self.args.rejects.is_some();
        let text = keeps_text.then(text).flatten();
        let source = Source { line, text };
        match row.and_then(|row| self.write(&row)) {
            Ok(()) => self.batch.sources.push(source),
            Err(detail) => {
                let rejection = Rejection::new(source, UNREADABLE, UNREADABLE_TITLE, &detail);
                self.batch.unreadable.push(rejection);
            }
        }
        let rows = self.rows - self.batch.first_row;
        if rows >= u64::from(self.args.batch) || self.body.len() >= BODY_BYTES_FULL {
            self.close(false)?;
        }
        Ok(())
    }

    fn write(&mut self, row: &Row<'_>) -> Result<(), String> {
        if row[MEMBER].as_deref().unwrap_or_default().is_empty() {
            return Err("has no member".to_owned());
        }
        if row[SCORE].is_none() {
            return Err("has no score".to_owned());
        }
        let start = self.body.len();
        let written = self.write_event(row);
        let length = self.body.len() - start;
        let detail = match written {
            Ok(()) if length <= EVENT_BYTES_MAX => {
                self.batch.generated += u64::from(row[ID].is_none());
                self.batch.is_timed_by_arrival |= row[AT].is_none();
                return Ok(());
            }
            Ok(()) => {
                format!("the event has {length} bytes; at most {EVENT_BYTES_MAX} are allowed")
            }
            Err(error) => error.to_string(),
        };
        self.body.truncate(start);
        Err(detail)
    }

    fn write_event(&mut self, row: &Row<'_>) -> io::Result<()> {
        let body = &mut self.body;
        if !self.batch.sources.is_empty() {
            body.push(b',');
        }
        // The id of a board needs no escapes.
        write!(body, "{{\"board\":\"{}\"", self.args.board)?;
        if row[ID].is_none() {
            // Needs no escapes.
            write!(body, ",\"id\":\"{}{}\"", self.id_prefix, self.rows)?;
        }
        for (index, (name, text)) in COLUMNS.iter().zip(row).enumerate() {
            let Some(text) = text else { continue };
            write!(body, ",\"{name}\":")?;
            if index == SCORE || index == DATA {
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
                .notice(&format!("ignored: {names} (known fields: {columns})"));
        }
        let capacity = self.body.len();
        self.body.extend_from_slice(BODY_END);
        let body = std::mem::replace(&mut self.body, Vec::with_capacity(capacity));
        self.body.extend_from_slice(BODY_START);
        let next = Batch {
            first_row: self.rows,
            sources: Vec::with_capacity(self.batch.sources.len()),
            ..Batch::default()
        };
        let batch = std::mem::replace(&mut self.batch, next);
        let batch = Batch {
            rows: self.rows.saturating_sub(batch.first_row),
            body: body.into(),
            header: self.header.clone(),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            is_last,
            ..batch
        };
        self.batches
            .blocking_send(Ok(batch))
            .map_err(|_| Stop::Unwanted)
    }
}

/// The names of ignored columns.
#[derive(Default)]
pub(super) struct Ignored {
    names: BTreeSet<String>,
    is_new: bool,
}

impl Ignored {
    pub(super) fn add(&mut self, name: &str) {
        if self.names.len() < IGNORED_NAMES_MAX && !self.names.contains(name) {
            self.names.insert(name.to_owned());
            self.is_new = true;
        }
    }

    /// All names, if a new one was added since the last call.
    fn take_new(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.is_new) {
            return None;
        }
        let names: Vec<String> = self.names.iter().map(|name| shortened(name)).collect();
        Some(names.join(", "))
    }
}

/// What is sent for a field that is JSON: the number of a score, as written; data in its canonical form, or nothing for
/// `null`.
pub(super) fn json_field(column: usize, text: &str) -> Result<Option<Cow<'_, str>>, String> {
    let text = text.trim_ascii();
    if column == SCORE {
        let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
            && serde_json::from_str::<IgnoredAny>(text).is_ok();
        let shown = || format!("the score {} is not a number", shortened(text));
        return is_number.then_some(Some(text.into())).ok_or_else(shown);
    }
    if text == "null" {
        return Ok(None);
    }
    let data = EntryData::parse(text).map_err(|error| format!("the data {error}"))?;
    Ok(Some(data.as_str().to_owned().into()))
}

/// Stops reading a file whose content is invalid from this line on.
pub(super) fn content(path: &str, line: u64, detail: &impl ToString) -> Stop {
    Stop::Failed(ImportError::Content {
        path: path.to_owned(),
        line,
        detail: detail.to_string(),
    })
}
