//! The format of stored data: of boards, and of data that belongs to no board.
//!
//! Each board stores the number of its format next to its definition (`core/board/store/boards.rs`), and so does data that
//! belongs to no board. A release works with one format. If it finds another one, it refuses to work before it writes
//! anything, because it would corrupt data that it misreads. A change of the format increments the number, and comes with a
//! migration.

use std::sync::atomic::Ordering;

use super::connection::Call;
use super::dispatch::Store;
use super::protocol::formats::DATA_FORMAT;
use super::{StoreError, keys, script};

/// The format of data without a number.
pub(crate) const FIRST_FORMAT: u64 = 1;

/// The error about data of another format, with what to do.
pub(crate) fn other_format(what: &str, format: u64) -> String {
    format!(
        "{what} has the data format {format}, and this release supports {DATA_FORMAT}: use the release that wrote it, or another Redis database"
    )
}

impl Store {
    /// Checks that data which belongs to no board has the format of this release, or does not exist yet; otherwise fails
    /// with [`StoreError::Unusable`]. Writes nothing.
    pub(crate) async fn check_format(&self) -> Result<(), StoreError> {
        let args = [keys::FORMAT, keys::STAMP];
        let stored: (Option<String>, Option<String>) = self.command("MGET", args).await?;
        match stored {
            (None, None) => Ok(()),
            (None, Some(_)) => require_format(&FIRST_FORMAT.to_string()),
            (Some(format), _) => require_format(&format),
        }
    }

    /// Checks the same before the first write, and stores the format if nothing was stored before.
    pub(crate) async fn note_format(&self) -> Result<(), StoreError> {
        let keys = [keys::FORMAT, keys::STAMP].map(str::to_owned);
        let args = vec![DATA_FORMAT.to_string().into()];
        let call = Call::new(&script::FORMAT, keys.into(), args);
        let reply = self.send_in_turn(String::new(), call, 0).await?;
        require_format(&reply.as_string().unwrap_or_default())?;
        self.is_format_known.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn require_format(format: &str) -> Result<(), StoreError> {
    if format == DATA_FORMAT.to_string() {
        return Ok(());
    }
    let format = format.parse().unwrap_or_default();
    Err(StoreError::Unusable(other_format("what it has", format)))
}
