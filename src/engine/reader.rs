//! Reads standings of a board. Queries that come in together share one call, and equal queries share one answer.
//!
//! A call begins after all of its queries have come in. So a client that has the answer to its event reads the event, unless
//! it accepts an older answer by a replica.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::batcher::{SMALL_COST_US_MAX, Work};
use super::past::{Asker, Turn};
use super::{Engine, Error, LiveBoard, LiveShard, Outdated};
use crate::domain::edition::{Changed, ShardSeen};
use crate::domain::series::{Series, Standing};
use crate::domain::shard::Shard;
use crate::domain::state::Seen;
use crate::domain::time::Timestamp;
use crate::store::standings::{Answer, Query, ShardAnswer, Sight};
use crate::store::{Dated, Freshness, Store, StoreError};

/// For how long the queries of one call may keep Redis busy, in microseconds.
const CALL_COST_US_MAX: usize = 1_000;

/// How much a request reads in all. Each size has batchers of its own, so that small requests pass large ones.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Size {
    /// A page, at the most.
    #[default]
    Small,
    /// More than that.
    Large,
}

/// The reading of one shard.
#[derive(Debug)]
pub struct Reading {
    /// Where it is stored.
    pub store: Arc<Store>,
    /// The shard.
    pub shard: Shard,
    /// How fresh the answers have to be.
    pub freshness: Freshness,
}

/// What is read for one query.
type Read = Dated<ShardAnswer>;

/// The distinct queries of a call, and what they cost.
#[derive(Debug, Default)]
pub struct Asked {
    queries: HashSet<Query>,
    cost_us: usize,
}

impl Work for Reading {
    type Job = Query;
    type Answer = Result<Read, StoreError>;
    type Load = Asked;

    fn admit(&self, load: &mut Asked, query: &Query) -> bool {
        if load.queries.contains(query) {
            return true;
        }
        load.cost_us += query.cost_us();
        load.queries.insert(query.clone());
        load.cost_us <= CALL_COST_US_MAX
    }

    fn is_small(load: &Asked) -> bool {
        load.cost_us <= SMALL_COST_US_MAX
    }

    async fn call(&self, jobs: Vec<Query>) -> Vec<Self::Answer> {
        let mut indexes: HashMap<&Query, usize> = HashMap::with_capacity(jobs.len());
        let mut distinct = Vec::with_capacity(jobs.len());
        let index_of: Vec<usize> = jobs
            .iter()
            .map(|query| {
                *indexes.entry(query).or_insert_with(|| {
                    distinct.push(query.clone());
                    distinct.len() - 1
                })
            })
            .collect();
        let read =
            self.store
                .read_standings(&self.shard, &distinct, Sight::Visible, self.freshness);
        match read.await {
            Ok(Dated { value, as_of }) => {
                let of_job = |index: usize| {
                    let value = value[index].clone();
                    Ok(Dated { value, as_of })
                };
                index_of.into_iter().map(of_job).collect()
            }
            Err(error) => vec![Err(error); jobs.len()],
        }
    }
}

/// Reads a board for one request.
pub(crate) struct Reader<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) live: &'a LiveBoard,
    freshness: Mutex<Freshness>,
    size: Size,
    has_data: bool,
    sight: Sight,
    asker: Option<Asker>,
    /// Once standings of the past had to be built.
    turn: OnceCell<Turn>,
    calls: Mutex<Calls>,
}

/// What the calls of a request have in common.
#[derive(Clone, Debug, Default)]
struct Calls {
    /// How often each shard had changed, by the shards' indexes.
    changed: BTreeMap<u16, Changed>,
    /// Which standings had entries there.
    with_entries: HashSet<(u16, Standing)>,
    /// Whether a shard has changed between them.
    is_torn: bool,
    /// The instant of the oldest answer that a replica gave.
    as_of: Option<Instant>,
    /// The least barrier that they saw; `None`: one of them saw none.
    barrier: Option<Timestamp>,
}

impl Calls {
    fn note(&mut self, shard: &Shard, as_of: Option<Instant>, seen: &ShardAnswer) {
        let barrier = seen.barrier;
        self.barrier = if self.is_any() {
            self.barrier.min(barrier)
        } else {
            barrier
        };
        self.as_of = self.as_of.into_iter().chain(as_of).min();
        let index = shard.shard_id.index;
        let changed = self.changed.entry(index).or_insert(seen.changed);
        self.is_torn |= *changed != seen.changed;
        let with_entries = seen.has_entries.iter().flatten().filter(|(_, has)| *has);
        let with_entries = with_entries.map(|(standing, _)| (index, *standing));
        self.with_entries.extend(with_entries);
    }

