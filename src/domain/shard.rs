//! Shards: the parts of a board whose members lie in different slots of a cluster.
//!
//! For the store a shard is a board of its own: it has its own keys, and its members' events, ids and initial scores.
//! What makes one board of them again are the reads (`service/merged.rs`).
//!
//! A board can be spread anew, see [`super::placement`]. Each [`Sharding`] that it has had has its own keys.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::board::Board;
use super::ids::{BoardId, MemberId};
use super::quota::QuotaUse;

/// The most shards of a board.
pub const SHARDS_MAX: u16 = 64;

/// One shard of a sharding.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Shard {
    /// Which one, from 0.
    pub index: u16,
    /// Of which.
    pub of: Sharding,
}

/// A way in which a board's members are spread over slots.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Sharding {
    /// Over how many shards.
    pub shards: u16,
    /// Tells it from the board's other shardings; 0 for the first.
    pub epoch: u32,
}

impl Sharding {
    /// That of a new board.
    pub fn first(shards: u16) -> Self {
        Self { shards, epoch: 0 }
    }

    /// Whether all data lies with the definition, under the board's own tag.
    pub fn is_together(self) -> bool {
        self == Self::first(1)
    }

    /// Its shards.
    pub fn all(self) -> impl Iterator<Item = Shard> {
        (0..self.shards).map(move |index| Shard { index, of: self })
    }

    /// In which of its shards a member lies. It stays the same for ever.
    pub fn place_of(self, member: &MemberId) -> usize {
        let hash = xxh3_64(member.as_str().as_bytes());
        usize::try_from(hash % u64::from(self.shards)).unwrap_or(0)
    }
}

/// As `16`, or of a later epoch `16.1`.
impl fmt::Display for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            0 => write!(f, "{}", self.shards),
            epoch => write!(f, "{}.{epoch}", self.shards),
        }
    }
}

impl FromStr for Sharding {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (shards, epoch) = text.split_once('.').unwrap_or((text, "0"));
        Ok(Self {
            shards: shards.parse()?,
            epoch: epoch.parse()?,
        })
    }
}

impl Board {
    /// The board's shards as the store sees them; itself, if all its data lies together.
    pub fn shards(&self) -> Vec<Self> {
        self.shards_of(self.placement.current)
    }

    /// The same for another of its shardings.
    pub fn shards_of(&self, sharding: Sharding) -> Vec<Self> {
        let shards = sharding.all().map(|shard| Self {
            shard: (!sharding.is_together()).then_some(shard),
            ..self.clone()
        });
        shards.collect()
    }

    /// In which of its shards a member lies.
    pub fn shard_of(&self, member: &MemberId) -> usize {
        self.placement.current.place_of(member)
    }

    /// The shards where the counts of its quotas lie, for ever: those that it began with.
    pub fn homes(&self) -> Vec<Self> {
        self.shards_of(self.placement.home())
    }

    /// In which of its homes the counts of a use lie: all its pools together, wherever the members lie that events are for.
    pub fn home_of(&self, used: &QuotaUse) -> usize {
        // The first pool is that of `max`, which all events of the use have in common.
        let name = used.pools.first().map_or("", |pool| &pool.name);
        let hash = xxh3_64(name.as_bytes());
        let homes = u64::from(self.placement.home().shards);
        usize::try_from(hash % homes).unwrap_or(0)
    }

    /// Whether an event is taken in steps: where the counts of its quotas may lie in other slots than its member.
    pub fn reserves(&self) -> bool {
        !self.quotas.is_empty() && !self.placement.current.is_together()
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
        let Self { index, of } = self;
        match of {
            of if of.is_together() => id.to_string(),
            Sharding { shards, epoch: 0 } => format!("{id}:{shards}:{index}"),
            Sharding { shards, epoch } => format!("{id}:{shards}:{index}:{epoch}"),
        }
    }

    /// The board and the shard whose keys have this in common; `None` where that is no tag.
    pub fn of_tag(tag: &str) -> Option<(BoardId, Self)> {
        let mut parts = tag.split(':');
        let id = BoardId::parse(parts.next()?).ok()?;
        let numbers: Result<Vec<u32>, _> = parts.map(str::parse).collect();
        let (shards, index, epoch) = match numbers.ok()?[..] {
            [] => (1, 0, 0),
            [shards, index] => (shards, index, 0),
            [shards, index, epoch] => (shards, index, epoch),
            _ => return None,
        };
        let (shards, index) = (shards.try_into().ok()?, index.try_into().ok()?);
        let of = Sharding { shards, epoch };
        let shard = Self { index, of };
        // A tag has one spelling.
        (index < shards && shard.tag(&id) == tag).then_some((id, shard))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn board(shards: u16) -> Board {
        let json = format!(r#"{{"windows": ["all"], "shards": {shards}}}"#);
        let definition = serde_json::from_str(&json).unwrap();
        let id = BoardId::parse("b").unwrap();
        Board::new(id, definition, 1, 1, BTreeMap::new())
    }

    fn tags(board: &Board) -> Vec<String> {
        board.shards().iter().map(Board::tag).collect()
    }

    #[test]
    fn every_member_has_one_shard_for_ever_and_the_shards_are_about_alike() {
        let board = board(16);
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
        assert_eq!((tags(&board).len(), &*tags(&board)[3]), (16, "b:16:3"));
    }

    #[test]
    fn tags_tell_their_shard() {
        let id = BoardId::parse("b").unwrap();
        for (shards, index, epoch) in [(1, 0, 0), (16, 3, 0), (1, 0, 2), (4, 0, 12)] {
            let of = Sharding { shards, epoch };
            let shard = Shard { index, of };
            let tag = shard.tag(&id);
            assert_eq!(Shard::of_tag(&tag), Some((id.clone(), shard)), "{tag}");
        }
        for tag in [
            "",
            "b:",
            "b:4",
            "b:4:4",
            "b:4:0:0",
            "b:04:0",
            "b:4:0:1:2",
            "b:1:0",
            "b:x:0",
        ] {
            assert_eq!(Shard::of_tag(tag), None, "{tag}");
        }
    }
}
