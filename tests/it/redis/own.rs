//! One's own Redis: what is wrong with it is said, at the start and later, and takes nothing else down.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::client::Answer;
use crate::harness::jobs::{Moves, Purge, Rollover};
use crate::harness::program::Program;
use crate::harness::redis::{RedisServer, eventually};
use crate::harness::servers::{RedisServers, free_ports};
use crate::harness::tls::{self, TlsFront};
use crate::harness::{Client, Instance, World, clock_at, repository};
use standings::check;

const NOW: &str = "2026-11-21T12:00:00Z";
/// The longest wait for a program that can't work to say so.
const REFUSED_WITHIN: Duration = Duration::from_mins(1);
/// The most batches that a small store may take before it is full.
const BATCHES_MAX: usize = 1_000;
/// How much fits into the memory of a small store, in bytes.
const ROOM_BYTES: u64 = 2 << 20;
/// The size that the files of a small disk can have, in blocks of 512 or 1,024 bytes.
const DISK_BLOCKS: u32 = 512;

async fn instance_on(redis_url: &str) -> Instance {
    let clock = clock_at(NOW);
    Instance::start(redis_url, clock, "").await
}

/// A server that listens on a port too.
async fn redis_on_port(more: &[&str]) -> (RedisServer, String) {
    let port = free_ports()[0].to_string();
    let network = ["--bind", "127.0.0.1", "--port", &port];
    let redis = RedisServer::start_with(&[&network[..], more].concat()).await;
    (redis, port)
}

/// What `GET /readyz` warns of, while it is ready.
async fn warnings(client: &Client) -> Vec<String> {
    let ready = client.get("/readyz").await.expect(200);
    assert_eq!(ready["status"], "ok");
    serde_json::from_value(ready["warnings"].clone()).unwrap()
}

/// Sends events of ever new members until they are refused; returns how many members there are then, and the refusal. The
/// last batch may have been taken in part.
async fn fill(client: &Client, board: &str) -> (u64, Answer) {
    for number in 0..BATCHES_MAX {
        let event = |place: usize| {
            let member = format!("{number}-{place}-{}", "x".repeat(100));
            json!({"board": board, "member": member, "score": 1, "voter": member})
        };
        let events: Vec<Value> = (0..500).map(event).collect();
        let answer = client.post("/v1/events", json!({"events": events})).await;
        if answer.status != 200 {
            let path = format!("/v1/boards/{board}/standings/all?size=1");
            let page = client.get(&path).await.expect(200);
            return (page["total"].as_u64().unwrap(), answer);
        }
    }
    panic!("it is never full");
}

/// Checks that a refusal says that the store is full.
#[track_caller]
fn expect_full(answer: Answer, what: &str) {
    assert_eq!(answer.headers["retry-after"], "1");
    let detail = answer.expect_problem(503, "store-full");
    assert!(detail.contains(what), "{detail}");
}

