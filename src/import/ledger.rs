//! The account of an import: which rows are acknowledged, which may have been sent, and since when.
//!
//! Batches are acknowledged in the order of the file, so that one number says what is done. The checkpoint on
//! the disk is never behind what its reader has to know: before a row is sent, a checkpoint is there that
//! says that it may have been.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csv::ByteRecord;

use super::checkpoint::{Checkpoint, CheckpointFile, Job};
use super::client::BoardFacts;
use super::input::Identity;
use super::marks::{Earlier, Mark, Marks};
use super::memory::{Memory, Unsure};
use super::rejects::{Rejection, Rejects};
use super::summary::Tally;
use super::{ImportArgs, ImportError};
use crate::domain::time::{Span, Timestamp};

/// How often the checkpoint is written at least, while rows are acknowledged.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// For how many batches beyond those in flight a checkpoint is made, so that it isn't written for each.
const SAVE_AHEAD_BATCHES: u64 = 64;

/// A batch whose events all have their results.
#[derive(Debug)]
pub(super) struct Acknowledged {
    pub(super) rows: u64,
    pub(super) tally: Tally,
    /// In the order of the file.
    pub(super) rejections: Vec<Rejection>,
    /// The header of a CSV file.
    pub(super) header: Option<Arc<ByteRecord>>,
    /// When it was sent for the first time, or before. Requests begin in the order of the rows, so nothing behind
    /// it was sent before that.
    pub(super) sent: Timestamp,
    pub(super) bytes_read: u64,
    pub(super) is_last: bool,
}

/// What is known of the rows.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Checkpoint,
    /// What was on the disk at the start.
    found: Option<Checkpoint>,
    /// `None` for a stream, which can't be resumed.
    file: Option<CheckpointFile>,
    rejects: Option<Rejects>,
    unsure: Option<Unsure>,
    /// How many rows a checkpoint allows to be sent beyond those that are acknowledged.
    ahead_rows: u64,
    /// How many of them can be in flight.
    in_flight_rows: u64,
    saved: Instant,
}

impl Ledger {
    /// Looks for a checkpoint, unless it is to be ignored; blocks.
    pub(super) fn open(job: Job, args: &ImportArgs, fallback: &Path) -> Result<Self, ImportError> {
        let file = &args.file;
        let (place, found) = if job.file.is_none() {
            (None, None)
        } else if args.restart {
            CheckpointFile::forget(file, fallback)?;
            (Some(CheckpointFile::place(file, fallback)), None)
        } else if let Some((place, found)) = CheckpointFile::find(file, fallback, &job)? {
            (Some(place), Some(found))
        } else {
            (Some(CheckpointFile::place(file, fallback)), None)
        };
        let kept = found.as_ref().map(|found| found.rejects_bytes);
        let rejects = job.rejects.as_deref();
        let rejects = rejects.map(|path| Rejects::open(path, kept)).transpose()?;
        let [batches, batch_rows] = [args.concurrency, args.batch].map(u64::from);
        Ok(Self {
            state: found.clone().unwrap_or_else(|| Checkpoint::new(job)),
            found,
            file: place,
            rejects,
            unsure: None,
            ahead_rows: (batches + SAVE_AHEAD_BATCHES) * batch_rows,
            in_flight_rows: batches * batch_rows,
            saved: Instant::now(),
        })
    }

    /// What is known of an earlier import of the same rows, unless one that was interrupted goes on.
    pub(super) fn earlier(
        &self,
        marks: &Marks,
        beginnings: &[Identity],
        board: &BoardFacts,
    ) -> Option<Earlier> {
        if self.is_resumed() {
            return None;
        }
        marks.find(&self.state.job, beginnings, board.version.as_deref())
    }

    /// Takes rows for such that may have been sent, as an earlier import has.
    pub(super) fn repeat(&mut self, mark: &Mark) {
        self.state.sent_rows = mark.rows;
        self.state.sent_since = Some(mark.begun);
        self.state.begun = Some(mark.begun);
    }

    /// Checks that rows which may have been taken can still be sent again, and makes the checkpoint for
    /// those that come.
    pub(super) fn begin(
        &mut self,
        board: &BoardFacts,
        is_checked: bool,
        now: Timestamp,
    ) -> Result<(), ImportError> {
        let before = self.state.board_version.take();
        self.state.board_version.clone_from(&board.version);
        if let (Some(before), Some(version), false) = (before, &board.version, is_checked)
            && before != *version
        {
            return Err(ImportError::BoardChanged {
                board: self.state.job.board.clone(),
            });
        }
        self.unsure = self.find_unsure(board.idempotency, is_checked, now)?;
        let since = self.unsure.map_or(now, |unsure| unsure.since);
        self.state.sent_since = Some(since);
        if !self.is_resumed() {
            self.state.begun.get_or_insert(since);
        }
        self.save()
    }

