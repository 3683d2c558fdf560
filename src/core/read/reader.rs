//! Reads standings of a board. Queries that come in together share one call, and equal queries share one answer.
//!
//! A call begins after all of its queries have come in. So a client that has the response to its event reads that event,
//! unless it accepts an older answer by a replica.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use indexmap::IndexSet;
use parking_lot::Mutex;

use super::past::Patience;
use super::store::standings::{self, KeptOfShard, ReadAnswer, ShardAnswer, ShardQuery, Visibility};
use crate::core::{Engine, Error, LiveBoard, LiveShard, Outdated};
use crate::domain::edition::{Changed, ShardSeen};
use crate::domain::series::{Series, Standing};
use crate::domain::shard::Shard;
use crate::domain::state::Seen;
use crate::domain::time::Timestamp;
use crate::redis::{Dated, Freshness, Store, StoreError};
use crate::runtime::batcher::Work;

/// How long the queries of one call may keep Redis busy, in microseconds.
const CALL_COST_US_MAX: usize = 1_000;

/// How much a request reads in total. Each size has its own batchers, so that small requests pass large ones.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReadSize {
    /// Up to a page.
    #[default]
    Small,
    /// More than that.
    Large,
}

#[derive(Debug)]
pub struct Reading {
    pub store: Arc<Store>,
    pub shard: Shard,
    /// How fresh the answers must be.
    pub freshness: Freshness,
    pub(crate) kept: KeptOfShard,
}

type Read = Dated<ShardAnswer>;

/// The distinct queries of a call, which of them each item asks, and what they cost.
#[derive(Debug, Default)]
pub struct Asked {
    queries: IndexSet<Arc<ShardQuery>>,
    indexes: Vec<usize>,
    cost_us: usize,
}

impl Work for Reading {
    type Item = Arc<ShardQuery>;
    type Answer = Result<Read, StoreError>;
    type Load = Asked;

    fn admit(&self, load: &mut Asked, query: &Arc<ShardQuery>) -> bool {
        let (index, is_new) = load.queries.insert_full(Arc::clone(query));
        if is_new {
            let cost_us = load.cost_us + query.cost_us();
            if cost_us > CALL_COST_US_MAX && index > 0 {
                load.queries.pop();
                return false;
            }
            load.cost_us = cost_us;
        }
        load.indexes.push(index);
        true
    }

    fn cost_us(load: &Asked) -> usize {
        load.cost_us
    }

    /// A second call next to one in which Redis has nothing to read would have no more than half of the queries.
    fn makes_way(&self) -> bool {
        self.kept.held()
    }

    async fn call(&self, _: Vec<Arc<ShardQuery>>, asked: Asked) -> Vec<Self::Answer> {
        let queries: Vec<_> = asked.queries.iter().collect();
        let kept = Some(&self.kept);
        let visibility = (Visibility::Visible, self.freshness);
        let read = standings::read(&self.store, &self.shard, &queries, kept, visibility);
        match read.await {
            Ok(Dated { value, as_of }) => {
                let of_item = |index: usize| {
                    let value = value[index].clone();
                    Ok(Dated { value, as_of })
                };
                asked.indexes.into_iter().map(of_item).collect()
            }
            Err(error) => vec![Err(error); asked.indexes.len()],
        }
    }
}

/// Reads a board for one request.
pub(crate) struct Reader<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) live: &'a LiveBoard,
    freshness: Mutex<Freshness>,
    size: ReadSize,
    has_data: bool,
    visibility: Visibility,
    patience: Option<&'a Patience>,
    calls: Mutex<Calls>,
}

/// What the calls of a request have seen.
#[derive(Clone, Debug, Default)]
struct Calls {
    /// The shards that were called, by their indexes.
    shards: Vec<Called>,
    /// Whether a shard has changed between them.
    is_torn: bool,
    /// The instant of the oldest answer from a replica.
    as_of: Option<Instant>,
    /// The least barrier that they saw; `None`: one of them saw none.
    barrier: Option<Timestamp>,
}

/// What the calls have seen of a shard.
#[derive(Clone, Debug)]
struct Called {
    index: u16,
    changed: Changed,
    /// The standings that had entries there.
    with_entries: Vec<Standing>,
}

