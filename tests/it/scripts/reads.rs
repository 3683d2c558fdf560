//! Scripts that read standings, and the one that completes them.

use serde_json::{Value, json};
use standings::redis::script;

use super::{DAY, Event, LOSS, apply, board, layout, pack, run};
use crate::harness::RedisServer;
use crate::harness::redis::Reply;

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
pub(super) async fn read(
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
        [_, _, _changed, _counts, _holds, answer] => answer.clone(),
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
async fn a_replica_answers_only_as_the_intended_process_with_all_keys() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let info = redis.command("INFO server").await;
    let process = info
        .lines()
        .find_map(|line| line.strip_prefix("run_id:"))
        .unwrap()
        .trim();
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
async fn a_read_returns_the_barrier_and_ranks_like_the_standing() {
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
        let [code, barrier, _changed, counts, _holds, answers @ ..] = reply.list() else {
            panic!("{reply:?}")
        };
        assert_eq!(code.text(), "OK");
        assert_eq!(counts.list(), [Reply::Integer(3), Reply::Integer(3)]);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_read_leaves_out_what_was_kept_and_still_holds() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    redis.run(&[b"ZADD", DAY.as_bytes(), b"-5", b"ann"]).await;
    let write = async |name: &[u8], value: &[u8]| {
        redis.run(&[b"HSET", b"st:{b}", name, value]).await;
    };
    write(b"changed", b"7 0f0c2a9be41d").await;
    let state = "st:{b}:1:state:last-2-days";
    redis.run(&[b"SET", state.as_bytes(), b"\x90"]).await;
    // How many answers come, and whether what was kept holds.
    let ask = async |kept: Value| {
        let queries = json!([[3, 1, ["ann"]], [3, 1, ["bob"]]]);
        let args = pack(
            &json!({"version": "1-1", "layout": layout(), "ranking": "ordinal",
            "standings": [[2, 3, 21, 0]], "queries": queries, "kept": kept}),
        );
        let reply = run(&redis, &script::READ, &["st:{b}", DAY, state], &[&args]).await;
        let [_, _, changed, counts, holds, answers @ ..] = reply.list() else {
            panic!("{reply:?}")
        };
        assert_eq!(changed.text(), "7 0f0c2a9be41d");
        assert_eq!(counts.list().len(), 1);
        (answers.len(), holds.clone() == Reply::Integer(1))
    };
    let now = "7 0f0c2a9be41d";
    assert_eq!(ask(json!([now, "", [1], []])).await, (0, true));
    assert_eq!(ask(json!([now, "", [-1], [2]])).await, (1, true));
    assert_eq!(
        ask(json!(["6 0f0c2a9be41d", "", [1], []])).await,
        (2, false)
    );
    assert_eq!(ask(json!([now, "99", [1], []])).await, (2, false));
    assert_eq!(
        ask(json!([now, "", [2], []])).await,
        (2, false),
        "it has expired"
    );
    write(b"final_until", b"99").await;
    assert_eq!(ask(json!([now, "", [1], []])).await, (2, false));
    assert_eq!(ask(json!([now, "99", [1], []])).await, (0, true));
    redis.run(&[b"DEL", state.as_bytes()]).await;
    assert_eq!(
        ask(json!([now, "99", [1], []])).await,
        (2, false),
        "it is not complete"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_goes_on_only_by_the_links_of_its_trail() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let lose = async || apply(&redis, "1-1", &Event { id: 0, ..LOSS }).await;
    for (member, score) in [("bob", "-9"), ("cid", "-1")] {
        redis
            .run(&[b"ZADD", DAY.as_bytes(), score.as_bytes(), member.as_bytes()])
            .await;
    }
    lose().await;
    let shard = ["st:{b}", "st:{b}:1:keys", "st:{b}:1:r:trail"];
    let begin = async |version: &str| {
        let args = pack(&json!({"version": version, "standing": DAY, "seconds": 60}));
        run(&redis, &script::BEGIN_TRAIL, &shard, &[&args]).await
    };
    assert_eq!(begin("1-2").await, Reply::texts(&["STALE"]));
    let token = begin("1-1").await.list()[1].text();
    assert_eq!(begin("1-1").await.list()[1].text(), token);

    let step = async |version: &str, more: Value, member: &str| {
        let hides = ["hides", "hidden", "hide-journal", "erasing"];
        let hides = hides.map(|kind| format!("st:{{b}}:1:{kind}"));
        let hides = hides.iter().map(String::as_str);
        let keys: Vec<&str> = shard.into_iter().chain(hides).chain([DAY]).collect();
        let mut args = json!({"version": version, "layout": layout(), "count": 1, "token": token});
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        run(
            &redis,
            &script::SNAPSHOT,
            &keys,
            &[&pack(&args), member.as_bytes()],
        )
        .await
    };
    assert_eq!(step("1-2", json!({}), "").await, Reply::texts(&["STALE"]));
    let first = step("1-1", json!({}), "").await;
    let [
        _,
        changed,
        count,
        links,
        is_last,
        left_out,
        last,
        entries,
        hidden,
    ] = first.list()
    else {
        panic!("{first:?}");
    };
    let (none, bob) = (Reply::List(Vec::new()), Reply::texts(&["bob", "-9"]));
    assert_eq!(
        (count, is_last, left_out),
        (&Reply::Integer(3), &Reply::Integer(0), &Reply::Integer(0))
    );
    assert_eq!((links, last, entries, hidden), (&none, &bob, &bob, &none));

    // ann passes bob, who is the last entry that was read.
    lose().await;
    let from = json!({"changed": changed.text(), "score": -9});
    let second = step("1-1", from.clone(), "bob").await;
    let [_, now, _, links, _, _, _, entries, _] = second.list() else {
        panic!("{second:?}");
    };
    assert_eq!(entries, &Reply::texts(&["cid", "-1"]));
    let beginning = format!("{}\n{}\n", changed.text(), now.text());
    let [link] = links.list() else {
        panic!("{links:?}");
    };
    assert!(link.bytes().starts_with(beginning.as_bytes()), "{link:?}");
    assert!(link.holds(DAY) && link.holds("ann"), "{link:?}");

    redis.command("DEL st:{b}:1:r:trail").await;
    lose().await;
    assert_eq!(step("1-1", from, "bob").await, Reply::texts(&["BROKEN"]));
    let is_named = redis.run(&[b"HEXISTS", b"st:{b}", b"trail"]).await;
    assert_eq!(is_named, Reply::Integer(0));
}
