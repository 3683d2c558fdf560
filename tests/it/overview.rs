//! The overview: what waits or fails, what is closed next, and how many events boards had.

use serde_json::{Value, json};
use standings::core::jobs::JobKind;
use standings::webhooks::deliveries;
use standings::worker;

use crate::harness::jobs::{ApplyQueues, ClosePeriods, ListQueues};
use crate::harness::receiver::{Manner, Receiver};
use crate::harness::redis::{Reply, eventually};
use crate::harness::{Client, Instance, World};
use crate::keys::make_key;

const NOW: &str = "2026-11-21T12:00:00Z";
const OVERVIEW: &str = "/v1/overview";

/// Does what an instance with background work has done by then.
async fn close(world: &World) {
    world.engine().refresh_boards().await.unwrap();
    world.engine().run(&ClosePeriods).await.unwrap();
}

async fn run(kind: JobKind, instance: &Instance) {
    worker::run(kind, &instance.engine).await.unwrap();
}

/// The overview of a sample that is taken now.
async fn sampled(world: &World, now: &str) -> Value {
    world.set_time(now);
    let last = world.instances.last().unwrap();
    last.engine.refresh_boards().await.unwrap();
    run(JobKind::Overview, last).await;
    let overview = world.client().get(OVERVIEW).await.expect(200);
    assert_eq!(overview["sampled_at"], now.replace('Z', ".000Z"));
    overview
}

/// Damages the standing of a day, and has an event for it become a dead letter.
async fn bury(world: &World, board: &str) {
    let generation = world.generation(board).await;
    let damaged = format!("st:{{{board}}}:{generation}:s:day:2026-11-21:members");
    world.redis.run(&[b"SET", damaged.as_bytes(), b"x"]).await;
    let event = json!({"id": "1", "member": "ann", "score": 1});
    let events = format!("/v1/boards/{board}/events");
    world.client().post(&events, event).await.expect(202);
    let letters = format!("st:{{{board}}}:{generation}:dead");
    eventually("the event is dead", async || {
        world.engine().run(&ApplyQueues).await.unwrap();
        world.redis.run(&[b"XLEN", letters.as_bytes()]).await == Reply::Integer(1)
    })
    .await;
    world.redis.run(&[b"DEL", damaged.as_bytes()]).await;
}

