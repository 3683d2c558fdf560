//! The use cases, shared by HTTP and the background workers: one file, one public verb each.
//!
//! Everything here may be called on any number of instances at once. A definition in memory may be out of
//! date: every script call names the version that it was made for, and one that meets another version does
//! nothing and says so; then the definition is read again and the work begins anew.

pub mod ask;
pub mod boards;
pub mod check;
pub mod error;
pub mod faults;
pub mod initial;
pub mod member;
mod merged;
pub mod page;
pub mod period;
pub mod quotas;
pub mod recall;
pub mod reserve;
pub mod reshard;
pub mod rollover;
pub mod stats;
pub mod submit;
pub mod subset;
pub mod sweep;
pub mod voters;
mod warnings;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use error::Error;

use self::ask::{Reading, Size};
use self::faults::Faults;
use self::recall::FormerShards;
use self::reserve::LiveHome;
use self::submit::Applying;
use crate::clock::Clock;
use crate::domain::board::Board;
use crate::domain::ids::MemberId;
use crate::domain::plan::Routes;
use crate::engine::batcher::Batcher;
use crate::store::{Freshness, Store};

/// How often a call begins anew because the definition has changed or a rolling standing was not complete.
const ATTEMPTS_MAX: usize = 8;

/// A board in memory.
#[derive(Debug)]
pub struct LiveBoard {
    /// The board.
    pub board: Arc<Board>,
    /// The routes of its latest events.
    pub routes: Routes,
    /// Its shards, one or more, which are in use.
    pub shards: Vec<LiveShard>,
    /// Those that it has moved away from.
    former: Vec<FormerShards>,
    /// Where the counts of its quotas lie, if that may be elsewhere than its members.
    homes: Vec<LiveHome>,
    /// Whether it is noted that it has events. Where its data lies together that is done with the event.
    is_used: AtomicBool,
}

/// A shard of a board in memory, or the board itself, if it has but one.
#[derive(Debug)]
pub struct LiveShard {
    /// The board as the shard sees it.
    pub board: Arc<Board>,
    applying: Arc<Batcher<Applying>>,
    reading: OfEachSize,
    reading_bounded: OfEachSize,
}

/// The batchers of small reads and of large ones.
#[derive(Debug)]
struct OfEachSize {
    small: Arc<Batcher<Reading>>,
    large: Arc<Batcher<Reading>>,
}

impl LiveBoard {
    fn new(board: Board, store: &Arc<Store>) -> Self {
        let board = Arc::new(board);
        let shards = board.shards().into_iter();
        Self {
            routes: Routes::default(),
            shards: shards.map(|shard| LiveShard::new(shard, store)).collect(),
            former: FormerShards::of(&board),
            homes: LiveHome::of(&board, store),
            is_used: AtomicBool::new(board.placement.current.is_together()),
            board,
        }
    }

    /// The shard of a member.
    fn shard_of(&self, member: &MemberId) -> &LiveShard {
        &self.shards[self.board.shard_of(member)]
    }
}

impl LiveShard {
    fn new(board: Board, store: &Arc<Store>) -> Self {
        let board = Arc::new(board);
        let (store, shared) = (|| Arc::clone(store), || Arc::clone(&board));
        let batcher = |freshness| {
            Batcher::new(Reading {
                store: store(),
                board: shared(),
                freshness,
            })
        };
        let reading = |freshness| OfEachSize {
            small: batcher(freshness),
            large: batcher(freshness),
        };
        Self {
            applying: Batcher::new(Applying {
                store: store(),
                board: shared(),
            }),
            reading: reading(Freshness::Current),
            reading_bounded: reading(Freshness::Bounded),
            board,
        }
    }

    /// The batcher of the reads of this size, whose answers have to be so fresh.
    fn reading(&self, freshness: Freshness, size: Size) -> &Arc<Batcher<Reading>> {
        let batchers = match freshness {
            Freshness::Current => &self.reading,
            Freshness::Bounded => &self.reading_bounded,
        };
        match size {
            Size::Small => &batchers.small,
            Size::Large => &batchers.large,
        }
    }
}

/// The service: what HTTP handlers and workers call. Shared behind an [`Arc`].
#[derive(Debug)]
pub struct Service {
    /// Redis.
    pub store: Arc<Store>,
    /// The time.
    pub clock: Clock,
    /// What the background work fails at.
    pub faults: Faults,
    boards: boards::Boards,
    completing: rollover::Completing,
    warned: warnings::Warned,
}

impl Service {
    /// Puts the service together; nothing is read or written yet.
    pub fn new(store: Store, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::new(store),
            clock,
            faults: Faults::default(),
            boards: boards::Boards::default(),
            completing: rollover::Completing::default(),
            warned: warnings::Warned::default(),
        })
    }
}
