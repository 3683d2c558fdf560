//! The snapshot of a standing in one shard: pure.

use std::collections::{BTreeMap, HashSet, btree_map};
use std::iter::Peekable;

use bytes::Bytes;

use super::link::{Link, LinkedEntry};
use super::store::Part;
use crate::core::read::store::standings::SortKey;
use crate::domain::edition::Changed;
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::keys;

/// About how many bytes a difference takes, or a hidden member, without the member.
const DIFFERENCE_BYTES: usize = 100;
/// The bytes of a packed entry before its member: a score, and the member's length.
const HEAD_BYTES: usize = size_of::<i64>() + size_of::<u16>();

/// The entries of a standing in their order, up to the last one that was read.
#[derive(Debug)]
pub(super) struct ShardSnapshot {
    pub(super) standing: Standing,
    /// The sorted set.
    name: String,
    /// The state of the shard that it is of; `None` before the first step.
    pub(super) changed: Option<Changed>,
    /// The last entry that was read; `None`: none yet.
    pub(super) mark: Option<SortKey>,
    /// It has everything that was acknowledged before; `None` before the first step.
    pub(super) as_of: Option<Timestamp>,
    /// The entries as they were read, packed, a list for each step.
    parts: Vec<Box<[u8]>>,
    /// What was changed after it was read: entries that have come since, or have left (`false`).
    differences: BTreeMap<SortKey, bool>,
    /// Sorted-set members of hidden members, all of its entries among them; `None`: it leaves such entries out.
    pub(super) hidden: Option<HashSet<Box<[u8]>>>,
    /// How many entries up to the mark the standing has, those that are left out included.
    count: u64,
    bytes: u64,
}

impl ShardSnapshot {
    /// `with_hidden`: entries of hidden members are not left out.
    pub(super) fn new(shard: &Shard, standing: Standing, with_hidden: bool) -> Self {
        Self::named(standing, keys::sorted_set(shard, &standing), with_hidden)
    }

    fn named(standing: Standing, name: String, with_hidden: bool) -> Self {
        Self {
            standing,
            name,
            changed: None,
            mark: None,
            as_of: None,
            parts: Vec::new(),
            differences: BTreeMap::new(),
            hidden: with_hidden.then(HashSet::new),
            count: 0,
            bytes: 0,
        }
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes a step. Returns whether it was the last one; `None` if no links lead to it, or the standing has another number of
    /// entries.
    pub(super) fn take(&mut self, part: &Part, as_of: Timestamp) -> Option<bool> {
        self.follow(&part.links, part.changed)?;
        self.as_of = Some(as_of);
        self.add(&part.entries);
        self.count += part.left_out;
        for member in &part.hidden {
            self.hide(member);
        }
        if let Some(last) = &part.last {
            self.mark = Some(last.clone());
        }
        if part.is_last && self.count != part.count {
            return None;
        }
        Some(part.is_last)
    }

    /// Follows links to the state of the next step; `None` if they don't lead there.
    fn follow(&mut self, links: &[Bytes], to: Changed) -> Option<()> {
        let mut at = *self.changed.get_or_insert(to);
        for link in links {
            let link = Link::read(link)?;
            if link.before != at {
                return None;
            }
            at = link.after;
            for state in link.states {
                if state.standing == self.name {
                    if state.was_empty {
                        self.clear();
                    }
                    state
                        .gone
                        .into_iter()
                        .for_each(|entry| self.change(entry, false));
                    state
                        .come
                        .into_iter()
                        .for_each(|entry| self.change(entry, true));
                }
            }
        }
        self.changed = Some(at);
        (at == to).then_some(())
    }

    fn clear(&mut self) {
        self.parts.clear();
        self.differences.clear();
        self.hidden.iter_mut().for_each(HashSet::clear);
        self.count = 0;
        self.bytes = 0;
    }

    /// Follows the coming of an entry, or its leaving. What is after the mark is read later.
    fn change(&mut self, entry: LinkedEntry, has_come: bool) {
        let LinkedEntry { key, is_hidden } = entry;
        if self.mark.as_ref().is_none_or(|mark| key > *mark) {
            return;
        }
        self.count = self
            .count
            .wrapping_add_signed(if has_come { 1 } else { -1 });
        if is_hidden && !self.hide(&key.member) {
            return;
        }
        let bytes = (DIFFERENCE_BYTES + key.member.len()) as u64;
        // An entry that comes back as it was read, or leaves again, is no difference any more.
        if self.differences.remove(&key).is_some() {
            self.bytes -= bytes;
        } else {
            self.differences.insert(key, has_come);
            self.bytes += bytes;
        }
    }

    /// Notes that a sorted-set member is that of a hidden member. Returns `false` if its entry is left out.
    fn hide(&mut self, member: &[u8]) -> bool {
        let Some(hidden) = &mut self.hidden else {
            return false;
        };
        if hidden.insert(member.into()) {
            self.bytes += (DIFFERENCE_BYTES + member.len()) as u64;
        }
        true
    }

    fn add(&mut self, entries: &[SortKey]) {
        let bytes = entries.iter().map(|entry| HEAD_BYTES + entry.member.len());
        let mut part = Vec::with_capacity(bytes.sum());
        for SortKey { score, member } in entries {
            let length = u16::try_from(member.len()).expect("invariant: ids are short");
            part.extend(score.to_be_bytes());
            part.extend(length.to_be_bytes());
            part.extend_from_slice(member);
        }
        self.count += entries.len() as u64;
        self.bytes += part.len() as u64;
        self.parts.push(part.into());
    }
}

/// The entries of a snapshot, which are taken in their order.
#[derive(Debug)]
pub(super) struct ShardEntries {
    /// Those of hidden members, as [`ShardSnapshot`] has them.
    pub(super) hidden: Option<HashSet<Box<[u8]>>>,
    read: Peekable<ReadEntries>,
    differences: Peekable<btree_map::IntoIter<SortKey, bool>>,
}

/// The entries as they were read.
#[derive(Debug)]
struct ReadEntries {
    parts: std::vec::IntoIter<Box<[u8]>>,
    rest: Bytes,
}

impl From<ShardSnapshot> for ShardEntries {
    fn from(snapshot: ShardSnapshot) -> Self {
        let read = ReadEntries {
            parts: snapshot.parts.into_iter(),
            rest: Bytes::new(),
        };
        Self {
            hidden: snapshot.hidden,
            read: read.peekable(),
            differences: snapshot.differences.into_iter().peekable(),
        }
    }
}

impl Iterator for ShardEntries {
    type Item = SortKey;

