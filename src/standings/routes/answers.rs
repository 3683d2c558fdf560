//! Response bodies of reads of standings.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::in_league::InLeagueBody;
use crate::core::LiveBoard;
use crate::core::read::period::Target;
use crate::core::read::store::standings::Entry;
use crate::core::read::voters::Voters;
use crate::domain::data::EntryData;
use crate::domain::edition::Edition;
use crate::domain::ids::shown_member;
use crate::domain::profile::{Profile, ShownProfile};
use crate::domain::score::ShownScore;
use crate::domain::state::PeriodState;
use crate::domain::time::{Timestamp, seconds};
use crate::standings::member::{FoundMember, MemberView};
use crate::standings::page::{FoundPage, PageView};
use crate::standings::standing::FoundIn;
use crate::standings::stats::FoundStats;
use crate::standings::subset::FoundSubset;

/// One line of a standing.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Entry)]
pub struct EntryBody {
    /// The rank, from 1, as the board's `ranking` counts; null for a member that `keep_top` does not list.
    pub rank: Option<u64>,
    /// The member; null if it was erased and the standing is final.
    pub member: Option<Arc<str>>,
    /// The member's score.
    pub score: ShownScore,
    /// When the member reached this score; missing on boards with `ties: member`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime)]
    pub reached_at: Option<Timestamp>,
    /// About how many distinct voters the member's events in this standing came from; only on boards with
    /// `uniques: member`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub voters: Option<u64>,
    /// With `include=profile`: the member's name, picture and attributes; null if the member has no profile, or if the board
    /// does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Profile>, required = false)]
    pub profile: Option<Option<ShownProfile>>,
    /// With `include=data`: the data of the event that gave the member this `reached_at`; null if it has none, or if the
    /// board has no `entry_data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, required = false)]
    pub data: Option<Option<EntryData>>,
    /// With `hidden=include`: `true` for a hidden member.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = bool, required = false)]
    pub hidden: bool,
    /// In a message of a stream: the rank in the stream's previous message; null if the member was not in it, and in the
    /// very first message. New subscribers may have missed that previous message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, required = false)]
    pub previous_rank: Option<Option<u64>>,
}

/// Which standing an answer is about.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Standing)]
pub struct StandingBody {
    /// The board.
    pub board: String,
    /// The window.
    pub window: String,
    /// The key of the period; for a rolling window the newest period in it.
    pub key: String,
    /// The cohort, on a board with a league.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub cohort: Option<String>,
    /// When the standing begins; null for `all`.
    #[serde(serialize_with = "seconds")]
    pub starts_at: Option<Timestamp>,
    /// When the standing ends; null for `all`.
    #[serde(serialize_with = "seconds")]
    pub ends_at: Option<Timestamp>,
    /// `upcoming` before it begins, `live` until its end, then `closing` if it becomes final by itself and otherwise
    /// `ended`, and `final` once no event can change it any more. Missing if the response is from a replica that can't know
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PeriodState, required = false)]
    pub state: Option<PeriodState>,
    /// The revision of the standing: it stays the same as long as the standing does. Treat it as opaque: compare it, and
    /// send it as `min_revision`. Missing if nothing was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub revision: Option<String>,
}

/// A page of a standing.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Page)]
pub struct PageBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members the standing has, including those that `keep_top` does not list.
    pub total: u64,
    /// How many entries all pages have in total. It equals `total`, unless `keep_top`, or `from_score` and `to_score`, limit
    /// the list.
    pub listed: u64,
    /// The number of the page, from 1; missing with `around_score`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub page: Option<u64>,
    /// The maximum number of entries on a page.
    pub size: u64,
    /// The entries in order. After the last page the list is empty.
    pub entries: Vec<EntryBody>,
    /// The entry of the member that the request names; null if it names none, or if that member is not in the standing.
    pub me: Option<EntryBody>,
}

/// A neighbour of a member, and the difference between their scores.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Neighbour)]
pub struct NeighbourBody {
    /// The neighbour's rank; null for a member that `keep_top` does not list.
    pub rank: Option<u64>,
    /// The member; null if it was erased and the standing is final.
    pub member: Option<Arc<str>>,
    /// The neighbour's score.
    pub score: ShownScore,
    /// The difference of the two scores; never negative.
    #[schema(value_type = f64, minimum = 0)]
    pub gap: ShownScore,
    /// The neighbour's profile, as in an entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Profile>, required = false)]
    pub profile: Option<Option<ShownProfile>>,
    /// With `hidden=include`: `true` for a hidden member.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = bool, required = false)]
    pub hidden: bool,
}

