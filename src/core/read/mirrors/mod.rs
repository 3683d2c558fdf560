//! Mirrors: copies of standings that answer reads without Redis.
//!
//! A mirror copies one standing of one shard. A call of `read.lua` says at which `changed` the mirrors of the shard are. If the
//! *trail* of the shard leads from there to now, the reply has its records: the mirrors follow them, and answer. If it does not, the
//! reply has the answers, and the mirrors are dropped. So a look at Redis is part of every read, and a mirror shows nothing older
//! than what that look has seen.
//!
//! The trail is a list of records. A call that changes standings leaves one as its last write (`scripts/lib/trail.lua`). One rule
//! makes mirrors right, whatever else happens: a mirror goes from one `changed` to another only by records that lead there without
//! a gap and cover its standing, and then it has as many entries as `ZCARD` says. A call that was aborted, an instance of an earlier
//! release, a script that leaves no record, lost writes and expiry all break that, and cost time only.
//!
//! A mirror is filled in steps (`filling.rs`). Each is a look that also reads the next entries after the last one that the mirror has,
//! so after each step it equals the standing up to there. Ranks would not do: they move between two steps.
//!
//! Which standings are mirrored (`earnings.rs`): a read earns what a mirror saves, a change costs what it makes dearer, and a mirror is
//! filled once its standing has earned what that costs. A drop starts from nothing.
//!
//! Reads that must be current (`no-cache`), and what is recorded or handed out, use no mirrors; nor do leagues, entry data, `keep_top`,
//! dense ranks, boards on which members were ever hidden, and reads that replicas answer.
//!
//! `ranked.rs` is the list of entries, `mirror.rs` the copy of a standing, `answers.rs` answers queries, `trail.rs` reads records,
//! `store.rs` names standings for the trail.

mod answers;
mod earnings;
pub(crate) mod filling;
mod mirror;
mod ranked;
mod store;
mod trail;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use metrics::{counter, gauge};
use parking_lot::Mutex;

use self::answers::View;
use self::earnings::Earnings;
use self::mirror::Mirror;
use self::trail::Record;
use crate::core::read::store::standings::{ShardAnswer, ShardQuery, SortKey};
use crate::domain::board::{Board, Ranking};
use crate::domain::edition::Changed;
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::StoreError;

/// How often the standings of a shard are named again: less than half of the time for which they are named.
const NAMING_INTERVAL: Duration = Duration::from_secs(10);
/// A mirror that nobody has read for so long is dropped.
const UNUSED_MAX: Duration = Duration::from_secs(30);
/// How often Redis answers a call as well, to compare its answers with those of the mirrors.
const COMPARING_INTERVAL: Duration = Duration::from_secs(10);

/// How an instance uses mirrors.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MirrorUse {
    /// Not at all.
    #[default]
    Off,
    /// For standings that earn it, with about this many bytes of memory in total.
    UpTo(u64),
    /// For all standings at once, and each answer is compared with that of Redis: for tests.
    Compared,
}

/// The mirrors of an instance.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    usage: MirrorUse,
    /// About how many bytes they take.
    bytes: AtomicU64,
    /// The shards with mirrors.
    shards: Mutex<Vec<Weak<ShardMirrors>>>,
    /// Held while one is filled: one at a time.
    filling: tokio::sync::Mutex<()>,
    compared: AtomicU64,
    different: AtomicU64,
}

/// Those of one shard, under one definition.
#[derive(Debug)]
pub(crate) struct ShardMirrors {
    all: Arc<Mirrors>,
    is_prefixed: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last look that the mirrors have followed.
    at: Option<Seen>,
    mirrors: Vec<Mirror>,
    earnings: Earnings,
    named_at: Option<Instant>,
    compared_at: Option<Instant>,
    is_busy: bool,
    /// About how many bytes the mirrors take, as they were last counted.
    bytes: u64,
}

/// What a look has seen of a shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Seen {
    pub(crate) changed: Changed,
    pub(crate) barrier: Option<Timestamp>,
}