    fn find_unsure(
        &self,
        idempotency: Span,
        is_checked: bool,
        now: Timestamp,
    ) -> Result<Option<Unsure>, ImportError> {
        let Checkpoint {
            rows,
            sent_rows,
            sent_since,
            ref job,
            ..
        } = self.state;
        let Some(since) = sent_since.filter(|_| sent_rows > rows) else {
            return Ok(None);
        };
        if is_checked {
            // From now on they are as good as rows that are sent for the first time.
            return Ok(Some(Unsure {
                sent_rows,
                since: now,
                until: None,
            }));
        }
        let Some(left) = Memory::time_left(idempotency, since, now) else {
            let (board, first_row) = (job.board.clone(), rows + 1);
            return Err(ImportError::TooOld {
                board,
                since,
                idempotency,
                first_row,
                last_row: sent_rows,
            });
        };
        Ok(Some(Unsure {
            sent_rows,
            since,
            until: Some(Instant::now() + left),
        }))
    }

    /// How many rows are acknowledged.
    pub(super) fn rows(&self) -> u64 {
        self.state.rows
    }

    /// What became of them.
    pub(super) fn tally(&self) -> &Tally {
        &self.state.tally
    }

    /// Whether an earlier run is gone on with.
    pub(super) fn is_resumed(&self) -> bool {
        self.found.is_some()
    }

    /// Whether an interrupted import could go on.
    pub(super) fn is_resumable(&self) -> bool {
        self.file.is_some()
    }

    /// What the board remembers of rows that an earlier run may have sent.
    pub(super) fn memory(&self, idempotency: Span) -> Memory {
        Memory {
            idempotency,
            unsure: self.unsure,
        }
    }

    /// Counts rows that follow those acknowledged so far.
    pub(super) fn acknowledge(&mut self, batch: &Acknowledged) -> Result<(), ImportError> {
        let &Acknowledged { rows, sent, .. } = batch;
        if let Some(rejects) = &mut self.rejects {
            rejects.append(batch.header.as_deref(), &batch.rejections)?;
        }
        self.state.rows += rows;
        self.state.tally.add(&batch.tally);
        for rejection in &batch.rejections {
            self.state.tally.reject(rejection);
        }
        self.unsure = self
            .unsure
            .filter(|unsure| self.state.rows < unsure.sent_rows);
        self.state.sent_since = Some(self.unsure.map_or(sent, |unsure| unsure.since));
        let is_used_up = self.state.rows + self.in_flight_rows > self.state.sent_rows;
        if is_used_up || self.saved.elapsed() >= SAVE_INTERVAL {
            self.save()
        } else {
            Ok(())
        }
    }

    /// Writes the checkpoint, for rows that may be sent before the next time.
    fn save(&mut self) -> Result<(), ImportError> {
        self.state.sent_rows = self.state.sent_rows.max(self.state.rows + self.ahead_rows);
        self.write()
    }

    fn write(&mut self) -> Result<(), ImportError> {
        self.saved = Instant::now();
        // What the checkpoint says of it is on the disk before.
        if let Some(rejects) = &self.rejects {
            self.state.rejects_bytes = rejects.sync()?;
        }
        if let Some(file) = &self.file {
            file.write(&self.state)?;
        }
        Ok(())
    }

    /// Ends an import that stays incomplete, with requests whose fate is not known.
    pub(super) fn suspend(&mut self) -> Result<(), ImportError> {
        self.write()
    }

    /// Ends an import that stays incomplete, with every request answered: nothing limits when it goes on.
    pub(super) fn suspend_settled(&mut self) -> Result<(), ImportError> {
        self.state.sent_rows = self
            .unsure
            .map_or(self.state.rows, |unsure| unsure.sent_rows);
        self.state.sent_since = self.unsure.map(|unsure| unsure.since);
        self.write()
    }

    /// Ends an import that has sent nothing: leaves what was found.
    pub(super) fn undo(&mut self) -> Result<(), ImportError> {
        if let Some(rejects) = &mut self.rejects {
            rejects.cut(self.found.as_ref().map_or(0, |found| found.rejects_bytes))?;
            rejects.close()?;
        }
        match (&self.file, &self.found) {
            (Some(file), Some(found)) => file.write(found)?,
            (Some(file), None) => file.remove()?,
            (None, _) => {}
        }
        Ok(())
    }

    /// Ends a complete import, and leaves its mark.
    pub(super) fn finish(&mut self, marks: &Marks) -> Result<(), ImportError> {
        if let Some(rejects) = &self.rejects {
            rejects.close()?;
        }
        if let Some(file) = &self.file {
            marks.leave(&self.mark())?;
            file.remove()?;
        }
        Ok(())
    }

    fn mark(&self) -> Mark {
        Mark {
            job: self.state.job.clone(),
            board_version: self.state.board_version.clone(),
            rows: self.state.rows,
            generated: self.state.tally.generated,
            begun: self.begun(),
        }
    }

    /// No row was sent before this time.
    pub(super) fn begun(&self) -> Timestamp {
        // A checkpoint of an earlier release doesn't say.
        self.state.begun.unwrap_or(Timestamp::MIN)
    }

    /// Until when the import can go on; `None` if nothing limits that.
    pub(super) fn resumable_until(&self, idempotency: Span) -> Option<Timestamp> {
        let since = self
            .state
            .sent_since
            .filter(|_| self.state.sent_rows > self.state.rows)?;
        Some(Memory::end(idempotency, since))
    }
}
