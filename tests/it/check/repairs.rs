//! A repair takes nothing away that follows from other data, and removes nothing without permission.

use super::*;

/// A stored entry of a hash, with another score.
fn with_score(stored: &[u8], score: f64) -> Vec<u8> {
    let mut stored = stored.to_vec();
    stored[7..15].copy_from_slice(&score.to_be_bytes());
    stored
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_score_is_restored_from_the_list_if_a_third_key_agrees() {
    for (definition, is_shown) in [
        (json!({"windows": ["day"]}), false),
        (json!({"windows": ["day"], "uniques": "board"}), true),
        (json!({"windows": ["day"], "ranking": "dense"}), true),
        (
            json!({"windows": ["day"], "update": "last", "ties": "member", "uniques": "board"}),
            true,
        ),
    ] {
        let world = world(&definition).await;
        let before = snapshot(&world).await;
        let hash = key_of(&world, "day:2026-11-21:members").await;
        let stored = run(&world, &["HGET", &hash, "ann"]).await.bytes().to_vec();
        let words = [
            b"HSET",
            hash.as_bytes(),
            b"ann",
            &with_score(&stored, -77.0),
        ];
        world.redis.run(&words).await;
        let damaged = snapshot(&world).await;
        let report = checked(&world, Repair::Remove).await;
        assert_eq!(kinds(&report.findings), [("score", "ann")], "{report:?}");
        assert_eq!(report.is_sound(), is_shown, "{report:?}");
        let expected = if is_shown { before } else { damaged };
        assert_eq!(snapshot(&world).await, expected, "{definition}");
        // What is no score is wrong.
        let words = [b"HSET", hash.as_bytes(), b"ann", &with_score(&stored, 0.5)];
        world.redis.run(&words).await;
        let report = checked(&world, Repair::Write).await;
        let follows = definition["ties"] != "member";
        assert_eq!(report.is_sound(), follows, "{report:?}");
        let restored = run(&world, &["HGET", &hash, "ann"]).await.bytes().to_vec();
        assert_eq!(restored == stored, follows, "{definition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_expiry_that_most_keys_of_a_standing_have_is_restored() {
    // Of another revision it is not known what the definition said when the standing began.
    for (retention, persisted) in [(json!({}), false), (json!({"day": "30d"}), true)] {
        let definition = json!({"windows": ["day"], "uniques": "board", "ranking": "dense", "retention": retention});
        let world = world(&definition).await;
        let mut changed = definition.clone();
        changed["retention"] = if persisted {
            json!({})
        } else {
            json!({"day": "30d"})
        };
        world.client().define("b", changed).await;
        let before = snapshot(&world).await;
        let day = key_of(&world, "day:2026-11-21").await;
        for part in ["", ":members", ":scores", ":total"] {
            let key = format!("{day}{part}");
            if persisted {
                run(&world, &["PERSIST", &key]).await;
            } else {
                run(&world, &["EXPIRE", &key, "100000"]).await;
            }
            let report = checked(&world, Repair::Write).await;
            assert_eq!(kinds(&report.findings), [("expiry", "")], "{report:?}");
            assert!(report.is_sound());
            assert_eq!(snapshot(&world).await, before);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standing_that_may_have_had_no_expiry_is_rebuilt() {
    let world = world(&json!({"windows": ["day"]})).await;
    let kept = json!({"windows": ["day"], "retention": {"day": "30d"}});
    world.client().define("b", kept).await;
    let hash = key_of(&world, "day:2026-11-21:members").await;
    run(&world, &["DEL", &hash]).await;
    world.set_time("2027-06-01T00:00:00Z");
    let report = check(&world, true).await;
    let lost = ["ann", "bob", "cid", "dan"].map(|member| ("no_member", member));
    assert_eq!(kinds(&report.findings), lost, "{report:?}");
    assert!(report.is_sound());
    assert_eq!(run(&world, &["HLEN", &hash]).await, Reply::Integer(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_list_is_not_dropped_if_only_it_hides_a_member() {
    for damage in [
        &["ZINCRBY", "JOURNAL", "1", "bob"][..],
        &["DEL", "JOURNAL"],
        &["ZREM", "JOURNAL", "bob"],
    ] {
        let world = world(&json!({"windows": ["day"]})).await;
        for member in ["bob", "dan"] {
            let path = format!("/v1/boards/b/hidden/{member}");
            let hide = json!({"reason": "cheating"});
            world.client().put(&path, hide).await.expect(200);
        }
        let shown = read(&world, "b").await;
        let journals = world.redis.keys("st:{b}:*:hide-journal").await;
        let words = damage.iter().map(|word| match *word {
            "JOURNAL" => journals[0].as_str(),
            other => other,
        });
        run(&world, &words.collect::<Vec<_>>()).await;
        let lists = world.redis.keys("st:*:s:day:2026-11-21:hidden-list").await;
        let list = lists[0].as_str();
        let listed = run(&world, &["ZRANGE", list, "0", "-1", "WITHSCORES"]).await;
        check::run(world.engine(), None, Repair::Remove)
            .await
            .unwrap();
        let now = run(&world, &["ZRANGE", list, "0", "-1", "WITHSCORES"]).await;
        assert_eq!(now, listed, "{damage:?}");
        assert_eq!(read(&world, "b").await, shown, "{damage:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_derived_standing_without_its_state_is_rebuilt_from_scratch() {
    let world = world(&json!({"windows": ["day", "last-2-days"]})).await;
    let shown = read(&world, "b").await;
    let rolling = key_of(&world, "last-2-days:2026-11-21").await;
    let eve = "\0\0\0\0\0\0\u{1}eve";
    run(&world, &["ZADD", &rolling, "-1000", eve]).await;
    let state = world.redis.keys("st:{b}:*:state:last-2-days").await;
    run(&world, &["DEL", &state[0]]).await;
    assert_eq!(read(&world, "b").await, shown);
    assert_eq!(kinds(&check(&world, false).await.findings), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_removes_nothing_without_permission() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let program = Program::serve(directory.path()).await;
    program
        .client()
        .define("b", json!({"windows": ["day"]}))
        .await;
    let event = json!({"member": "ann", "score": 5});
    let sent = program.client().post("/v1/boards/b/events", event).await;
    sent.expect(200);
    let socket = directory.path().join("redis.sock");
    let run = async |words: &[&[u8]]| crate::harness::redis::run(&socket, words).await;
    let keys = run(&[b"KEYS", b"st:{b}:*:members"]).await;
    let day = keys.list()[0].text();
    let day = day.strip_suffix(":members").unwrap().as_bytes();
    run(&[b"ZADD", day, b"-7", b"\0\0\0\0\0\0\x01ann"]).await;
    let words = ["check", "--repair", "--data-dir", data];
    for _ in 0..2 {
        let (status, told) = Program::run_alone(&words).await;
        let found = "1 contradictions, 0 of them repaired, 1 to be removed (--yes)\n";
        assert!(status == 1 && told.ends_with(found), "{status} {told}");
        assert!(told.contains(" (to be removed)\n"), "{told}");
        assert_eq!(run(&[b"ZCARD", day]).await, Reply::Integer(2));
    }
    let words = ["check", "--repair", "--yes", "--data-dir", data];
    let (status, told) = Program::run_alone(&words).await;
    assert!(
        status == 0 && told.ends_with("1 of them repaired\n"),
        "{told}"
    );
    assert_eq!(run(&[b"ZCARD", day]).await, Reply::Integer(1));
    program.stop().await;
}
