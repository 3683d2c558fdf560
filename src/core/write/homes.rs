//! The shards that count the quotas of a board, if they may be others than its members' shards.

use std::sync::Arc;

use super::applier::share_out;
use super::store::reservations::{self, Reserved, Settlement, Wanted};
use crate::domain::board::Board;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::{Store, StoreError};
use crate::runtime::batcher::{Batcher, Work, admit};

/// The maximum number of uses of quotas that one call reserves, and about how long each keeps Redis busy, in microseconds.
pub(super) const CALL_USES_MAX: usize = 100;
const USE_COST_US: usize = 10;
/// The maximum number of reservations that one call settles, and about how long each keeps Redis busy, in microseconds.
pub(super) const CALL_SETTLED_MAX: usize = 200;
const SETTLED_COST_US: usize = 5;

/// Makes reservations in one shard.
#[derive(Debug)]
pub struct Reserver {
    store: Arc<Store>,
    home: Shard,
}

/// What events of one request would take, and when they were planned.
#[derive(Debug)]
pub struct ReserveRequest {
    pub(super) wanted: Vec<Wanted>,
    pub(super) planned_at: Timestamp,
}

impl Work for Reserver {
    type Item = ReserveRequest;
    type Answer = Result<Vec<Reserved>, StoreError>;
    type Load = usize;

    fn admit(&self, load: &mut usize, request: &ReserveRequest) -> bool {
        let uses = request.wanted.iter().map(|wanted| wanted.uses.len());
        admit(load, uses.sum(), CALL_USES_MAX)
    }

    fn cost_us(load: &usize) -> usize {
        load * USE_COST_US
    }

    fn call(
        &self,
        requests: Vec<ReserveRequest>,
        _: usize,
    ) -> impl Future<Output = Vec<Self::Answer>> + Send {
        let now = requests
            .iter()
            .map(|request| request.planned_at)
            .max()
            .unwrap_or(Timestamp::from_ms_clamped(0));
        let requests: Vec<_> = requests.into_iter().map(|request| request.wanted).collect();
        let lengths: Vec<usize> = requests.iter().map(Vec::len).collect();
        let reply = reservations::reserve(&self.store, &self.home, &requests, now);
        async move { share_out(reply.await, &lengths) }
    }
}

/// Settles reservations of one shard.
#[derive(Debug)]
pub struct Settler {
    store: Arc<Store>,
    home: Shard,
}

/// A shard in memory that counts quotas.
#[derive(Debug)]
pub struct LiveHome {
    pub home: Shard,
    pub(super) reserver: Arc<Batcher<Reserver>>,
    pub(super) settler: Arc<Batcher<Settler>>,
}

impl LiveHome {
    /// The homes of a board, in order; none where the members' shards count the quotas.
    pub(crate) fn of(board: &Arc<Board>, store: &Arc<Store>) -> Vec<Self> {
        if !board.reserves() {
            return Vec::new();
        }
        board
            .homes()
            .into_iter()
            .map(|home| Self {
                reserver: Batcher::new(Reserver {
                    store: Arc::clone(store),
                    home: home.clone(),
                }),
                settler: Batcher::new(Settler {
                    store: Arc::clone(store),
                    home: home.clone(),
                }),
                home,
            })
            .collect()
    }
}

impl Work for Settler {
    type Item = Vec<Settlement>;
    type Answer = Result<(), StoreError>;
    type Load = usize;

    fn admit(&self, load: &mut usize, settlements: &Vec<Settlement>) -> bool {
        admit(load, settlements.len(), CALL_SETTLED_MAX)
    }

    fn cost_us(load: &usize) -> usize {
        load * SETTLED_COST_US
    }

    fn call(
        &self,
        items: Vec<Vec<Settlement>>,
        _: usize,
    ) -> impl Future<Output = Vec<Self::Answer>> + Send {
        let count = items.len();
        let settled = reservations::settle(&self.store, &self.home, &items.concat());
        async move { vec![settled.await; count] }
    }
}
