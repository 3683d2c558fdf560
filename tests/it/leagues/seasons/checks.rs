//! Compares what is told of cohorts, members, tiers and periods.

use futures::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::game::{Game, Way, text};
use super::naive::{Cohort, Member, Section, shown_name};
use crate::harness::Client;

/// The most results that are read at the end.
const RESULTS_MAX: usize = 150;

impl Game<'_> {
    /// Compares all cohorts of a period, and its tiers.
    pub async fn check_period(&mut self, period: i64) {
        let (client, key) = (self.client(), self.calendar.key(period));
        let settings = self.model.settings_of(period);
        let tiers = settings.tiers.iter().enumerate().map(|(index, tier)| {
            let seats = self.model.seats.get(&(period, index));
            let (taken, free) = seats.map_or((0, 0), |seats| (seats.taken, seats.free.len()));
            json!([tier.name, taken.div_ceil(settings.size), taken - free])
        });
        let expected: Vec<Value> = tiers.collect();
        let path = self.standing(&format!("/tiers?key={key}"));
        let json = client.get(&path).await.expect(200);
        let tiers: Vec<Value> = json["tiers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tier| json!([tier["tier"], tier["cohorts"], tier["members"]]))
            .collect();
        assert_eq!(tiers, expected, "tiers of {key}");
        self.check_pages(period).await;
    }

    /// Compares all cohorts of a period.
    pub async fn check_pages(&mut self, period: i64) {
        let (client, key) = (self.client(), self.calendar.key(period));
        let settings = self.model.settings_of(period);
        let cohorts: Vec<Cohort> = self.model.cohorts(period).into_keys().collect();
        let reads = cohorts.iter().map(|cohort| {
            let path = self.standing(&format!(
                "?cohort={}&key={key}&size=1000",
                settings.name(*cohort)
            ));
            let client = client.clone();
            async move { client.get(&path).await.expect(200) }
        });
        let pages: Vec<Value> = stream::iter(reads).buffered(16).collect().await;
        for (cohort, page) in cohorts.iter().zip(pages) {
            let shown = self.model.shown(period, *cohort);
            let expected: Vec<Value> = shown
                .iter()
                .enumerate()
                .map(|(index, (name, seat))| {
                    json!([
                        index + 1,
                        shown_name(name),
                        seat.score,
                        text(seat.reached_at)
                    ])
                })
                .collect();
            let entries = page["entries"].as_array().unwrap().iter().map(|entry| {
                json!([
                    entry["rank"],
                    entry["member"],
                    entry["score"],
                    entry["reached_at"]
                ])
            });
            assert_eq!(
                entries.collect::<Vec<_>>(),
                expected,
                "{key} {}",
                settings.name(*cohort)
            );
            assert_eq!(page["total"], shown.len());
        }
    }

    /// Compares what is told of a member in the running period.
    pub async fn check_member(&mut self, name: &str) {
        let period = self.period();
        let client = self.client();
        let member = self.model.member(name);
        let path = self.standing(&format!("/members/{name}"));
        let answer = client.get(&path).await;
        if member.is_out_of_sight() {
            answer.expect_problem(404, "member-not-found");
            self.look_at(name).await;
            return;
        }
        let json = answer.expect(200);
        let league = &json["league"];
        let way = self.way(name);
        if league["tier"].is_null() {
            assert!(way == Way::Turning || self.may_wait(), "{name}: {json}");
            self.look_at(name).await;
            return;
        }
        self.turn(name);
        let settings = self.model.settings_of(period);
        let last = self
            .model
            .history(name, period, |period| self.calendar.key(period));
        assert_eq!(
            league["last"],
            last.into_iter().next().unwrap_or_default(),
            "{name}"
        );
        if let Some(seat) = member.seats.get(&period) {
            let shown = self.model.shown(period, seat.cohort);
            let index = shown.iter().position(|(other, _)| *other == name).unwrap();
            assert_eq!(
                (&json["rank"], &json["score"]),
                (&json!(index + 1), &json!(seat.score)),
                "{json}"
            );
            assert_eq!(league["tier"], settings.tiers[seat.cohort.0].name);
            let mut own = league["seat"].clone();
            let cohort = own.as_object_mut().unwrap().remove("cohort").unwrap();
            own.as_object_mut().unwrap().remove("joined_at");
            assert_eq!(cohort, settings.name(seat.cohort));
            assert_eq!(
                own,
                self.model.zone(name, period, seat.cohort),
                "{name}: {json}"
            );
        } else {
            let (tier, opening) = self.model.place(name, period);
            let expected = (
                &json!(settings.tiers[tier].name),
                &Value::Null,
                &Value::Null,
            );
            assert_eq!(
                (&league["tier"], &league["seat"], &json["rank"]),
                expected,
                "{json}"
            );
            assert_eq!(json["score"], opening, "{json}");
        }
    }

    /// Compares the history of a member, all of whose seats before this period can be turned.
    async fn check_history(&self, client: &Client, name: &str) {
        let path = self.path(&format!("/league/members/{name}/history"));
        let json = client.get(&path).await.expect(200);
        let Member { is_hidden, .. } = self.model.member(name);
        let mut expected = if is_hidden {
            Vec::new()
        } else {
            self.model
                .history(name, self.period(), |period| self.calendar.key(period))
        };
        // One answer has no more.
        expected.truncate(100);
        assert_eq!(json["seats"], json!(expected), "{name}");
    }

    /// Compares the list of periods, of which all that are over are final.
    async fn check_periods(&mut self) {
        let (first, last) = (self.first(), self.period());
        let periods = (first..=last).rev().filter_map(|period| {
            let results = self
                .model
                .decided
                .range((period, (0, 0))..(period + 1, (0, 0)))
                .count();
            let has_any = results > 0 || !self.model.cohorts(period).is_empty();
            let state = if period < last { "final" } else { "live" };
            has_any.then(|| json!([self.calendar.key(period), state, results]))
        });
        // One answer has no more.
        let expected: Vec<Value> = periods.take(100).collect();
        let path = self.standing("/periods?limit=100");
        let json = self.client().get(&path).await.expect(200);
        let periods: Vec<Value> = json["periods"]
            .as_array()
            .unwrap()
            .iter()
            .map(|period| json!([period["key"], period["state"], period["final_cohorts"]]))
            .collect();
        assert_eq!(periods, expected);
    }

    /// The first period of the league.
    fn first(&self) -> i64 {
        *self.model.settings.first_key_value().unwrap().0
    }

    pub async fn check(&mut self) {
        let period = self.period();
        for period in [period, period - 1] {
            if self.first() <= period {
                self.check_period(period).await;
            }
        }
        for _ in 0..3 {
            let name = self.name();
            self.check_member(&name).await;
        }
        let decided: Vec<Section> = self.model.decided.keys().copied().collect();
        if !decided.is_empty() {
            let section = decided[self.random.below(decided.len())];
            self.read_result(section).await;
        }
    }

    pub async fn check_all(&mut self) {
        if self.last_over() < self.period() - 1 {
            self.set_time(self.now + self.finalize);
        }
        self.run_job().await;
        for period in self.first()..=self.period() {
            self.check_period(period).await;
        }
        let client = self.client();
        let names = self.names.clone();
        let checks = names.iter().map(|name| self.check_history(&client, name));
        stream::iter(checks)
            .buffer_unordered(16)
            .collect::<Vec<()>>()
            .await;
        for name in names.iter().take(50) {
            self.check_member(name).await;
        }
        let mut decided: Vec<Section> = self.model.decided.keys().copied().collect();
        self.random.shuffle(&mut decided);
        decided.truncate(RESULTS_MAX);
        self.read_results(decided).await;
        self.check_periods().await;
    }
}