/// A member's place in the previous period.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Previous)]
pub struct PreviousBody {
    /// The key of that period.
    pub key: String,
    /// The member's rank then; null if `keep_top` did not list it.
    pub rank: Option<u64>,
    /// The member's score then.
    pub score: ShownScore,
    /// How many ranks the member has gained since then; negative if it has lost some, null if it has no rank now or had none
    /// then.
    pub rank_change: Option<i64>,
    /// How much the member's score has grown since then; negative if it has fallen.
    pub score_change: ShownScore,
}

/// A member of a standing.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Member)]
pub struct MemberBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members the standing has, including those that `keep_top` does not list.
    pub total: u64,
    /// Its entry.
    #[serde(flatten)]
    pub entry: EntryBody,
    /// The percentage of the other members that do not have a better rank, with one decimal; 100 if there are no others,
    /// null for a member that `keep_top` does not list. Members with equal ranks have equal percentiles.
    #[schema(minimum = 0, maximum = 100)]
    pub percentile: Option<f64>,
    /// The next better member; null for the first. For a member that `keep_top` does not list: the last listed one.
    pub ahead: Option<NeighbourBody>,
    /// The next worse member; null for the last.
    pub behind: Option<NeighbourBody>,
    /// With `around`: up to that many entries before the member's, its own, and up to that many after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<EntryBody>, required = false)]
    pub around: Option<Vec<EntryBody>>,
    /// The member's place in the previous period; null if it was not in that standing. Also null in a league, where the
    /// previous period was played in another cohort: see `league.last`.
    pub previous: Option<PreviousBody>,
    /// The member's place in the league; only on a board with a league.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = InLeagueBody, required = false)]
    pub league: Option<InLeagueBody>,
}

/// A line of a subset.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = SubsetEntry)]
pub struct SubsetEntryBody {
    /// The rank among the members of the subset, from 1. With `ranking` `competition` or `dense`, equal members have the
    /// same position.
    pub position: u64,
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
    /// How many members the standing has, including those that `keep_top` does not list.
    pub total: u64,
    /// The percentile of the request.
    #[schema(value_type = f64, minimum = 0, maximum = 100)]
    pub percentile: ShownScore,
    /// The last listed entry with at least this percentile; null if no member is listed.
    pub entry: Option<EntryBody>,
}

/// Some members of a standing.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Subset)]
pub struct SubsetBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members the standing has, including those that `keep_top` does not list.
    pub total: u64,
    /// The entries of the members that are in the standing, in order.
    pub entries: Vec<SubsetEntryBody>,
    /// The members that are not in the standing.
    pub not_found: Vec<String>,
}

/// Statistics of a standing.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Stats)]
pub struct StatsBody {
    /// Which standing.
    #[serde(flatten)]
    pub standing: StandingBody,
    /// How many members the standing has.
    pub members: u64,
    /// About how many distinct voters the events came from, with a standard error of 0.81 %; null on boards without
    /// `uniques`.
    pub voters: Option<u64>,
    /// How many events the board accepted in the periods of the standing; null on boards without `uniques`.
    pub events: Option<u64>,
    /// The sum of the scores of all members; null on boards without `uniques`.
    pub score_sum: Option<ShownScore>,
}

impl EntryBody {
    pub(crate) fn new<T>(found: &FoundIn<T>, entry: &Entry, voters: Option<u64>) -> Self {
        Self {
            rank: entry.rank,
            member: shown_member(Arc::clone(&entry.member)),
            score: entry.score.shown(found.live.board.definition.decimals),
            reached_at: entry.reached_at,
            voters,
            profile: found.profile(&entry.member),
            data: found.data(entry),
            hidden: found.hidden.contains(&entry.member),
            previous_rank: None,
        }
    }

    /// The bodies of these entries, in their order.
    pub(crate) fn all<'a, T>(
        found: &FoundIn<T>,
        entries: impl Iterator<Item = &'a Entry>,
        voters: &Voters,
    ) -> Vec<Self> {
        let bodies = entries
            .enumerate()
            .map(|(index, entry)| Self::new(found, entry, voters.of(index)));
        bodies.collect()
    }
}

impl StandingBody {
    /// The body that identifies a standing.
    pub fn new(live: &LiveBoard, target: &Target, state: Option<PeriodState>) -> Self {
        Self {
            board: live.board.id.to_string(),
            window: target.window.to_string(),
            key: target.key.clone(),
            cohort: target.cohort.clone(),
            starts_at: target.starts_at,
            ends_at: target.ends_at,
            state,
            revision: None,
        }
    }

    pub(crate) fn found<T>(found: &FoundIn<T>) -> Self {
        let edition = Some(&found.edition).filter(|edition| !edition.is_empty());
        Self {
            revision: edition.map(Edition::text),
            ..Self::new(&found.live, &found.target, found.state)
        }
    }
}

