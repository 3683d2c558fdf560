//! Plays a case against the service and the model side by side, and compares every answer. Its folder has what a case does.

mod closings;
mod corrections;
mod initial;
mod kills;
mod moderation;
mod moves;
mod order;
mod reading;
mod sending;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use reqwest::StatusCode;
use serde_json::{Value, json};
use standings::check::{self, Report};
use standings::domain::ids::BoardId;
use tokio_util::task::AbortOnDropHandle;

use self::moderation::hide_all;
use self::reading::roll_over_partly;
use super::answers::{definition, score_text, time_text, window_name};
use super::cases::{Amount, Case, Detail, Pick, Step, Time, sound_rules};
use super::finals::Rule;
use super::naive::{Board, Event, Model, Ranking, SCORE_MAX, Window};
use super::reads::Known;
use crate::harness::jobs::{Erasures, Histories, Registries, Rollover, SETTLE_ALL};
use crate::harness::random::Random;
use crate::harness::redis::eventually;
use crate::harness::{World, break_off};

/// The times of a case stay between 2010 and 2080, whatever its years add up to.
const TIME_MIN: i64 = 1_262_304_000_000;
const TIME_MAX: i64 = 3_471_292_800_000;
/// The most standings of a window that are read at the end.
const READ_PERIODS_MAX: usize = 24;

/// What a test plays at, case after case, each with boards of its own.
pub struct Table {
    /// On a cluster slots move from node to node all the time.
    _moving: Option<AbortOnDropHandle<()>>,
    world: World,
    name: &'static str,
    boards: AtomicU64,
}

/// One case.
struct Game<'a> {
    world: &'a World,
    boards: Vec<(String, Model)>,
    members: usize,
    has_huge_scores: bool,
    now: i64,
    sent: Vec<Sent>,
    ids: usize,
    random: Random,
    log: Vec<String>,
    /// What reads were answered.
    known: Known,
}

#[derive(Clone, Debug)]
struct Sent {
    board: usize,
    event: Event,
    /// The JSON number in the place of a score, if it is none.
    number: String,
    /// What its answer has told that it counts for, in microseconds since the epoch.
    reported_at: Option<i64>,
}

impl Sent {
    /// The same with its answer.
    fn reported(self, outcome: &Outcome) -> Self {
        Self {
            reported_at: outcome.at,
            ..self
        }
    }
}

/// A member that is to be hidden, or brought back.
#[derive(Clone, Debug)]
struct Hiding {
    board: usize,
    id: String,
    member: &'static str,
    is_hidden: bool,
}

/// Periods that are to be closed.
#[derive(Clone, Debug)]
struct Closed {
    /// The board, the window and the key of the period of which that is asked; `None`: what is due is closed.
    asked: Option<(String, String, String)>,
    /// Up to which instants which boards are closed.
    until: Vec<(usize, i64)>,
}

/// A batch that is ready to be sent.
struct Request {
    instance: usize,
    is_single: bool,
    /// Whether it is asked that its events are queued.
    is_queued: bool,
    detail: Detail,
    events: Vec<Sent>,
    bodies: Vec<String>,
}

/// What was, or should be, answered to one event.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    status: String,
    problem: Option<String>,
    /// In microseconds since the epoch.
    at: Option<i64>,
    standings: Value,
}

impl Outcome {
    fn is_taken(&self) -> bool {
        self.status == "applied" || self.status == "unchanged"
    }

    fn is_over_quota(&self) -> bool {
        self.problem.as_deref() == Some("/problems/quota-exceeded")
    }
}

impl Table {
    pub async fn set_up(name: &'static str, instances: usize) -> Self {
        let world = World::with_instances(instances, "2026-11-21T00:00:00Z").await;
        without_lists(&world).await;
        Self {
            _moving: world.redis.keep_moving().await,
            world,
            name,
            boards: AtomicU64::new(0),
        }
    }

