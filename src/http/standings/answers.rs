//! The answers about standings.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::score::{Decimals, ShownScore};
use crate::domain::time::Timestamp;
use crate::service::member::{FoundMember, MemberView};
use crate::service::page::{FoundPage, PageView};
use crate::service::period::Target;
use crate::service::standing::FoundIn;
use crate::service::stats::FoundStats;
use crate::service::subset::FoundSubset;
use crate::store::standings::Entry;

/// One line of a standing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Entry)]
pub struct EntryBody {
    /// From 1, as the board's `ranking` counts; null behind the last that the board's `keep_top` lists.
    #[schema(example = 1)]
    pub rank: Option<u64>,
    /// Who.
    #[schema(value_type = String, example = "999")]
    pub member: Arc<str>,
    /// How much.
    #[schema(value_type = f64, example = 30)]
    pub score: ShownScore,
    /// When that score was reached; not there on boards with `ties: member`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime, example = "2026-11-21T00:30:00.000Z")]
    pub reached_at: Option<Timestamp>,
    /// About how many distinct voters its events in this standing came from; only on boards with
    /// `uniques: member`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false, example = 12)]
    pub voters: Option<u64>,
}

/// Which standing an answer is about.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Standing)]
pub struct StandingBody {
    /// The board.
    #[schema(example = "run_hero")]
    pub board: String,
    /// The window.
    #[schema(example = "day")]
    pub window: String,
    /// The period, by its key; of a rolling window the newest one in it.
    #[schema(example = "2026-11-21")]
    pub key: String,
    /// Where the standing begins; null for `all`.
    #[schema(format = DateTime, example = "2026-11-20T16:00:00Z")]
    pub starts_at: Option<String>,
    /// Where it ends; null for `all`.
    #[schema(format = DateTime, example = "2026-11-21T16:00:00Z")]
    pub ends_at: Option<String>,
}

/// A page of a standing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Page)]
pub struct PageBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members it has, also those that `keep_top` does not list.
    #[schema(example = 1234)]
    pub total: u64,
    /// How many entries all pages have together: as many as `total`, unless `keep_top` cuts the list, or `from_score` and
    /// `to_score` do.
    #[schema(example = 1000)]
    pub listed: u64,
    /// The page, from 1; not there with `around_score`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub page: Option<u64>,
    /// Entries per page.
    pub size: u64,
    /// The entries, in order; none behind the last page.
    pub entries: Vec<EntryBody>,
    /// The entry of the member that was named; null if none was or it is not in the standing.
    pub me: Option<EntryBody>,
}

/// A neighbour, and how far away it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Neighbour)]
pub struct NeighbourBody {
    /// Its rank.
    pub rank: Option<u64>,
    /// Who.
    #[schema(value_type = String)]
    pub member: Arc<str>,
    /// Its score.
    #[schema(value_type = f64, example = 33)]
    pub score: ShownScore,
    /// The distance of the two scores; never negative.
    #[schema(value_type = f64, minimum = 0, example = 3)]
    pub gap: ShownScore,
}

/// Where a member stood the period before.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Previous)]
pub struct PreviousBody {
    /// The period, by its key.
    pub key: String,
    /// Its rank then; null behind the last that was listed.
    pub rank: Option<u64>,
    /// Its score then.
    #[schema(value_type = f64, example = 18)]
    pub score: ShownScore,
    /// How many ranks it has gained since; negative if it has lost, null if it has none now or had none then.
    pub rank_change: Option<i64>,
    /// How much its score differs from then.
    #[schema(value_type = f64, example = 12)]
    pub score_change: ShownScore,
}

/// A member of a standing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Member)]
pub struct MemberBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members the standing has, also those that `keep_top` does not list.
    #[schema(example = 1234)]
    pub total: u64,
    /// Its entry.
    #[serde(flatten)]
    pub entry: EntryBody,
    /// How many of the others are behind it, in percent with one decimal; 100 for a member alone, null behind the last
    /// that is listed.
    #[schema(minimum = 0, maximum = 100, example = 99.5)]
    pub percentile: Option<f64>,
    /// The next better; null for the first. Behind the last that is listed: that one.
    pub ahead: Option<NeighbourBody>,
    /// The next worse; null for the last.
    pub behind: Option<NeighbourBody>,
    /// With `around`: up to so many before it, itself, and up to so many after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<EntryBody>, required = false)]
    pub around: Option<Vec<EntryBody>>,
    /// Where it stood the period before; null if it was not listed.
    pub previous: Option<PreviousBody>,
}

