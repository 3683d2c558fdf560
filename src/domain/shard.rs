//! Shards: the parts of a board whose members lie in different slots of a cluster.
//!
//! For the store a shard is a board of its own: it has its own keys, and its members' events, ids and initial scores.
//! What makes one board of them again are the reads (`service/merged.rs`).

use xxhash_rust::xxh3::xxh3_64;

use super::board::Board;
use super::ids::{BoardId, MemberId};
use super::quota::QuotaUse;

/// The most shards of a board.
pub const SHARDS_MAX: u16 = 64;

/// One shard of so many.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Shard {
    /// Which one, from 0.
    pub index: u16,
    /// Of how many.
    pub of: u16,
}

impl Board {
    /// The board's shards as the store sees them; itself, if it has but one.
    pub fn shards(&self) -> Vec<Self> {
        let of = self.definition.shards;
        if of == 1 {
            return vec![self.clone()];
        }
        let shards = (0..of).map(|index| Self {
            shard: Some(Shard { index, of }),
            ..self.clone()
        });
        shards.collect()
    }

    /// In which of its shards a member lies. It stays the same for ever.
    pub fn shard_of(&self, member: &MemberId) -> usize {
        let hash = xxh3_64(member.as_str().as_bytes());
        usize::try_from(hash % u64::from(self.definition.shards)).unwrap_or(0)
    }

    /// In which of its shards the counts of a use lie: all its pools together, wherever the members lie that events
    /// are for. It stays the same for ever.
    pub fn home_of(&self, used: &QuotaUse) -> usize {
        // The first pool is that of `max`, which all events of the use have in common.
        let name = used.pools.first().map_or("", |pool| &pool.name);
        let hash = xxh3_64(name.as_bytes());
        usize::try_from(hash % u64::from(self.definition.shards)).unwrap_or(0)
    }

    /// Whether an event is taken in steps: where the counts of its quotas may lie in other slots than its member.
    pub fn reserves(&self) -> bool {
        self.definition.shards > 1 && !self.quotas.is_empty()
    }

    /// What its keys have in common, and what decides on their slot: `run_hero`, or of a shard `run_hero:16:3`. Ids
    /// of boards have no colons.
    pub fn tag(&self) -> String {
        match self.shard {
            None => self.id.to_string(),
            Some(shard) => shard.tag(&self.id),
        }
    }
}

impl Shard {
    /// What the keys of this shard of a board have in common.
    pub fn tag(self, id: &BoardId) -> String {
        match self.of {
            1 => id.to_string(),
            of => format!("{id}:{of}:{}", self.index),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_member_has_one_shard_for_ever_and_the_shards_are_about_alike() {
        let definition = serde_json::from_str(r#"{"windows": ["all"], "shards": 16}"#).unwrap();
        let id = BoardId::parse("b").unwrap();
        let board = Board::new(id, definition, 1, 1, BTreeMap::new());
        let mut counts = [0; 16];
        for number in 0..16_000 {
            counts[board.shard_of(&MemberId::parse(&number.to_string()).unwrap())] += 1;
        }
        assert!(
            counts.iter().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
        let shard_of = |member| board.shard_of(&MemberId::parse(member).unwrap());
        assert_eq!(["alice", "bob", "é"].map(shard_of), [0, 5, 3]);
        let tags: Vec<String> = board.shards().iter().map(Board::tag).collect();
        assert_eq!((tags.len(), &*tags[3]), (16, "b:16:3"));
    }
}
