//! Events are sent: made, written down, and posted in batches, one after the other or side by side.

use std::collections::BTreeSet;

use chrono::{FixedOffset, SecondsFormat};
use futures::future::{join, join_all};
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use serde_json::{Value, json};
use standings::domain::time::Timestamp;
use standings::queue;
use standings::queue::store::queues::{self, QueueName};

use super::moves::stored_board;
use super::order::judge;
use super::{Game, Outcome, Request, Sent, expect_equal, pick, read_amount};
use crate::harness::World;
use crate::harness::jobs::{ApplyQueues, Rollover, SETTLE_ALL};
use crate::harness::redis::eventually;
use crate::model::answers::{exact, score_text, window_name};
use crate::model::cases::{Batch, DATA, Detail, MEMBERS, NewEvent, Pick, Sending};
use crate::model::naive::{Event, Model, Verdict, Window, utc};

/// An event that waits in a queue, its id, and what is to become of it.
pub(super) type Waiting = (Sent, Value, Outcome);

impl Game<'_> {
    /// Sends a batch alone, so that all that its answers say can be compared.
    pub(super) async fn send(&mut self, batch: &Batch) -> Result<(), String> {
        let request = self.prepare(batch);
        if self.random.below(4) == 0 && self.may_queue(&request) {
            return self.send_to_queues(request).await;
        }
        self.send_request(request).await
    }

    /// Whether it can be known in which order these events are applied if they are queued, and for which times: those of a shard are
    /// in their order. But one that has to be sent again with the history of a rolling window comes behind others.
    pub(super) fn may_queue(&self, request: &Request) -> bool {
        let is_alone = |sent: &Sent| {
            let is_like = |other: &&Sent| {
                let is_same_id = other.event.id.is_some() && other.event.id == sent.event.id;
                other.board == sent.board && (is_same_id || other.event.member == sent.event.member)
            };
            request.events.iter().filter(is_like).count() == 1
        };
        request.events.iter().all(|sent| {
            let (event, model) = (&sent.event, &self.boards[sent.board].1);
            let mut windows = model.board.windows.iter();
            let rolls = windows.any(|window| matches!(window, Window::Rolling(..)));
            let has_quotas = !model.board.quotas.is_empty();
            let is_ordered = if rolls {
                is_alone(sent) && !has_quotas
            } else {
                model.board.shards == 1 || !has_quotas
            };
            is_ordered && (event.at.is_some() || !model.was_erased(&event.member))
        })
    }

    /// Sends a batch to be queued, and has it applied. Then it is as if it had been sent.
    async fn send_to_queues(&mut self, request: Request) -> Result<(), String> {
        let queued = self.queue(request).await?;
        self.follow_queued(&queued).await
    }

    /// Sends a batch to be queued. Returns the events that wait, and what is to become of them.
    pub(super) async fn queue(&mut self, request: Request) -> Result<Vec<Waiting>, String> {
        let mut waiting = Vec::new();
        for (sent, id) in self.put(request).await? {
            let (after, expected) = judge(&self.boards, &sent, self.now, Detail::Standings);
            self.boards[sent.board].1 = after;
            waiting.push((sent, id, expected));
        }
        Ok(waiting)
    }

    /// Sends a batch to be queued. Returns the events that wait, with their ids.
    pub(super) async fn put(&mut self, request: Request) -> Result<Vec<(Sent, Value)>, String> {
        let is_asked = self.random.below(3) > 0;
        let request = Request {
            is_queued: is_asked,
            ..request
        };
        if !is_asked {
            self.set_ingest(&request, "async").await;
        }
        let outcomes = post(self.world, &self.boards, &request).await?;
        if !is_asked {
            self.expect_queued(&request, &outcomes).await?;
            self.set_ingest(&request, "sync").await;
        }
        self.log_sent(&request, &outcomes);
        let answered = request.events.into_iter().zip(outcomes);
        let (queued, others): (Vec<_>, Vec<_>) =
            answered.partition(|(_, outcome)| outcome.status == "queued");
        // These did not wait.
        self.compare(others, request.detail, None)?;
        let queued = queued.into_iter();
        Ok(queued
            .map(|(sent, outcome)| (sent.reported(&outcome), outcome.standings))
            .collect())
    }

    /// Has all events of the boards of a request queued from now on, or only where that is asked. Its instance knows that at once, and
    /// no other one reads these definitions meanwhile.
    async fn set_ingest(&mut self, request: &Request, ingest: &str) {
        let boards: BTreeSet<usize> = request.events.iter().map(|sent| sent.board).collect();
        let client = &self.world.instances[request.instance].client;
        for board in boards {
            let id = &self.boards[board].0;
            let path = format!("/v1/boards/{id}");
            let change = json!({ "ingest": ingest });
            client.patch(&path, change).await.expect(200);
            self.log.push(format!("ingest of {id} is {ingest}"));
        }
    }

    /// Only a board that moves applies events before they are answered.
    async fn expect_queued(&self, request: &Request, outcomes: &[Outcome]) -> Result<(), String> {
        let instance = &self.world.instances[request.instance];
        let answered = request.events.iter().zip(outcomes);
        for (sent, outcome) in answered.filter(|(_, outcome)| outcome.is_taken()) {
            let board = stored_board(instance, &self.boards[sent.board].0).await?;
            let moves = board.placement.next.is_some();
            expect_equal(&format!("{sent:?} {outcome:?}"), &moves, &true)?;
        }
        Ok(())
    }

    /// Has queued events applied, and compares what became of them.
    pub(super) async fn follow_queued(&self, waiting: &[Waiting]) -> Result<(), String> {
        for (sent, id, expected) in waiting {
            let became = self.applied(sent, id).await;
            let may_be_silent = self.boards[sent.board].1.has_erased();
            compare_queued(&format!("{sent:?}"), &became, expected, may_be_silent)?;
        }
        self.empty_queues().await;
        Ok(())
    }

    /// Has all applied that waits, also what is known already. Moves and closings wait for that.
    async fn empty_queues(&self) {
        let store = &self.world.instances[0].engine.store;
        eventually("no queue has anything", async || {
            let Ok(listed) = queues::listed(store).await else {
                return false;
            };
            let mut is_empty = true;
            for queue in listed {
                let size = queues::size(store, &queue).await;
                if !size.is_ok_and(|size| size.events == 0) {
                    is_empty = false;
                    for instance in &self.world.instances {
                        queue::of(&instance.engine).queues.wake([queue.clone()]);
                        let _ = instance.engine.run(&ApplyQueues).await;
                    }
                }
            }
            is_empty
        })
        .await;
    }

    /// What became of a queued event, once it is known.
    async fn applied(&self, sent: &Sent, id: &Value) -> Value {
        let [id, member] = [id.as_str().unwrap(), &sent.event.member]
            .map(|text| utf8_percent_encode(text, NON_ALPHANUMERIC));
        let board = &self.boards[sent.board].0;
        let path = format!("/v1/boards/{board}/events?id={id}&member={member}");
        let found: Mutex<Value> = Mutex::default();
        let shards = stored_board(&self.world.instances[0], board).await;
        let queues: Vec<_> = shards.unwrap().shards().iter().map(QueueName::of).collect();
        eventually("a queued event is applied", async || {
            for instance in &self.world.instances {
                queue::of(&instance.engine).queues.wake(queues.clone());
                // On a cluster its slot may be moving.
                let _ = instance.engine.run(&ApplyQueues).await;
            }
            let answer = self.world.client().once().get(&path).await;
            *found.lock() = exact(&answer.text)["events"].clone();
            let events = found.lock();
            let mut events = events.as_array().into_iter().flatten();
            answer.status == StatusCode::OK && events.all(|event| event["status"] != "queued")
        })
        .await;
        found.into_inner()
    }

    pub(super) async fn send_request(&mut self, request: Request) -> Result<(), String> {
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

    /// Sends batches side by side, while standings are read and rolled over. Which of two events comes first
    /// can't be known, so that only what was taken is compared now, and the standings later.
    pub(super) async fn send_side_by_side(&mut self, batches: &[Batch]) -> Result<(), String> {
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
                instance.engine.run(&SETTLE_ALL).await?;
                instance.engine.run(&Rollover).await
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
            let verdict = model.take(&sent.event, self.now, outcome.at);
            expect_equal(&format!("{sent:?}"), &verdict, &Verdict::Taken)?;
            model.remember(outcome.standings);
        }
        self.compare_others(&others, &[before, self.boards.clone()])
    }

    /// Sends everything that has an id again, in another order and in other batches.
    pub(super) async fn send_all_again(&mut self) -> Result<(), String> {
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
                is_queued: false,
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

    pub(super) fn prepare(&mut self, batch: &Batch) -> Request {
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
            is_queued: false,
            detail: self.possible(batch.detail, &events),
            events,
            bodies,
        }
    }

    pub(super) fn new_event(&mut self, new: &NewEvent) -> Sent {
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
            reported_at: None,
        }
    }

    /// An event in JSON. The same content can be written in more than one way.
    pub(super) fn body(&mut self, sent: &Sent) -> String {
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

    pub(super) fn log_sent(&mut self, request: &Request, outcomes: &[Outcome]) {
        let Request {
            instance,
            is_single,
            is_queued,
            detail,
            ..
        } = request;
        let how = match (is_single, is_queued) {
            (_, true) => "to be queued",
            (true, _) => "one by one",
            _ => "as a batch",
        };
        self.log
            .push(format!("to instance {instance} {how}, {detail:?}:"));
        for (body, outcome) in request.bodies.iter().zip(outcomes) {
            let what = outcome.problem.as_ref().unwrap_or(&outcome.status);
            self.log
                .push(format!("  {body} -> {what} {}", outcome.standings));
        }
    }
}