/// What a call asks of the trail.
#[derive(Debug)]
pub(crate) struct Look {
    /// Where the mirrors are.
    pub(crate) from: Changed,
    /// Which queries they can answer.
    pub(crate) covers: Vec<bool>,
    /// Whether Redis answers these, too.
    pub(crate) is_compared: bool,
}

/// What a look leaves to be done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Due {
    /// Standings are named again.
    Naming,
    /// Mirrors are filled.
    Filling,
}

impl Mirrors {
    pub(crate) fn new(usage: MirrorUse) -> Self {
        Self {
            usage,
            ..Self::default()
        }
    }

    /// How many answers were compared with those of Redis, and how many differed.
    pub(crate) fn compared(&self) -> [u64; 2] {
        [&self.compared, &self.different].map(|count| count.load(Ordering::Relaxed))
    }

    /// A place for the mirrors of a shard; `None` if its standings can't be mirrored.
    pub(crate) fn of_shard(self: &Arc<Self>, shard: &Board) -> Option<Arc<ShardMirrors>> {
        let definition = &shard.definition;
        let can_be = self.usage != MirrorUse::Off
            && !shard.is_league()
            && !definition.entry_data
            && definition.keep_top.is_none()
            && definition.ranking != Ranking::Dense;
        can_be.then(|| {
            Arc::new(ShardMirrors {
                all: Arc::clone(self),
                is_prefixed: shard.layout().prefixed,
                state: Mutex::default(),
            })
        })
    }

    fn is_compared(&self) -> bool {
        self.usage == MirrorUse::Compared
    }

    fn bytes_max(&self) -> u64 {
        match self.usage {
            MirrorUse::Off => 0,
            MirrorUse::UpTo(bytes) => bytes,
            MirrorUse::Compared => u64::MAX,
        }
    }

    /// Notes how many bytes the mirrors of a shard take now instead of `before`. Returns whether all of them take too many.
    fn count(&self, before: &mut u64, now: u64) -> bool {
        self.bytes.fetch_add(now, Ordering::Relaxed);
        let total = self.bytes.fetch_sub(*before, Ordering::Relaxed) - *before;
        *before = now;
        #[expect(clippy::cast_precision_loss, reason = "a number of bytes")]
        gauge!("standings_mirrors_bytes").set(total as f64);
        total > self.bytes_max()
    }

    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.bytes_max()
    }

    /// Drops the mirrors of shards that nobody reads any more.
    fn drop_unused(&self) {
        let shards: Vec<_> = {
            let mut shards = self.shards.lock();
            shards.retain(|shard| shard.strong_count() > 0);
            shards.iter().filter_map(Weak::upgrade).collect()
        };
        for shard in shards {
            let mut state = shard.state.lock();
            let is_used = |mirror: &Mirror| mirror.used_at.elapsed() < UNUSED_MAX;
            if !state.is_busy && !state.mirrors.iter().any(is_used) {
                shard.drop_all(&mut state, "unused");
            }
        }
    }
}

impl State {
    fn mirror(&self, standing: Standing) -> Option<&Mirror> {
        self.mirrors
            .iter()
            .find(|mirror| mirror.standing == standing && mirror.is_whole())
    }

    /// The mirrors that a query needs, if all are there.
    fn mirrors_of(&self, query: &ShardQuery) -> Option<(&Mirror, Option<&Mirror>)> {
        if !answers::is_answered(query) {
            return None;
        }
        let [own, before] = query.standings;
        let before = match before {
            Some(before) => Some(self.mirror(before)?),
            None => None,
        };
        Some((self.mirror(own?)?, before))
    }

