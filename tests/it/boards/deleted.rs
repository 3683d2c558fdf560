//! Boards that one instance deletes, and perhaps creates again, while another still has them in memory: nobody is told that
//! something was taken which is lost, or shown what is gone.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::client::Answer;
use crate::harness::jobs::{Announcements, ApplyQueues, Moves, Purge, SETTLE_ALL, Sweep};
use crate::harness::random::{Random, case_count, seed};
use crate::harness::redis::{Reply, eventually};
use crate::harness::servers::RedisServers;
use crate::harness::{Client, Instance, World, clock_at};

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

fn to_be_queued(event: Value) -> Asked {
    Asked {
        is_queued: true,
        ..asked(Method::POST, "/events", event)
    }
}

/// An event that a board refuses, unless it waits already.
fn in_future() -> Value {
    json!({"id": "future", "member": "m1", "score": 1, "voter": "v1", "at": "2026-11-21T13:00:00Z"})
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
        "/standings/day/members/m1",
        "/summary",
        "/dead-letters",
        "",
        "/memory",
        "/queue",
        "/shards",
        "/standings/day/periods",
    ];
    all.extend(reads.map(|path| asked(Method::GET, path, Value::Null)));
    all
}

/// What may also be asked of a board that is no league.
fn of_boards() -> Vec<Asked> {
    let mut all = of_all_boards();
    let new = json!({"id": "new", "member": "m1", "score": 1, "voter": "v1"});
    let known = json!({"id": "known", "member": "m1", "score": 1, "voter": "v1"});
    all.extend([new, known, in_future()].map(to_be_queued));
    all.extend([
        asked(
            Method::PATCH,
            "/initial-scores",
            json!({"scores": {"m1": 5}}),
        ),
        asked(Method::GET, "/initial-scores", Value::Null),
        asked(Method::GET, "/standings/day", Value::Null),
        asked(Method::GET, "/standings/day/members?ids=m1", Value::Null),
        asked(Method::GET, "/standings/day/stats", Value::Null),
        asked(Method::GET, "/standings/last-2-days", Value::Null),
    ]);
    let of_periods = [
        "/standings/day/periods/2026-11-21",
        "/standings/day/periods/2026-11-21/export?format=csv",
        "/standings/day/periods/2026-11-21/rewards",
        "/standings/day/periods/2026-11-21/revisions",
    ];
    all.extend(of_periods.map(|path| asked(Method::GET, path, Value::Null)));
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
    let entry = other.get("/v1/boards/b/standings/day/members/m1").await;
    entry.expect(200);
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
async fn an_instance_that_missed_a_deletion_accepts_and_shows_nothing_of_the_board() {
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
async fn events_after_a_board_was_recreated_count_on_the_new_one() {
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
        match number % 3 {
            0 => {
                let taken = other.post("/v1/boards/b/events", event).await.expect(200);
                assert_eq!(taken["status"], "applied", "{shards:?} {next}: {taken}");
            }
            1 => {
                // If the old board remembers the id from before a move, the event is applied at once.
                let taken = to_be_queued(event).send(other).await;
                let is_taken = [200, 202].contains(&taken.status.as_u16());
                assert!(is_taken, "{shards:?} {next}: {}", taken.text);
            }
            _ => {
                let refused = to_be_queued(in_future()).send(other).await.expect(422);
                assert_eq!(
                    refused["code"], "event-in-future",
                    "{shards:?} {next}: {refused}"
                );
                other.post("/v1/boards/b/events", event).await.expect(200);
            }
        }
        world.engine().run(&ApplyQueues).await.unwrap();
        for instance in &world.instances {
            let page = instance
                .client
                .get("/v1/boards/b/standings/day")
                .await
                .expect(200);
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
async fn writes_during_deletions_are_refused_or_count() {
    let world = &World::with_instances(3, NOW).await;
    let mut random = Random::new(seed(31));
    create(world, &voted(), 2).await;
    for round in 0..case_count(6) {
        // 0: the board of the round before, 1: being replaced, 2: the new one.
        let (phase, phase_is) = (AtomicUsize::new(0), Ordering::SeqCst);
        let shards = u16::try_from(random.below(5) + 1).unwrap();
        let is_moved = random.below(3) == 0;
        let replaced = async {
            tokio::task::yield_now().await;
            if is_moved {
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
        let moving = async {
            if is_moved {
                world.engine().run(&Moves).await.unwrap();
            }
        };
        let ((), written, ()) = tokio::join!(replaced, written, moving);
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

/// Two instances on a cluster, and its servers.
async fn on_cluster() -> (RedisServers, [Instance; 2]) {
    let servers = RedisServers::start_cluster().await;
    let clock = clock_at(NOW);
    let instances = Instance::start_two(&servers.url(), &clock, |store| store).await;
    (servers, instances)
}

/// A server of a cluster that has nothing but shards of a board hangs while the board is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_fails_half_way_is_finished_by_the_next_request() {
    let (servers, [one, other]) = on_cluster().await;
    let path = "/v1/boards/b";
    for finish in ["delete", "create", "job"] {
        let definition = json!({"windows": ["all"], "shards": 6});
        one.client.define("b", definition).await;
        let event = |number| json!({"board": "b", "id": format!("e{number}"), "member": format!("m{number}"), "score": 1});
        let events = json!({ "events": (0..30).map(event).collect::<Vec<_>>() });
        other.client.post_until_taken("/v1/events", &events).await;
        let mut hanging = None;
        for server in &servers.nodes {
            let heads = server.run(&[b"EXISTS", b"st:{b}"]).await;
            let lists = server.run(&[b"EXISTS", b"st:{boards}:stamp"]).await;
            if matches!((heads, lists), (Reply::Error(_), Reply::Error(_))) {
                hanging = Some(server);
            }
        }
        let hanging = hanging.expect("one of three servers has neither");
        hanging.freeze(true);
        let failed = one.client.once().delete(path).await;
        hanging.freeze(false);
        assert_eq!(failed.status, 503, "{}", failed.text);
        let gone = one.client.get(path).await;
        gone.expect_problem(404, "board-not-found");
        match finish {
            "delete" => drop(one.client.delete(path).await.expect(204)),
            "create" => {
                let definition = json!({"windows": ["all"], "shards": 5});
                one.client.define("b", definition).await;
            }
            _ => {
                let announcements = Announcements {
                    older_than: Duration::ZERO,
                };
                eventually("the job can run", async || {
                    one.engine.run(&announcements).await.is_ok()
                })
                .await;
            }
        }
        for number in 0..30 {
            let event = json!({"member": format!("m{number}"), "score": 7});
            let answer = other.client.post(&format!("{path}/events"), event).await;
            if finish == "create" {
                assert_eq!(answer.expect(200)["standings"][0]["score"], 7);
            } else {
                answer.expect_problem(404, "board-not-found");
            }
        }
        if finish == "create" {
            one.client.delete(path).await.expect(204);
        }
        unlink(&one).await;
        assert_eq!(servers.leftover("st:{b[:}]*").await, [""; 0], "{finish}");
    }
}

/// A server of a cluster takes no writes, since its disk fails, while a definition is changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_returns_only_after_all_shards_have_it() {
    let (servers, [one, _]) = on_cluster().await;
    one.client
        .define("b", json!({"windows": ["all"], "shards": 6}))
        .await;
    let known = async || {
        let mut known = BTreeSet::new();
        for key in servers.keys("st:{b*}").await {
            let version = servers.run(&[b"HGET", key.as_bytes(), b"version"]).await;
            known.insert(version.text());
        }
        known.len()
    };
    let mut refused = 0;
    for (number, server) in servers.nodes.iter().enumerate() {
        let folder = server.run(&[b"CONFIG", b"GET", b"dir"]).await.list()[1].text();
        let in_the_way = Path::new(&folder).join("dump.rdb");
        std::fs::create_dir(&in_the_way).unwrap();
        server.command("CONFIG SET save \"3600 1\"").await;
        let fails = async |status: &str| {
            server.command("BGSAVE").await;
            server.command("INFO persistence").await.contains(status)
        };
        eventually("it can't save", async || {
            fails("last_bgsave_status:err").await
        })
        .await;
        let title = json!({"title": format!("version {number}")});
        let answer = one.client.once().patch("/v1/boards/b", title.clone()).await;
        if answer.status == 200 {
            assert_eq!(known().await, 1);
        } else {
            answer.expect_problem(503, "store-full");
            refused += 1;
        }
        std::fs::remove_dir(&in_the_way).unwrap();
        eventually("it can save", async || fails("last_bgsave_status:ok").await).await;
        one.client.patch("/v1/boards/b", title).await.expect(200);
        assert_eq!(known().await, 1);
    }
    assert_eq!(refused, servers.nodes.len(), "each has a shard");
}
