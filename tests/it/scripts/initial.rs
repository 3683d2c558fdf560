//! Scripts of initial scores.

use serde_json::{Value, json};
use standings::redis::script;

use super::reads::read;
use super::{DAY, board, close_shard, layout, pack, run};
use crate::harness::RedisServer;
use crate::harness::redis::Reply;

#[tokio::test(flavor = "multi_thread")]
async fn initial_scores_are_set_in_all_existing_standings() {
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
async fn past_initial_scores_are_stored_once_per_barrier_while_their_periods_last() {
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
        let closed = close_shard(&redis, "1-1", until).await;
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