/// Compares what is told of a queued event with what had to become of it.
///
/// `may_be_silent`: somebody was erased, so the scores may be missing.
fn compare_queued(
    what: &str,
    became: &Value,
    expected: &Outcome,
    may_be_silent: bool,
) -> Result<(), String> {
    let events = || became.as_array().into_iter().flatten();
    let applied = events().find(|event| event["status"] == "applied");
    if let Some(problem) = &expected.problem {
        // Another event may have been taken under its id.
        let is_told = events().any(|event| event["problem"]["type"] == json!(problem));
        let told = applied.is_some() || is_told;
        return expect_equal(&format!("{what}: {became}, not {problem}"), &told, &true);
    }
    let Some(applied) = applied else {
        return Err(format!("{what}: {became}, not {expected:?}"));
    };
    if !expected.is_taken() {
        return Ok(());
    }
    expect_equal(what, &applied["outcome"], &json!(expected.status))?;
    let scores = |standings: &Value| {
        let standings = in_any_order(standings.clone());
        let standings = standings.as_array().into_iter().flatten();
        let score = |one: &Value| (one["window"].clone(), one["score"].to_string());
        standings.map(score).collect::<Vec<_>>()
    };
    let (told, expected) = (scores(&applied["standings"]), scores(&expected.standings));
    if may_be_silent && told.is_empty() {
        return Ok(());
    }
    expect_equal(&format!("{what}: {applied}"), &told, &expected)
}

