//! Faults: what was acknowledged is neither lost nor counted twice, and what fails says so in bounded time.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use standings::core::read::store::rollover;
use standings::domain::ids::BoardId;
use standings::domain::period::Unit;
use standings::domain::series::{Standing, Track};
use standings::domain::time::Timestamp;
use standings::domain::window::Window;
use standings::moves;
use standings::redis::{Store, keys};
use tokio_util::task::AbortOnDropHandle;

use crate::harness::program::Program;
use crate::harness::random::Random;
use crate::harness::redis::{Reply, eventually};
use crate::harness::replicated::Replicated;
use crate::harness::sentinels::WatchedServers;
use crate::harness::servers::RedisServers;
use crate::harness::{Client, Instance, World, clock_at, redis};

const NOW: &str = "2026-11-21T12:00:00Z";

fn batch(from: usize, count: usize) -> Value {
    let events: Vec<Value> = (from..from + count)
        .map(|number| json!({"board": "b", "id": number.to_string(), "member": (number % 50).to_string(), "score": 1}))
        .collect();
    json!({"events": events})
}

async fn sum(client: &Client) -> i64 {
    let page = client
        .get("/v1/boards/b/standings/all?size=1000")
        .await
        .expect(200);
    page["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["score"].as_i64().unwrap())
        .sum()
}

/// Sends a batch until it is taken; all of it has to be, now or before.
async fn send_until_taken(client: &Client, body: &Value) {
    let answer = client.post_until_taken("/v1/events", body).await;
    let is_taken = |one: &Value| one["status"] == "applied" || one["status"] == "duplicate";
    assert!(
        answer["results"].as_array().unwrap().iter().all(is_taken),
        "{answer}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_redis_forgets_under_load_are_loaded_again() {
    let world = World::with_instances(2, NOW).await;
    world
        .client()
        .define("b", json!({"windows": ["day", "all", "last-7-days"]}))
        .await;
    let traffic = stream::iter(0..40)
        .map(async |number: usize| {
            if number.is_multiple_of(5) {
                world.redis.on_each("SCRIPT FLUSH").await;
            }
            let client = &world.instances[number % 2].client;
            client
                .post("/v1/events", batch(number * 20, 20))
                .await
                .expect(200);
            client
                .get("/v1/boards/b/standings/last-7-days")
                .await
                .expect(200);
        })
        .buffer_unordered(8);
    traffic.collect::<()>().await;
    assert_eq!(sum(world.client()).await, 800);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_killed_under_load_loses_and_doubles_nothing() {
    let world = World::with_instances(2, NOW).await;
    world
        .client()
        .define("b", json!({"windows": ["all"]}))
        .await;
    let traffic: Vec<_> = (0..4)
        .map(|task| {
            let client = world.instances[task % 2].client.clone();
            tokio::spawn(async move {
                for number in (task..60).step_by(4) {
                    send_until_taken(&client, &batch(number * 50, 50)).await;
                }
            })
        })
        .collect();
    for _ in 0..2 {
        // Wherever the traffic is by then.
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.redis.kill();
        world.redis.restart().await;
    }
    for task in traffic {
        task.await.unwrap();
    }
    eventually("the instance is ready", async || {
        world.client().get("/readyz").await.status == 200
    })
    .await;
    assert_eq!(sum(world.client()).await, 3_000);
}

/// A thousand members, each with an event on this day.
async fn crowd(client: &Client, board: &str, at: &str) {
    let events: Vec<Value> = (0..1_000)
        .map(|number| json!({"board": board, "member": format!("m{number}"), "score": 1, "at": at}))
        .collect();
    let body = json!({"events": events});
    client.post("/v1/events", body).await.expect(200);
}

/// Redis' cursors hold for one process: another one has its keys in another order.
#[tokio::test(flavor = "multi_thread")]
async fn a_walk_interrupted_by_a_redis_restart_misses_nobody() {
    let world = World::start(NOW).await;
    for ties in ["first", "member"] {
        let windows = json!(["day", "last-3-days"]);
        let definition = json!({"windows": windows, "ties": ties, "accept_late": "any"});
        world.client().define(ties, definition).await;
        crowd(world.client(), ties, "2026-11-19T12:00:00Z").await;
    }
    let engine = Arc::clone(world.engine());
    let at = Timestamp::parse("2026-11-19T00:00:00Z").unwrap();
    let mut cursors = Vec::new();
    for ties in ["first", "member"] {
        let board = engine.board(&BoardId::parse(ties).unwrap()).await.unwrap();
        let shard = board.shards().remove(0);
        let derived = shard.derived().next().unwrap();
        let period = shard.calendar.containing(derived.window.unit(), at);
        let now = engine.clock.now();
        let running = shard.calendar.containing(derived.window.unit(), now);
        for _ in 0..3 {
            let step =
                rollover::advance(&engine.store, &shard, &derived, &period, &running, now, 200);
            assert!(!step.await.unwrap());
        }
        let day = shard.series(Window::Period(Unit::Day), Track::Shown);
        let standing = Standing::of(day, period);
        let zset = keys::standing(&shard, &standing).next().unwrap();
        let part = moves::store::scan_members(&engine.store, &shard, &zset, "0")
            .await
            .unwrap();
        cursors.push((shard, zset, part));
    }
    world.redis.kill();
    world.redis.restart().await;
    eventually("the instance is ready", async || {
        world.client().get("/readyz").await.status == 200
    })
    .await;
    for (shard, zset, (mut cursor, part)) in cursors {
        let path = format!(
            "/v1/boards/{}/standings/last-3-days?key=2026-11-19",
            shard.id
        );
        let page = world.client().get(&path).await.expect(200);
        assert_eq!(page["total"], 1_000, "{path}");
        let mut met: HashSet<String> = part.into_iter().map(|member| member.id).collect();
        while cursor != "0" {
            let (next, part) = moves::store::scan_members(&engine.store, &shard, &zset, &cursor)
                .await
                .unwrap();
            met.extend(part.into_iter().map(|member| member.id));
            cursor = next;
        }
        assert_eq!(met.len(), 1_000, "{zset}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_can_be_sent_again_after_a_crash_half_way() {
    let directory = tempfile::TempDir::new().unwrap();
    let mut total = 0;
    for round in 0..3_usize {
        let mut program = Program::serve(directory.path()).await;
        let client = program.client();
        client
            .define(
                "b",
                json!({"windows": ["hour", "day", "week", "month", "all", "last-7-days"]}),
            )
            .await;
        let body = batch(round * 1_000, 1_000);
        let half_way = tokio::spawn({
            let request = client
                .http
                .post(format!("{}/v1/events", client.base))
                .json(&body);
            async move { request.send().await.is_ok() }
        });
        tokio::time::sleep(Duration::from_millis(5 + 5 * round as u64)).await;
        program.kill();
        half_way.await.unwrap();

        let program = Program::serve(directory.path()).await;
        let client = program.client();
        send_until_taken(&client, &body).await;
        total += 1_000;
        assert_eq!(sum(&client).await, total);
        program.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_before_a_replica_has_it() {
    let Replicated {
        instance,
        primary,
        replica,
        ..
    } = Replicated::start(NOW).await;
    let client = &instance.client;
    let event = |id: &str| json!({"id": id, "member": "a", "score": 1});
    let send = async |id: &str| client.post("/v1/boards/b/events", event(id)).await;
    for id in ["1", "2"] {
        assert_eq!(send(id).await.expect(200)["status"], "applied");
    }
    let members = replica
        .run(&[b"KEYS", b"st:{b}:*:all:all:members"])
        .await
        .list()[0]
        .bytes()
        .to_vec();
    let length = replica.run(&[b"HSTRLEN", &members, b"a"]).await;
    assert_eq!(length, Reply::Integer(15), "the replica has it");

    replica.kill();
    for _ in 0..2 {
        let answer = client.once().post("/v1/boards/b/events", event("3")).await;
        assert_eq!(answer.headers["retry-after"], "1");
        answer.expect_problem(503, "store-unavailable");
    }
    replica.restart().await;
    let answer = client
        .post_until_taken("/v1/boards/b/events", &event("3"))
        .await;
    assert_eq!(answer["status"], "duplicate");
    let page = client.get("/v1/boards/b/standings/all").await.expect(200);
    assert_eq!(page["entries"][0]["score"], 3);

    // The replica takes over, with all that was acknowledged.
    drop(primary);
    replica.command("REPLICAOF NO ONE").await;
    let url = replica.url();
    let clock = clock_at(NOW);
    let survivor = Instance::start(&url, clock, "").await;
    let again = survivor
        .client
        .post("/v1/boards/b/events", event("3"))
        .await;
    assert_eq!(again.expect(200)["status"], "duplicate");
}

/// A board of eight shards on a cluster with replicas, and two instances that wait for these.
async fn sharded_board() -> (RedisServers, [Instance; 2]) {
    let servers = RedisServers::start_cluster_with_replicas().await;
    let clock = clock_at(NOW);
    let instances = Instance::start_two(&servers.url(), &clock, wait_for_replica).await;
    let definition = json!({"windows": ["day", "all", "last-7-days"], "shards": 8});
    instances[0].client.define("b", definition).await;
    (servers, instances)
}

fn wait_for_replica(store: Store) -> Store {
    store.with_min_replicas(1)
}

/// The sum of all scores, once they can be read again.
async fn sum_at_last(client: &Client) -> i64 {
    eventually("all can be read", async || {
        client.get("/v1/boards/b/standings/all").await.status == 200
    })
    .await;
    sum(client).await
}

/// Each event is sent until it is acknowledged, while the primary of some shards dies and its replica takes over.
#[tokio::test(flavor = "multi_thread")]
async fn a_dying_cluster_primary_loses_and_doubles_nothing() {
    let (servers, instances) = sharded_board().await;
    let client = &instances[0].client;
    let traffic: Vec<_> = (0..4)
        .map(|task| {
            let client = instances[task % 2].client.clone();
            tokio::spawn(async move {
                for number in (task..40).step_by(4) {
                    send_until_taken(&client, &batch(number * 50, 50)).await;
                }
            })
        })
        .collect();
    // Wherever the traffic is by then.
    tokio::time::sleep(Duration::from_millis(50)).await;
    servers.fail_over(1).await;
    for task in traffic {
        task.await.unwrap();
    }
    assert_eq!(sum_at_last(client).await, 2_000);
}

/// The same with a primary that does not die, but hangs, and wakes up when it is none any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_cluster_primary_loses_and_doubles_nothing() {
    let (servers, instances) = sharded_board().await;
    let client = &instances[0].client;
    let is_done = Arc::new(AtomicBool::new(false));
    let traffic: Vec<_> = (0..4)
        .map(|task| {
            let client = instances[task % 2].client.clone();
            let is_done = Arc::clone(&is_done);
            tokio::spawn(async move {
                let mut sent = 0;
                while !is_done.load(Ordering::Relaxed) {
                    send_until_taken(&client, &batch(task * 100_000 + sent, 20)).await;
                    sent += 20;
                }
                sent
            })
        })
        .collect();
    servers.freeze(1).await;
    is_done.store(true, Ordering::Relaxed);
    let mut sent = 0;
    for task in traffic {
        sent += task.await.unwrap();
    }
    assert!(sent > 0);
    assert_eq!(usize::try_from(sum_at_last(client).await).unwrap(), sent);
}

/// What became of events that were sent while all else moved: for each member how many of its events count in a window.
async fn counts(client: &Client, board: &str, window: &str) -> BTreeMap<String, i64> {
    let path = format!("/v1/boards/{board}/standings/{window}?size=1000");
    let page = client.get(&path).await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    let count = |entry: &Value| {
        let member = entry["member"].as_str().unwrap().to_owned();
        (member, entry["score"].as_i64().unwrap())
    };
    entries.map(count).collect()
}

/// Events of two boards, each with an id, on two days.
fn mixed_batch(from: usize, count: usize) -> Value {
    let event = |number: usize| {
        let board = ["b", "v"][number % 2];
        let member = (number % 30).to_string();
        let at = ["2026-11-20T12:00:00Z", NOW][number / 2 % 2];
        let voter = (number % 7).to_string();
        json!({"board": board, "id": number.to_string(), "member": member, "score": 1, "at": at, "voter": voter})
    };
    json!({"events": (from..from + count).map(event).collect::<Vec<_>>()})
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_accepted_while_slots_move_and_a_primary_dies() {
    let (servers, instances) = sharded_board().await;
    let client = &instances[0].client;
    let windows = ["day", "all", "last-7-days"];
    client
        .define("v", json!({"windows": windows, "uniques": "member"}))
        .await;
    let traffic: Vec<_> = (0..4)
        .map(|task| {
            let client = instances[task % 2].client.clone();
            tokio::spawn(async move {
                for number in (task..120).step_by(4) {
                    send_until_taken(&client, &mixed_batch(number * 20, 20)).await;
                    let board = ["b", "v"][number / 4 % 2];
                    let path = format!("/v1/boards/{board}/standings/last-7-days");
                    let read = client.once().get(&path).await;
                    assert!([200, 503].contains(&read.status.as_u16()), "{}", read.text);
                }
            })
        })
        .collect();
    // Slots move between those primaries that stay: one that dies half-way through a move takes it along.
    let mover = servers.mover(&[0, 2]).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let is_enough = Arc::clone(&is_done);
    let moving = AbortOnDropHandle::new(tokio::spawn(async move {
        let mut random = Random::new(1);
        while !is_enough.load(Ordering::Relaxed) {
            mover.move_any(&mut random).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }));
    servers.fail_over(1).await;
    for task in traffic {
        task.await.unwrap();
    }
    // Not half-way through a move.
    is_done.store(true, Ordering::Relaxed);
    moving.await.unwrap();

    for (board, parity) in [("b", 0), ("v", 1)] {
        eventually("all can be read", async || {
            let path = format!("/v1/boards/{board}/standings/last-7-days");
            client.get(&path).await.status == 200
        })
        .await;
        for window in windows {
            let mut expected = BTreeMap::new();
            for number in (parity..2_400).step_by(2) {
                let is_counted = window != "day" || number / 2 % 2 == 1;
                *expected.entry((number % 30).to_string()).or_default() += i64::from(is_counted);
            }
            expected.retain(|_, count| *count > 0);
            assert_eq!(
                counts(client, board, window).await,
                expected,
                "{board} {window}"
            );
        }
    }
    let stats = client
        .get("/v1/boards/v/standings/all/stats")
        .await
        .expect(200);
    assert_eq!(
        (&stats["events"], &stats["voters"]),
        (&json!(1200), &json!(7))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dying_primary_behind_sentinels_loses_and_doubles_nothing() {
    let servers = WatchedServers::start().await;
    let clock = clock_at(NOW);
    let store = crate::harness::store(&servers.url());
    let instance = Instance::start_on(store.with_min_replicas(1), clock, "").await;
    let client = &instance.client;
    client
        .define("b", json!({"windows": ["day", "all", "last-7-days"]}))
        .await;
    let traffic: Vec<_> = (0..4)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                for number in (task..80).step_by(4) {
                    send_until_taken(&client, &batch(number * 25, 25)).await;
                }
            })
        })
        .collect();
    servers.fail_over().await;
    for task in traffic {
        task.await.unwrap();
    }
    eventually("the instance is ready", async || {
        client.get("/readyz").await.status == 200
    })
    .await;
    assert_eq!(sum(client).await, 2_000);
    // It was not all over before the primary died.
    send_until_taken(client, &batch(2_000, 25)).await;
    assert_eq!(sum(client).await, 2_025);
}

/// What a load balancer knows: the instances that say that they are ready.
#[derive(Default)]
struct Balancer {
    ready: Mutex<Vec<Client>>,
    next: AtomicUsize,
}

impl Balancer {
    /// Asks an instance again and again whether it is ready, until it is gone.
    fn watch(self: &Arc<Self>, client: Client) -> AbortOnDropHandle<()> {
        let balancer = Arc::clone(self);
        AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let asked = client.http.get(format!("{}/readyz", client.base)).send();
                let is_ready = asked.await.is_ok_and(|answer| answer.status() == 200);
                balancer.note(&client, is_ready);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }))
    }

    fn note(&self, client: &Client, is_ready: bool) {
        let mut ready = self.ready.lock();
        ready.retain(|other| other.base != client.base);
        if is_ready {
            ready.push(client.clone());
        }
    }

    fn next(&self) -> Client {
        let ready = self.ready.lock();
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        ready[next % ready.len()].clone()
    }

    async fn wait_for(&self, client: &Client) {
        eventually("the instance is found to be ready", async || {
            let ready = self.ready.lock();
            ready.iter().any(|other| other.base == client.base)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_replaced_one_after_another_without_a_failed_request() {
    let servers = RedisServers::start().await;
    let balancer = Arc::new(Balancer::default());
    let mut programs = Vec::new();
    for _ in 0..2 {
        let program = Program::serve_on(&servers.url()).await;
        let watching = balancer.watch(program.client());
        balancer.wait_for(&program.client()).await;
        programs.push((program, watching));
    }
    let client = programs[0].0.client();
    client.define("b", json!({"windows": ["day", "all"]})).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let traffic: Vec<_> = (0..4)
        .map(|task| {
            let (balancer, is_done) = (Arc::clone(&balancer), Arc::clone(&is_done));
            tokio::spawn(async move {
                let mut sent = 0_usize;
                while !is_done.load(Ordering::Relaxed) {
                    let body = batch((task * 1_000_000) + sent, 5);
                    balancer.next().post("/v1/events", body).await.expect(200);
                    sent += 5;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                sent
            })
        })
        .collect();
    for _ in 0..2 {
        let program = Program::serve_on(&servers.url()).await;
        let watching = balancer.watch(program.client());
        balancer.wait_for(&program.client()).await;
        programs.push((program, watching));
        let (old, _watching) = programs.remove(0);
        old.stop().await;
    }
    is_done.store(true, Ordering::Relaxed);
    let mut sent = 0;
    for task in traffic {
        sent += task.await.unwrap();
    }
    assert!(sent > 0);
    let total = sum(&programs[0].0.client()).await;
    assert_eq!(usize::try_from(total).unwrap(), sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_services_do_not_share_a_data_directory() {
    let directory = tempfile::TempDir::new().unwrap();
    let first = Program::serve(directory.path()).await;
    let message = Program::serve_and_fail(&[
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        directory.path().to_str().unwrap(),
    ])
    .await;
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(
        message.contains(directory.path().to_str().unwrap()),
        "{message}"
    );
    first.client().get("/readyz").await.expect(200);
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_survives_a_restart_and_a_killed_redis_is_restarted() {
    let directory = tempfile::TempDir::new().unwrap();
    let program = Program::serve(directory.path()).await;
    let client = program.client();
    client.define("b", json!({"windows": ["all"]})).await;
    send_until_taken(&client, &batch(0, 10)).await;
    program.stop().await;

    let program = Program::serve(directory.path()).await;
    let client = program.client();
    assert_eq!(sum(&client).await, 10);
    let socket = directory.path().join("redis.sock");
    kill_redis(&socket).await;
    send_until_taken(&client, &batch(10, 10)).await;
    eventually("the service is ready", async || {
        client.get("/readyz").await.status == 200
    })
    .await;
    assert_eq!(sum(&client).await, 20);
    program.stop().await;
}

/// Kills the private server of a program.
pub async fn kill_redis(socket: &Path) {
    // What was acknowledged has left the server's memory; while the disk is slow it may lag behind.
    eventually("the append-only file is written", async || {
        redis::raw_command(socket, "INFO persistence")
            .await
            .contains("aof_buffer_length:0")
    })
    .await;
    let info = redis::raw_command(socket, "INFO server").await;
    let pid = info
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"))
        .unwrap();
    let killed = tokio::process::Command::new("kill")
        .args(["-KILL", "--", pid.trim()])
        .status()
        .await;
    assert!(killed.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_requests_are_finished_before_the_service_ends() {
    let directory = tempfile::TempDir::new().unwrap();
    let program = Program::serve(directory.path()).await;
    let client = program.client();
    client
        .define(
            "b",
            json!({"windows": ["hour", "day", "all", "last-7-days"]}),
        )
        .await;
    let requests: Vec<_> = (0..8_usize)
        .map(|number| {
            let request = client
                .http
                .post(format!("{}/v1/events", client.base))
                .json(&batch(number * 1_000, 1_000));
            tokio::spawn(async move { request.send().await.map(|answer| answer.status().as_u16()) })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(30)).await;
    program.stop().await;
    let mut taken = 0;
    for request in requests {
        // A connection that came too late is refused; one that was accepted has its answer.
        if let Ok(status) = request.await.unwrap() {
            assert_eq!(status, 200);
            taken += 1_000;
        }
    }
    let program = Program::serve(directory.path()).await;
    assert!(sum(&program.client()).await >= taken);
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_program_the_error_says_how_to_get_one() {
    let directory = tempfile::TempDir::new().unwrap();
    let data = directory.path().join("data");
    let none = directory.path().join("no-such-server");
    let args = [
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        data.to_str().unwrap(),
        "--redis-server",
        none.to_str().unwrap(),
    ];
    let message = Program::serve_and_fail(&args).await;
    assert_eq!(message.lines().count(), 1, "{message}");
    let message = Program::fail_with_path(
        directory.path(),
        &[
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
            data.to_str().unwrap(),
        ],
    )
    .await;
    assert_eq!(message.lines().count(), 6, "{message}");
    for hint in ["apt-get install redis-server", "brew install valkey"] {
        assert!(message.contains(hint), "{message}");
    }
    let message = Program::serve_and_fail(&["--listen", "0.0.0.0:0"]).await;
    assert!(message.contains("STANDINGS_API_KEYS"), "{message}");
}
