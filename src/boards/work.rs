//! Creates, changes, lists and deletes boards.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use futures::stream::{self, StreamExt};

use super::draft::Draft;
use super::preview::BoardPreview;
use crate::core::attempts::until_unchanged;
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::board::store::boards::{self, Defined, StoredBoard};
use crate::core::{Engine, Error, Outdated};
use crate::domain::access::Boards;
use crate::domain::board::{Board, Definition, FIRST_AMENDMENT, FieldError};
use crate::domain::history::HISTORY_KEY_BYTES;
use crate::domain::ids::BoardId;
use crate::domain::part::Part;
use crate::domain::problems::{PRECONDITION_FAILED, Problem};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::periods::closings;
use crate::redis::random;

/// How many definitions are read concurrently.
const LOADS_MAX: usize = 64;

/// A part of the list of boards.
#[derive(Clone, Debug, Default)]
pub struct ListedBoards {
    pub boards: Vec<Arc<Board>>,
    /// The unreadable ones, with the reason.
    pub unreadable: Vec<(BoardId, Error)>,
    /// The id after which the next part begins; `None`: this is the last part.
    pub next: Option<BoardId>,
}

/// The boards that a list should have.
#[derive(Clone, Copy, Debug)]
pub struct WantedBoards<'a> {
    /// Only these.
    pub boards: &'a Boards,
    /// Only those with this tag, if there is one.
    pub tag: Option<&'a str>,
    /// Whether the stored definitions are wanted. Otherwise the definitions in memory suffice.
    pub is_whole: bool,
}

impl WantedBoards<'_> {
    fn has_tag(&self, board: &Board) -> bool {
        let tags = &board.definition.tags;
        self.tag.is_none_or(|tag| tags.contains(tag))
    }

    async fn read(&self, engine: &Engine, id: &BoardId) -> Result<Arc<Board>, Error> {
        match engine.boards.get(id).filter(|_| !self.is_whole) {
            Some(live) => Ok(Arc::clone(&live.board)),
            None => engine.board(id).await,
        }
    }
}

/// A request's conditions on the stored definition that it replaces or deletes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Precondition {
    /// `If-Match`: one of these versions is stored; `*` for any.
    pub matches: Option<Vec<String>>,
    /// `If-None-Match: *`: no version is stored.
    pub is_absent: bool,
}

/// The terms under which a definition may change.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// What must be stored.
    pub precondition: Precondition,
    /// The windows that may be dropped with all their data.
    pub drop_windows: Vec<Window>,
}

impl Precondition {
    fn check(&self, stored: Option<&Arc<Board>>) -> Result<(), Error> {
        let version = stored.map(|board| board.version());
        let matches = self.matches.as_ref().is_none_or(|allowed| {
            version.is_some_and(|version| allowed.iter().any(|tag| *tag == "*" || *tag == version))
        });
        if matches && !(self.is_absent && stored.is_some()) {
            return Ok(());
        }
        let weak = self
            .matches
            .iter()
            .flatten()
            .find(|tag| tag.starts_with("W/"));
        let problem = weak.map_or_else(Problem::precondition_failed, |tag| {
            let detail = format!(
                "`If-Match` has the weak tag {tag}\", which never matches (RFC 9110, 13.1.1). A proxy that compresses responses \
                 makes tags weak: send the tag without `W/`"
            );
            Problem::new(PRECONDITION_FAILED, detail)
        });
        Err(problem.into())
    }
}

