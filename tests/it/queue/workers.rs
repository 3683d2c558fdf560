//! `standings worker` as processes, which are killed and held up with events in hand.

use std::time::Instant;

use chrono::Utc;
use futures::future::join_all;
use serde_json::{Value, json};

use super::applying::{length, total};
use crate::harness::program::{self, Program};
use crate::harness::redis::{Reply, eventually};
use crate::harness::{Client, RedisServer, World};

/// How many events are queued before a worker is killed or held up.
const LOAD: usize = 3_000;
/// How many a worker has in hand at the most: it reads so many at once.
const IN_HAND_MAX: usize = 1_000;
/// How often a worker is killed, and how often one is held up.
const KILLS: usize = 6;
const STOPS: usize = 4;
/// How often it is tried to catch a worker with events in hand.
const TRIES: usize = 20;

/// Queues a point for each number, for one of fifty members.
async fn queue(client: &Client, numbers: std::ops::Range<usize>) {
    let event = |number: usize| json!({"board": "b", "id": number.to_string(), "member": format!("m{}", number % 50), "score": 1});
    let events: Vec<Value> = numbers.map(event).collect();
    let answer = client.post("/v1/events", json!({"events": events})).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    let results = answer.json["results"].as_array().unwrap();
    assert!(results.iter().all(|result| result["status"] == "queued"));
}

/// A board with one shard, whose events workers apply.
struct Site {
    world: World,
    queued: usize,
}

impl Site {
    async fn start() -> Self {
        let world = World::start(&Utc::now().to_rfc3339()).await;
        let definition = json!({"windows": ["all"], "ingest": "async"});
        world.client().define("b", definition).await;
        Self { world, queued: 0 }
    }

    async fn worker(&self) -> Program {
        Program::work_on(&self.world.redis.url()).await
    }

    /// Queues so many more events, some of them side by side.
    async fn queue(&mut self, count: usize) {
        let (first, client) = (self.queued, self.world.client());
        self.queued += count;
        let parts = (first..self.queued)
            .step_by(500)
            .map(|part| queue(client, part..(part + 500).min(self.queued)));
        join_all(parts).await;
    }

    async fn waiting(&self) -> usize {
        usize::try_from(length(&self.world, "queue").await).unwrap()
    }

    /// Waits until nothing waits, and compares the sum of all scores.
    async fn expect_total(&self) {
        eventually("nothing waits", async || self.waiting().await == 0).await;
        let total = total(self.world.client()).await;
        assert_eq!(usize::try_from(total).unwrap(), self.queued);
    }

    /// The number of the lease of the queue, and its holder: others for each worker that takes it.
    async fn lease(&self) -> [String; 2] {
        let words: &[&[u8]] = &[b"HMGET", b"st:{b}", b"queue:number", b"queue:holder"];
        let lease = self.world.redis.run(words).await;
        [0, 1].map(|field| lease.list()[field].text())
    }

    /// Has the only worker that runs take the lease, and stops it amid its work: some of the events are applied, and more wait than it
    /// can have in hand. Returns the lease that it has.
    async fn stop_amid_work(&mut self, worker: &Program) -> [String; 2] {
        for _ in 0..TRIES {
            self.queue(1).await;
            self.expect_total().await;
            let lease = self.lease().await;
            worker.freeze(true).await;
            self.queue(LOAD).await;
            worker.freeze(false).await;
            eventually("some are applied", async || self.waiting().await < LOAD).await;
            worker.freeze(true).await;
            if self.waiting().await > IN_HAND_MAX {
                assert_eq!(self.lease().await, lease, "nobody else is there");
                return lease;
            }
            worker.freeze(false).await;
        }
        panic!("the worker was never stopped amid its work");
    }

    /// Waits until somebody else has the lease, under a greater number.
    async fn expect_other_lease(&self, lease: &[String; 2]) {
        let [number, holder] = lease;
        eventually("the lease has another holder", async || {
            self.lease().await[1] != *holder
        })
        .await;
        let next = self.lease().await[0].parse::<u64>().unwrap();
        assert!(next > number.parse().unwrap(), "{number} {next}");
    }

    /// Has the time pass for which ids are remembered. So only the queue and its lease keep an event from counting twice.
    async fn forget_ids(&self) {
        let records = self.world.redis.keys("st:{b}:*:e:*").await;
        assert!(!records.is_empty());
        let records = records.iter().map(String::as_bytes);
        let words: Vec<&[u8]> = std::iter::once(&b"DEL"[..]).chain(records).collect();
        self.world.redis.run(&words).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_held_by_a_killed_worker_are_applied_once_by_the_next() {
    let mut site = Site::start().await;
    let mut worker = site.worker().await;
    for _ in 0..KILLS {
        let lease = site.stop_amid_work(&worker).await;
        worker.die().await;
        worker = site.worker().await;
        site.expect_other_lease(&lease).await;
        site.expect_total().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_worker_does_not_repeat_the_work_of_another() {
    let mut site = Site::start().await;
    let [slow, other] = [site.worker().await, site.worker().await];
    for round in 0..=STOPS {
        eventually("nobody has a lease", async || {
            let listed: &[&[u8]] = &[b"ZCARD", b"st:{boards}:queues"];
            site.world.redis.run(listed).await == Reply::Integer(0)
        })
        .await;
        other.freeze(true).await;
        if round == STOPS {
            break;
        }
        let lease = site.stop_amid_work(&slow).await;
        other.freeze(false).await;
        site.expect_other_lease(&lease).await;
        // It wakes up while the other one works, or later.
        if round % 2 == 1 {
            site.expect_total().await;
        }
        site.forget_ids().await;
        slow.freeze(false).await;
        site.expect_total().await;
    }
    // It has the queue again, so what it had in hand is behind it.
    site.queue(1).await;
    site.expect_total().await;
    other.freeze(false).await;
    let mut applied = 0;
    for worker in [&slow, &other] {
        let name = "standings_queued_events_total{status=\"applied\"}";
        let count: usize = metric(worker, name).await.parse().unwrap();
        assert!(count > 0, "each of them has applied some");
        applied += count;
    }
    assert!(applied <= site.queued, "{applied} {}", site.queued);
}

/// The value of a metric; empty before it is there.
async fn metric(program: &Program, name: &str) -> String {
    let told = program.client().get("/metrics").await.text;
    let mut lines = told.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_show_how_many_events_wait_and_for_how_long() {
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
    eventually("it warns that no instance applies them", async || {
        let ready = client.get("/readyz").await.expect(200);
        ready["warnings"].to_string().contains("standings worker")
    })
    .await;
    let waited = put.elapsed();
    let worker = Program::work_on(&redis.url()).await;
    let lag = "standings_ingest_lag_seconds";
    eventually("all is applied", async || {
        metric(&worker, &format!("{lag}_count")).await == "31"
    })
    .await;
    let sum: f64 = metric(&worker, &format!("{lag}_sum"))
        .await
        .parse()
        .unwrap();
    // Each event has waited since it was put, by clocks that agree within some milliseconds.
    let [shortest, longest] = [waited, begun.elapsed()].map(|time| 31.0 * time.as_secs_f64());
    assert!(sum > shortest - 31.0 * 0.05, "{sum} {shortest}");
    assert!(sum < longest + 31.0 * 0.05, "{sum} {longest}");
    eventually("the gauges tell that nothing waits", async || {
        waiting().await == ["0", "0"]
    })
    .await;
}
