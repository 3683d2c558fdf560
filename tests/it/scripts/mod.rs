//! Every script by itself, against a real Redis, without the Rust that calls it: here what holds for all of them.

mod boards;
mod initial;
mod moderation;
mod moves;
mod periods;
mod reads;
mod reservations;
mod service;
mod writes;

use serde_json::{Value, json};
use standings::redis::script::{self, Script};

use crate::harness::RedisServer;
use crate::harness::redis::Reply;
use crate::harness::servers::RedisServers;

fn pack(args: &Value) -> Vec<u8> {
    rmp_serde::to_vec_named(args).unwrap()
}

async fn run(redis: &RedisServer, script: &Script, keys: &[&str], args: &[&[u8]]) -> Reply {
    let count = keys.len().to_string();
    let mut command: Vec<&[u8]> = vec![b"EVAL", script.source.as_bytes(), count.as_bytes()];
    command.extend(keys.iter().map(|key| key.as_bytes()));
    command.extend(args);
    redis.run(&command).await
}

/// What the scripts say of a board, ties by member.
fn layout() -> Value {
    json!({"prefixed": false, "hashed": false, "dense": false, "summed": false, "keep": 0, "shown": 0, "later": 1, "width": 1})
}

async fn board(redis: &RedisServer) {
    let defined = run(
        redis,
        &script::DEFINE,
        &["st:{b}"],
        &[b"", b"0", b"1-1", b"{}", b""],
    )
    .await;
    assert_eq!(defined, Reply::texts(&["OK"]));
}

/// An event of `ann`; `id` is 4 for the event's id in the keys of [`apply`], 0 for none.
struct Event {
    id: usize,
    amount: i64,
    fingerprint: u64,
    detail: u8,
    /// When it is refused, as apply.lua says: 0 for never, 1 unless its id is known.
    refusal: u8,
}

/// An event that takes 5 points from `ann`.
const LOSS: Event = Event {
    id: 4,
    amount: -5,
    fingerprint: 77,
    detail: 1,
    refusal: 0,
};

const AT: u64 = 4_001_000_000_000_000;

/// The arguments of apply.lua by their names there.
fn apply_args(version: &str, event: &Event) -> Value {
    json!({
        "version": version, "now": 1000, "confirm": false, "remember": "60000", "ranking": "ordinal", "update": "sum",
        "score_max": 9_007_199_254_740_991_i64, "layout": [false, false, false, false, false, 0, 0, 1, 1],
        "routes": [[[3, 1, 1024, 1, 0], [], []]],
        "names": ["ann"], "members": [1], "ids": [event.id], "ats": [AT], "fingerprints": [event.fingerprint],
        "on_routes": [1], "details": [event.detail], "refusals": [event.refusal], "amounts": [[event.amount]],
        "more": {},
    })
}

/// Calls apply.lua with these arguments.
async fn run_apply(redis: &RedisServer, keys: &[&str], args: &Value) -> Reply {
    let values = |names: &[&str]| -> Vec<u8> {
        let values = names.iter().map(|name| pack(&args[*name]));
        values.collect::<Vec<_>>().concat()
    };
    let of_call = values(&[
        "version",
        "now",
        "confirm",
        "remember",
        "ranking",
        "update",
        "score_max",
        "layout",
        "routes",
    ]);
    let of_events = values(&[
        "names",
        "members",
        "ids",
        "ats",
        "fingerprints",
        "on_routes",
        "details",
        "refusals",
        "amounts",
    ]);
    let args: [&[u8]; 3] = [&of_call, &of_events, &pack(&args["more"])];
    run(redis, &script::APPLY, keys, &args).await
}

/// What is remembered of an event that was applied: see apply.lua.
fn record(fingerprint: u64, detail: u8, reports: &[(u16, i64)]) -> Vec<u8> {
    let mut record = fingerprint.to_be_bytes()[1..].to_vec();
    record.extend(&AT.to_be_bytes()[1..]);
    record.push(detail);
    for (code, score) in reports {
        record.extend(code.to_be_bytes());
        record.extend(&score.to_be_bytes()[4..]);
    }
    record
}

const DAY: &str = "st:{b}:1:s:day:2026-11-21";

const EVENT: &str = "st:{b}:1:e:x1";

