//! A board in memory, with the batchers of its shards.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::applier::Applier;
use super::batcher::Batcher;
use super::hidden::Listing;
use super::reader::{Reading, Size};
use super::recall::FormerShards;
use super::reservations::LiveHome;
use crate::domain::board::Board;
use crate::domain::ids::MemberId;
use crate::domain::plan::Routes;
use crate::domain::shard::Shard;
use crate::store::{Freshness, Store};

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
    pub(crate) former: Vec<FormerShards>,
    /// Where the counts of its quotas lie, if that may be elsewhere than its members.
    pub(crate) homes: Vec<LiveHome>,
    /// Whether it is noted that it has events. Where its data lies together that is done with the event.
    pub(crate) is_used: AtomicBool,
}

/// A shard of a board in memory.
#[derive(Debug)]
pub struct LiveShard {
    /// The shard.
    pub shard: Shard,
    pub(crate) applier: Arc<Batcher<Applier>>,
    pub(crate) listing: Arc<Batcher<Listing>>,
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
    pub(crate) fn new(board: Arc<Board>, store: &Arc<Store>) -> Self {
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
    pub(crate) fn shard_of(&self, member: &MemberId) -> &LiveShard {
        &self.shards[self.board.shard_of(member)]
    }
}

impl LiveShard {
    pub(crate) fn new(shard: Shard, store: &Arc<Store>) -> Self {
        let batcher = |freshness| {
            Batcher::new(Reading {
                store: Arc::clone(store),
                shard: shard.clone(),
                freshness,
            })
        };
        let reading = |freshness| OfEachSize {
            small: batcher(freshness),
            large: batcher(freshness),
        };
        Self {
            applier: Batcher::new(Applier {
                store: Arc::clone(store),
                shard: shard.clone(),
            }),
            listing: Batcher::new(Listing {
                store: Arc::clone(store),
                shard: shard.clone(),
            }),
            reading: reading(Freshness::Current),
            reading_bounded: reading(Freshness::Bounded),
            shard,
        }
    }

    /// The batcher of the reads of this size, whose answers have to be so fresh.
    pub(crate) fn reading(&self, freshness: Freshness, size: Size) -> &Arc<Batcher<Reading>> {
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