    /// Follows records from where the mirrors are. Returns whether they lead to what the look has seen. If not, the mirrors may
    /// have followed some.
    fn follow(&mut self, seen: Seen, records: &[Bytes]) -> bool {
        let Some(at) = self.at else {
            return false;
        };
        let mut position = at.changed;
        for record in records {
            let Some(record) = Record::read(record) else {
                return false;
            };
            if record.before != position {
                if record.after.number <= position.number {
                    // Another look has brought it already.
                    continue;
                }
                return false;
            }
            position = record.after;
            self.mirrors
                .retain(|mirror| !mirror.has_begun() || record.ids.contains(&mirror.id));
            for state in &record.states {
                let concerned = self.mirrors.iter_mut().find(|one| one.id == state.id);
                if let Some(mirror) = concerned {
                    mirror.follow(state);
                }
            }
        }
        if position != seen.changed {
            return false;
        }
        self.at = Some(Seen {
            changed: position,
            barrier: at.barrier.max(seen.barrier),
        });
        true
    }
}

impl ShardMirrors {
    /// What a call with these queries asks of the trail; `None` if there are no mirrors.
    pub(crate) fn plan(&self, queries: &[&Arc<ShardQuery>]) -> Option<Look> {
        let mut state = self.state.lock();
        let from = state.at?.changed;
        if state.mirrors.is_empty() {
            return None;
        }
        let covers = queries
            .iter()
            .map(|query| state.mirrors_of(query).is_some());
        let covers: Vec<bool> = covers.collect();
        let is_due = state
            .compared_at
            .is_none_or(|at| at.elapsed() >= COMPARING_INTERVAL);
        let is_compared = self.all.is_compared() || is_due && covers.contains(&true);
        if is_compared {
            state.compared_at = Some(Instant::now());
        }
        Some(Look {
            from,
            covers,
            is_compared,
        })
    }

    /// Takes in what a call with these queries has seen: how many entries standings have, and the records by which the mirrors
    /// get there; `None` if they don't. Returns what is to be done then.
    pub(crate) fn look(
        &self,
        queries: &[&Arc<ShardQuery>],
        look: Option<&Look>,
        seen: Seen,
        counts: &[(Standing, u64)],
        records: Option<&[Bytes]>,
    ) -> Option<Due> {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let (Some(look), Some(at)) = (look, state.at) {
            let is_older = seen.changed.number < at.changed.number;
            if records.is_some_and(|records| state.follow(seen, records)) {
                let fits = |mirror: &Mirror| {
                    let known = counts
                        .iter()
                        .find(|(standing, _)| *standing == mirror.standing);
                    !mirror.is_whole()
                        || known.is_none_or(|(_, count)| mirror.list.len() as u64 == *count)
                };
                state.mirrors.retain(fits);
            } else if !is_older && (at.changed == look.from || records.is_some()) {
                self.drop_all(state, "broken");
            }
        }
        let is_wanted = |query: &&&Arc<ShardQuery>| answers::is_answered(query);
        for query in queries.iter().filter(is_wanted) {
            for standing in query.standings.into_iter().flatten() {
                state.earnings.earn(standing);
                let mirror = state
                    .mirrors
                    .iter_mut()
                    .find(|one| one.standing == standing);
                if let Some(mirror) = mirror {
                    mirror.used_at = Instant::now();
                }
            }
        }
        state.earnings.pay(seen.changed.number);
        for (standing, count) in counts {
            state.earnings.bound(*standing, *count);
        }
        if !self.all.is_compared() {
            let earnings = &state.earnings;
            state
                .mirrors
                .retain(|mirror| !mirror.is_whole() || earnings.has_earned(mirror.standing));
        }
        self.due(state, counts)
    }

    fn due(&self, state: &mut State, counts: &[(Standing, u64)]) -> Option<Due> {
        if state.is_busy {
            return None;
        }
        let is_missing = |(standing, count): &(Standing, u64)| {
            let cost = if self.all.is_compared() { 0 } else { *count };
            state.mirror(*standing).is_none() && state.earnings.pays_for(*standing, cost)
        };
        let named = state.named_at.map(|named| named.elapsed());
        let due = if counts.iter().any(is_missing) {
            Due::Filling
        } else if !state.mirrors.is_empty() && named.is_none_or(|age| age > NAMING_INTERVAL) {
            Due::Naming
        } else {
            return None;
        };
        state.is_busy = true;
        Some(due)
    }