/// A line of a subset.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SubsetEntry)]
pub struct SubsetEntryBody {
    /// The place in the set, from 1.
    pub position: usize,
    /// The entry on the board.
    #[serde(flatten)]
    pub entry: EntryBody,
}

/// The entry at a percentile of a standing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AtPercentile)]
pub struct PercentileBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members the standing has, also those that `keep_top` does not list.
    #[schema(example = 1234)]
    pub total: u64,
    /// What was asked for.
    #[schema(value_type = f64, minimum = 0, maximum = 100, example = 90)]
    pub percentile: ShownScore,
    /// The last entry that is ahead of so many percent of the others; null if nobody is there, or nobody who is listed.
    #[schema(required = true)]
    pub entry: Option<EntryBody>,
}

/// Some members of a standing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Subset)]
pub struct SubsetBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members the standing has, also those that `keep_top` does not list.
    #[schema(example = 1234)]
    pub total: u64,
    /// Those who are in it, in order.
    pub entries: Vec<SubsetEntryBody>,
    /// Those who are not.
    pub not_found: Vec<String>,
}

/// What a standing amounts to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stats)]
pub struct StatsBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members it has.
    #[schema(example = 3)]
    pub members: u64,
    /// About how many distinct voters its events came from, with a standard error of 0.81 %. This and what follows is
    /// null on boards without `uniques`.
    #[schema(example = 120)]
    pub voters: Option<u64>,
    /// How many events were taken in its periods.
    #[schema(example = 350)]
    pub events: Option<u64>,
    /// The sum of the scores of all its members.
    #[schema(value_type = Option<f64>, example = 350)]
    pub score_sum: Option<ShownScore>,
}

impl EntryBody {
    pub(super) fn new(entry: &Entry, decimals: Decimals, voters: Option<u64>) -> Self {
        Self {
            rank: entry.rank,
            member: Arc::clone(&entry.member),
            score: entry.score.shown(decimals),
            reached_at: entry.reached_at,
            voters,
        }
    }
}

impl StandingBody {
    pub(super) fn new(board: &str, target: &Target) -> Self {
        Self {
            board: board.to_owned(),
            window: target.window.to_string(),
            key: target.key.clone(),
            starts_at: target.starts_at.map(Timestamp::to_rfc3339_seconds),
            ends_at: target.ends_at.map(Timestamp::to_rfc3339_seconds),
        }
    }
}

impl PageBody {
    pub(super) fn new(view: &PageView, found: &FoundIn<FoundPage>) -> Self {
        let board = &found.live.board;
        let FoundPage { page, voters } = &found.found;
        let decimals = board.definition.decimals;
        let mut lines = page.entries.iter().chain(&page.me).enumerate();
        let line =
            |(index, entry): (usize, &Entry)| EntryBody::new(entry, decimals, voters.of(index));
        let entries = lines.by_ref().take(page.entries.len()).map(line).collect();
        Self {
            standing: StandingBody::new(board.id.as_str(), &found.target),
            total: page.total,
            listed: page.listed,
            page: view.number(),
            size: view.size,
            entries,
            me: lines.next().map(line),
        }
    }
}

