//! Standings are read, and built by background steps that may have died half-way.

use std::collections::BTreeSet;

use standings::core::read::store::rollover;
use standings::domain::series::Track;
use standings::domain::time::Timestamp;

use super::moves::stored_board;
use super::{Game, READ_PERIODS_MAX};
use crate::harness::Instance;
use crate::model::answers::{time_text, window_name};
use crate::model::naive::{Unit, Window};
use crate::model::reads::{ask, queries};

/// How many standings are read side by side.
const READ_AT_ONCE_MAX: usize = 6;

impl Game<'_> {
    /// Reads some standings near the clock, or near what was sent.
    pub(super) async fn read_some(&mut self, count: usize) -> Result<(), String> {
        let mut standings = Vec::new();
        for _ in 0..count {
            let board = self.random.below(self.boards.len());
            let model = &self.boards[board].1;
            let window = model.board.windows[self.random.below(model.board.windows.len())];
            let mut instants: Vec<i64> = model.instants().collect();
            instants.push(self.now);
            let from = match self.random.below(2) {
                0 => self.now,
                _ => instants[self.random.below(instants.len())],
            };
            let reach = match window {
                Window::Period(_) => 2,
                Window::Rolling(_, count) => usize::try_from(count).unwrap() + 2,
            };
            let after = i64::try_from(self.random.below(reach)).unwrap() - 1;
            standings.push((
                board,
                window,
                model.board.period(window.unit(), from) + after,
            ));
        }
        self.read(standings).await
    }

    /// Reads every standing that an event is part of, and those around them.
    pub(super) async fn read_everything(&mut self) -> Result<(), String> {
        let mut standings = Vec::new();
        for (board, (_, model)) in self.boards.iter().enumerate() {
            for window in model.board.windows.iter().copied() {
                let running = model.board.period(window.unit(), self.now);
                let mut periods: BTreeSet<i64> = (running - 1..=running + 2).collect();
                for at in model.instants() {
                    let own = model.board.period(window.unit(), at);
                    periods.extend(own - 1..=own + 1);
                    if let Window::Rolling(_, count) = window {
                        periods.extend(
                            (own..=own + count).take_while(|period| *period <= running + 2),
                        );
                    }
                }
                let mut periods: Vec<i64> = periods.into_iter().collect();
                self.random.shuffle(&mut periods);
                periods.truncate(READ_PERIODS_MAX);
                standings.extend(periods.into_iter().map(|period| (board, window, period)));
            }
        }
        self.random.shuffle(&mut standings);
        self.read(standings).await
    }

    async fn read(&mut self, mut standings: Vec<(usize, Window, i64)>) -> Result<(), String> {
        self.log
            .push(format!("{} standings are read", standings.len()));
        while !standings.is_empty() {
            let count = (1 + self.random.below(READ_AT_ONCE_MAX)).min(standings.len());
            let mut queries = Vec::new();
            self.now += 1;
            self.world.set_time(&time_text(self.now));
            for (board, window, period) in standings.drain(..count) {
                let (id, model) = &self.boards[board];
                let period = if window.unit() == Unit::All {
                    0
                } else {
                    period
                };
                queries.extend(self::queries(
                    &mut self.random,
                    id,
                    model,
                    window,
                    period,
                    self.now,
                ));
            }
            ask(self.world, &mut self.random, &mut self.known, queries).await?;
        }
        Ok(())
    }
}

/// Takes so many small steps towards the standing whose newest period begins then: what is left of a background
/// step that has died.
pub(super) async fn roll_over_partly(
    instance: &Instance,
    id: &str,
    window: Window,
    start: i64,
    budget: u32,
    times: usize,
) -> Result<(), String> {
    let engine = &instance.engine;
    let board = stored_board(instance, id).await?;
    let window: standings::domain::window::Window = window_name(window).parse().unwrap();
    let start = Timestamp::parse(&time_text(start)).unwrap();
    let now = engine.clock.now();
    let period = board.calendar.containing(window.unit(), start);
    let running = board.calendar.containing(window.unit(), now);
    let derived = board
        .derived_as(board.series(window, Track::Shown))
        .unwrap();
    for shard in board.shards() {
        for _ in 0..times {
            let done = rollover::advance(
                &engine.store,
                &shard,
                &derived,
                &period,
                &running,
                now,
                budget,
            )
            .await;
            done.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
