//! Events are retracted, restored, corrected and revoked.

use std::collections::BTreeSet;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use serde_json::{Value, json};
use standings::corrections::work::{self, Correction, Named};
use standings::domain::data::EntryData;
use standings::domain::ids::{BoardId, EventId, MemberId};

use super::{Game, TIME_MAX, expect_equal, pick};
use crate::harness::client::Answer;
use crate::harness::{Instance, break_off};
use crate::model::answers::{score_text, time_text};
use crate::model::cases::{Change, DATA, NewEvent, Pick, RevokedBy};
use crate::model::naive::{Correctable, Verdict};

impl Game<'_> {
    /// Adds an event with an instant and an id, in no closed period.
    pub(super) async fn amend(&mut self, instance: Pick, event: &NewEvent) -> Result<(), String> {
        let sent = self.new_event(event);
        let (id, model) = &self.boards[sent.board];
        let is_possible = |at: i64| sent.event.id.is_some() && !model.is_closed_at(at);
        if !sent.event.at.is_some_and(is_possible) {
            return Ok(());
        }
        let path = format!("/v1/boards/{id}/amendments");
        let event = self.body(&sent);
        let body = format!("{{\"reason\": \"forgotten\", \"event\": {event}}}");
        let client = &self.world.instances[pick(instance, self.world.instances.len())].client;
        let answer = client.post_text(&path, "application/json", body).await;
        let kind = answer.json["type"].as_str().unwrap_or_default();
        self.log
            .push(format!("{event} is added: {} {kind}", answer.status));
        let (now, model) = (self.now, &mut self.boards[sent.board].1);
        let refused = match model.amend(&sent.event, now) {
            Verdict::Rejected(problem) => problem,
            _ => "",
        };
        match kind.strip_prefix("/problems/").unwrap_or_default() {
            // The history of before is still being removed.
            "history-off" if refused.is_empty() && !model.keeps_certainly() => model.take_back(),
            "correction-beyond" if refused.is_empty() && self.has_huge_scores => model.take_back(),
            kind => expect_equal(&answer.text, &kind, &refused)?,
        }
        Ok(())
    }

    /// Corrects an event that may be kept, halfway first, and then whole.
    pub(super) async fn correct(
        &mut self,
        instance: Pick,
        board: Pick,
        event: Pick,
        change: Change,
        killed_after: Option<u16>,
    ) -> Result<(), String> {
        let instance = &self.world.instances[pick(instance, self.world.instances.len())];
        let board = pick(board, self.boards.len());
        let (id, model) = &self.boards[board];
        let events = model.correctable();
        if events.is_empty() {
            return Ok(());
        }
        let event = &events[pick(event, events.len())];
        let decimals = model.board.decimals;
        let (score, data) = match change {
            Change::Score(of, data) => {
                let data = data.filter(|_| model.board.entry_data);
                let data = data.map(|data| DATA[pick(data, DATA.len())].0);
                (events[pick(of, events.len())].score, data)
            }
            Change::Retract | Change::Restore => (event.score, None),
        };
        let correction = match change {
            Change::Retract => Correction::Retract,
            Change::Restore => Correction::Restore,
            Change::Score(..) => Correction::Score {
                from: score_text(event.score, decimals),
                score: score_text(score, decimals),
                data: data.map(|data| EntryData::parse(data).unwrap()),
            },
        };
        self.log.push(format!(
            "{event:?} of {id}: {correction:?}, {killed_after:?}"
        ));
        if let Some(waits) = killed_after {
            let (id, named) = (BoardId::parse(id).unwrap(), named(event));
            break_off(
                work::correct(&instance.engine, &id, &named, &correction),
                waits,
            )
            .await;
            // Others wait no longer for a correction whose instance died.
            self.now = TIME_MAX.min(self.now + 5_001);
            self.world.set_time(&time_text(self.now));
        }
        let answer = send(instance, id, event, &correction, data).await;
        let kind = answer.json["type"].as_str().unwrap_or_default();
        let model = &mut self.boards[board].1;
        match (answer.status, kind) {
            (StatusCode::OK, _) => match change {
                Change::Retract => model.set_out(event.number, true),
                Change::Restore => model.set_out(event.number, false),
                Change::Score(..) => model.set_score(event.number, score, data),
            },
            (_, "/problems/event-not-kept" | "/problems/history-off") if !event.is_kept => {}
            (_, "/problems/correction-beyond") if self.has_huge_scores => {}
            _ => return expect_equal(&answer.text, &answer.status, &StatusCode::OK),
        }
        Ok(())
    }
}

