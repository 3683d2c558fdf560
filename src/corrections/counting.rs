//! Which standings a correction changes, and what rows add to them.

use crate::core::write::store::events::{RowArgs, StoredRow};
use crate::domain::board::Board;
use crate::domain::period::Period;
use crate::domain::plan::stretch;
use crate::domain::series::{Derived, List, Standing, Track};
use crate::domain::time::Timestamp;

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
    /// The periods in which the event was counted as one of a voter.
    pub(super) turnouts: Vec<Period>,
    /// Rows may count in these standings that are of an instant from the first on and before the second.
    pub(super) between: [Option<Timestamp>; 2],
}

impl Concerned {
    /// What a change of this row changes.
    pub(super) fn by(board: &Board, row: &StoredRow) -> Self {
        let writes = row.details.writes(board, row.at);
        let mut standings: Vec<Counted> = Vec::new();
        for write in writes {
            if standings
                .iter()
                .all(|known| known.standing != write.standing)
            {
                standings.push(Counted {
                    standing: write.standing,
                    expires_at_ms: write.expires_at_ms,
                });
            }
        }
        let own = |counted: &Counted| {
            let Standing { series, period, .. } = counted.standing;
            let is_own = matches!(series.list, List::Period(_)) && period.contains(row.at);
            (is_own && board.definition.uniques.is_some()).then_some(period)
        };
        let mut turnouts: Vec<Period> = standings.iter().filter_map(own).collect();
        turnouts.dedup();
        Self {
            following: board
                .derived()
                .filter_map(|derived| Following::of(board, derived, &standings))
                .collect(),
            between: between(board, &standings),
            turnouts,
            standings,
        }
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
        let (first, last) = (*periods.first()?, *periods.last()?);
        let calendar = &board.calendar;
        let further = usize::from(derived.periods) - 1;
        // A standing that is being built from the one before still depends on the period that leaves it.
        let newest = std::iter::successors(Some(last), |period| calendar.next(period))
            .take(2 + further)
            .last()
            .unwrap_or(last);
        let between = usize::from(first != last);
        let all = derived.periods.saturating_mul(2);
        let all = all.saturating_add(u16::try_from(between).unwrap_or_default());
        Some(Self {
            derived,
            starts: periods.iter().map(|period| period.start_ms).collect(),
            periods: stretch(board, newest, all),
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
