//! Finds where a deep page begins, in a few rounds, by selection from samples: every shard returns some entries, evenly
//! spread over the range in question. These bound the positions of all entries, and leave a smaller range.

use super::merge::Merged;
use super::store::standings::{Question, SortKey, Spread};
use crate::core::Error;

/// How many entries each shard returns in a round of the search.
const SAMPLES: u64 = 16;
/// A search ends with an entry at most this far before the page. The entries in between are read unnecessarily.
pub(super) const SKIP_MAX: u64 = 64;
/// The maximum number of rounds of a search; each leaves about a tenth of the range.
const ROUNDS_MAX: usize = 24;

/// The range of a shard's list in which a page begins, by positions.
#[derive(Clone, Copy, Debug)]
struct ShardRange {
    from: u64,
    to: u64,
}

/// A sample: its sort key, its shard and its position there.
type Sample = (SortKey, usize, u64);

impl Merged<'_> {
    /// A mark at most [`SKIP_MAX`] before the position `offset`.
    pub(super) async fn begin_of(&self, offset: u64) -> Result<SortKey, Error> {
        let mut begin = SortKey::FIRST;
        if offset <= SKIP_MAX {
            return Ok(begin);
        }
        let everything = ShardRange {
            from: 0,
            to: u64::MAX >> 12,
        };
        let mut ranges = vec![everything; self.shards.len()];
        for _ in 0..ROUNDS_MAX {
            let questions = ranges.iter().map(|range| Question::Spread {
                from: range.from,
                to: range.to,
                count: SAMPLES,
            });
            let spreads: Vec<Spread> = self.ask_each(questions).await?;
            for (range, spread) in ranges.iter_mut().zip(&spreads) {
                range.to = range.to.min(spread.listed).max(range.from);
            }
            if let Some(mark) = narrow(&mut ranges, &spreads, offset) {
                begin = begin.max(mark);
            } else {
                break;
            }
            let position: u64 = ranges.iter().map(|range| range.from).sum();
            if offset.saturating_sub(position) <= SKIP_MAX {
                break;
            }
        }
        Ok(begin)
    }
}

/// Narrows each shard's range to where, by the samples, the position `offset` can be. Returns the last sample that is known
/// not to be after that position, at which all ranges then begin; `None` if there is none.
fn narrow(ranges: &mut [ShardRange], spreads: &[Spread], offset: u64) -> Option<SortKey> {
    let mut samples: Vec<Sample> = Vec::new();
    for (shard, spread) in spreads.iter().enumerate() {
        let marks = spread.entries.iter();
        samples.extend(marks.map(|(position, mark)| (mark.clone(), shard, *position)));
    }
    samples.sort_unstable();
    // Up to where each shard's entries are certainly before the current sample: after its last sample, …
    let mut ahead: Vec<u64> = ranges.iter().map(|range| range.from).collect();
    // … and up to where they may be before it: its next samples, the nearest last.
    let mut next: Vec<Vec<u64>> = spreads
        .iter()
        .zip(&*ranges)
        .map(|(spread, range)| {
            let positions = spread.entries.iter().rev().map(|(position, _)| *position);
            std::iter::once(range.to).chain(positions).collect()
        })
        .collect();
    let mut begin = None;
    let mut end = None;
    for (mark, shard, position) in samples {
        next[shard].pop();
        ahead[shard] = position;
        let at_most = |other: usize| {
            next[other]
                .last()
                .copied()
                .filter(|_| other != shard)
                .unwrap_or(position)
        };
        let highest: u64 = (0..ranges.len()).map(at_most).sum();
        let lowest: u64 = ahead.iter().sum();
        if highest <= offset {
            begin = Some((mark, ahead.clone()));
        } else if lowest > offset && end.is_none() {
            end = Some((0..ranges.len()).map(at_most).collect::<Vec<u64>>());
        }
        ahead[shard] = position + 1;
    }
    for (range, to) in ranges.iter_mut().zip(end.into_iter().flatten()) {
        range.to = range.to.min(to);
    }
    let (mark, from) = begin?;
    for (range, from) in ranges.iter_mut().zip(from) {
        range.from = from;
    }
    Some(mark)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn mark((score, member): (i64, u16)) -> SortKey {
        let member = Bytes::copy_from_slice(&member.to_be_bytes());
        SortKey { score, member }
    }

    /// Some positions of a list, evenly spread, as `scripts/core/read/read.lua` chooses them.
    fn spread(list: &[SortKey], range: ShardRange, count: u64) -> Spread {
        let listed = list.len() as u64;
        let (from, to) = (range.from, range.to.min(listed));
        let length = to.saturating_sub(from);
        let step = length.div_ceil(count).max(1);
        let positions = (from..to).step_by(usize::try_from(step).unwrap());
        let at = |position| (position, list[usize::try_from(position).unwrap()].clone());
        Spread {
            listed,
            entries: positions.map(at).collect(),
        }
    }

    proptest! {
        /// However the entries are spread over shards, each round keeps the wanted position in every range, and what it
        /// returns is not after that position.
        #[test]
        fn narrowing_never_loses_the_position(
            entries in vec((vec((-3_i64..3, any::<u16>()), 0..40), 1..5_usize), 1..4),
            offset in 0_u64..120,
            samples in 1_u64..6,
        ) {
            let mut lists: Vec<Vec<SortKey>> = entries
                .into_iter()
                .map(|(entries, _)| entries.into_iter().map(mark).collect())
                .collect();
            for list in &mut lists {
                list.sort_unstable();
            }
            let mut all: Vec<(&SortKey, usize)> = Vec::new();
            for (shard, list) in lists.iter().enumerate() {
                all.extend(list.iter().map(|mark| (mark, shard)));
            }
            all.sort_unstable();
            // How many entries of each shard are before the position.
            let ahead = all.iter().take(usize::try_from(offset).unwrap());
            let mut cut = vec![0_u64; lists.len()];
            for (_, shard) in ahead {
                cut[*shard] += 1;
            }
            let mut ranges: Vec<ShardRange> = lists
                .iter()
                .map(|list| ShardRange { from: 0, to: list.len() as u64 })
                .collect();
            for _ in 0..8 {
                let spreads: Vec<Spread> = lists
                    .iter()
                    .zip(&ranges)
                    .map(|(list, range)| spread(list, *range, samples))
                    .collect();
                let begin = narrow(&mut ranges, &spreads, offset);
                for (range, cut) in ranges.iter().zip(&cut) {
                    prop_assert!(range.from <= *cut && *cut <= range.to.max(range.from));
                }
                let from: u64 = ranges.iter().map(|range| range.from).sum();
                prop_assert!(from <= offset);
                let Some(begin) = begin else { break };
                let position = all.iter().filter(|(mark, _)| **mark < begin).count() as u64;
                prop_assert!(position <= offset);
            }
        }
    }
}