impl Calls {
    fn note(
        &mut self,
        shard: &Shard,
        query: &ShardQuery,
        as_of: Option<Instant>,
        seen: &ShardAnswer,
    ) {
        let barrier = seen.barrier;
        self.barrier = if self.is_any() {
            self.barrier.min(barrier)
        } else {
            barrier
        };
        self.as_of = self.as_of.into_iter().chain(as_of).min();
        let index = shard.shard_id.index;
        let place = self
            .shards
            .binary_search_by_key(&index, |one| one.index)
            .unwrap_or_else(|place| {
                let called = Called {
                    index,
                    changed: seen.changed,
                    with_entries: Vec::new(),
                };
                self.shards.insert(place, called);
                place
            });
        let called = &mut self.shards[place];
        self.is_torn |= called.changed != seen.changed;
        for (standing, count) in query.standings.into_iter().zip(seen.counts) {
            if let Some(standing) = standing
                && count > 0
                && !called.with_entries.contains(&standing)
            {
                called.with_entries.push(standing);
            }
        }
    }

    fn is_any(&self) -> bool {
        !self.shards.is_empty()
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(engine: &'a Engine, live: &'a LiveBoard, freshness: Freshness) -> Self {
        Self {
            engine,
            live,
            freshness: Mutex::new(freshness),
            size: ReadSize::default(),
            has_data: false,
            visibility: Visibility::default(),
            patience: None,
            calls: Mutex::default(),
        }
    }

    /// For a request with this patience, to bound what is built for it and how long it waits.
    pub(crate) fn with_patience(self, patience: &'a Patience) -> Self {
        let patience = Some(patience);
        Self { patience, ..self }
    }

    /// For a request of this size.
    pub(crate) fn of_size(self, size: ReadSize) -> Self {
        Self { size, ..self }
    }

    /// Also reads the data of entries, if that is wanted and the board keeps data.
    pub(crate) fn with_data(self, is_wanted: bool) -> Self {
        Self {
            has_data: is_wanted && self.live.board.definition.entry_data,
            ..self
        }
    }

    /// For a request that sees the entries of these members.
    pub(crate) fn with_visibility(self, visibility: Visibility) -> Self {
        Self { visibility, ..self }
    }

    /// Whose entries it sees.
    pub(crate) fn visibility(&self) -> Visibility {
        self.visibility
    }

    /// Everything acknowledged before this was read; `None`: everything before the request.
    pub(crate) fn as_of(&self) -> Option<Instant> {
        self.calls.lock().as_of
    }

    /// What its calls have seen of barriers.
    pub(crate) fn seen(&self) -> Seen {
        let calls = self.calls.lock();
        Seen {
            barrier: calls.barrier,
            is_current: calls.is_any() && calls.as_of.is_none(),
        }
    }

    /// What its calls have seen of a standing, and of the one before, in each shard, by the shards' indexes; and whether a
    /// shard has changed between them.
    pub(crate) fn shards_seen(
        &self,
        standings: [Option<Standing>; 2],
    ) -> (Vec<(u16, ShardSeen)>, bool) {
        let calls = self.calls.lock();
        let seen = calls.shards.iter().map(|called| {
            let has_entries = |standing| called.with_entries.contains(&standing);
            let seen = ShardSeen {
                changed: called.changed,
                has_entries: standings.map(|standing| standing.is_some_and(has_entries)),
            };
            (called.index, seen)
        });
        (seen.collect(), calls.is_torn)
    }

    /// From now on answers must be current. What was read before is forgotten.
    pub(crate) fn insist(&self) {
        *self.freshness.lock() = Freshness::Current;
        *self.calls.lock() = Calls::default();
    }

    /// Asks a shard one query.
    ///
    /// # Errors
    ///
    /// [`Error::Again`] if the board in memory is stale; or if a standing was not complete, or too short, and now is.
    pub(crate) async fn ask<T: TryFrom<ReadAnswer>>(
        &self,
        shard: &LiveShard,
        query: ShardQuery,
    ) -> Result<T, Error> {
        let query = Arc::new(ShardQuery {
            with_data: self.has_data && query.question.is_about_entries(),
            ..query
        });
        let Dated { value: seen, as_of } = match self.visibility {
            Visibility::Visible => {
                let freshness = *self.freshness.lock();
                let answer = shard.read(freshness, self.size, Arc::clone(&query)).await?;
                // The hidden list that the query needs may be outdated.
                if matches!(answer.value.answer, ReadAnswer::Unlisted(_)) {
                    self.without_hidden(shard, &query, answer).boxed().await?
                } else {
                    answer
                }
            }
            visibility => self.ask_alone(shard, &query, visibility).boxed().await?,
        };
        match seen.answer {
            ReadAnswer::Incomplete(series, start_ms) => {
                self.complete(&shard.shard, series, start_ms)
                    .boxed()
                    .await?;
            }
            ReadAnswer::Erasing => {
                let forgetting = self.engine.forget_all(&shard.shard.id);
                forgetting.boxed().await?;
            }
            ReadAnswer::Short(standing) => {
                let widening = self.engine.widen(&shard.shard, &standing);
                widening.boxed().await?;
            }
            _ => {
                self.calls.lock().note(&shard.shard, &query, as_of, &seen);
                return Ok(T::try_from(seen.answer).map_err(|_| no_result())?);
            }
        }
        Err(Error::Again(Outdated::Read))
    }

    async fn complete(&self, shard: &Shard, series: Series, start_ms: i64) -> Result<(), Error> {
        let engine = self.engine;
        let wait_max = engine.steps_wait_max();
        let (until, turn) = match self.patience {
            Some(patience) => {
                let until = patience.until(wait_max);
                let turn = if engine.is_past(shard, series, start_ms) {
                    patience.turn(&engine.past, &engine.clock, until).await?
                } else {
                    None
                };
                (until, turn)
            }
            None => (Instant::now() + wait_max, None),
        };
        engine
            .complete_from(shard, (series, start_ms), until, turn)
            .await
    }

    /// Returns the answer unchanged, unless a hidden list was outdated: then this updates the list and asks again. Later
    /// hides don't matter to this query, so it is asked once for each of its standings. If Redis refuses to store the list,
    /// the read leaves out the hidden members by itself, unless they are too many.
    async fn without_hidden(
        &self,
        shard: &LiveShard,
        query: &Arc<ShardQuery>,
        mut answer: Read,
    ) -> Result<Read, Error> {
        let mut known_to = None;
        while let ReadAnswer::Unlisted(standing) = answer.value.answer {
            let followed = match shard.follow_hides(standing).await {
                Err(refused @ StoreError::Full(_)) => {
                    let answer = self.ask_alone(shard, query, Visibility::LeavingOut).await?;
                    return match answer.value.answer {
                        ReadAnswer::Unlisted(_) => Err(refused.into()),
                        _ => Ok(answer),
                    };
                }
                followed => followed?,
            };
            let number = *known_to.get_or_insert(followed.number);
            let visibility = Visibility::HiddenUpTo(number);
            answer = self.ask_alone(shard, query, visibility).await?;
            // It may leave out fewer members than the shard's change counter implies.
            self.calls.lock().is_torn = true;
        }
        Ok(answer)
    }

    /// Asks a single query.
    async fn ask_alone(
        &self,
        shard: &LiveShard,
        query: &Arc<ShardQuery>,
        visibility: Visibility,
    ) -> Result<Read, Error> {
        let (store, queries) = (&self.engine.store, &[query]);
        let visibility = (visibility, Freshness::Current);
        let Dated { mut value, as_of } =
            standings::read(store, &shard.shard, queries, None, visibility).await?;
        let value = value.pop().ok_or_else(no_result)?;
        Ok(Dated { value, as_of })
    }
}

impl LiveShard {
    /// Asks the shard one query, together with others.
    async fn read(
        &self,
        freshness: Freshness,
        size: ReadSize,
        query: Arc<ShardQuery>,
    ) -> Result<Read, StoreError> {
        let reading = self.reading(freshness, size);
        reading.submit(query).await.ok_or_else(no_result)?
    }

    /// The change counter of the shard, and its barrier.
    pub(crate) async fn changed(
        &self,
        freshness: Freshness,
    ) -> Result<(Changed, Option<Timestamp>), StoreError> {
        let query = Arc::new(ShardQuery::changed([None; 2]));
        let seen = self.read(freshness, ReadSize::Small, query).await?.value;
        Ok((seen.changed, seen.barrier))
    }
}

fn no_result() -> StoreError {
    StoreError::Unexpected("there is no result for a read".into())
}
