//! A whole standing as of one instant in each shard, amid writes: for exports of what is not final, or has hidden members.
//!
//! A shard is read in steps, each one call of `snapshot.lua`. Reading page by page would lose members: ranks move between two
//! pages. So each step reads the next entries after the last one that was read, and what has changed since the step before, as of
//! one instant. After it the snapshot equals the standing up to that last entry (`shard.rs`): changes up to there are applied from
//! the links, and later ones are read with their entries.
//!
//! What has changed is in the *trail* of the shard: a list of links, which calls leave only while a snapshot has named the
//! standing (`scripts/lib/trail.lua`). One rule makes snapshots exact, whatever else happens: a step counts only if links lead to
//! it from the step before without a gap, and at its end a snapshot has as many entries as the standing. A script that leaves no
//! link (a hide, an erasure, a repair), a call that was aborted, an instance of an earlier release, lost writes and expiry all
//! break that; then the shard is read again from its beginning.
//!
//! A standing that one step can read needs no trail. `memory.rs` bounds what all snapshots of an instance take.

mod link;
mod memory;
mod shard;
mod store;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;

use self::memory::Allowance;
use self::shard::{ShardEntries, ShardSnapshot};
use self::store::Step;
use super::merge::Merged;
use super::period::Target;
use super::reader::{ReadSize, Reader};
use super::scroll::ScrollPlace;
use super::store::standings::{Entry, SortKey, Visibility};
use crate::core::{ATTEMPTS_MAX, Engine, Error, LiveBoard, Outdated};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::problems::Problem;
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::Freshness;
use crate::runtime::join::try_join_all;

pub use self::memory::SnapshotBounds;
pub(crate) use self::memory::Snapshots;

/// How often a standing is named again: well within the time for which it is named.
const NAMING_INTERVAL: Duration = Duration::from_secs(10);
/// How many shards are read at once.
const SHARDS_AT_ONCE: usize = 4;

/// A standing in memory, from which entries are taken in the order of their ranks.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) board: Arc<Board>,
    pub(crate) target: Target,
    /// It has every write that was acknowledged before this instant.
    pub(crate) as_of: Timestamp,
    shards: Vec<ShardEntries>,
    /// The next entry of each shard that has one, with the index of the shard.
    next: BinaryHeap<Reverse<(SortKey, usize)>>,
    place: ScrollPlace,
    /// Returned when the snapshot is dropped.
    _allowance: Arc<Allowance>,
}

/// Takes a snapshot of the standing that `find` finds on a board. `visibility`: [`Visibility::Visible`] or [`Visibility::All`].
///
/// # Errors
///
/// Those of `find` and of reads; [`Problem::board_changes`] if links keep getting lost; those of [`Allowance::grow`].
pub(crate) async fn take(
    engine: &Engine,
    id: &BoardId,
    visibility: Visibility,
    find: impl Fn(&LiveBoard) -> Result<Target, Error> + Sync,
) -> Result<Snapshot, Error> {
    let with_hidden = visibility == Visibility::All;
    let allowance = Arc::new(engine.snapshots.begin().await?);
    let as_of = engine.clock.now();
    let (board, target, shards) = engine
        .with_board(id, async |live| {
            let target = find(&live)?;
            let shards = if target.is_empty {
                Vec::new()
            } else {
                of_shards(engine, &live, (target.standing, with_hidden), &allowance)
                    .boxed()
                    .await?
            };
            Ok((Arc::clone(&live.board), target, shards))
        })
        .await?;
    let of_shards = shards.iter().filter_map(|shard| shard.as_of);
    let as_of = of_shards.min().unwrap_or(as_of);
    Ok(Snapshot::new((board, target), as_of, shards, allowance))
}

async fn of_shards(
    engine: &Engine,
    live: &LiveBoard,
    (standing, with_hidden): (Standing, bool),
    allowance: &Allowance,
) -> Result<Vec<ShardSnapshot>, Error> {
    allowance.clear();
    // A derived standing is completed first.
    let reader = Reader::new(engine, live, Freshness::Current).of_size(ReadSize::Large);
    Merged::new(&reader, standing).total().boxed().await?;
    let mut snapshots = Vec::new();
    for shards in live.shards_of(standing.section()).chunks(SHARDS_AT_ONCE) {
        let taken = shards
            .iter()
            .map(|live| of_shard(engine, &live.shard, (standing, with_hidden), allowance));
        snapshots.extend(try_join_all(taken).await?);
    }
    Ok(snapshots)
}