impl PageBody {
    pub(crate) fn new(view: &PageView, found: &FoundIn<FoundPage>) -> Self {
        let FoundPage { page, voters } = &found.found;
        let mut entries = EntryBody::all(found, page.entries.iter().chain(&page.me), voters);
        let me = page.me.as_ref().and_then(|_| entries.pop());
        Self {
            standing: StandingBody::found(found),
            total: page.total,
            listed: page.listed,
            page: view.number(),
            size: view.size,
            entries,
            me,
        }
    }
}

impl MemberBody {
    pub(crate) fn new(view: &MemberView, found: &FoundIn<FoundMember>) -> Self {
        let decimals = found.live.board.definition.decimals;
        let (around, league) = (&found.found.neighbourhood, &found.found.league);
        let (own, voters) = (&around.entries[around.index], &found.found.voters);
        let line = |index: usize| EntryBody::new(found, &around.entries[index], voters.of(index));
        let neighbour = |entry: &Entry| {
            let (greater, smaller) = (own.score.max(entry.score), own.score.min(entry.score));
            NeighbourBody {
                rank: entry.rank,
                member: shown_member(Arc::clone(&entry.member)),
                score: entry.score.shown(decimals),
                gap: ShownScore::difference(greater, smaller, decimals),
                profile: found.profile(&entry.member),
                hidden: found.hidden.contains(&entry.member),
            }
        };
        let (before, behind) = (&around.entries[..around.index], around.index + 1);
        let listed = view.around.map(|count| {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let from = around.index.saturating_sub(count);
            let to = behind.saturating_add(count).min(around.entries.len());
            (from..to).map(line).collect()
        });
        let target = found.found.previous.as_ref();
        let previous = target
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
        let standing = StandingBody::found(found);
        let is_seated = league.as_ref().is_none_or(|league| league.is_seated);
        Self {
            standing: StandingBody {
                cohort: standing.cohort.filter(|_| is_seated),
                ..standing
            },
            total: around.total,
            entry: line(around.index),
            percentile: around
                .outranked_by
                .map(|better| percentile(around.total, better)),
            ahead: before.last().map(neighbour),
            behind: around.entries.get(behind).map(neighbour),
            around: listed,
            previous,
            league: league
                .as_ref()
                .map(|league| InLeagueBody::new(found, league)),
        }
    }
}

impl PercentileBody {
    pub(crate) fn new(percentile: ShownScore, found: &FoundIn<FoundPage>) -> Self {
        let FoundPage { page, voters } = &found.found;
        Self {
            standing: StandingBody::found(found),
            total: page.total,
            percentile,
            entry: EntryBody::all(found, page.entries.iter(), voters).pop(),
        }
    }
}

impl SubsetBody {
    pub(crate) fn new(found: &FoundIn<FoundSubset>) -> Self {
        let subset = &found.found;
        let entries = EntryBody::all(found, subset.entries.iter(), &subset.voters);
        let positions = subset.positions.iter().copied();
        let lines = positions
            .zip(entries)
            .map(|(position, entry)| SubsetEntryBody { position, entry });
        Self {
            standing: StandingBody::found(found),
            total: subset.total,
            entries: lines.collect(),
            not_found: subset.not_found.iter().map(ToString::to_string).collect(),
        }
    }
}

impl StatsBody {
    pub(crate) fn new(found: &FoundIn<FoundStats>) -> Self {
        let board = &found.live.board;
        let FoundStats { amounts, voters } = &found.found;
        let is_counted = board.definition.uniques.is_some();
        let score_sum = ShownScore::sum(amounts.score_sum, board.definition.decimals);
        Self {
            standing: StandingBody::found(found),
            members: amounts.members,
            voters: *voters,
            events: is_counted.then_some(amounts.events.max(0).unsigned_abs()),
            score_sum: is_counted.then_some(score_sum),
        }
    }
}

/// The share of the other members that do not have a better rank, in percent, rounded to one decimal, half up; 100 for a member
/// alone.
fn percentile(total: u64, better: u64) -> f64 {
    let others = total.saturating_sub(1);
    if others == 0 {
        return 100.0;
    }
    let rest = others.saturating_sub(better);
    let tenths = (rest * 2_000 + others) / (others * 2);
    f64::from(u32::try_from(tenths).unwrap_or(1_000)) / 10.0
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_have_one_decimal() {
        let exactly = |total, better, expected: f64| {
            assert!(
                (percentile(total, better) - expected).abs() < f64::EPSILON,
                "{total} {better}"
            );
        };
        exactly(1, 0, 100.0);
        exactly(2, 0, 100.0);
        exactly(2, 1, 0.0);
        exactly(3, 1, 50.0);
        exactly(1234, 6, 99.5);
        exactly(7, 1, 83.3);
    }
}
