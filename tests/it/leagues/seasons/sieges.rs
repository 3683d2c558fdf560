//! Seating and turning are broken off at every step, and Redis is killed there.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use standings::domain::ids::{BoardId, MemberId};
use standings::leagues;

use super::INSTANCES;
use super::game::{Game, is_cluster, settings, world};
use super::naive::{Settings, Tier};
use crate::harness::break_off;
use crate::harness::jobs::ClosePeriods;
use crate::harness::random::{Random, some_of};
use crate::harness::redis::eventually;

/// How many members play while Redis is killed at every step.
const FEW: usize = 9;
/// In which time Redis does what was asked of it.
const ANSWERED_WITHIN: Duration = Duration::from_millis(3);

impl Game<'_> {
    /// Seats all members at once, while some of the attempts break off, and Redis is killed.
    async fn siege(&mut self, kills: bool) {
        let id = BoardId::parse(&self.board).unwrap();
        let names = self.names.clone();
        let mut jobs = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let member = MemberId::parse(name).unwrap();
            let instance = &self.world.instances[index % INSTANCES];
            // As many steps of it as that are taken before its process dies.
            let waits = u16::try_from(1 + self.random.below(60)).unwrap();
            let (id, service) = (id.clone(), Arc::clone(&instance.engine));
            jobs.push(async move {
                let _ = break_off(leagues::work::join(&service, &id, &member), waits).await;
            });
        }
        let killing = self.killing(kills);
        tokio::join!(join_all(jobs), killing);
        self.join_all(&names).await;
    }

    /// Has members join until they have their seats.
    async fn join_all(&mut self, names: &[String]) {
        let path = self.path("/league/members");
        for name in names {
            let client = self.client();
            let mut answer = client.post(&path, json!({"member": name})).await;
            while answer.status == 409 {
                answer.expect_problem(409, "league-turning");
                self.close_amid_kills(false).await;
                answer = client.post(&path, json!({"member": name})).await;
            }
            assert!(answer.status.is_success(), "{}", answer.text);
            self.sits(name, answer.json["cohort"].as_str().unwrap());
        }
        self.check_seats();
    }

    /// Kills all servers of Redis, again and again for a moment.
    async fn killing(&self, kills: bool) {
        let pauses: &[u64] = if kills { &[3, 20, 7] } else { &[] };
        for pause_ms in pauses {
            tokio::time::sleep(Duration::from_millis(*pause_ms)).await;
            self.world.redis.kill();
            self.world.redis.restart().await;
        }
    }

    /// Closes what is over in more and more steps, each time by another instance that then dies.
    async fn close_amid_kills(&mut self, kills: bool) {
        let instances = &self.world.instances;
        let closing = async {
            let mut waits = 1;
            loop {
                let engine = &instances[usize::from(waits) % INSTANCES].engine;
                let run = async {
                    engine.refresh_boards().await?;
                    engine.run(&ClosePeriods).await
                };
                match break_off(run, waits).await {
                    None => waits += 9,
                    Some(Ok(())) => break,
                    // Redis is away. Without a pause nobody would start it again.
                    Some(Err(_)) => tokio::time::sleep(ANSWERED_WITHIN).await,
                }
            }
        };
        tokio::join!(closing, self.killing(kills));
        self.run_job().await;
    }

    /// Kills all servers of Redis, and starts them again, with what their append-only files have: right now, or once they have
    /// done what was asked of them.
    async fn kill_redis(&mut self, is_done: bool) {
        self.note(format!("redis is killed, {is_done}"));
        if is_done {
            tokio::time::sleep(ANSWERED_WITHIN).await;
        }
        self.world.redis.kill();
        self.world.redis.restart().await;
    }

    /// Seats a member by an instance that breaks off after so many waits; then Redis is killed. Returns whether the seat was taken by
    /// then.
    async fn seat_until(&mut self, name: &str, waits: u16, is_done: bool) -> bool {
        self.note(format!("{name} joins, {waits}"));
        let (id, member) = (
            BoardId::parse(&self.board).unwrap(),
            MemberId::parse(name).unwrap(),
        );
        let service = &self.world.instances[usize::from(waits) % INSTANCES].engine;
        let joined = break_off(leagues::work::join(service, &id, &member), waits).await;
        self.kill_redis(is_done).await;
        joined.is_some_and(|joined| joined.is_ok())
    }

    /// Closes what is over by an instance that breaks off after so many waits; then Redis is killed. Returns whether all was closed
    /// by then.
    async fn close_until(&mut self, waits: u16) -> bool {
        self.note(format!("job, {waits}"));
        let engine = &self.world.instances[usize::from(waits) % INSTANCES].engine;
        let run = async {
            engine.refresh_boards().await?;
            engine.run(&ClosePeriods).await
        };
        let closed = break_off(run, waits).await;
        let is_done = self.random.below(2) == 0;
        self.kill_redis(is_done).await;
        closed.is_some_and(|closed| closed.is_ok())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn seating_and_turning_killed_at_every_step_follow_the_model() {
    let (world, mut now) = world().await;
    for number in some_of(0..6, 3) {
        let mut random = Random::new(number);
        let of = (40, settings(&mut random));
        let mut game = Game::of(&world, 1_000 + number, now, of).await;
        for period in 0..3 {
            game.siege((number + period) % 3 == 0).await;
            for _ in 0..10 {
                game.send_event().await;
            }
            game.hide().await;
            game.check().await;
            game.set_time(game.end() + game.finalize);
            if random.below(2) == 0 {
                game.close_amid_kills((number + period) % 3 == 1).await;
            }
        }
        game.check_all().await;
        now = game.now;
    }
}

/// A league of few members, in cohorts that are soon full.
fn few() -> Settings {
    Settings {
        size: 3,
        join_until: None,
        min_cohort: 2,
        min_score: 1,
        is_idle_demoted: true,
        tiers: vec![
            Tier::new("bronze", 4_000, 0),
            Tier::new("silver", 3_400, 3_400),
            Tier::new("gold", 0, 5_000),
        ],
        bonuses: vec![(1, 1, 5), (1, 2, 2)],
    }
}

/// After how many waits seatings or turnings break off, one after the other. A cluster takes seconds to come back.
fn breaks() -> impl Iterator<Item = u16> {
    some_of((1..).step_by(if is_cluster() { 5 } else { 1 }), 3)
}

/// Redis dies after each wait of a seating, with the instance. Another one seats the member then.
#[tokio::test(flavor = "multi_thread")]
async fn redis_killed_at_every_step_of_a_seating_loses_and_doubles_no_seat() {
    let (world, now) = world().await;
    let mut game = Game::of(&world, 3_000, now, (0, few())).await;
    for waits in breaks() {
        let mut is_whole = true;
        for is_done in [false, true] {
            let name = format!("s{waits:05}-{is_done}");
            game.names.push(name.clone());
            is_whole &= game.seat_until(&name, waits, is_done).await;
            game.join_all(&[name]).await;
        }
        if is_whole {
            break;
        }
    }
    game.check_all().await;
    // Their seats are turned by their next ones: that is broken off, too.
    game.set_time(game.end() + game.finalize);
    for (name, waits) in game.names.clone().iter().zip((1..).step_by(2)) {
        game.seat_until(name, waits, waits % 4 == 1).await;
        game.join_all(std::slice::from_ref(name)).await;
    }
    game.check_all().await;
}

/// Redis dies after each wait of the job that turns a league over, with the instance. Another one goes on, or the members do.
#[tokio::test(flavor = "multi_thread")]
async fn redis_killed_at_every_step_of_a_turn_changes_no_outcome() {
    let (world, now) = world().await;
    let mut game = Game::of(&world, 3_001, now, (FEW, few())).await;
    for waits in breaks() {
        for name in game.names.clone() {
            if game.random.below(5) > 0 {
                let mut event = game.event(&name, None);
                // An instance may still have the connection that was lost: so the event may have to be sent again.
                event["id"] = json!(format!("{name}-{waits}"));
                let (client, path) = (game.client(), game.path("/events"));
                let json = client.post(&path, event.clone()).await.expect(200);
                game.sits(&name, json["standings"][0]["cohort"].as_str().unwrap());
                game.count(&event, game.period(), game.now);
            }
        }
        game.check_seats();
        game.set_time(game.end() + game.finalize);
        let is_whole = game.close_until(waits).await;
        // Some cohorts may be decided, and no hide came since.
        if game.random.below(2) == 0 {
            game.run_job().await;
        } else {
            let names = game.names.clone();
            game.join_all(&names).await;
        }
        game.check().await;
        if is_whole {
            break;
        }
    }
    eventually("the boards are in memory", async || {
        world.engine().refresh_boards().await.is_ok()
    })
    .await;
    game.check_all().await;
}
