//! Boards that one instance deletes, and perhaps creates again, while another still has them in memory: nobody is told that
//! something was taken which is lost, or shown what is gone.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::client::Answer;
use crate::harness::jobs::{ApplyQueues, Moves, Purge, SETTLE_ALL, Sweep};
use crate::harness::random::{Random, case_count, seed};
use crate::harness::{Client, Instance, World};

const NOW: &str = "2026-11-21T12:00:00Z";

/// What is asked of a board.
#[derive(Clone, Debug)]
struct Asked {
    method: Method,
    path: &'static str,
    body: Value,
    is_queued: bool,
}

impl Asked {
    async fn send(&self, client: &Client) -> Answer {
        let client = client.once();
        let client = if self.is_queued {
            client.queueing()
        } else {
            client
        };
        let path = if self.path.starts_with("/v1/") {
            self.path.to_owned()
        } else {
            format!("/v1/boards/b{}", self.path)
        };
        let request = client.builder(self.method.clone(), &path);
        let request = match &self.body {
            Value::Null => request,
            body => request.json(body),
        };
        Client::send(request).await
    }
}

fn asked(method: Method, path: &'static str, body: Value) -> Asked {
    Asked {
        method,
        path,
        body,
        is_queued: false,
    }
}

/// What may be asked of any board.
fn of_all_boards() -> Vec<Asked> {
    let event = json!({"id": "new", "member": "m1", "score": 1, "voter": "v2"});
    let known = json!({"id": "known", "member": "m1", "score": 1, "voter": "v1"});
    let mut batch = event.clone();
    batch["board"] = json!("b");
    let mut all = vec![
        asked(Method::POST, "/events", event),
        asked(Method::POST, "/events", known),
        asked(Method::POST, "/v1/events", json!({"events": [batch]})),
        asked(Method::PUT, "/hidden/m1", json!({"reason": "cheating"})),
        asked(Method::DELETE, "/hidden/m2", Value::Null),
        asked(Method::DELETE, "/members/m1", Value::Null),
    ];
    let reads = [
        "/events?id=known",
        "/events?id=known&member=m1",
        "/hidden",
        "/hidden/m2",
        "/quotas?voter=v1&member=m1",
        "/standings/day",
        "/standings/day/members/m1",
        "/standings/day/members?ids=m1",
        "/standings/day/stats",
        "/summary",
        "/dead-letters",
    ];
    all.extend(reads.map(|path| asked(Method::GET, path, Value::Null)));
    all
}

/// What may also be asked of a board that is no league.
fn of_boards() -> Vec<Asked> {
    let queued = ["new", "known"].map(|id| {
        let event = json!({"id": id, "member": "m1", "score": 1, "voter": "v1"});
        let asked = asked(Method::POST, "/events", event);
        Asked {
            is_queued: true,
            ..asked
        }
    });
    let mut all = of_all_boards();
    all.extend(queued);
    all.extend([
        asked(
            Method::PATCH,
            "/initial-scores",
            json!({"scores": {"m1": 5}}),
        ),
        asked(Method::GET, "/initial-scores", Value::Null),
        asked(Method::GET, "/standings/last-2-days", Value::Null),
        asked(
            Method::GET,
            "/standings/day/periods/2026-11-21",
            Value::Null,
        ),
    ]);
    all
}

/// What may also be asked of a league.
fn of_leagues() -> Vec<Asked> {
    let mut all = of_all_boards();
    all.extend([
        asked(
            Method::POST,
            "/league/members",
            json!({"member": "newcomer"}),
        ),
        asked(Method::PUT, "/league/members/m1", json!({"tier": "silver"})),
        asked(Method::POST, "/league/leave", json!({"member": "m1"})),
        asked(Method::GET, "/league/members/m1", Value::Null),
        asked(Method::GET, "/standings/day/tiers", Value::Null),
    ]);
    all
}

fn voted() -> Value {
    json!({"windows": ["day", "last-2-days"], "initial": ["day"], "uniques": "member", "quotas": [
        {"name": "voters", "by": ["voter"], "window": "day", "max": 1000}]})
}

fn league() -> Value {
    json!({"windows": ["day"], "score_min": 0, "league": {"tiers": [
        {"name": "bronze", "promote": 0.2, "demote": 0}, {"name": "silver", "promote": 0, "demote": 0.2}]}})
}

async fn create(world: &World, definition: &Value, shards: u16) {
    let mut definition = definition.clone();
    definition["shards"] = json!(shards);
    world.client().define("b", definition).await;
}

/// Creates a board, has it moved from one number of shards to the next, and plays on it so that it is in the memory of another
/// instance.
async fn set_up(world: &World, definition: &Value, shards: &[u16]) {
    create(world, definition, shards[0]).await;
    let other = &world.instances[1].client;
    let known = json!({"id": "known", "member": "m1", "score": 1, "voter": "v1"});
    let taken = other.post("/v1/boards/b/events", known).await.expect(200);
    assert_eq!(taken["status"], "applied", "{taken}");
    for shards in &shards[1..] {
        world.client().spread("b", *shards).await;
        world.engine().run(&Moves).await.unwrap();
    }
    let hide = json!({"reason": "cheating"});
    other.put("/v1/boards/b/hidden/m2", hide).await.expect(200);
    let newer = json!({"id": "newer", "member": "m3", "score": 1, "voter": "v3"});
    other.post("/v1/boards/b/events", newer).await.expect(200);
    other.get("/v1/boards/b/standings/day").await.expect(200);
}

async fn delete(world: &World) {
    world.client().delete("/v1/boards/b").await.expect(204);
}

