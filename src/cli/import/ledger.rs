//! The ledger of a running import: which rows are acknowledged, which may have been sent, and since when.
//!
//! Batches are acknowledged in the order of the file, so that one number says what is done. Before a row is sent, the
//! record on disk says that it may have been sent.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::fields::{FieldNames, SCORE};
use super::input::Identity;
use super::memory::{Memory, Unsure};
use super::record::{Earlier, ImportJob, ImportRecord, RECORD, RecordPlace};
use super::rejects::{Rejection, Rejects};
use super::rows::Batch;
use super::sender::BoardFacts;
use super::summary::Tally;
use super::{ImportArgs, ImportError, remove};
use crate::cli::text::shortened;
use crate::domain::time::{Span, Timestamp};

/// The longest time between two writes of the record, while rows are acknowledged.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// For how many batches beyond those in flight a record is written ahead, so that it isn't written for each.
const SAVE_AHEAD_BATCHES: u64 = 64;

/// A batch whose events all have their results.
#[derive(Debug)]
pub(super) struct Acknowledged {
    pub(super) batch: Batch,
    /// The outcomes of the events that were taken.
    pub(super) tally: Tally,
    /// The rejected rows, in the order of the file.
    pub(super) rejections: Vec<Rejection>,
    /// When it was first sent, or earlier. Requests begin in the order of the rows, so nothing after it was sent earlier.
    pub(super) sent: Timestamp,
}

/// What is known about the rows.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) record: ImportRecord,
    /// The record on disk at the start.
    found: Option<ImportRecord>,
    /// The path of the record; `None` for a stream, which can't be resumed.
    path: Option<PathBuf>,
    rejects: Option<Rejects>,
    /// A finished import of the same rows.
    pub(super) earlier: Option<Earlier>,
    unsure: Option<Unsure>,
    /// How many rows a record allows to be sent beyond those that are acknowledged.
    ahead_rows: u64,
    /// How many of those can be in flight.
    in_flight_rows: u64,
    saved: Instant,
}

impl Ledger {
    /// Looks up what is known about the import, checks that rows that may have been taken can be sent again, and writes the
    /// record for those that follow; blocks. `found`: the existing record; `beginning`: of the file, as long as that
    /// record's file.
    pub(super) fn begin(
        (place, found): (&RecordPlace, Option<ImportRecord>),
        (job, beginning): (ImportJob, Option<&Identity>),
        args: &ImportArgs,
        board: &BoardFacts,
        now: Timestamp,
    ) -> Result<Self, ImportError> {
        let found = found.filter(|_| job.file.is_some());
        let path = job.file.is_some().then(|| place.path().to_owned());
        let resumed = found.as_ref().filter(|found| !found.is_finished);
        if let Some((record, path)) = resumed.zip(path.as_ref())
            && let Some(difference) = record.difference(&job)
        {
            let path = path.display().to_string();
            return Err(ImportError::OtherRecord(path, shortened(&difference)));
        }
        let version = board.version.as_deref();
        let earlier = found
            .as_ref()
            .and_then(|found| found.as_earlier(&job, beginning, version));
        let kept = resumed.map(|resumed| resumed.rejects_bytes);
        let mut record = resumed.cloned().unwrap_or_else(|| ImportRecord::new(job));
        if let Some(earlier) = &earlier {
            check_repeat(earlier, args, board, now)?;
            // Its rows count as rows that may have been sent.
            let ImportRecord { rows, begun, .. } = earlier.record;
            (record.sent_rows, record.sent_since, record.begun) = (rows, begun, begun);
        }
        let unsure = check_unsure(&mut record, args, board, now)?;
        // From here on the disk is changed.
        let names = FieldNames::new(&record.job.reading);
        let rejects = record
            .job
            .rejects
            .as_deref()
            .map(|path| Rejects::open(path, kept, names.of(SCORE)))
            .transpose()?;
        let [batches, batch_rows] = [args.concurrency, args.batch].map(u64::from);
        let mut ledger = Self {
            record,
            found,
            path,
            rejects,
            earlier,
            unsure,
            ahead_rows: (batches + SAVE_AHEAD_BATCHES) * batch_rows,
            in_flight_rows: batches * batch_rows,
            saved: Instant::now(),
        };
        ledger.save()?;
        Ok(ledger)
    }

    /// The record of an earlier run that this one resumes.
    pub(super) fn resumed(&self) -> Option<&ImportRecord> {
        self.found.as_ref().filter(|found| !found.is_finished)
    }

    /// Whether the import could be resumed after an interruption.
    pub(super) fn is_resumable(&self) -> bool {
        self.path.is_some()
    }

    /// What the board remembers of rows that an earlier run may have sent.
    pub(super) fn memory(&self, idempotency: Span) -> Memory {
        Memory {
            idempotency,
            unsure: self.unsure,
        }
    }

