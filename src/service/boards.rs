//! Boards: defined, read, listed, deleted, and held in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::{ATTEMPTS_MAX, Error, LiveBoard, Service};
use crate::domain::board::{Board, Definition, FieldError};
use crate::domain::ids::BoardId;
use crate::store::StoreError;
use crate::store::boards::Defined;

/// How many definitions are read side by side.
const LOADS_MAX: usize = 64;
/// How long events and reads wait for a board that is just going to other shards.
const CLOSED_TIME_MAX: Duration = Duration::from_secs(8);
/// How often they look whether it has.
const CLOSED_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The boards in memory.
#[derive(Debug, Default)]
pub struct Boards {
    live: ArcSwap<HashMap<BoardId, Arc<LiveBoard>>>,
    /// The last change that is known.
    sequence: AtomicU64,
}

impl Boards {
    fn get(&self, id: &BoardId) -> Option<Arc<LiveBoard>> {
        self.live.load().get(id).cloned()
    }

    fn put(&self, id: &BoardId, live: Option<&Arc<LiveBoard>>) {
        self.live.rcu(|boards| {
            let mut boards = HashMap::clone(boards);
            match live {
                Some(live) => boards.insert(id.clone(), Arc::clone(live)),
                None => boards.remove(id),
            };
            boards
        });
    }
}

/// What a request demands of the stored definition before it may replace or delete it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Precondition {
    /// `If-Match`: one of these versions is stored; `*` for any.
    pub matches: Option<Vec<String>>,
    /// `If-None-Match: *`: none is stored.
    pub is_absent: bool,
}

impl Precondition {
    fn check(&self, stored: Option<&Board>) -> Result<(), Error> {
        let version = stored.map(Board::version);
        let matches = self.matches.as_ref().is_none_or(|allowed| {
            version.is_some_and(|version| allowed.iter().any(|tag| *tag == "*" || *tag == version))
        });
        if matches && !(self.is_absent && stored.is_some()) {
            Ok(())
        } else {
            Err(Error::PreconditionFailed)
        }
    }
}

impl Service {
    /// The board from memory, or from Redis if it isn't there.
    pub(super) async fn live_board(&self, id: &BoardId) -> Result<Arc<LiveBoard>, Error> {
        if let Some(live) = self.boards.get(id) {
            return Ok(live);
        }
        self.reload(id).await?;
        self.boards
            .get(id)
            .ok_or_else(|| Error::BoardNotFound(id.clone()))
    }

    /// Puts a board into memory.
    fn put_live(&self, board: Board) -> Arc<LiveBoard> {
        let live = Arc::new(LiveBoard::new(board, &self.store));
        self.boards.put(&live.board.id, Some(&live));
        live
    }

    /// The stored board, once it is not just going to other shards.
    async fn load_placed(&self, id: &BoardId) -> Result<Option<Board>, Error> {
        let begun = Instant::now();
        loop {
            let stored = self.store.load_board(id).await?;
            if !stored
                .as_ref()
                .is_some_and(|board| board.placement.is_closing())
            {
                return Ok(stored);
            }
            if begun.elapsed() > CLOSED_TIME_MAX {
                let message = format!("board {id} is just moving to other shards");
                return Err(StoreError::Unavailable(message).into());
            }
            tokio::time::sleep(CLOSED_LOOK_INTERVAL).await;
        }
    }

    /// Reads a definition into memory again.
    pub(super) async fn reload(&self, id: &BoardId) -> Result<(), Error> {
        let stored = self.load_placed(id).await?;
        let known = self.boards.get(id);
        if known.as_ref().map(|live| &*live.board) != stored.as_ref() {
            match stored {
                Some(board) => drop(self.put_live(board)),
                None => self.boards.put(id, None),
            }
        }
        match self.open_shards(id).await {
            // As a rule they know it, and can be read. One that does not refuses what goes by it.
            Err(Error::Store(StoreError::Full(_))) => Ok(()),
            told => told,
        }
    }

