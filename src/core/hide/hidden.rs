//! Updates hidden lists when a read or an event needs them, and widens lists that are kept short.
//!
//! A hide writes one line into the journal of its shard. The hidden list of a standing (`scripts/lib/hidden.lua`) follows
//! the journal when a read finds it outdated. Simultaneous readers share the calls.
//!
//! A list that is kept short (`keep_top`) has a spare for hidden members. A call that finds half of it used up notes that
//! in Redis, and a job finds more members for the list. A read that finds too few of them does so itself.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use super::store::hidden::{self, Followed};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error, LiveShard};
use crate::domain::ids::BoardId;
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::redis::{Store, StoreError, keys};
use crate::runtime::batcher::{Work, admit};

/// How many lists one call updates.
const LISTS_MAX: usize = 16;
/// About how long a list keeps Redis busy, in microseconds.
const LIST_COST_US: usize = 60;

/// The hidden lists of one shard.
#[derive(Debug)]
pub struct Listing {
    pub store: Arc<Store>,
    pub shard: Shard,
}

impl Work for Listing {
    type Item = Standing;
    type Answer = Result<Followed, StoreError>;
    type Load = usize;

    fn admit(&self, load: &mut usize, _standing: &Standing) -> bool {
        admit(load, 1, LISTS_MAX)
    }

    fn cost_us(load: &usize) -> usize {
        load * LIST_COST_US
    }

    /// Items for the same standing share the work, so one call at a time is cheapest.
    fn makes_way(&self) -> bool {
        true
    }

    async fn call(&self, standings: Vec<Standing>, _: usize) -> Vec<Self::Answer> {
        let mut followed: HashMap<Standing, Self::Answer> = HashMap::new();
        let mut answers = Vec::with_capacity(standings.len());
        for standing in standings {
            if let Entry::Vacant(unknown) = followed.entry(standing) {
                unknown.insert(self.follow(&standing).await);
            }
            answers.push(followed[&standing].clone());
        }
        answers
    }
}

impl Listing {
    /// Follows the journal to its end, in steps. The journal has a bounded length.
    async fn follow(&self, standing: &Standing) -> Result<Followed, StoreError> {
        loop {
            let followed = hidden::follow(&self.store, &self.shard, standing).await?;
            let Some(followed) = followed else { continue };
            if followed.is_narrow {
                match hidden::mark_narrow(&self.store, &self.shard, standing).await {
                    // Then a read that finds too few members widens the list itself.
                    Err(StoreError::Full(_)) => {}
                    marked => marked?,
                }
            }
            return Ok(followed);
        }
    }
}

impl LiveShard {
    /// Updates the hidden list of a standing. Returns how far it follows the hides.
    pub(crate) async fn follow_hides(&self, standing: Standing) -> Result<Followed, StoreError> {
        let fault = || StoreError::Unexpected("there is no result for a hidden list".into());
        self.listing.submit(standing).await.ok_or_else(fault)?
    }
}

impl Engine {
    /// Finds more members for a list that is kept short, until it has enough. A changed definition is read again.
    pub(crate) async fn widen(&self, shard: &Shard, standing: &Standing) -> Result<(), Error> {
        let left = || {
            let id = &shard.id;
            format!("board {id} has many hidden members, and its list is still being extended")
        };
        let step = async || {
            let is_wide = self.widen_more(shard, standing).await?;
            Ok(Progress::more_if(is_wide == Some(false)))
        };
        self.take_steps(self.steps_wait_max(), step, left).await
    }

    /// Takes one bounded step of this. Returns whether the list has enough; `None`: the definition was read again.
    async fn widen_more(&self, shard: &Shard, standing: &Standing) -> Result<Option<bool>, Error> {
        let widened = hidden::widen(&self.store, shard, standing).await;
        self.unless_again(&shard.id, widened).await
    }
}

/// The job: widens lists that are kept short before too few of their members are visible.
#[derive(Clone, Copy, Debug)]
pub struct HiddenLists;

impl Job for HiddenLists {
    /// The name of a list's sorted set, and its board.
    type Item = (String, BoardId);
    const KIND: JobKind = JobKind::HiddenLists;
    const PAUSE: Duration = Duration::from_millis(4);

    fn subject(&self, (name, board): &Self::Item) -> Subject {
        Subject::part(board, name.clone())
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Self::Item>, Error> {
        Ok(hidden::narrow_lists(&engine.store).await?)
    }

    async fn step(
        &self,
        engine: &Engine,
        (name, board): &mut Self::Item,
    ) -> Result<Progress, Error> {
        let live = engine.find_board(board).await?;
        let found = live.iter().flat_map(|live| &live.shards).find_map(|shard| {
            let standing = keys::standing_of(&shard.shard, name)?;
            Some((shard.shard.clone(), standing))
        });
        // The board was deleted, or has moved and its new lists get notes of their own.
        let Some((shard, standing)) = found else {
            hidden::forget_narrow(&engine.store, name).await?;
            return Ok(Progress::Done);
        };
        let mut is_wide = engine.widen_more(&shard, &standing).await?;
        if is_wide == Some(true) {
            hidden::forget_narrow(&engine.store, name).await?;
            // It may have been noted again in between.
            is_wide = engine.widen_more(&shard, &standing).await?;
            if is_wide == Some(false) {
                hidden::mark_narrow(&engine.store, &shard, &standing).await?;
            }
        }
        Ok(Progress::more_if(is_wide == Some(false)))
    }
}
