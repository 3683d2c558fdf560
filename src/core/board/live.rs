//! A board in memory, with the batchers of its shards.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::core::hide::hidden::Listing;
use crate::core::read::reader::{ReadSize, Reading};
use crate::core::read::store::standings::{KeptAnswers, KeptOfShard};
use crate::core::write::applier::Applier;
use crate::core::write::homes::LiveHome;
use crate::core::write::recall::FormerShards;
use crate::core::write::seats::Seating;
use crate::core::write::sittings::KnownSeats;
use crate::domain::board::{Board, Uniques};
use crate::domain::event::Event;
use crate::domain::ids::MemberId;
use crate::domain::league::{Cohort, Section};
use crate::domain::period::Unit;
use crate::domain::plan::{Instants, Plan, Routes};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::{Freshness, Store, StoreError};
use crate::runtime::batcher::Batcher;

#[derive(Debug)]
pub struct LiveBoard {
    pub board: Arc<Board>,
    /// The routes of its latest events.
    routes: Mutex<Routes>,
    /// Its shards that are in use, one or more.
    pub shards: Vec<LiveShard>,
    /// The shards that it has moved away from.
    pub(crate) former: Vec<FormerShards>,
    /// The shards that count its quotas, if they may be others than its members' shards.
    pub(crate) homes: Vec<LiveHome>,
    /// Whether it is noted that it has events. On a board with one shard, the event's own call notes it.
    pub(crate) is_used: AtomicBool,
    /// How many events this instance has accepted since it last added them to the counts in Redis. Other copies of the board
    /// share it.
    pub(crate) accepted: Arc<AtomicU64>,
    /// What seats members in its cohorts, if it is a league.
    pub(crate) seating: Seating,
    /// Seats in its cohorts that were found.
    pub(crate) known_seats: KnownSeats,
    /// Held while a request of this instance finishes a closing: one at a time.
    pub(crate) finishing: tokio::sync::Mutex<()>,
}

/// A shard of a board in memory.
#[derive(Debug)]
pub struct LiveShard {
    pub shard: Shard,
    pub(crate) applier: Arc<Batcher<Applier>>,
    pub(crate) listing: Arc<Batcher<Listing>>,
    /// Whether more events are put into the queue than one call takes.
    pub(crate) is_flooded: Arc<AtomicBool>,
    /// What puts events into its queue. Created by the queue room on first use.
    pub(crate) putter: OnceLock<Box<dyn Any + Send + Sync>>,
    /// By the freshness of their answers, and by size.
    readings: [[Arc<Batcher<Reading>>; 2]; 2],
    /// Held while a call hands out the rewards of this shard, or of all shards if this is the first: one at a time.
    pub(crate) handing: Arc<tokio::sync::Mutex<()>>,
}

impl LiveBoard {
    pub(crate) fn new(
        board: Arc<Board>,
        store: &Arc<Store>,
        kept: &Arc<KeptAnswers>,
        accepted: Arc<AtomicU64>,
    ) -> Self {
        // Otherwise pages show what is stored elsewhere.
        let keeps_rendered =
            !board.is_league() && board.definition.uniques != Some(Uniques::Member);
        let live = |shard: Shard| LiveShard::new(shard, store, || kept.of_shard(keeps_rendered));
        Self {
            routes: Mutex::default(),
            shards: board.shards().into_iter().map(live).collect(),
            former: FormerShards::of(&board),
            homes: LiveHome::of(&board, store),
            seating: Seating::of(&board, store),
            known_seats: KnownSeats::default(),
            is_used: AtomicBool::new(board.placement.current.is_together()),
            accepted,
            finishing: tokio::sync::Mutex::default(),
            board,
        }
    }

    /// Plans an event with these instants.
    pub(crate) fn plan(&self, event: Event, instants: Instants) -> Plan {
        let route = self.routes.lock().route(&self.board, instants);
        Plan::new(&self.board, event, instants, route)
    }