/// Registers a webhook, and sends it a message that is answered like this.
async fn test_webhook(world: &World, name: &str, status: u16) -> Receiver {
    let (receiver, client) = (
        Receiver::start(Manner::Status(status)).await,
        world.client(),
    );
    let webhook = json!({"url": receiver.url(), "events": ["period.final"], "boards": ["*"]});
    let address = format!("/v1/webhooks/{name}");
    client.put(&address, webhook).await.expect(201);
    let test = client.post(&format!("{address}/test"), json!({})).await;
    test.expect(202);
    deliveries::job::deliver(world.engine()).await.unwrap();
    receiver
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_or_fails_is_counted_until_it_is_settled() {
    let world = World::sending(1, NOW, "").await;
    let client = world.client();
    let definition = json!({"windows": ["day"], "ingest": "async"});
    for board in ["slow", "dead", "gone"] {
        client.define(board, definition.clone()).await;
    }
    for member in ["ann", "bob"] {
        let path = format!("/v1/members/{member}/profile");
        client.put(&path, json!({"name": member})).await.expect(200);
    }
    bury(&world, "dead").await;
    bury(&world, "gone").await;
    let site = test_webhook(&world, "site", 500).await;
    test_webhook(&world, "old", 410).await;
    test_webhook(&world, "well", 200).await;
    let event = json!({"id": "1", "member": "ann", "score": 1});
    let waiting = client.post("/v1/boards/slow/events", event).await;
    waiting.expect(202);
    let key = "st:{bad}";
    let damage = ["HSET", key, "definition", "{}", "version", "7-9"];
    world.redis.run(&damage.map(str::as_bytes)).await;
    let page = "/v1/boards/bad/standings/day";
    client.once().get(page).await.expect(503);

    let overview = sampled(&world, "2026-11-21T12:00:01Z").await;
    assert_eq!(overview["pending_names"], 2);
    let webhooks = json!({"failing": ["site"], "disabled": ["old"], "failed_deliveries": 1});
    assert_eq!(overview["webhooks"], webhooks);
    let letters = ["dead", "gone"].map(|board| json!({"board": board, "count": 1}));
    assert_eq!(
        overview["dead_letters"],
        json!({"total": 2, "boards": letters})
    );
    let queues = &overview["queues"];
    assert_eq!([&queues["events"], &queues["boards"][0]["events"]], [1, 1]);
    assert_eq!(queues["boards"][0]["board"], "slow");
    assert!(queues["waiting_since"].is_string());
    assert_eq!(
        queues["waiting_since"],
        queues["boards"][0]["waiting_since"]
    );
    assert_eq!(overview["fault_count"], 1);
    let fault = &overview["faults"][0];
    assert_eq!([&fault["board"], &fault["job"]], ["bad", "definition"]);

    world.redis.run(&[b"DEL", key.as_bytes()]).await;
    client.get(page).await.expect(404);
    let approved = json!({"name": "ann", "status": "approved"});
    let review = client.put("/v1/members/ann/name-review", approved).await;
    review.expect(200);
    client.delete("/v1/members/bob/profile").await.expect(204);
    client.delete("/v1/boards/gone").await.expect(204);
    let listed = client.get("/v1/boards/dead/dead-letters").await.expect(200);
    let letter = listed["dead_letters"][0]["id"].as_str().unwrap();
    let letter = format!("/v1/boards/dead/dead-letters/{letter}");
    client.delete(&letter).await.expect(204);
    world.engine().run(&ApplyQueues).await.unwrap();
    site.set(Manner::Status(200));
    client.delete("/v1/webhooks/old").await.expect(204);
    world.set_time("2026-11-21T12:00:09Z");
    deliveries::job::deliver(world.engine()).await.unwrap();
    run(JobKind::Overview, &world.instances[0]).await;
    let same = client.get(OVERVIEW).await.expect(200);
    assert_eq!(same, overview, "the last sample is too young");

    let overview = sampled(&world, "2026-11-21T12:00:11Z").await;
    let nothing = json!({"sampled_at": "2026-11-21T12:00:11.000Z", "pending_names": 0,
        "webhooks": {"failing": [], "disabled": [], "failed_deliveries": 0},
        "dead_letters": {"total": 0, "boards": []},
        "queues": {"events": 0, "waiting_since": null, "boards": []},
        "faults": [], "fault_count": 0, "warnings": overview["warnings"], "closing": [], "events": []});
    assert_eq!(overview, nothing, "events are counted by another job");
    let notes: &[&[u8]] = &[b"EXISTS", b"st:{boards}:dead-letters"];
    assert_eq!(world.redis.run(notes).await, Reply::Integer(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_whose_note_is_lost_are_found_when_the_board_is_loaded() {
    let mut world = World::with_instances(1, NOW).await;
    let definition = json!({"windows": ["day"], "ingest": "async"});
    world.client().define("dead", definition).await;
    bury(&world, "dead").await;
    world
        .redis
        .run(&[b"DEL", b"st:{boards}:dead-letters"])
        .await;
    let lost = sampled(&world, "2026-11-21T12:00:10Z").await;
    assert_eq!(lost["dead_letters"]["total"], 0);
    let (url, clock) = (world.redis.url(), world.clock.clone());
    let new = Instance::start(&url, clock, "").await;
    new.engine.refresh_boards().await.unwrap();
    new.engine.run(&ListQueues).await.unwrap();
    world.instances.push(new);
    let found = sampled(&world, "2026-11-21T12:00:20Z").await;
    assert_eq!(found["dead_letters"]["total"], 1);
}

async fn post(client: &Client, board: &str, id: &str) {
    let event = json!({"id": id, "member": "ann", "score": 1});
    let path = format!("/v1/boards/{board}/events");
    let answer = client.post(&path, event).await;
    assert!(answer.status.is_success(), "{}", answer.text);
}

/// Has all instances add their counts.
async fn count(world: &World) {
    for instance in &world.instances {
        run(JobKind::EventCounts, instance).await;
    }
}

/// The boards with events, each with its total and the counts of the last minutes.
fn events(overview: &Value) -> Vec<(&str, u64, [u64; 3])> {
    let boards = overview["events"].as_array().unwrap().iter();
    boards
        .map(|of| {
            let minutes = of["minutes"].as_array().unwrap();
            assert_eq!(minutes.len(), 60);
            let of_minute = |index: usize| minutes[index].as_u64().unwrap();
            let total = of["total"].as_u64().unwrap();
            let board = of["board"].as_str().unwrap();
            (board, total, [57, 58, 59].map(of_minute))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_counted_once_by_board_and_minute_on_all_instances() {
    let world = World::with_instances(2, NOW).await;
    let [one, other] = [0, 1].map(|index| &world.instances[index].client);
    one.define("votes", json!({"windows": ["all"], "title": "Votes"}))
        .await;
    one.define("slow", json!({"windows": ["all"], "ingest": "async"}))
        .await;
    one.define("idle", json!({"windows": ["all"]})).await;
    post(one, "votes", "1").await;
    post(one, "votes", "1").await;
    post(other, "votes", "1").await;
    post(other, "votes", "2").await;
    let batch =
        ["2", "3", "4"].map(|id| json!({"board": "votes", "id": id, "member": "bob", "score": 1}));
    let results = one.post("/v1/events", json!({"events": batch})).await;
    let results = results.expect(200);
    assert_eq!(results["results"][0]["problem"]["code"], "event-id-reused");
    count(&world).await;
    count(&world).await;
    let overview = sampled(&world, "2026-11-21T12:00:30Z").await;
    assert_eq!(events(&overview), [("votes", 4, [0, 0, 4])]);
    assert_eq!(overview["events"][0]["title"], "Votes");

    world.set_time("2026-11-21T12:01:10Z");
    for id in ["1", "1", "2"] {
        post(other, "slow", id).await;
    }
    // A new definition goes on with the counts of the last one.
    post(one, "votes", "5").await;
    one.define("votes", json!({"windows": ["all"], "title": "More votes"}))
        .await;
    post(one, "votes", "6").await;
    world.engine().run(&ApplyQueues).await.unwrap();
    count(&world).await;
    let overview = sampled(&world, "2026-11-21T12:01:20Z").await;
    let expected = [("votes", 6, [0, 4, 2]), ("slow", 2, [0, 0, 2])];
    assert_eq!(events(&overview), expected);
    for key in world.redis.keys("st:{boards}:accepted:*").await {
        let Reply::Integer(left_ms) = world.redis.run(&[b"PTTL", key.as_bytes()]).await else {
            panic!("{key} is there")
        };
        assert!(
            (3_600_000..=3_720_000).contains(&left_ms),
            "{key}: {left_ms}"
        );
    }

    // Nothing is told of a deleted board, nor counted for another one of its name.
    one.delete("/v1/boards/votes").await.expect(204);
    one.define("votes", json!({"windows": ["all"]})).await;
    let overview = sampled(&world, "2026-11-21T12:02:00Z").await;
    assert_eq!(events(&overview), [("slow", 2, [0, 2, 0])]);
    post(other, "votes", "1").await;
    count(&world).await;
    let overview = sampled(&world, "2026-11-21T13:00:59Z").await;
    let expected = [("slow", 2, [0; 3]), ("votes", 1, [0; 3])];
    assert_eq!(events(&overview), expected);
    let overview = sampled(&world, "2026-11-21T13:01:59Z").await;
    assert_eq!(events(&overview), [("votes", 1, [0; 3])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_periods_that_are_closed_next_are_listed_in_order() {
    let world = World::start(NOW).await;
    let client = world.client();
    let boards = [
        (
            "league",
            json!({"windows": ["day", "week"], "finalize": "1h", "title": "Days"}),
        ),
        (
            "hourly",
            json!({"windows": ["hour", "last-2-days"], "finalize": "10m"}),
        ),
        (
            "ending",
            json!({"windows": ["all"], "finalize": "0s", "closes_at": "2026-11-21T12:30:00Z"}),
        ),
        ("open", json!({"windows": ["day"]})),
    ];
    for (board, definition) in boards {
        client.define(board, definition).await;
    }
    close(&world).await;
    let row =
        |board: &str, title: &str, window: &str, key: &str, [ends_at, closes_at]: [&str; 2]| {
            let at = |time: &str| format!("2026-11-{time}:00.000Z");
            json!({"board": board, "title": title, "window": window, "key": key,
            "ends_at": at(ends_at), "closes_at": at(closes_at)})
        };
    let hourly = |key, times| row("hourly", "", "hour", key, times);
    let ending = row("ending", "", "all", "all", ["21T12:30"; 2]);
    let overview = sampled(&world, "2026-11-21T12:09:50Z").await;
    let first = &overview["closing"].as_array().unwrap()[..2];
    assert_eq!(
        first[0], ending,
        "the hour before had ended when its board was created"
    );
    assert_eq!(first[1]["board"], "league");
    world.set_time("2026-11-21T12:10:00Z");
    close(&world).await;
    let expected = [
        ending,
        hourly("2026-11-21T12:00Z", ["21T13:00", "21T13:10"]),
        row(
            "league",
            "Days",
            "day",
            "2026-11-21",
            ["22T00:00", "22T01:00"],
        ),
    ];
    let overview = sampled(&world, "2026-11-21T12:10:01Z").await;
    assert_eq!(overview["closing"], json!(expected));

    // On Sunday the day and the week end at once; a period that waits for `finalize` comes before that.
    world.set_time("2026-11-22T23:05:00Z");
    close(&world).await;
    let times = ["23T00:00", "23T01:00"];
    let expected = [
        hourly("2026-11-22T22:00Z", ["22T23:00", "22T23:10"]),
        row("league", "Days", "day", "2026-11-22", times),
        row("league", "Days", "week", "2026-11-16", times),
    ];
    let overview = sampled(&world, "2026-11-22T23:05:00Z").await;
    assert_eq!(overview["closing"], json!(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_are_warned_if_nobody_takes_samples() {
    let world = World::with_keys(1, NOW, "read:a-reader,admin:an-admin").await;
    let _following = world.instances[0].follow_api_keys();
    let admin = world.client().with_key("an-admin");
    let overview = async || admin.get(OVERVIEW).await.expect(200);
    let is_warned = async || {
        let warnings = overview().await["warnings"].take();
        let warnings: Vec<String> = serde_json::from_value(warnings).unwrap();
        warnings
            .iter()
            .any(|warning| warning.contains("STANDINGS_BACKGROUND"))
    };
    assert_eq!(overview().await["sampled_at"], Value::Null);
    assert!(is_warned().await);
    run(JobKind::Overview, &world.instances[0]).await;
    assert!(!is_warned().await);
    world.set_time("2026-11-21T12:01:00Z");
    assert!(!is_warned().await);
    world.set_time("2026-11-21T12:01:01Z");
    assert!(is_warned().await);
    // What another release has stored is as good as nothing.
    let strange: &[&[u8]] = &[b"SET", b"st:{boards}:overview", b"{\"sampled_at\": 7}"];
    world.redis.run(strange).await;
    assert_eq!(overview().await["sampled_at"], Value::Null);
    for (scope, status) in [("moderate", 200), ("configure", 200), ("write", 403)] {
        let grant = json!({"scopes": [scope], "boards": ["*"]});
        let (_, secret) = make_key(&admin, scope, grant).await;
        let client = world.client().with_key(&secret);
        client.get(OVERVIEW).await.expect(status);
    }
}
