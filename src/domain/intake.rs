//! The place of a Kafka record, and a shard's knowledge of partitions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::shard::Sharding;

/// A partition of a topic. Its text in shards: `events/3`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Partition {
    /// The name of the topic: of `A-Z a-z 0-9 . _ -`, as Kafka allows.
    pub topic: Arc<str>,
    /// Its number, from 0.
    pub number: i32,
}

impl Partition {
    /// The partition of a topic with this number.
    pub fn new(topic: &str, number: i32) -> Self {
        Self {
            topic: topic.into(),
            number,
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.number)
    }
}

/// The range of records in a partition at a moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Extent {
    /// The offset of the first record, or of the next one if there is none. (Kafka: low watermark.)
    pub first: i64,
    /// The offset of the next record to be written. (Kafka: high watermark.)
    pub end: i64,
}

/// Stands for no offset.
const NONE: i64 = -1;

/// The text of a former sharding of a board, and the next offset of each of its shards.
pub type FormerOffsets = (String, Vec<i64>);

/// A shard's knowledge of a partition. All records of the shard before a *next offset* are in its queue, or were.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KnownOffsets {
    /// The next offset; `None`: unknown.
    pub own: Option<i64>,
    /// The next offsets of former shards when the board moved away from them, oldest sharding first. Earlier records are in
    /// their queues, or were.
    pub former: Vec<FormerOffsets>,
}

impl KnownOffsets {
    /// The offset up to which all records of the shard were taken, here or in former shards; `None`: unknown.
    pub fn taken(&self) -> Option<i64> {
        let of_former = || {
            let (_, offsets) = self.former.last()?;
            offsets.iter().copied().min().filter(|least| *least > NONE)
        };
        self.own.or_else(of_former)
    }

    /// What new shards without knowledge of a partition get when a board moves to them from shards with this knowledge.
    pub fn hand_over(from: Sharding, shards: &[Self]) -> Vec<FormerOffsets> {
        let mut former = BTreeMap::new();
        for (sharding, offsets) in shards.iter().flat_map(|known| &known.former) {
            let epoch = sharding
                .parse()
                .map_or(0, |sharding: Sharding| sharding.epoch);
            former
                .entry(epoch)
                .or_insert((sharding.clone(), offsets.clone()));
        }
        let taken: Vec<i64> = shards
            .iter()
            .map(|known| known.taken().unwrap_or(NONE))
            .collect();
        if former.is_empty() && taken.iter().all(|offset| *offset == NONE) {
            return Vec::new();
        }
        former.insert(from.epoch, (from.to_string(), taken));
        former.into_values().collect()
    }
}

/// The backlog of a partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Backlog {
    /// The partition.
    pub partition: Partition,
    /// The offset of the next record to be written.
    pub end: i64,
    /// The offset up to which consumers recently reported records as taken; `None`: no report yet.
    pub taken: Option<i64>,
}

impl Backlog {
    /// Roughly how many records are left; `None`: unknown.
    pub fn left(&self) -> Option<u64> {
        let left = self.end.saturating_sub(self.taken?);
        Some(u64::try_from(left).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_shards_know_what_each_former_one_has_taken() {
        let known = |own, former: &[(&str, &[i64])]| KnownOffsets {
            own,
            former: former
                .iter()
                .map(|(name, offsets)| ((*name).to_owned(), offsets.to_vec()))
                .collect(),
        };
        let first = Sharding::first(2);
        let none = known(None, &[]);
        assert_eq!(
            KnownOffsets::hand_over(first, &[none.clone(), none.clone()]),
            []
        );
        let new = known(None, &[("2", &[7, 9])]);
        let handed = KnownOffsets::hand_over(first, &[known(Some(7), &[]), known(Some(9), &[])]);
        assert_eq!(handed, new.former);
        assert_eq!((none.taken(), new.taken()), (None, Some(7)));
        assert_eq!(known(Some(3), &[("2", &[7, 9])]).taken(), Some(3));
        let partly = KnownOffsets::hand_over(first, &[known(Some(7), &[]), none.clone()]);
        assert_eq!(partly, known(None, &[("2", &[7, -1])]).former);
        assert_eq!(known(None, &[("2", &[7, -1])]).taken(), None);
        // It moves again before all shards have come that far.
        let second = Sharding {
            shards: 3,
            epoch: 1,
        };
        let shards = [
            new.clone(),
            known(Some(8), &[("2", &[7, 9])]),
            known(Some(12), &[]),
        ];
        let handed = KnownOffsets::hand_over(second, &shards);
        assert_eq!(
            handed,
            known(None, &[("2", &[7, 9]), ("3.1", &[7, 8, 12])]).former
        );
    }

    #[test]
    fn the_rest_of_a_partition_is_never_negative() {
        let left = |taken| {
            let partition = Partition::new("votes", 0);
            let end = 9;
            Backlog {
                partition,
                end,
                taken,
            }
            .left()
        };
        assert_eq!(
            [None, Some(4), Some(12)].map(left),
            [None, Some(5), Some(0)]
        );
    }

    #[test]
    fn a_partition_has_one_spelling() {
        assert_eq!(Partition::new("votes.eu", 12).to_string(), "votes.eu/12");
    }
}
