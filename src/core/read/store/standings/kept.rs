//! Answers that are given again for as long as nothing has changed. Each call asks that first (`scripts/core/read/read.lua`),
//! so they are never stale.
//!
//! An answer comes with the change counter of the shard (`scripts/lib/changed.lua`), its barrier, and how many entries its
//! standings had, since expiry changes no counter. While all of these are equal, so are entries, ranks and totals. What is
//! stored elsewhere, such as profiles and voters, is not kept; nor are answers about members, which differ from reader to reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::answer::{ReadAnswer, ShardAnswer};
use super::query::{Question, ShardQuery};

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
        let find = |query: &&Arc<ShardQuery>| {
            let get = || self.all.answers.get(&(self.owner, Arc::clone(query)));
            query.question.repeats().then(get).flatten()
        };
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

    /// Keeps answers, unless they are the `found` ones.
    pub(super) fn put(
        &self,
        queries: &[&Arc<ShardQuery>],
        answers: &[ShardAnswer],
        found: &[Option<ShardAnswer>],
    ) {
        let mut held = true;
        for (index, (query, answer)) in queries.iter().zip(answers).enumerate() {
            let kept = found.get(index).and_then(Option::as_ref);
            if kept.is_some_and(|kept| kept.is_of_same(answer)) {
                continue;
            }
            if query.question.repeats() && answer.is_complete() {
                let key = (self.owner, Arc::clone(query));
                self.all.answers.insert(key, answer.clone());
            }
            held &= query.question == Question::Changed;
        }
        self.held.store(held, Ordering::Relaxed);
    }
}
