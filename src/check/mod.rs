//! `standings check`: compares data that is stored in more than one way, next to services that write, and repairs what follows
//! from other data.
//!
//! What is compared:
//!
//! - the keys of each standing with each other (`check.lua`);
//! - derived standings that are complete with their terms, and periods with carryover with what was added and carried over
//!   (`check_sums.lua`);
//! - the keys of each queue with its entries (`check_queue.lua`), and queues with their index;
//! - each key that exists with its registry, unless its kind is never registered (`redis/kinds.rs`). A key that nothing needs,
//!   and that is not marked to be unlinked, is left over;
//! - definitions with the list of boards, and with what shards know of them.
//!
//! The counts of quotas, voters and events are stored once, so there is nothing to compare them with.
//!
//! It must not take a change for a contradiction:
//!
//! - Data in one slot is compared member by member, by one script for some of the members. A member that the cursor misses has
//!   just been written. The scripts first check that the shard is still in use: other shards may be about to be unlinked.
//! - The keys of a queue are compared by one script, unless thousands of events wait. A queue that the index lacks is looked at
//!   twice.
//! - A total can only be compared with all scores of its standing. For a small standing that is one script. For a large one
//!   Redis tells whether the standing was left alone meanwhile (`WATCH`, on a connection of its own); otherwise nothing is
//!   reported.
//! - What changes in two steps (the list of boards, a deletion, a move) is looked at twice. A standing is left out if it, or
//!   one of its terms, is about to expire.
//!
//! A repair is made by the script that finds the fault, in the same step, and only if the shard is not being copied elsewhere.
//! A derived standing that is wrong is dropped from its state, so that it is built again.

mod board;
mod names;
mod report;
mod standing;
pub mod store;

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use futures::FutureExt;

pub use self::report::{Finding, Place, Report};
use self::store::Manner;
use crate::core::{Error, Service};
use crate::domain::board::Board;
use crate::domain::clock::Clock;
use crate::domain::ids::BoardId;
use crate::operations::warnings;
use crate::redis::{Store, StoreError, keys};

/// The time between two looks at what is no single step for the service: within it, such a thing is done.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(3);
/// What all boards share, and its types.
const SHARED: [(&str, &str); 21] = [
    (keys::LIVE, "zset"),
    (keys::CHANGES, "zset"),
    (keys::MOVING, "set"),
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

/// Looks for contradictions in one board, or all, and with `mends` mends what follows from the rest. What should be
/// looked after in Redis itself is among the notes.
pub async fn run(service: &Service, only: Option<&BoardId>, mends: bool) -> Result<Report, Error> {
    let mut check = Check {
        store: &service.engine.store,
        clock: &service.engine.clock,
        mends,
        report: Report::default(),
    };
    for warning in warnings::store::current(&service.engine.store).await {
        check.report.note(warning);
    }
    check.run(only).boxed().await?;
    Ok(check.report)
}

/// A check under way.
struct Check<'a> {
    store: &'a Store,
    clock: &'a Clock,
    mends: bool,
    report: Report,
}

impl Check<'_> {
    async fn run(&mut self, only: Option<&BoardId>) -> Result<(), Error> {
        let sound = self.check_shared().await?;
        if !sound.contains(keys::UNNEEDED) || !sound.contains(keys::LIVE) {
            self.report
                .note("what all boards share is damaged: their keys are not checked".to_owned());
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
            && store::load_head(self.store, id.as_str()).await?.found == "none"
            && suspects.is_empty()
            && (!is_sound || store::live_score(self.store, id).await?.is_none())
        {
            return Err(Error::BoardNotFound(id.clone()));
        }
        for id in &ids {
            self.check_board(id).await?;
        }
        if is_sound {
            self.check_suspects(suspects).await?;
            self.check_list(&ids).await?;
        }
        Ok(())
    }

    /// The keys that all boards share, by their types; returns those that are sound.
    async fn check_shared(&mut self) -> Result<HashSet<&'static str>, StoreError> {
        let mut sound = HashSet::new();
        for (key, expected) in SHARED {
            let found = store::type_of(self.store, key).await?;
            if self.is_of_type(Place::default(), key, &found, expected) {
                sound.insert(key);
            }
        }
        Ok(sound)
    }

    /// Whether a key has the type that it should have, or is not there. Tells it if not.
    fn is_of_type(&mut self, place: Place, key: &str, found: &str, expected: &str) -> bool {
        let is_sound = found == expected || found == "none";
        if !is_sound {
            let detail = format!("{key} is a {found}, where a {expected} should be");
            self.report.tell(place, "type", false, detail);
        }
        is_sound
    }

    /// Tells what is damaged so that a script fails on it. It ends nothing but the look at that.
    fn unless_damaged<T>(
        &mut self,
        place: impl FnOnce() -> Place,
        result: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Unexpected(detail)) => {
                self.report.tell(place(), "damaged", false, detail);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn manner(&self, board: &Board) -> Manner {
        Manner {
            now: self.clock.now(),
            mends: self.mends && board.placement.next.is_none(),
        }
    }
}
