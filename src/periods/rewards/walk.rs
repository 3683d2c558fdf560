//! Hands out rewards: decides who wins in a final section, and stores that with the members.
//!
//! Winners follow from the order of the standing (`domain/reward.rs`). So a *walk* goes along the standing from its first
//! entry until nobody else can win, and stores the members' rewards in their shards (`scripts/lib/rewards.lua`). Then it
//! goes through all rewards won before, and revokes those that it did not meet. Repeating a walk changes nothing.
//!
//! - One instance at a time walks on a board: it holds a lease, and shards refuse calls of earlier leases. The lease stores
//!   how far the walk has come, so any instance can continue it. On an instance, calls take turns.
//! - A call dropped because its client disconnected gives the lease back with its progress.
//! - A walk counts only if nobody was hidden, brought back or erased meanwhile. Otherwise another one begins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout_at;

use super::store::{self, HANDED_OUT_MAX, RewardWalk, RewardedMember};
use crate::core::jobs::lease::Lease;
use crate::core::read::merge::{Merged, Start};
use crate::core::read::reader::{ReadSize, Reader};
use crate::core::read::store::standings::SortKey;
use crate::core::{Engine, Error, LiveBoard, LiveShard, Outdated};
use crate::domain::ids::MemberId;
use crate::domain::league::Section;
use crate::domain::period::Unit;
use crate::domain::reward::{RankedStanding, RewardScan};
use crate::periods::results;
use crate::periods::results::recording::standing_of;
use crate::periods::results::store::ChangeCounters;
use crate::periods::turnover::turning;
use crate::redis::leases::Leased;
use crate::redis::{Freshness, StoreError};
use crate::runtime::join::try_join_all;

/// How long one call walks, or waits for another instance's walk. Progress is kept.
const WALK_TIME_MAX: Duration = Duration::from_secs(8);
/// Pause between checks whether another instance still walks.
const HELD_PAUSE: Duration = Duration::from_millis(20);

/// The progress of a walk, as stored in its lease.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Position {
    unit: Unit,
    key: String,
    revision: u64,
    /// The number of the walk: that of the lease that began it.
    walk: u64,
    /// The shards' counters of hides and erasures when it began.
    before: BTreeMap<String, ChangeCounters>,
    /// How many visible members the standing has.
    total: u64,
    scan: RewardScan,
    taken_back: TakenBack,
}

/// Progress in revoking rewards that are no longer won.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct TakenBack {
    shard: usize,
    /// The place in that shard.
    after: Option<String>,
    /// How many of the rewards seen so far are still won.
    won: u64,
}

struct Walk<'a> {
    engine: &'a Engine,
    live: &'a LiveBoard,
    section: &'a Section,
    lease: &'a Lease,
    standing: RankedStanding,
    at: Position,
    /// The last entry that it met; `None`: none yet since it was resumed.
    mark: Option<SortKey>,
    /// Where its progress is stored.
    noted: &'a mut String,
}