/// Sends a batch; the outcomes are in the order of its events.
pub(super) async fn post(
    world: &World,
    boards: &[(String, Model)],
    request: &Request,
) -> Result<Vec<Outcome>, String> {
    let client = world.instances[request.instance].client.clone();
    let client = if request.is_queued {
        client.queueing()
    } else {
        client
    };
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
            outcomes.push(if answer.status.is_success() {
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
    if answered["status"] == "queued" {
        // An event without an id has got one.
        let (id, own) = (&answered["id"], &sent.event.id);
        let is_own = own.as_ref().is_none_or(|own| json!(own) == *id);
        expect_equal("the id of a queued event", &is_own, &true)?;
        return Ok(Outcome {
            status: "queued".to_owned(),
            problem: None,
            at: instant(answered),
            standings: id.clone(),
        });
    }
    let names = json!([boards[sent.board].0, sent.event.member, sent.event.id]);
    // A board that keeps events gives them ids, perhaps even some that are rejected.
    let id = match &sent.event.id {
        None if answered["id"].is_string() => &Value::Null,
        _ => &answered["id"],
    };
    let shown = json!([answered["board"], answered["member"], id]);
    expect_equal("the event of an answer", &shown, &names)?;
    if answered["status"] == "rejected" {
        return Ok(rejected(&answered["problem"]));
    }
    Ok(Outcome {
        status: answered["status"].as_str().unwrap().to_owned(),
        problem: None,
        at: instant(answered),
        standings: in_any_order(answered["standings"].clone()),
    })
}

/// What an answer says that its event counts for, in microseconds since the epoch.
fn instant(answered: &Value) -> Option<i64> {
    let at = Timestamp::parse(answered["at"].as_str()?);
    Some(at.unwrap().us())
}

/// The contract doesn't say in which order an outcome names the standings.
pub(super) fn in_any_order(mut standings: Value) -> Value {
    if let Some(standings) = standings.as_array_mut() {
        standings.sort_by_key(|standing| standing["window"].as_str().map(ToOwned::to_owned));
    }
    standings
}

fn rejected(problem: &Value) -> Outcome {
    Outcome {
        status: "rejected".to_owned(),
        problem: problem["type"].as_str().map(ToOwned::to_owned),
        at: None,
        standings: Value::Null,
    }
}
