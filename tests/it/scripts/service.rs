//! Scripts of API keys, the audit log and profiles.

use standings::redis::script;

use super::run;
use crate::harness::RedisServer;
use crate::harness::redis::Reply;

#[tokio::test(flavor = "multi_thread")]
async fn an_api_key_changes_only_if_seen_and_is_announced_in_the_same_step() {
    let redis = RedisServer::start().await;
    let parts = ["names", "changes", "sequence", "epoch"].map(|part| format!("api-key-{part}"));
    let others = ["api-keys", "api-key-uses"].map(str::to_owned);
    let keys: Vec<String> = parts
        .into_iter()
        .chain(others)
        .map(|name| format!("st:{{boards}}:{name}"))
        .collect();
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
async fn the_audit_log_knows_a_bounded_number_of_members_and_drops_the_oldest() {
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
async fn names_are_listed_after_any_place_by_their_reviews() {
    let redis = RedisServer::start().await;
    let key = "st:{profiles:07}:pending";
    redis
        .command(&format!("ZADD {key} 0 b 0 a 5 Ä 5 Z 5 d 7 a2"))
        .await;
    let keys = ["st:{profiles:07}:blocked", key, "st:{profiles:07}:approved"];
    for (at, member, found) in [
        ("-1", "", &["a", "0", "b", "0"][..]),
        ("0", "a", &["b", "0", "Z", "5"]),
        // That member is not in the list any more.
        ("5", "a", &["d", "5", "Ä", "5"]),
        ("5", "d", &["Ä", "5", "a2", "7"]),
        ("6", "d", &["a2", "7"]),
        ("7", "a2", &[]),
    ] {
        let args = ["2", at, member, "2"].map(str::as_bytes);
        let listed = run(&redis, &script::REVIEWS, &keys, &args).await;
        let counts = [0, 6, 0].map(Reply::Integer).to_vec();
        let expected = [Reply::List(counts), Reply::texts(found)].to_vec();
        assert_eq!(listed, Reply::List(expected), "{at} {member}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_changes_only_if_the_stored_one_was_seen() {
    let redis = RedisServer::start().await;
    let profile = |member: &str| format!("st:{{profiles:07}}:p:{member}");
    let sets = ["pending", "approved", "blocked", "words", "words-state"];
    let sets = sets.map(|set| format!("st:{{profiles:07}}:{set}"));
    let write = async |writes: &[[&'static str; 4]]| {
        let profiles = writes.iter().map(|[member, ..]| profile(member));
        let keys: Vec<String> = sets.iter().cloned().chain(profiles).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let with_words = |[member, seen, new, status]: &[&'static str; 4]| {
            [*member, seen, new, status, "word\n", "word\n", "5"].map(str::as_bytes)
        };
        let args: Vec<&[u8]> = writes.iter().flat_map(with_words).collect();
        run(&redis, &script::PROFILES, &keys, &args).await
    };
    let members = async |set: &str| redis.command(&format!("ZRANGE {set} 0 -1")).await;
    let first = [
        ["ann", "", "{1}", "1"],
        ["ann", "{1}", "{2}", "2"],
        ["bob", "{0}", "{1}", "1"],
        ["ann", "*", "", "0"],
    ];
    assert_eq!(
        write(&first).await,
        Reply::texts(&["OK", "OK", "CHANGED", "CHANGED"])
    );
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
