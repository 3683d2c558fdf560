//! An ordered list that tells the place of each of its entries, and has an index by id.
//!
//! The order is kept in blocks of at most [`BLOCK`] numbers of entries. A Fenwick tree of the lengths of the blocks (P. Fenwick, "A
//! new data structure for cumulative frequency tables", 1994) counts those before a block. So a place is found with
//! logarithmically many steps, and a change moves the numbers of one block. An entry takes about 36 bytes beside its id.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::domain::ties::TIE_KEY_BYTES;

/// How many entries a block has at most.
const BLOCK: usize = 256;
/// How many entries, or bytes of ids, are allocated at a time, so that growing copies nothing.
const CHUNK: usize = 4_096;
/// Into how many tables the index by id is divided: one that grows is copied at once.
const TABLES: usize = 256;

/// A list of entries: each a stored score and a member as the sorted set has it.
#[derive(Debug)]
pub(super) struct Ranked {
    /// Whether members begin with a tie key.
    is_prefixed: bool,
    lines: Lines,
    ids: Ids,
    by_id: Vec<HashTable<u32>>,
    hashing: DefaultHashBuilder,
    blocks: Vec<Vec<u32>>,
    /// The lengths of the blocks, as a Fenwick tree.
    lengths: Vec<u32>,
    len: usize,
}

/// An entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Listed<'a> {
    pub(super) score: i64,
    /// The number of its tie key; 0 where members have none.
    pub(super) tie_key: u64,
    pub(super) id: &'a [u8],
}

/// What an entry is ordered by: the score, the tie key, and the id.
type Key<'a> = (i64, u64, &'a [u8]);

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    score: i64,
    /// The tie key, and in the lowest byte the length of the id.
    tie: u64,
    /// Where the id begins: the number of its chunk times [`CHUNK`], and the place there.
    at: u32,
}

#[derive(Debug, Default)]
struct Lines {
    chunks: Vec<Box<[Line]>>,
    /// How many numbers were given.
    given: u32,
    /// The numbers of entries that have left.
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Ids {
    chunks: Vec<Vec<u8>>,
}

impl Lines {
    fn get(&self, number: u32) -> Line {
        self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    fn set(&mut self, number: u32, line: Line) {
        self.chunks[number as usize / CHUNK][number as usize % CHUNK] = line;
    }

    fn add(&mut self, line: Line) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.given += 1;
            self.given - 1
        });
        if number as usize / CHUNK == self.chunks.len() {
            self.chunks
                .push(vec![Line::default(); CHUNK].into_boxed_slice());
        }
        self.set(number, line);
        number
    }
}

impl Ids {
    fn get(&self, line: Line) -> &[u8] {
        let (chunk, place) = (line.at as usize / CHUNK, line.at as usize % CHUNK);
        &self.chunks[chunk][place..][..(line.tie & 0xff) as usize]
    }

    /// Adds an id, and returns where it begins.
    fn add(&mut self, id: &[u8]) -> u32 {
        let fits = |chunk: &Vec<u8>| chunk.len() + id.len() <= CHUNK;
        if !self.chunks.last().is_some_and(fits) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let index = self.chunks.len() - 1;
        let chunk = &mut self.chunks[index];
        let at = index * CHUNK + chunk.len();
        chunk.extend_from_slice(id);
        u32::try_from(at).unwrap_or(u32::MAX)
    }
}

impl Ranked {
    pub(super) fn new(is_prefixed: bool) -> Self {
        Self {
            is_prefixed,
            lines: Lines::default(),
            ids: Ids::default(),
            by_id: vec![HashTable::new(); TABLES],
            hashing: DefaultHashBuilder::default(),
            blocks: Vec::new(),
            lengths: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let tables: usize = self.by_id.iter().map(HashTable::capacity).sum();
        self.lines.chunks.len() * CHUNK * size_of::<Line>()
            + self.ids.chunks.len() * CHUNK
            + self.blocks.len() * (BLOCK * size_of::<u32>() + size_of::<Vec<u32>>())
            + tables * (size_of::<u32>() + 1)
    }

    /// A member as the sorted set has it: its tie key and its id.
    fn split<'a>(&self, member: &'a [u8]) -> (u64, &'a [u8]) {
        if !self.is_prefixed {
            return (0, member);
        }
        let (tie, id) = member.split_at(member.len().min(TIE_KEY_BYTES));
        let mut bytes = [0; 8];
        bytes[..tie.len()].copy_from_slice(tie);
        (u64::from_be_bytes(bytes), id)
    }

