//! Scripts that hide members.

use serde_json::{Value, json};
use standings::redis::script;

use super::{AT, board, pack, run};
use crate::harness::RedisServer;
use crate::harness::redis::Reply;

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
async fn a_hide_has_a_journal_line_and_repeating_it_changes_nothing() {
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
        let members = reply.list()[2]
            .list()
            .chunks(2)
            .map(|pair| pair[0].text())
            .collect::<Vec<_>>();
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
async fn a_long_journal_drops_members_unhidden_long_ago() {
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
async fn restored_erasures_replace_only_earlier_ones_under_the_same_key() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let keys = ["st:{b}", "st:{b}:1:keys"];
    let restore = async |key: &str, number: u64| {
        let erasures = json!([["name", number, AT]]);
        let args = json!({"version": "1-1", "key": key, "erasures": erasures});
        run(&redis, &script::RESTORE_ERASURES, &keys, &[&pack(&args)]).await
    };
    let list = async || {
        let args = json!({"version": "1-1", "cursor": "0", "count": 10});
        run(&redis, &script::LIST_ERASURES, &keys, &[&pack(&args)]).await
    };
    assert_eq!(list().await, Reply::texts(&["OK", "0", ""]));
    for (key, number, reply) in [("k", 5, "OK"), ("k", 4, "OK"), ("other", 9, "OTHER")] {
        assert_eq!(restore(key, number).await, Reply::texts(&[reply]));
        let at = AT.to_string();
        let known = Reply::texts(&["OK", "0", "k", "name", "5", &at]);
        assert_eq!(list().await, known, "{key} {number}");
    }
}
