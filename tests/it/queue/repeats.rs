//! Events that come again: by another way, after a move, or after a call that broke off. Each counts once, as it was sent first.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use super::applying::{EVENTS, assert_clean, drain, length, queue, queue_all, run, total, world};
use crate::harness::client::Answer;
use crate::harness::redis::Reply;
use crate::harness::{Client, World};
use standings::check;

fn point(number: usize) -> Value {
    json!({"id": format!("e{number}"), "member": format!("m{}", number % 7), "score": 1})
}

async fn forget_ids(world: &World) {
    for record in world.redis.keys("st:{b*}:*:e:*").await {
        world.redis.run(&[b"DEL", record.as_bytes()]).await;
    }
}

async fn take_at_once(client: &Client) {
    let at_once = json!({"ingest": "sync"});
    client.patch("/v1/boards/b", at_once).await.expect(200);
}

async fn prefer_to_queue(client: &Client, event: &Value) -> Answer {
    let request = client.builder(Method::POST, EVENTS).json(event);
    Client::send(request.header("prefer", "respond-async")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_applied_before_a_move_is_a_duplicate_when_queued_again() {
    for (from, to) in [(1, 3), (3, 2)] {
        let world = world(1, json!({ "shards": from })).await;
        let client = world.client();
        queue_all(client, 0..10).await;
        drain(&world, &world.instances[0]).await;
        world.move_to("b", to).await;
        for number in 0..5 {
            let again = client.post(EVENTS, point(number)).await.expect(200);
            assert_eq!(again["status"], "duplicate");
        }
        let mut events: Vec<Value> = (5..12).map(point).collect();
        for event in &mut events {
            event["board"] = json!("b");
        }
        let batch = client
            .post("/v1/events", json!({"events": events}))
            .await
            .expect(200);
        let results = batch["results"].as_array().unwrap().iter();
        let statuses: Vec<&str> = results
            .map(|result| result["status"].as_str().unwrap())
            .collect();
        let (known, new) = statuses.split_at(5);
        assert_eq!((known, new), (&["duplicate"; 5][..], &["queued"; 2][..]));
        let other = json!({"id": "e1", "member": "m1", "score": 100});
        client
            .post(EVENTS, other)
            .await
            .expect_problem(422, "event-id-reused");
        forget_ids(&world).await;
        drain(&world, &world.instances[0]).await;
        assert_eq!(total(client).await, 12, "{from} to {to}");
        assert_clean(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direct_retry_of_a_waiting_event_counts_as_it_was_queued() {
    let quota = json!({"name": "few", "by": ["voter"], "window": "day", "max": 3});
    for more in [
        json!({"shards": 1}),
        json!({"shards": 1, "finalize": "13h"}),
        json!({"shards": 3}),
        json!({"shards": 3, "quotas": [quota]}),
    ] {
        let mut definition = more.clone();
        definition["accept_late"] = json!("1h");
        let world = world(1, definition).await;
        let client = world.client();
        let vote = |id: &str, at: Option<&str>| {
            let mut vote = json!({"id": id, "member": id, "score": 1, "voter": "v"});
            if let Some(at) = at {
                vote["at"] = json!(at);
            }
            vote
        };
        let before = Some("2026-11-21T11:30:00Z");
        for event in [vote("old", before), vote("new", None), vote("left", before)] {
            queue(client, event).await;
        }
        take_at_once(client).await;
        world.set_time("2026-11-22T00:30:00Z");
        // By itself it would be too late, or count for another day.
        for event in [vote("old", before), vote("new", None)] {
            let taken = client.post(EVENTS, event).await.expect(200);
            assert_eq!(taken["status"], "applied", "{more}");
        }
        assert_eq!(length(&world, "queue").await, 1);
        // Another content is another event.
        let mut other = vote("left", before);
        other["score"] = json!(2);
        for late in [other, vote("unknown", before)] {
            client
                .post(EVENTS, late)
                .await
                .expect_problem(422, "event-too-late");
        }
        let again = prefer_to_queue(client, &vote("left", before)).await;
        assert_eq!(again.expect(202)["status"], "queued");
        forget_ids(&world).await;
        drain(&world, &world.instances[0]).await;
        for (key, count) in [("2026-11-21", 3), ("2026-11-22", 0)] {
            let path = format!("/v1/boards/b/standings/day?key={key}");
            assert_eq!(client.get(&path).await.expect(200)["total"], count);
        }
        assert_eq!(total(client).await, 3);
        assert_clean(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_remembered_while_another_content_may_wait_under_it() {
    let world = world(1, json!({})).await;
    let client = world.client();
    let other = |id: &str| json!({"id": id, "member": "ann", "score": 100});
    queue(client, other("e1")).await;
    queue(client, other("e2")).await;
    take_at_once(client).await;
    client.post(EVENTS, point(1)).await.expect(200);
    prefer_to_queue(client, &point(2)).await.expect(202);
    client.post(EVENTS, point(2)).await.expect(200);
    let generation = world.generation("b").await;
    for id in ["e1", "e2"] {
        let record = format!("st:{{b}}:{generation}:e:{id}");
        let left = world.redis.run(&[b"PTTL", record.as_bytes()]).await;
        let Reply::Integer(ms) = left else {
            panic!("{left:?}");
        };
        assert!(ms > 24 * 3_600_000, "{id}: {ms} ms");
    }
    drain(&world, &world.instances[0]).await;
    assert_eq!(total(client).await, 2);
}

/// Ten votes, half of them for a period of their own.
fn votes(round: usize) -> impl Iterator<Item = Value> {
    (0..10).map(move |number| {
        let id = format!("r{round}-{number}");
        let member = format!("m{}", number % 5);
        let mut vote =
            json!({"id": id, "member": member, "score": 1, "voter": format!("v{number}")});
        if number % 2 == 0 {
            let (day, month) = (1 + round % 28, 10 - round / 28);
            vote["at"] = json!(format!("2026-{month:02}-{day:02}T12:00:00Z"));
        }
        vote
    })
}

async fn replay_all(client: &Client) {
    let letters = client.get("/v1/boards/b/dead-letters?limit=100").await;
    for letter in letters.expect(200)["dead_letters"].as_array().unwrap() {
        let path = format!(
            "/v1/boards/b/dead-letters/{}/replay",
            letter["id"].as_str().unwrap()
        );
        client.post(&path, json!({})).await.expect(202);
    }
}

/// Whatever key of a shard has another type while events are applied: they count once each, when it is mended.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_key_makes_no_event_count_twice() {
    let logs = json!({"name": "log", "by": ["voter"], "window": "2h", "max": 1_000});
    let sums = json!({"name": "sum", "by": ["voter"], "window": "total", "max": 1_000});
    let full = json!({
        "windows": ["day", "all", "last-2-days"], "ranking": "dense", "uniques": "member", "quotas": [logs, sums],
    });
    for more in [full, json!({"windows": ["day", "all"], "ties": "member"})] {
        let mut definition = more.clone();
        definition["accept_late"] = json!("90d");
        let world = world(1, definition).await;
        let client = world.client();
        let hide = json!({"reason": "x"});
        client.put("/v1/boards/b/hidden/m1", hide).await.expect(200);
        for vote in votes(0) {
            queue(client, vote).await;
        }
        drain(&world, &world.instances[0]).await;
        // A read makes the hidden list.
        total(client).await;
        let generation = world.generation("b").await;
        let prefix = format!("st:{{b}}:{generation}:");
        let mut keys = world.redis.keys(&format!("{prefix}*")).await;
        keys.sort_unstable();
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        keys.retain(|key| {
            let kind = key[prefix.len()..].split(':').next().unwrap();
            let count = kinds.entry(kind.to_owned()).or_default();
            *count += 1;
            // Without its queue nothing is applied, and nothing is put in. Of each voter there are some keys.
            !["e", "queue", "queue-ids", "dead"].contains(&kind)
                && (*count <= 3 || ["s", "d"].contains(&kind))
        });
        assert!(keys.len() > 5, "{keys:?}");
        for (round, key) in keys.iter().enumerate() {
            for vote in votes(round + 1) {
                queue(client, vote).await;
            }
            let away = format!("{key}-away");
            world
                .redis
                .run(&[b"RENAME", key.as_bytes(), away.as_bytes()])
                .await;
            world.redis.run(&[b"RPUSH", key.as_bytes(), b"x"]).await;
            // They are applied, or dead, or wait: without the registry there are no dead letters.
            for _ in 0..3 {
                run(&world.instances[0]).await;
            }
            world.redis.run(&[b"DEL", key.as_bytes()]).await;
            world
                .redis
                .run(&[b"RENAME", away.as_bytes(), key.as_bytes()])
                .await;
            replay_all(client).await;
            drain(&world, &world.instances[0]).await;
            let path = "/v1/boards/b/standings/all?hidden=include&size=1000";
            let page = client.get(path).await.expect(200);
            let entries = page["entries"].as_array().unwrap().iter();
            let sum: i64 = entries.map(|entry| entry["score"].as_i64().unwrap()).sum();
            assert_eq!(sum, i64::try_from(10 * (round + 2)).unwrap(), "{key}");
        }
        let checked = check::run(world.engine(), None, check::Repair::None)
            .await
            .unwrap();
        assert!(checked.is_sound(), "{checked:?}");
    }
}