    /// Tells the shards of a board of the definition that is in memory. It has to be there still when that is done:
    /// otherwise the shards of a deleted board might come to life again.
    async fn open_shards(&self, id: &BoardId) -> Result<(), Error> {
        match self.boards.get(id) {
            Some(live) if !live.board.placement.current.is_together() => {
                self.store.open_shards(&live.board).await?;
                if self.store.load_board(id).await?.is_none() {
                    self.boards.put(id, None);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The board as it is stored.
    pub async fn board(&self, id: &BoardId) -> Result<Board, Error> {
        let stored = self.store.load_board(id).await?;
        stored.ok_or_else(|| Error::BoardNotFound(id.clone()))
    }

    /// Up to `count` boards in the order of their ids, behind `after`.
    pub async fn list_boards(
        &self,
        after: Option<&BoardId>,
        count: usize,
    ) -> Result<Vec<Board>, Error> {
        let ids = self.store.board_ids(after, count).await?;
        let boards: Vec<Option<Board>> = stream::iter(ids)
            .map(async |id| self.store.load_board(&id).await)
            .buffered(LOADS_MAX)
            .try_collect()
            .await?;
        Ok(boards.into_iter().flatten().collect())
    }

    /// Creates or replaces a board; returns it and whether it was created. A definition that is stored
    /// already stays as it is.
    pub async fn define_board(
        &self,
        id: &BoardId,
        definition: Definition,
        precondition: &Precondition,
    ) -> Result<(Board, bool), Error> {
        let errors = definition.check();
        if !errors.is_empty() {
            return Err(Error::Invalid(errors));
        }
        for _ in 0..ATTEMPTS_MAX {
            let stored = self.load_placed(id).await?;
            precondition.check(stored.as_ref())?;
            if stored
                .as_ref()
                .is_some_and(|board| moves_elsewhere(board, &definition))
            {
                let detail = "can't change again before the board has moved to so many shards";
                return Err(Error::BoardInUse(vec![FieldError::new("/shards", detail)]));
            }
            let frozen = stored.as_ref().map_or_else(Vec::new, |board| {
                board.definition.frozen_changes(&definition)
            });
            let board = match &stored {
                Some(board) if board.definition == definition => {
                    // It may have been stored by a request that failed after that: what follows is done again.
                    self.store.announce_board(board, true).await?;
                    return Ok((board.clone(), false));
                }
                Some(board) => board.replaced(definition.clone()),
                None => {
                    let generation = self.store.next_generation().await?;
                    Board::new(
                        id.clone(),
                        definition.clone(),
                        generation,
                        1,
                        BTreeMap::new(),
                    )
                }
            };
            let is_moving = board.placement.next.is_some();
            if is_moving {
                self.store.mark_moving(id, true).await?;
            }
            match self
                .store
                .define_board(&board, stored.as_ref(), !frozen.is_empty())
                .await?
            {
                Defined::Stored => {
                    if is_moving {
                        // Another instance may have found that it was not yet so.
                        self.store.mark_moving(id, true).await?;
                    }
                    let live = self.put_live(board.clone());
                    self.open_shards(id).await?;
                    self.store.announce_board(&board, true).await?;
                    self.begin_derived(&live).await?;
                    return Ok((board, stored.is_none()));
                }
                Defined::Used => return Err(Error::BoardInUse(frozen)),
                Defined::Changed => {}
            }
        }
        Err(Error::busy())
    }

    /// Deletes a board. Its data can't be reached from then on, and is unlinked in the background.
    pub async fn delete_board(
        &self,
        id: &BoardId,
        precondition: &Precondition,
    ) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let stored = self.store.load_board(id).await?;
            precondition.check(stored.as_ref())?;
            let board = stored.ok_or_else(|| Error::BoardNotFound(id.clone()))?;
            if self.store.delete_board(&board).await? {
                self.boards.put(id, None);
                self.store.announce_board(&board, false).await?;
                return Ok(());
            }
        }
        Err(Error::busy())
    }

    /// Takes the changes that other instances have made into memory.
    pub async fn refresh_boards(&self) -> Result<(), Error> {
        let known = self.boards.sequence.load(Ordering::SeqCst);
        let changed = self.store.changed_boards(known).await?;
        let Some((_, sequence)) = changed.last().cloned() else {
            return Ok(());
        };
        stream::iter(changed)
            .map(async |(id, _)| self.reload(&id).await)
            .buffer_unordered(LOADS_MAX)
            .try_collect::<()>()
            .await?;
        self.boards.sequence.fetch_max(sequence, Ordering::SeqCst);
        Ok(())
    }

    /// Unlinks data that is not needed any more, a bounded part of each; returns whether any is left.
    pub async fn purge_deleted(&self) -> Result<bool, Error> {
        let mut is_more = false;
        for unneeded in self.store.unneeded().await? {
            is_more |= Box::pin(self.store.purge(&unneeded)).await?;
        }
        Ok(is_more)
    }

    /// The boards in memory.
    pub(super) fn live_boards(&self) -> Vec<Arc<LiveBoard>> {
        self.boards.live.load().values().cloned().collect()
    }
}

/// Whether a board is on its way to another number of shards than this definition asks for.
fn moves_elsewhere(board: &Board, definition: &Definition) -> bool {
    let next = board.placement.next;
    next.is_some_and(|next| next.to.shards != definition.shards)
}
