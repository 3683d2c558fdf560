//! Why an import fails, in the words that the user reads.

use std::io;
use std::path::Path;

use thiserror::Error;

use crate::cli::client::ClientError;
use crate::domain::time::{Span, Timestamp};

/// Why an import failed.
#[derive(Debug, Error)]
pub(super) enum ImportError {
    /// Options contradict each other.
    #[error("{0}")]
    Options(String),
    /// The file can't be opened or read.
    #[error("can't read {path}: {cause}")]
    Read { path: String, cause: io::Error },
    /// Its content is not CSV or NDJSON of events, from this line on, counted from 1.
    #[error("{path}, line {line}: {detail}")]
    Content {
        path: String,
        line: u64,
        detail: String,
    },
    /// The thread that reads it has ended without an error.
    #[error("reading {0} ended unexpectedly")]
    Lost(String),
    /// The rejected rows can't be written, or the record, without which an interrupted import could not go on.
    #[error("can't write {what} {path}: {cause}")]
    Write {
        what: &'static str,
        path: String,
        cause: io::Error,
    },
    /// The record exists, but can't be parsed.
    #[error("can't read the record {0}: {1}; --restart starts over without it")]
    Record(String, io::Error),
    /// Another import of the file into the board has locked this file.
    #[error(
        "another import of this file into this board is running ({0} is locked): wait until it ends"
    )]
    Running(String),
    /// The record belongs to another import, which differs in this.
    #[error(
        "the record {0} belongs to another import ({1}): finish that one first, or start over with --restart"
    )]
    OtherRecord(String, String),
    /// An existing file would be lost.
    #[error("{0} exists already: give --rejects a new file")]
    RejectsExist(String),
    /// The file lacks rows that an interrupted import has written.
    #[error(
        "{0} was changed since the import was interrupted, and rejected rows are missing: start over with --restart"
    )]
    RejectsChanged(String),
    /// The service did not accept what was sent.
    #[error(transparent)]
    Service(#[from] ClientError),
    /// Rows that were imported before would count again.
    #[error(
        "{what} was imported into board {board} at {begun}, and {why}: its {rows} rows would count again. Import only the new rows; or use --restart to count them again"
    )]
    Repeated {
        what: &'static str,
        board: String,
        begun: Timestamp,
        why: String,
        rows: u64,
    },
    /// The user interrupted it. All requests were answered.
    #[error("interrupted")]
    Interrupted,
    /// The user interrupted it, and requests were not answered in time.
    #[error("interrupted")]
    Unanswered,
    /// A request whose outcome is unknown can't be sent again, since it could count twice by now.
    #[error(
        "{what} may have been accepted, and the board may have forgotten their ids, which it remembers for {idempotency}: {last}"
    )]
    Forgotten {
        what: String,
        idempotency: Span,
        last: String,
    },
    /// An earlier run has sent such rows, the first of them at this time.
    #[error(
        "rows {first_row} to {last_row} may have been accepted since {since}, when the import was interrupted, but board {board} remembers ids for only {idempotency}: sending the rows again may count them twice. Check whether they were accepted. If not, continue with --resume-anyway; otherwise delete the board, create it again and start over with --restart"
    )]
    TooOld {
        board: String,
        since: Timestamp,
        idempotency: Span,
        first_row: u64,
        last_row: u64,
    },
    /// The board may be another one.
    #[error(
        "board {board} has been redefined or created again since the import was interrupted: if it still has the imported events, continue with --resume-anyway; otherwise start over with --restart"
    )]
    BoardChanged { board: String },
    /// The import ended before the file did; this many rows were acknowledged, including those of earlier runs.
    #[error("{cause}; {rows} rows are done. {advice}")]
    Stopped {
        cause: Box<ImportError>,
        rows: u64,
        advice: String,
    },
}

impl ImportError {
    pub(super) fn write(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Write {
            what,
            path: path.display().to_string(),
            cause,
        }
    }

    /// Whether every request that was begun has been answered: an error in the file is reported after all rows before it.
    pub(super) fn is_settled(&self) -> bool {
        use ImportError::{Content, Interrupted, Lost, Read};
        matches!(self, Read { .. } | Content { .. } | Lost(_) | Interrupted)
    }
}
