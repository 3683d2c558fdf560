//! `standings worker` as processes, which are killed and held up with events in hand.

use std::time::Duration;

use chrono::Utc;
use serde_json::{Value, json};

use crate::harness::program::Program;
use crate::harness::random::Random;
use crate::harness::redis::eventually;
use crate::harness::{Client, World};

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
