//! Plays a case against the service and the model side by side, and compares every answer.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{FixedOffset, SecondsFormat};
use futures::future::{join, join_all, join3};
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use standings::domain::hide::{Hide, Reason};
use standings::domain::ids::{BoardId, MemberId};
use standings::domain::series::Track;
use standings::domain::time::Timestamp;
use standings::service::check::Report;
use standings::service::hidden::FoundHidden;
use standings::service::period::Choice;
use tokio_util::task::AbortOnDropHandle;

use super::answers::{
    changes, definition, exact, score_text, status, time_text, unit_name, window_name,
};
use super::cases::{
    Amount, Batch, Case, Closing, DATA, Detail, MEMBERS, NewEvent, Pick, Sending, Step, Time,
};
use super::naive::{Board, Event, Model, SCORE_MAX, Unit, Verdict, Window, utc};
use super::reads::{ask, queries};
use crate::harness::jobs::{Erasures, Moves, Purge, Rollover, SETTLE_ALL, Sweep};
use crate::harness::random::Random;
use crate::harness::redis::{Reply, eventually};
use crate::harness::{Client, Instance, World, break_off, keys};

/// The times of a case stay between 2010 and 2080, whatever its years add up to.
const TIME_MIN: i64 = 1_262_304_000_000;
const TIME_MAX: i64 = 3_471_292_800_000;
/// How many standings are read side by side.
const READ_AT_ONCE_MAX: usize = 6;
/// How many guesses it may take to find the order in which the events of a batch were carried out.
const TRIES_MAX: usize = 2_000;
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
    begun: i64,
    now: i64,
    sent: Vec<Sent>,
    ids: usize,
    random: Random,
    log: Vec<String>,
}

#[derive(Clone, Debug)]
struct Sent {
    board: usize,
    event: Event,
    /// The JSON number in the place of a score, if it is none.
    number: String,
}

/// A member that is to be hidden, or brought back.
#[derive(Clone, Debug)]
struct Hiding {
    board: usize,
    id: String,
    member: &'static str,
    is_hidden: bool,
}

/// Periods of a board that are to be closed: those that end up to an instant.
#[derive(Clone, Debug)]
struct Closed {
    board: usize,
    id: String,
    /// One of these periods, if it has a result then: its window and its key.
    period: Option<(String, String)>,
    until: i64,
}

/// A batch that is ready to be sent.
struct Request {
    instance: usize,
    is_single: bool,
    detail: Detail,
    events: Vec<Sent>,
    bodies: Vec<String>,
}

/// What was, or should be, answered to one event.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    status: String,
    problem: Option<String>,
    standings: Value,
}

/// Looks for the order in which events were carried out.
struct Search {
    now: i64,
    detail: Detail,
    tries: usize,
    /// Which events can't be left at the end: by the law it doesn't matter how it came to that. It does with extra
    /// allowances, but there the order of the batch is right, which is tried first.
    dead_ends: HashSet<Vec<usize>>,
    /// What doesn't fit where the fewest events are left, and how many that are.
    why_not: Option<(usize, String)>,
}