/// Raises the barrier of the shard to an instant, in milliseconds.
async fn close_shard(redis: &RedisServer, version: &str, until: &str) -> Reply {
    let keys = [
        "st:{b}",
        "st:{b}:1:keys",
        "st:{b}:1:queue",
        "st:{b}:1:intake",
    ];
    let args = [version, until, "1", "", "", ""].map(str::as_bytes);
    run(redis, &script::CLOSE_SHARD, &keys, &args).await
}

async fn apply(redis: &RedisServer, version: &str, event: &Event) -> Reply {
    let keys = ["st:{b}", "st:{b}:1:keys", DAY, EVENT];
    let reply = run_apply(redis, &keys, &apply_args(version, event)).await;
    let parts = reply.list();
    if parts[0].text() == "OK" {
        assert_eq!(parts.len(), 3);
        return parts[1].clone();
    }
    parts[parts.len() - 1].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_script_refuses_a_wrong_number_of_keys_or_arguments() {
    let redis = RedisServer::start().await;
    for script in script::ALL {
        let reply = run(&redis, script, &[], &[b"one"]).await;
        let expected = format!("ERR {}.lua: ", script.name);
        assert!(
            matches!(&reply, Reply::Error(text) if text.starts_with(&expected)),
            "{}: {reply:?}",
            script.name
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_script_has_a_shebang_and_reading_scripts_can_not_write() {
    for script in script::ALL {
        // What checks also repairs, in another form of the same script.
        let checks = [
            &script::CHECK,
            &script::CHECK_HIDES,
            &script::CHECK_STATE,
            &script::CHECK_QUEUE,
            &script::CHECK_SUMS,
            &script::CHECK_EVENTS,
            &script::CHECK_ENTRIES,
            &script::CHECK_KEYS,
        ];
        let checks = checks.iter().any(|check| *check.sha == *script.sha);
        // What is to be forgotten is, even where there is no memory left.
        let deletes = *script.sha == *script::DELETE_PROFILES.sha;
        let first = script.source.lines().next().unwrap();
        let expected = match script.name {
            _ if checks => "#!lua flags=no-writes",
            // What is written in two forms, one of them for a Redis whose memory is full.
            _ if *script::AUDIT_BRIEF.sha == *script.sha => "#!lua flags=allow-oom",
            _ if deletes => "#!lua flags=allow-oom",
            "read" | "hidden" | "journal" | "periods" | "read_rewards" | "erasures"
            | "audit_read" | "quotas" | "reserved" | "scan" | "news" | "refused" | "ties"
            | "players" | "seated" | "letters" | "waiting" | "tasks" | "find_names"
            | "read_events" | "reviews" | "list_erasures" | "names" | "snapshot" => {
                "#!lua flags=no-writes"
            }
            "sweep" => "#!lua flags=allow-oom,allow-cross-slot-keys",
            "audit_members" | "audit_forget" | "audit_trim" | "delete" | "begin" | "announce"
            | "api_key" | "unneeded" | "note" | "forget_note" | "forget_names" | "purge"
            | "lease" | "settle" | "shard" | "voters" | "export_voters" | "union" | "erase"
            | "forget" | "hidden_list" | "prune_journal" | "note_task" | "end_orders"
            | "begin_forgetting" | "forget_order" | "end_line" | "staleness" | "webhook"
            | "give_back" | "clear_queue" | "unlist_queue" | "discard" | "format" | "fold"
            | "drop_folded" | "unwatch" | "end_corrected" | "note_erased" => {
                "#!lua flags=allow-oom"
            }
            _ => "#!lua",
        };
        assert_eq!(first, expected, "{}", script.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_touch_undeclared_keys_do_nothing_while_their_slot_moves() {
    let servers = RedisServers::start_cluster().await;
    let keys: Vec<String> = (0..6).map(|key| format!("st:{{b}}:{key}")).collect();
    for key in &keys {
        servers.run(&[b"SET", key.as_bytes(), b"x"]).await;
    }
    let careful = [
        (&script::APPLY, 6, &["1"; 3][..]),
        (&script::FOLD, 6, &["1"]),
        (&script::DROP_FOLDED, 2, &["1"; 2]),
        (&script::WATCH, 2, &["1"]),
        (&script::UNWATCH, 2, &["1"]),
        (&script::CORRECT, 2, &["1"]),
        (&script::END_CORRECTED, 1, &["1"; 2]),
        (&script::ADVANCE, 6, &["1"]),
        (&script::INITIAL, 6, &["1"]),
        (&script::HIDE, 2, &["1"]),
        (&script::KEEP_HIDES, 2, &["1"]),
        (&script::END_KEPT_HIDES, 2, &["1"]),
        (&script::RESTORE_ERASURES, 2, &["1"]),
        (&script::ERASE, 2, &["1"]),
        (&script::FORGET, 2, &["1"]),
        (&script::END_QUEUED, 6, &["1"]),
        (&script::DELETE, 1, &["1"; 4]),
        (&script::SHARD, 1, &["1"; 3]),
        (&script::PURGE, 2, &["1"; 3]),
        (&script::FORGET_NAMES, 2, &["1"]),
        (&script::PROFILES, 6, &["m", "x", "{}", "1", "", "", "5"]),
        (&script::BEGIN_SESSION, 2, &["{}", "1", "1"]),
    ];
    for is_moving in [false, true] {
        if is_moving {
            servers.mover(&[0, 1, 2]).await.begin(b"st:{b}").await;
        }
        for (script, key_count, args) in careful {
            let count = key_count.to_string();
            let mut command = vec![&b"EVAL"[..], script.source.as_bytes(), count.as_bytes()];
            command.extend(keys[..key_count].iter().map(String::as_bytes));
            command.extend(args.iter().map(|arg| arg.as_bytes()));
            // The keys are of the wrong type, and one script after the other finds that out.
            let reply = servers.run(&command).await;
            let Reply::Error(text) = &reply else {
                panic!("{}: {reply:?}", script.name);
            };
            assert_eq!(text.contains("non local key"), is_moving, "{text}");
        }
    }
}

/// The code that a script replies.
async fn code(redis: &RedisServer, script: &Script, keys: &[&str], args: &[&str]) -> String {
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    let reply = run(redis, script, keys, &args).await;
    reply.list()[0].text()
}

#[tokio::test(flavor = "multi_thread")]
async fn when_memory_is_full_only_scripts_that_may_need_more_are_refused() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let writable = async || run(&redis, &script::WRITABLE, &[], &[]).await;
    assert_eq!(writable().await, Reply::texts(&["OK"]));
    redis.command("CONFIG SET maxmemory 1").await;
    let is_refused = |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with("OOM"));
    assert!(is_refused(&writable().await));
    let define = run(
        &redis,
        &script::DEFINE,
        &["st:{c}"],
        &[b"", b"0", b"1-1", b"{}", b""],
    );
    assert!(is_refused(&define.await));
    let unneeded = "st:{boards}:unneeded";
    let marked = run(&redis, &script::UNNEEDED, &[unneeded], &[b"1 b 1 deleted"]).await;
    assert_eq!(marked, Reply::texts(&["OK"]));
    let known = redis.run(&[b"SMEMBERS", unneeded.as_bytes()]).await;
    assert_eq!(known, Reply::texts(&["1 b 1 deleted"]));
    let deleted = run(
        &redis,
        &script::DELETE,
        &["st:{b}"],
        &[b"1-1", b"2", b"{}", b"60000"],
    )
    .await;
    assert_eq!(deleted, Reply::texts(&["OK"]));
    let purged = run(
        &redis,
        &script::PURGE,
        &["st:{b}:1:keys", "st:{b}"],
        &[b"1", b"10", b"1"],
    );
    assert_eq!(purged.await, Reply::texts(&["DONE"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_the_commands_that_a_redis_user_lacks() {
    let redis = RedisServer::start().await;
    let refused = async |args: &[&[u8]]| run(&redis, &script::REFUSED, &[], args).await;
    let commands: [&[u8]; 4] = [b"GET", b"ZADD", b"PFCOUNT", b"NOTHING"];
    let of_key = |key| [&[key][..], &commands].concat();
    assert_eq!(
        refused(&of_key(b"st:{boards}:live")).await,
        Reply::texts(&["NOTHING"])
    );
    redis
        .command("ACL SETUSER default resetkeys ~st:* -zadd")
        .await;
    assert_eq!(
        refused(&of_key(b"st:{boards}:live")).await,
        Reply::texts(&["ZADD", "NOTHING"])
    );
    assert_eq!(
        refused(&of_key(b"other")).await,
        Reply::texts(&["GET", "ZADD", "PFCOUNT", "NOTHING"])
    );
}
