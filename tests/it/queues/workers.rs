//! `standings worker` as processes, which are killed and held up with events in hand.

use std::time::{Duration, Instant};

use chrono::Utc;
use serde_json::{Value, json};

use crate::harness::program::{self, Program};
use crate::harness::random::Random;
use crate::harness::redis::eventually;
use crate::harness::{Client, RedisServer, World};

/// Queues a point for each number, for one of fifty members.
async fn queue(client: &Client, numbers: std::ops::Range<usize>) {
    let event = |number: usize| json!({"board": "b", "id": number.to_string(), "member": format!("m{}", number % 50), "score": 1});
    let events: Vec<Value> = numbers.map(event).collect();
    let answer = client.post("/v1/events", json!({"events": events})).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    let results = answer.json["results"].as_array().unwrap();
    assert!(results.iter().all(|result| result["status"] == "queued"));
}

async fn total(client: &Client) -> usize {
    let path = "/v1/boards/b/standings/all?size=100";
    let page = client.get(path).await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    let scores = entries.map(|entry| entry["score"].as_u64().unwrap());
    usize::try_from(scores.sum::<u64>()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_are_killed_or_held_up_and_woken_apply_each_event_once() {
    const EVENTS: usize = 1_000;
    let world = World::start(&Utc::now().to_rfc3339()).await;
    let (client, mut random) = (world.client(), Random::new(18));
    let definition = json!({"windows": ["all"], "ingest": "async", "shards": 3});
    client.define("b", definition).await;
    let url = world.redis.url();
    let mut workers = vec![Program::work_on(&url).await, Program::work_on(&url).await];
    for round in 0..4 {
        world.set_time(&Utc::now().to_rfc3339());
        let first = round * EVENTS;
        for part in (first..first + EVENTS).step_by(250) {
            queue(client, part..part + 250).await;
        }
        tokio::time::sleep(Duration::from_micros(random.next() % 20_000)).await;
        let worker = random.below(2);
        if round % 2 == 0 {
            workers[worker].freeze(true).await;
        } else {
            workers.remove(worker).die().await;
            workers.push(Program::work_on(&url).await);
        }
        eventually("all is applied", async || {
            total(client).await >= first + EVENTS
        })
        .await;
        if round % 2 == 0 {
            workers[worker].freeze(false).await;
        }
        assert_eq!(total(client).await, first + EVENTS);
    }
    // Who was held up has applied nothing since.
    queue(client, 4 * EVENTS..4 * EVENTS + 1).await;
    eventually("all is applied", async || total(client).await > 4 * EVENTS).await;
    assert_eq!(total(client).await, 4 * EVENTS + 1);
    let mut told = String::new();
    for worker in &workers {
        told += &worker.client().get("/metrics").await.text;
    }
    for metric in [
        "standings_ingest_lag_seconds_bucket",
        "standings_queued_events_total",
    ] {
        assert!(told.contains(metric), "{told}");
    }
}

/// The value of a metric without labels; empty before it is there.
async fn metric(program: &Program, name: &str) -> String {
    let told = program.client().get("/metrics").await.text;
    let mut lines = told.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_how_much_waits_and_for_how_long_it_has_waited() {
    let redis = RedisServer::start().await;
    let mut command = program::command(&["--redis-url", &redis.url(), "--listen", "127.0.0.1:0"]);
    let service = Program::run_until_ready(command.args(["--apply-queues", "false"])).await;
    let client = service.client();
    for board in ["b", "c"] {
        let definition = json!({"windows": ["all"], "ingest": "async"});
        client.define(board, definition).await;
    }
    let begun = Instant::now();
    queue(&client, 0..30).await;
    let event = json!({"id": "other", "member": "ann", "score": 1});
    client.post("/v1/boards/c/events", event).await.expect(202);
    let put = Instant::now();
    let words: &[&[u8]] = &[b"KEYS", b"st:{*}:*:queue-state"];
    let mut bytes = 0;
    for state in redis.run(words).await.list() {
        let stored = redis.run(&[b"HGET", state.bytes(), b"bytes"]).await;
        bytes += stored.text().parse::<usize>().unwrap();
    }
    let waiting = async || {
        let length = metric(&service, "standings_queue_length").await;
        [length, metric(&service, "standings_queue_bytes").await]
    };
    eventually("the gauges tell what waits", async || {
        waiting().await == ["31".to_owned(), bytes.to_string()]
    })
    .await;
    assert!(bytes > 31 * 112);
    let waited = put.elapsed();
    let worker = Program::work_on(&redis.url()).await;
    let lag = "standings_ingest_lag_seconds";
    eventually("all is applied", async || {
        metric(&worker, &format!("{lag}_count")).await == "31"
    })
    .await;
    let sum = metric(&worker, &format!("{lag}_sum")).await;
    let sum: f64 = sum.parse().unwrap();
    // Each event has waited since it was put, by clocks that agree within some milliseconds.
    let [shortest, longest] = [waited, begun.elapsed()].map(|time| 31.0 * time.as_secs_f64());
    assert!(sum > shortest - 31.0 * 0.05, "{sum} {shortest}");
    assert!(sum < longest + 31.0 * 0.05, "{sum} {longest}");
    eventually("the gauges tell that nothing waits", async || {
        waiting().await == ["0", "0"]
    })
    .await;
}