    fn next(&mut self) -> Option<SortKey> {
        loop {
            let read = self.read.peek();
            let is_due = |(key, _): &(SortKey, bool)| read.is_none_or(|read| key <= read);
            let Some((key, has_come)) = self.differences.next_if(is_due) else {
                return self.read.next();
            };
            if has_come {
                return Some(key);
            }
            self.read.next_if_eq(&key);
        }
    }
}

impl Iterator for ReadEntries {
    type Item = SortKey;

    fn next(&mut self) -> Option<SortKey> {
        while self.rest.is_empty() {
            self.rest = Bytes::from(self.parts.next()?);
        }
        let head = self.rest.split_to(HEAD_BYTES);
        let (score, length) = head.split_first_chunk().expect("invariant: a packed entry");
        let length = <[u8; 2]>::try_from(length).map_or(0, u16::from_be_bytes);
        Some(SortKey {
            score: i64::from_be_bytes(*score),
            member: self.rest.split_to(length.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::period::{Period, Unit};
    use crate::domain::series::{List, Series, Track};

    /// A standing of a shard as Redis has it, and the links since the last step.
    #[derive(Default)]
    struct Stored {
        entries: BTreeSet<(i64, u8)>,
        hidden: BTreeSet<u8>,
        number: u64,
        links: Vec<Bytes>,
    }

    fn snapshot(with_hidden: bool) -> ShardSnapshot {
        let series = Series {
            list: List::Period(Unit::All),
            track: Track::Shown,
        };
        let period = Period {
            unit: Unit::All,
            start_ms: i64::MIN,
            end_ms: i64::MAX,
        };
        let name = "own".to_owned();
        ShardSnapshot::named(Standing::of(series, period), name, with_hidden)
    }

    fn key((score, member): (i64, u8)) -> SortKey {
        SortKey {
            score,
            member: Bytes::from(vec![member]),
        }
    }

    impl Stored {
        fn changed(&self) -> Changed {
            Changed {
                number: self.number,
                history: 7,
            }
        }

        /// Gives a member another score, or none.
        fn set(&mut self, member: u8, score: Option<i64>) {
            let before = self.changed();
            let was_empty = self.entries.is_empty();
            let is_hidden = self.hidden.contains(&member);
            let old = self.entries.iter().find(|entry| entry.1 == member).copied();
            let linked = |entry: Option<(i64, u8)>| {
                let entry = entry.map(|(score, member)| (is_hidden, score, [member]));
                entry.into_iter().collect::<Vec<_>>()
            };
            let new = score.map(|score| (score, member));
            let states = [("own", was_empty, linked(old), linked(new))];
            self.entries.extend(new);
            if let Some(old) = old.filter(|old| Some(*old) != new) {
                self.entries.remove(&old);
            }
            self.number += 1;
            let changed = [before, self.changed()].map(Changed::stored).join("\n");
            let states = rmp_serde::to_vec(&states.map(|(name, was_empty, gone, come)| {
                let texts = |entries: Vec<(bool, i64, [u8; 1])>| {
                    entries
                        .into_iter()
                        .map(|(hidden, score, member)| {
                            (hidden, score, String::from(char::from(member[0])))
                        })
                        .collect::<Vec<_>>()
                };
                (name, was_empty, texts(gone), texts(come))
            }));
            let link = [changed.as_bytes(), b"\n", &states.unwrap()].concat();
            self.links.push(link.into());
        }

        fn step(&mut self, snapshot: &ShardSnapshot, count: usize) -> Part {
            let mark = snapshot.mark.as_ref();
            let after = |entry: &&(i64, u8)| mark.is_none_or(|mark| key(**entry) > *mark);
            let read: Vec<_> = self.entries.iter().filter(after).take(count).collect();
            let is_hidden = |entry: &&&(i64, u8)| self.hidden.contains(&entry.1);
            let with_hidden = snapshot.hidden.is_some();
            let is_in = |entry: &&&(i64, u8)| with_hidden || !is_hidden(entry);
            let entries: Vec<_> = read
                .iter()
                .filter(is_in)
                .map(|entry| key(**entry))
                .collect();
            let hidden = read.iter().filter(|entry| with_hidden && is_hidden(entry));
            Part {
                changed: self.changed(),
                count: self.entries.len() as u64,
                is_last: read.len() < count,
                left_out: (read.len() - entries.len()) as u64,
                hidden: hidden.map(|entry| key(**entry).member).collect(),
                last: read.last().map(|entry| key(**entry)),
                entries,
                links: std::mem::take(&mut self.links),
            }
        }

        /// Its entries, and whether each is that of a hidden member.
        fn listed(&self, with_hidden: bool) -> Vec<(SortKey, bool)> {
            let listed = self.entries.iter();
            let listed = listed.map(|entry| (key(*entry), self.hidden.contains(&entry.1)));
            listed
                .filter(|(_, is_hidden)| with_hidden || !is_hidden)
                .collect()
        }
    }

    /// A random number below `bound`: splitmix64.
    fn below(state: &mut u64, bound: u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    #[test]
    fn at_its_end_a_snapshot_is_the_standing_whatever_changes_between_its_steps() {
        let random = &mut 1;
        for with_hidden in [true, false].repeat(250) {
            let mut stored = Stored::default();
            let set = |stored: &mut Stored, random: &mut u64| {
                let member = u8::try_from(below(random, 30)).unwrap() + b'A';
                let score = i64::try_from(below(random, 12)).unwrap();
                stored.set(member, (score < 10).then_some(score));
            };
            for _ in 0..below(random, 60) {
                set(&mut stored, random);
            }
            stored
                .hidden
                .extend((0..3).map(|_| b'A' + u8::try_from(below(random, 30)).unwrap()));
            stored.links.clear();
            let (mut snapshot, count) = (
                snapshot(with_hidden),
                1 + usize::try_from(below(random, 5)).unwrap(),
            );
            loop {
                let part = stored.step(&snapshot, count);
                let is_whole = snapshot
                    .take(&part, Timestamp::MIN)
                    .expect("links lead to it");
                if is_whole {
                    break;
                }
                for _ in 0..below(random, 4) {
                    set(&mut stored, random);
                }
            }
            let entries = ShardEntries::from(snapshot);
            let hidden = entries.hidden.clone().unwrap_or_default();
            let listed = entries.map(|key| (hidden.contains(&*key.member), key));
            let listed: Vec<_> = listed.map(|(is_hidden, key)| (key, is_hidden)).collect();
            assert_eq!(listed, stored.listed(with_hidden));
        }
    }

    #[test]
    fn no_step_counts_to_which_no_links_lead() {
        let begun = || {
            let (mut stored, mut snapshot) = (Stored::default(), snapshot(false));
            for member in b'A'..b'E' {
                stored.set(member, Some(1));
            }
            stored.links.clear();
            let part = stored.step(&snapshot, 2);
            assert_eq!(snapshot.take(&part, Timestamp::MIN), Some(false));
            stored.set(b'A', Some(2));
            stored.set(b'B', Some(3));
            let part = stored.step(&snapshot, 9);
            (snapshot, part)
        };
        let spoilt = |spoil: fn(&mut Part)| {
            let (mut snapshot, mut part) = begun();
            spoil(&mut part);
            snapshot.take(&part, Timestamp::MIN)
        };
        assert_eq!(spoilt(|_| {}), Some(true));
        assert_eq!(spoilt(|part| part.links.truncate(1)), None);
        assert_eq!(spoilt(|part| drop(part.links.remove(0))), None);
        assert_eq!(spoilt(|part| part.links.clear()), None);
        assert_eq!(spoilt(|part| part.links[1] = Bytes::new()), None);
        assert_eq!(spoilt(|part| part.changed.history = 8), None);
        assert_eq!(spoilt(|part| part.count -= 1), None, "some have expired");
    }
}
