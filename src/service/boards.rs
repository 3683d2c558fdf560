//! Defines, lists and deletes boards.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{self, StreamExt};

use super::{Error, Service};
use crate::domain::board::{Board, Definition, FieldError};
use crate::domain::ids::BoardId;
use crate::domain::window::Window;
use crate::engine::{ATTEMPTS_MAX, LiveBoard};
use crate::store::boards::{Defined, StoredBoard};

/// How many definitions are read side by side.
const LOADS_MAX: usize = 64;
/// A part of the list of boards.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Those that can be read.
    pub boards: Vec<Arc<Board>>,
    /// The others, and why they can't.
    pub unreadable: Vec<(BoardId, Error)>,
    /// Behind which id the next part begins; `None`: this was the last.
    pub next: Option<BoardId>,
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
    fn check(&self, stored: Option<&Arc<Board>>) -> Result<(), Error> {
        let version = stored.map(|board| board.version());
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
    /// Up to `count` boards in the order of their ids, behind `after`.
    pub async fn list_boards(
        &self,
        after: Option<&BoardId>,
        count: usize,
    ) -> Result<Listed, Error> {
        // One more than wanted tells whether there is a next part.
        let mut ids = self.engine.store.board_ids(after, count + 1).await?;
        let is_more = ids.len() > count;
        ids.truncate(count);
        let mut listed = Listed {
            next: ids.last().filter(|_| is_more).cloned(),
            ..Listed::default()
        };
        let read: Vec<(BoardId, Result<Arc<Board>, Error>)> = stream::iter(ids)
            .map(async |id| {
                let board = self.engine.board(&id).await;
                (id, board)
            })
            .buffered(LOADS_MAX)
            .collect()
            .await;
        for (id, board) in read {
            match board {
                Ok(board) => listed.boards.push(board),
                // It was deleted just now.
                Err(Error::BoardNotFound(_)) => {}
                Err(error) if error.is_fault() => listed.unreadable.push((id, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(listed)
    }

    /// Creates or replaces a board; returns it and whether it was created. A definition that is stored
    /// already stays as it is. Windows that have data, and that it leaves out, have to be among `drop_windows`.
    pub async fn define_board(
        &self,
        id: &BoardId,
        definition: Definition,
        precondition: &Precondition,
        drop_windows: &[Window],
    ) -> Result<(Arc<Board>, bool), Error> {
        let errors = definition.check();
        if !errors.is_empty() {
            return Err(Error::Invalid(errors));
        }
        for _ in 0..ATTEMPTS_MAX {
            let drops = self.engine.boards.drops();
            let stored = self.engine.load_placed(id).await?;
            let seen = stored.as_ref().map(as_far_as_read);
            precondition.check(seen)?;
            if seen.is_some_and(|board| moves_elsewhere(board, &definition)) {
                let detail = "can't change while the board is moving to another number of shards";
                return Err(Error::BoardInUse(vec![FieldError::new("/shards", detail)]));
            }
            if let Some(Ok(board)) = &stored
                && board.definition == definition
            {
                check_dropped(&definition.windows, drop_windows, |_| true)?;
                // It may have been stored by a request that failed after that: what follows is done again.
                self.engine.store.announce_board(id, true, None).await?;
                return Ok((board.clone(), false));
            }
            let change = Change::new(stored.as_ref(), &definition, drop_windows)?;
            let stamp = self.engine.store.begin_change(id).await?;
            let board = match seen {
                Some(board) => board.replaced(definition.clone(), stamp),
                None => Board::new(id.clone(), definition.clone(), stamp, 1, BTreeMap::new()),
            };
            let board = Arc::new(board);
            let is_moving = board.placement.next.is_some();
            if is_moving {
                self.engine.store.mark_moving(id, true).await?;
            }
            match self
                .engine
                .store
                .define_board(&board, seen.map(Arc::as_ref), change.unused_since)
                .await?
            {
                Defined::Stored => {
                    if is_moving {
                        // Another instance may have found that it was not yet so.
                        self.engine.store.mark_moving(id, true).await?;
                    }
                    let live = Arc::new(LiveBoard::new(board.clone(), &self.engine.store));
                    self.engine.hold(id, Some(&live), drops);
                    self.engine.open_shards(Arc::clone(&live), drops).await?;
                    self.engine
                        .store
                        .announce_board(id, true, Some(stamp))
                        .await?;
                    self.engine.begin_derived(&live).await?;
                    return Ok((board, seen.is_none()));
                }
                Defined::Used => {
                    self.engine.store.end_change(id, stamp).await?;
                    return Err(change.refusal);
                }
                Defined::Changed => self.engine.store.end_change(id, stamp).await?,
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
            let drops = self.engine.boards.drops();
            let stored = self.engine.store.load_board(id).await?;
            let seen = stored.as_ref().map(as_far_as_read);
            precondition.check(seen)?;
            let board = seen.ok_or_else(|| Error::BoardNotFound(id.clone()))?;
            let stamp = self.engine.store.begin_change(id).await?;
            if self.engine.store.delete_board(board).await? {
                self.engine.hold(id, None, drops);
                self.engine
                    .store
                    .announce_board(id, false, Some(stamp))
                    .await?;
                return Ok(());
            }
            self.engine.store.end_change(id, stamp).await?;
        }
        Err(Error::busy())
    }
}

/// What is known of a stored board, whether it can be read whole or not.
fn as_far_as_read(stored: &StoredBoard) -> &Arc<Board> {
    match stored {
        Ok(board) => board,
        Err(unreadable) => &unreadable.board,
    }
}

/// What a change of a definition is refused for on a board with events.
struct Change {
    /// Where it is: if events have come in at this revision or later.
    unused_since: Option<u64>,
    refusal: Error,
}

impl Change {
    fn new(
        stored: Option<&StoredBoard>,
        definition: &Definition,
        drop_windows: &[Window],
    ) -> Result<Self, Error> {
        let Some(stored) = stored else {
            check_dropped(&definition.windows, drop_windows, |_| false)?;
            let refusal = Error::busy();
            return Ok(Self {
                unused_since: None,
                refusal,
            });
        };
        let board = as_far_as_read(stored);
        let windows = &board.definition.windows;
        check_dropped(&definition.windows, drop_windows, |window| {
            windows.contains(window)
        })?;
        let frozen = match stored {
            Err(unreadable) if !unreadable.is_known => {
                let detail = "the stored definition can't be read, so the service can't tell what would change in the board's data";
                vec![FieldError::new("", detail)]
            }
            _ => board.definition.frozen_changes(definition),
        };
        if !frozen.is_empty() {
            return Ok(Self {
                unused_since: Some(0),
                refusal: Error::BoardInUse(frozen),
            });
        }
        let mut lost = board.windows_lost(definition);
        lost.retain(|window| !drop_windows.contains(window));
        Ok(Self {
            unused_since: board.recorded_since(&lost),
            refusal: Error::WindowsInUse(lost),
        })
    }
}

/// Checks that the windows that are to be dropped are, of those that were there.
fn check_dropped(
    kept: &[Window],
    dropped: &[Window],
    was_there: impl Fn(&Window) -> bool,
) -> Result<(), Error> {
    let name = "drop_windows";
    for window in dropped {
        if kept.contains(window) {
            let detail = format!("`{window}` is among the windows of the new definition");
            return Err(Error::InvalidParameter { name, detail });
        }
        if !was_there(window) {
            let detail = format!("the board has no window `{window}`");
            return Err(Error::InvalidParameter { name, detail });
        }
    }
    Ok(())
}

/// Whether a board is on its way to another number of shards than this definition asks for.
fn moves_elsewhere(board: &Board, definition: &Definition) -> bool {
    let next = board.placement.next;
    next.is_some_and(|next| next.to.shards != definition.shards)
}
