//! Which standings a correction changes, and what rows add to them.

use std::collections::BTreeMap;

use super::carrying::Change;
use crate::core::write::store::events::{RowArgs, StoredRow};
use crate::domain::board::Board;
use crate::domain::period::Period;
use crate::domain::plan::stretch;
use crate::domain::series::{Derived, List, Standing, Track};
use crate::domain::time::Timestamp;

/// How many standings a step changes at most, if it changes more than one row.
const STANDINGS_MAX: usize = 64;
/// How many periods it may read for derived standings, likewise.
const PERIODS_MAX: usize = 1_500;

/// A standing in which an event counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) standing: Standing,
    /// When it may be dropped, in milliseconds since the epoch.
    pub(super) expires_at_ms: Option<i64>,
}

impl Counted {
    /// The title of the period, if its standing has a result once it is closed.
    pub(super) fn result_title(&self, board: &Board) -> Option<String> {
        let Standing { series, period, .. } = self.standing;
        let is_shown = matches!(series.list, List::Period(_)) && series.track == Track::Shown;
        let has_result = is_shown && board.has_result(&period);
        has_result.then(|| board.section_title(&self.standing.section()))
    }
}

/// A derived series that follows.
#[derive(Clone, Debug)]
pub(super) struct Following {
    pub(super) derived: Derived,
    /// Where the periods begin whose standings are changed.
    pub(super) starts: Vec<i64>,
    /// The periods that may be in one sum with them, newest first.
    pub(super) periods: Vec<Period>,
}

/// What a correction changes.
#[derive(Clone, Debug)]
pub(super) struct Concerned {
    /// The standings of periods.
    pub(super) standings: Vec<Counted>,
    /// The derived series.
    pub(super) following: Vec<Following>,
    /// The periods in which the events were counted as those of voters, and how many count more than before there.
    pub(super) turnouts: Vec<(Period, i64)>,
    /// Rows may count in these standings that are of an instant from the first on and before the second.
    pub(super) between: [Option<Timestamp>; 2],
}

impl Concerned {
    /// What these changes change.
    pub(super) fn by(board: &Board, changes: &[Change]) -> Self {
        let mut standings: Vec<Counted> = Vec::new();
        let mut turnouts = BTreeMap::new();
        for change in changes {
            let row = &change.after;
            for write in row.details.writes(board, row.at) {
                let standing = write.standing;
                if standings.iter().all(|known| known.standing != standing) {
                    standings.push(Counted {
                        standing,
                        expires_at_ms: write.expires_at_ms,
                    });
                }
                let Standing { series, period, .. } = standing;
                let is_own = matches!(series.list, List::Period(_)) && period.contains(row.at);
                if is_own && series.track == Track::Shown && board.definition.uniques.is_some() {
                    let (_, counted) = turnouts
                        .entry((period.unit, period.start_ms))
                        .or_insert((period, 0));
                    *counted += change.counted();
                }
            }
        }
        Self {
            following: board
                .derived()
                .filter_map(|derived| Following::of(board, derived, &standings))
                .collect(),
            between: between(board, &standings),
            turnouts: turnouts.into_values().collect(),
            standings,
        }
    }

    /// Whether one step should not change so much.
    pub(super) fn is_large(&self) -> bool {
        let periods = self
            .following
            .iter()
            .map(|following| following.periods.len());
        self.standings.len() > STANDINGS_MAX || periods.sum::<usize>() > PERIODS_MAX
    }

    /// What a row adds, by the standings.
    pub(super) fn added<'a>(
        &self,
        board: &Board,
        row: &'a StoredRow,
    ) -> impl Iterator<Item = (usize, RowArgs<'a>)> {
        let place = |standing| {
            let mut known = self.standings.iter();
            known.position(|known| known.standing == standing)
        };
        row.writes(board)
            .into_iter()
            .filter_map(move |write| Some((place(write.standing)?, row.args(board, &write))))
    }
}

impl Following {
    fn of(board: &Board, derived: Derived, standings: &[Counted]) -> Option<Self> {
        let of_base = |counted: &&Counted| counted.standing.series == derived.base;
        let mut periods: Vec<Period> = standings
            .iter()
            .filter(of_base)
            .map(|counted| counted.standing.period)
            .collect();
        periods.sort_by_key(|period| period.start_ms);
        periods.dedup();
        periods.first()?;
        let calendar = &board.calendar;
        // A standing that is being built from the one before still depends on the period that leaves it.
        let further = usize::from(derived.periods);
        let mut reached: BTreeMap<i64, Period> = BTreeMap::new();
        for period in &periods {
            let newest = std::iter::successors(Some(*period), |period| calendar.next(period))
                .take(1 + further)
                .last()
                .unwrap_or(*period);
            let all = stretch(board, newest, derived.periods.saturating_mul(2));
            reached.extend(all.into_iter().map(|period| (period.start_ms, period)));
        }
        Some(Self {
            derived,
            starts: periods.iter().map(|period| period.start_ms).collect(),
            periods: reached.into_values().rev().collect(),
        })
    }
}

/// The instants of rows that may count in these standings: also in the period before, from which they may be carried over.
fn between(board: &Board, standings: &[Counted]) -> [Option<Timestamp>; 2] {
    let periods = standings.iter().map(|counted| counted.standing.period);
    let (mut first, mut end) = (i64::MAX, i64::MIN);
    for period in periods {
        let before = board.calendar.previous(&period).unwrap_or(period);
        (first, end) = (first.min(before.start_ms), end.max(period.end_ms));
    }
    [first, end].map(|ms| {
        let is_finite = (Timestamp::MIN.ms()..Timestamp::MAX.ms()).contains(&ms);
        is_finite.then(|| Timestamp::from_ms_clamped(ms))
    })
}
