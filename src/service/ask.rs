//! Reading standings of a board: queries that come in together share one call, and equal ones one answer.
//!
//! A call begins after all of its queries have come in. So a client that has been told of an event reads it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::OnceCell;

use super::line::Work;
use super::voters::Voters;
use super::{Error, LiveShard, Service};
use crate::domain::board::Board;
use crate::domain::series::Series;
use crate::store::standings::{Amounts, Answer, Neighbourhood, Page, Query, Slice, Spread, Subset};
use crate::store::{Store, StoreError, Versioned};

/// For how long the queries of one call may keep Redis busy, in microseconds.
const CALL_COST_US_MAX: usize = 1_000;

/// An answer, shared by all who asked the same.
#[derive(Clone, Debug)]
pub enum Found {
    /// A part of a standing.
    Page(Arc<SharedPage>),
    /// A member and its neighbours; `None` where it is not listed.
    Member(Option<Arc<Neighbourhood>>),
    /// Some members.
    Subset(Arc<Subset>),
    /// What a standing amounts to.
    Amounts(Amounts),
    /// Some entries of a shard, evenly spread.
    Spread(Spread),
    /// Some entries of a shard around a mark.
    Slice(Arc<Slice>),
    /// How many entries of a shard are ahead of marks.
    Places(Arc<[u64]>),
    /// The derived standing whose newest period begins here, in milliseconds, has to be completed.
    Incomplete(i64),
}

/// A page, and what becomes of it outside, which is made once.
#[derive(Debug, Default)]
pub struct SharedPage {
    /// The page.
    pub page: Page,
    /// The voters of its entries and of its `me`.
    pub voters: OnceCell<Voters>,
    /// The document that it is sent as, and its tag.
    pub rendered: OnceLock<Rendered>,
}

impl SharedPage {
    /// A page of which nothing has been made yet.
    pub fn new(page: Page) -> Self {
        Self {
            page,
            ..Self::default()
        }
    }
}

/// A document as it is sent.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// Its bytes.
    pub body: Bytes,
    /// Tells it from others.
    pub tag: String,
}

impl From<Answer> for Found {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Page(page) => Self::Page(Arc::new(SharedPage::new(page))),
            Answer::Member(member) => Self::Member(member.map(Arc::new)),
            Answer::Subset(subset) => Self::Subset(Arc::new(subset)),
            Answer::Amounts(amounts) => Self::Amounts(amounts),
            Answer::Spread(spread) => Self::Spread(spread),
            Answer::Slice(slice) => Self::Slice(Arc::new(slice)),
            Answer::Places(places) => Self::Places(places.into()),
            Answer::Incomplete(start_ms) => Self::Incomplete(start_ms),
        }
    }
}

/// The reading of one board.
#[derive(Debug)]
pub struct Reading {
    /// Where it is stored.
    pub store: Arc<Store>,
    /// The board.
    pub board: Arc<Board>,
}

/// The distinct queries of a call, and what they cost.
#[derive(Debug, Default)]
pub struct Asked {
    queries: HashSet<Query>,
    cost_us: usize,
}

impl Work for Reading {
    type Job = Query;
    type Answer = Result<Versioned<Found>, StoreError>;
    type Load = Asked;

    fn admit(&self, load: &mut Asked, query: &Query) -> bool {
        if load.queries.contains(query) {
            return true;
        }
        load.cost_us += query.cost_us();
        load.queries.insert(query.clone());
        load.cost_us <= CALL_COST_US_MAX
    }

    async fn call(&self, jobs: Vec<Query>) -> Vec<Self::Answer> {
        let mut places: HashMap<&Query, usize> = HashMap::with_capacity(jobs.len());
        let mut distinct = Vec::with_capacity(jobs.len());
        let place_of: Vec<usize> = jobs
            .iter()
            .map(|query| {
                *places.entry(query).or_insert_with(|| {
                    distinct.push(query.clone());
                    distinct.len() - 1
                })
            })
            .collect();
        match self.store.read_standings(&self.board, &distinct).await {
            Ok(Versioned::Current(answers)) => {
                let found: Vec<Found> = answers.into_iter().map(Found::from).collect();
                let of_job = |place: usize| Ok(Versioned::Current(found[place].clone()));
                place_of.into_iter().map(of_job).collect()
            }
            Ok(Versioned::Stale) => vec![Ok(Versioned::Stale); jobs.len()],
            Err(error) => vec![Err(error); jobs.len()],
        }
    }
}

impl Service {
    /// Asks a shard for something, and takes the answer, or does what it takes to have one at the next attempt.
    pub(super) async fn ask<T>(
        &self,
        shard: &LiveShard,
        series: Series,
        query: Query,
        take: impl FnOnce(Found) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let answer = shard.reading.submit(query).await;
        let fault = || StoreError::Unexpected("a read without its answer".into());
        match answer.ok_or_else(fault)?? {
            Versioned::Current(Found::Incomplete(start_ms)) => {
                self.complete_from(&shard.board, series, start_ms).await?;
            }
            Versioned::Current(found) => {
                return take(found).ok_or_else(fault).map(Some).map_err(Error::from);
            }
            Versioned::Stale => self.reload(&shard.board.id).await?,
        }
        Ok(None)
    }
}
