//! The boards in memory. An instance reads a board from Redis when it needs it, and again when the board has changed.
//!
//! What an instance holds is a copy. Redis refuses a call with an outdated copy; then the instance reads the board again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use parking_lot::{MutexGuard, RwLock};
use tokio::sync::Mutex;

use super::live::LiveBoard;
use super::news::Heard;
use super::store::boards::RETIRED;
use super::store::boards::{self, Defined, StoredBoard};
use crate::core::jobs::JobKind;
use crate::core::jobs::faults::Subject;
use crate::core::read::store::standings::KeptAnswers;
use crate::core::{Engine, Error};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::problems::Problem;
use crate::redis::{StoreError, keys};

/// How many definitions are read at once.
const LOADS_MAX: usize = 64;
/// How long events and reads wait for a board that is moving to other shards, or being created.
const CLOSED_TIME_MAX: Duration = Duration::from_secs(8);
/// How often they check whether that has ended.
const CLOSED_LOOK_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub struct Boards {
    held: RwLock<HeldBoards>,
    planning: parking_lot::Mutex<()>,
    known: Mutex<KnownChanges>,
    /// How many events of each generation of a board were accepted since that was last asked. All copies of a board in memory
    /// share a counter, also those that requests make at the same time.
    accepted: parking_lot::Mutex<HashMap<(BoardId, u64), Arc<AtomicU64>>>,
    kept: Arc<KeptAnswers>,
}

/// The boards in memory, by id. Reads of a board may end in another order than they began, so they have numbers: a read finds
/// all that was written before it began.
#[derive(Debug, Default)]
struct HeldBoards {
    /// Each with the number of the read that found it.
    boards: HashMap<BoardId, (u64, Arc<LiveBoard>)>,
    /// How many reads have begun.
    reads: u64,
    /// How many had begun when all boards were last dropped.
    dropped: u64,
}

/// What an instance knows of changes.
#[derive(Debug, Default)]
struct KnownChanges {
    heard: Heard,
    /// Whether the list of all boards must be read.
    is_list_unread: bool,
    /// The boards that have changed since they were read.
    unread: BTreeSet<BoardId>,
    /// Boards in memory that were missing from the list after a server had gone back.
    unlisted: BTreeSet<BoardId>,
}

impl Boards {
    /// A board, if it is in memory.
    pub(crate) fn get(&self, id: &BoardId) -> Option<Arc<LiveBoard>> {
        let held = self.held.read();
        held.boards.get(id).map(|(_, live)| Arc::clone(live))
    }

    /// The ids of the boards in memory.
    pub(crate) fn ids(&self) -> Vec<BoardId> {
        self.held.read().boards.keys().cloned().collect()
    }

    /// The counter of the accepted events of a board.
    fn counter(&self, board: &Board) -> Arc<AtomicU64> {
        let mut counters = self.accepted.lock();
        let counter = counters.entry((board.id.clone(), board.generation));
        Arc::clone(counter.or_default())
    }

    /// How many events of each generation of a board were accepted since the last call; only those that had some.
    pub(crate) fn take_accepted(&self) -> Vec<((BoardId, u64), u64)> {
        let mut counts = Vec::new();
        self.accepted.lock().retain(|board, counter| {
            let is_used = Arc::strong_count(counter) > 1;
            let count = counter.swap(0, Ordering::Relaxed);
            if count > 0 {
                counts.push((board.clone(), count));
            }
            is_used
        });
        counts
    }