    /// The shards that have a period, or a cohort.
    pub(crate) fn shards_of(&self, section: Section) -> &[LiveShard] {
        match section.cohort {
            None => &self.shards,
            Some(cohort) => {
                let index = self.board.shard_of_cohort(&section.period, cohort);
                std::slice::from_ref(&self.shards[index])
            }
        }
    }

    /// The shards whose hides and erasures affect a period, or a cohort. In a league that includes the first one, whose
    /// journal has all hides, and which gets each of them last.
    pub(crate) fn shards_moderating(&self, section: Section) -> impl Iterator<Item = &LiveShard> {
        let own = self.shards_of(section);
        let first = &self.shards[0];
        let has_first = own.iter().any(|shard| std::ptr::eq(shard, first));
        own.iter().chain((!has_first).then_some(first))
    }

    /// The index, in [`Self::shards_of`] a period or a cohort, of the shard that has a member's entry.
    pub(crate) fn index_of(&self, section: Section, member: &MemberId) -> usize {
        match section.cohort {
            None => self.board.shard_of(member),
            Some(_) => 0,
        }
    }

    /// The shards that may have data of a member: in a league all others, which come first, and its own.
    pub(crate) fn shards_with(&self, member: &MemberId) -> (Vec<&Shard>, &Shard) {
        let home = self.board.shard_of(member);
        let others = self
            .shards
            .iter()
            .enumerate()
            .filter(|(shard, _)| *shard != home && self.board.is_league())
            .map(|(_, live)| &live.shard);
        (others.collect(), &self.shards[home].shard)
    }

    /// The cohort of a league in the period that begins at this instant.
    pub(crate) fn cohort_at(&self, start: Timestamp, cohort: Cohort) -> Section {
        let unit = self
            .board
            .league_unit()
            .expect("invariant: a board with seats is a league");
        Section {
            period: self.board.calendar.containing(unit, start),
            cohort: Some(cohort),
        }
    }

    /// The section of a unit that a shard has noted under this name.
    pub(crate) fn section_noted(&self, unit: Unit, name: &str) -> Result<Section, StoreError> {
        let section = self.board.section_named(unit, name);
        section.ok_or_else(|| {
            StoreError::Unexpected(format!("a noted period of {unit} can't be read: {name:?}"))
        })
    }

    pub(crate) fn shard_of_cohort(&self, section: Section) -> &LiveShard {
        let [shard] = self.shards_of(section) else {
            panic!("invariant: a cohort is in one shard");
        };
        shard
    }

    /// The shard of a section that has a member's entry.
    pub(crate) fn shard_in(&self, section: Section, member: &MemberId) -> &LiveShard {
        &self.shards_of(section)[self.index_of(section, member)]
    }

    pub(crate) fn shard_of(&self, member: &MemberId) -> &LiveShard {
        &self.shards[self.board.shard_of(member)]
    }
}

impl LiveShard {
    fn new(shard: Shard, store: &Arc<Store>, kept: impl Fn() -> KeptOfShard) -> Self {
        let reading = |freshness| {
            Batcher::new(Reading {
                store: Arc::clone(store),
                shard: shard.clone(),
                freshness,
                kept: kept(),
            })
        };
        let is_flooded = Arc::default();
        Self {
            applier: Batcher::new(Applier {
                store: Arc::clone(store),
                shard: shard.clone(),
                is_flooded: Arc::clone(&is_flooded),
            }),
            listing: Batcher::new(Listing {
                store: Arc::clone(store),
                shard: shard.clone(),
            }),
            is_flooded,
            putter: OnceLock::new(),
            readings: [Freshness::Current, Freshness::Bounded]
                .map(|freshness| [reading(freshness), reading(freshness)]),
            handing: Arc::default(),
            shard,
        }
    }

    /// The batcher for reads of this size, with answers this fresh.
    pub(crate) fn reading(&self, freshness: Freshness, size: ReadSize) -> &Arc<Batcher<Reading>> {
        &self.readings[freshness as usize][size as usize]
    }
}