impl MemberBody {
    pub(super) fn new(view: &MemberView, found: &FoundIn<FoundMember>) -> Self {
        let board = &found.live.board;
        let decimals = board.definition.decimals;
        let FoundMember {
            previous,
            neighbourhood: around,
            voters,
        } = &found.found;
        let own = &around.entries[around.index];
        let line =
            |index: usize| EntryBody::new(&around.entries[index], decimals, voters.of(index));
        let neighbour = |entry: &Entry| {
            let (greater, smaller) = (own.score.max(entry.score), own.score.min(entry.score));
            NeighbourBody {
                rank: entry.rank,
                member: Arc::clone(&entry.member),
                score: entry.score.shown(decimals),
                gap: ShownScore::difference(greater, smaller, decimals),
            }
        };
        let ahead = around
            .index
            .checked_sub(1)
            .and_then(|index| around.entries.get(index));
        let behind = around.entries.get(around.index + 1);
        let listed = view.around.map(|count| {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let from = around.index.saturating_sub(count);
            let to = around
                .index
                .saturating_add(count)
                .saturating_add(1)
                .min(around.entries.len());
            (from..to).map(line).collect()
        });
        let previous = previous
            .as_ref()
            .zip(around.previous)
            .map(|(target, (rank, score))| PreviousBody {
                key: target.key.clone(),
                rank,
                score: score.shown(decimals),
                rank_change: rank
                    .zip(own.rank)
                    .map(|(rank, own)| rank.cast_signed() - own.cast_signed()),
                score_change: ShownScore::difference(own.score, score, decimals),
            });
        Self {
            standing: StandingBody::new(board.id.as_str(), &found.target),
            total: around.total,
            entry: line(around.index),
            percentile: around
                .ordinal_rank
                .map(|rank| percentile(around.total, rank)),
            ahead: ahead.map(neighbour),
            behind: behind.map(neighbour),
            around: listed,
            previous,
        }
    }
}

impl PercentileBody {
    pub(super) fn new(percentile: ShownScore, found: &FoundIn<FoundPage>) -> Self {
        let board = &found.live.board;
        let FoundPage { page, voters } = &found.found;
        let decimals = board.definition.decimals;
        let entry = page.entries.first();
        Self {
            standing: StandingBody::new(board.id.as_str(), &found.target),
            total: page.total,
            percentile,
            entry: entry.map(|entry| EntryBody::new(entry, decimals, voters.of(0))),
        }
    }
}

impl SubsetBody {
    pub(super) fn new(found: &FoundIn<FoundSubset>) -> Self {
        let board = &found.live.board;
        let decimals = board.definition.decimals;
        let FoundSubset {
            total,
            entries,
            voters,
            not_found,
        } = &found.found;
        let lines = entries.iter().enumerate();
        let lines = lines.map(|(index, entry)| SubsetEntryBody {
            position: index + 1,
            entry: EntryBody::new(entry, decimals, voters.of(index)),
        });
        Self {
            standing: StandingBody::new(board.id.as_str(), &found.target),
            total: *total,
            entries: lines.collect(),
            not_found: not_found.iter().map(ToString::to_string).collect(),
        }
    }
}

impl StatsBody {
    pub(super) fn new(found: &FoundIn<FoundStats>) -> Self {
        let board = &found.live.board;
        let FoundStats { amounts, voters } = &found.found;
        let is_counted = board.definition.uniques.is_some();
        let score_sum = ShownScore::sum(amounts.score_sum, board.definition.decimals);
        Self {
            standing: StandingBody::new(board.id.as_str(), &found.target),
            members: amounts.members,
            voters: *voters,
            events: is_counted.then_some(amounts.events),
            score_sum: is_counted.then_some(score_sum),
        }
    }
}

/// 100 · (total − rank) / (total − 1), rounded to one decimal, half up; 100 for a member alone.
fn percentile(total: u64, rank: u64) -> f64 {
    let others = total.saturating_sub(1);
    if others == 0 {
        return 100.0;
    }
    let behind = total.saturating_sub(rank);
    let tenths = (behind * 2_000 + others) / (others * 2);
    f64::from(u32::try_from(tenths).unwrap_or(1_000)) / 10.0
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_have_one_decimal() {
        let exactly = |total, rank, expected: f64| {
            assert!(
                (percentile(total, rank) - expected).abs() < f64::EPSILON,
                "{total} {rank}"
            );
        };
        exactly(1, 1, 100.0);
        exactly(2, 1, 100.0);
        exactly(2, 2, 0.0);
        exactly(3, 2, 50.0);
        exactly(1234, 7, 99.5);
        exactly(7, 2, 83.3);
    }
}