    /// Held while background work is planned from the boards in memory, so that the last plan uses the latest boards.
    pub(crate) fn planning(&self) -> MutexGuard<'_, ()> {
        self.planning.lock()
    }

    /// The number of a read of a board that begins now.
    pub(crate) fn begin_read(&self) -> u64 {
        let mut held = self.held.write();
        held.reads += 1;
        held.reads
    }

    /// Stores what the read with this number has found of a board. Returns whether it is new: not if the same was stored, or
    /// if a later read has found something, or all was dropped since.
    fn put(&self, id: &BoardId, live: Option<&Arc<LiveBoard>>, read: u64) -> bool {
        let mut held = self.held.write();
        let known = held
            .boards
            .get(id)
            .map_or(held.dropped, |(known, _)| *known);
        if read < known {
            return false;
        }
        let before = match live {
            Some(live) => held.boards.insert(id.clone(), (read, Arc::clone(live))),
            None => held.boards.remove(id),
        };
        match (before, live) {
            (Some((_, before)), Some(live)) => !Arc::ptr_eq(&before, live),
            (before, live) => before.is_some() || live.is_some(),
        }
    }

    /// Drops all boards, and returns their ids.
    fn drop_all(&self) -> Vec<BoardId> {
        let mut held = self.held.write();
        held.reads += 1;
        held.dropped = held.reads;
        std::mem::take(&mut held.boards).into_keys().collect()
    }
}

impl Engine {
    /// Stores what the read with this number has found of a board, and plans the work that it needs.
    pub(crate) fn hold(&self, id: &BoardId, live: Option<&Arc<LiveBoard>>, read: u64) {
        if self.boards.put(id, live, read) {
            self.plan_work(id);
        }
    }

    /// Plans the background work of a board that is new in memory, or left it.
    fn plan_work(&self, id: &BoardId) {
        let _planning = self.boards.planning();
        let live = self.boards.get(id);
        let board = live.as_ref().map(|live| &*live.board);
        let derives = board.is_some_and(|board| board.derived().next().is_some());
        self.completing.plan(id, derives);
        self.registries.plan(id, live.is_some());
        if live.is_some() {
            (self.hooks.plan_work)(self, id);
        }
        let closes =
            |board: &Board| board.definition.finalize.is_some() || board.closings.is_pending();
        self.closings.plan(id, board.is_some_and(closes));
        self.left_behind
            .plan(id, board.is_some_and(Board::reserves));
    }

    /// A board with the batchers of its shards: those that it has, if it is in memory.
    pub(crate) fn with_batchers(&self, board: Arc<Board>) -> Arc<LiveBoard> {
        let known = self.boards.get(&board.id);
        known.filter(|live| live.board == board).unwrap_or_else(|| {
            let accepted = self.boards.counter(&board);
            Arc::new(LiveBoard::new(
                board,
                &self.store,
                &self.boards.kept,
                accepted,
            ))
        })
    }

    /// The board from memory, or from Redis if it isn't there.
    pub async fn live_board(&self, id: &BoardId) -> Result<Arc<LiveBoard>, Error> {
        let found = self.find_board(id).await?;
        found.ok_or_else(|| Error::BoardNotFound(id.clone()))
    }

    /// Like [`Self::live_board`]; `None` if there is no such board.
    pub(crate) async fn find_board(&self, id: &BoardId) -> Result<Option<Arc<LiveBoard>>, Error> {
        match self.boards.get(id) {
            Some(live) => Ok(Some(live)),
            None => self.read_anew(id).await,
        }
    }

    /// The stored board. Waits while it is moving or not open yet.
    pub(crate) async fn load_placed(&self, id: &BoardId) -> Result<Option<StoredBoard>, Error> {
        let begun = Instant::now();
        loop {
            let stored = boards::load(&self.store, id).await?;
            let closed = match &stored {
                Some(Ok(board)) if board.placement.is_paused() => board,
                _ => return Ok(stored),
            };
            if begun.elapsed() > self.store.timeouts.times(CLOSED_TIME_MAX) {
                if closed.placement.is_opening {
                    // Its creator has died, or is late.
                    match (self.hooks.carry_out_orders)(self, closed).await {
                        Ok(_) | Err(Error::Again(_)) => {}
                        Err(error) => return Err(error),
                    }
                    return Ok(boards::load(&self.store, id).await?);
                }
                return Err(Error::try_again(Problem::board_is_moving(id)));
            }
            tokio::time::sleep(CLOSED_LOOK_INTERVAL).await;
        }
    }

    /// Reads a definition into memory again.
    pub(crate) async fn reload(&self, id: &BoardId) -> Result<(), Error> {
        self.read_anew(id).await.map(drop)
    }