impl Search {
    /// `left` are places in `events`; `moments` the boards after each event so far.
    fn find_order(
        &mut self,
        events: &[(Sent, Outcome)],
        left: &[usize],
        moments: &mut Vec<Vec<(String, Model)>>,
    ) -> bool {
        if self.dead_ends.contains(left) {
            return false;
        }
        let boards = moments[moments.len() - 1].clone();
        let mut difference = None;
        for place in left {
            let (sent, outcome) = &events[*place];
            self.tries = self.tries.saturating_sub(1);
            let (after, expected) = judge(&boards, sent, self.now, self.detail);
            if let Err(why) = expect_equal(&format!("{sent:?}"), outcome, &expected) {
                difference.get_or_insert(why);
            } else if self.tries > 0 {
                let mut next = boards.clone();
                next[sent.board].1 = after;
                moments.push(next);
                let rest: Vec<usize> = left
                    .iter()
                    .copied()
                    .filter(|other| other != place)
                    .collect();
                if self.find_order(events, &rest, moments) {
                    return true;
                }
                moments.pop();
            }
        }
        if let Some(why) = difference
            && self
                .why_not
                .as_ref()
                .is_none_or(|(fewest, _)| left.len() < *fewest)
        {
            self.why_not = Some((left.len(), why));
        }
        if !left.is_empty() {
            self.dead_ends.insert(left.to_vec());
        }
        left.is_empty()
    }
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
            (format!("{}-{number}", self.name), Model::new(board.clone()))
        });
        let mut game = Game {
            world: &self.world,
            boards: boards.collect(),
            members: case.members,
            has_huge_scores: case.has_huge_scores,
            begun: case.begin,
            now: case.begin,
            sent: Vec::new(),
            ids: 0,
            random: Random::new(case.seed),
            log: Vec::new(),
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
                .service
                .engine
                .run(&Rollover)
                .await
                .map_err(|error| error.to_string())?;
        }
        self.read_some(5).await?;
        self.check().await
    }

    /// Nothing of what is stored contradicts the rest, whatever has happened.
    async fn check(&self) -> Result<(), String> {
        for (id, _) in &self.boards {
            let (id, service) = (BoardId::parse(id).unwrap(), self.world.service());
            let report: Mutex<Report> = Mutex::default();
            // On a cluster slots move all the time.
            eventually("the board is checked", async || {
                let checked = service.check(Some(&id), false).await;
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
                let done = self.world.instances[instance]
                    .service
                    .engine
                    .run(&Rollover)
                    .await;
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
                let service = &self.world.instances[instance].service;
                let done = service.engine.run(&Erasures).await;
                done.map_err(|error| error.to_string())
            }
            Step::Settle { instance } => {
                let instance = pick(*instance, self.world.instances.len());
                self.log.push(format!("instance {instance} settles"));
                let service = &self.world.instances[instance].service;
                let done = service.engine.run(&SETTLE_ALL).await;
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
                let is_asked = self.spread_anew(*instance, *board, *shards).await;
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
            Step::Close {
                instance,
                closing,
                during,
                killed_after,
            } => {
                let closed = self.closed(*closing);
                let during = during.as_ref().map(|batch| self.prepare(batch));
                self.close(*instance, closed, during, *killed_after).await
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
            Step::Read { count } => self.read_some(*count).await,
        }
    }

    /// Erases a member, whole or half-way.
    async fn erase(
        &mut self,
        instance: Pick,
        board: Pick,
        member: Pick,
        forgotten: Option<usize>,
    ) -> Result<(), String> {
        const KEYS: u32 = 2;
        // Each erasure of a member has an instant of its own.
        self.set_clock(self.now + 1);
        let member = MEMBERS[pick(member, self.members)];
        let instance = pick(instance, self.world.instances.len());
        let Instance {
            service, client, ..
        } = &self.world.instances[instance];
        let board = pick(board, self.boards.len());
        let (id, model) = &mut self.boards[board];
        self.log.push(format!(
            "instance {instance} erases {member:?} on {id}, {forgotten:?}"
        ));
        model.erase(member, self.now);
        let Some(steps) = forgotten else {
            let encoded = utf8_percent_encode(member, NON_ALPHANUMERIC);
            let path = format!("/v1/boards/{id}/members/{encoded}");
            let answer = client.delete(&path).await;
            return expect_equal(&path, &answer.status, &StatusCode::NO_CONTENT);
        };
        let (id, member) = (
            BoardId::parse(id).unwrap(),
            MemberId::parse(member).unwrap(),
        );
        let store = &service.engine.store;
        let half_way = async {
            let number = store.begin_erasure(&id).await?;
            service.engine.erase(&id, &member, number).await?;
            let live = service.engine.board(&id).await?;
            let shard = &live.shards()[live.shard_of(&member)];
            for _ in 0..steps {
                store
                    .forget(shard, &member, KEYS, service.engine.clock.now())
                    .await?;
            }
            Ok::<_, standings::engine::Error>(())
        };
        half_way.await.map_err(|error| error.to_string())
    }

    /// Asks for another number of shards of a board that has several. What has one shard stays so, since more can be asked
    /// of it. Returns whether it has.
    async fn spread_anew(&mut self, instance: Pick, board: Pick, shards: u16) -> bool {
        let instance = &self.world.instances[pick(instance, self.world.instances.len())];
        let (id, model) = &self.boards[pick(board, self.boards.len())];
        if model.board.shards == 1 {
            return false;
        }
        let path = format!("/v1/boards/{id}/shards");
        let answer = instance.client.put(&path, json!({ "count": shards })).await;
        self.log.push(format!(
            "{id} is to have {shards} shards: {}",
            answer.status
        ));
        if !answer.status.is_success() {
            // It is on its way to another number of them.
            answer.expect_problem(409, "board-in-use");
        }
        true
    }

    /// Has all boards moved that are on their way to other shards, while a batch is sent. An instance that is killed leaves
    /// one of them somewhere on its way; another instance goes on if that was closed by then.
    async fn reshard(
        &mut self,
        instance: Pick,
        batch: &Batch,
        closed: Option<Closed>,
        hides: &[Hiding],
        killed_after: Option<u16>,
    ) -> Result<(), String> {
        let world = self.world;
        let place = pick(instance, world.instances.len());
        let other = &world.instances[(place + 1) % world.instances.len()];
        let ids: Vec<String> = self.boards.iter().map(|(id, _)| id.clone()).collect();
        let moving = async {
            if move_for_a_while(world, place, killed_after).await? {
                return Ok(());
            }
            for id in &ids {
                if free_lease(world, other, id).await? {
                    reshard_boards(other).await?;
                }
            }
            Ok(())
        };
        // Outcomes of boards that move tell no ranks: it does not matter which comes first.
        let hidden = hide_all(world, instance, hides);
        let request = self.prepare(batch);
        let sent = self.close(instance, closed, Some(request), None);
        let (moved, sent, hidden) = tokio::join!(moving, sent, hidden);
        self.log
            .push(format!("until then its data moves, {killed_after:?}"));
        self.note_hides(hides);
        moved.and(sent).and(hidden)
    }

    /// What a closing closes, if the board has closings.
    fn closed(&self, closing: Closing) -> Option<Closed> {
        let board = pick(closing.board, self.boards.len());
        let (id, model) = &self.boards[board];
        let windows = &model.board.windows;
        let window = windows[pick(closing.unit, windows.len())];
        let unit = window.unit();
        let period = model.board.period(unit, self.now) - closing.before;
        let until = model.board.start(unit, period)?;
        // What ended before the board had `finalize` has no result.
        let has_result = matches!(window, Window::Period(_)) && self.begun < until;
        let period = has_result.then(|| (unit_name(unit), model.board.key(unit, period - 1)));
        model.board.finalizes.then(|| Closed {
            board,
            id: id.clone(),
            period,
            until,
        })
    }

    /// Has an instance close periods, and sends a batch meanwhile.
    async fn close(
        &mut self,
        instance: Pick,
        closed: Option<Closed>,
        during: Option<Request>,
        killed_after: Option<u16>,
    ) -> Result<(), String> {
        let Some(closed) = closed else {
            return match during {
                Some(request) => self.send_request(request).await,
                None => Ok(()),
            };
        };
        let closing = close_periods(self.world, instance, &closed, killed_after);
        let Some(request) = during else {
            closing.await;
            self.note_closed(&closed);
            return Ok(());
        };
        let sent = post(self.world, &self.boards, &request);
        let (outcomes, ()) = join(sent, closing).await;
        let outcomes = outcomes?;
        self.log_sent(&request, &outcomes);
        self.log.push("meanwhile".to_owned());
        let answered = request.events.into_iter().zip(outcomes);
        self.compare(answered.collect(), request.detail, Some(&closed))
    }

    /// Takes note of periods that were closed.
    fn note_closed(&mut self, closed: &Closed) {
        let Closed {
            board, id, until, ..
        } = closed;
        self.log
            .push(format!("{id} is closed until {}", time_text(*until)));
        self.boards[*board].1.close(*until);
    }

    /// Members of a board who are to be hidden, or brought back; each once.
    fn hides(&self, board: Pick, members: &[(Pick, bool)]) -> Vec<Hiding> {
        let board = pick(board, self.boards.len());
        let named = members
            .iter()
            .map(|(member, is_hidden)| (MEMBERS[pick(*member, self.members)], *is_hidden));
        let hiding = |(member, is_hidden)| Hiding {
            board,
            id: self.boards[board].0.clone(),
            member,
            is_hidden,
        };
        let each: BTreeMap<&'static str, bool> = named.collect();
        each.into_iter().map(hiding).collect()
    }

    /// Takes note of members that were hidden, or brought back.
    fn note_hides(&mut self, hides: &[Hiding]) {
        for hiding in hides {
            self.log.push(format!("{hiding:?}"));
            let model = &mut self.boards[hiding.board].1;
            model.set_hidden(hiding.member, hiding.is_hidden);
        }
    }

    /// Compares the lists of hidden members with the models'.
    async fn list_hidden(&self, instance: Pick) -> Result<(), String> {
        const LIMIT: usize = 2;
        let service = &self.world.instances[pick(instance, self.world.instances.len())].service;
        for (id, model) in &self.boards {
            let (board, mut after, mut listed) = (BoardId::parse(id).unwrap(), None, Vec::new());
            loop {
                let found: Mutex<Option<FoundHidden>> = Mutex::default();
                eventually("hidden members are listed", async || {
                    let read = service.engine.hidden(&board, after.as_ref(), LIMIT).await;
                    *found.lock() = read.ok();
                    found.lock().is_some()
                })
                .await;
                let found = found.into_inner().unwrap();
                listed.extend(found.members.iter().map(|(member, _)| member.to_string()));
                after = found.next;
                if after.is_none() {
                    break;
                }
            }
            // A hide that has outlived an erasure is listed again when the member has data.
            let may_be_listed = |member: &&str| {
                !model.was_erased(member) || listed.iter().any(|other| other == member)
            };
            let expected = model.hidden().filter(may_be_listed);
            let expected: Vec<String> = expected.map(ToOwned::to_owned).collect();
            expect_equal("who is hidden", &listed, &expected)?;
        }
        Ok(())
    }

    /// Deletes the boards, while they move, and looks at the keys before and afterwards.
    async fn delete_boards(&mut self, killed_after: Option<u16>) -> Result<(), String> {
        let (world, count) = (self.world, self.world.instances.len());
        let ids: Vec<&String> = self.boards.iter().map(|(id, _)| id).collect();
        let mut checked = Ok(());
        for (id, model) in &self.boards {
            let retained = model.board.retention.iter().copied().map(unit_name);
            let retained: Vec<String> = retained.collect();
            let keys = world.redis.expiries(&keys::pattern(id)).await;
            let slack_ms = world.redis.expiry_slack_ms();
            checked = checked.and(keys::check_expiries(&keys, &retained, slack_ms));
        }
        for id in &ids {
            free_lease(world, &world.instances[0], id).await?;
        }
        let deleted = async {
            for id in &ids {
                let path = format!("/v1/boards/{id}");
                world.client().delete(&path).await.expect(204);
            }
        };
        let place = self.random.below(count);
        let moved = move_for_a_while(world, place, killed_after);
        let ((), moved) = tokio::join!(deleted, moved);
        moved?;
        let service = &world.instances[self.random.below(count)].service;
        let purged = service.engine.run(&Purge).await;
        purged.map_err(|error| error.to_string())?;
        let still = world.redis.hold_still().await;
        let swept = service.engine.run(&Sweep).await;
        drop(still);
        swept.map_err(|error| error.to_string())?;
        for id in ids {
            let left = world.redis.expiries(&keys::pattern(id)).await;
            checked = checked.and(expect_equal("keys are left", &left, &BTreeMap::new()));
        }
        checked
    }

    /// Kills a server and starts it again. Events that come in meanwhile are sent until they are taken.
    async fn kill(
        &mut self,
        server: Pick,
        during: Option<&Batch>,
        closed: Option<Closed>,
        hides: &[Hiding],
    ) -> Result<(), String> {
        let has_quotas = |(_, model): &(String, Model)| !model.board.quotas.is_empty();
        let any_order = !self.needs_order() && !self.boards.iter().any(has_quotas);
        let request = during.map(|batch| self.prepare(batch));
        self.log.push(format!("server {server} is killed"));
        let killed = async {
            self.world.redis.kill_one(server.into()).await;
            without_lists(self.world).await;
            for instance in &self.world.instances {
                eventually("the instance reaches all servers", async || {
                    instance.service.engine.store.prepare().await.is_ok()
                })
                .await;
            }
        };
        let hidden = hide_all(self.world, server, hides);
        let closing = async {
            if let Some(closed) = &closed {
                close_periods(self.world, server, closed, None).await;
            }
        };
        let disturbed = join3(killed, closing, hidden);
        match request {
            Some(request) if any_order && request.detail != Detail::Ranks => {
                let sent = post_until_taken(self.world, &self.boards, &request);
                let (((), (), hidden), outcomes) = join(disturbed, sent).await;
                let outcomes = outcomes?;
                hidden?;
                self.log.push("meanwhile".to_owned());
                self.note_hides(hides);
                self.log_sent(&request, &outcomes);
                let answered = request.events.into_iter().zip(outcomes);
                self.compare_repeated(answered, closed.as_ref())
            }
            request => {
                let ((), (), hidden) = disturbed.await;
                hidden?;
                self.note_hides(hides);
                if let Some(closed) = &closed {
                    self.note_closed(closed);
                }
                match request {
                    Some(request) => self.send_request(request).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Compares what became of events that may have been taken at an earlier try. These periods were closed meanwhile.
    fn compare_repeated(
        &mut self,
        answered: impl Iterator<Item = (Sent, Outcome)>,
        closed: Option<&Closed>,
    ) -> Result<(), String> {
        let (others, known): (Vec<_>, Vec<_>) =
            answered.partition(|(_, outcome)| outcome.problem.is_some());
        let mut moments = vec![self.boards.clone()];
        for (sent, outcome) in known {
            let model = &mut self.boards[sent.board].1;
            let what = format!("{sent:?}, at last {outcome:?}");
            match model.take(&sent.event, self.now) {
                Verdict::Taken => model.remember(outcome.standings),
                Verdict::Duplicate(standings) => {
                    expect_equal(&what, &outcome.status.as_str(), &"duplicate")?;
                    expect_equal(&what, &outcome.standings, &standings)?;
                }
                Verdict::Rejected(problem) => return Err(format!("{what}: {problem}")),
            }
            moments.push(self.boards.clone());
        }
        self.compare_refused(&others, moments, closed)
    }

    /// The same of events that were not taken, where periods were closed at any of these moments.
    fn compare_refused(
        &mut self,
        others: &[(Sent, Outcome)],
        mut moments: Vec<Vec<(String, Model)>>,
        closed: Option<&Closed>,
    ) -> Result<(), String> {
        if let Some(closed) = closed {
            for boards in &mut moments.clone() {
                boards[closed.board].1.close(closed.until);
                moments.push(boards.clone());
            }
            self.note_closed(closed);
        }
        self.compare_others(others, &moments)
    }

    /// Whether it depends on the order of some events which of them are taken.
    fn needs_order(&self) -> bool {
        let has_extra = |(_, model): &(String, Model)| {
            let quotas = &model.board.quotas;
            quotas.iter().any(|quota| !quota.extra.is_empty())
        };
        self.has_huge_scores || self.boards.iter().any(has_extra)
    }

    /// Sets initial scores: of all members that are named, or, if one is no score or the board has no place for
    /// them, of none.
    async fn set_initial_scores(
        &mut self,
        instance: Pick,
        board: Pick,
        scores: &[(Pick, Option<Amount>)],
    ) -> Result<(), String> {
        let instance = pick(instance, self.world.instances.len());
        let board = pick(board, self.boards.len());
        let (id, model) = &mut self.boards[board];
        let decimals = model.board.decimals;
        let scores: BTreeMap<&str, Option<Result<i64, String>>> = scores
            .iter()
            .map(|(member, amount)| {
                let score = amount.map(|amount| read_amount(amount, &model.board));
                (MEMBERS[pick(*member, self.members)], score)
            })
            .collect();
        let fields = scores.iter().map(|(member, score)| {
            let number = match score {
                None => "null".to_owned(),
                Some(Ok(score)) => score_text(*score, decimals),
                Some(Err(number)) => number.clone(),
            };
            format!("{}: {number}", json!(member))
        });
        let fields = fields.collect::<Vec<_>>().join(", ");
        self.log
            .push(format!("instance {instance} sets scores of {id}: {fields}"));
        let request = self.world.instances[instance]
            .client
            .builder(Method::PATCH, &format!("/v1/boards/{id}/initial-scores"))
            .header("content-type", "application/json")
            .body(format!("{{\"scores\": {{{fields}}}}}"));
        let answer = Client::send(request).await;
        let answered = exact(&answer.text);
        let scores = scores
            .into_iter()
            .map(|(member, score)| Ok((member.to_owned(), score.transpose()?)));
        let has_initial = !model.board.initial.is_empty();
        if let (Ok(scores), true) = (scores.collect::<Result<_, String>>(), has_initial) {
            let members = model.set_initial_scores(scores).to_string();
            expect_equal(&fields, &answered, &json!({"members": members}))?;
            let client = &self.world.instances[instance].client;
            list_initial_scores(client, id, model).await
        } else {
            let problem = json!("/problems/validation-failed");
            expect_equal(&fields, &answered["type"], &problem)
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

    // Sending.

    /// Sends a batch alone, so that all that its answers say can be compared.
    async fn send(&mut self, batch: &Batch) -> Result<(), String> {
        let request = self.prepare(batch);
        self.send_request(request).await
    }

    async fn send_request(&mut self, request: Request) -> Result<(), String> {
        let outcomes = post(self.world, &self.boards, &request).await?;
        self.log_sent(&request, &outcomes);
        let answered = request.events.into_iter().zip(outcomes);
        if request.is_single {
            for one in answered {
                self.compare(vec![one], request.detail, None)?;
            }
            Ok(())
        } else {
            self.compare(answered.collect(), request.detail, None)
        }
    }

    /// Compares what became of events that were sent together. They may be carried out in any order, so there
    /// has to be one in which those that were taken fit, and each other one fits at some moment of that. These periods were
    /// closed meanwhile.
    fn compare(
        &mut self,
        answered: Vec<(Sent, Outcome)>,
        detail: Detail,
        closed: Option<&Closed>,
    ) -> Result<(), String> {
        let (taken, others): (Vec<_>, Vec<_>) = answered
            .into_iter()
            .partition(|(_, outcome)| outcome.is_taken());
        let mut search = Search {
            now: self.now,
            detail,
            tries: TRIES_MAX,
            dead_ends: HashSet::new(),
            why_not: None,
        };
        let mut moments = vec![self.boards.clone()];
        let places: Vec<usize> = (0..taken.len()).collect();
        if !search.find_order(&taken, &places, &mut moments) {
            return Err(search
                .why_not
                .map_or_else(|| "no order was found".to_owned(), |(_, why)| why));
        }
        self.boards.clone_from(&moments[moments.len() - 1]);
        self.compare_refused(&others, moments, closed)
    }

    /// Compares what became of events that were not taken, which has to be right at one of these moments.
    fn compare_others(
        &self,
        others: &[(Sent, Outcome)],
        moments: &[Vec<(String, Model)>],
    ) -> Result<(), String> {
        for (sent, outcome) in others {
            let expected = |boards: &Vec<_>| judge(boards, sent, self.now, Detail::Status).1;
            // A quota may have been used up before the id was.
            let is_over = || {
                let mut nameless = sent.clone();
                nameless.event.id = None;
                let judge = |boards| judge(boards, &nameless, self.now, Detail::Status).1;
                outcome.is_over_quota()
                    && (judge(&self.boards) == *outcome
                        || moments.iter().any(|boards| judge(boards) == *outcome))
            };
            if is_over() {
                continue;
            }
            if !moments.iter().any(|boards| expected(boards) == *outcome) {
                expect_equal(&format!("{sent:?}"), outcome, &expected(&self.boards))?;
            }
        }
        Ok(())
    }

    /// Sends batches side by side, while standings are read and rolled over. Which of two events comes first
    /// can't be known, so that only what was taken is compared now, and the standings later.
    async fn send_side_by_side(&mut self, batches: &[Batch]) -> Result<(), String> {
        let requests: Vec<Request> = batches.iter().map(|batch| self.prepare(batch)).collect();
        let instance = &self.world.instances[self.random.below(self.world.instances.len())];
        let reads = self.boards.iter().flat_map(|(id, model)| {
            let windows = model.board.windows.iter().copied().map(window_name);
            windows.map(move |window| format!("/v1/boards/{id}/standings/{window}"))
        });
        // Reads build what they need: half of the time that is left to the events.
        let is_watched = self.random.below(2) == 0;
        let reads = reads
            .filter(|_| is_watched)
            .map(async |path| instance.client.get(&path).await);
        let roll_over = async || {
            if is_watched {
                // Nothing that is on its way may be lost by it.
                instance.service.engine.run(&SETTLE_ALL).await?;
                instance.service.engine.run(&Rollover).await
            } else {
                Ok(())
            }
        };
        let posts = requests
            .iter()
            .map(|request| post(self.world, &self.boards, request));
        let (outcomes, (reads, rolled)) =
            join(join_all(posts), join(join_all(reads), roll_over())).await;
        rolled.map_err(|error| error.to_string())?;
        for read in reads {
            expect_equal(&read.text, &read.status, &StatusCode::OK)?;
        }
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.log
            .push(format!("side by side, {} batches:", requests.len()));
        for (request, outcomes) in requests.iter().zip(&outcomes) {
            self.log_sent(request, outcomes);
        }
        let events = requests.into_iter().flat_map(|request| request.events);
        let answered = events.zip(outcomes.into_iter().flatten());
        let (taken, others): (Vec<_>, Vec<_>) =
            answered.partition(|(_, outcome)| outcome.is_taken());
        let before = self.boards.clone();
        for (sent, outcome) in taken {
            let model = &mut self.boards[sent.board].1;
            let verdict = model.take(&sent.event, self.now);
            expect_equal(&format!("{sent:?}"), &verdict, &Verdict::Taken)?;
            model.remember(outcome.standings);
        }
        self.compare_others(&others, &[before, self.boards.clone()])
    }

    /// Sends everything that has an id again, in another order and in other batches.
    async fn send_all_again(&mut self) -> Result<(), String> {
        let mut sent: Vec<Sent> = self
            .sent
            .iter()
            .filter(|sent| sent.event.id.is_some())
            .cloned()
            .collect();
        self.random.shuffle(&mut sent);
        while !sent.is_empty() {
            let count = 1 + self.random.below(sent.len());
            let events: Vec<Sent> = sent.drain(..count).collect();
            let bodies = events.iter().map(|sent| self.body(sent)).collect();
            let instance = self.random.below(self.world.instances.len());
            self.send_request(Request {
                instance,
                is_single: false,
                detail: self.possible(Detail::Ranks, &events),
                events,
                bodies,
            })
            .await?;
        }
        Ok(())
    }

    /// What can be asked of these events: of several shards no ranks.
    fn possible(&self, detail: Detail, events: &[Sent]) -> Detail {
        let is_sharded = |sent: &Sent| self.boards[sent.board].1.board.shards > 1;
        if detail == Detail::Ranks && events.iter().any(is_sharded) {
            Detail::Standings
        } else {
            detail
        }
    }

    fn prepare(&mut self, batch: &Batch) -> Request {
        let mut events = Vec::new();
        for sending in &batch.events {
            let with_ids: Vec<&Sent> = self
                .sent
                .iter()
                .filter(|sent| sent.event.id.is_some())
                .collect();
            let earlier = |earlier: Pick| {
                with_ids
                    .get(pick(earlier, with_ids.len().max(1)))
                    .copied()
                    .cloned()
            };
            let sent = match sending {
                Sending::New(event) => self.new_event(event),
                Sending::Again(which) => match earlier(*which) {
                    Some(sent) => sent,
                    None => continue,
                },
                Sending::SameId(which, event) => match earlier(*which) {
                    Some(first) => {
                        let mut sent = self.new_event(event);
                        sent.board = first.board;
                        let takes_data = self.boards[sent.board].1.board.entry_data;
                        sent.event.data.take_if(|_| !takes_data);
                        sent.event.id = first.event.id;
                        if self.boards[sent.board].1.board.shards > 1 {
                            // Each shard knows the ids of its own members.
                            sent.event.member = first.event.member;
                        }
                        // What is no score at all is refused whatever its id is.
                        sent.event.score.get_or_insert(1);
                        sent
                    }
                    None => continue,
                },
            };
            self.sent.push(sent.clone());
            events.push(sent);
        }
        let bodies = events.iter().map(|sent| self.body(sent)).collect();
        Request {
            instance: pick(batch.instance, self.world.instances.len()),
            is_single: batch.is_single,
            detail: self.possible(batch.detail, &events),
            events,
            bodies,
        }
    }

    fn new_event(&mut self, new: &NewEvent) -> Sent {
        let board = pick(new.board, self.boards.len());
        let at = self.time(board, new.at);
        self.ids += 1;
        let id = match self.ids % 4 {
            0 => format!("é {{{}}}:x", self.ids),
            _ => format!("e{}", self.ids),
        };
        let score = read_amount(new.score, &self.boards[board].1.board);
        let data = new.data.filter(|_| self.boards[board].1.board.entry_data);
        let event = Event {
            id: new.has_id.then_some(id),
            member: MEMBERS[pick(new.member, self.members)].to_owned(),
            score: score.clone().ok(),
            at,
            voter: new.voter.map(|voter| format!("voter {voter}")),
            channel: new.channel.map(ToOwned::to_owned),
            data: data.map(|which| DATA[pick(which, DATA.len())].0),
        };
        Sent {
            board,
            event,
            number: score.err().unwrap_or_default(),
        }
    }

    /// An event in JSON. The same content can be written in more than one way.
    fn body(&mut self, sent: &Sent) -> String {
        let (id, model) = &self.boards[sent.board];
        let decimals = model.board.decimals;
        let number = match (sent.event.score, self.random.below(6)) {
            (None, _) => sent.number.clone(),
            (Some(value), 0) => format!("{value}e-{decimals}"),
            (Some(value), 1) if value != 0 => format!("{value}000E-{}", decimals + 3),
            (Some(0), 2) => "-0.0".to_owned(),
            (Some(value), _) => score_text(value, decimals),
        };
        let mut fields = vec![
            format!("\"board\": {}", json!(id)),
            format!("\"member\": {}", json!(sent.event.member)),
            format!("\"score\": {number}"),
        ];
        if let Some(id) = &sent.event.id {
            fields.push(format!("\"id\": {}", json!(id)));
        }
        if let Some(voter) = &sent.event.voter {
            fields.push(format!("\"voter\": {}", json!(voter)));
        }
        if let Some(channel) = &sent.event.channel {
            fields.push(format!("\"channel\": {}", json!(channel)));
        }
        if let Some(data) = sent.event.data {
            let mut known = DATA.iter();
            let (_, other) = known.find(|(form, _)| *form == data).unwrap();
            let text = [data, *other][self.random.below(2)];
            fields.push(format!("\"data\": {text}"));
        }
        if let Some(at) = sent.event.at {
            let offset = FixedOffset::east_opt([0, 19_800, -12_600][self.random.below(3)]).unwrap();
            let text = utc(at)
                .with_timezone(&offset)
                .to_rfc3339_opts(SecondsFormat::Millis, true);
            fields.push(format!("\"at\": {}", json!(text)));
        }
        self.random.shuffle(&mut fields);
        format!("{{{}}}", fields.join(", "))
    }

    fn log_sent(&mut self, request: &Request, outcomes: &[Outcome]) {
        let Request {
            instance,
            is_single,
            detail,
            ..
        } = request;
        let how = if *is_single {
            "one by one"
        } else {
            "as a batch"
        };
        self.log
            .push(format!("to instance {instance} {how}, {detail:?}:"));
        for (body, outcome) in request.bodies.iter().zip(outcomes) {
            let what = outcome.problem.as_ref().unwrap_or(&outcome.status);
            self.log
                .push(format!("  {body} -> {what} {}", outcome.standings));
        }
    }

    // Reading.

    /// Reads some standings near the clock, or near what was sent.
    async fn read_some(&mut self, count: usize) -> Result<(), String> {
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
    async fn read_everything(&mut self) -> Result<(), String> {
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
            ask(self.world, &mut self.random, queries).await?;
        }
        Ok(())
    }
}

/// Hides members, and brings others back; again where a server is missing.
async fn hide_all(world: &World, instance: Pick, hides: &[Hiding]) -> Result<(), String> {
    let service = &world.instances[pick(instance, world.instances.len())].service;
    for hiding in hides {
        let (id, member) = (
            BoardId::parse(&hiding.id).unwrap(),
            MemberId::parse(hiding.member).unwrap(),
        );
        let hide = Hide {
            reason: Reason::parse("cheating").unwrap(),
            by: "mod".to_owned(),
            since: service.engine.clock.now(),
            until: None,
        };
        eventually("a hide is answered", async || {
            if hiding.is_hidden {
                service.hide(&id, &member, &hide).await.is_ok()
            } else {
                service.engine.unhide(&id, &member, None).await.is_ok()
            }
        })
        .await;
    }
    Ok(())
}

/// Has an instance close periods; again where a server is missing. If it is killed after so many waits, another one goes on.
async fn close_periods(world: &World, instance: Pick, closed: &Closed, killed_after: Option<u16>) {
    let place = pick(instance, world.instances.len());
    let id = BoardId::parse(&closed.id).unwrap();
    let until = Timestamp::parse(&time_text(closed.until)).unwrap();
    let close = async |place: usize| {
        let service = &world.instances[place % world.instances.len()].service;
        match &closed.period {
            Some((window, key)) => {
                let key = Choice::Key(key.clone());
                let closed = Box::pin(service.close_period(&id, window, &key)).await;
                closed.is_ok()
            }
            None => service.engine.close_shards(&id, until).await.is_ok(),
        }
    };
    if let Some(waits) = killed_after {
        let _ = break_off(close(place), waits).await;
    }
    eventually("the periods are closed", async || close(place + 1).await).await;
}

/// Has an instance move boards, and kills it after so many waits; returns whether it came to the end.
async fn move_for_a_while(
    world: &World,
    place: usize,
    killed_after: Option<u16>,
) -> Result<bool, String> {
    let instance = &world.instances[place];
    match killed_after {
        Some(waits) => match break_off(reshard_boards(instance), waits).await {
            Some(moved) => moved.map(|()| true),
            None => Ok(false),
        },
        None => reshard_boards(instance).await.map(|()| true),
    }
}

async fn reshard_boards(instance: &Instance) -> Result<(), String> {
    let moved = instance.service.engine.run(&Moves).await;
    moved.map_err(|error| error.to_string())
}

/// Lets the time go by for which an instance that was killed keeps others from moving a board. Returns whether it was
/// closed.
async fn free_lease(world: &World, instance: &Instance, id: &str) -> Result<bool, String> {
    let board = stored_board(instance, id).await?;
    if board.placement.next.is_some() {
        let head = format!("st:{{{id}}}");
        let words = ["HSET", &head, "move:until", "0"].map(str::as_bytes);
        eventually("the lease has run out", async || {
            matches!(world.redis.run(&words).await, Reply::Integer(_))
        })
        .await;
    }
    Ok(board.placement.is_closing())
}

async fn stored_board(
    instance: &Instance,
    id: &str,
) -> Result<Arc<standings::domain::board::Board>, String> {
    let board = instance
        .service
        .engine
        .board(&BoardId::parse(id).unwrap())
        .await;
    board.map_err(|error| error.to_string())
}

/// What has to become of an event now, and the model of its board afterwards.
fn judge(boards: &[(String, Model)], sent: &Sent, now: i64, detail: Detail) -> (Model, Outcome) {
    let before = &boards[sent.board].1;
    let mut after = before.clone();
    let outcome = match after.take(&sent.event, now) {
        Verdict::Taken => {
            let standings = in_any_order(changes(before, &after, &sent.event, now, detail));
            after.remember(standings.clone());
            let status = status(before, &after, &sent.event, now).to_owned();
            Outcome {
                status,
                problem: None,
                standings,
            }
        }
        Verdict::Duplicate(standings) => Outcome {
            status: "duplicate".to_owned(),
            problem: None,
            standings,
        },
        Verdict::Rejected(problem) => Outcome {
            status: "rejected".to_owned(),
            problem: Some(format!("/problems/{problem}")),
            standings: Value::Null,
        },
    };
    (after, outcome)
}

/// Sends a batch again and again, or each of its events, as long as a server is missing.
async fn post_until_taken(
    world: &World,
    boards: &[(String, Model)],
    request: &Request,
) -> Result<Vec<Outcome>, String> {
    if !request.is_single {
        return post_one_until_taken(world, boards, request).await;
    }
    let mut outcomes = Vec::new();
    for (sent, body) in request.events.iter().zip(&request.bodies) {
        let one = Request {
            events: vec![sent.clone()],
            bodies: vec![body.clone()],
            ..*request
        };
        outcomes.extend(post_one_until_taken(world, boards, &one).await?);
    }
    Ok(outcomes)
}

async fn post_one_until_taken(
    world: &World,
    boards: &[(String, Model)],
    request: &Request,
) -> Result<Vec<Outcome>, String> {
    let taken: Mutex<Option<Result<Vec<Outcome>, String>>> = Mutex::default();
    eventually("the events are taken", async || {
        let outcomes = post(world, boards, request).await;
        let is_missing =
            |outcome: &Outcome| outcome.problem.as_deref() == Some("/problems/store-unavailable");
        let is_over = !outcomes
            .as_ref()
            .is_ok_and(|outcomes| outcomes.iter().any(is_missing));
        *taken.lock() = Some(outcomes);
        is_over
    })
    .await;
    taken.into_inner().unwrap()
}

/// Sends a batch; the outcomes are in the order of its events.
async fn post(
    world: &World,
    boards: &[(String, Model)],
    request: &Request,
) -> Result<Vec<Outcome>, String> {
    let client = &world.instances[request.instance].client;
    let parameters = match request.detail {
        Detail::Status => "standings=false",
        Detail::Standings => "ranks=false",
        Detail::Ranks => "ranks=true",
    };
    let mut outcomes = Vec::new();
    if request.is_single {
        for (sent, body) in request.events.iter().zip(&request.bodies) {
            let path = format!("/v1/boards/{}/events?{parameters}", boards[sent.board].0);
            let answer = client
                .post_text(&path, "application/json", body.clone())
                .await;
            let answered = exact(&answer.text);
            outcomes.push(if answer.status == StatusCode::OK {
                outcome(boards, sent, &answered)?
            } else {
                rejected(&answered)
            });
        }
    } else if !request.events.is_empty() {
        let path = format!("/v1/events?{parameters}");
        let body = format!("{{\"events\": [{}]}}", request.bodies.join(", "));
        let answer = client.post_text(&path, "application/json", body).await;
        let answered = exact(&answer.text);
        if answer.status == StatusCode::SERVICE_UNAVAILABLE {
            return Ok(vec![rejected(&answered); request.events.len()]);
        }
        expect_equal(&answer.text, &answer.status, &StatusCode::OK)?;
        let results = answered["results"].as_array().unwrap();
        expect_equal(
            "the number of results",
            &results.len(),
            &request.events.len(),
        )?;
        for (sent, result) in request.events.iter().zip(results) {
            outcomes.push(outcome(boards, sent, result)?);
        }
    }
    Ok(outcomes)
}

/// Takes an answer to an event apart; it has to say which event it is about.
fn outcome(boards: &[(String, Model)], sent: &Sent, answered: &Value) -> Result<Outcome, String> {
    let names = json!([boards[sent.board].0, sent.event.member, sent.event.id]);
    let shown = json!([answered["board"], answered["member"], answered["id"]]);
    expect_equal("the event of an answer", &shown, &names)?;
    if answered["status"] == "rejected" {
        return Ok(rejected(&answered["problem"]));
    }
    Ok(Outcome {
        status: answered["status"].as_str().unwrap().to_owned(),
        problem: None,
        standings: in_any_order(answered["standings"].clone()),
    })
}

/// The contract doesn't say in which order an outcome names the standings.
fn in_any_order(mut standings: Value) -> Value {
    if let Some(standings) = standings.as_array_mut() {
        standings.sort_by_key(|standing| standing["window"].as_str().map(ToOwned::to_owned));
    }
    standings
}

fn rejected(problem: &Value) -> Outcome {
    Outcome {
        status: "rejected".to_owned(),
        problem: problem["type"].as_str().map(ToOwned::to_owned),
        standings: Value::Null,
    }
}

/// Takes so many small steps towards the standing whose newest period begins then: what is left of a background
/// step that has died.
async fn roll_over_partly(
    instance: &Instance,
    id: &str,
    window: Window,
    start: i64,
    budget: u32,
    times: usize,
) -> Result<(), String> {
    let service = &instance.service;
    let board = stored_board(instance, id).await?;
    let window: standings::domain::window::Window = window_name(window).parse().unwrap();
    let start = Timestamp::parse(&time_text(start)).unwrap();
    let now = service.engine.clock.now();
    let period = board.calendar.containing(window.unit(), start);
    let running = board.calendar.containing(window.unit(), now);
    let derived = board
        .derived_as(board.series(window, Track::Shown))
        .unwrap();
    for shard in board.shards() {
        for _ in 0..times {
            let done = service
                .engine
                .store
                .advance(&shard, &derived, &period, &running, now, budget)
                .await;
            done.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Compares a board's list of initial scores with the model's.
async fn list_initial_scores(client: &Client, id: &str, model: &Model) -> Result<(), String> {
    const LIMIT: usize = 3;
    let mut after = String::new();
    for expected in model.initial_scores().chunks(LIMIT) {
        let path = format!("/v1/boards/{id}/initial-scores?limit={LIMIT}{after}");
        let answered = exact(&client.get(&path).await.text);
        let entries = expected.iter().map(|(member, score)| {
            json!({"member": member, "score": score_text(*score, model.board.decimals)})
        });
        expect_equal(&path, &answered["entries"], &entries.collect())?;
        let next = answered["next"].as_str().unwrap_or_default();
        after = format!("&after={}", utf8_percent_encode(next, NON_ALPHANUMERIC));
    }
    expect_equal(
        "where the list ends",
        &after.trim_start_matches("&after="),
        &"",
    )
}