/// The boards that are wanted among the next `count` after `after`, in the order of ids.
pub async fn list(
    engine: &Engine,
    wanted: &WantedBoards<'_>,
    after: Option<&BoardId>,
    count: usize,
) -> Result<ListedBoards, Error> {
    let ids = boards::ids_near(&engine.store, wanted.boards, after, count + 1).await?;
    let Part { mut items, next } = Part::split(ids, count, BoardId::clone);
    items.retain(|id| wanted.boards.has(id));
    let mut listed = ListedBoards {
        next,
        ..ListedBoards::default()
    };
    let read: Vec<_> = stream::iter(items)
        .map(async |id| (wanted.read(engine, &id).await, id))
        .buffered(LOADS_MAX)
        .collect()
        .await;
    for (board, id) in read {
        match board {
            Ok(board) if !wanted.has_tag(&board) => {}
            Ok(board) => listed.boards.push(board),
            // It was just deleted.
            Err(Error::BoardNotFound(_)) => {}
            Err(error) if error.is_fault() => listed.unreadable.push((id, error)),
            Err(error) => return Err(error),
        }
    }
    Ok(listed)
}

/// Creates or changes a board. Returns it and the former board, if any. If the definition is unchanged, so is the board.
pub async fn define(
    engine: &Engine,
    id: &BoardId,
    draft: &Draft,
    terms: &Terms,
) -> Result<(Arc<Board>, Option<Arc<Board>>), Error> {
    let store = &engine.store;
    let (board, before, stamp, read) = until_unchanged(async || {
        let read = engine.boards.begin_read();
        let change = propose(engine, id, draft, terms).await?;
        let is_new = change.stored.is_none();
        let before = change.seen().cloned();
        if let Some(board) = change.unchanged() {
            // The request that stored it may have failed after that, so the following steps are repeated.
            return Ok((Arc::clone(board), before, None, read));
        }
        if is_new {
            engine.finish_deletion(id).await?;
        }
        let stamp = boards::begin_change(store, id).await?;
        let mut board = change.board(stamp, engine.clock.now())?;
        if is_new && (engine.hooks.has_orders)(store).await? {
            board.placement.is_opening = true;
        }
        let board = Arc::new(board);
        if board.placement.next.is_some() {
            board_notes::note(store, NotedFor::Move, &board).await?;
        }
        let seen = change.seen().map(Arc::as_ref);
        let defined = boards::define(store, &board, seen, change.unused_since);
        let opened = match defined.await? {
            Defined::Stored if is_new => (engine.hooks.carry_out_orders)(engine, &board).await,
            Defined::Stored => Ok(board),
            Defined::Used => {
                boards::end_change(store, id, stamp).await?;
                return Err(change.refusal);
            }
            Defined::Changed => Err(Error::Again(Outdated::Board)),
        };
        if let Err(Error::Again(_)) = opened {
            boards::end_change(store, id, stamp).await?;
        }
        Ok((opened?, before, Some(stamp), engine.boards.begin_read()))
    })
    .await?;
    if board.placement.next.is_some() {
        // Noted again: another instance may have removed the note after seeing the board before this change.
        board_notes::note(store, NotedFor::Move, &board).await?;
    }
    let live = engine.with_batchers(board.clone());
    engine.hold(id, Some(&live), read);
    engine.open_shards(Arc::clone(&live), read).await?;
    boards::announce(store, id, stamp).await?;
    engine.begin_derived(&live).await?;
    Ok((board, before))
}

/// The board as it would be after [`define`], and what that would do, with the same checks, without changing anything.
pub async fn preview(
    engine: &Engine,
    id: &BoardId,
    draft: &Draft,
    terms: &Terms,
) -> Result<(Board, BoardPreview), Error> {
    until_unchanged(async || {
        let change = propose(engine, id, draft, terms).await?;
        if let (Some(board), None) = (change.seen(), change.unchanged()) {
            let store = &engine.store;
            match boards::may_define(store, board, change.unused_since).await? {
                Defined::Stored => {}
                Defined::Used => return Err(change.refusal),
                Defined::Changed => return Err(Error::Again(Outdated::Board)),
            }
        }
        let now = engine.clock.now();
        let board = change.board(0, now)?;
        let before = change.seen().map(|board| &board.definition);
        let preview = BoardPreview::new(before, &board, now);
        Ok((board, preview))
    })
    .await
}

