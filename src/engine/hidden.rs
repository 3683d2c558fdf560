//! Makes hidden lists follow the hides, when a read or an event needs them.
//!
//! A hide writes one line into the journal of its shard. The hidden list of a standing (`scripts/lib/hidden.lua`) follows the
//! journal when a read finds it behind. Those who find that at the same time share the calls.

use std::collections::HashMap;
use std::sync::Arc;

use super::batcher::Work;
use super::{Engine, Error, LiveShard};
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::store::{Store, StoreError, Versioned};

/// How many lists one round brings up to date.
const LISTS_MAX: usize = 16;

/// The hidden lists of one shard.
#[derive(Debug)]
pub struct Listing {
    /// Redis.
    pub store: Arc<Store>,
    /// The shard.
    pub shard: Shard,
}

impl Work for Listing {
    type Job = Standing;
    /// The number of the hide that the list follows up to.
    type Answer = Result<Versioned<u64>, StoreError>;
    type Load = usize;

    fn admit(&self, load: &mut usize, _standing: &Standing) -> bool {
        *load += 1;
        *load <= LISTS_MAX
    }

    fn is_small(load: &usize) -> bool {
        *load == 1
    }

    async fn call(&self, standings: Vec<Standing>) -> Vec<Self::Answer> {
        let mut followed: HashMap<Standing, Self::Answer> = HashMap::new();
        let mut answers = Vec::with_capacity(standings.len());
        for standing in standings {
            if !followed.contains_key(&standing) {
                followed.insert(standing, self.follow(&standing).await);
            }
            answers.push(followed[&standing].clone());
        }
        answers
    }
}

impl Listing {
    /// The journal has a bounded length, so that the steps end.
    async fn follow(&self, standing: &Standing) -> Result<Versioned<u64>, StoreError> {
        loop {
            match self.store.follow_hides(&self.shard, standing).await? {
                Versioned::Current(Some(number)) => return Ok(Versioned::Current(number)),
                Versioned::Current(None) => {}
                Versioned::Stale => return Ok(Versioned::Stale),
            }
        }
    }
}

impl Engine {
    /// Brings the hidden list of a standing up to date. Returns the number of the hide that it follows up to; `None` if the
    /// definition has changed: then it was read again.
    pub(crate) async fn follow_hides(
        &self,
        shard: &LiveShard,
        standing: Standing,
    ) -> Result<Option<u64>, Error> {
        let fault = || StoreError::Unexpected("a hidden list without its answer".into());
        let followed = shard.listing.submit(standing).await;
        match followed.ok_or_else(fault)?? {
            Versioned::Current(number) => Ok(Some(number)),
            Versioned::Stale => {
                self.reload(&shard.shard.id).await?;
                Ok(None)
            }
        }
    }
}