/// The right to hand out the rewards of a section of a board, held until the result is recorded.
pub(crate) struct Handing {
    /// `None`: nobody can win anything.
    lease: Option<Lease>,
    /// The walk's progress, for the next holder.
    pub(crate) position: String,
    until: Instant,
    /// This instance's lock for the board.
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Handing {
    /// Releases the right.
    pub(crate) async fn give_back(mut self) -> Result<(), StoreError> {
        match self.lease.take() {
            Some(lease) => lease.give_back(&self.position).await,
            None => Ok(()),
        }
    }
}

impl Drop for Handing {
    fn drop(&mut self) {
        let runtime = Handle::try_current();
        let (Some(lease), Ok(runtime)) = (self.lease.take(), runtime) else {
            return;
        };
        let position = std::mem::take(&mut self.position);
        // If that fails, the lease expires.
        runtime.spawn(async move { lease.give_back(&position).await });
    }
}

/// Waits for the right to hand out the rewards of a final section.
pub(crate) async fn begin_handing(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
) -> Result<Handing, Error> {
    let until = Instant::now() + engine.store.timeouts.times(WALK_TIME_MAX);
    if !gives_any(engine, live, section).await? {
        return Ok(Handing {
            lease: None,
            position: String::new(),
            until,
            _turn: None,
        });
    }
    let first = &live.shards_of(*section)[0];
    let turn = timeout_at(until.into(), Arc::clone(&first.handing).lock_owned())
        .await
        .map_err(|_| unfinished(live))?;
    let leased = match section.cohort {
        Some(_) => Leased::of_shard(&first.shard, "rewards"),
        None => Leased::of_board(&live.board, "rewards"),
    };
    while Instant::now() < until {
        if let Some(lease) = Lease::take(&engine.store, leased.clone()).await? {
            return Ok(Handing {
                position: lease.position.clone(),
                lease: Some(lease),
                until,
                _turn: Some(turn),
            });
        }
        tokio::time::sleep(HELD_PAUSE).await;
    }
    Err(unfinished(live))
}

/// Whether a final section has any rewards to win.
async fn gives_any(engine: &Engine, live: &LiveBoard, section: &Section) -> Result<bool, Error> {
    let (board, period) = (&live.board, &section.period);
    if board.rules_of(period).next().is_none() {
        return Ok(false);
    }
    let summary = turning::summary_of(engine, live, section).await?;
    Ok(summary.is_none_or(|summary| board.settings_in(period).moves(summary.counted)))
}

/// Hands out the rewards of a final section under a revision of its result. Returns how many are won. That counts only if
/// nobody was hidden, brought back or erased meanwhile.
pub(crate) async fn hand_out(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
    revision: u64,
    handing: &mut Handing,
) -> Result<u64, Error> {
    let Handing {
        lease: Some(lease),
        position,
        until,
        ..
    } = handing
    else {
        return Ok(0);
    };
    let walk = Walk::take_up(engine, live, (section, revision), (lease, position)).await?;
    walk.finish(*until).await
}

impl<'a> Walk<'a> {
    /// Resumes the last walk if it had the same purpose and nobody was hidden or brought back since; otherwise begins one.
    async fn take_up(
        engine: &'a Engine,
        live: &'a LiveBoard,
        (section, revision): (&'a Section, u64),
        (lease, noted): (&'a Lease, &'a mut String),
    ) -> Result<Self, Error> {
        let (board, key) = (&live.board, live.board.section_key(section));
        let last: Option<Position> = serde_json::from_str(&lease.position).ok();
        let mut walk = Self {
            engine,
            live,
            section,
            lease,
            standing: RankedStanding {
                ranking: board.ranking_of(&section.period),
                order: board.definition.order,
                decimals: board.definition.decimals,
                total: 0,
            },
            at: Position {
                unit: section.period.unit,
                key,
                revision,
                walk: lease.number,
                before: BTreeMap::new(),
                total: 0,
                scan: RewardScan::default(),
                taken_back: TakenBack::default(),
            },
            mark: None,
            noted,
        };
        // From now on the shards refuse in-flight calls of earlier holders of the lease.
        let nobody = vec![Vec::new(); walk.shards().len()];
        walk.note(nobody, true).await?;
        walk.at.before = results::recording::change_counters(engine, live, section).await?;
        match last.filter(|last| walk.goes_on_from(last)) {
            Some(last) => walk.at = last,
            None => walk.at.total = walk.total().await?,
        }
        walk.standing.total = walk.at.total;
        Ok(walk)
    }

    fn goes_on_from(&self, last: &Position) -> bool {
        let at = &self.at;
        (last.unit, &last.key, last.revision) == (at.unit, &at.key, at.revision)
            && last.before == at.before
    }

    /// How many visible members the standing has.
    async fn total(&self) -> Result<u64, Error> {
        let reader = Reader::new(self.engine, self.live, Freshness::Current);
        let list = Merged::new(&reader, standing_of(&self.live.board, self.section));
        list.total().boxed().await
    }

    /// Walks to the end. Returns how many rewards are won.
    async fn finish(mut self, until: Instant) -> Result<u64, Error> {
        while self.goes_on() {
            self.hand_on().await?;
            self.stay(until).await?;
        }
        while self.at.taken_back.shard < self.shards().len() {
            self.take_back().await?;
            self.stay(until).await?;
        }
        Ok(self.at.taken_back.won)
    }

    fn goes_on(&self) -> bool {
        let rules = self.live.board.rules_of(&self.section.period);
        self.at.scan.goes_on(rules, &self.standing)
    }

    /// Hands out the rewards of the next entries.
    async fn hand_on(&mut self) -> Result<(), Error> {
        let board = &self.live.board;
        let reader =
            Reader::new(self.engine, self.live, Freshness::Current).of_size(ReadSize::Large);
        let list = Merged::new(&reader, standing_of(board, self.section));
        let count = HANDED_OUT_MAX as u64;
        let behind = Start::Behind(self.at.scan.entries());
        let start = self.mark.as_ref().map_or(behind, Start::At);
        let lines = list.lines(start, count).boxed().await?;
        let Some(final_line) = lines.last() else {
            // More were there when the walk began.
            return Err(Error::Again(Outdated::Read));
        };
        let mut scan = self.at.scan;
        let mut of_shards = vec![Vec::new(); self.shards().len()];
        for line in &lines {
            let entry = line.entry(board, None)?;
            let won = scan.next(
                entry.score,
                board.rules_of(&self.section.period),
                &self.standing,
            );
            if !won.rules.is_empty() {
                of_shards[self.shard_of(&entry.member)?].push(RewardedMember {
                    member: entry.member.to_string(),
                    rank: won.rank,
                    score: entry.score,
                    rules: won.rules,
                });
            }
        }
        self.note(of_shards, false).await?;
        self.at.scan = scan;
        self.mark = Some(final_line.mark.behind_it());
        Ok(())
    }

    /// Stores what members of each shard win; `all`: also calls shards without winners.
    async fn note(&self, of_shards: Vec<Vec<RewardedMember>>, all: bool) -> Result<(), Error> {
        let noted = self
            .shards()
            .iter()
            .zip(of_shards)
            .filter(|(_, winners)| all || !winners.is_empty())
            .map(async |(shard, winners)| {
                let store = &self.engine.store;
                store::hand_out(store, &shard.shard, self.section, self.number(), &winners).await
            });
        Ok(try_join_all(noted).await.map(drop)?)
    }

    /// Revokes some rewards that are no longer won.
    async fn take_back(&mut self) -> Result<(), Error> {
        let TakenBack { shard, after, won } = &self.at.taken_back;
        let (store, own) = (&self.engine.store, &self.shards()[*shard].shard);
        let (more, last) =
            store::take_back(store, own, self.section, self.number(), after.as_deref()).await?;
        self.at.taken_back = TakenBack {
            shard: if last.is_some() { *shard } else { shard + 1 },
            won: won + more,
            after: last,
        };
        Ok(())
    }

    fn number(&self) -> RewardWalk {
        RewardWalk {
            lease: self.lease.number,
            revision: self.at.revision,
            number: self.at.walk,
        }
    }

    /// Stores the progress for the next holder, and renews the lease while there is time.
    async fn stay(&mut self, until: Instant) -> Result<(), Error> {
        *self.noted = serde_json::to_string(&self.at).unwrap_or_default();
        if Instant::now() >= until {
            return Err(unfinished(self.live));
        }
        if self.lease.renew(self.noted).await? {
            return Ok(());
        }
        Err(Error::Again(Outdated::Board))
    }

    /// The shards that store rewards of the section.
    fn shards(&self) -> &'a [LiveShard] {
        self.live.shards_of(*self.section)
    }

    /// The index of the shard that stores a member's rewards.
    fn shard_of(&self, member: &str) -> Result<usize, StoreError> {
        let member = MemberId::stored(member)
            .map_err(|error| StoreError::Unexpected(format!("a winner can't be read: {error}")))?;
        Ok(self.live.index_of(*self.section, &member))
    }
}

fn unfinished(live: &LiveBoard) -> Error {
    let id = &live.board.id;
    Error::pending(format!(
        "the rewards of board {id} are still being handed out"
    ))
}