impl Game<'_> {
    /// Revokes events of a board that certainly keeps them, in no closed period.
    pub(super) async fn revoke(
        &mut self,
        instance: Pick,
        board: Pick,
        event: Pick,
        by: RevokedBy,
    ) -> Result<(), String> {
        let instance = &self.world.instances[pick(instance, self.world.instances.len())];
        let board = pick(board, self.boards.len());
        let (id, model) = &mut self.boards[board];
        let events = model.correctable();
        if events.is_empty() || self.has_huge_scores || !model.keeps_certainly() {
            return Ok(());
        }
        let place = pick(event, events.len());
        let of = &events[place];
        let since = model.closed_until();
        let (mut body, covered) = match by {
            RevokedBy::Events(others) => {
                let ids = (0..=usize::from(others)).map(|other| (place + 7 * other) % events.len());
                let ids: BTreeSet<&str> = ids.map(|other| &*events[other].id).collect();
                let covered = model.revocable(i64::MIN, |_, event| {
                    event.id.as_deref().is_some_and(|id| ids.contains(id))
                });
                (json!({"events": ids}), covered)
            }
            RevokedBy::Member => {
                let covered = model.revocable(since, |_, event| event.member == of.member);
                (json!({"member": of.member}), covered)
            }
            RevokedBy::Voter => {
                let Some(voter) = model.voter_of(of.number) else {
                    return Ok(());
                };
                let covered =
                    model.revocable(since, |_, event| event.voter.as_ref() == Some(&voter));
                (json!({"voter": voter}), covered)
            }
        };
        let Some(covered) = covered else {
            return Ok(());
        };
        if since > i64::MIN && body.get("events").is_none() {
            body["since"] = json!(time_text(since));
        }
        body["reason"] = json!("bots");
        self.log.push(format!("of {id} are revoked: {body}"));
        let path = format!("/v1/boards/{id}/revocations");
        let answer = instance.client.post(&path, body).await;
        if answer.json["type"] == "/problems/board-moving" {
            return Ok(());
        }
        expect_equal(&answer.text, &answer.status, &StatusCode::OK)?;
        let count = model.revoke(covered);
        let expected = json!([model.revocation_count(), count, 0]);
        let report = &answer.json["report"];
        let told = json!([
            answer.json["number"],
            report["events"],
            report["failed_count"]
        ]);
        expect_equal(&answer.text, &told, &expected)
    }

    /// Restores a revocation whose events are all kept, and in no closed period.
    pub(super) async fn restore_all(
        &mut self,
        instance: Pick,
        board: Pick,
        revocation: Pick,
    ) -> Result<(), String> {
        let instance = &self.world.instances[pick(instance, self.world.instances.len())];
        let board = pick(board, self.boards.len());
        let (id, model) = &mut self.boards[board];
        let count = model.revocation_count();
        if count == 0 || !model.keeps_certainly() {
            return Ok(());
        }
        let number = pick(revocation, count);
        if !model.may_restore(number) {
            return Ok(());
        }
        self.log
            .push(format!("revocation {} of {id} is restored", number + 1));
        let path = format!("/v1/boards/{id}/revocations/{}/restore", number + 1);
        let body = json!({"reason": "no bots"});
        let answer = instance.client.post(&path, body).await;
        if answer.json["type"] == "/problems/board-moving" {
            return Ok(());
        }
        expect_equal(&answer.text, &answer.status, &StatusCode::OK)?;
        model.restore(number);
        expect_equal(&answer.text, &answer.json["status"], &json!("restored"))
    }
}

fn named(event: &Correctable) -> Named {
    Named {
        id: EventId::parse(&event.id).unwrap(),
        member: Some(MemberId::parse(&event.member).unwrap()),
    }
}

async fn send(
    instance: &Instance,
    board: &str,
    event: &Correctable,
    correction: &Correction,
    data: Option<&str>,
) -> Answer {
    let [id, member] =
        [&event.id, &event.member].map(|text| utf8_percent_encode(text, NON_ALPHANUMERIC));
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let (action, mut body) = match correction {
        Correction::Retract => ("retract", json!({})),
        Correction::Restore => ("restore", json!({})),
        Correction::Score { from, score, .. } => (
            "correct",
            json!({"from": number(from), "score": number(score)}),
        ),
    };
    body["reason"] = json!("a mistake");
    if let Some(data) = data {
        body["data"] = number(data);
    }
    let path = format!("/v1/boards/{board}/events/{id}/{action}?member={member}");
    instance.client.post(&path, body).await
}