/// Waits until an event of a board is taken.
async fn take_one(client: &Client, board: &str) {
    let event = json!({"id": "one", "member": "one", "score": 1, "voter": "one"});
    eventually("events are taken again", async || {
        let path = format!("/v1/boards/{board}/events");
        client.post(&path, event.clone()).await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_and_nothing_else() {
    let redis = RedisServer::start_on_small_disk(DISK_BLOCKS).await;
    let instance = instance_on(&redis.url()).await;
    let client = &instance.client.once();
    let windows = json!(["all", "last-2-days"]);
    let definition = json!({"windows": windows, "uniques": "member"});
    client.define("b", definition).await;
    let definition = json!({"windows": windows, "shards": 3});
    client.define("wide", definition).await;
    take_one(client, "wide").await;
    assert_eq!(warnings(client).await, [""; 0]);
    let (count, refused) = fill(client, "b").await;
    expect_full(refused, "disk");

    let well = async |client: &Client| {
        for (path, total) in [
            ("b/standings/all?size=1", count),
            ("b/standings/last-2-days?size=1", count),
            ("wide/standings/all", 1),
            ("wide/standings/last-2-days", 1),
        ] {
            let answer = client.get(&format!("/v1/boards/{path}")).await;
            if answer.status != 200 {
                return false;
            }
            assert_eq!(answer.json["total"], total, "{path}");
        }
        let stats = client.get("/v1/boards/b/standings/all/stats").await;
        stats.status == 200 && stats.json["members"] == count
    };
    // For longer than it takes to give up a connection that does not answer.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(7) {
        assert!(well(client).await, "reads go on");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    redis.command("CLIENT KILL TYPE normal SKIPME yes").await;
    eventually("reads go on once connections are made again", async || {
        well(client).await
    })
    .await;
    // What an instance needs that begins now is read only.
    let second = instance_on(&redis.url()).await;
    assert!(well(&second.client).await);
    for client in [client, &second.client.once()] {
        eventually("all connections are there again", async || {
            client.get("/readyz").await.status == 200
        })
        .await;
        let warnings = warnings(client).await;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("disk"), "{warnings:?}");
        assert!(warnings[0].contains("MISCONF"), "{warnings:?}");
        let event = json!({"member": "a", "score": 1});
        let answer = client.post("/v1/boards/wide/events", event).await;
        expect_full(answer, "disk");
    }

    // There is room again, here since the file that is full is not needed.
    redis.command("CONFIG SET appendonly no").await;
    take_one(client, "b").await;
    let page = client.get("/v1/boards/b/standings/all?size=1").await;
    assert_eq!(page.expect(200)["total"], count + 1);
    let warnings = warnings(client).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("append-only file"), "{warnings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_can_be_deleted_when_memory_is_full() {
    let world = World::start(NOW).await;
    let client = &world.client().once();
    let voted = json!({"windows": ["all"], "uniques": "board"});
    client.define("b", voted.clone()).await;
    let wide = json!({"windows": ["all"], "uniques": "board", "shards": 4, "quotas": [
        {"name": "once", "by": ["voter"], "window": "total", "max": 1}]});
    client.define("wide", wide).await;
    take_one(client, "wide").await;
    let used = world.redis.on_each("INFO memory").await;
    let used = used.iter().map(|info| {
        let (_, rest) = info.split_once("used_memory:").unwrap();
        rest.lines().next().unwrap().parse::<u64>().unwrap()
    });
    let max = used.max().unwrap() + ROOM_BYTES;
    let limit = format!("CONFIG SET maxmemory {max}");
    world.redis.on_each(&limit).await;
    let (count, refused) = fill(client, "b").await;
    expect_full(refused, "memory");

    for (board, total) in [("b", count), ("wide", 1)] {
        let path = format!("/v1/boards/{board}/standings/all");
        let page = client.get(&format!("{path}?size=1")).await.expect(200);
        assert_eq!(page["total"], total);
        let stats = client.get(&format!("{path}/stats")).await.expect(200);
        assert_eq!(stats["members"], total);
        assert!(stats["voters"].as_u64().unwrap() > 0);
    }
    let found = warnings(client).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("memory"), "{found:?}");

    for board in ["wide", "b"] {
        let path = format!("/v1/boards/{board}");
        client.delete(&path).await.expect(204);
        client
            .get(&path)
            .await
            .expect_problem(404, "board-not-found");
        let log = client.get("/v1/audit?limit=1").await.expect(200);
        let line = &log["lines"][0];
        let told = [&line["boards"][0], &line["outcome"]["status"]];
        assert_eq!(told, [&json!(board), &json!(204)], "{line}");
    }
    world.engine().run(&Purge).await.unwrap();
    eventually("there is room again", async || {
        warnings(client).await.is_empty()
    })
    .await;
    client.define("b", voted).await;
    take_one(client, "b").await;
    let keys = world.redis.leftover("st:*wide*").await;
    // Ids of events expire by themselves.
    let left: Vec<&String> = keys.iter().filter(|key| !key.contains(":e:")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Checks that the program serves, and says these things in its log and in `/readyz`.
async fn expect_warnings(program: &Program, words: &[&str]) {
    let found = warnings(&program.client()).await;
    assert_eq!(found.len(), words.len(), "{found:?}");
    for (warning, word) in found.iter().zip(words) {
        assert!(warning.contains(word), "{warning}");
        eventually("it is in the log", async || program.log().contains(warning)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_may_lose_data_gives_a_warning() {
    let evicting = ["--maxmemory-policy", "allkeys-lru", "--appendonly", "no"];
    let (redis, port) = redis_on_port(&evicting).await;
    let program = Program::serve_on(&format!("redis://127.0.0.1:{port}")).await;
    expect_warnings(&program, &["allkeys-lru", "append-only file"]).await;

    // Where settings may not be asked for.
    let user = "ACL SETUSER managed on >sesame ~* +@all -config";
    assert_eq!(redis.command(user).await, "+OK\r\n");
    let managed = Program::serve_on(&format!("redis://managed:sesame@127.0.0.1:{port}")).await;
    expect_warnings(&managed, &["allkeys-lru", "could not be checked"]).await;

    let client = program.client().once();
    let snapshots = [b"CONFIG", &b"SET"[..], b"save", b"3600 1"];
    redis.run(&snapshots).await;
    let warnings_now = warnings(&client).await;
    assert_eq!(warnings_now.len(), 1, "{warnings_now:?}");
    redis
        .command("CONFIG SET maxmemory-policy noeviction")
        .await;
    assert_eq!(warnings(&client).await, [""; 0]);
    for program in [program, managed] {
        program.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_primary_of_a_cluster_is_checked() {
    let servers = RedisServers::start_cluster().await;
    let instance = instance_on(&servers.url()).await;
    assert_eq!(warnings(&instance.client).await, [""; 0]);
    servers
        .on_each("CONFIG SET maxmemory-policy volatile-lru")
        .await;
    let found = warnings(&instance.client).await;
    assert_eq!(found.len(), 3, "{found:?}");
    for warning in &found {
        assert!(warning.starts_with("127.0.0.1:"), "{warning}");
        assert!(warning.contains("volatile-lru"), "{warning}");
    }
    assert!(found[0] != found[1] && found[1] != found[2]);
    let report = check::run(&instance.engine, None, check::Repair::None)
        .await
        .unwrap();
    assert_eq!(report.notes, found, "a check says the same");
}

/// What the program says of a Redis that it can't work with: one line, in which no secret is.
async fn refusal(redis_url: &str) -> String {
    let args = ["--listen", "127.0.0.1:0", "--redis-url", redis_url];
    let failing = Program::serve_and_fail(&args);
    let failed = tokio::time::timeout(REFUSED_WITHIN, failing).await;
    let said = failed.unwrap_or_else(|_| panic!("it waits for {redis_url}"));
    assert!(!said.contains("sesame"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("standings: "), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_redis_ends_the_program_with_one_line() {
    let (redis, port) = redis_on_port(&[]).await;
    for user in [
        "ACL SETUSER svc on >sesame ~* &* +@all",
        "ACL SETUSER reader on >sesame ~* &* +@all -@write",
        "ACL SETUSER elsewhere on >sesame ~other:* &* +@all",
        "ACL SETUSER scriptless on >sesame ~* &* +@all -@scripting",
    ] {
        assert_eq!(redis.command(user).await, "+OK\r\n");
    }
    let at = format!("127.0.0.1:{port}");
    for (url, words) in [
        (format!("redis://svc:sesame-2@{at}"), "password"),
        (format!("redis://svc:sesame@{at}/99"), "database"),
        (format!("redis://svc:sesame@{at}/256"), "database"),
        (format!("redis-cluster://svc:sesame@{at}"), "redis://"),
        (format!("redis-cluster://svc:sesame@{at}/3"), "database"),
        (format!("redis://reader:sesame@{at}"), "permission"),
        (format!("redis://elsewhere:sesame@{at}"), "permission"),
        (format!("redis://scriptless:sesame@{at}"), "permission"),
        (format!("http://svc:sesame@{at}"), "rediss://"),
        (format!("rediss-sentinels://svc:sesame@{at}"), "rediss://"),
        (at.clone(), "rediss://"),
    ] {
        let said = refusal(&url).await;
        assert!(said.contains(words), "{url}: {said}");
    }
    redis.command("CONFIG SET requirepass sesame").await;
    let said = refusal(&format!("redis://{at}")).await;
    assert!(said.contains("password"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_node_is_not_mistaken_for_a_single_server() {
    let servers = RedisServers::start_cluster().await;
    let single = servers.url().replace("redis-cluster://", "redis://");
    let said = refusal(&single).await;
    assert!(said.contains("redis-cluster://"), "{said}");
    let said = refusal(&format!("{single}/3")).await;
    assert!(said.contains("database"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_waits_for_redis_to_start() {
    let port = free_ports()[0].to_string();
    let url = format!("redis://127.0.0.1:{port}");
    let later = async {
        // For longer than the program waits before it serves without it.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let network = ["--bind", "127.0.0.1", "--port", &port];
        RedisServer::start_with(&network).await
    };
    let (program, _redis) = tokio::join!(Program::serve_on(&url), later);
    let client = program.client().once();
    client.define("b", json!({"windows": ["all"]})).await;
    take_one(&client, "b").await;
    let back = format!("Redis at {url} can be reached again");
    eventually("the log says so", async || program.log().contains(&back)).await;
    let log = program.stop().await;
    let (before, _) = log.split_once(&back).unwrap();
    let troubles: Vec<&str> = before
        .lines()
        .filter(|line| line.contains(" WARN ") || line.contains(" ERROR "))
        .filter(|line| !line.contains("the service is open"))
        // The requests of this test.
        .filter(|line| !line.contains("request failed"))
        .collect();
    let [trouble] = troubles.as_slice() else {
        panic!("an outage has one line: {troubles:#?}");
    };
    let expected =
        format!("Redis at {url} refuses the connection; trying again (STANDINGS_REDIS_URL)");
    assert!(trouble.ends_with(&expected), "{trouble}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_is_reported_as_wrong() {
    let (redis, port) = redis_on_port(&[]).await;
    redis
        .command("ACL SETUSER svc on >sesame ~* &* +@all")
        .await;
    let program = Program::serve_on(&format!("redis://svc:sesame@127.0.0.1:{port}")).await;
    let client = program.client().once();
    client.define("b", json!({"windows": ["all"]})).await;
    redis.command("ACL SETUSER svc resetpass >other").await;
    redis.command("CLIENT KILL TYPE normal SKIPME yes").await;
    eventually("it is not ready, and says why", async || {
        let answer = client.get("/readyz").await;
        let detail = answer.json["detail"].as_str().unwrap_or_default();
        answer.status == 503 && detail.contains("password")
    })
    .await;
    let answer = client.get("/v1/boards/b/standings/all").await;
    assert_eq!(answer.headers["retry-after"], "1");
    answer.expect_problem(503, "store-unavailable");
    eventually("the log says so", async || {
        program.log().contains("WRONGPASS")
    })
    .await;
    assert!(!program.log().contains("sesame"));
    redis.command("ACL SETUSER svc resetpass >sesame").await;
    take_one(&client, "b").await;
    eventually("it is ready again", async || {
        client.get("/readyz").await.status == 200
    })
    .await;
    assert_eq!(warnings(&client).await, [""; 0]);
    program.stop().await;
}

/// The commands that the guide gives for a user with as few permissions as can be.
fn documented_user() -> String {
    let guide = std::fs::read_to_string(repository().join("docs/redis.md")).unwrap();
    let (_, from_command) = guide.split_once("ACL SETUSER ").unwrap();
    let (command, _) = from_command.split_once("```").unwrap();
    let words: Vec<&str> = command.split_whitespace().collect();
    format!("ACL SETUSER {}", words.join(" "))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_permissions_are_enough_without_a_password() {
    let (redis, port) = redis_on_port(&[]).await;
    let user = documented_user().replace("standings on >CHANGE-ME", "default reset on nopass");
    assert_eq!(redis.command(&user).await, "+OK\r\n", "{user}");
    let instance = instance_on(&format!("redis://127.0.0.1:{port}")).await;
    instance
        .client
        .once()
        .define("b", json!({"windows": ["all"]}))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_permissions_are_enough() {
    let (redis, port) = redis_on_port(&[]).await;
    let user = documented_user();
    assert_eq!(redis.command(&user).await, "+OK\r\n", "{user}");
    let instance = instance_on(&format!("redis://standings:CHANGE-ME@127.0.0.1:{port}/1")).await;
    let client = &instance.client.once();
    let quotas = json!([{"name": "hour", "by": ["voter"], "window": "1h", "max": 5}]);
    for (board, shards) in [("b", 1), ("wide", 3)] {
        let definition = json!({"windows": ["day", "all", "last-2-days"], "uniques": "member", "shards": shards,
            "quotas": quotas, "initial": ["all"]});
        client.define(board, definition).await;
        take_one(client, board).await;
        let initial = json!({"scores": {"two": 5}});
        let put = client
            .patch(&format!("/v1/boards/{board}/initial-scores"), initial)
            .await;
        assert!(put.status.is_success(), "{}", put.text);
        for path in ["all", "last-2-days", "all/members/one", "all/stats"] {
            let path = format!("/v1/boards/{board}/standings/{path}");
            client.get(&path).await.expect(200);
        }
    }
    client.spread("b", 4).await;
    let engine = &instance.engine;
    eventually("the board has moved", async || {
        engine.run(&Rollover).await.unwrap();
        engine.run(&Moves).await.unwrap();
        let shards = client.get("/v1/boards/b/shards").await.expect(200);
        shards["moving_to"].is_null()
    })
    .await;
    for board in ["b", "wide"] {
        client
            .delete(&format!("/v1/boards/{board}"))
            .await
            .expect(204);
    }
    engine.run(&Purge).await.unwrap();
    assert_eq!(warnings(client).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_a_private_authority_works_and_a_missing_one_is_named() {
    let (_redis, port) = redis_on_port(&[]).await;
    let front = TlsFront::before(&port).await;
    let url = format!("rediss://localhost:{}", front.port);
    let program = Program::serve_on_trusting(&url, &tls::authority()).await;
    program
        .client()
        .define("b", json!({"windows": ["all"]}))
        .await;
    program.stop().await;

    let said = refusal(&url).await;
    assert!(said.contains("SSL_CERT_FILE"), "{said}");
    let said = refusal(&format!("redis://localhost:{}", front.port)).await;
    assert!(said.contains("rediss://"), "{said}");
    let said = refusal(&format!("rediss://localhost:{port}")).await;
    assert!(said.contains("redis://"), "{said}");
    assert!(said.contains("does not use TLS"), "{said}");
}