    /// Counts rows that follow those acknowledged so far; blocks.
    pub(super) fn acknowledge(&mut self, acknowledged: &Acknowledged) -> Result<(), ImportError> {
        let (batch, rejections) = (&acknowledged.batch, &acknowledged.rejections);
        if let Some(rejects) = &mut self.rejects {
            rejects.append(batch.header.as_deref(), rejections)?;
        }
        let record = &mut self.record;
        record.rows += batch.rows;
        record.tally.add(&acknowledged.tally);
        for rejection in rejections {
            record.tally.reject(rejection);
        }
        self.unsure = self.unsure.filter(|unsure| record.rows < unsure.sent_rows);
        let sent = self.unsure.map_or(acknowledged.sent, |unsure| unsure.since);
        record.sent_since = Some(sent);
        let is_used_up = record.rows + self.in_flight_rows > record.sent_rows;
        if is_used_up || self.saved.elapsed() >= SAVE_INTERVAL {
            self.save()?;
        }
        Ok(())
    }

    /// Writes the record, covering the rows that may be sent before the next write.
    fn save(&mut self) -> Result<(), ImportError> {
        let record = &mut self.record;
        record.sent_rows = record.sent_rows.max(record.rows + self.ahead_rows);
        self.write()
    }

    fn write(&mut self) -> Result<(), ImportError> {
        self.saved = Instant::now();
        // The rejected rows must be on disk before the record that counts them.
        if let Some(rejects) = &self.rejects {
            self.record.rejects_bytes = rejects.sync()?;
        }
        if let Some(path) = &self.path {
            self.record.write(path)?;
        }
        Ok(())
    }

    /// Ends an import that stays incomplete. `is_settled`: every request was answered, so there is no time limit.
    pub(super) fn suspend(&mut self, is_settled: bool) -> Result<(), ImportError> {
        if is_settled {
            let (record, unsure) = (&mut self.record, self.unsure);
            record.sent_rows = unsure.map_or(record.rows, |unsure| unsure.sent_rows);
            record.sent_since = unsure.map(|unsure| unsure.since);
        }
        self.write()
    }

    /// Ends an import that has sent nothing: restores what was found.
    pub(super) fn undo(&mut self) -> Result<(), ImportError> {
        let kept = self.resumed().map_or(0, |resumed| resumed.rejects_bytes);
        if let Some(rejects) = &mut self.rejects {
            rejects.cut(kept)?;
            rejects.close()?;
        }
        match (&self.path, &self.found) {
            (Some(path), Some(found)) => found.write(path)?,
            (Some(path), None) => remove(path).map_err(ImportError::write(RECORD, path))?,
            (None, _) => {}
        }
        Ok(())
    }

    /// Ends a complete import. Its record stays.
    pub(super) fn finish(&mut self) -> Result<(), ImportError> {
        self.record.is_finished = true;
        self.write()?;
        if let Some(rejects) = &self.rejects {
            rejects.close()?;
        }
        Ok(())
    }

    /// Until when the import can be resumed; `None` for no limit.
    pub(super) fn resumable_until(&self, idempotency: Span) -> Option<Timestamp> {
        let record = &self.record;
        let since = record
            .sent_since
            .filter(|_| record.sent_rows > record.rows)?;
        Some(Memory::end(idempotency, since))
    }
}

/// Rows of a finished import may be sent again while the board remembers their ids, if they still get the same ids.
fn check_repeat(
    earlier: &Earlier,
    args: &ImportArgs,
    board: &BoardFacts,
    now: Timestamp,
) -> Result<(), ImportError> {
    let (record, idempotency) = (&earlier.record, board.idempotency);
    let why = match earlier.id_change() {
        Some(why) => why.to_owned(),
        None if Memory::remaining(idempotency, record.begun(), now).is_some() => return Ok(()),
        None => format!("the board remembers ids for only {idempotency}"),
    };
    Err(ImportError::Repeated {
        what: if earlier.is_whole {
            "this file"
        } else {
            "the beginning of this file"
        },
        board: args.board.to_string(),
        begun: record.begun(),
        why,
        rows: record.rows,
    })
}

/// Checks that rows that may have been taken, but are not acknowledged, can be sent again, and notes in the record since
/// when rows may have been sent. Returns those rows.
fn check_unsure(
    record: &mut ImportRecord,
    args: &ImportArgs,
    board: &BoardFacts,
    now: Timestamp,
) -> Result<Option<Unsure>, ImportError> {
    let before = record.board_version.take();
    record.board_version.clone_from(&board.version);
    let is_changed = before.is_some() && board.version.is_some() && before != board.version;
    if is_changed && !args.resume_anyway {
        let board = record.job.board.clone();
        return Err(ImportError::BoardChanged { board });
    }
    let (rows, sent_rows, idempotency) = (record.rows, record.sent_rows, board.idempotency);
    let since = record.sent_since.filter(|_| sent_rows > rows);
    let unsure = |since, until| Unsure {
        sent_rows,
        since,
        until,
    };
    let unsure = match since {
        None => None,
        // From now on they count as rows that are sent for the first time.
        Some(_) if args.resume_anyway => Some(unsure(now, None)),
        Some(since) => {
            let remaining =
                Memory::remaining(idempotency, since, now).ok_or_else(|| ImportError::TooOld {
                    board: record.job.board.clone(),
                    since,
                    idempotency,
                    first_row: rows + 1,
                    last_row: sent_rows,
                })?;
            Some(unsure(since, Some(Instant::now() + remaining)))
        }
    };
    let since = unsure.map_or(now, |unsure| unsure.since);
    record.sent_since = Some(since);
    record.begun.get_or_insert(since);
    Ok(unsure)
}
