//! Every script by itself, against a real Redis, without the Rust that calls it.

use serde_json::{Value, json};
use standings::redis::kinds::{Copying, Kind};
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

/// How each kind is copied, as changes.lua is told.
fn copying() -> Value {
    let kinds = Kind::ALL.iter();
    kinds
        .map(|kind| (kind.code(), json!(kind.copying())))
        .collect()
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
async fn every_script_begins_with_its_shebang_and_those_that_read_can_not_write() {
    for script in script::ALL {
        // What checks also mends, in another form of the same script.
        let checks = [
            &script::CHECK,
            &script::CHECK_STATE,
            &script::CHECK_QUEUE,
            &script::CHECK_SUMS,
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
            | "players" | "seated" | "letters" | "waiting" | "tasks" => "#!lua flags=no-writes",
            "sweep" => "#!lua flags=allow-oom,allow-cross-slot-keys",
            "audit_members" | "audit_forget" | "audit_trim" | "delete" | "begin" | "announce"
            | "api_key" | "unneeded" | "purge" | "lease" | "settle" | "shard" | "voters"
            | "export_voters" | "union" | "erase" | "forget" | "note_task" | "end_orders"
            | "begin_forgetting" | "forget_order" | "end_line" | "staleness" | "webhook"
            | "give_back" | "clear_queue" | "unlist_queue" | "discard" | "format" => {
                "#!lua flags=allow-oom"
            }
            _ => "#!lua",
        };
        assert_eq!(first, expected, "{}", script.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_touch_other_keys_than_they_are_given_do_nothing_while_their_slot_moves() {
    let servers = RedisServers::start_cluster().await;
    let keys: Vec<String> = (0..6).map(|key| format!("st:{{b}}:{key}")).collect();
    for key in &keys {
        servers.run(&[b"SET", key.as_bytes(), b"x"]).await;
    }
    let careful = [
        (&script::APPLY, 6, &["1"; 3][..]),
        (&script::ADVANCE, 6, &["1"]),
        (&script::INITIAL, 6, &["1"]),
        (&script::HIDE, 2, &["1"]),
        (&script::KEEP_HIDES, 2, &["1"]),
        (&script::END_KEPT_HIDES, 2, &["1"]),
        (&script::ERASE, 2, &["1"]),
        (&script::FORGET, 2, &["1"]),
        (&script::END_QUEUED, 6, &["1"]),
        (&script::SHARD, 1, &["1"; 2]),
        (&script::PURGE, 2, &["1"; 3]),
        (&script::PROFILES, 4, &["m", "*", "{}", "1"]),
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

#[tokio::test(flavor = "multi_thread")]
async fn apply_adds_remembers_and_refuses() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let event = |amount, fingerprint| Event {
        id: 4,
        amount,
        fingerprint,
        detail: 1,
        refusal: 0,
    };
    let first = record(77, 1, &[(1024, -5)]);
    let applied = apply(&redis, "1-1", &event(-5, 77)).await;
    assert_eq!(applied.bytes(), first);
    let duplicate = apply(&redis, "1-1", &event(-5, 77)).await;
    let [code, known] = duplicate.list() else {
        panic!("{duplicate:?}");
    };
    assert_eq!((code, known.bytes()), (&Reply::Integer(1), &first[..]));
    let refusal = |parts: &[i64]| Reply::List(parts.iter().copied().map(Reply::Integer).collect());
    assert_eq!(apply(&redis, "1-1", &event(-6, 78)).await, refusal(&[2]));
    assert_eq!(apply(&redis, "1-2", &event(-5, 77)).await.text(), "STALE");

    let no_id = |amount, detail| Event {
        id: 0,
        amount,
        fingerprint: 1,
        detail,
        refusal: 0,
    };
    let refused = Event {
        refusal: 1,
        ..no_id(-1, 1)
    };
    assert_eq!(apply(&redis, "1-1", &refused).await, refusal(&[3]));
    let too_much = apply(&redis, "1-1", &no_id(-9_007_199_254_740_991, 0)).await;
    assert_eq!(too_much, refusal(&[4, 1024]));
    let alone = apply(&redis, "1-1", &no_id(-2, 0)).await;
    assert_eq!(alone.bytes(), record(1, 0, &[]), "status alone");
    let again = apply(&redis, "1-1", &no_id(0, 1)).await;
    assert_eq!(again.bytes(), record(1, 1, &[(1024 + 4096, -7)]));

    assert_eq!(
        redis.run(&[b"ZSCORE", DAY.as_bytes(), b"ann"]).await.text(),
        "-7"
    );
    let index = b"st:{b}:1:periods:day";
    let registered = [
        b"SMISMEMBER",
        b"st:{b}:1:keys".as_slice(),
        DAY.as_bytes(),
        index,
    ];
    assert_eq!(
        redis.run(&registered).await,
        Reply::List(vec![Reply::Integer(1), Reply::Integer(1)])
    );
    let used = redis.run(&[b"HGET", b"st:{b}", b"used"]).await;
    assert_eq!(used.text(), "1-1");
    let ttl = redis.run(&[b"PTTL", EVENT.as_bytes()]).await;
    assert!(matches!(ttl, Reply::Integer(1..=60_000)), "{ttl:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_never_falls_and_what_lies_before_it_is_refused_unless_it_is_known() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let event = |id, refusal| Event {
        id,
        amount: -5,
        fingerprint: 77,
        detail: 0,
        refusal,
    };
    let at_ms = i64::try_from((AT - 2_208_988_800_000_000) / 1_000).unwrap();
    let close = async |version: &str, until_ms: i64| {
        let until = until_ms.to_string();
        let args = [version, &until, "1", "", "", ""].map(str::as_bytes);
        let reply = run(
            &redis,
            &script::CLOSE_SHARD,
            &[
                "st:{b}",
                "st:{b}:1:keys",
                "st:{b}:1:queue",
                "st:{b}:1:intake",
            ],
            &args,
        )
        .await;
        reply.list()[0].text()
    };
    assert_eq!(close("1-1", at_ms).await, "OK");
    assert_eq!(close("1-1", at_ms - 1).await, "OK", "it stays");
    assert_eq!(close("1-2", at_ms + 1).await, "STALE");
    let stored = redis.run(&[b"HGET", b"st:{b}", b"closed_until"]).await;
    assert_eq!(stored.text(), at_ms.to_string());
    let taken = apply(&redis, "1-1", &event(4, 0)).await;
    assert_eq!(taken.bytes(), record(77, 0, &[]), "at the barrier");

    assert_eq!(close("1-1", at_ms + 1).await, "OK");
    let known = apply(&redis, "1-1", &event(4, 0)).await;
    assert_eq!(known.list()[0], Reply::Integer(1), "it was taken");
    for refusal in [0, 1] {
        let closed = apply(&redis, "1-1", &event(0, refusal)).await;
        let [code, barrier] = closed.list() else {
            panic!("{closed:?}");
        };
        assert_eq!(
            (code, barrier.text()),
            (&Reply::Integer(12), (at_ms + 1).to_string())
        );
    }
    let score = redis.run(&[b"ZSCORE", DAY.as_bytes(), b"ann"]).await;
    assert_eq!(score.text(), "-5");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_apply_is_refused_before_its_first_write_or_leaves_what_it_has_written() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let event = Event {
        id: 4,
        amount: -5,
        fingerprint: 77,
        detail: 1,
        refusal: 0,
    };
    let args = apply_args("1-1", &event);
    let keys = [
        "st:{b}",
        "st:{b}:1:keys",
        DAY,
        EVENT,
        "st:{b}:1:events-day:x",
        "st:{b}:1:voters-day:x",
    ];
    let error = async |args: &Value| match run_apply(&redis, &keys, args).await {
        Reply::Error(text) => text,
        other => panic!("{other:?}"),
    };
    let is_there =
        async |key: &str| redis.run(&[b"EXISTS", key.as_bytes()]).await == Reply::Integer(1);

    redis.command("CONFIG SET min-replicas-to-write 1").await;
    assert!(error(&args).await.starts_with("NOREPLICAS"));
    redis.command("CONFIG SET min-replicas-to-write 0").await;
    let mut short = args.clone();
    short["ids"] = json!([]);
    let text = error(&short).await;
    assert!(
        text.starts_with("ERR ") && text.contains("invariant: the columns are of one length"),
        "{text}"
    );
    redis.run(&[b"RPUSH", DAY.as_bytes(), b"x"]).await;
    assert!(
        error(&args).await.starts_with("WRONGTYPE"),
        "a key that it reads"
    );
    redis.run(&[b"DEL", DAY.as_bytes()]).await;
    for key in &keys[1..] {
        assert!(!is_there(key).await, "{key}");
    }

    // Keys that are only written: the registry, the turnout, and the voters.
    let mut counted = args.clone();
    counted["routes"][0][2] = json!([1]);
    counted["more"]["turnouts"] =
        json!({"periods": [[5, 6, 0]], "tag": "b", "voters": ["v"], "by_member": false});
    for damaged in [keys[1], keys[4], keys[5]] {
        redis.run(&[b"RPUSH", damaged.as_bytes(), b"x"]).await;
        assert!(error(&counted).await.starts_with("WRONGTYPE"), "{damaged}");
        redis.run(&[b"DEL", damaged.as_bytes()]).await;
        for key in &keys[1..] {
            assert!(!is_there(key).await, "{damaged}: {key}");
        }
    }
    redis.run(&[b"SET", keys[5].as_bytes(), b"x"]).await;
    assert!(error(&counted).await.contains("counts voters"));
    redis.run(&[b"DEL", keys[5].as_bytes()]).await;
    assert!(!is_there(DAY).await);

    // A member that the hash lists, and the sorted set does not, has no rank.
    let day = "st:{b}:1:day:2026-11-22";
    let members = format!("{day}:members");
    let stored = [&[0; 7][..], &(-5_f64).to_be_bytes()].concat();
    redis
        .run(&[b"HSET", members.as_bytes(), b"ann", &stored])
        .await;
    let mut ranked = args;
    ranked["layout"] = json!([false, true, false, false, false, 0, 0, 1, 2]);
    ranked["details"] = json!([2]);
    ranked["ids"] = json!([0]);
    let keys = [keys[0], keys[1], day, &members];
    let reply = run_apply(&redis, &keys, &ranked).await;
    let Reply::Error(text) = reply else {
        panic!("{reply:?}");
    };
    assert!(
        text.contains("invariant: a listed member is in its sorted set"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn advance_completes_a_standing_in_bounded_steps() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    redis
        .command("CONFIG SET zset-max-listpack-entries 0 hash-max-listpack-entries 0")
        .await;
    let days = [
        "st:{b}:1:s:day:21",
        "st:{b}:1:s:day:20",
        "st:{b}:1:s:day:19",
    ];
    for (day, member, score) in [
        (days[0], "a", "-1"),
        (days[1], "a", "-2"),
        (days[1], "b", "-3"),
        (days[2], "c", "-9"),
    ] {
        redis
            .run(&[b"ZADD", day.as_bytes(), score.as_bytes(), member.as_bytes()])
            .await;
    }
    let state = "st:{b}:1:state:last-2-days";
    let target = "st:{b}:1:d:last-2-days:21";
    let keys = [&["st:{b}", "st:{b}:1:keys", state, target][..], &days[..]].concat();
    let args = pack(&json!({
        "version": "1-1", "layout": layout(), "now": 21, "start": 21, "oldest": 20, "before": 19, "previous": 20,
        "periods": 2, "initial": false, "keep_from": 20, "cache_ms": 1000, "cache_max": 4, "budget": 1,
    }));
    let first_page = json!([1, 1, 0, 10, false]);
    let mut steps = 0;
    loop {
        let code = run(&redis, &script::ADVANCE, &keys, &[&args]).await.list()[0].text();
        steps += 1;
        if code == "DONE" {
            break;
        }
        assert_eq!(code, "MORE");
        assert!(steps < 50);
        assert_eq!(
            read(&redis, &[target, state], (2, 3, 21), &first_page).await,
            Reply::List(vec![Reply::Integer(-1), Reply::text_of("21")])
        );
    }
    assert!(steps > 1, "at most a bucket of members a step");
    let page = read(&redis, &[target, state], (2, 3, 21), &first_page).await;
    let entries = Reply::texts(&["a", "-3", "b", "-3"]);
    assert_eq!(page.list()[2], entries);
}

/// Asks one query of one standing, which is described as in read.lua.
async fn read(
    redis: &RedisServer,
    keys: &[&str],
    standing: (usize, usize, i64),
    query: &Value,
) -> Reply {
    let keys = [&["st:{b}"], keys].concat();
    let args = pack(
        &json!({"version": "1-1", "layout": layout(), "ranking": "ordinal", "standings": [standing], "queries": [query]}),
    );
    let reply = run(redis, &script::READ, &keys, &[&args]).await;
    let parts = reply.list();
    match parts {
        [_, _, answer, _changed, _has_entries] => answer.clone(),
        _ => parts[parts.len() - 1].clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_one_snapshot_and_name_their_version() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    for (member, score) in [("ann", "-5"), ("bob", "-9"), ("cid", "-4")] {
        redis
            .run(&[b"ZADD", DAY.as_bytes(), score.as_bytes(), member.as_bytes()])
            .await;
    }
    let integer = Reply::Integer;
    let all = Reply::texts(&["bob", "-9", "ann", "-5", "cid", "-4"]);
    let ask = async |query: Value| read(&redis, &[DAY], (2, 0, 0), &query).await;

    let page = ask(json!([1, 1, 0, 10, "bob"])).await;
    let bob = [integer(1), Reply::text_of("-9"), Reply::text_of("bob")];
    let own = Reply::List(bob.to_vec());
    assert_eq!(page.list(), [integer(3), integer(1), all.clone(), own]);

    let member = ask(json!([2, 1, "ann", 1, 0])).await;
    let none = Reply::List(Vec::new());
    let (total, place, from, first_rank) = (integer(3), integer(1), integer(0), integer(1));
    assert_eq!(
        member.list(),
        [
            total,
            place,
            from,
            first_rank,
            all,
            none.clone(),
            integer(1)
        ]
    );
    let nobody = ask(json!([2, 1, "nobody", 1, 0])).await;
    assert_eq!(nobody.list(), [integer(3)]);

    let subset = ask(json!([3, 1, ["cid", "nobody"]])).await;
    let cid = [
        integer(2),
        integer(3),
        Reply::text_of("-4"),
        Reply::text_of("cid"),
    ];
    let found = Reply::List(vec![Reply::List(cid.to_vec()), none]);
    assert_eq!(subset.list(), [integer(3), found]);

    // Two scores, a score, a percentile: rank of the first entry, entries, position of the first, entries in the range.
    for (query, first_rank, entries, position, listed) in [
        (
            json!([8, 1, -9, -5, 1, 9, false]),
            2,
            &["ann", "-5"][..],
            1,
            2,
        ),
        (
            json!([8, 1, false, -6, 0, 9, false]),
            1,
            &["bob", "-9"],
            0,
            1,
        ),
        (json!([8, 1, -8, -6, 0, 9, false]), 0, &[], 3, 0),
        (
            json!([9, 1, -5, 1, 2, false]),
            1,
            &["bob", "-9", "ann", "-5"],
            0,
            3,
        ),
        (json!([9, 1, 0, 1, 2, false]), 3, &["cid", "-4"], 2, 3),
        (json!([10, 1, 50_000]), 2, &["ann", "-5"], 1, 3),
        (json!([10, 1, 50_001]), 1, &["bob", "-9"], 0, 3),
    ] {
        let selected = ask(query.clone()).await;
        let (entries, none) = (Reply::texts(entries), Reply::List(Vec::new()));
        let [first_rank, position, listed] = [first_rank, position, listed].map(integer);
        let expected = [integer(3), first_rank, entries, none, position, listed];
        assert_eq!(selected.list(), expected, "{query}");
    }

    redis.run(&[b"HSET", b"st:{b}", b"version", b"1-2"]).await;
    assert_eq!(ask(json!([1, 1, 0, 10, false])).await.text(), "STALE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_reads_only_as_the_process_that_is_meant_and_where_no_key_is_missing() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let info = redis.command("INFO server").await;
    let process = info.lines().find_map(|line| line.strip_prefix("run_id:"));
    let process = process.unwrap().trim();
    let args = pack(
        &json!({"version": "1-1", "layout": layout(), "ranking": "ordinal", "standings": [[2, 0, 0, 0]], "queries": [[1, 1, 0, 10, false]]}),
    );
    let code = async |process: &str| {
        let keys = ["st:{b}", DAY, "st:{b}:1:keys"];
        let reply = run(&redis, &script::READ, &keys, &[&args, process.as_bytes()]).await;
        reply.list()[0].text()
    };
    assert_eq!(
        code(process).await,
        "STALE",
        "neither standing nor registry"
    );
    let other: &[u8] = b"st:{b}:1:s:day:2026-11-20";
    redis.run(&[b"SADD", b"st:{b}:1:keys", other]).await;
    assert_eq!(code(process).await, "OK", "there never was one");
    redis
        .run(&[b"SADD", b"st:{b}:1:keys", DAY.as_bytes()])
        .await;
    assert_eq!(code(process).await, "STALE", "it is gone");
    redis.run(&[b"ZADD", DAY.as_bytes(), b"-5", b"ann"]).await;
    assert_eq!(code(process).await, "OK");
    assert_eq!(code("0123").await, "STALE", "another process");
    redis.run(&[b"DEL", b"st:{b}:1:keys"]).await;
    assert_eq!(code(process).await, "OK", "all that is asked for is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn initial_scores_are_set_in_all_standings_that_are_there() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let [state, target, scores] = [
        "st:{b}:1:state:initial-day",
        "st:{b}:1:d:initial-day:21",
        "st:{b}:1:i:initial-scores:all",
    ];
    redis.run(&[b"ZADD", DAY.as_bytes(), b"-5", b"ann"]).await;
    let set = async |names: Value, points: Value| {
        let args = pack(&json!({
            "version": "1-1", "layout": layout(), "score_max": 9_007_199_254_740_991_i64, "names": names, "scores": points,
            "time": 0,
        }));
        let keys = ["st:{b}", "st:{b}:1:keys", scores, state];
        run(&redis, &script::INITIAL, &keys, &[&args]).await
    };
    let done = |count, before: Value| {
        let before = Reply::Text(pack(&before));
        Reply::List(vec![Reply::text_of("OK"), Reply::Integer(count), before])
    };
    assert_eq!(
        set(json!(["ann", "bob"]), json!([-100, 0])).await,
        done(2, json!([false, false]))
    );

    let advance = pack(&json!({
        "version": "1-1", "layout": layout(), "now": 21, "start": 21, "oldest": 21, "before": 20, "previous": 20,
        "periods": 1, "initial": true, "keep_from": 20, "cache_ms": 1000, "cache_max": 4, "budget": 100,
    }));
    let keys = ["st:{b}", "st:{b}:1:keys", state, target, DAY, scores];
    let code = run(&redis, &script::ADVANCE, &keys, &[&advance]).await;
    assert_eq!(code, Reply::texts(&["DONE"]));
    let entries = async || {
        let page = read(
            &redis,
            &[target, state],
            (2, 3, 21),
            &json!([1, 1, 0, 10, false]),
        )
        .await;
        page.list()[2].clone()
    };
    assert_eq!(entries().await, Reply::texts(&["ann", "-105", "bob", "0"]));

    assert_eq!(
        set(json!(["ann", "bob", "cid"]), json!([false, false, -1])).await,
        done(1, json!([-100, 0, false]))
    );
    assert_eq!(entries().await, Reply::texts(&["ann", "-5", "cid", "-1"]));
    let beyond = set(
        json!(["cid", "ann"]),
        json!([-2, -9_007_199_254_740_990_i64]),
    )
    .await;
    assert_eq!(
        beyond,
        Reply::List(vec![Reply::text_of("OUT_OF_RANGE"), Reply::Integer(2)])
    );
    assert_eq!(entries().await, Reply::texts(&["ann", "-5", "cid", "-1"]));
    redis.run(&[b"HSET", b"st:{b}", b"version", b"1-2"]).await;
    assert_eq!(
        set(json!(["ann"]), json!([1])).await,
        Reply::texts(&["STALE"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn past_initial_scores_are_kept_once_for_each_barrier_and_as_long_as_their_periods() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let set = async |points: Value, kept_from: i64| {
        let args = pack(&json!({
            "version": "1-1", "layout": layout(), "score_max": 9_007_199_254_740_991_i64, "names": ["ann", "bob"],
            "scores": points, "time": 0, "closes": 1_000, "kept_from": kept_from,
        }));
        let (scores, state) = (
            "st:{b}:1:i:initial-scores:all",
            "st:{b}:1:state:initial-day",
        );
        let keys = ["st:{b}", "st:{b}:1:keys", scores, state];
        let reply = run(&redis, &script::INITIAL, &keys, &[&args]).await;
        assert_eq!(reply.list()[0].text(), "OK");
    };
    let past = async |member: &str| {
        let line = [b"HGET", &b"st:{b}:1:past-initial"[..], member.as_bytes()];
        match redis.run(&line).await {
            Reply::Text(line) => rmp_serde::from_slice(&line).unwrap(),
            _ => Value::Null,
        }
    };
    let close = async |until: &str| {
        let args = ["1-1", until, "1", "", "", ""].map(str::as_bytes);
        let closed = run(
            &redis,
            &script::CLOSE_SHARD,
            &[
                "st:{b}",
                "st:{b}:1:keys",
                "st:{b}:1:queue",
                "st:{b}:1:intake",
            ],
            &args,
        )
        .await;
        assert_eq!(closed, Reply::texts(&["OK"]));
    };
    set(json!([-1, -2]), 0).await;
    assert_eq!(past("ann").await, Value::Null, "no period is closed");
    close("100").await;
    set(json!([-3, -2]), 0).await;
    set(json!([-4, false]), 0).await;
    assert_eq!(
        past("ann").await,
        json!([100, -1]),
        "the first change counts"
    );
    assert_eq!(past("bob").await, json!([100, -2]));
    close("200").await;
    set(json!([false, -2]), 0).await;
    assert_eq!(past("ann").await, json!([100, -1, 200, -4]));
    assert_eq!(past("bob").await, json!([100, -2, 200, false]));
    close("300").await;
    set(json!([-5, -2]), 150).await;
    assert_eq!(past("ann").await, json!([200, -4, 300, false]));
    let registered = [
        b"SISMEMBER",
        &b"st:{b}:1:keys"[..],
        b"st:{b}:1:past-initial",
    ];
    assert_eq!(redis.run(&registered).await, Reply::Integer(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn voters_of_several_periods_are_counted_once() {
    let redis = RedisServer::start().await;
    let days = ["st:{b}:1:voters:day:20", "st:{b}:1:voters:day:21"];
    redis
        .run(&[b"PFADD", days[0].as_bytes(), b"v1", b"v2"])
        .await;
    redis
        .run(&[b"PFADD", days[1].as_bytes(), b"v2", b"v3"])
        .await;
    let keys = [
        "st:{b}",
        days[0],
        days[1],
        days[0],
        "st:{b}:1:voters:day:22",
    ];
    let counts = run(&redis, &script::VOTERS, &keys, &[&pack(&json!([2, 1, 1]))]).await;
    assert_eq!(counts, Reply::List([3, 2, 0].map(Reply::Integer).to_vec()));

    // Of shards the voters are merged; those of two shards with voters in common here.
    let scratch = ["st:{b}:1:sketch:0", "st:{b}:1:sketch:1"];
    let export = async |days: &[&str]| {
        let keys = [&["st:{b}", scratch[0]], days].concat();
        run(&redis, &script::EXPORT_VOTERS, &keys, &[]).await
    };
    let [both, last] = [export(&days).await, export(&days[1..]).await];
    let keys = ["st:{b}", scratch[0], scratch[1]];
    let union = run(&redis, &script::UNION, &keys, &[both.bytes(), last.bytes()]).await;
    assert_eq!(union, Reply::Integer(3));
    let nobody = export(&["st:{b}:1:voters:day:22"]).await;
    assert_eq!(nobody, Reply::text_of(""));
    let left = redis.run(&[b"KEYS", b"*sketch*"]).await;
    assert_eq!(left, Reply::List(Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_knows_the_newest_definition_that_it_was_told_of() {
    let redis = RedisServer::start().await;
    let head = "st:{b:4:0}";
    for (generation, revision, version, reply) in [
        ("1", "2", "1-2", &["OK"][..]),
        ("1", "1", "1-2", &["OK", "2"]),
        ("1", "10", "1-10", &["OK"]),
        ("1", "10", "1-10", &["OK"]),
        ("2", "1", "2-1", &["OK"]),
        ("1", "11", "2-1", &["OK"]),
    ] {
        let args = [generation, revision].map(str::as_bytes);
        let told = run(&redis, &script::SHARD, &[head], &args).await;
        assert_eq!(told, Reply::texts(reply));
        let known = redis.run(&[b"HGET", head.as_bytes(), b"version"]).await;
        assert_eq!(known.text(), version);
    }
    board(&redis).await;
    let mark =
        async |version: &str| run(&redis, &script::USE, &["st:{b}"], &[version.as_bytes()]).await;
    assert_eq!(mark("1-2").await, Reply::texts(&["STALE"]));
    assert_eq!(mark("1-1").await, Reply::texts(&["OK"]));
    let used = redis.run(&[b"HGET", b"st:{b}", b"used"]).await;
    assert_eq!(used.text(), "1-1");
}

/// What is reserved of one quota of two, of events, for events that share a pool.
async fn reserve(redis: &RedisServer, version: &str, tokens: &[&str]) -> Reply {
    let keys = ["st:{b}", "st:{b}:1:keys", NOTES, RESERVING, POOL];
    let each = |value: Value| vec![value; tokens.len()];
    let args = pack(&json!({
        "version": version, "now": 1000, "rules": [{"log": 0, "keep": 0, "is_points": false, "allowances": [2]}],
        "requests": each(json!(0)), "tokens": tokens, "instants": each(json!(1000)),
        "uses": each(json!([1, 1, 0, 5])), "asks": each(json!(true)), "tags": each(json!("b:4:1")),
        "records": each(json!(EVENT)), "voids": each(json!(MARK)),
    }));
    run(redis, &script::RESERVE, &keys, &[&args]).await
}

const NOTES: &str = "st:{b}:1:reserved";
const RESERVING: &str = "st:{b}:1:reserving";
const POOL: &str = "st:{b}:1:q:0:once:total";
const MARK: &str = "st:{b}:1:v:t1";

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_made_and_settled_once() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let list = |parts: &[Reply]| Reply::List(parts.to_vec());
    let ok = |parts: &[Reply]| list(&[&[Reply::text_of("OK")], parts].concat());
    let (integer, text) = (Reply::Integer, Reply::text_of);
    let open = |left| list(&[integer(1), text(left)]);
    let waits = list(&[integer(3), integer(1)]);
    let used_up = [
        integer(2),
        integer(1),
        text("0"),
        text("2"),
        text("2"),
        text("1"),
    ];
    let used_up = list(&used_up);
    assert_eq!(
        reserve(&redis, "1-2", &["t1"]).await,
        Reply::texts(&["STALE"])
    );
    let three = reserve(&redis, "1-1", &["t1", "t2", "t3"]).await;
    assert_eq!(three, ok(&[open("1"), open("0"), waits.clone()]));
    assert_eq!(redis.run(&[b"GET", POOL.as_bytes()]).await.text(), "2");

    let settle = async |kept: &[&str], given_back: &[&str]| {
        let args = pack(&json!({"kept": kept, "given_back": given_back}));
        let settled = run(&redis, &script::SETTLE, &[NOTES, RESERVING], &[&args]).await;
        assert_eq!(settled, Reply::texts(&["OK"]));
    };
    settle(&["t1", "unknown"], &["unknown", "t1"]).await;
    assert_eq!(reserve(&redis, "1-1", &["t3"]).await, ok(&[waits]));
    settle(&["t2"], &[]).await;
    settle(&[], &["t2"]).await;
    assert_eq!(reserve(&redis, "1-1", &["t3"]).await, ok(&[used_up]));
    redis.run(&[b"SET", POOL.as_bytes(), b"1"]).await;
    assert_eq!(reserve(&redis, "1-1", &["t4"]).await, ok(&[open("0")]));
    settle(&[], &["t4"]).await;
    settle(&[], &["t4"]).await;
    assert_eq!(redis.run(&[b"GET", POOL.as_bytes()]).await.text(), "1");
    let left = redis
        .run(&[b"EXISTS", NOTES.as_bytes(), RESERVING.as_bytes()])
        .await;
    assert_eq!(left, integer(0));
    let registered = redis.run(&[b"SMEMBERS", b"st:{b}:1:keys"]).await;
    assert_eq!(registered.list().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_became_of_a_reservation_is_found_out_once_and_for_all() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    reserve(&redis, "1-1", &["t1"]).await;
    let reserved = async |version: &str, older: i64| {
        let args = pack(&json!({"version": version, "cursor": "0", "count": 10, "older": older}));
        run(&redis, &script::RESERVED, &["st:{b}", NOTES], &[&args]).await
    };
    assert_eq!(reserved("1-2", 0).await, Reply::texts(&["STALE"]));
    assert_eq!(reserved("1-1", 60_000).await, Reply::texts(&["OK", "0"]));
    let found = reserved("1-1", 0).await;
    let note = found.list()[2].list();
    assert_eq!(note[0].text(), "t1");
    assert_eq!(note[2..], *Reply::texts(&["b:4:1", EVENT, MARK]).list());

    let void = async |version: &str, token: &str| {
        let args = [version.as_bytes(), token.as_bytes(), b"60000"];
        run(&redis, &script::VOID, &["st:{b}", EVENT, MARK], &args).await
    };
    let apply = async |token: &str| {
        let keys = ["st:{b}", "st:{b}:1:keys", DAY, EVENT, MARK];
        let event = Event {
            id: 4,
            amount: -5,
            fingerprint: 77,
            detail: 1,
            refusal: 0,
        };
        let mut args = apply_args("1-1", &event);
        args["more"]["reservations"] = json!({"tokens": [token], "voids": [5]});
        run_apply(&redis, &keys, &args).await.list()[1].clone()
    };
    let applied = [&record(77, 1 + 16, &[(1024, -5)])[..], b"t0"].concat();
    assert_eq!(apply("t0").await.bytes(), applied);
    assert_eq!(
        apply("t0").await.bytes(),
        applied,
        "the same call once more"
    );
    assert_eq!(
        apply("t1").await.list()[0],
        Reply::Integer(1),
        "another one"
    );
    assert_eq!(void("2", "t0").await, Reply::texts(&["STALE"]));
    assert_eq!(void("1", "t0").await, Reply::texts(&["APPLIED"]));
    redis.run(&[b"DEL", EVENT.as_bytes()]).await;
    assert_eq!(void("1", "t1").await, Reply::texts(&["VOID"]));
    assert_eq!(apply("t1").await, Reply::List(vec![Reply::Integer(9)]));
    let ttl = redis.run(&[b"PTTL", MARK.as_bytes()]).await;
    assert!(matches!(ttl, Reply::Integer(1..=60_000)), "{ttl:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_change_only_from_what_was_seen() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let define = async |seen: &str, unused_since: &str, version: &str| {
        let args = [seen, unused_since, version, "{}", "*"].map(str::as_bytes);
        run(&redis, &script::DEFINE, &["st:{b}"], &args)
            .await
            .list()[0]
            .text()
    };
    assert_eq!(define("", "", "2-1").await, "CHANGED");
    assert_eq!(define("1-1", "0", "1-2").await, "OK");
    redis.run(&[b"HSET", b"st:{b}", b"used", b"1-2"]).await;
    assert_eq!(define("1-2", "0", "1-3").await, "USED");
    assert_eq!(define("1-2", "2", "1-3").await, "USED");
    assert_eq!(define("1-2", "3", "1-3").await, "OK", "none since");
    assert_eq!(define("1-3", "", "1-4").await, "OK");

    redis
        .run(&[b"SADD", b"st:{b}:1:keys", DAY.as_bytes()])
        .await;
    redis.run(&[b"ZADD", DAY.as_bytes(), b"1", b"a"]).await;
    let purge = async || {
        run(
            &redis,
            &script::PURGE,
            &["st:{b}:1:keys", "st:{b}"],
            &[b"1", b"10", b"1"],
        )
        .await
    };
    let delete =
        async |seen: &str| run(&redis, &script::DELETE, &["st:{b}"], &[seen.as_bytes()]).await;
    assert_eq!(delete("1-2").await, Reply::texts(&["CHANGED"]));
    assert_eq!(delete("1-4").await, Reply::texts(&["OK"]));
    assert_eq!(purge().await, Reply::texts(&["DONE"]));
    assert_eq!(redis.run(&[b"DBSIZE"]).await, Reply::Integer(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_begun_under_stamps_of_their_own_and_announced() {
    let redis = RedisServer::start().await;
    let [stamps, noted, format] =
        ["stamp", "begun", "format"].map(|name| format!("st:{{boards}}:{name}"));
    let [stamps, noted, format] = [&*stamps, &*noted, &*format];
    let begin = async || {
        let stamp = run(&redis, &script::BEGIN, &[stamps, noted, format], &[b"b"]).await;
        stamp.text().parse::<u64>().unwrap()
    };
    let (first, second) = (begin().await, begin().await);
    assert!(first < second && second < 1 << 53, "{first} {second}");
    redis.run(&[b"FLUSHALL"]).await;
    let third = begin().await;
    assert!(second < third, "{second} {third}");
    // A clock that has gone back.
    redis
        .run(&[b"SET", stamps.as_bytes(), b"9007199254740000"])
        .await;
    assert_eq!(begin().await, 9_007_199_254_740_001);

    let keys = ["live", "changes", "sequence", "epoch", "begun"];
    let keys = keys.map(|name| format!("st:{{boards}}:{name}"));
    let keys = keys.each_ref().map(String::as_str);
    let announce = async |is_live: &str, stamp: &str| {
        let args = ["b", is_live, stamp].map(str::as_bytes);
        run(&redis, &script::ANNOUNCE, &keys, &args).await
    };
    let news = async |known: &str| {
        let known = [known.as_bytes()];
        let news = run(&redis, &script::NEWS, &keys[1..4], &known).await;
        (
            news.list()[0].text(),
            news.list()[1].text(),
            news.list()[2].clone(),
        )
    };
    let none = Reply::List(Vec::new());
    assert_eq!(news("0").await, (String::new(), "0".into(), none.clone()));
    assert_eq!(announce("1", &third.to_string()).await, Reply::Integer(1));
    let left = redis.run(&[b"ZRANGE", noted.as_bytes(), b"0", b"-1"]).await;
    assert_eq!(left, Reply::texts(&["b 9007199254740001"]));
    let (epoch, sequence, changed) = news("0").await;
    assert_eq!((sequence.as_str(), changed), ("1", Reply::texts(&["b"])));
    let listed = async || redis.run(&[b"ZCARD", keys[0].as_bytes()]).await;
    assert_eq!(listed().await, Reply::Integer(1));
    assert_eq!(announce("0", "").await, Reply::Integer(2));
    assert_eq!(listed().await, Reply::Integer(0));
    assert_eq!(news("2").await, (epoch.clone(), "2".into(), none));
    redis.run(&[b"FLUSHALL"]).await;
    announce("1", "").await;
    let (second_epoch, ..) = news("0").await;
    assert_ne!(second_epoch, epoch);

    // Boards that were deleted are not remembered for ever.
    let crowd = "for i = 1, 10001 do redis.call('ZADD', KEYS[1], 0, 'gone' .. i) end";
    redis
        .run(&[b"EVAL", crowd.as_bytes(), b"1", keys[1].as_bytes()])
        .await;
    assert_eq!(announce("1", "").await, Reply::Integer(2));
    let (third_epoch, sequence, changed) = news("0").await;
    assert_ne!(third_epoch, second_epoch);
    assert_eq!((sequence.as_str(), changed), ("2", Reply::texts(&["b"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_holder_at_a_time_has_the_lease_of_a_board() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let lease = async |generation: &str, holder: &str, ms: &str, position: &str| {
        let args = [generation, "move", holder, ms, position].map(str::as_bytes);
        run(&redis, &script::LEASE, &["st:{b}"], &args).await
    };
    let held = |reply: Reply| match reply.list() {
        [ok, Reply::Integer(number), position] if ok.text() == "OK" => (*number, position.text()),
        other => panic!("{other:?}"),
    };
    let (first, position) = held(lease("1", "x", "60000", "").await);
    assert_eq!(position, "", "nobody has begun");
    assert_eq!(lease("1", "y", "60000", "").await, Reply::texts(&["HELD"]));
    let renewed = held(lease("1", "x", "60000", "7").await);
    let given_back = held(lease("1", "x", "0", "9").await);
    assert_eq!((renewed.0, given_back), (first, (first, "7".to_owned())));
    // The next holder goes on where the last one was; what it says of itself then counts from its second call.
    let (second, position) = held(lease("1", "y", "0", "").await);
    assert!(second > first);
    assert_eq!(position, "9");
    assert_eq!(held(lease("1", "y", "0", "").await).1, "9");
    // The board's server has lost the last one.
    let lost: [&[u8]; 4] = [b"HDEL", b"st:{b}", b"move:number", b"move:holder"];
    redis.run(&lost).await;
    let (third, position) = held(lease("1", "z", "60000", "").await);
    assert!(third >= second && position.is_empty());
    assert_eq!(lease("2", "z", "60000", "").await, Reply::texts(&["STALE"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_a_shard_is_copied_is_noted_and_taken_over() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let old = [
        "st:{b}",
        "st:{b}:1:keys",
        "st:{b}:1:changes",
        "st:{b}:1:copied",
    ];
    let capture =
        async |generation: &[u8]| run(&redis, &script::CAPTURE, &old, &[generation]).await;
    assert_eq!(capture(b"2").await, Reply::texts(&["STALE"]));
    assert_eq!(capture(b"1").await, Reply::texts(&["OK"]));
    let event = Event {
        id: 4,
        amount: -5,
        fingerprint: 77,
        detail: 0,
        refusal: 0,
    };
    apply(&redis, "1-1", &event).await;
    apply(&redis, "1-1", &event).await;
    let changes = async |done: Value| {
        let args = pack(
            &json!({"generation": "1", "layout": layout(), "copying": copying(), "copied": [], "noted": [],
            "done": done, "count": 10}),
        );
        let keys = [old[0], old[2], old[3]];
        run(&redis, &script::CHANGES, &keys, &[&args]).await
    };
    let what = format!("s\u{1f}{DAY}\u{1f}ann");
    let texts = Reply::texts(&[&what, "1", "0", "-5", "0", ""]);
    let ok = || Reply::text_of("OK");
    let noted = Reply::List(vec![ok(), Reply::Integer(1), texts]);
    assert_eq!(
        changes(json!([])).await,
        noted,
        "the repeated event has changed nothing"
    );
    assert_eq!(
        changes(json!([[what, "2"]])).await,
        noted,
        "it was noted once"
    );
    assert_eq!(
        changes(json!([[what, "1"]])).await,
        Reply::List(vec![ok(), Reply::Integer(0)])
    );

    let head = "st:{b:2:0:1}";
    let tell =
        async |revision: &[u8]| run(&redis, &script::SHARD, &[head], &[b"1", revision]).await;
    let day = "st:{b:2:0:1}:1:s:day:2026-11-21";
    let copy_in = async |lease: u64, score: Value| {
        let keys = [head, "st:{b:2:0:1}:1:keys", "st:{b:2:0:1}:1:scratch", day];
        let args = pack(&json!({
            "generation": "1", "lease": lease, "layout": layout(), "turnouts": [], "voters": [], "states": [],
            "dropped": [], "letters": [], "lines": [], "standings": [[4, 0, false, ["ann"], [score], [0], []]]}));
        run(&redis, &script::COPY_IN, &keys, &[&args]).await
    };
    assert_eq!(
        copy_in(1, json!(-5)).await,
        Reply::texts(&["SUPERSEDED"]),
        "nobody knows the shard"
    );
    tell(b"0").await;
    assert_eq!(copy_in(1, json!(-4)).await, Reply::texts(&["OK"]));
    assert_eq!(copy_in(2, json!(-5)).await, Reply::texts(&["OK"]));
    assert_eq!(
        copy_in(1, json!(-4)).await,
        Reply::texts(&["SUPERSEDED"]),
        "it comes in late"
    );
    let score = async || redis.run(&[b"ZSCORE", day.as_bytes(), b"ann"]).await;
    assert_eq!(score().await.text(), "-5");
    assert_eq!(copy_in(2, json!(false)).await, Reply::texts(&["OK"]));
    assert_eq!(score().await, Reply::Nil);
    tell(b"3").await;
    assert_eq!(copy_in(2, json!(-6)).await, Reply::texts(&["OPEN"]));

    let recall = async |fingerprint: u64| {
        let args = pack(&json!({"fingerprints": [fingerprint, 1], "confirm": true}));
        let keys = [EVENT, "st:{b}:1:e:other"];
        run(&redis, &script::RECALL, &keys, &[&args])
            .await
            .list()
            .to_vec()
    };
    let known = Reply::List(vec![Reply::Integer(1), Reply::Text(record(77, 0, &[]))]);
    let unknown = Reply::Text(Vec::new());
    assert_eq!(recall(77).await, [known, unknown]);
    assert_eq!(recall(78).await[0], Reply::List(vec![Reply::Integer(2)]));

    // Once its data is unlinked the shard notes nothing any more.
    let (keys, args) = ([old[1], old[0]], [&b"1"[..], b"10", b"0"]);
    let purged = run(&redis, &script::PURGE, &keys, &args).await;
    assert_eq!(purged, Reply::texts(&["DONE"]));
    assert_eq!(changes(json!([])).await, Reply::texts(&["STALE"]));
    for key in [old[2], old[3], DAY] {
        let is_there = redis.run(&[b"EXISTS", key.as_bytes()]).await;
        assert_eq!(is_there, Reply::Integer(0), "{key}");
    }
    assert_eq!(redis.run(&[b"EXISTS", b"st:{b}"]).await, Reply::Integer(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_every_kind_that_is_copied_changes_can_be_read() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let changes = "st:{b}:1:changes";
    let keys = ["st:{b}", "st:{b}:1:keys", changes, "st:{b}:1:copied"];
    run(&redis, &script::CAPTURE, &keys, &[b"1"]).await;
    for kind in Kind::ALL {
        let change = format!("{}\u{1f}st:{{b}}:1:x\u{1f}ann", kind.code());
        let args = pack(
            &json!({"generation": "1", "layout": layout(), "copying": copying(), "copied": [], "noted": [change],
            "done": [], "count": 10}),
        );
        let told = run(
            &redis,
            &script::CHANGES,
            &[keys[0], keys[2], keys[3]],
            &[&args],
        )
        .await;
        match kind.copying() {
            Copying::Members
            | Copying::Lines
            | Copying::Everywhere
            | Copying::Whole
            | Copying::Merged => {
                assert_eq!(told.list()[2].list()[0].text(), change, "{kind:?}");
            }
            Copying::Rebuilt | Copying::Not => {
                let is_refused = matches!(&told, Reply::Error(text) if text.contains("every kind that is captured is copied"));
                assert!(is_refused, "{kind:?}: {told:?}");
            }
        }
        redis.run(&[b"DEL", changes.as_bytes()]).await;
    }
}

/// The code that a script replies.
async fn code(redis: &RedisServer, script: &Script, keys: &[&str], args: &[&str]) -> String {
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    let reply = run(redis, script, keys, &args).await;
    reply.list()[0].text()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_is_decided_once_behind_the_barrier_and_by_the_hides_of_that_moment() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let zset = "st:{b}:1:s:week:2026-11-16/1-17";
    let decided = "st:{b}:1:s:week:2026-11-16/1-17:decided";
    let keys = ["st:{b}", "st:{b}:1:keys", zset, decided];
    let decide = async |version, hides, anonymised, summary| {
        let args = [version, "100", hides, anonymised, "", summary, "ann", "{}"];
        code(&redis, &script::DECIDE_COHORT, &keys, &args).await
    };
    redis.command(&format!("ZADD {zset} -5 ann")).await;
    redis
        .command(&format!("PEXPIREAT {zset} 4102444800000"))
        .await;
    assert_eq!(decide("1-0", "0", "0", "one").await, "STALE");
    assert_eq!(decide("1-1", "0", "0", "one").await, "OPEN");
    redis.command("HSET st:{b} final_until 99").await;
    assert_eq!(decide("1-1", "0", "0", "one").await, "OPEN");
    redis.command("HSET st:{b} final_until 100 hides 3").await;
    assert_eq!(decide("1-1", "0", "0", "one").await, "MODERATED");
    assert_eq!(decide("1-1", "3", "1", "one").await, "MODERATED");
    assert_eq!(decide("1-1", "3", "0", "one").await, "OK");
    redis.command("HSET st:{b} hides 5").await;
    assert_eq!(decide("1-1", "5", "0", "two").await, "OK");
    let stored = redis
        .run(&[b"HMGET", decided.as_bytes(), b"", b"ann"])
        .await;
    assert_eq!(stored, Reply::texts(&["one", "{}"]));
    let expires = redis.run(&[b"PEXPIRETIME", decided.as_bytes()]).await;
    assert_eq!(expires, Reply::Integer(4_102_444_800_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closing_is_decided_once_the_last_one_has_its_results_and_a_definition_changes_only_if_it_was_seen()
 {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let decide = async |version, until| {
        let args = [version, until, "[]", "50"];
        code(&redis, &script::DECIDE, &["st:{b}"], &args).await
    };
    let recorded = async |generation, until| {
        let args = [generation, until];
        code(&redis, &script::RESULTS_UNTIL, &["st:{b}"], &args).await
    };
    let fields = async || {
        let fields = ["HMGET", "st:{b}", "closing_until", "results_until"];
        redis.run(&fields.map(str::as_bytes)).await
    };
    assert_eq!(decide("1-0", "100").await, "STALE");
    assert_eq!(decide("1-1", "100").await, "OK");
    assert_eq!(fields().await, Reply::texts(&["100", "50"]));
    assert_eq!(decide("1-1", "90").await, "OK", "decided before");
    assert_eq!(decide("1-1", "200").await, "PENDING");
    assert_eq!(recorded("2", "100").await, "STALE");
    assert_eq!(recorded("1", "100").await, "OK");
    assert_eq!(recorded("1", "70").await, "OK");
    assert_eq!(fields().await, Reply::texts(&["100", "100"]));
    assert_eq!(decide("1-1", "200").await, "OK");
    assert_eq!(fields().await, Reply::texts(&["200", "100"]));
    let define = async |seen, version, closing| {
        let args = [seen, "", version, "{}", closing];
        code(&redis, &script::DEFINE, &["st:{b}"], &args).await
    };
    assert_eq!(define("1-1", "1-2", "100").await, "CHANGED");
    assert_eq!(define("1-1", "1-2", "").await, "CHANGED");
    assert_eq!(define("1-1", "1-2", "200").await, "OK");
    assert_eq!(define("1-2", "1-3", "*").await, "OK");
}

#[tokio::test(flavor = "multi_thread")]
async fn periods_with_data_are_found_in_the_order_of_time_and_those_that_are_gone_are_forgotten() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let event = |member: u64| Event {
        id: 0,
        amount: 5,
        fingerprint: member,
        detail: 0,
        refusal: 0,
    };
    let score_in = async |zset: &str| {
        let keys = ["st:{b}", "st:{b}:1:keys", zset];
        let reply = run_apply(&redis, &keys, &apply_args("1-1", &event(1))).await;
        assert_eq!(reply.list()[0].text(), "OK");
    };
    for zset in [
        "s:day:2026-11-20",
        "s:day:2026-11-19",
        "s:base-day:2026-11-19",
        "s:raw-day:2026-11-19",
        "s:day@7:2026-11-21",
    ] {
        score_in(&format!("st:{{b}}:1:{zset}")).await;
    }
    let index = "st:{b}:1:periods:day";
    let listed = async |index: &str| redis.run(&[b"ZRANGE", index.as_bytes(), b"0", b"-1"]).await;
    assert_eq!(
        listed(index).await,
        Reply::texts(&["2026-11-19", "2026-11-20"])
    );
    assert_eq!(
        listed("st:{b}:1:periods:day@7").await,
        Reply::texts(&["2026-11-21"])
    );
    assert_eq!(
        redis
            .run(&[b"SISMEMBER", b"st:{b}:1:keys", index.as_bytes()])
            .await,
        Reply::Integer(1)
    );
    let periods = async |from: &str, to: &str, newest: &str, count: &str, lines: &str| {
        let args = ["1-1", from, to, newest, count, lines].map(str::as_bytes);
        run(&redis, &script::PERIODS, &["st:{b}", index], &args).await
    };
    assert_eq!(
        periods("-", "+", "0", "5", "9").await,
        Reply::texts(&["OK", "", "2026-11-19", "2026-11-20"])
    );
    assert_eq!(
        periods("-", "+", "0", "1", "9").await,
        Reply::texts(&["OK", "2026-11-19", "2026-11-19"])
    );
    assert_eq!(
        periods("+", "-", "1", "1", "9").await,
        Reply::texts(&["OK", "2026-11-20", "2026-11-20"])
    );
    assert_eq!(
        periods("(2026-11-20", "-", "1", "9", "9").await,
        Reply::texts(&["OK", "", "2026-11-19"])
    );
    redis.command("DEL st:{b}:1:s:day:2026-11-19").await;
    assert_eq!(
        periods("-", "+", "0", "5", "1").await,
        Reply::texts(&["OK", "2026-11-19"]),
        "go on there"
    );
    assert_eq!(
        periods("-", "+", "0", "5", "9").await,
        Reply::texts(&["OK", "", "2026-11-20"])
    );
    score_in("st:{b}:1:s:day:2026-11-22").await;
    assert_eq!(
        listed(index).await,
        Reply::texts(&["2026-11-20", "2026-11-22"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn when_memory_is_full_only_what_may_need_more_is_refused() {
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
    let deleted = run(&redis, &script::DELETE, &["st:{b}"], &[b"1-1"]).await;
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
async fn a_user_is_told_which_commands_it_may_not_use() {
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

#[tokio::test(flavor = "multi_thread")]
async fn an_api_key_changes_if_it_is_what_was_seen_and_is_announced_in_the_same_step() {
    let redis = RedisServer::start().await;
    let parts = ["names", "changes", "sequence", "epoch"].map(|part| format!("api-key-{part}"));
    let others = ["api-keys", "api-key-uses"].map(str::to_owned);
    let keys = parts.into_iter().chain(others);
    let keys: Vec<String> = keys.map(|name| format!("st:{{boards}}:{name}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let change = async |name: &str, seen: &str, new: &str| {
        let args = [name, seen, new, "2"].map(str::as_bytes);
        let reply = run(&redis, &script::API_KEY, &keys, &args).await;
        reply.list()[0].text()
    };
    assert_eq!(change("a", "", "{1}").await, "OK");
    assert_eq!(change("a", "", "{2}").await, "CHANGED", "there is one");
    assert_eq!(change("a", "{2}", "{3}").await, "CHANGED");
    assert_eq!(change("a", "{1}", "{2}").await, "OK");
    assert_eq!(change("b", "", "{1}").await, "OK");
    assert_eq!(change("c", "", "{1}").await, "FULL");
    let news = run(&redis, &script::NEWS, &keys[1..4], &[b"0"]).await;
    assert_eq!(news.list()[1].text(), "3");
    assert_eq!(news.list()[2], Reply::texts(&["a", "b"]));
    let note = async |uses: &[&str]| {
        let args: Vec<&[u8]> = uses.iter().map(|text| text.as_bytes()).collect();
        run(&redis, &script::API_KEY_USES, &keys[4..], &args).await;
        let mut command = vec![&b"HMGET"[..], keys[5].as_bytes()];
        command.extend([&b"a"[..], b"b", b"c"]);
        let noted = redis.run(&command).await;
        let text = |noted: &Reply| match noted {
            Reply::Nil => String::new(),
            noted => noted.text(),
        };
        noted.list().iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(note(&["a", "10", "c", "10"]).await, ["10", "", ""]);
    assert_eq!(note(&["a", "9", "b", "11"]).await, ["10", "11", ""]);
    assert_eq!(change("a", "{2}", "").await, "OK");
    assert_eq!(note(&["b", "1"]).await, ["", "11", ""]);
    let names = redis
        .run(&[b"ZRANGE", keys[0].as_bytes(), b"0", b"-1"])
        .await;
    assert_eq!(names, Reply::texts(&["b"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_log_that_is_too_large_drops_its_oldest_lines() {
    let redis = RedisServer::start().await;
    let [log, outcomes, size] = [
        "st:{boards}:audit",
        "st:{boards}:audit-outcomes",
        "st:{boards}:audit-size",
    ];
    let write = async |args: &[&[u8]]| {
        let reply = run(&redis, &script::AUDIT_WRITE, &[log, outcomes, size], args).await;
        let parts = reply.list().iter().map(Reply::text);
        parts.collect::<Vec<_>>()
    };
    let text = vec![b'x'; 1_000];
    let intent: [&[u8]; 5] = [b"200000", &text, b"site", b"", b""];
    let first = write(&intent).await[1].clone();
    let outcome = async |id: &str| write(&[b"200000", &text, id.as_bytes()]).await;
    assert_eq!(outcome(&first).await, ["OK", &first]);
    assert_eq!(outcome(&first).await, ["GONE"], "it has one");
    let count = async || redis.run(&[b"XLEN", log.as_bytes()]).await;
    for _ in 0..150 {
        write(&intent).await;
    }
    let length = count().await;
    assert_eq!(length, Reply::Integer(151));
    for _ in 0..20 {
        write(&intent).await;
    }
    assert_eq!(
        count().await,
        Reply::Integer(71),
        "a hundred are dropped at once"
    );
    assert_eq!(outcome(&first).await, ["GONE"]);
    assert_eq!(
        redis.run(&[b"HLEN", outcomes.as_bytes()]).await,
        Reply::Integer(0)
    );
    let trim = async |before: &[u8]| {
        let names = [
            "st:{boards}:audit-pseudonyms",
            "st:{boards}:audit-members",
            "st:{boards}:audit-seen",
        ];
        let keys = [&[log, outcomes, size][..], &names].concat();
        run(&redis, &script::AUDIT_TRIM, &keys, &[before, b"50"]).await
    };
    let trimmed = |lines, bytes| Reply::List([lines, 0, bytes].map(Reply::Integer).to_vec());
    let far = b"9999999999999";
    // Its text, who has sent it, and what else a line takes.
    let of_line = 1_000 + 4 + 200;
    assert_eq!(trim(b"1").await, trimmed(0, 71 * of_line));
    assert_eq!(trim(far).await, trimmed(50, 21 * of_line));
    assert_eq!(trim(far).await, trimmed(21, 0));
    assert_eq!(trim(far).await, trimmed(0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_knows_so_many_members_and_forgets_those_that_it_named_first() {
    let redis = RedisServer::start().await;
    let names = [
        "st:{boards}:audit-pseudonyms",
        "st:{boards}:audit-members",
        "st:{boards}:audit-seen",
    ];
    let name = async |members: &[&str]| {
        let pairs = members
            .iter()
            .flat_map(|member| [(*member).to_owned(), format!("m-{member}")]);
        let args: Vec<String> = ["3".to_owned()].into_iter().chain(pairs).collect();
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        run(&redis, &script::AUDIT_MEMBERS, &names, &args).await
    };
    assert_eq!(
        name(&["a", "b", "c"]).await,
        Reply::texts(&["m-a", "m-b", "m-c"])
    );
    // Those of one millisecond have the order of their names.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    assert_eq!(name(&["a", "d"]).await, Reply::texts(&["m-a", "m-d"]));
    for key in names {
        let count: &[u8] = if key.ends_with("seen") {
            b"ZCARD"
        } else {
            b"HLEN"
        };
        assert_eq!(
            redis.run(&[count, key.as_bytes()]).await,
            Reply::Integer(3),
            "{key}"
        );
    }
    assert_eq!(
        redis.run(&[b"HGET", names[1].as_bytes(), b"m-b"]).await,
        Reply::Nil
    );
    let reply = run(&redis, &script::AUDIT_FORGET, &names, &[b"a"]).await;
    assert_eq!(reply, Reply::texts(&["OK"]));
    assert_eq!(
        redis.run(&[b"HGET", names[0].as_bytes(), b"a"]).await,
        Reply::Nil
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_written_if_they_are_what_was_seen() {
    let redis = RedisServer::start().await;
    let profile = |member: &str| format!("st:{{profiles:07}}:p:{member}");
    let sets = ["pending", "approved", "blocked"].map(|set| format!("st:{{profiles:07}}:{set}"));
    let write = async |writes: &[[&str; 4]]| {
        let profiles = writes.iter().map(|[member, ..]| profile(member));
        let keys: Vec<String> = sets.iter().cloned().chain(profiles).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let args: Vec<&[u8]> = writes.iter().flatten().map(|arg| arg.as_bytes()).collect();
        run(&redis, &script::PROFILES, &keys, &args).await
    };
    let members = async |set: &str| redis.command(&format!("ZRANGE {set} 0 -1")).await;
    let first = [
        ["ann", "", "{1}", "1"],
        ["ann", "{1}", "{2}", "2"],
        ["bob", "{0}", "{1}", "1"],
    ];
    assert_eq!(write(&first).await, Reply::texts(&["OK", "OK", "CHANGED"]));
    assert_eq!(
        redis.command(&format!("GET {}", profile("ann"))).await,
        "$3\r\n{2}\r\n"
    );
    assert_eq!(members(&sets[0]).await, "*0\r\n");
    assert_eq!(members(&sets[1]).await, "*1\r\n$3\r\nann\r\n");
    redis.command(&format!("SADD {} x", profile("eve"))).await;
    let next = [
        ["eve", "", "{1}", "1"],
        ["ann", "{2}", "", "0"],
        ["ann", "*", "", "0"],
        ["eve", "*", "", "0"],
    ];
    assert_eq!(
        write(&next).await,
        Reply::texts(&["FAULT", "OK", "NONE", "OK"])
    );
    assert_eq!(redis.command("DBSIZE").await, ":0\r\n");
}

/// A hide of a member as hide.lua takes it; `ends` in ms, 0: never.
fn hide_args(member: &str, reason: &str, since: i64, ends: i64) -> Vec<u8> {
    let id = format!("{member}-{since}");
    let mut hide = json!({"id": id, "reason": reason, "by": "mod", "since": since});
    if ends > 0 {
        hide["until"] = json!(ends);
    }
    pack(&json!({"version": "1-1", "member": member, "hide": hide, "hidden_max": 2}))
}

/// What is stored of a hide.
fn stored_hide(packed: &Reply) -> Value {
    rmp_serde::from_slice(packed.bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hide_has_a_line_in_the_journal_and_is_the_same_twice() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let keys = ["st:{b}", "st:{b}:1:keys"];
    let hide = async |args: Vec<u8>| run(&redis, &script::HIDE, &keys, &[&args]).await;
    let back = async |member: &str, more: Value| {
        let mut args = json!({"version": "1-1", "member": member, "hidden_max": 2});
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        hide(pack(&args)).await.list()[0].text()
    };
    let number = async || redis.run(&[b"HGET", b"st:{b}", b"hides"]).await;
    assert_eq!(number().await, Reply::Nil, "nobody was ever hidden");

    let done = hide(hide_args("bob", "cheating", 10, 0)).await;
    assert_eq!(done.list()[0].text(), "HIDDEN");
    let line = json!({"id": "bob-10", "reason": "cheating", "by": "mod", "since": 10});
    assert_eq!(stored_hide(&done.list()[1]), line);
    assert_eq!(done.list()[2].text(), "", "it had none before");
    assert_eq!(number().await.text(), "1", "a hide has an odd number");
    let done = hide(hide_args("bob", "rudeness", 20, 99)).await;
    assert_eq!(stored_hide(&done.list()[2]), line, "the one before");
    let line = json!({"id": "bob-10", "reason": "rudeness", "by": "mod", "since": 10, "until": 99});
    assert_eq!(stored_hide(&done.list()[1]), line, "it goes on");
    assert_eq!(number().await.text(), "1", "nothing is new");
    hide(hide_args("ann", "cheating", 20, 0)).await;
    assert_eq!(
        hide(hide_args("cid", "x", 20, 0)).await,
        Reply::texts(&["FULL"])
    );
    assert_eq!(number().await.text(), "3");

    let read = async |more: Value| {
        let mut args = json!({"version": "1-1", "after": "", "count": 1});
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let reply = run(&redis, &script::HIDDEN, &keys, &[&pack(&args)]).await;
        let members = reply.list()[2].list().chunks(2);
        let members = members.map(|pair| pair[0].text()).collect::<Vec<_>>();
        (reply.list()[1].clone(), members.join(","))
    };
    let two = |members: &str| (Reply::Integer(2), members.to_owned());
    assert_eq!(read(json!({})).await, two("ann"));
    assert_eq!(read(json!({"after": "ann", "count": 9})).await, two("bob"));
    assert_eq!(read(json!({"after": "bob"})).await, two(""));
    assert_eq!(read(json!({"members": ["cid", "bob"]})).await, two("bob"));

    // A hide that has ended, and that nobody has taken away yet, is none.
    let done = hide(hide_args("bob", "spam", 99, 99)).await;
    assert_eq!(done.list()[2].text(), "");
    let line = json!({"id": "bob-99", "reason": "spam", "by": "mod", "since": 99, "until": 99});
    assert_eq!(stored_hide(&done.list()[1]), line, "it begins anew");

    assert_eq!(back("bob", json!({"ends": 98})).await, "NOT_HIDDEN");
    assert_eq!(back("bob", json!({"ends": 99})).await, "BACK");
    assert_eq!(back("bob", json!({})).await, "NOT_HIDDEN");
    assert_eq!(
        number().await.text(),
        "4",
        "to be brought back has an even one"
    );
    let journal = b"st:{b}:1:hide-journal";
    let lines = redis
        .run(&[b"ZRANGE", journal, b"0", b"-1", b"WITHSCORES"])
        .await;
    assert_eq!(lines, Reply::texts(&["ann", "3", "bob", "4"]));
    let stale = json!({"version": "1-2"});
    assert_eq!(back("ann", stale).await, "STALE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_journal_forgets_who_was_brought_back_long_ago() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let journal = "st:{b}:1:hide-journal";
    let mut lines: Vec<String> = vec!["ZADD".to_owned(), journal.to_owned()];
    for number in 1..=4_100 {
        lines.extend([number.to_string(), format!("m{number}")]);
    }
    let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
    redis.run(&lines).await;
    redis.run(&[b"HSET", b"st:{b}", b"hides", b"4100"]).await;
    let keys = ["st:{b}", "st:{b}:1:keys"];
    run(
        &redis,
        &script::HIDE,
        &keys,
        &[&hide_args("ann", "x", 1, 0)],
    )
    .await;
    let fields = redis
        .run(&[b"HMGET", b"st:{b}", b"hides", b"hides_from"])
        .await;
    assert_eq!(fields, Reply::texts(&["4101", "64"]));
    let oldest = redis
        .run(&[b"ZRANGE", journal.as_bytes(), b"0", b"1"])
        .await;
    assert_eq!(
        oldest,
        Reply::texts(&["m1", "m3"]),
        "those who are hidden stay"
    );
    let count = redis.run(&[b"ZCARD", journal.as_bytes()]).await;
    assert_eq!(count, Reply::Integer(4_101 - 32));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_result_of_a_period_stays_unless_who_replaces_it_has_seen_it() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let names = ["results-keys", "results:day", "final-periods:day", "outbox"];
    let names = names.map(|name| format!("st:{{b}}:1:{name}"));
    let keys = std::iter::once("st:{b}").chain(names.iter().map(String::as_str));
    let keys: Vec<&str> = keys.collect();
    let record_since = async |forgetting: &str, of: [&str; 4]| {
        let [version, seen, result, message] = of;
        let args = [
            version,
            "2026-11-21",
            seen,
            result,
            forgetting,
            message,
            "{}",
        ];
        let args = args.map(str::as_bytes);
        let reply = run(&redis, &script::RECORD_RESULT, &keys, &args).await;
        let field = [&b"HGET"[..], names[1].as_bytes(), b"2026-11-21"];
        (reply, redis.run(&field).await)
    };
    let record = async |version: &str, seen: &str, result: &str, message: &str| {
        record_since("", [version, seen, result, message]).await
    };
    let (stale, _) = record("1-2", "", "one", "m1").await;
    assert_eq!(stale, Reply::texts(&["STALE"]));
    let stands = |code, result| (Reply::texts(&[code]), Reply::text_of(result));
    assert_eq!(record("1-1", "", "one", "m1").await, stands("OK", "one"));
    assert_eq!(record("1-1", "", "two", "m2").await, stands("OK", "one"));
    let wrong = record("1-1", "zero", "two", "m2").await;
    assert_eq!(wrong, stands("STALE", "one"));
    assert_eq!(record("1-1", "one", "two", "m2").await, stands("OK", "two"));
    // Whoever has read a name before an erasure has begun to take names out.
    for generation in [&b"1"[..], b"2"] {
        let args = [generation, b"x"];
        run(&redis, &script::BEGIN_FORGETTING, &["st:{b}"], &args).await;
    }
    for forgetting in ["", "y"] {
        let late = record_since(forgetting, ["1-1", "two", "ann", "m3"]).await;
        assert_eq!(late, stands("STALE", "two"));
    }
    for (forgetting, seen, result) in [("x", "two", "three"), ("*", "three", "four")] {
        let recorded = record_since(forgetting, ["1-1", seen, result, "m2"]).await;
        assert_eq!(recorded, stands("OK", result));
    }
    let messages = redis.run(&[b"HKEYS", names[3].as_bytes()]).await;
    assert_eq!(
        messages,
        Reply::texts(&["m1", "m2"]),
        "none of what was not recorded"
    );
    let periods = redis
        .run(&[b"ZRANGE", names[2].as_bytes(), b"0", b"-1"])
        .await;
    assert_eq!(periods, Reply::texts(&["2026-11-21"]));
    let registered = redis.run(&[b"SCARD", names[0].as_bytes()]).await;
    assert_eq!(registered, Reply::Integer(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_tells_the_barrier_and_counts_ranks_as_the_standing_does() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let next = "st:{b}:1:s:day:2026-11-22";
    for zset in [DAY, next] {
        for (member, score) in [(b"ann", b"-5"), (b"bob", b"-5"), (b"cid", b"-3")] {
            redis.run(&[b"ZADD", zset.as_bytes(), score, member]).await;
        }
    }
    let ask = async || {
        let standings = json!([[2, 0, 0, 0], [3, 0, 0, 0, "competition"]]);
        let subset = |standing| json!([3, standing, ["bob"]]);
        let args = pack(
            &json!({"version": "1-1", "layout": layout(), "ranking": "ordinal",
            "standings": standings, "queries": [subset(1), subset(2)]}),
        );
        let reply = run(&redis, &script::READ, &["st:{b}", DAY, next], &[&args]).await;
        let [code, barrier, answers @ .., _changed, has_entries] = reply.list() else {
            panic!("{reply:?}")
        };
        assert_eq!(code.text(), "OK");
        assert_eq!(has_entries.text(), "11");
        let rank = |answer: &Reply| answer.list()[1].list()[0].list()[1].clone();
        let ranks: Vec<Reply> = answers.iter().map(rank).collect();
        assert_eq!(ranks, [Reply::Integer(2), Reply::Integer(1)]);
        barrier.text().clone()
    };
    assert_eq!(ask().await, "");
    redis
        .run(&[b"HSET", b"st:{b}", b"final_until", b"1795305600000"])
        .await;
    assert_eq!(ask().await, "1795305600000");
}
