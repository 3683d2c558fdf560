//! The periods of a window, and the state of each.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use futures::FutureExt;

use super::recording::winner_of;
use super::store::{self, PeriodResult, Recorded, Winner};
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
use crate::periods::closings::store::Keys;
use crate::redis::Freshness;
use crate::runtime::join::try_join_all;

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
    /// Of a whole period of a league, which has neither members nor a winner: its cohorts.
    pub cohorts: Option<PeriodCohorts>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeriodCohorts {
    /// How many there are.
    pub all: u64,
    /// How many of them have results.
    pub with_result: u64,
}

/// A range of keys of periods, both ends excluded.
#[derive(Clone, Debug, Default)]
pub struct Between {
    /// Only newer periods.
    pub after: Option<String>,
    /// Only older periods.
    pub before: Option<String>,
}

/// The board, and up to `count` periods of a window that have data or a result, newest first.
pub async fn list_periods(
    engine: &Engine,
    id: &BoardId,
    window: &str,
    between: &Between,
    count: usize,
) -> Result<(Arc<LiveBoard>, Part<FoundPeriod>), Error> {
    engine
        .with_board(id, async |live| {
            let (named, unit) = unit_of(&live, window)?;
            between.check(&live, unit)?;
            if live.board.is_league() {
                let periods = league_periods(engine, &live, window, between, count).await?;
                return Ok((live, periods));
            }
            let keys = keys_between(engine, &live, unit, between, count + 1).await?;
            let Part { items, next } = Part::split(keys, count, String::clone);
            let store = &engine.store;
            let recorded = store::read_many(store, &live.board, named, &items).await?;
            let now = engine.clock.now();
            let found = items
                .into_iter()
                .zip(recorded)
                .map(async |(key, recorded)| {
                    let choice = Choice::Key(key);
                    let target = Target::find(&live, window, Track::Shown, &choice, now)?;
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
    Between { after, before }: &Between,
    count: usize,
) -> Result<Vec<String>, Error> {
    let [before, after] = [before.as_deref(), after.as_deref()];
    let wanted = Keys {
        from: before.map_or(Bound::Unbounded, Bound::Excluded),
        to: after.map_or(Bound::Unbounded, Bound::Excluded),
        is_newest_first: true,
    };
    let store = &engine.store;
    let of_shards = live
        .shards
        .iter()
        .map(|shard| closings::store::periods(store, &shard.shard, unit, wanted, count));
    let of_shards = try_join_all(of_shards).await?;
    let mut keys: BTreeSet<String> = of_shards.into_iter().flatten().collect();
    let window = Window::Period(unit);
    let finals = store::final_periods(store, &live.board, window, (after, before), count);
    keys.extend(finals.await?);
    Ok(keys.into_iter().rev().take(count).collect())
}

/// The newest periods of a league in which a member has a seat, each once.
async fn league_periods(
    engine: &Engine,
    live: &LiveBoard,
    window: &str,
    Between { after, before }: &Between,
    count: usize,
) -> Result<Part<FoundPeriod>, Error> {
    let (_, unit) = unit_of(live, window)?;
    // The names of a period's cohorts sort after its key.
    let last = after.iter().map(|after| format!("{after}0")).next();
    let (mut periods, mut before) = (Vec::<FoundPeriod>::new(), before.clone());
    loop {
        let between = Between {
            after: last.clone(),
            before,
        };
        let names = keys_between(engine, live, unit, &between, 1).await?;
        let Some(name) = names.first() else {
            return Ok(Part::last(periods));
        };
        if periods.len() == count {
            return Ok(Part {
                next: periods.last().map(|last| last.target.key.clone()),
                items: periods,
            });
        }
        let key = name.split('/').next().unwrap_or_default();
        let choice = Choice::Key(key.to_owned());
        let now = engine.clock.now();
        let target = Target::find(live, window, Track::Shown, &choice, now)?;
        periods.push(find_league_period(engine, live, target).await?);
        before = Some(key.to_owned());
    }
}

/// The state of a whole period of a league. It is final once all of its cohorts have results.
pub(crate) async fn find_league_period(
    engine: &Engine,
    live: &LiveBoard,
    target: Target,
) -> Result<FoundPeriod, Error> {
    let (board, store) = (&live.board, &engine.store);
    let (period, named) = (&target.standing.period, (target.window, &*target.key));
    let closings = boards::closings(store, &board.id)
        .await?
        .unwrap_or_default();
    let recorded = store::read(store, board, named.0, named.1).await?;
    let state = if recorded.is_some() {
        Some(PeriodState::Final)
    } else {
        let seen = Seen {
            barrier: closings.results_until,
            is_current: true,
        };
        board.state_of(period, seen, engine.clock.now())
    };
    let with_result = store::final_cohorts(store, board, named.0, named.1).await?;
    let all = if state == Some(PeriodState::Final) {
        with_result
    } else {
        let counts = live
            .shards
            .iter()
            .map(|live| store::listed_cohorts(store, &live.shard, period.unit, named.1));
        let counts: Vec<u64> = try_join_all(counts).await?;
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
    recorded: Option<Recorded>,
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
    let between = Between {
        after: Some(target.key.clone()),
        before: Some(format!("{}0", target.key)),
    };
    let unit = target.standing.period.unit;
    let names = keys_between(engine, live, unit, &between, 1).await?;
    Ok(!names.is_empty())
}

/// Whether any shard has data of a period.
pub(crate) async fn has_data(
    engine: &Engine,
    live: &LiveBoard,
    unit: Unit,
    found: &FoundPeriod,
) -> Result<bool, Error> {
    if found.total > Some(0) {
        return Ok(true);
    }
    let section = found.target.standing.section();
    let name = live.board.section_key(&section);
    let key = Bound::Included(name.as_str());
    let wanted = Keys {
        from: key,
        to: key,
        is_newest_first: false,
    };
    let of_shards = live.shards_of(section).iter().map(|shard| {
        let store = &engine.store;
        closings::store::periods(store, &shard.shard, unit, wanted, 1)
    });
    let of_shards = try_join_all(of_shards).await?;
    Ok(of_shards.iter().any(|keys| !keys.is_empty()))
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
    pub(crate) fn take_over(&mut self, recorded: Option<Recorded>) {
        if let Some(Recorded { result, .. }) = recorded {
            self.total = Some(result.total);
            self.winner.clone_from(&result.winner);
            self.state = Some(PeriodState::Final);
            self.final_at = Some(result.final_at);
            self.result = Some(result);
        }
    }
}

impl Between {
    /// Checks that both ends are keys of periods.
    fn check(&self, live: &LiveBoard, unit: Unit) -> Result<(), Error> {
        for (name, key) in [("after", &self.after), ("before", &self.before)] {
            if let Some(key) = key {
                let parsed = live.board.calendar.parse_key(unit, key);
                parsed.map_err(|error| Problem::invalid_parameter(name, error))?;
            }
        }
        Ok(())
    }
}

pub(crate) fn unit_of(live: &LiveBoard, window: &str) -> Result<(Window, Unit), Error> {
    match find_window(&live.board, window)? {
        window @ Window::Period(unit) => Ok((window, unit)),
        Window::Rolling { .. } => Err(Problem::no_periods(&live.board.id, window).into()),
    }
}
