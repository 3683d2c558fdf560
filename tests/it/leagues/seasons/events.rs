//! Members have events: with and without `at`, once and again, one by one and many at once.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use serde_json::{Value, json};

use super::game::{Game, Sent, Way, is_cluster, text};
use crate::harness::Client;
use crate::harness::client::Answer;

const NOT_SEATED: (u16, &str) = (409, "not-seated");
const TURNING: (u16, &str) = (409, "league-turning");
const OVER_QUOTA: (u16, &str) = (429, "quota-exceeded");

impl Game<'_> {
    pub fn event(&mut self, name: &str, at: Option<i64>) -> Value {
        let mut event = json!({"member": name, "score": self.random.below(10)});
        if let Some(at) = at {
            event["at"] = json!(text(at));
        }
        if self.random.below(5) > 0 || is_cluster() {
            self.ids += 1;
            event["id"] = json!(format!("e{}", self.ids));
        }
        event
    }

    /// When an event happens: now, before in this period or an earlier one, or in the next.
    fn instant(&mut self) -> Option<i64> {
        let (start, end) = (self.calendar.start_of(self.period()), self.end());
        let some = self.random.below(usize::try_from(end - start).unwrap());
        let some = i64::try_from(some).unwrap();
        match self.random.below(10) {
            0..=3 => None,
            4..=6 => Some((start + some).min(self.now)),
            7..=8 => Some(start - 1 - some),
            _ => Some(end + some % 10_000),
        }
    }

    /// What each quota counts of an event.
    fn costs(&self, event: &Value, at: i64) -> Vec<((usize, String, i64), i64)> {
        let name = event["member"].as_str().unwrap();
        let quotas = self.calendar.quotas.iter().enumerate();
        let costs = quotas.map(|(place, quota)| {
            let period = self.calendar.period_of(quota, at);
            let cost = if quota.counts_points {
                event["score"].as_i64().unwrap()
            } else {
                1
            };
            ((place, name.to_owned(), period), cost)
        });
        costs.collect()
    }

    /// Whether a quota refuses an event.
    fn is_over_quota(&self, event: &Value, at: i64) -> bool {
        let mut costs = self.costs(event, at).into_iter();
        costs.any(|(key, cost)| {
            let used = self.used.get(&key).copied().unwrap_or_default();
            used + cost > self.calendar.quotas[key.0].max
        })
    }

    /// Why an event may be refused. Of several reasons any may be told.
    fn refusals(&self, event: &Value, at: i64) -> Vec<(u16, &'static str)> {
        let name = event["member"].as_str().unwrap();
        let (period, of, way) = (self.period(), self.calendar.period(at), self.way(name));
        let member = self.model.member(name);
        if of > period {
            return vec![(422, "event-in-future")];
        }
        if of <= self.last_over() {
            return vec![(409, "period-closed")];
        }
        let mut refusals = Vec::new();
        if !member.seats.contains_key(&of) {
            let has_left = member.left_from.is_some_and(|from| from <= period);
            if of < period || way != Way::Seated && has_left {
                refusals.push(NOT_SEATED);
            }
            if way == Way::Turning {
                refusals.push(TURNING);
            }
            // Quotas are looked at before the member gets a seat.
            if !refusals.is_empty() && of == period && self.is_over_quota(event, at) {
                refusals.push(OVER_QUOTA);
            }
            if !refusals.is_empty() {
                return refusals;
            }
        }
        if member.erased_at.is_some_and(|erased_at| at <= erased_at) {
            refusals.push((409, "member-erased"));
        }
        if self.is_over_quota(event, at) {
            refusals.push(OVER_QUOTA);
        }
        refusals
    }

    pub async fn send_event(&mut self) {
        let name = self.name();
        let at = self.instant();
        let event = self.event(&name, at);
        let (now, period) = (self.now, self.period());
        let at = at.unwrap_or(now);
        let (of, way) = (self.calendar.period(at), self.way(&name));
        self.note(format!("event {event}: {way:?}"));
        let refusals = self.refusals(&event, at);
        let (client, path) = (self.client(), self.path("/events"));
        let mut answer = client.post(&path, event.clone()).await;
        if answer.json["code"] == TURNING.1 && self.may_wait() {
            self.run_job().await;
            answer = client.post(&path, event.clone()).await;
        }
        if !refusals.is_empty() {
            expect_refusal(&name, &answer, &refusals);
            if of >= period {
                // It may have been turned on the way.
                self.look_at(&name).await;
            }
            if of == period && way == Way::Open {
                self.join_after(&name).await;
            }
            return;
        }
        let json = answer.expect(200);
        let cohort = json["standings"][0]["cohort"].as_str().unwrap().to_owned();
        if of == period && way == Way::Open {
            self.seat(&name, &cohort, at);
            self.check_seats();
        }
        self.count(&event, of, at);
        let own = self.own_seat(&name, of).cohort;
        assert_eq!(self.model.settings_of(of).name(own), cohort);
    }

    /// Has a member join whose event was refused: a seat may be kept for it, on which it is not listed.
    async fn join_after(&mut self, name: &str) {
        let has_left = self
            .model
            .member(name)
            .left_from
            .is_some_and(|from| from <= self.period());
        if !has_left {
            self.check_member(name).await;
            self.join_as(name).await;
        }
    }

    /// Counts an event that was taken.
    pub fn count(&mut self, event: &Value, period: i64, at: i64) {
        let score = event["score"].as_i64().unwrap();
        let seat = self.own_seat(event["member"].as_str().unwrap(), period);
        seat.score += score;
        // A zero reaches no score.
        if score != 0 {
            seat.reached_at = seat.reached_at.max(at);
        }
        for (key, cost) in self.costs(event, at) {
            *self.used.entry(key).or_default() += cost;
        }
        if event["id"].is_string() {
            let at = self.now;
            let event = event.clone();
            self.sent.push(Sent { event, at });
        }
    }

    pub async fn send_again(&mut self) {
        let since = self.now - self.calendar.idempotency;
        self.sent.retain(|sent| sent.at > since);
        if self.sent.is_empty() {
            return;
        }
        let index = self.random.below(self.sent.len());
        let Sent { event, at } = self.sent[index].clone();
        self.note(format!("again {event}"));
        let (client, path) = (self.client(), self.path("/events"));
        let json = client.post(&path, event.clone()).await.expect(200);
        assert_eq!(json["status"], "duplicate", "{event}: {json}");
        let name = event["member"].as_str().unwrap().to_owned();
        if self.model.member(&name).erased_at >= Some(at) {
            assert_eq!(json["standings"], json!([]), "{event}");
            if self.way(&name) == Way::Open {
                self.join_after(&name).await;
            }
        }
        self.look_at(&name).await;
    }

    /// Many members join and have events at once.
    pub async fn rush(&mut self) {
        if self.last_over() < self.period() - 1 {
            return;
        }
        self.run_job().await;
        let requests = self.requests_of_a_rush();
        let (join, post) = (self.path("/league/members"), self.path("/events"));
        let answers = requests.iter().map(async |(client, joins, body)| {
            let answer = client
                .post(if *joins { &join } else { &post }, body.clone())
                .await;
            (*joins, body.clone(), answer)
        });
        let answers = join_all(answers).await;
        let (mut applied, mut counted) = (BTreeMap::new(), Vec::new());
        let mut refused = Vec::new();
        for (joins, body, answer) in answers {
            let name = body["member"].as_str().unwrap();
            if !joins && answer.status == OVER_QUOTA.0 {
                expect_refusal(name, &answer, &[OVER_QUOTA]);
                refused.push(body);
                continue;
            }
            assert!(answer.status.is_success(), "{body}: {}", answer.text);
            let json = answer.json;
            let cohort = if joins {
                &json["cohort"]
            } else {
                &json["standings"][0]["cohort"]
            };
            let cohort = cohort.as_str().unwrap();
            self.sits(name, cohort);
            if joins {
                continue;
            }
            // Each event counts once, whichever of its answers tells that it was applied.
            let times = applied.entry(body["id"].to_string()).or_insert(0);
            if body["id"].is_null() || !counted.contains(&body["id"]) {
                counted.push(body["id"].clone());
                self.count(&body, self.period(), self.now);
            }
            *times += usize::from(json["status"] != "duplicate");
        }
        applied.remove("null");
        assert!(applied.values().all(|times| *times <= 1), "{applied:?}");
        self.check_refused(&refused, &counted).await;
        self.check_seats();
    }

    /// Who comes in a rush: through which instance, whether it joins, and what it sends.
    fn requests_of_a_rush(&mut self) -> Vec<(Client, bool, Value)> {
        let mut requests: Vec<(Client, bool, Value)> = Vec::new();
        for _ in 0..self.random.below(40) {
            let name = self.name();
            let member = self.model.member(&name);
            if member.left_from.is_some() {
                continue;
            }
            let joins = self.random.below(2) == 0;
            let body = if joins {
                json!({"member": name})
            } else {
                self.event(&name, None)
            };
            for _ in 0..if body["score"].is_i64() && body["id"].is_null() {
                1
            } else {
                1 + self.random.below(3)
            } {
                requests.push((self.client(), joins, body.clone()));
            }
        }
        self.random.shuffle(&mut requests);
        let bodies: Vec<_> = requests
            .iter()
            .map(|(_, _, body)| body.to_string())
            .collect();
        self.note(format!("rush {bodies:?}"));
        requests
    }

    /// Checks that quotas have taken what they take: of events that they refused there is too little left.
    async fn check_refused(&mut self, refused: &[Value], counted: &[Value]) {
        let (path, mut unseated) = (self.path("/league/members"), BTreeSet::new());
        for event in refused {
            assert!(
                event["id"].is_null() || !counted.contains(&event["id"]),
                "{event} was taken"
            );
            assert!(self.is_over_quota(event, self.now), "{event}");
            unseated.insert(event["member"].as_str().unwrap().to_owned());
        }
        for (key, used) in &self.used {
            assert!(*used <= self.calendar.quotas[key.0].max, "{key:?}: {used}");
        }
        // A seat may be kept for them.
        for name in unseated {
            let json = self.client().post(&path, json!({"member": name})).await;
            assert!(json.status.is_success(), "{}", json.text);
            self.sits(&name, json.json["cohort"].as_str().unwrap());
        }
    }
}

/// Compares a refusal with those that are expected, each a status and a code.
fn expect_refusal(name: &str, answer: &Answer, refusals: &[(u16, &'static str)]) {
    let told = (answer.status.as_u16(), answer.json["code"].as_str());
    let mut expected = refusals.iter().map(|(status, code)| (*status, Some(*code)));
    let is_told = expected.any(|expected| expected == told);
    assert!(is_told, "{name}: {refusals:?}, and not {}", answer.text);
}
