//! A great league, in which members come at once, through all instances.

use futures::future::join_all;
use futures::stream::{self, StreamExt};
use serde_json::json;

use super::INSTANCES;
use super::calendar::MINUTE;
use super::game::{Game, world};
use super::naive::{Settings, Tier};
use crate::harness::random::from_environment;

/// Of so many members one is erased in each period.
const MEMBERS_OF_ERASED: usize = 500;
/// How many rewards are claimed in each period.
const CLAIMS: usize = 5;

/// Members of a great league. Nobody of them knows whom it meets.
fn great_settings() -> Settings {
    Settings {
        size: 30,
        join_until: Some(600 * MINUTE),
        min_cohort: 5,
        min_score: 4,
        is_idle_demoted: true,
        tiers: vec![
            Tier::new("bronze", 3_333, 0),
            Tier::new("silver", 2_500, 2_000),
            Tier::new("gold", 1_000, 2_000),
            Tier::new("gem", 0, 3_000),
        ],
        bonuses: vec![(1, 1, 5), (1, 3, 2)],
    }
}

impl Game<'_> {
    /// Most members have some events, in batches that three instances take at once, while some join and some are hidden.
    async fn great_period(&mut self) {
        let (mut batches, mut joins, mut hides) = (Vec::new(), Vec::new(), Vec::new());
        let mut events = Vec::new();
        for name in self.names.clone() {
            if self.random.below(10) < 8 {
                for _ in 0..=self.random.below(2) {
                    let mut event = self.event(&name, None);
                    event["board"] = json!(self.board);
                    events.push(event);
                }
            }
            if self.random.below(10) == 0 {
                joins.push((self.client(), name.clone()));
            }
            if self.random.below(100) == 0 {
                hides.push((self.client(), name));
            }
        }
        self.random.shuffle(&mut events);
        for events in events.chunks(200) {
            let body = json!({"events": events});
            batches.push((self.client(), body));
        }
        let (join, hide) = (self.path("/league/members"), self.path("/hidden/"));
        let batches = batches.into_iter().map(async |(client, body)| {
            let json = client.post("/v1/events", body.clone()).await.expect(200);
            (body, json)
        });
        let joins = joins.into_iter().map(async |(client, name)| {
            let json = client.post(&join, json!({"member": name})).await;
            assert!(json.status.is_success(), "{}", json.text);
            (name, json.json)
        });
        let members = &self.model.members;
        let is_hidden = |name: &str| members.get(name).is_some_and(|member| member.is_hidden);
        let hides = hides.into_iter().map(async |(client, name)| {
            let path = format!("{hide}{name}");
            let was_hidden = is_hidden(&name);
            let answer = if was_hidden {
                client.delete(&path).await
            } else {
                client.put(&path, json!({"reason": "cheated"})).await
            };
            assert!(answer.status.is_success(), "{}", answer.text);
            (name, !was_hidden)
        });
        let (batches, joins, hides) = tokio::join!(
            stream::iter(batches)
                .buffer_unordered(6)
                .collect::<Vec<_>>(),
            stream::iter(joins).buffer_unordered(32).collect::<Vec<_>>(),
            stream::iter(hides).buffer_unordered(8).collect::<Vec<_>>(),
        );
        let period = self.period();
        for (body, json) in batches {
            let events = body["events"].as_array().unwrap();
            for (event, result) in events.iter().zip(json["results"].as_array().unwrap()) {
                assert!(
                    result["status"] == "applied" || result["status"] == "unchanged",
                    "{result}"
                );
                let cohort = result["standings"][0]["cohort"].as_str().unwrap();
                self.sits(event["member"].as_str().unwrap(), cohort);
                self.count(event, period, self.now);
            }
        }
        for (name, json) in joins {
            self.sits(&name, json["cohort"].as_str().unwrap());
        }
        for (name, is_hidden) in hides {
            self.note_hidden(&name, is_hidden);
        }
        self.check_seats();
    }

    /// What moderators and those who give rewards do then.
    async fn after_great_period(&mut self) {
        self.follow_revisions().await;
        for _ in 0..self.names.len().div_ceil(MEMBERS_OF_ERASED) {
            self.erase().await;
        }
        for _ in 0..CLAIMS {
            self.claim().await;
        }
    }
}

/// The whole size: `STANDINGS_LEAGUE_MEMBERS=10000 STANDINGS_LEAGUE_PERIODS=12`.
#[tokio::test(flavor = "multi_thread")]
async fn a_great_league_follows_the_model() {
    let members = from_environment("STANDINGS_LEAGUE_MEMBERS", 400);
    let periods = from_environment("STANDINGS_LEAGUE_PERIODS", 5);
    let (world, now) = world().await;
    let mut game = Game::of(&world, 0, now, (members, great_settings())).await;
    for _ in 0..periods {
        game.great_period().await;
        game.after_great_period().await;
        game.set_time(game.end() + game.finalize);
        // Otherwise the members turn their cohorts over by themselves.
        if game.random.below(2) == 0 {
            game.run_job().await;
        }
        game.be_decided().await;
    }
    game.check_all().await;
}

/// Three seats are left in a cohort, and 500 members come at once.
#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_joins_at_once_fill_free_seats_and_open_only_needed_cohorts() {
    let (world, now) = world().await;
    let settings = Settings {
        size: 100,
        ..great_settings()
    };
    let mut game = Game::of(&world, 2_000, now, (597, settings)).await;
    let path = game.path("/league/members");
    let names = game.names.clone();
    let (first, rest) = names.split_at(97);
    for names in [first, rest] {
        let joins = names.iter().enumerate().map(|(index, name)| {
            let (client, path) = (&world.instances[index % INSTANCES].client, &path);
            async move {
                (
                    name,
                    client.post(path, json!({"member": name})).await.expect(201),
                )
            }
        });
        for (name, json) in join_all(joins).await {
            game.sits(name, json["cohort"].as_str().unwrap());
        }
        game.check_seats();
    }
    assert_eq!(game.model.cohorts(game.period()).len(), 6);
    game.check_all().await;
}
