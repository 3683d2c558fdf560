//! Turns the rows of a file into the bodies of requests.
//!
//! Everything here blocks, and runs on its own thread. Nothing is allocated for a valid row: its fields are borrowed from
//! the reader's buffer and written straight into the body. A score is never parsed: its text is sent unchanged.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::csv::ByteRecord;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::body::Body;
use super::fields::{
    AT, ATTRIBUTES, AVATAR_URL, EXPORTED_AT, FIELDS, FieldNames, HIDDEN, ID, MEMBER, NAME, Row,
    SCORE, is_json,
};
use super::input::{Format, Input};
use super::progress::ImportProgress;
use super::reading::Reading;
use super::rejects::{Place, Rejection, RowText, Source};
use super::{ImportArgs, ImportError, csv, ndjson, redis_cli};
use crate::cli::text::shortened;
use crate::domain::time::Timestamp;

/// The longest row, in bytes. An unclosed quotation mark makes a row of the rest of the file: this bounds what is kept.
pub(super) const ROW_BYTES_MAX: usize = 1 << 20;
/// How many names of ignored columns are collected.
const IGNORED_NAMES_MAX: usize = 32;

/// The kind of rejection of a row that was not sent, because it can't be read.
const UNREADABLE: &str = "unreadable";
const UNREADABLE_TITLE: &str = "Row can't be read";

/// Some consecutive rows, and what is sent for them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// How many rows of the file come before it.
    pub(super) first_row: u64,
    /// How many rows it covers, including unreadable ones.
    pub(super) rows: u64,
    /// The request with the events, if there are any.
    pub(super) events: Option<Bytes>,
    /// The request with the profiles, likewise.
    pub(super) profiles: Option<Bytes>,
    /// The rows of which something is sent.
    pub(super) sent: Vec<SentRow>,
    /// How many events have a generated id.
    pub(super) generated: u64,
    /// Whether the batch must be sent after the one before was answered: if events have no `at`, the service sets it in the
    /// order in which they come in; and the last profile of a member stays.
    pub(super) is_ordered: bool,
    /// How many rows have no member any more.
    pub(super) skipped: u64,
    /// The rows that can't be read.
    pub(super) unreadable: Vec<Rejection>,
    /// The header of a CSV file.
    pub(super) header: Option<Arc<ByteRecord>>,
    /// How many bytes of the file had been read when it was complete.
    pub(super) bytes_read: u64,
    /// Whether it is the last of the file.
    pub(super) is_last: bool,
}

