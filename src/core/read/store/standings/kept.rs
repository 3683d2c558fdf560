//! Answers that are given again for as long as nothing has changed. Each call asks that first (`scripts/core/read/read.lua`),
//! so they are never stale.
//!
//! An answer comes with the change counter of the shard (`scripts/lib/changed.lua`), its barrier, and how many entries its
//! standings had, since expiry changes no counter. While all of these are equal, so are entries, ranks and totals. What is
//! stored elsewhere, such as profiles and voters, is not kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::answer::{ReadAnswer, ShardAnswer};
use super::query::ShardQuery;
use crate::redis::protocol::sources;

/// About how much memory all of them take at most, in bytes: the first pages of some thousand boards.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// About how many these are: a hint for the size of the table.
const ANSWERS: usize = 4_096;

/// The answers that an instance has kept.
#[derive(Debug)]
pub(crate) struct KeptAnswers {
    answers: Cache<(u64, Arc<ShardQuery>), ShardAnswer, Bytes>,
    owners: AtomicU64,
}

/// Those to queries of one shard, under one definition.
#[derive(Debug)]
pub(crate) struct KeptOfShard {
    all: Arc<KeptAnswers>,
    owner: u64,
    /// Whether a page as it is sent can be given again with its entries.
    keeps_rendered: bool,
    /// Whether Redis had nothing to read in the last call.
    held: AtomicBool,
}

/// About how many bytes an answer takes, with the page that is rendered of it.
#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<(u64, Arc<ShardQuery>), ShardAnswer> for Bytes {
    fn weight(&self, _: &(u64, Arc<ShardQuery>), answer: &ShardAnswer) -> u64 {
        answer.answer.bytes()
    }
}

/// What may have the answers to the queries of a call without Redis, in their order.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// Answers that were kept; empty if none was.
    pub(super) found: Vec<Option<ShardAnswer>>,
    /// Whether mirrors have the answer; empty if there are none.
    pub(super) covers: Vec<bool>,
}

impl Copied {
    pub(super) fn is_covered(&self, index: usize) -> bool {
        self.covers.get(index) == Some(&true)
    }

    pub(super) fn kept(&self, index: usize) -> Option<&ShardAnswer> {
        self.found.get(index)?.as_ref()
    }

    /// Leaves out kept answers to what mirrors answer.
    pub(super) fn prefer_mirrors(&mut self) {
        for (found, covers) in self.found.iter_mut().zip(&self.covers) {
            found.take_if(|_| *covers);
        }
    }

    pub(super) fn forget_all(&mut self) {
        *self = Self::default();
    }

    /// As read.lua takes it.
    pub(super) fn source(&self, index: usize) -> u8 {
        match self.kept(index) {
            _ if self.is_covered(index) => sources::MIRRORED,
            Some(_) => sources::KEPT,
            None => sources::READ,
        }
    }
}

impl Default for KeptAnswers {
    fn default() -> Self {
        Self {
            answers: Cache::with_weighter(ANSWERS, BYTES_MAX, Bytes),
            owners: AtomicU64::new(0),
        }
    }
}

impl KeptAnswers {
    /// A place for the answers of a shard. `keeps_rendered`: its pages show nothing but what the shard stores.
    pub(crate) fn of_shard(self: &Arc<Self>, keeps_rendered: bool) -> KeptOfShard {
        KeptOfShard {
            all: Arc::clone(self),
            owner: self.owners.fetch_add(1, Ordering::Relaxed),
            keeps_rendered,
            held: AtomicBool::new(false),
        }
    }
}

impl KeptOfShard {
    /// The kept answers to these queries that may still hold: the newest ones, which were given with one change counter and
    /// barrier.
    pub(super) fn find(&self, queries: &[&Arc<ShardQuery>]) -> Vec<Option<ShardAnswer>> {
        let find =
            |query: &&Arc<ShardQuery>| self.all.answers.get(&(self.owner, Arc::clone(query)));
        let mut found: Vec<_> = queries.iter().map(find).collect();
        let newest = found.iter().flatten();
        let Some(newest) = newest.max_by_key(|kept| (kept.changed.number, kept.barrier)) else {
            return Vec::new();
        };
        let moment = (newest.changed, newest.barrier);
        for place in &mut found {
            place.take_if(|kept| (kept.changed, kept.barrier) != moment);
            if let Some(ReadAnswer::Page(page)) = place.as_mut().map(|kept| &mut kept.answer) {
                *page = Arc::new(page.again(self.keeps_rendered));
            }
        }
        found
    }

    /// Whether all answers of the last call had been kept.
    pub(crate) fn held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Keeps answers of Redis.
    pub(super) fn put(
        &self,
        queries: &[&Arc<ShardQuery>],
        answers: &[ShardAnswer],
        copied: &Copied,
    ) {
        let mut held = true;
        for (index, (query, answer)) in queries.iter().zip(answers).enumerate() {
            if copied.is_covered(index) {
                continue;
            }
            let kept = copied.kept(index);
            if answer.may_be_kept() && kept.is_none_or(|kept| !kept.is_of_same(answer)) {
                let key = (self.owner, Arc::clone(query));
                self.all.answers.insert(key, answer.clone());
                held = false;
            }
        }
        self.held.store(held, Ordering::Relaxed);
    }
}
