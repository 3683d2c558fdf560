//! Shards: the parts of a board that hold its data. Each is in one slot of a cluster, and holds the events, ids and initial
//! scores of its members. A board whose data is all in one slot has one shard.
//!
//! Writes go to the shard of their member. Reads merge all shards into one list (`core/read/merge.rs`). The number of
//! shards can change, see [`super::placement`]. Each [`Sharding`] of a board has its own keys.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::board::Board;
use super::ids::{BoardId, MemberId};
use super::league::Cohort;
use super::period::Period;
use super::quota::QuotaUse;

/// The maximum number of shards of a board.
pub const SHARDS_MAX: u16 = 64;

/// A part of a board that holds data. It dereferences to its board, but a board can't be passed where a shard is needed.
#[derive(Clone, Debug)]
pub struct Shard {
    /// The board, with its definition.
    pub board: Arc<Board>,
    /// Which shard it is.
    pub shard_id: ShardId,
    tag: Arc<str>,
}

/// Identifies a shard of a board.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ShardId {
    /// Its number in the sharding, from 0.
    pub index: u16,
    /// The sharding.
    pub of: Sharding,
}

/// A way to spread a board's members over slots.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Sharding {
    /// The number of shards.
    pub shards: u16,
    /// Distinguishes it from the board's other shardings; 0 for the first.
    pub epoch: u32,
}

impl Sharding {
    /// The first sharding of a new board.
    pub fn first(shards: u16) -> Self {
        Self { shards, epoch: 0 }
    }

    /// Whether all data is with the definition, under the board's own tag.
    pub fn is_together(self) -> bool {
        self == Self::first(1)
    }

    /// Its shards.
    pub fn all(self) -> impl Iterator<Item = ShardId> {
        (0..self.shards).map(move |index| ShardId { index, of: self })
    }

    /// The index of a member's shard, which never changes.
    pub fn index_of(self, member: &MemberId) -> usize {
        self.index_by(member.shard_part().as_bytes())
    }

    fn index_by(self, bytes: &[u8]) -> usize {
        usize::try_from(xxh3_64(bytes) % u64::from(self.shards)).unwrap_or(0)
    }
}

/// `16`, or for a later epoch `16.1`.
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
    /// The shards that are in use.
    pub fn shards(self: &Arc<Self>) -> Vec<Shard> {
        self.shards_of(self.placement.current)
    }

    /// The shards of another of its shardings.
    pub fn shards_of(self: &Arc<Self>, sharding: Sharding) -> Vec<Shard> {
        sharding
            .all()
            .map(|id| Shard::new(Arc::clone(self), id))
            .collect()
    }

    /// The index of the shard of a member.
    pub fn shard_of(&self, member: &MemberId) -> usize {
        self.placement.current.index_of(member)
    }

    /// The index of the shard of a cohort of a period, in a league.
    pub fn shard_of_cohort(&self, period: &Period, cohort: Cohort) -> usize {
        let Cohort { tier, number } = cohort;
        let mut bytes = [0; 13];
        bytes[..8].copy_from_slice(&period.start_ms.to_le_bytes());
        bytes[8] = tier;
        bytes[9..].copy_from_slice(&number.to_le_bytes());
        self.placement.current.index_by(&bytes)
    }

    /// The index of the shard that assigns the seats of a tier in a period, in a league.
    pub fn shard_of_tier(&self, period: &Period, tier: u8) -> usize {
        // No cohort has this number.
        let number = 0;
        self.shard_of_cohort(period, Cohort { tier, number })
    }

    /// The shards that store its quota counts: permanently those of its first sharding.
    pub fn homes(self: &Arc<Self>) -> Vec<Shard> {
        self.shards_of(self.placement.home())
    }

    /// The index of the home of a use's counts: all its pools are together, wherever the members of events are.
    pub fn home_of(&self, used: &QuotaUse) -> usize {
        // The first pool is that of `max`, which all events of the use share.
        let name = used.pools.first().map_or("", |pool| &pool.name);
        self.placement.home().index_by(name.as_bytes())
    }

    /// Whether an event is applied in steps: if its quota counts may be in other slots than its member.
    pub fn reserves(&self) -> bool {
        !self.definition.quotas.is_empty() && !self.placement.current.is_together()
    }
}

impl Shard {
    /// The shard of a board with this id.
    pub fn new(board: Arc<Board>, shard_id: ShardId) -> Self {
        let tag = shard_id.tag(&board.id).into();
        Self {
            board,
            shard_id,
            tag,
        }
    }

    /// The common part of its keys, which determines their slot.
    pub fn tag(&self) -> &str {
        &self.tag
    }
}

impl Deref for Shard {
    type Target = Board;

    fn deref(&self) -> &Board {
        &self.board
    }
}

impl ShardId {
    /// The common part of the keys of this shard of a board: `run_hero` if all data is with the definition, otherwise
    /// `run_hero:16:3`. Board ids have no colons.
    pub fn tag(self, id: &BoardId) -> String {
        let Self { index, of } = self;
        match of {
            of if of.is_together() => id.to_string(),
            Sharding { shards, epoch: 0 } => format!("{id}:{shards}:{index}"),
            Sharding { shards, epoch } => format!("{id}:{shards}:{index}:{epoch}"),
        }
    }

    /// The board and the shard with this tag; `None` if it is not a tag.
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
    use super::*;

    fn board(shards: u16) -> Arc<Board> {
        let json = format!(r#"{{"windows": ["all"], "shards": {shards}}}"#);
        Arc::new(Board::defined(&json))
    }

    #[test]
    fn every_member_has_a_fixed_shard_and_shards_are_balanced() {
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
        let shards = board.shards();
        assert_eq!((shards.len(), shards[3].tag()), (16, "b:16:3"));
    }

    #[test]
    fn a_tag_names_its_shard() {
        let id = BoardId::parse("b").unwrap();
        for (shards, index, epoch) in [(1, 0, 0), (16, 3, 0), (1, 0, 2), (4, 0, 12)] {
            let of = Sharding { shards, epoch };
            let shard = ShardId { index, of };
            let tag = shard.tag(&id);
            assert_eq!(ShardId::of_tag(&tag), Some((id.clone(), shard)), "{tag}");
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
            assert_eq!(ShardId::of_tag(tag), None, "{tag}");
        }
    }
}