/// A row of which something is sent.
#[derive(Debug)]
pub(super) struct SentRow {
    pub(super) source: Source,
    pub(super) has_event: bool,
    pub(super) has_profile: bool,
}

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
    (args, reading): (&ImportArgs, &Reading),
    skip: u64,
    batches: &Batches,
    progress: &ImportProgress,
) {
    let name = input.name();
    let mut rows = Batcher {
        args,
        reading,
        names: FieldNames::new(reading),
        skip,
        batches,
        progress,
        bytes_read: Arc::clone(&input.bytes_read),
        id_prefix: input.id_prefix(),
        ignored: Ignored::default(),
        header: None,
        rows: 0,
        events: Body::new("{\"events\":["),
        profiles: Body::new("{\"profiles\":["),
        batch: Batch {
            first_row: skip,
            ..Batch::default()
        },
    };
    let result = match input.decode(reading.format) {
        Ok((text, Format::Csv)) => csv::read(text, &mut rows, &name),
        Ok((text, Format::Ndjson)) => ndjson::read(text, &mut rows, &name),
        Ok((text, Format::RedisCsv)) => redis_cli::read_csv(text, &mut rows, &name),
        Ok((text, Format::RedisLines)) => redis_cli::read_lines(text, &mut rows, &name),
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
    pub(super) reading: &'a Reading,
    pub(super) names: FieldNames,
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
    events: Body,
    profiles: Body,
    /// The batch that is being collected. The fields that need the whole batch are set when it is full.
    batch: Batch,
}

impl Batcher<'_> {
    /// `text`: the unchanged row.
    pub(super) fn push(
        &mut self,
        place: Place,
        row: Result<Row<'_>, String>,
        text: impl FnOnce() -> Option<RowText>,
    ) -> Result<(), Stop> {
        self.rows += 1;
        if self.rows <= self.skip {
            return Ok(());
        }
        if self.is_erased(&row) {
            self.batch.skipped += 1;
        } else {
            let keeps_text = self.args.rejects.is_some();
            let text = keeps_text.then(text).flatten();
            self.add(row, Source { place, text });
        }
        let rows = self.rows - self.batch.first_row;
        let is_full = self.events.is_full() || self.profiles.is_full();
        if rows >= u64::from(self.args.batch) || is_full {
            self.close(false)?;
        }
        Ok(())
    }

    /// Whether it is a line of an export whose member was erased.
    fn is_erased(&self, row: &Result<Row<'_>, String>) -> bool {
        self.reading.is_export && row.as_ref().is_ok_and(|row| !has_text(row, MEMBER))
    }

    fn add(&mut self, row: Result<Row<'_>, String>, source: Source) {
        let written = row.and_then(|mut row| {
            let has_event = row[SCORE].is_some();
            let has_profile = self.reading.profiles && has_text(&row, NAME);
            self.check(&row, has_event || has_profile)?;
            if has_profile {
                self.profiles
                    .add("profile", |body| write_profile(body, &row))?;
            }
            if has_event && let Err(detail) = self.add_event(&mut row) {
                if has_profile {
                    self.profiles.remove_last();
                }
                return Err(detail);
            }
            Ok((has_event, has_profile))
        });
        match written {
            Ok((has_event, has_profile)) => {
                self.batch.is_ordered |= has_profile;
                self.batch.sent.push(SentRow {
                    source,
                    has_event,
                    has_profile,
                });
            }
            Err(detail) => {
                let rejection = Rejection::new(source, UNREADABLE, UNREADABLE_TITLE, &detail);
                self.batch.unreadable.push(rejection);
            }
        }
    }

    /// Says what a row lacks. `has_content`: whether it has an event or a profile.
    fn check(&self, row: &Row<'_>, has_content: bool) -> Result<(), &'static str> {
        if !has_text(row, MEMBER) {
            Err("has no member")
        } else if has_content {
            Ok(())
        } else if self.reading.profiles {
            Err("has neither a score nor a name")
        } else {
            Err("has no score")
        }
    }

    fn add_event(&mut self, row: &mut Row<'_>) -> Result<(), String> {
        if row[AT].is_none() {
            row[AT] = self.time()?.map(|at| at.to_string().into());
        }
        let (board, generated) = (&self.args.board, (self.id_prefix.as_str(), self.rows));
        let write = |body: &mut Vec<u8>| write_event(body, row, board.as_str(), generated);
        self.events.add("event", write)?;
        self.batch.generated += u64::from(row[ID].is_none());
        self.batch.is_ordered |= row[AT].is_none();
        Ok(())
    }

    /// The time of this row if it has none of its own: a microsecond after that of the row before.
    fn time(&self) -> Result<Option<Timestamp>, String> {
        let time = |first: Timestamp| {
            let us = first.us().saturating_add_unsigned(self.rows - 1);
            Timestamp::from_us(us).map_err(|error| format!("its time {error}"))
        };
        self.reading.at.map(time).transpose()
    }

    /// Sends what has been collected.
    fn close(&mut self, is_last: bool) -> Result<(), Stop> {
        if let Some(names) = self.ignored.take_new() {
            let known = self.names.list();
            let hint = if self.ignored.names.contains(EXPORTED_AT) {
                "; is this the export of a standing? Then add --from-export"
            } else if self.reading.is_export && self.ignored.names.contains(HIDDEN) {
                "; members that were hidden are visible here unless you hide them"
            } else {
                ""
            };
            self.progress
                .notice(&format!("ignored: {names} (known fields: {known}){hint}"));
        }
        let next = Batch {
            first_row: self.rows,
            sent: Vec::with_capacity(self.batch.sent.len()),
            ..Batch::default()
        };
        let batch = std::mem::replace(&mut self.batch, next);
        let batch = Batch {
            rows: self.rows.saturating_sub(batch.first_row),
            events: self.events.take(),
            profiles: self.profiles.take(),
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

fn has_text(row: &Row<'_>, field: usize) -> bool {
    row[field].as_deref().is_some_and(|text| !text.is_empty())
}

/// Writes an event. `generated`: the two parts of its id, if the row has none.
fn write_event(
    body: &mut Vec<u8>,
    row: &Row<'_>,
    board: &str,
    (prefix, number): (&str, u64),
) -> io::Result<()> {
    // The ids of boards and those that are generated need no escapes.
    write!(body, "{{\"board\":\"{board}\"")?;
    if row[ID].is_none() {
        write!(body, ",\"id\":\"{prefix}{number}\"")?;
    }
    write_fields(body, row, 0..NAME)?;
    body.push(b'}');
    Ok(())
}

fn write_profile(body: &mut Vec<u8>, row: &Row<'_>) -> io::Result<()> {
    body.extend_from_slice(b"{\"member\":");
    serde_json::to_writer(&mut *body, &row[MEMBER])?;
    write_fields(body, row, [NAME, AVATAR_URL, ATTRIBUTES])?;
    body.push(b'}');
    Ok(())
}

/// Writes those of the fields that the row has, each after a comma.
fn write_fields(
    body: &mut Vec<u8>,
    row: &Row<'_>,
    fields: impl IntoIterator<Item = usize>,
) -> io::Result<()> {
    for field in fields {
        let Some(text) = &row[field] else { continue };
        write!(body, ",\"{}\":", FIELDS[field])?;
        if is_json(field) {
            body.extend_from_slice(text.as_bytes());
        } else {
            serde_json::to_writer(&mut *body, text)?;
        }
    }
    Ok(())
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

/// Stops reading a file whose content is invalid from this line on.
pub(super) fn content(path: &str, line: u64, detail: &impl ToString) -> Stop {
    Stop::Failed(ImportError::Content {
        path: path.to_owned(),
        line,
        detail: detail.to_string(),
    })
}
