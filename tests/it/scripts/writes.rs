//! Scripts that apply events.

use serde_json::{Value, json};
use standings::redis::script;

use super::{
    AT, DAY, EVENT, Event, LOSS, apply, apply_args, board, close_shard, pack, record, run,
    run_apply,
};
use crate::harness::RedisServer;
use crate::harness::redis::Reply;

#[tokio::test(flavor = "multi_thread")]
async fn apply_adds_remembers_and_refuses() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let event = |amount, fingerprint| Event {
        amount,
        fingerprint,
        ..LOSS
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
async fn a_barrier_never_falls_and_earlier_events_are_refused_unless_known() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let event = |id, refusal| Event {
        id,
        detail: 0,
        refusal,
        ..LOSS
    };
    let at_ms = i64::try_from((AT - 2_208_988_800_000_000) / 1_000).unwrap();
    let close = async |version: &str, until_ms: i64| {
        let until = until_ms.to_string();
        let reply = close_shard(&redis, version, &until).await;
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
async fn a_failing_call_of_apply_stops_before_its_first_write_or_keeps_its_writes() {
    let redis = RedisServer::start().await;
    board(&redis).await;
    let args = apply_args("1-1", &LOSS);
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