    /// Whether there was one.
    fn is_any(&self) -> bool {
        !self.changed.is_empty()
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(engine: &'a Engine, live: &'a LiveBoard, freshness: Freshness) -> Self {
        Self {
            engine,
            live,
            freshness: Mutex::new(freshness),
            size: Size::default(),
            has_data: false,
            sight: Sight::default(),
            asker: None,
            turn: OnceCell::new(),
            calls: Mutex::default(),
        }
    }

    /// The same for a request of this asker: what is built for it of the past is bounded.
    pub(crate) fn asked_by(self, asker: Option<Asker>) -> Self {
        Self { asker, ..self }
    }

    /// The same for a request that reads so much.
    pub(crate) fn of_size(self, size: Size) -> Self {
        Self { size, ..self }
    }

    /// The same that also reads the data of entries, if that is wanted and the board keeps data.
    pub(crate) fn with_data(self, is_wanted: bool) -> Self {
        Self {
            has_data: is_wanted && self.live.board.definition.entry_data,
            ..self
        }
    }

    /// The same for a request that sees the entries of these members.
    pub(crate) fn with_sight(self, sight: Sight) -> Self {
        Self { sight, ..self }
    }

    /// Whose entries it sees.
    pub(crate) fn sight(&self) -> Sight {
        self.sight
    }

    /// All that was acknowledged by then is in what was read; `None`: all that was before the request.
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
        let seen = calls.changed.iter().map(|(index, changed)| {
            let has_entries = |standing| calls.with_entries.contains(&(*index, standing));
            let seen = ShardSeen {
                changed: *changed,
                has_entries: standings.map(|standing| standing.is_some_and(has_entries)),
            };
            (*index, seen)
        });
        (seen.collect(), calls.is_torn)
    }

    /// From now on answers have to be current. What was read before is forgotten.
    pub(crate) fn insist(&self) {
        *self.freshness.lock() = Freshness::Current;
        *self.calls.lock() = Calls::default();
    }

    /// Asks a shard one query.
    ///
    /// # Errors
    ///
    /// [`Error::Again`] if the board in memory is stale; and if a standing was not complete, or too short: then it is complete now.
    pub(crate) async fn ask<T: TryFrom<Answer>>(
        &self,
        shard: &LiveShard,
        series: Series,
        query: Query,
    ) -> Result<T, Error> {
        let query = if self.has_data {
            query.with_data()
        } else {
            query
        };
        let fault = || StoreError::Unexpected("a read without its answer".into());
        let Dated { value: seen, as_of } = match self.sight {
            Sight::Visible => {
                let freshness = *self.freshness.lock();
                let answer = shard.reading(freshness, self.size).submit(query).await;
                let answer = answer.ok_or_else(fault)??;
                // Whether a hidden list is behind that the query needs.
                if matches!(answer.value.answer, Answer::Unlisted(_)) {
                    self.without_hidden(shard, answer).boxed().await?
                } else {
                    answer
                }
            }
            sight => self.ask_alone(shard, query, sight).await?,
        };
        match seen.answer {
            Answer::Incomplete(start_ms) => {
                self.complete(&shard.shard, series, start_ms)
                    .boxed()
                    .await?;
            }
            Answer::Erasing => self.engine.forget_all(&shard.shard.id).await?,
            Answer::Short(standing) => {
                self.engine.widen(&shard.shard, &standing).await?;
            }
            _ => {
                self.calls.lock().note(&shard.shard, as_of, &seen);
                return Ok(T::try_from(seen.answer).map_err(|_| fault())?);
            }
        }
        Err(Error::Again(Outdated::Read))
    }

    async fn complete(&self, shard: &Shard, series: Series, start_ms: i64) -> Result<(), Error> {
        let asker = self.asker.as_ref();
        let asker = asker.filter(|_| self.engine.is_past(shard, series, start_ms));
        let turn = match asker {
            Some(asker) => {
                let turn = || self.engine.turn_to_build(asker);
                Some(self.turn.get_or_try_init(turn).await?)
            }
            None => None,
        };
        self.engine
            .complete_from(shard, series, start_ms, turn)
            .await
    }

    /// An answer as it is, unless a hidden list was behind: then this brings the list up to date and asks again. Later hides
    /// do not matter to that question, so it has to be asked once for each standing of the query.
    async fn without_hidden(&self, shard: &LiveShard, mut answer: Read) -> Result<Read, Error> {
        let mut known_to = None;
        while let Answer::Unlisted(unlisted) = answer.value.answer {
            let (standing, query) = *unlisted;
            let followed = shard.follow_hides(standing).await?;
            let number = *known_to.get_or_insert(followed.number);
            let sight = Sight::HiddenUpTo(number);
            answer = self.ask_alone(shard, query, sight).await?;
            // It may leave out less than the shard says that it has changed.
            self.calls.lock().is_torn = true;
        }
        Ok(answer)
    }

    /// Asks one query by itself.
    async fn ask_alone(
        &self,
        shard: &LiveShard,
        query: Query,
        sight: Sight,
    ) -> Result<Read, Error> {
        let (store, queries) = (&self.engine.store, [query]);
        let read = store.read_standings(&shard.shard, &queries, sight, Freshness::Current);
        let Dated { mut value, as_of } = read.await?;
        let fault = || StoreError::Unexpected("a read without its answer".into());
        let value = value.pop().ok_or_else(fault)?;
        Ok(Dated { value, as_of })
    }
}

impl LiveShard {
    /// How often the shard has changed, and its barrier.
    pub(crate) async fn changed(
        &self,
        freshness: Freshness,
    ) -> Result<(Changed, Option<Timestamp>), StoreError> {
        let reading = self.reading(freshness, Size::Small);
        let fault = || StoreError::Unexpected("a read without its answer".into());
        let answer = reading.submit(Query::Changed([None; 2])).await;
        let seen = answer.ok_or_else(fault)??.value;
        Ok((seen.changed, seen.barrier))
    }
}
