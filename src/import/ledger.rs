//! The account of an import: which rows are acknowledged, which may have been sent, and since when.
//!
//! Batches are acknowledged in the order of the file, so that one number says what is done. The checkpoint on
//! the disk is never behind what its reader has to know: before a row is sent, a checkpoint is there that
//! says that it may have been.

use std::path::Path;
use std::time::{Duration, Instant};

use super::ImportError;
use super::checkpoint::{Checkpoint, CheckpointFile, Job};
use super::client::BoardFacts;
use super::memory::{Memory, Unsure};
use super::summary::Tally;
use crate::domain::time::{Span, Timestamp};

/// How often the checkpoint is written at least, while rows are acknowledged.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// For how many batches beyond those in flight a checkpoint is made, so that it isn't written for each.
const SAVE_AHEAD_BATCHES: u64 = 64;

/// What is known of the rows.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Checkpoint,
    /// What was on the disk at the start.
    found: Option<Checkpoint>,
    /// `None` for a stream, which can't be resumed.
    file: Option<CheckpointFile>,
    unsure: Option<Unsure>,
    /// How many rows a checkpoint allows to be sent beyond those that are acknowledged.
    ahead_rows: u64,
    /// How many of them can be in flight.
    in_flight_rows: u64,
    saved: Instant,
}

impl Ledger {
    /// Looks for a checkpoint, unless it is to be ignored; blocks.
    pub(super) fn open(
        job: Job,
        file: &Path,
        fallback: &Path,
        is_restart: bool,
        in_flight: [u64; 2],
    ) -> Result<Self, ImportError> {
        let (place, found) = if job.file.is_none() {
            (None, None)
        } else if is_restart {
            CheckpointFile::forget(file, fallback)?;
            (Some(CheckpointFile::place(file, fallback)), None)
        } else if let Some((place, found)) = CheckpointFile::find(file, fallback, &job)? {
            (Some(place), Some(found))
        } else {
            (Some(CheckpointFile::place(file, fallback)), None)
        };
        let [batches, batch_rows] = in_flight;
        Ok(Self {
            state: found.clone().unwrap_or_else(|| Checkpoint::new(job)),
            found,
            file: place,
            unsure: None,
            ahead_rows: (batches + SAVE_AHEAD_BATCHES) * batch_rows,
            in_flight_rows: batches * batch_rows,
            saved: Instant::now(),
        })
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
        self.state.sent_since = Some(self.unsure.map_or(now, |unsure| unsure.since));
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

    /// Counts rows that follow those acknowledged so far. `sent`: when the first request for them began, or
    /// before. Requests begin in the order of the rows, so nothing behind them was sent before that.
    pub(super) fn acknowledge(
        &mut self,
        rows: u64,
        tally: &Tally,
        sent: Timestamp,
    ) -> Result<(), ImportError> {
        self.state.rows += rows;
        self.state.tally.add(tally);
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
        match (&self.file, &self.found) {
            (Some(file), Some(found)) => file.write(found)?,
            (Some(file), None) => file.remove()?,
            (None, _) => {}
        }
        Ok(())
    }

    /// Ends a complete import.
    pub(super) fn finish(&mut self) -> Result<(), ImportError> {
        if let Some(file) = &self.file {
            file.remove()?;
        }
        Ok(())
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
