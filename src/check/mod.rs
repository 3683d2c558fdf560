//! `standings check`: compares data that is stored redundantly, while services go on writing, and repairs what can be
//! derived from other data.
//!
//! What is compared:
//!
//! - the keys of each standing with each other (`check.lua`);
//! - complete derived standings with their terms, and periods with carryover with what was added and carried over
//!   (`check_sums.lua`);
//! - the keys that say who is hidden, with each other (`check_hides.lua`); in doubt a member is hidden;
//! - the keys of each queue with its entries (`check_queue.lua`), and queues with their index;
//! - each existing key with its registry, unless its kind is never registered (`redis/kinds.rs`). A key that nothing needs,
//!   and that is not marked to be unlinked, is left over;
//! - definitions with the list of boards, and with the heads of shards.
//!
//! The counts of quotas, voters and events are stored once, so there is nothing to compare them with.
//!
//! A change in progress must not be mistaken for a contradiction:
//!
//! - Data in one slot is compared member by member; each script call covers some members. A member that the cursor misses
//!   has just been written. The scripts first check that the shard is still in use: otherwise it may be about to be
//!   unlinked.
//! - The keys of a queue are compared by one script call, unless thousands of events wait. A queue that the index lacks is
//!   checked twice.
//! - A total can only be compared with all scores of its standing. For a small standing that is one script call. For a
//!   large one Redis reports whether the standing was unchanged meanwhile (`WATCH`, on a separate connection); otherwise
//!   nothing is reported.
//! - What changes in two steps (the list of boards, a deletion, a move) is checked twice. A standing is skipped if it, or
//!   one of its terms, is about to expire.
//!
//! A repair is made by the script that finds the fault, in the same step, and only if the shard is not being copied
//! elsewhere. It never removes data that can be restored from other data:
//!
//! - If two places differ, neither is changed unless a third one shows which is right.
//! - What is derived (derived standings, distinct scores, totals, hidden lists) is only made again if all that it is
//!   derived from is sound. A wrong derived standing is dropped from its state, so that it is rebuilt.
//! - Data that no definition needs is unlinked if there is proof that its board was deleted (the field `deleted` of the board's
//!   head), or if the definition names its sharding as a former one. Without that the definition may be what is lost.
//! - Whatever removes something is only done on demand ([`Repair::Remove`]).

mod board;
mod derived;
mod events;
mod hides;
mod list;
mod names;
mod repair;
mod report;
mod standing;
pub mod store;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use futures::FutureExt;

pub use self::repair::{Repair, RepairOutcome};
pub use self::report::{Finding, Place, Report};
use self::store::{Compared, Comparer, Comparison, Difference, Head};
use crate::core::{Engine, Error};
use crate::domain::clock::Clock;
use crate::domain::ids::BoardId;
use crate::domain::shard::Shard;
use crate::operations::warnings;
use crate::redis::{Store, StoreError, keys};

/// The time between two checks of what the service changes in two steps: these are completed within it.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(3);
/// The keys that all boards share, with their types.
const SHARED: [(&str, &str); 21] = [
    (keys::LIVE, "zset"),
    (keys::CHANGES, "zset"),
    (keys::MOVING, "hash"),
    (keys::UNNEEDED, "set"),
    (keys::SEQUENCE, "string"),
    (keys::EPOCH, "string"),
    (keys::FORMAT, "string"),
    (keys::STAMP, "string"),
    (keys::BEGUN, "zset"),
    (keys::DELETED, "set"),
    (keys::LEASES, "hash"),
    (keys::QUEUES, "zset"),
    (keys::INTAKE, "zset"),
    (keys::INTAKE_WANTED, "set"),
    (keys::STREAM_SECRET, "string"),
    (keys::API_KEYS, "hash"),
    (keys::API_KEY_USES, "hash"),
    (keys::OF_API_KEYS[0], "zset"),
    (keys::OF_API_KEYS[1], "zset"),
    (keys::OF_API_KEYS[2], "string"),
    (keys::OF_API_KEYS[3], "string"),
];

/// Looks for contradictions in one board, or all, and repairs what follows from other data. The notes also report what needs
/// attention in Redis itself.
pub async fn run(engine: &Engine, only: Option<&BoardId>, repair: Repair) -> Result<Report, Error> {
    let mut check = Check {
        store: &engine.store,
        clock: &engine.clock,
        repair,
        report: Report::default(),
        doubtful: HashSet::new(),
        damaged: BTreeMap::new(),
    };
    for warning in warnings::store::current(&engine.store).await {
        check.report.note(warning);
    }
    check.run(only).boxed().await?;
    Ok(check.report)
}