    /// Plays a case; the error says all that had happened, and what differs.
    pub async fn play(&self, case: &Case) -> Result<(), String> {
        let boards = case.boards.iter().map(|board| {
            let number = self.boards.fetch_add(1, Ordering::SeqCst);
            let model = Model::new(board.clone()).with_results_since(case.begin);
            (format!("{}-{number}", self.name), model)
        });
        let mut game = Game {
            world: &self.world,
            boards: boards.collect(),
            members: case.members,
            has_huge_scores: case.has_huge_scores,
            now: case.begin,
            sent: Vec::new(),
            ids: 0,
            random: Random::new(case.seed),
            log: Vec::new(),
            known: Known::new(),
        };
        let result = game.play(&case.steps).await;
        let deleted = game.delete_boards(case.deleted_after).await;
        result
            .and(deleted)
            .map_err(|difference| format!("after\n{}\n\n{difference}\n", game.log.join("\n")))
    }
}

/// Has small standings walked in many steps too, as large ones are.
async fn without_lists(world: &World) {
    let no_lists = "CONFIG SET zset-max-listpack-entries 0 hash-max-listpack-entries 0";
    for reply in world.redis.on_each(no_lists).await {
        assert_eq!(reply, "+OK\r\n");
    }
}

fn pick(pick: Pick, count: usize) -> usize {
    usize::from(pick) % count
}

/// A score of this board, or else the JSON number that is none.
fn read_amount(amount: Amount, board: &Board) -> Result<i64, String> {
    match amount {
        Amount::Scaled(value) => Ok(value),
        Amount::Wide(value) => {
            let in_proportion = i128::from(value) * i128::from(board.greatest());
            Ok(i64::try_from(in_proportion / i128::from(SCORE_MAX)).unwrap())
        }
        Amount::Points(points) => Ok(points * board.point()),
        Amount::TooFine => Err(score_text(1, board.decimals + 1)),
        Amount::TooLarge => Err(score_text(board.greatest() + 1, board.decimals)),
    }
}

pub fn expect_equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    got: &T,
    expected: &T,
) -> Result<(), String> {
    if got == expected {
        Ok(())
    } else {
        Err(format!("{what}\n     got {got:?}\nexpected {expected:?}"))
    }
}

