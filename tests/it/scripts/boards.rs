//! Scripts of definitions, announcements and leases.

use standings::redis::script;

use super::{DAY, board, run};
use crate::harness::RedisServer;
use crate::harness::redis::Reply;

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_keeps_the_newest_definition_it_received() {
    let redis = RedisServer::start().await;
    let head = "st:{b:4:0}";
    for (generation, revision, version, reply) in [
        ("1", "2", "1-2", &["OK"][..]),
        ("1", "1", "1-2", &["OK", "2"]),
        ("1", "10", "1-10", &["OK"]),
        ("1", "10", "1-10", &["OK"]),
        ("2", "1", "2-1", &["OK"]),
        ("1", "11", "2-1", &["STALE"]),
        // A deletion, and the next board.
        ("3", "0", "3-0", &["OK"]),
        ("2", "2", "3-0", &["STALE"]),
        ("4", "1", "4-1", &["OK"]),
    ] {
        let lasts = if revision == "0" { "60000" } else { "" };
        let args = [generation, revision, lasts].map(str::as_bytes);
        let told = run(&redis, &script::SHARD, &[head], &args).await;
        assert_eq!(told, Reply::texts(reply));
        let known = redis.run(&[b"HGET", head.as_bytes(), b"version"]).await;
        assert_eq!(known.text(), version);
        let ends = redis.run(&[b"PTTL", head.as_bytes()]).await;
        assert_eq!(
            ends != Reply::Integer(-1),
            version.ends_with("-0"),
            "{version}"
        );
    }
    board(&redis).await;
    let mark =
        async |version: &str| run(&redis, &script::USE, &["st:{b}"], &[version.as_bytes()]).await;
    assert_eq!(mark("1-2").await, Reply::texts(&["STALE"]));
    assert_eq!(mark("1-1").await, Reply::texts(&["OK"]));
    let used = redis.run(&[b"HGET", b"st:{b}", b"used"]).await;
    assert_eq!(used.text(), "1-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_changes_only_if_the_stored_one_was_seen() {
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
    let delete = async |seen: &str| {
        let args = [seen, "5", "{}", "60000"].map(str::as_bytes);
        run(&redis, &script::DELETE, &["st:{b}"], &args).await
    };
    assert_eq!(delete("1-2").await, Reply::texts(&["CHANGED"]));
    assert_eq!(delete("1-4").await, Reply::texts(&["OK"]));
    assert_eq!(purge().await, Reply::texts(&["DONE"]));
    // Only the proof is left, until it expires.
    assert_eq!(redis.run(&[b"DBSIZE"]).await, Reply::Integer(1));
    assert_ne!(redis.run(&[b"PTTL", b"st:{b}"]).await, Reply::Integer(-1));

    assert_eq!(define("", "", "6-1").await, "CHANGED", "not finished");
    redis.run(&[b"HDEL", b"st:{b}", b"unfinished:5"]).await;
    assert_eq!(define("", "", "5-1").await, "CHANGED", "from before");
    assert_eq!(define("", "", "6-1").await, "OK");
    assert_eq!(redis.run(&[b"PTTL", b"st:{b}"]).await, Reply::Integer(-1));
    let proof = redis.run(&[b"HGET", b"st:{b}", b"deleted"]).await;
    assert_eq!(proof.text(), "5");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_gets_its_own_stamp_and_is_announced() {
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

    let keys = ["live", "changes", "sequence", "epoch", "begun"]
        .map(|name| format!("st:{{boards}}:{name}"));
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
async fn the_lease_of_a_board_has_one_holder_at_a_time() {
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
async fn a_note_made_after_the_last_look_stays() {
    let redis = RedisServer::start().await;
    let key = "st:{boards}:outboxes";
    let call = async |script, board: &str, note: &str| {
        let args = [board, note].map(str::as_bytes);
        assert_eq!(
            run(&redis, script, &[key], &args).await,
            Reply::texts(&["OK"])
        );
    };
    call(&script::NOTE, "1 b", "one").await;
    call(&script::NOTE, "1 b", "two").await;
    call(&script::NOTE, "1 c", "three").await;
    call(&script::FORGET_NOTE, "1 b", "one").await;
    let notes = redis.run(&[b"HGETALL", key.as_bytes()]).await;
    assert_eq!(notes, Reply::texts(&["1 b", "two", "1 c", "three"]));
    call(&script::FORGET_NOTE, "1 b", "two").await;
    let notes = redis.run(&[b"HGETALL", key.as_bytes()]).await;
    assert_eq!(notes, Reply::texts(&["1 c", "three"]));
}
