//! What was answered 202 is never lost, and never put twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::redis::Reply;
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
async fn nothing_that_was_answered_is_lost_or_put_twice_while_redis_is_killed() {
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
        crate::harness::redis::eventually("events are queued", async || {
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
