//! Periods are closed, rewards of them claimed, and their results read.

use futures::future::{join, join_all};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use standings::core::read::period::Choice;
use standings::domain::ids::BoardId;
use standings::periods;
use standings::periods::results::periods::PeriodName;

use super::order::judge;
use super::sending::post;
use super::{Closed, Game, READ_PERIODS_MAX, Request, Sent, TIME_MAX, pick};
use crate::harness::jobs::ClosePeriods;
use crate::harness::redis::eventually;
use crate::harness::{World, break_off};
use crate::model::answers::{exact, time_text, unit_name};
use crate::model::cases::{Closing, Detail, MEMBERS, Pick};
use crate::model::naive::{Board, HOUR, Model, Unit, Window};
use crate::model::results;

impl Game<'_> {
    /// What a closing closes, if the board has closings.
    pub(super) fn closed(&self, closing: Closing) -> Option<Closed> {
        let board = pick(closing.board, self.boards.len());
        let (id, model) = &self.boards[board];
        let windows = &model.board.windows;
        let window = windows[pick(closing.unit, windows.len())];
        let unit = window.unit();
        let period = model.board.period(unit, self.now) - closing.before;
        let until = model.board.start(unit, period)?;
        if !model.board.finalizes {
            return None;
        }
        // What ended before the board had `finalize` can't be closed by itself.
        if matches!(window, Window::Period(_)) && model.finalizes_since() < until {
            let key = model.board.key(unit, period - 1);
            return Some(Closed {
                asked: Some((id.clone(), unit_name(unit), key)),
                until: vec![(board, until)],
            });
        }
        Some(self.due())
    }

    /// What is closed by itself.
    fn due(&self) -> Closed {
        // What had ended when a board was made is closed with what ends later.
        let boards = self.boards.iter().enumerate();
        let due = boards.filter_map(|(place, (_, model))| {
            let due = due(&model.board, self.now).filter(|due| model.finalizes_since() < *due)?;
            Some((place, due))
        });
        Closed {
            asked: None,
            until: due.collect(),
        }
    }

    /// Has an instance close periods, and sends a batch meanwhile.
    pub(super) async fn close(
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
            return self.follow_closed(&closed).await;
        };
        let sent = post(self.world, &self.boards, &request);
        let (outcomes, ()) = join(sent, closing).await;
        let outcomes = outcomes?;
        self.log_sent(&request, &outcomes);
        self.log.push("meanwhile".to_owned());
        let answered = request.events.into_iter().zip(outcomes);
        self.compare(answered.collect(), request.detail, Some(&closed))?;
        self.follow_closed(&closed).await
    }

    /// Whoever asks for a closing is told the result, and so has results revised by the hides until then.
    async fn follow_closed(&mut self, closed: &Closed) -> Result<(), String> {
        if closed.asked.is_some() {
            for (board, _) in &closed.until {
                self.follow_revisions(*board).await?;
            }
        }
        Ok(())
    }

    /// What is closed by itself, if these events may be queued and then be cut off by that.
    pub(super) fn may_cut_off(&self, request: &Request) -> Option<Closed> {
        let closed = self.due();
        let later = self.now + self.max_delay(&closed)?;
        let is_as_before =
            |(_, model): &(String, Model)| due(&model.board, self.now) == due(&model.board, later);
        let may = later <= TIME_MAX
            && self.boards.iter().all(is_as_before)
            && request.events.iter().any(|sent| self.may_wait(sent));
        may.then_some(closed)
    }

    /// How long these closings wait for queued events at the most, if all of them do for a time only.
    fn max_delay(&self, closed: &Closed) -> Option<i64> {
        let boards = closed.until.iter();
        let delays: Option<Vec<i64>> = boards
            .map(|(board, _)| self.boards[*board].1.board.max_delay)
            .collect();
        delays?.into_iter().max()
    }

    /// Whether an event may be queued beside any others: see `may_queue`.
    fn may_wait(&self, sent: &Sent) -> bool {
        let (event, model) = (&sent.event, &self.boards[sent.board].1);
        let mut windows = model.board.windows.iter();
        let rolls = windows.any(|window| matches!(window, Window::Rolling(..)));
        let is_ordered = model.board.shards == 1 || model.board.quotas.is_empty();
        !rolls && is_ordered && !model.was_erased(&event.member)
    }

    /// Queues a batch, and has an instance close periods without the events of them. Then these are refused, and counted.
    pub(super) async fn cut_off(
        &mut self,
        instance: Pick,
        closed: &Closed,
        mut request: Request,
    ) -> Result<(), String> {
        let queued_at = self.now;
        request.events.retain(|sent| self.may_wait(sent));
        // Of most it is sure that they are cut off, if they are not too late.
        for (place, sent) in (0..).zip(&mut request.events) {
            let mut closed = closed.until.iter();
            let own = closed.find(|(board, _)| *board == sent.board);
            if let Some((_, until)) = own.filter(|_| place % 3 > 0) {
                sent.event.at = Some(until - 1 - place);
            }
        }
        request.bodies = request.events.iter().map(|sent| self.body(sent)).collect();
        let queued = self.put(request).await?;
        close_periods(self.world, instance, closed, None).await;
        self.set_clock(self.now + self.max_delay(closed).unwrap());
        close_periods(self.world, instance, closed, None).await;
        self.note_closed(closed);
        let mut cut_off = Vec::new();
        let mut waiting = Vec::new();
        for (sent, id) in queued {
            let (after, expected) = judge(&self.boards, &sent, queued_at, Detail::Standings);
            let model = &mut self.boards[sent.board].1;
            *model = after;
            // The same event waits once.
            let entry = (sent.board, id.clone(), sent.event.clone());
            let is_new = !cut_off.contains(&entry);
            if is_new && expected.problem.as_deref() == Some("/problems/period-closed") {
                model.cut_off(sent.event.at.unwrap_or(queued_at));
                cut_off.push(entry);
            }
            waiting.push((sent, id, expected));
        }
        self.follow_queued(&waiting).await
    }

    /// Takes note of periods that were closed.
    pub(super) fn note_closed(&mut self, closed: &Closed) {
        for (board, until) in &closed.until {
            let (id, model) = &mut self.boards[*board];
            self.log
                .push(format!("{id} is closed until {}", time_text(*until)));
            model.close(*until);
        }
    }

    /// One of the periods of a board that have results.
    pub(super) fn final_period(&self, board: usize, period: Pick) -> Option<(Unit, i64)> {
        let finals: Vec<_> = self.boards[board].1.finals.keys().copied().collect();
        let period = pick(period, finals.len().max(1));
        finals.get(period).copied()
    }

    /// Has several callers claim a reward at once.
    pub(super) async fn claim(
        &mut self,
        board: Pick,
        period: Pick,
        reward: Pick,
        callers: &[(Pick, u8)],
    ) -> Result<(), String> {
        let board = pick(board, self.boards.len());
        let Some(of) = self.final_period(board, period) else {
            return Ok(());
        };
        let model = &self.boards[board].1;
        let known: Vec<(usize, String)> = model.finals[&of]
            .rewards
            .keys()
            .filter(|(_, member)| MEMBERS.contains(&member.as_str()))
            .cloned()
            .collect();
        let ids: Vec<String> = model
            .rules_of(of.0, of.1)
            .iter()
            .map(|rule| rule.id.clone())
            .collect();
        // Most are there.
        let chosen = known.get(usize::from(reward) % (known.len() + 1));
        let (rule, member) = if let Some((rule, member)) = chosen {
            (ids[*rule].clone(), member.clone())
        } else {
            let rule = ids.first().map_or("a", String::as_str);
            let member = MEMBERS[pick(reward, self.members)];
            (rule.to_owned(), member.to_owned())
        };
        let path = results::path(&self.boards[board], of);
        let path = format!(
            "{path}/rewards/{rule}/members/{}/claim",
            utf8_percent_encode(&member, NON_ALPHANUMERIC)
        );
        let claims = callers.iter().map(async |(instance, by)| {
            let client = &self.world.instances[pick(*instance, self.world.instances.len())].client;
            let by = format!("grant {by}");
            let answer = client.put(&path, json!({ "by": by })).await;
            (by, answer.status.as_u16(), exact(&answer.text))
        });
        let mut answers = join_all(claims).await;
        self.log.push(format!("{path}: {answers:?}"));
        // Whose claim was the first one.
        answers.sort_by_key(|(_, status, _)| *status != 201);
        self.follow_revisions(board).await?;
        let model = &mut self.boards[board].1;
        for (by, status, answered) in answers {
            let claimed = model.claim(of, (&rule, &member), (&by, self.now));
            let expected = results::claimed(model, of, (&rule, &member), claimed);
            results::compare_claim(&path, (status, &answered), &expected)?;
        }
        Ok(())
    }

    /// Has the model revise the results of a board that do not count all hides yet, and compares their histories.
    async fn follow_revisions(&mut self, board: usize) -> Result<(), String> {
        for of in self.boards[board].1.unrevised() {
            let instance = self.random.below(self.world.instances.len());
            let client = &self.world.instances[instance].client;
            let (path, model) = (
                results::path(&self.boards[board], of),
                &self.boards[board].1,
            );
            let section = results::Section::of(&path, model, of);
            let told = results::history(client, &section).await?;
            let revised = self.boards[board].1.revise(of, &told);
            revised.map_err(|why| format!("{path} was revised: {told:?}\n{why}"))?;
        }
        Ok(())
    }

    /// Reads all that is told of a result.
    pub(super) async fn read_result(
        &mut self,
        board: usize,
        of: (Unit, i64),
    ) -> Result<(), String> {
        self.follow_revisions(board).await?;
        let instance = self.random.below(self.world.instances.len());
        let client = &self.world.instances[instance].client;
        let path = results::path(&self.boards[board], of);
        self.log.push(format!("{path} is read"));
        results::compare(client, &path, &self.boards[board].1, of).await
    }

    /// Reads the results of all boards, or many of them.
    pub(super) async fn read_results(&mut self) -> Result<(), String> {
        for board in 0..self.boards.len() {
            let mut finals: Vec<_> = self.boards[board].1.finals.keys().copied().collect();
            self.random.shuffle(&mut finals);
            finals.truncate(READ_PERIODS_MAX);
            for of in finals {
                self.read_result(board, of).await?;
            }
        }
        Ok(())
    }
}

