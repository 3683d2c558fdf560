//! Scripts that close periods and store results.

use standings::redis::script;

use super::{Event, apply_args, board, code, run, run_apply};
use crate::harness::RedisServer;
use crate::harness::redis::Reply;

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_is_decided_once_after_the_barrier_with_the_hides_of_that_moment() {
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
async fn a_closing_waits_for_the_results_of_the_last_one_and_no_unseen_definition_is_replaced() {
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
async fn periods_with_data_are_found_in_order_of_time_and_expired_ones_are_dropped() {
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
async fn a_result_is_replaced_only_by_a_writer_that_has_seen_it() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let names = ["results-keys", "results:day", "final-periods:day", "outbox"]
        .map(|name| format!("st:{{b}}:1:{name}"));
    let keys: Vec<&str> = std::iter::once("st:{b}")
        .chain(names.iter().map(String::as_str))
        .collect();
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
        ]
        .map(str::as_bytes);
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
