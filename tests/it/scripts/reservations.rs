//! Scripts that reserve quotas and settle that.

use serde_json::{Value, json};
use standings::redis::script;

use super::{DAY, EVENT, LOSS, apply_args, board, pack, record, run, run_apply};
use crate::harness::RedisServer;
use crate::harness::redis::Reply;

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
async fn the_outcome_of_a_reservation_is_decided_once() {
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
        let mut args = apply_args("1-1", &LOSS);
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