fn expect_gone(asked: &Asked, shards: &[u16], answer: &Answer) {
    let problem = match asked.path {
        "/v1/events" => &answer.json["results"][0]["problem"],
        _ => &answer.json,
    };
    let what = format!("{asked:?} of {shards:?} shards: {}", answer.text);
    assert_eq!(problem["type"], "/problems/board-not-found", "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_deleted_board_is_taken_or_shown_by_an_instance_that_does_not_know_of_it() {
    let world = World::with_instances(2, NOW).await;
    for (definition, all, placements) in [
        (voted(), of_boards(), &[&[3][..], &[1, 4], &[2, 1]][..]),
        (league(), of_leagues(), &[&[16][..]]),
    ] {
        for (number, asked) in all.iter().enumerate() {
            let shards = placements[number % placements.len()];
            set_up(&world, &definition, shards).await;
            delete(&world).await;
            let answer = asked.send(&world.instances[1].client).await;
            expect_gone(asked, shards, &answer);
        }
    }
    unlink(&world.instances[1]).await;
}

async fn unlink(instance: &Instance) {
    instance.engine.run(&Purge).await.unwrap();
    instance.engine.run(&Sweep).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_after_a_board_was_created_again_counts_on_the_new_one() {
    let world = World::with_instances(2, NOW).await;
    let placements = [&[3][..], &[1, 4], &[2, 1], &[1]];
    for (number, shards) in placements.into_iter().cycle().take(16).enumerate() {
        let definition = voted();
        set_up(&world, &definition, shards).await;
        delete(&world).await;
        let next = [1, 2, 3, 5][number / placements.len()];
        create(&world, &definition, next).await;
        let other = &world.instances[1].client;
        // The old board had taken an event with this id.
        let event = json!({"id": "known", "member": "m1", "score": 7, "voter": "v1"});
        let taken = other.post("/v1/boards/b/events", event).await.expect(200);
        assert_eq!(taken["status"], "applied", "{shards:?} {next}: {taken}");
        for instance in &world.instances {
            let page = instance.client.get("/v1/boards/b/standings/day").await;
            let page = page.expect(200);
            let all = (&page["total"], &page["entries"][0]["score"]);
            assert_eq!(all, (&json!(1), &json!(7)), "{shards:?} {next}: {page}");
            let hidden = instance.client.get("/v1/boards/b/hidden").await.expect(200);
            assert_eq!(hidden["hidden"], json!([]));
        }
        unlink(&world.instances[number % 2]).await;
        let page = other.get("/v1/boards/b/standings/day").await.expect(200);
        assert_eq!(page["total"], 1, "{shards:?} {next}: {page}");
        delete(&world).await;
    }
}

/// An instance deletes the board and creates it again, with other shards, while others write to it without a pause. What was
/// acknowledged for a request that began after the new board was there is there in the end.
#[tokio::test(flavor = "multi_thread")]
async fn writes_amid_deletions_are_refused_or_count() {
    let world = &World::with_instances(3, NOW).await;
    let mut random = Random::new(seed(31));
    create(world, &voted(), 2).await;
    for round in 0..case_count(6) {
        // 0: the board of the round before, 1: being replaced, 2: the new one.
        let (phase, phase_is) = (AtomicUsize::new(0), Ordering::SeqCst);
        let shards = u16::try_from(random.below(5) + 1).unwrap();
        let moves = random.below(3) == 0;
        let replaced = async {
            tokio::task::yield_now().await;
            if moves {
                let wanted = world.client().get("/v1/boards/b/shards").await.expect(200);
                let next = 1 + wanted["shards"].as_u64().unwrap() % 4;
                world
                    .client()
                    .spread("b", u16::try_from(next).unwrap())
                    .await;
            }
            phase.store(1, phase_is);
            delete(world).await;
            create(world, &voted(), shards).await;
            phase.store(2, phase_is);
        };
        let written = join_all((0..6).map(async |writer: usize| {
            let client = &world.instances[1 + writer % 2].client.once();
            let is_queued = writer == 5;
            let client = if is_queued {
                client.queueing()
            } else {
                client.clone()
            };
            let mut counted = Vec::new();
            for number in 0..400 {
                let begun = phase.load(phase_is);
                let member = format!("w{writer}-{number}");
                let id = format!("{round}-{member}");
                let event =
                    json!({"board": "b", "id": id, "member": member, "score": 1, "voter": id});
                let answer = client.post("/v1/events", json!({"events": [event]})).await;
                if answer.status == 503 {
                    continue;
                }
                assert_eq!(answer.status, 200, "{}", answer.text);
                let result = &answer.json["results"][0];
                let is_taken = ["applied", "queued"]
                    .iter()
                    .any(|status| result["status"] == *status);
                if begun == 2 && is_taken {
                    counted.push(member);
                }
                if counted.len() == 20 {
                    break;
                }
            }
            counted
        }));
        let moved = async {
            if moves {
                world.engine().run(&Moves).await.unwrap();
            }
        };
        let ((), written, ()) = tokio::join!(replaced, written, moved);
        world.engine().run(&SETTLE_ALL).await.unwrap();
        world.engine().run(&ApplyQueues).await.unwrap();
        let client = &world.instances[1].client;
        for member in written.into_iter().flatten() {
            let path = format!("/v1/boards/b/standings/day/members/{member}");
            let entry = client.get(&path).await;
            assert_eq!(
                entry.status, 200,
                "round {round}: {member} is lost: {}",
                entry.text
            );
        }
        if round % 2 == 0 {
            unlink(&world.instances[2]).await;
        }
    }
}