struct Check<'a> {
    store: &'a Store,
    clock: &'a Clock,
    repair: Repair,
    report: Report,
    /// The sorted sets of standings in which something is left unrepaired: nothing is derived from them.
    doubtful: HashSet<String>,
    /// Derived standings of the shard whose keys contradict each other, by their sorted sets.
    damaged: BTreeMap<String, (Place, Vec<Difference>)>,
}

impl Check<'_> {
    async fn run(&mut self, only: Option<&BoardId>) -> Result<(), Error> {
        let sound = self.check_shared().await?;
        if !sound.contains(keys::UNNEEDED) || !sound.contains(keys::LIVE) {
            self.report.note(
                "data that all boards share is damaged: the keys of boards were not checked"
                    .to_owned(),
            );
        }
        let is_sound = sound.len() == SHARED.len();
        let mut ids: BTreeSet<BoardId> = only.cloned().into_iter().collect();
        let mut suspects = Vec::new();
        if is_sound {
            let (heads, found) = self.check_names(only).await?;
            suspects = found;
            if only.is_none() {
                ids.extend(heads);
                ids.extend(store::live_ids(self.store).await?);
            }
        }
        if let Some(id) = only
            && !self.has_head(id).await?
            && suspects.is_empty()
            && (!is_sound || store::live_score(self.store, id).await?.is_none())
        {
            return Err(Error::BoardNotFound(id.clone()));
        }
        for id in &ids {
            self.check_board(id).await?;
        }
        if is_sound {
            let undefined = self.check_suspects(suspects).await?;
            ids.extend(undefined.keys().cloned());
            self.check_list(&ids, &undefined).await?;
        }
        Ok(())
    }

    /// What the key of a board or a shard has.
    async fn head(&self, tag: &str) -> Result<Head, StoreError> {
        store::load_head(self.store, &keys::head(tag)).await
    }

    /// Whether there is a definition of a board, or remains of one.
    async fn has_head(&self, id: &BoardId) -> Result<bool, StoreError> {
        let head = self.head(id.as_str()).await?;
        Ok(head.has_board || !head.is_sound())
    }

    /// Checks the types of the keys that all boards share; returns the sound ones.
    async fn check_shared(&mut self) -> Result<HashSet<&'static str>, StoreError> {
        let mut sound = HashSet::new();
        for (key, expected) in SHARED {
            let found = store::type_of(self.store, key).await?;
            if self.is_of_type(&Place::default(), key, &found, expected) {
                sound.insert(key);
            }
        }
        Ok(sound)
    }

    /// Whether a key has the expected type, or does not exist. Reports it otherwise.
    fn is_of_type(&mut self, place: &Place, key: &str, found: &str, expected: &str) -> bool {
        let is_sound = found == expected || found == "none";
        if !is_sound {
            let detail = format!("{key} is of type {found}, but must be of type {expected}");
            self.report.add(place, "type", RepairOutcome::Left, detail);
        }
        is_sound
    }

    /// Reports data so damaged that a script fails on it. Only that part of the check ends.
    fn unless_damaged<T>(
        &mut self,
        place: &Place,
        result: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Unexpected(detail)) => {
                self.report
                    .add(place, "damaged", RepairOutcome::Left, detail);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What a call has compared, if it could. Reports damaged data.
    fn compared<P>(
        &mut self,
        place: &Place,
        look: Result<Comparison<P>, StoreError>,
    ) -> Result<Option<Compared<P>>, StoreError> {
        Ok(match self.unless_damaged(place, look)? {
            Some(Comparison::Done(compared)) => Some(compared),
            Some(Comparison::Gone | Comparison::Impossible) | None => None,
        })
    }
}

impl<'a> Check<'a> {
    /// Compares data of a shard, which is not repaired while its board moves.
    fn comparer<'s>(&self, shard: &'s Shard) -> Comparer<'s>
    where
        'a: 's,
    {
        let is_moving = shard.placement.next.is_some();
        Comparer {
            store: self.store,
            shard,
            now: self.clock.now(),
            repair: if is_moving { Repair::None } else { self.repair },
        }
    }
}