/// Determines how a request changes the stored board.
async fn propose(
    engine: &Engine,
    id: &BoardId,
    draft: &Draft,
    terms: &Terms,
) -> Result<Change, Error> {
    let stored = engine.load_placed(id).await?;
    let seen = stored.as_ref().map(as_far_as_read);
    terms.precondition.check(seen)?;
    if !matches!(draft, Draft::Whole(_)) {
        // A definition that can't be read can't be kept.
        let stored = stored.clone();
        stored.ok_or_else(|| Error::BoardNotFound(id.clone()))??;
    }
    let shards = seen.map(|board| board.placement.wanted());
    let known = seen.map(|board| &board.definition);
    let definition = draft
        .definition(id, known, shards)
        .map_err(Problem::invalid)?;
    Problem::require_none(definition.check())?;
    if let Some(board) = seen {
        if board.is_league() != definition.league.is_some() {
            // Hides and erasures of a league are in all of its shards.
            let detail = "can't be added or removed: create a new board";
            return Err(in_use("/league", detail));
        }
        check_shards(board, &definition, draft)?;
        check_final(engine, board, &definition).await?;
    }
    require_format(stored.as_ref())?;
    let (unused_since, refusal) = match &stored {
        None => (None, Error::busy()),
        Some(stored) => refusal(stored, &definition, &terms.drop_windows),
    };
    let change = Change {
        id: id.clone(),
        stored,
        definition,
        unused_since,
        refusal,
    };
    change.check_dropped(&terms.drop_windows)?;
    Ok(change)
}

/// Checks that a change does not affect final periods.
async fn check_final(engine: &Engine, board: &Board, definition: &Definition) -> Result<(), Error> {
    let Some(until) = board.closings.until else {
        return Ok(());
    };
    let mut errors = Vec::new();
    let (before, after) = (board.definition.closes_at, definition.closes_at);
    let is_final = |at: Option<Timestamp>| at.is_some_and(|at| at <= until);
    if before != after && is_final(before) {
        let detail = "can't change: the board has ended and its last period is final";
        errors.push(FieldError::new("/closes_at", detail));
    } else if before != after && is_final(after) {
        let detail = format!("must be after {until}: periods up to then are final");
        errors.push(FieldError::new("/closes_at", detail));
    }
    let removed = board
        .definition
        .windows
        .iter()
        .filter_map(|window| match window {
            Window::Period(unit) if !definition.windows.contains(window) => Some(*unit),
            Window::Period(_) | Window::Rolling { .. } => None,
        });
    for unit in closings::work::final_units(engine, board, removed).await? {
        let detail = format!("`{unit}` has final periods and can't be removed");
        errors.push(FieldError::new("/windows", detail));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Problem::board_final().in_fields(errors).into())
    }
}

/// Deletes a board, and returns it; `None` if an earlier request had begun that, and it is finished now. Its data is
/// unreachable from then on, and is unlinked in the background.
pub async fn delete(
    engine: &Engine,
    id: &BoardId,
    precondition: &Precondition,
) -> Result<Option<Arc<Board>>, Error> {
    until_unchanged(async || {
        let stored = boards::load(&engine.store, id).await?;
        if stored.is_none() && engine.finish_deletion(id).await? {
            return Ok(None);
        }
        require_format(stored.as_ref())?;
        let seen = stored.as_ref().map(as_far_as_read);
        precondition.check(seen)?;
        let board = seen.ok_or_else(|| Error::BoardNotFound(id.clone()))?;
        engine.delete_board(board).await?;
        Ok(Some(Arc::clone(board)))
    })
    .await
}

/// A board whose data has another format can't be changed.
fn require_format(stored: Option<&StoredBoard>) -> Result<(), Error> {
    match stored {
        Some(Err(unreadable)) if unreadable.is_of_other_format => Err(unreadable.clone().into()),
        _ => Ok(()),
    }
}

/// What could be read of a stored board, complete or not.
fn as_far_as_read(stored: &StoredBoard) -> &Arc<Board> {
    match stored {
        Ok(board) => board,
        Err(unreadable) => &unreadable.board,
    }
}