/// Has an instance close periods; again where a server is missing. If it is killed after so many waits, another one goes on.
pub(super) async fn close_periods(
    world: &World,
    instance: Pick,
    closed: &Closed,
    killed_after: Option<u16>,
) {
    let place = pick(instance, world.instances.len());
    let close = async |place: usize| {
        let engine = &world.instances[place % world.instances.len()].engine;
        if let Some((id, window, key)) = &closed.asked {
            let at = PeriodName {
                board: BoardId::parse(id).unwrap(),
                window: window.clone(),
                choice: Choice::Key(key.clone()),
            };
            let closed = periods::results::work::close_period(engine, &at);
            return Box::pin(closed).await.is_ok();
        }
        // What is not in memory is not due.
        if engine.refresh_boards().await.is_err() {
            return false;
        }
        engine.run(&ClosePeriods).await.is_ok()
    };
    if let Some(waits) = killed_after {
        let _ = break_off(close(place), waits).await;
    }
    eventually("the periods are closed", async || close(place + 1).await).await;
}

/// Up to which instant a board is to be closed by now.
fn due(board: &Board, now: i64) -> Option<i64> {
    let waited = now - HOUR / 6;
    let windows = board.windows.iter().filter(|_| board.finalizes);
    let starts = windows.filter_map(|window| {
        let unit = window.unit();
        board.start(unit, board.period(unit, waited))
    });
    starts.max()
}
