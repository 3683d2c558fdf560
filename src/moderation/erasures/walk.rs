//! Looks for members at all ids that Redis has: of a board, and of what belongs to no board. Each call looks at a bounded part, so
//! that Redis is never held up.

use std::collections::BTreeMap;

use super::file::Wanted;
use super::store::{self, Names};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::erasure::Erasure;
use crate::domain::ids::MemberId;
use crate::domain::profile::ReviewStatus;
use crate::domain::shard::Shard;
use crate::periods::results;
use crate::redis::keys::{self, ProfileBucket};
use crate::redis::kinds::{Kind, SEPARATOR};
use crate::redis::{Store, StoreError};

/// How many results one call reads.
const CALL_RESULTS_MAX: usize = 100;

/// A search for members.
pub(super) struct Search<'w> {
    store: &'w Store,
    wanted: &'w Wanted<'w>,
    /// Those that were found, with their erasures.
    pub(super) found: BTreeMap<MemberId, Erasure>,
}

impl<'w> Search<'w> {
    pub(super) fn new(engine: &'w Engine, wanted: &'w Wanted<'w>) -> Self {
        Self {
            store: &engine.store,
            wanted,
            found: BTreeMap::new(),
        }
    }

    /// Looks at a name, which may be that of a line that has outlived its member.
    fn look_at(&mut self, name: &str) {
        let Ok(member) = MemberId::parse(name) else {
            return;
        };
        if let Some((_, erasure)) = self.wanted.of(&member) {
            self.found.insert(member, erasure);
        }
    }

    /// Looks at all that is stored of a board.
    pub(super) async fn on_board(&mut self, live: &LiveBoard) -> Result<(), Error> {
        for live in &live.shards {
            self.in_shard(&live.shard).await?;
        }
        self.in_results(live).await
    }

    /// Looks at profiles, at the names of the audit log, and at standing orders.
    pub(super) async fn in_service(&mut self) -> Result<(), StoreError> {
        for bucket in ProfileBucket::all() {
            for status in ReviewStatus::ALL {
                let reviews = keys::reviews(bucket, status);
                self.in_key(&reviews, Names::Sorted).await?;
            }
        }
        self.in_key(keys::AUDIT_NAMES[0], Names::Fields).await?;
        self.in_key(keys::ORDER_MEMBERS, Names::Sorted).await
    }

    async fn in_shard(&mut self, shard: &Shard) -> Result<(), StoreError> {
        let registry = keys::registry(shard.tag(), shard.generation);
        let mut cursor = "0".to_owned();
        loop {
            let (next, found) = store::names(self.store, &registry, Names::Set, &cursor).await?;
            for key in &found {
                let kind = keys::kind_of(shard, key);
                if kind == Some(Kind::MemberVoters) {
                    self.look_at(key.rsplit(SEPARATOR).next().unwrap_or_default());
                } else if let Some(names) = kind.and_then(|kind| names_in(shard, kind, key)) {
                    self.in_key(key, names).await?;
                }
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    async fn in_key(&mut self, key: &str, names: Names) -> Result<(), StoreError> {
        let mut cursor = "0".to_owned();
        loop {
            let (next, found) = store::names(self.store, key, names, &cursor).await?;
            for name in &found {
                self.look_at(name);
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Looks at the winners of results, whose standings may have expired, and at the reasons of their revisions.
    async fn in_results(&mut self, live: &LiveBoard) -> Result<(), Error> {
        let board = &live.board;
        for window in &board.definition.windows {
            let revised = keys::of_results(board, Kind::RevisedMembers, *window);
            self.in_key(&revised, Names::Values).await?;
            let mut before = None::<String>;
            loop {
                let between = (None, before.as_deref());
                let periods = results::store::final_periods(
                    self.store,
                    board,
                    *window,
                    between,
                    CALL_RESULTS_MAX,
                )
                .await?;
                let recorded =
                    results::store::read_many(self.store, board, *window, &periods).await?;
                let winners = recorded
                    .into_iter()
                    .flatten()
                    .filter_map(|recorded| recorded.result.winner);
                for member in winners.filter_map(|winner| winner.member) {
                    self.look_at(&member);
                }
                if periods.len() < CALL_RESULTS_MAX {
                    break;
                }
                before = periods.into_iter().next_back();
            }
        }
        Ok(())
    }
}

/// Which names of a key of a shard are ids of members; `None` if others have them too, or there are none.
fn names_in(shard: &Shard, kind: Kind, key: &str) -> Option<Names> {
    match kind {
        // Otherwise the hash next to it has its members.
        Kind::Standing | Kind::Derived | Kind::InitialScores => {
            (!shard.layout().hashed).then_some(Names::Sorted)
        }
        Kind::EventIndex => key.ends_with(":member").then_some(Names::Fields),
        kind => names_of(kind),
    }
}

/// Which names of any key of this kind are ids of members.
fn names_of(kind: Kind) -> Option<Names> {
    Some(match kind {
        Kind::Members
        | Kind::PastInitial
        | Kind::Folded
        | Kind::Hides
        | Kind::Erasing
        | Kind::Rewards
        | Kind::Players
        | Kind::Played
        | Kind::Taking
        | Kind::Seats
        | Kind::Decided => Names::Fields,
        Kind::Hidden | Kind::HideJournal => Names::Sorted,
        Kind::Queue | Kind::DeadLetters => Names::Events,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::kinds::{Erasing, Slot};

    #[test]
    fn all_that_an_erasure_removes_from_shards_is_looked_at() {
        // What others list, too, or has its names in its key, or is looked at in another way.
        let others = [
            Kind::Registry,
            Kind::Standing,
            Kind::Derived,
            Kind::InitialScores,
            Kind::Distinct,
            Kind::Total,
            Kind::Events,
            Kind::EventIndex,
            Kind::HiddenList,
            Kind::HiddenScores,
            Kind::HiddenState,
            Kind::RewardIndex,
            Kind::Tiers,
            Kind::MemberVoters,
            Kind::QueueIds,
            Kind::Trail,
        ];
        for kind in Kind::ALL.iter().copied() {
            let is_removed = kind.erasing() == Erasing::Removed && kind.slot() == Slot::Shard;
            let is_covered = names_of(kind).is_some() || others.contains(&kind);
            assert_eq!(is_removed, is_covered, "{kind:?}");
        }
    }
}