    fn key(&self, number: u32) -> Key<'_> {
        let line = self.lines.get(number);
        (line.score, line.tie & !0xff, self.ids.get(line))
    }

    fn listed(&self, number: u32) -> Listed<'_> {
        let (score, tie, id) = self.key(number);
        Listed {
            score,
            tie_key: tie >> 8,
            id,
        }
    }

    /// The member of an entry, as the sorted set has it.
    pub(super) fn member(&self, entry: Listed<'_>) -> Vec<u8> {
        let tie = &(entry.tie_key << 8).to_be_bytes()[..TIE_KEY_BYTES];
        let tie = if self.is_prefixed { tie } else { &[] };
        [tie, entry.id].concat()
    }

    fn table(&self, hash: u64) -> usize {
        usize::try_from(hash >> 56).unwrap_or_default() % TABLES
    }

    fn find(&self, id: &[u8]) -> Option<u32> {
        let hash = self.hashing.hash_one(id);
        let is_it = |number: &u32| self.ids.get(self.lines.get(*number)) == id;
        self.by_id[self.table(hash)].find(hash, is_it).copied()
    }

    /// Sets the entry of a member, or adds it.
    pub(super) fn put(&mut self, score: i64, member: &[u8]) {
        let (tie, id) = self.split(member);
        let known = self.find(id);
        let line = if let Some(number) = known {
            self.take_out(number);
            self.lines.get(number)
        } else {
            let at = self.ids.add(id);
            Line {
                at,
                ..Line::default()
            }
        };
        let line = Line {
            score,
            tie: tie | id.len() as u64 & 0xff,
            ..line
        };
        let number = if let Some(number) = known {
            self.lines.set(number, line);
            number
        } else {
            let number = self.lines.add(line);
            let hash = self.hashing.hash_one(id);
            let table = self.table(hash);
            let Self {
                by_id,
                lines,
                ids,
                hashing,
                ..
            } = self;
            let hash_of = |number: &u32| hashing.hash_one(ids.get(lines.get(*number)));
            by_id[table].insert_unique(hash, number, hash_of);
            number
        };
        self.put_in(number);
    }

    /// Removes the entry of a member, if there is one.
    pub(super) fn remove(&mut self, id: &[u8]) {
        let Some(number) = self.find(id) else {
            return;
        };
        self.take_out(number);
        let hash = self.hashing.hash_one(id);
        let table = self.table(hash);
        if let Ok(found) = self.by_id[table].find_entry(hash, |one| *one == number) {
            found.remove();
        }
        self.lines.free.push(number);
    }

    /// The block in which an entry with this key is, or would be.
    fn block_of(&self, key: Key<'_>) -> usize {
        let after = self
            .blocks
            .partition_point(|block| self.key(block[0]) <= key);
        after.saturating_sub(1)
    }

    fn place_in(&self, block: usize, key: Key<'_>) -> usize {
        self.blocks[block].partition_point(|number| self.key(*number) < key)
    }

    fn put_in(&mut self, number: u32) {
        self.len += 1;
        if self.blocks.is_empty() {
            let mut first = Vec::with_capacity(BLOCK);
            first.push(number);
            self.blocks.push(first);
            self.lengths = vec![1];
            return;
        }
        let key = self.key(number);
        let block = self.block_of(key);
        let place = self.place_in(block, key);
        self.blocks[block].insert(place, number);
        if self.blocks[block].len() < BLOCK {
            self.add_length(block, 1);
            return;
        }
        // A list that is filled in order has full blocks.
        let is_last = block + 1 == self.blocks.len() && place + 1 == BLOCK;
        let at = if is_last { BLOCK - 1 } else { BLOCK / 2 };
        let mut second = Vec::with_capacity(BLOCK);
        second.extend(self.blocks[block].drain(at..));
        self.blocks.insert(block + 1, second);
        self.count_lengths();
    }

    fn take_out(&mut self, number: u32) {
        let key = self.key(number);
        let block = self.block_of(key);
        let place = self.place_in(block, key);
        self.blocks[block].remove(place);
        self.len -= 1;
        if self.blocks[block].is_empty() {
            self.blocks.remove(block);
            self.count_lengths();
        } else {
            self.add_length(block, u32::MAX);
        }
    }

    fn count_lengths(&mut self) {
        let lengths = self.blocks.iter();
        self.lengths = lengths
            .map(|block| u32::try_from(block.len()).unwrap_or(u32::MAX))
            .collect();
        for index in 1..=self.lengths.len() {
            let parent = index + (index & index.wrapping_neg());
            if parent <= self.lengths.len() {
                self.lengths[parent - 1] += self.lengths[index - 1];
            }
        }
    }

    fn add_length(&mut self, block: usize, change: u32) {
        let mut index = block + 1;
        while index <= self.lengths.len() {
            self.lengths[index - 1] = self.lengths[index - 1].wrapping_add(change);
            index += index & index.wrapping_neg();
        }
    }

    /// How many entries are in blocks before this one.
    fn before_block(&self, block: usize) -> usize {
        let (mut index, mut sum) = (block, 0);
        while index > 0 {
            sum += self.lengths[index - 1] as usize;
            index &= index - 1;
        }
        sum
    }

    /// The block of a position, and the place there.
    fn at(&self, position: usize) -> (usize, usize) {
        let (mut index, mut left) = (0, position);
        let mut step = self.lengths.len().next_power_of_two();
        while step > 0 {
            if let Some(length) = self.lengths.get(index + step - 1)
                && *length as usize <= left
            {
                left -= *length as usize;
                index += step;
            }
            step /= 2;
        }
        (index, left)
    }

    fn position_of_key(&self, key: Key<'_>) -> usize {
        if self.blocks.is_empty() {
            return 0;
        }
        let block = self.block_of(key);
        self.before_block(block) + self.place_in(block, key)
    }

    /// How many entries have a smaller score.
    pub(super) fn position_of_score(&self, score: i64) -> usize {
        self.position_of_key((score, 0, b""))
    }

    /// The position and the entry of an id; `None` if it has none.
    pub(super) fn of_id(&self, id: &[u8]) -> Option<(usize, Listed<'_>)> {
        let number = self.find(id)?;
        Some((self.position_of_key(self.key(number)), self.listed(number)))
    }

    /// Up to `count` entries from a position on.
    pub(super) fn entries(&self, from: usize, count: usize) -> impl Iterator<Item = Listed<'_>> {
        let (block, place) = self.at(from);
        let first = self.blocks.get(block).into_iter();
        let first = first.flat_map(move |numbers| numbers.iter().skip(place));
        let rest = self.blocks.iter().skip(block + 1).flatten();
        first
            .chain(rest)
            .take(count)
            .map(|number| self.listed(*number))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use proptest::prelude::*;

    use super::*;

    fn member(is_prefixed: bool, tie: u8, id: u16) -> Vec<u8> {
        let tie: &[u8] = if is_prefixed {
            &[0, 0, 0, 0, 0, 0, tie]
        } else {
            &[]
        };
        [tie, format!("m{id}").as_bytes()].concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_equals_a_sorted_set_after_any_changes(
            is_prefixed: bool,
            ids in 1_u16..3_000,
            changes in proptest::collection::vec((0_u16..3_000, -20_i64..20, 0_u8..4, 0_u8..10), 0..4_000),
        ) {
            let mut list = Ranked::new(is_prefixed);
            let (mut sorted, mut known) = (BTreeSet::new(), HashMap::new());
            for (id, score, tie, kind) in changes {
                let id = id % ids;
                if let Some(old) = known.remove(&id) {
                    sorted.remove(&old);
                }
                if kind == 0 {
                    list.remove(format!("m{id}").as_bytes());
                    continue;
                }
                let member = member(is_prefixed, tie, id);
                list.put(score, &member);
                sorted.insert((score, member.clone()));
                known.insert(id, (score, member));
            }
            prop_assert_eq!(list.len(), sorted.len());
            let entry = |entry: Listed<'_>| (entry.score, list.member(entry));
            let all: Vec<_> = list.entries(0, usize::MAX).map(entry).collect();
            prop_assert_eq!(&all, &sorted.iter().cloned().collect::<Vec<_>>());
            for (position, (score, member)) in sorted.iter().enumerate().step_by(7) {
                let id = &member[if is_prefixed { TIE_KEY_BYTES } else { 0 }..];
                let found = list.of_id(id).map(|(position, found)| (position, entry(found)));
                prop_assert_eq!(found, Some((position, (*score, member.clone()))));
                let part: Vec<_> = list.entries(position, 3).map(entry).collect();
                prop_assert_eq!(&part[..], &all[position..sorted.len().min(position + 3)]);
            }
            for score in -21..21 {
                let before = sorted.iter().filter(|entry| entry.0 < score).count();
                prop_assert_eq!(list.position_of_score(score), before);
            }
        }
    }
}