    /// The answer to a query by the mirrors, as of the last look; `None` if they have none.
    pub(crate) fn answer(
        &self,
        shard: &Shard,
        query: &ShardQuery,
    ) -> Result<Option<ShardAnswer>, StoreError> {
        let state = self.state.lock();
        let (Some(at), Some((mirror, before))) = (state.at, state.mirrors_of(query)) else {
            return Ok(None);
        };
        let view = View {
            board: shard,
            mirror,
            before,
        };
        let count = |mirror: &Mirror| mirror.list.len() as u64;
        let counts = [count(mirror), before.map_or(0, count)];
        let answer = view.answer(&query.question)?;
        Ok(answer.map(|answer| ShardAnswer {
            answer,
            barrier: at.barrier,
            changed: at.changed,
            counts,
        }))
    }

    /// Compares the answer of Redis to a query with that of the mirrors. If they differ, all mirrors of the shard are dropped.
    pub(crate) fn compare(&self, shard: &Shard, query: &ShardQuery, answer: &ShardAnswer) {
        let Ok(Some(own)) = self.answer(shard, query) else {
            return;
        };
        if own.changed != answer.changed {
            return;
        }
        self.all.compared.fetch_add(1, Ordering::Relaxed);
        if !own.is_equal_to(answer) {
            self.all.different.fetch_add(1, Ordering::Relaxed);
            counter!("standings_mirrors_different_total").increment(1);
            tracing::error!(board = %shard.id, ?query, ?own, ?answer, "a mirror differs from its standing");
            self.drop_all(&mut self.state.lock(), "different");
        }
    }

    fn drop_all(&self, state: &mut State, reason: &'static str) {
        if !state.mirrors.is_empty() {
            counter!("standings_mirrors_dropped_total", "reason" => reason).increment(1);
        }
        state.at = None;
        state.mirrors.clear();
        state.earnings = Earnings::default();
        self.all.count(&mut state.bytes, 0);
    }

    /// Begins a mirror that is named under this id.
    fn begin(self: &Arc<Self>, standing: Standing, id: u64) {
        let mut state = self.state.lock();
        state.mirrors.retain(|mirror| mirror.standing != standing);
        let mirror = Mirror::new(standing, id, self.is_prefixed);
        state.mirrors.push(mirror);
        let mut shards = self.all.shards.lock();
        let own = Arc::downgrade(self);
        if !shards.iter().any(|shard| shard.ptr_eq(&own)) {
            shards.push(own);
        }
    }

    /// The entry after which a mirror is filled next; `None` if it is whole, or was dropped.
    fn mark(&self, standing: Standing) -> Option<SortKey> {
        let state = self.state.lock();
        let mirror = state.mirrors.iter().find(|one| one.standing == standing)?;
        mirror.filled_to.clone()
    }

    /// Adds entries that were read after the mark of a mirror. Returns whether the memory of all mirrors is enough.
    fn fill(&self, standing: Standing, seen: Seen, entries: &[SortKey], is_last: bool) -> bool {
        let mut state = self.state.lock();
        let state = &mut *state;
        // Before the first step nothing was there to follow.
        let at = state.at.get_or_insert(seen);
        if at.changed != seen.changed {
            // Another look has gone further, and has left out what comes after the mark.
            return true;
        }
        if let Some(mirror) = state
            .mirrors
            .iter_mut()
            .find(|one| one.standing == standing)
        {
            mirror.fill(entries, is_last);
        }
        let bytes = state
            .mirrors
            .iter()
            .map(|mirror| mirror.list.bytes() as u64);
        !self.all.count(&mut state.bytes, bytes.sum())
    }

    fn remove(&self, standing: Standing) {
        let mut state = self.state.lock();
        state.mirrors.retain(|mirror| mirror.standing != standing);
        state.earnings.forget(standing);
        let bytes = state
            .mirrors
            .iter()
            .map(|mirror| mirror.list.bytes() as u64);
        let bytes = bytes.sum();
        self.all.count(&mut state.bytes, bytes);
    }
}

impl Drop for ShardMirrors {
    fn drop(&mut self) {
        self.all.count(&mut self.state.get_mut().bytes, 0);
    }
}