/// A pending change of a definition.
struct Change {
    id: BoardId,
    stored: Option<StoredBoard>,
    definition: Definition,
    /// Refuse it if there are events at this amendment or later.
    unused_since: Option<u64>,
    /// The error in that case.
    refusal: Error,
}

impl Change {
    /// Checks that dropped windows belong to the stored board and not to the new definition. If that is stored already,
    /// they were dropped before.
    fn check_dropped(&self, dropped: &[Window]) -> Result<(), Error> {
        let before = self
            .seen()
            .map_or(&[][..], |board| &board.definition.windows);
        for window in dropped {
            if self.definition.windows.contains(window) {
                let detail =
                    format!("the new definition has the window `{window}`, so it can't be dropped");
                return Err(Problem::invalid_parameter("drop_windows", detail).into());
            }
            if !before.contains(window) && self.unchanged().is_none() {
                let detail = format!("the board has no window `{window}`");
                return Err(Problem::invalid_parameter("drop_windows", detail).into());
            }
        }
        Ok(())
    }

    /// What could be read of the stored board.
    fn seen(&self) -> Option<&Arc<Board>> {
        self.stored.as_ref().map(as_far_as_read)
    }

    /// The stored board, if it already has the new definition.
    fn unchanged(&self) -> Option<&Arc<Board>> {
        let board = self.stored.as_ref()?.as_ref().ok()?;
        (board.definition == self.definition).then_some(board)
    }

    /// The resulting board, at a stamp and a time.
    fn board(&self, stamp: u64, now: Timestamp) -> Result<Board, Error> {
        let definition = self.definition.clone();
        let board = if let Some(board) = self.seen() {
            board.replaced(definition, stamp, now)
        } else {
            let id = self.id.clone();
            Board::new(id, definition, stamp, FIRST_AMENDMENT, BTreeMap::new())
        };
        let key = random::hexadecimal::<HISTORY_KEY_BYTES>("")?;
        let mut board = board.finalized(now).with_history(key, now);
        if let Some(before) = self.seen().filter(|before| before.history.is_none()) {
            let history = board.history.take();
            board.history = history.map(|begun| begun.replaced(before, &board, now));
        }
        Ok(board)
    }
}

/// From which amendment on events forbid a change, and the error in that case.
fn refusal(
    stored: &StoredBoard,
    definition: &Definition,
    drop_windows: &[Window],
) -> (Option<u64>, Error) {
    let board = as_far_as_read(stored);
    let frozen = match stored {
        Err(unreadable) if !unreadable.is_known => {
            let detail = "the stored definition can't be read, so the effect of the change on the board's data is unknown";
            vec![FieldError::new("", detail)]
        }
        _ => board.definition.frozen_changes(definition),
    };
    if !frozen.is_empty() {
        return (Some(0), Problem::board_in_use().in_fields(frozen).into());
    }
    let mut lost = board.windows_lost(definition);
    lost.retain(|window| !drop_windows.contains(window));
    let refusal = Problem::windows_in_use(&lost).into();
    (board.recorded_since(&lost), refusal)
}

fn in_use(pointer: &str, detail: impl Display) -> Error {
    let errors = vec![FieldError::new(pointer, detail)];
    Problem::board_in_use().in_fields(errors).into()
}

/// Checks that the number of shards is unchanged, or may change now.
fn check_shards(board: &Board, definition: &Definition, draft: &Draft) -> Result<(), Error> {
    let wanted = board.placement.wanted();
    let detail = match draft {
        _ if definition.shards == wanted => return Ok(()),
        Draft::Spread(_) if board.placement.next.is_some() => {
            format!("the board is moving to {wanted} shards; it can move again once it is there")
        }
        Draft::Spread(_) if board.revoking().is_some() => {
            return Err(Problem::revocation_running(&board.id).into());
        }
        Draft::Spread(_) => return Ok(()),
        Draft::Whole(_) | Draft::Patch(_) => format!(
            "the board has {wanted} shards; to move it, send PUT /v1/boards/{}/shards",
            board.id
        ),
    };
    Err(in_use("/shards", detail))
}