    /// Boxed because it is rare: otherwise every future that asks for a board would have room for it.
    fn read_anew<'a>(
        &'a self,
        id: &'a BoardId,
    ) -> BoxFuture<'a, Result<Option<Arc<LiveBoard>>, Error>> {
        Box::pin(async move {
            let number = self.boards.begin_read();
            let read = self.read_into_memory(id, number).await;
            let error = read.as_ref().err();
            if error.is_some_and(Error::is_fault) {
                self.hold(id, None, number);
            }
            let now = self.clock.now();
            self.faults
                .record(JobKind::Definition, &Subject::board(id), now, error);
            read
        })
    }

    async fn read_into_memory(
        &self,
        id: &BoardId,
        read: u64,
    ) -> Result<Option<Arc<LiveBoard>>, Error> {
        let Some(stored) = self.load_placed(id).await?.transpose()? else {
            self.hold(id, None, read);
            return Ok(None);
        };
        let live = self.with_batchers(stored);
        self.hold(id, Some(&live), read);
        match self.open_shards(Arc::clone(&live), read).await {
            // Usually the shards know the version already, and reads go on. A shard that does not know it refuses calls.
            Err(Error::Store(StoreError::Full(_))) => Ok(Some(live)),
            opened => opened,
        }
    }

    /// Informs the shards of a board of its definition; returns the board, or `None` if it was deleted meanwhile.
    pub(crate) async fn open_shards(
        &self,
        live: Arc<LiveBoard>,
        read: u64,
    ) -> Result<Option<Arc<LiveBoard>>, Error> {
        let board = &live.board;
        if board.placement.current.is_together() {
            return Ok(Some(live));
        }
        let newer = match boards::open_shards(&self.store, board).await {
            Err(StoreError::Stale) => None,
            Ok(Some(newer)) if newer < RETIRED => Some(newer),
            told => return Ok(told.map(|_| Some(live))?),
        };
        // A shard knows more of the board than the definition that was read.
        match (boards::load(&self.store, &board.id).await?, newer) {
            (None, _) => {
                self.hold(&board.id, None, read);
                Ok(None)
            }
            (Some(Ok(stored)), Some(newer)) if stored == *board => {
                self.overtake(board, newer).await
            }
            (Some(Ok(stored)), None) if stored.generation == board.generation => {
                let id = &board.id;
                let detail = format!(
                    "shards of board {id} were deleted, but its definition is back: delete the board again"
                );
                Err(StoreError::Unexpected(detail).into())
            }
            // The instance that has changed it informs the shards.
            (Some(_), _) => Ok(Some(live)),
        }
    }

    /// Makes the stored definition newer than what shards know, after its server, but not theirs, has gone back.
    async fn overtake(
        &self,
        board: &Arc<Board>,
        newer: u64,
    ) -> Result<Option<Arc<LiveBoard>>, Error> {
        let stamp = boards::begin_change(&self.store, &board.id).await?;
        let next = Arc::new(board.placed(board.placement.clone(), stamp.max(newer + 1)));
        let defined = boards::define(&self.store, &next, Some(board), None).await?;
        let live = self.with_batchers(next);
        if defined == Defined::Stored {
            let read = self.boards.begin_read();
            self.hold(&board.id, Some(&live), read);
            boards::open_shards(&self.store, &live.board).await?;
        }
        boards::announce(&self.store, &board.id, Some(stamp)).await?;
        Ok(Some(live))
    }

    /// The board as stored.
    pub async fn board(&self, id: &BoardId) -> Result<Arc<Board>, Error> {
        let stored = boards::load(&self.store, id).await?.transpose()?;
        stored.ok_or_else(|| Error::BoardNotFound(id.clone()))
    }

    /// Reads boards that other instances have changed into memory. If Redis may have gone back to older data, or to none,
    /// everything in memory is dropped and read again.
    pub async fn refresh_boards(&self) -> Result<(), Error> {
        let mut known = self.boards.known.lock().await;
        // First, so that what is read afterwards is at least as new.
        let histories = self.store.histories().await;
        let news = boards::news(&self.store, keys::OF_BOARDS, known.heard.sequence).await?;
        if known.heard.has_gone_back(histories, &news) {
            let dropped = self.boards.drop_all();
            for id in &dropped {
                self.plan_work(id);
            }
            known.unlisted.extend(dropped.iter().cloned());
            known.unread.extend(dropped);
            known.is_list_unread = true;
        }
        let changed = news.changed.iter().flat_map(|id| BoardId::parse(id));
        known.unread.extend(changed);
        if known.is_list_unread {
            let listed = boards::all_ids(&self.store).await?;
            known.unlisted.retain(|id| !listed.contains(id));
            known.unread.extend(listed);
            known.is_list_unread = false;
        }
        let read = self.read_changed(&mut known.unread).await;
        self.list_again(&mut known).await?;
        read
    }

    /// Lists stored boards again that are missing from the list, since only its server has gone back.
    async fn list_again(&self, known: &mut KnownChanges) -> Result<(), Error> {
        let unlisted: Vec<_> = known.unlisted.difference(&known.unread).cloned().collect();
        for id in unlisted {
            if self.boards.get(&id).is_some() {
                boards::announce(&self.store, &id, None).await?;
            }
            known.unlisted.remove(&id);
        }
        Ok(())
    }

    /// Reads changed boards, and tries those again that could not be read.
    async fn read_changed(&self, unread: &mut BTreeSet<BoardId>) -> Result<(), Error> {
        let again = self
            .faults
            .boards(JobKind::Definition)
            .into_iter()
            .filter(|id| self.faults.is_due(JobKind::Definition, &Subject::board(id)));
        let all: BTreeSet<BoardId> = unread.iter().cloned().chain(again).collect();
        let mut reads = stream::iter(all)
            .map(async |id| {
                let read = self.reload(&id).await;
                (id, read)
            })
            .buffer_unordered(LOADS_MAX);
        let mut failed = None;
        while let Some((id, read)) = reads.next().await {
            match read {
                Err(error) if !error.is_fault() => failed = Some(error),
                // A fault is recorded, and tried again.
                Ok(()) | Err(_) => {
                    unread.remove(&id);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::{Address, Store};
    use crate::runtime::timeouts::TimeoutFactor;

    #[test]
    fn all_copies_of_a_board_count_its_events_together_until_nothing_holds_one() {
        let (boards, board) = (Boards::default(), Board::defined(r#"{"windows": ["all"]}"#));
        let copies = [boards.counter(&board), boards.counter(&board)];
        for copy in &copies {
            copy.fetch_add(1, Ordering::Relaxed);
        }
        let own = (board.id.clone(), board.generation);
        assert_eq!(boards.take_accepted(), [(own.clone(), 2)]);
        assert_eq!(boards.take_accepted(), []);
        copies[1].fetch_add(1, Ordering::Relaxed);
        drop(copies);
        assert_eq!(boards.take_accepted(), [(own, 1)]);
        assert!(boards.accepted.lock().is_empty());
    }

    #[tokio::test]
    async fn a_read_replaces_no_board_that_a_later_read_has_found() {
        let store = Store::connect(
            &Address::parse("redis://127.0.0.1:1"),
            TimeoutFactor::default(),
        );
        let (boards, store) = (Boards::default(), Arc::new(store.unwrap()));
        let live = || {
            let board = Arc::new(Board::defined(r#"{"windows": ["all"]}"#));
            Arc::new(LiveBoard::new(board, &store, &boards.kept, Arc::default()))
        };
        let (old, new) = (live(), live());
        let id = &old.board.id;
        let is_held = |live| boards.get(id).is_some_and(|held| Arc::ptr_eq(&held, live));
        let [first, second, third] = [(); 3].map(|()| boards.begin_read());
        assert!(boards.put(id, Some(&new), second));
        assert!(!boards.put(id, Some(&old), first) && !boards.put(id, None, first));
        assert!(is_held(&new));
        assert!(!boards.put(id, Some(&new), third));
        assert!(!boards.put(id, Some(&old), second));
        assert!(boards.put(id, None, third));
        assert!(boards.put(id, Some(&new), third));
        assert_eq!(boards.drop_all(), std::slice::from_ref(id));
        assert!(!boards.put(id, Some(&new), third) && boards.get(id).is_none());
        assert!(boards.put(id, Some(&new), boards.begin_read()));
    }
}
