//! Reads a standing: what all kinds of reads have in common.

use std::sync::Arc;
use std::time::Instant;

use super::period::{Choice, Target};
use super::{Error, Service};
use crate::domain::board::Uniques;
use crate::domain::ids::BoardId;
use crate::domain::period::Period;
use crate::domain::series::Track;
use crate::domain::time::Timestamp;
use crate::engine::reader::{ReadError, Reader, Size};
use crate::engine::{ATTEMPTS_MAX, LiveBoard};
use crate::store::Freshness;
use crate::store::standings::{Entry, Page, Sight};
use crate::store::voters::Voters;

/// Which standing is read, and how.
#[derive(Clone, Debug)]
pub struct StandingRequest {
    /// Of which board.
    pub board: BoardId,
    /// Of which window.
    pub window: String,
    /// Of which period.
    pub choice: Choice,
    /// On which track.
    pub track: Track,
    /// How fresh the answer has to be.
    pub freshness: Freshness,
    /// How much the request reads that this is a part of.
    pub size: Size,
    /// Whose entries it sees.
    pub sight: Sight,
}

/// A kind of read: a page, a member, …
pub trait View: Sync {
    /// What it finds.
    type Found: Send;

    /// Reads a standing once.
    fn read(
        &self,
        attempt: &Attempt<'_>,
    ) -> impl Future<Output = Result<Self::Found, ReadError>> + Send;
}

/// One attempt to read a standing.
pub struct Attempt<'a> {
    pub(super) live: &'a LiveBoard,
    pub(super) target: &'a Target,
    pub(super) now: Timestamp,
    pub(super) reader: Reader<'a>,
}

impl Attempt<'_> {
    /// The periods whose events are in the standing.
    pub(super) fn periods(&self) -> Vec<Period> {
        self.target.periods(&self.live.board)
    }

    /// The voters of entries of the standing, if the board counts them.
    pub(super) async fn voters(
        &self,
        entries: impl Iterator<Item = &Entry>,
    ) -> Result<Voters, Error> {
        if self.live.board.definition.uniques != Some(Uniques::Member) {
            return Ok(Voters::default());
        }
        let (engine, periods) = (self.reader.engine, self.periods());
        engine.voters(self.live, &periods, entries).await
    }

    /// The voters of a page's entries and of its `me`, which are estimated once for all who share it.
    pub(super) async fn voters_of_page(&self, page: &Page) -> Result<Voters, Error> {
        if self.live.board.definition.uniques != Some(Uniques::Member) {
            return Ok(Voters::default());
        }
        let entries = page.entries.iter().chain(&page.me);
        let voters = || Box::pin(self.voters(entries));
        page.voters.get_or_try_init(voters).await.cloned()
    }
}

/// What was found in a standing, and which one it was.
#[derive(Clone, Debug)]
pub struct FoundIn<T> {
    /// The board.
    pub live: Arc<LiveBoard>,
    /// The standing.
    pub target: Target,
    /// What was found.
    pub found: T,
    /// All that was acknowledged by then is in it; `None`: all that was before the request.
    pub as_of: Option<Instant>,
}

impl Service {
    /// Reads a standing.
    pub async fn read<V: View>(
        &self,
        request: &StandingRequest,
        view: &V,
    ) -> Result<FoundIn<V::Found>, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let live = self.engine.live_board(&request.board).await?;
            let now = self.engine.clock.now();
            let target = Target::find(&live, &request.window, request.track, &request.choice, now)?;
            let attempt = Attempt {
                live: &live,
                target: &target,
                now,
                reader: Reader::new(&self.engine, &live, request.freshness)
                    .of_size(request.size)
                    .with_sight(request.sight),
            };
            match view.read(&attempt).await {
                Ok(found) => {
                    let as_of = attempt.reader.as_of();
                    return Ok(FoundIn {
                        live,
                        target,
                        found,
                        as_of,
                    });
                }
                Err(ReadError::Retry) => {}
                Err(ReadError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::busy())
    }
}
