//! The periods of a window, and the state of each.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use futures::FutureExt;

use super::recording::winner_of;
use super::store::{self, PeriodResult, RecordedResult, Winner};
use crate::core::board::store::boards;
use crate::core::read::merge::Merged;
use crate::core::read::period::{Choice, Target, find_window};
use crate::core::read::reader::Reader;
use crate::core::read::store::standings::{Page, Selection};
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::ids::BoardId;
use crate::domain::part::Part;
use crate::domain::period::{Period, Unit};
use crate::domain::problems::Problem;
use crate::domain::series::Track;
use crate::domain::state::{PeriodState, Seen};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::periods::closings;
use crate::periods::closings::work::periods_in;
use crate::redis::Freshness;
use crate::runtime::join::try_join_all;

/// A period of a window, as a request names it.
#[derive(Clone, Debug)]
pub struct PeriodName {
    pub board: BoardId,
    pub window: String,
    pub choice: Choice,
}

/// A period, its state and its result.
#[derive(Clone, Debug)]
pub struct FoundPeriod {
    pub target: Target,
    pub state: Option<PeriodState>,
    /// How many members it has; `None` for a whole period of a league.
    pub total: Option<u64>,
    /// Its first member.
    pub winner: Option<Winner>,
    pub result: Option<PeriodResult>,
    /// If it has a result: how many queued events the closing did not wait for.
    pub cut_off: Option<u64>,
    /// When its result was recorded, or in a league that of its last cohort.
    pub final_at: Option<Timestamp>,
    /// For a whole period of a league, which has neither members nor a winner: its cohorts.
    pub cohorts: Option<PeriodCohorts>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeriodCohorts {
    /// How many there are.
    pub all: u64,
    /// How many of them have results.
    pub with_result: u64,
}

/// Only periods after one key and before another.
pub(crate) type Between<'a> = (Option<&'a str>, Option<&'a str>);

/// The board, and up to `count` periods of a window that have data or a result, newest first.
pub(crate) async fn list_periods(
    engine: &Engine,
    id: &BoardId,
    window: &str,
    between: Between<'_>,
    count: usize,
) -> Result<(Arc<LiveBoard>, Part<FoundPeriod>), Error> {
    engine
        .with_board(id, async |live| {
            let (named, unit) = unit_of(&live, window)?;
            for (name, key) in [("after", between.0), ("before", between.1)] {
                let parsed = key.map(|key| live.board.calendar.parse_key(unit, key));
                parsed
                    .transpose()
                    .map_err(|error| Problem::invalid_parameter(name, error))?;
            }
            if live.board.is_league() {
                let periods = league_periods(engine, &live, window, between, count).await?;
                return Ok((live, periods));
            }
            let keys = keys_between(engine, &live, unit, between, count + 1).await?;
            let Part { items, next } = Part::split(keys, count, String::clone);
            let recorded = store::read_many(&engine.store, &live.board, named, &items).await?;
            let found = items
                .into_iter()
                .zip(recorded)
                .map(async |(key, recorded)| {
                    let target = target_of(engine, &live, window, &Choice::Key(key))?;
                    find_period(engine, &live, target, recorded).await
                });
            let items = try_join_all(found).await?;
            Ok((live, Part { items, next }))
        })
        .await
}

/// The newest keys of periods that have data or a result.
async fn keys_between(
    engine: &Engine,
    live: &LiveBoard,
    unit: Unit,
    (after, before): Between<'_>,
    count: usize,
) -> Result<Vec<String>, Error> {
    let bound = |key: Option<_>| key.map_or(Bound::Unbounded, Bound::Excluded);
    let newest = ((bound(before), bound(after)), true);
    let with_data = periods_in(engine, &live.shards, unit, newest, count).await?;
    let mut keys: BTreeSet<String> = with_data.into_iter().collect();
    let (store, window) = (&engine.store, Window::Period(unit));
    let finals = store::final_periods(store, &live.board, window, (after, before), count);
    keys.extend(finals.await?);
    Ok(keys.into_iter().rev().take(count).collect())
}

/// The newest periods of a league in which a member has a seat, each once.
async fn league_periods(
    engine: &Engine,
    live: &LiveBoard,
    window: &str,
    (after, before): Between<'_>,
    count: usize,
) -> Result<Part<FoundPeriod>, Error> {
    let (_, unit) = unit_of(live, window)?;
    // The names of a period's cohorts sort after its key.
    let after = after.map(|after| format!("{after}0"));
    let (mut periods, mut before) = (Vec::<FoundPeriod>::new(), before.map(str::to_owned));
    loop {
        let between = (after.as_deref(), before.as_deref());
        let names = keys_between(engine, live, unit, between, 1).await?;
        let Some(name) = names.first() else {
            return Ok(Part::last(periods));
        };
        if periods.len() == count {
            return Ok(Part {
                next: periods.last().map(|last| last.target.key.clone()),
                items: periods,
            });
        }
        let key = name.split('/').next().unwrap_or_default().to_owned();
        let target = target_of(engine, live, window, &Choice::Key(key.clone()))?;
        periods.push(find_league_period(engine, live, target).await?);
        before = Some(key);
    }
}

/// The state of a whole period of a league. It is final once all of its cohorts have results.
pub(crate) async fn find_league_period(
    engine: &Engine,
    live: &LiveBoard,
    target: Target,
) -> Result<FoundPeriod, Error> {
    let (board, store) = (&live.board, &engine.store);
    let period = &target.standing.period;
    let closings = boards::closings(store, &board.id).await?;
    let recorded = store::read(store, board, &target.standing.section()).await?;
    let state = if recorded.is_some() {
        Some(PeriodState::Final)
    } else {
        let seen = Seen {
            barrier: closings.results_until,
            is_current: true,
        };
        board.state_of(period, seen, engine.clock.now())
    };
    let with_result = store::final_cohorts(store, board, period).await?;
    let all = if state == Some(PeriodState::Final) {
        with_result
    } else {
        let counts = live
            .shards
            .iter()
            .map(|live| store::listed_cohorts(store, &live.shard, period));
        let counts = try_join_all(counts).await?;
        counts.iter().sum::<u64>().max(with_result)
    };
    Ok(FoundPeriod {
        state,
        final_at: recorded.map(|recorded| recorded.result.final_at),
        cohorts: Some(PeriodCohorts { all, with_result }),
        ..FoundPeriod::new(target)
    })
}

/// The state of a section, from its result or else from a read.
pub(crate) async fn find_period(
    engine: &Engine,
    live: &LiveBoard,
    target: Target,
    recorded: Option<RecordedResult>,
) -> Result<FoundPeriod, Error> {
    let now = engine.clock.now();
    if recorded.is_some() {
        let cut_off = cut_off(engine, live, &target.standing.period).await?;
        let mut found = FoundPeriod::new(target);
        found.cut_off = Some(cut_off);
        found.take_over(recorded);
        return Ok(found);
    }
    let reader = Reader::new(engine, live, Freshness::Current);
    let page = if target.is_empty {
        Page::default()
    } else {
        let list = Merged::new(&reader, target.standing);
        list.page(Selection::Behind(0), 1, None).boxed().await?
    };
    let state = live
        .board
        .state_of(&target.standing.period, reader.seen(), now);
    Ok(FoundPeriod {
        state,
        total: Some(page.total),
        winner: winner_of(&page),
        ..FoundPeriod::new(target)
    })
}

/// How many queued events of a final period were refused because its closing did not wait for them.
async fn cut_off(engine: &Engine, live: &LiveBoard, period: &Period) -> Result<u64, Error> {
    if live.board.max_delay_of(period).is_none() {
        return Ok(0);
    }
    let store = &engine.store;
    let of_shards = live
        .shards
        .iter()
        .map(|live| closings::store::cut_off(store, &live.shard, period));
    Ok(try_join_all(of_shards).await?.iter().sum())
}

/// Whether a period of a league has cohorts, with data or with a result.
pub(crate) async fn has_cohorts(
    engine: &Engine,
    live: &LiveBoard,
    target: &Target,
) -> Result<bool, Error> {
    // The names of its cohorts sort between these.
    let between = (Some(&*target.key), Some(&*format!("{}0", target.key)));
    let unit = target.standing.period.unit;
    let names = keys_between(engine, live, unit, between, 1).await?;
    Ok(!names.is_empty())
}

/// Whether any shard has data of a period.
pub(crate) async fn has_data(
    engine: &Engine,
    live: &LiveBoard,
    found: &FoundPeriod,
) -> Result<bool, Error> {
    if found.total > Some(0) {
        return Ok(true);
    }
    let section = found.target.standing.section();
    let unit = section.period.unit;
    let name = live.board.section_key(&section);
    let key = Bound::Included(name.as_str());
    let range = ((key, key), false);
    let keys = periods_in(engine, live.shards_of(section), unit, range, 1).await?;
    Ok(!keys.is_empty())
}

impl FoundPeriod {
    /// A period without any data yet.
    fn new(target: Target) -> Self {
        Self {
            target,
            state: None,
            total: None,
            winner: None,
            result: None,
            cut_off: None,
            final_at: None,
            cohorts: None,
        }
    }

    /// Copies what is recorded.
    pub(crate) fn take_over(&mut self, recorded: Option<RecordedResult>) {
        if let Some(RecordedResult { result, .. }) = recorded {
            self.total = Some(result.total);
            self.winner.clone_from(&result.winner);
            self.state = Some(PeriodState::Final);
            self.final_at = Some(result.final_at);
            self.result = Some(result);
        }
    }
}

impl PeriodName {
    /// The standing of the period.
    pub(crate) fn target(&self, engine: &Engine, live: &LiveBoard) -> Result<Target, Error> {
        target_of(engine, live, &self.window, &self.choice)
    }
}

/// The standing of a period of a window.
fn target_of(
    engine: &Engine,
    live: &LiveBoard,
    window: &str,
    choice: &Choice,
) -> Result<Target, Error> {
    unit_of(live, window)?;
    Target::find(live, window, Track::Shown, choice, engine.clock.now())
}

fn unit_of(live: &LiveBoard, window: &str) -> Result<(Window, Unit), Error> {
    match find_window(&live.board, window)? {
        window @ Window::Period(unit) => Ok((window, unit)),
        Window::Rolling { .. } => Err(Problem::no_periods(&live.board.id, window).into()),
    }
}