impl Game<'_> {
    async fn play(&mut self, steps: &[Step]) -> Result<(), String> {
        self.set_clock(self.now);
        for (id, model) in &self.boards {
            let definition = definition(&model.board);
            self.log.push(format!("board {id} = {definition}"));
            self.world.client().define(id, definition).await;
        }
        for step in steps {
            self.step(step).await?;
        }
        self.send_all_again().await?;
        self.read_everything().await?;
        for instance in &self.world.instances {
            instance
                .engine
                .run(&Rollover)
                .await
                .map_err(|error| error.to_string())?;
        }
        self.read_some(5).await?;
        self.read_results().await?;
        self.check().await
    }

    /// Nothing of what is stored contradicts the rest, whatever has happened.
    async fn check(&self) -> Result<(), String> {
        for (id, _) in &self.boards {
            let (id, engine) = (BoardId::parse(id).unwrap(), self.world.engine());
            let report: Mutex<Report> = Mutex::default();
            // On a cluster slots move all the time.
            eventually("the board is checked", async || {
                let checked = check::run(engine, Some(&id), check::Repair::None).await;
                checked.map(|checked| *report.lock() = checked).is_ok()
            })
            .await;
            let report = report.into_inner();
            expect_equal(&report.notes.join(", "), &report.findings, &Vec::new())?;
        }
        Ok(())
    }

    fn set_clock(&mut self, now: i64) {
        self.now = now.clamp(TIME_MIN, TIME_MAX);
        self.world.set_time(&time_text(self.now));
        self.log
            .push(format!("the clock shows {}", time_text(self.now)));
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Advance { board, to } => {
                let to = self
                    .time(pick(*board, self.boards.len()), *to)
                    .unwrap_or(self.now);
                self.set_clock(to.max(self.now));
                Ok(())
            }
            Step::Send(batches) if batches.len() == 1 || self.needs_order() => {
                for batch in batches {
                    self.send(batch).await?;
                }
                Ok(())
            }
            Step::Send(batches) => self.send_side_by_side(batches).await,
            Step::RollOver { instance } => {
                let instance = pick(*instance, self.world.instances.len());
                self.log.push(format!("instance {instance} rolls over"));
                let engine = &self.world.instances[instance].engine;
                let rolled = engine.run(&Rollover).await;
                let done = rolled.and(engine.run(&Registries).await);
                done.map_err(|error| error.to_string())
            }
            Step::Erase {
                instance,
                board,
                member,
                forgotten,
            } => self.erase(*instance, *board, *member, *forgotten).await,
            Step::Forget { instance } => {
                let instance = pick(*instance, self.world.instances.len());
                self.log
                    .push(format!("instance {instance} removes what was erased"));
                let engine = &self.world.instances[instance].engine;
                let done = engine.run(&Erasures).await;
                done.map_err(|error| error.to_string())
            }
            Step::Settle { instance } => {
                let instance = pick(*instance, self.world.instances.len());
                self.log.push(format!("instance {instance} settles"));
                let engine = &self.world.instances[instance].engine;
                let done = engine.run(&SETTLE_ALL).await;
                done.map_err(|error| error.to_string())
            }
            Step::RollOverPartly {
                instance,
                board,
                window,
                ahead,
                budget,
                times,
            } => {
                let instance = pick(*instance, self.world.instances.len());
                let (id, model) = &self.boards[pick(*board, self.boards.len())];
                let windows: Vec<Window> = model
                    .board
                    .windows
                    .iter()
                    .copied()
                    .filter(|window| model.board.is_built(*window))
                    .collect();
                let Some(window) = windows.get(pick(*window, windows.len().max(1))).copied() else {
                    return Ok(());
                };
                let period = model.board.period(window.unit(), self.now) + ahead;
                let at = model.board.start(window.unit(), period).unwrap_or(self.now);
                self.log.push(format!(
                    "instance {instance} takes {times} steps of {budget} on {} {} of {id}",
                    window_name(window),
                    model.board.key(window.unit(), period),
                ));
                roll_over_partly(
                    &self.world.instances[instance],
                    id,
                    window,
                    at,
                    *budget,
                    *times,
                )
                .await
            }
            Step::SetInitialScores {
                instance,
                board,
                scores,
            } => self.set_initial_scores(*instance, *board, scores).await,
            Step::Hide {
                instance,
                board,
                members,
            } => {
                let hides = self.hides(*board, members);
                hide_all(self.world, *instance, &hides).await?;
                self.note_hides(&hides);
                self.list_hidden(*instance).await
            }
            Step::Reshard {
                instance,
                board,
                shards,
                during,
                closing,
                hides,
                killed_after,
            } => {
                let queued = self.queue_before_move(during.as_ref()).await?;
                let is_asked = self.spread_anew(*instance, *board, *shards).await;
                if !queued.is_empty() {
                    return self.move_queued(*instance, &queued, *killed_after).await;
                }
                let hides = self.hides(*board, hides);
                let closed = closing.and_then(|closing| self.closed(closing));
                match during {
                    Some(batch) if is_asked => {
                        self.reshard(*instance, batch, closed, &hides, *killed_after)
                            .await
                    }
                    _ => Ok(()),
                }
            }
            Step::Recreate {
                instance,
                board,
                shards,
            } => self.recreate(*instance, *board, *shards).await,
            Step::Close {
                instance,
                closing,
                during,
                killed_after,
            } => {
                let closed = self.closed(*closing);
                let during = during.as_ref().map(|batch| self.prepare(batch));
                let cut_off = during.as_ref().filter(|_| closed.is_some());
                match (
                    cut_off.and_then(|request| self.may_cut_off(request)),
                    during,
                ) {
                    (Some(closed), Some(request)) => {
                        self.cut_off(*instance, &closed, request).await
                    }
                    (_, during) => self.close(*instance, closed, during, *killed_after).await,
                }
            }
            Step::Kill {
                server,
                during,
                closing,
                hides,
            } => {
                let hides = self.hides(*server, hides);
                let closed = closing.and_then(|closing| self.closed(closing));
                self.kill(*server, during.as_ref(), closed, &hides).await
            }
            Step::Redefine {
                instance,
                board,
                is_ordinal,
                rewards,
            } => {
                self.redefine(*instance, *board, *is_ordinal, rewards.as_deref())
                    .await
            }
            Step::Keep {
                instance,
                board,
                history,
                killed_after,
            } => self.keep(*instance, *board, *history, *killed_after).await,
            Step::Amend { instance, event } => self.amend(*instance, event).await,
            Step::Correct {
                instance,
                board,
                event,
                change,
                killed_after,
            } => {
                self.correct(*instance, *board, *event, *change, *killed_after)
                    .await
            }
            Step::Revoke {
                instance,
                board,
                event,
                by,
            } => self.revoke(*instance, *board, *event, *by).await,
            Step::RestoreAll {
                instance,
                board,
                revocation,
            } => self.restore_all(*instance, *board, *revocation).await,
            Step::Claim {
                board,
                period,
                reward,
                callers,
            } => self.claim(*board, *period, *reward, callers).await,
            Step::ReadResult { board, period } => {
                let board = pick(*board, self.boards.len());
                match self.final_period(board, *period) {
                    Some(of) => self.read_result(board, of).await,
                    None => Ok(()),
                }
            }
            Step::Read { count } => self.read_some(*count).await,
        }
    }

    /// Gives a board another `ranking`, and other rules of rewards.
    async fn redefine(
        &mut self,
        instance: Pick,
        board: Pick,
        is_ordinal: bool,
        rewards: Option<&[Rule]>,
    ) -> Result<(), String> {
        let client = &self.world.instances[pick(instance, self.world.instances.len())].client;
        let board = pick(board, self.boards.len());
        let (id, model) = &mut self.boards[board];
        let own = &mut model.board;
        // What is dense stays so.
        if own.ranking != Ranking::Dense {
            own.ranking = if is_ordinal {
                Ranking::Ordinal
            } else {
                Ranking::Competition
            };
        }
        let rewards = rewards.unwrap_or(&own.rewards);
        own.rewards = sound_rules(own, rewards);
        let whole = definition(own);
        let change = json!({
            "ranking": whole["ranking"],
            "rewards": super::answers::rewards(own),
        });
        self.log.push(format!("{id} is changed: {change}"));
        let answer = client.patch(&format!("/v1/boards/{id}"), change).await;
        expect_equal(&answer.text, &answer.status, &StatusCode::OK)
    }

    /// Has a board keep its events for another time, or no longer, and removes rows.
    async fn keep(
        &mut self,
        instance: Pick,
        board: Pick,
        history: Option<i64>,
        killed_after: Option<u16>,
    ) -> Result<(), String> {
        let instance = &self.world.instances[pick(instance, self.world.instances.len())];
        let board = pick(board, self.boards.len());
        let (id, model) = &mut self.boards[board];
        model.keep(history);
        let change = json!({"history": super::answers::history(&model.board)});
        self.log
            .push(format!("{id} is changed: {change}, {killed_after:?}"));
        let answer = instance
            .client
            .patch(&format!("/v1/boards/{id}"), change)
            .await;
        expect_equal(&answer.text, &answer.status, &StatusCode::OK)?;
        let ran = instance.engine.run(&Histories);
        match break_off(ran, killed_after.unwrap_or(u16::MAX)).await {
            Some(ran) => ran.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    fn time(&mut self, board: usize, time: Time) -> Option<i64> {
        let board = &self.boards[board].1.board;
        let time = match time {
            Time::Now => return None,
            Time::Near(after) => self.now + after,
            Time::Edge {
                unit,
                periods,
                after,
            } => {
                let unit = board.windows[pick(unit, board.windows.len())].unit();
                let period = board.period(unit, self.now) + periods;
                board.start(unit, period).unwrap_or(self.now) + after
            }
            Time::SameAs(earlier) => {
                let times: Vec<i64> = self.sent.iter().filter_map(|sent| sent.event.at).collect();
                *times.get(pick(earlier, times.len().max(1)))?
            }
        };
        Some(time.clamp(TIME_MIN, TIME_MAX))
    }
}
