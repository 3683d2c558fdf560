//! The use cases, shared by HTTP and the background workers: one file, one public verb each.
//!
//! Everything here may be called on any number of instances at once. A definition in memory may be out of
//! date: every script call names the version that it was made for, and one that meets another version does
//! nothing and says so; then the definition is read again and the work begins anew.

pub mod boards;
pub mod error;
pub mod member;
pub mod page;
pub mod period;
pub mod rollover;
pub mod submit;
pub mod subset;

use std::sync::Arc;

pub use error::Error;

use crate::clock::Clock;
use crate::domain::board::Board;
use crate::domain::plan::Routes;
use crate::domain::window::Window;
use crate::store::standings::Read;
use crate::store::{Store, Versioned};

/// How often a call begins anew because the definition has changed or a rolling standing was not complete.
const ATTEMPTS_MAX: usize = 8;

/// A board in memory.
#[derive(Debug)]
pub struct LiveBoard {
    /// The board.
    pub board: Board,
    /// The routes of its latest events.
    pub routes: Routes,
}

/// The service: what HTTP handlers and workers call. Shared behind an [`Arc`].
#[derive(Debug)]
pub struct Service {
    /// Redis.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    boards: boards::Boards,
    completing: rollover::Completing,
}

impl Service {
    /// Puts the service together; nothing is read or written yet.
    pub fn new(store: Store, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            boards: boards::Boards::default(),
            completing: rollover::Completing::default(),
        })
    }

    /// Takes the answer of a read, or does what it takes to have one at the next attempt.
    async fn settle<T>(
        &self,
        live: &LiveBoard,
        window: Window,
        read: Versioned<Read<T>>,
    ) -> Result<Option<T>, Error> {
        match read {
            Versioned::Current(Read::Complete(answer)) => return Ok(Some(answer)),
            Versioned::Current(Read::Incomplete(start_ms)) => {
                self.complete_from(live, window, start_ms).await?;
            }
            Versioned::Stale => self.reload(&live.board.id).await?,
        }
        Ok(None)
    }
}
