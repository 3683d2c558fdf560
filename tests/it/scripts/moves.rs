//! Scripts that copy a shard.

use serde_json::{Value, json};
use standings::redis::kinds::{Copying, Kind};
use standings::redis::script;

use super::{DAY, EVENT, Event, LOSS, apply, board, layout, pack, record, run};
use crate::harness::RedisServer;
use crate::harness::redis::Reply;

/// How each kind is copied, as changes.lua is told.
fn copying() -> Value {
    let kinds = Kind::ALL.iter();
    kinds
        .map(|kind| (kind.code(), json!(kind.copying())))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_during_the_copy_of_a_shard_are_noted_and_copied() {
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
    let event = Event { detail: 0, ..LOSS };
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
        async |revision: &[u8]| run(&redis, &script::SHARD, &[head], &[b"1", revision, b""]).await;
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
        let args =
            pack(&json!({"generation": "1", "fingerprints": [fingerprint, 1], "confirm": true}));
        let keys = ["st:{b}", EVENT, "st:{b}:1:e:other"];
        run(&redis, &script::RECALL, &keys, &[&args])
            .await
            .list()
            .to_vec()
    };
    let known = Reply::List(vec![Reply::Integer(1), Reply::Text(record(77, 0, &[]))]);
    let unknown = Reply::Text(Vec::new());
    assert_eq!(recall(77).await, [ok(), known, unknown]);
    assert_eq!(recall(78).await[1], Reply::List(vec![Reply::Integer(2)]));

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
async fn changes_of_every_copied_kind_can_be_read() {
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
            | Copying::Rows
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