/// The snapshot of a shard. It begins again if the trail has lost links.
async fn of_shard(
    engine: &Engine,
    shard: &Shard,
    (standing, with_hidden): (Standing, bool),
    allowance: &Allowance,
) -> Result<ShardSnapshot, Error> {
    let mut snapshot = ShardSnapshot::new(shard, standing, with_hidden);
    if take_step(engine, shard, &mut snapshot, None, allowance).await? == Some(true) {
        return Ok(snapshot);
    }
    for _ in 0..ATTEMPTS_MAX {
        allowance.give_back(snapshot.bytes());
        snapshot = ShardSnapshot::new(shard, standing, with_hidden);
        if fill(engine, shard, &mut snapshot, allowance).await? {
            return Ok(snapshot);
        }
    }
    Err(Error::try_again(Problem::board_changes(&shard.id)))
}

/// Takes all steps. Returns whether links lead from each to the next.
async fn fill(
    engine: &Engine,
    shard: &Shard,
    snapshot: &mut ShardSnapshot,
    allowance: &Allowance,
) -> Result<bool, Error> {
    let (store, standing) = (&engine.store, snapshot.standing);
    let token = store::begin_trail(store, shard, &standing).await?;
    let mut named_at = Instant::now();
    loop {
        match take_step(engine, shard, snapshot, Some(&token), allowance).await? {
            Some(false) => {}
            ended => return Ok(ended.is_some()),
        }
        if named_at.elapsed() > NAMING_INTERVAL {
            store::begin_trail(store, shard, &standing).await?;
            named_at = Instant::now();
        }
    }
}

/// Takes one step. Returns whether it was the last one; `None` if no links lead to it.
async fn take_step(
    engine: &Engine,
    shard: &Shard,
    snapshot: &mut ShardSnapshot,
    token: Option<&str>,
    allowance: &Allowance,
) -> Result<Option<bool>, Error> {
    let as_of = engine.clock.now();
    let count = engine.snapshots.step_entries;
    match store::step(&engine.store, shard, snapshot, token, count).await? {
        Step::Incomplete => Err(Error::Again(Outdated::Read)),
        Step::Broken => Ok(None),
        Step::Part(part) => {
            let before = snapshot.bytes();
            let is_whole = snapshot.take(&part, as_of);
            allowance.grow(before, snapshot.bytes())?;
            Ok(is_whole)
        }
    }
}

impl Snapshot {
    fn new(
        (board, target): (Arc<Board>, Target),
        as_of: Timestamp,
        shards: Vec<ShardSnapshot>,
        allowance: Arc<Allowance>,
    ) -> Self {
        let mut shards: Vec<_> = shards.into_iter().map(ShardEntries::from).collect();
        let first =
            |(index, shard): (usize, &mut ShardEntries)| Some(Reverse((shard.next()?, index)));
        Self {
            next: shards.iter_mut().enumerate().filter_map(first).collect(),
            as_of,
            board,
            target,
            shards,
            place: ScrollPlace::default(),
            _allowance: allowance,
        }
    }

    /// The next `count` entries, or fewer at the end. Each with whether its member is hidden.
    pub(crate) fn next(&mut self, count: usize) -> Result<Vec<(Entry, bool)>, Error> {
        let ranking = self.board.ranking_of(&self.target.standing.period);
        let mut entries = Vec::new();
        while entries.len() < count
            && let Some(Reverse((key, index))) = self.next.pop()
        {
            let rank = self.place.advance(ranking, key.score);
            let shard = &mut self.shards[index];
            let hidden = shard.hidden.as_ref();
            let is_hidden = hidden.is_some_and(|hidden| hidden.contains(&*key.member));
            entries.push((key.entry(&self.board, Some(rank))?, is_hidden));
            let following = shard.next();
            self.next.extend(following.map(|key| Reverse((key, index))));
        }
        Ok(entries)
    }
}
