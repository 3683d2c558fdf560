//! What was answered 202 is never lost, and never put twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{join, join_all};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use standings::redis::Store;

use crate::harness::redis::{Reply, eventually};
use crate::harness::sentinels::WatchedServers;
use crate::harness::{Client, Instance, RedisServer, clock_at};

const NOW: &str = "2026-11-21T12:00:00.000Z";
/// How often Redis is killed.
const KILLS: usize = 4;

/// Sends batches until it is told to stop, each again until it is answered. Returns the ids that were answered with `queued`.
async fn put_until(client: Client, sender: usize, is_over: Arc<AtomicBool>) -> Vec<String> {
    let mut queued = Vec::new();
    let mut batch = 0;
    while !is_over.load(Ordering::Relaxed) {
        let events: Vec<Value> = (0..30)
            .map(|event| {
                let id = format!("{sender}-{batch}-{event}");
                json!({"board": "b", "id": id, "member": format!("m{event}"), "score": 1})
            })
            .collect();
        let request = client
            .builder(Method::POST, "/v1/events")
            .json(&json!({ "events": events }));
        let answer = loop {
            let answer = Client::send(request.try_clone().unwrap()).await;
            if answer.status == 200 {
                break answer.json;
            }
            assert_eq!(answer.status, 503, "{}", answer.text);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        for (event, result) in events.iter().zip(answer["results"].as_array().unwrap()) {
            assert_eq!(result["status"], "queued", "{result}");
            queued.push(event["id"].as_str().unwrap().to_owned());
        }
        batch += 1;
    }
    queued
}

/// How often each id stands in the queue of a board with one shard.
async fn entries(redis: &RedisServer) -> BTreeMap<String, usize> {
    let words: &[&[u8]] = &[b"KEYS", b"st:{b}:*:queue"];
    let mut counts = BTreeMap::new();
    let queues = redis.run(words).await;
    let Some(queue) = queues.list().first().map(Reply::text) else {
        return counts;
    };
    let all = redis.run(&[b"XRANGE", queue.as_bytes(), b"-", b"+"]).await;
    for entry in all.list() {
        let id = entry.list()[1].list()[1].text();
        *counts.entry(id).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_event_is_lost_or_queued_twice_when_redis_is_killed() {
    // What it has acknowledged is in its file. (With `appendfsync everysec` it postpones that while a busy disk syncs, and may
    // lose a second.)
    let redis = RedisServer::start().await;
    let clock = clock_at(NOW);
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(Instance::start(&redis.url(), clock.clone(), "").await);
    }
    let board = json!({"windows": ["day"], "ingest": "async"});
    instances[0].client.define("b", board).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = (0..6)
        .map(|sender| {
            let client = instances[sender % 3].client.clone();
            tokio::spawn(put_until(client, sender, Arc::clone(&is_over)))
        })
        .collect();
    let seen = Mutex::new(0);
    for _ in 0..KILLS {
        let before = *seen.lock();
        eventually("events are queued", async || {
            *seen.lock() = entries(&redis).await.len();
            *seen.lock() > before + 200
        })
        .await;
        redis.kill();
        redis.restart().await;
    }
    is_over.store(true, Ordering::Relaxed);
    let answered = join_all(senders).await.into_iter().flat_map(Result::unwrap);
    let mut entries = entries(&redis).await;
    let mut count = 0;
    for id in answered {
        assert_eq!(entries.remove(&id), Some(1), "{id}");
        count += 1;
    }
    assert!(
        entries.is_empty(),
        "each batch was answered in the end: {entries:?}"
    );
    assert!(count > 200 * KILLS);
    let words: &[&[u8]] = &[b"ZCARD", b"st:{boards}:queues"];
    assert_eq!(
        redis.run(words).await,
        Reply::Integer(1),
        "the index names the queue"
    );
}

/// Each batch is sent until it is acknowledged, while the primary dies with events in its queues.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_dying_with_queued_events_loses_and_doubles_nothing() {
    let servers = WatchedServers::start().await;
    let wait_for_replica = |store: Store| store.with_min_replicas(1);
    let instances = Instance::start_two(&servers.url(), &clock_at(NOW), wait_for_replica).await;
    let client = &instances[0].client;
    let board = json!({"windows": ["all"], "ingest": "async", "shards": 2});
    client.define("b", board).await;
    let batch = |number: usize| {
        let events: Vec<Value> = (0..25)
            .map(|event| {
                let id = format!("{number}-{event}");
                json!({"board": "b", "id": id, "member": format!("m{event}"), "score": 1})
            })
            .collect();
        json!({ "events": events })
    };
    let send = async |client: &Client, number: usize| {
        let answer = client.post_until_taken("/v1/events", &batch(number)).await;
        let results = answer["results"].as_array().unwrap();
        let is_queued = results.iter().all(|result| result["status"] == "queued");
        assert!(is_queued, "{answer}");
    };
    let page = async || client.get("/v1/boards/b/standings/all?size=100").await;
    let total = |page: &Value| -> u64 {
        let entries = page["entries"].as_array().unwrap().iter();
        entries.map(|entry| entry["score"].as_u64().unwrap()).sum()
    };
    // They wait when the primary dies, and are applied while more of them come.
    for number in 0..8 {
        send(client, number).await;
    }
    let applying = [instances[0].apply_queues(), instances[1].apply_queues()];
    let traffic = join_all((0..4).map(async |task| {
        for number in (8 + task..80).step_by(4) {
            send(&instances[task % 2].client, number).await;
        }
    }));
    join(traffic, servers.fail_over()).await;
    // Also to the new primary.
    send(client, 80).await;
    eventually("all is applied", async || {
        let page = page().await;
        page.status == 200 && total(&page.json) >= 81 * 25
    })
    .await;
    // A retry is known, or has left the queue without a trace in any standing.
    for number in [0, 40, 80] {
        send(client, number).await;
    }
    let index: &[&[u8]] = &[b"KEYS", b"st:{b*}:*:queue-ids"];
    let primary = async || {
        for node in &servers.nodes[1..] {
            if node.command("ROLE").await.contains("master") {
                return node;
            }
        }
        panic!("a replica has taken over");
    };
    eventually("nothing waits", async || {
        primary().await.run(index).await.list().is_empty()
    })
    .await;
    assert_eq!(total(&page().await.expect(200)), 81 * 25);
    drop(applying);
}
