//! Members join, leave and are sent to other tiers. Who sits where is taken from the answers.

use std::collections::BTreeMap;

use serde_json::json;

use super::game::{Game, Way, is_cluster};
use super::naive::Seat;

impl Game<'_> {
    /// What a member's way to a seat in the running period is.
    pub fn way(&self, name: &str) -> Way {
        let member = self.model.member(name);
        let period = self.period();
        if member.seats.contains_key(&period) {
            return Way::Seated;
        }
        let is_old = member.since.is_some_and(|since| since < period);
        if is_old && self.last_over() < period - 1 {
            return Way::Turning;
        }
        Way::Open
    }

    /// Whether an earlier closing may be on its way, behind which the last period has to wait.
    pub fn may_wait(&self) -> bool {
        self.closed < self.period() - 2
    }

    /// Has the seats of a member turned that are over, if it can be.
    pub fn turn(&mut self, name: &str) {
        let last = self.last_over();
        let member = self.model.member(name);
        for (period, seat) in member.seats.range(..=last) {
            self.decide((*period, seat.cohort));
        }
    }

    /// Takes note of a seat that was taken, and checks its tier.
    pub fn seat(&mut self, name: &str, cohort: &str, reached_at: i64) {
        self.turn(name);
        let period = self.period();
        let (tier, opening) = self.model.place(name, period);
        let settings = self.model.settings_of(period);
        let cohort = settings.cohort(cohort);
        assert_eq!(cohort.0, tier, "the tier of {name}");
        self.fresh.push(cohort);
        let seat = Seat {
            cohort,
            score: opening,
            reached_at,
        };
        self.model.sit(name, period, seat);
    }

    /// Takes note of a seat that an answer names: one that the member has, or a new one.
    pub fn sits(&mut self, name: &str, cohort: &str) {
        let period = self.period();
        match self.model.seat(name, period) {
            Some(seat) => assert_eq!(
                self.model.settings_of(period).name(seat.cohort),
                cohort,
                "{name}"
            ),
            None => self.seat(name, cohort, self.now),
        }
    }

    /// Checks that one cohort after the other was filled with the seats that were taken, and seats that were free, and that none has
    /// more members than seats.
    pub fn check_seats(&mut self) {
        let period = self.period();
        let settings = self.model.settings_of(period);
        let (size, join_until) = (settings.size, settings.join_until);
        let late_from = join_until.map(|until| self.calendar.start_of(period) + until);
        let is_late = late_from.is_some_and(|from| self.now >= from);
        let mut tiers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (tier, number) in self.fresh.drain(..) {
            tiers.entry(tier).or_default().push(number);
        }
        for (tier, numbers) in tiers {
            let taken = self.model.take_seats((period, tier), is_late, numbers);
            taken.unwrap_or_else(|why| panic!("tier {tier} in {period}: {why}"));
        }
        for (cohort, members) in self.model.cohorts(period) {
            assert!(members.len() <= size, "{cohort:?}: {members:?}");
        }
    }

    pub fn own_seat(&mut self, name: &str, period: i64) -> &mut Seat {
        let member = self.model.members.get_mut(name).unwrap();
        member.seats.get_mut(&period).unwrap()
    }

    pub async fn join(&mut self) {
        let name = self.name();
        self.join_as(&name).await;
    }

    /// Has a member join.
    pub async fn join_as(&mut self, name: &str) {
        let (way, period) = (self.way(name), self.period());
        let (client, path) = (self.client(), self.path("/league/members"));
        self.note(format!("join {name}: {way:?}"));
        let mut answer = client.post(&path, json!({"member": name})).await;
        if way == Way::Open && answer.status == 409 && self.may_wait() {
            answer.expect_problem(409, "league-turning");
            self.run_job().await;
            answer = client.post(&path, json!({"member": name})).await;
        }
        if way == Way::Turning {
            assert!(answer.headers.contains_key("retry-after"));
            answer.expect_problem(409, "league-turning");
            return;
        }
        // A join that was sent again, while slots moved, may find what it has done itself.
        let is_again = answer.status == 200 && is_cluster();
        let is_new = way != Way::Seated && !is_again;
        let json = answer.expect(if is_new { 201 } else { 200 });
        let cohort = json["cohort"].as_str().unwrap();
        if way == Way::Open {
            self.seat(name, cohort, self.now);
            self.check_seats();
        }
        self.model.members.get_mut(name).unwrap().left_from = None;
        let seat = self.model.seat(name, period).unwrap();
        let shown = self.model.shown(period, seat.cohort);
        let rank = shown.iter().position(|(other, _)| *other == name);
        let settings = self.model.settings_of(period);
        let score = rank.map(|_| seat.score);
        let expected = json!({"member": name, "tier": settings.tiers[seat.cohort.0].name,
            "cohort": settings.name(seat.cohort), "key": self.calendar.key(period), "rank": rank.map(|rank| rank + 1),
            "score": score, "size": shown.len(), "joined_at": json["joined_at"]});
        assert_eq!(json, expected);
    }

    pub async fn leave(&mut self) {
        let (name, period) = (self.name(), self.period());
        self.note(format!("leave {name}"));
        let (client, path) = (self.client(), self.path("/league/leave"));
        let json = client
            .post(&path, json!({"member": name}))
            .await
            .expect(200);
        let member = self.model.members.entry(name).or_default();
        member.since.get_or_insert(period);
        let from = *member.left_from.get_or_insert(period + 1);
        assert_eq!(json["left_from"], self.calendar.key(from));
    }

    pub async fn order(&mut self) {
        let (name, period) = (self.name(), self.period());
        let next = self.model.settings_of(period + 1);
        let index = self.random.below(next.tiers.len());
        let tier = next.tiers[index].name;
        let way = self.way(&name);
        self.note(format!("order {name} {tier}: {way:?}"));
        let (client, path) = (self.client(), self.path(&format!("/league/members/{name}")));
        let mut answer = client.put(&path, json!({"tier": tier})).await;
        if way == Way::Open && answer.status == 409 && self.may_wait() {
            answer.expect_problem(409, "league-turning");
            self.run_job().await;
            answer = client.put(&path, json!({"tier": tier})).await;
        }
        if way == Way::Turning {
            answer.expect_problem(409, "league-turning");
            return;
        }
        answer.expect(200);
        self.turn(&name);
        let member = self.model.members.entry(name).or_default();
        member.since.get_or_insert(period);
        member.orders.insert(period + 1, (tier, index));
    }

    /// Reads a member; that turns its seat. Returns whether it could be turned.
    pub async fn look_at(&mut self, name: &str) -> bool {
        let (client, path) = (self.client(), self.path(&format!("/league/members/{name}")));
        let json = client.get(&path).await.expect(200);
        let is_turned = json["tier"].is_string();
        if is_turned {
            self.turn(name);
            return true;
        }
        assert!(self.way(name) == Way::Turning || self.may_wait(), "{json}");
        // Its seat may be turned all the same, if only a missed period is not closed.
        if self.way(name) != Way::Turning {
            self.run_job().await;
        }
        false
    }

    /// Has all cohorts decided that can be, by reads of one of their members or by jobs: a hide that comes before counts, one that
    /// comes after doesn't.
    pub async fn be_decided(&mut self) {
        let last = self.last_over();
        for (period, cohort) in self.model.undecided(last) {
            let cohorts = self.model.cohorts(period);
            let names = &cohorts[&cohort];
            let name = names[self.random.below(names.len())].to_owned();
            if self.random.below(2) == 0 || !self.look_at(&name).await {
                return self.run_job().await;
            }
        }
    }
}
