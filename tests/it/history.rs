//! Events that a board keeps, by example. The property test compares entries with rows in every case.

use serde_json::{Value, json};
use standings::check::{self, Repair};
use standings::domain::ids::BoardId;

use crate::harness::jobs::{Erasures, Histories};
use crate::harness::redis::Reply;
use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";

async fn world(definition: Value) -> World {
    let world = World::with_instances(2, NOW).await;
    world.client().define("b", definition).await;
    world.engine().run(&Histories).await.unwrap();
    world
}

async fn send(client: &Client, event: Value) -> Value {
    client.post("/v1/boards/b/events", event).await.expect(200)
}

async fn list(client: &Client, query: &str) -> Vec<Value> {
    let path = format!("/v1/boards/b/events?{query}");
    let answer = client.get(&path).await.expect(200);
    answer["events"].as_array().unwrap().clone()
}

fn ids(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect()
}

/// Nothing that is stored contradicts the rest.
async fn check(world: &World) {
    let id = BoardId::parse("b").unwrap();
    let report = check::run(world.engine(), Some(&id), Repair::None)
        .await
        .unwrap();
    assert_eq!(report.findings, Vec::new(), "{:?}", report.notes);
}

/// How many rows the shards of the board have.
async fn rows(world: &World) -> i64 {
    let mut count = 0;
    for key in world.redis.keys("st:{b*:events").await {
        match world.redis.run(&[b"HLEN", key.as_bytes()]).await {
            Reply::Integer(rows) => count += rows,
            other => panic!("{other:?}"),
        }
    }
    count
}

/// The board is stored as releases without histories know it.
async fn expect_format_without_history(world: &World) {
    let stored = world
        .redis
        .run(&[b"HGET", b"st:{b}", b"definition"])
        .await
        .text();
    assert!(stored.contains(r#""data_format":2"#), "{stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_events_are_listed_with_all_that_was_sent() {
    for shards in [1, 7] {
        let world = world(json!({"windows": ["day", "all"], "history": "board", "entry_data": true, "shards": shards,
            "update": "max", "accept_late": "any"})).await;
        let client = world.client();
        let full = json!({"id": "run/1", "member": "ann", "score": 5, "voter": "v", "channel": "web", "device": "d", "ip": "203.0.113.7",
            "data": {"car": "gt-3"}, "at": "2026-11-21T11:00:00Z"});
        send(client, full.clone()).await;
        let made = send(
            client,
            json!({"member": "ann", "score": 3, "at": "2026-11-21T10:00:00Z"}),
        )
        .await;
        assert_eq!(made["status"], "unchanged", "also such an event is kept");
        let made = made["id"].as_str().unwrap();
        world.set_time("2026-11-21T12:00:01Z");
        send(client, json!({"id": "run-2", "member": "bob", "score": 4})).await;
        let all = list(client, "").await;
        assert_eq!(ids(&all)[0], "run-2");
        assert_eq!(all.len(), 3);
        let first = all.iter().find(|event| event["id"] == "run/1").unwrap();
        assert_eq!(
            *first,
            json!({"status": "kept", "id": "run/1", "member": "ann", "score": 5, "retracted": false, "revoked": false, "at": "2026-11-21T11:00:00.000Z",
            "accepted_at": "2026-11-21T12:00:00.000Z", "outcome": "applied", "voter": "v", "channel": "web", "device": "d",
            "key": null, "data": {"car": "gt-3"}})
        );
        assert_eq!(ids(&list(client, "member=ann").await), ["run/1", made]);
        for (query, expected) in [
            ("voter=v", vec!["run/1"]),
            ("channel=web&device=d&member=ann", vec!["run/1"]),
            ("member=ann&until=2026-11-21T11:00:00Z", vec![made]),
            ("member=ann&since=2026-11-21T11:00:00Z", vec!["run/1"]),
            ("since=2026-11-21T11:30:00Z", vec!["run-2"]),
            ("voter=w", vec![]),
            ("member=cho", vec![]),
        ] {
            assert_eq!(ids(&list(client, query).await), expected, "{query}");
        }
        // By its id it is found for as long as it is kept.
        world.set_time("2027-11-21T12:00:00Z");
        let status = list(client, "id=run/1").await;
        assert_eq!(status[0]["status"], "applied");
        let again = send(client, full.clone()).await;
        assert_eq!(again["status"], "duplicate");
        assert_eq!(again["standings"][0]["score"], 5);
        let mut other = full;
        other["score"] = json!(6);
        let refused = client.post("/v1/boards/b/events", other).await;
        assert_eq!(refused.json["type"], "/problems/event-id-reused");
        let export = client.get("/v1/boards/b/events/export?member=ann").await;
        assert_eq!(export.headers["content-type"], "application/x-ndjson");
        assert_eq!(export.text.lines().count(), 2);
        check(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_come_in_parts_that_lack_and_repeat_nothing() {
    for shards in [1, 3] {
        let world = world(json!({"windows": ["all"], "history": "board", "shards": shards})).await;
        let client = world.client();
        let mut expected = Vec::new();
        for batch in 0..13 {
            world.set_time(&format!("2026-11-21T12:00:{batch:02}Z"));
            let events = (0..100).map(|number| {
                json!({"board": "b", "id": format!("e{batch:02}-{number:02}"), "member": format!("m{}", number % 10), "score": 1})
            });
            let batch_ids = (0..100).map(|number| format!("e{batch:02}-{number:02}"));
            expected.extend(batch_ids);
            let events: Vec<Value> = events.collect();
            client
                .post("/v1/events", json!({"events": events}))
                .await
                .expect(200);
        }
        expected.reverse();
        for (query, wanted) in [("", None), ("member=m3&", Some('3'))] {
            let (mut found, mut after) = (Vec::new(), String::new());
            loop {
                let path = format!("/v1/boards/b/events?{query}limit=70{after}");
                let answer = client.get(&path).await.expect(200);
                found.extend(answer["events"].as_array().unwrap().clone());
                match answer["next"].as_str() {
                    Some(next) => after = format!("&after={next}"),
                    None => break,
                }
            }
            let expected: Vec<&String> = expected
                .iter()
                .filter(|id| wanted.is_none_or(|last| id.ends_with(last)))
                .collect();
            let mut found = ids(&found);
            if wanted.is_some() || shards == 1 {
                // Those of a batch are in its order.
                assert_eq!(found, expected);
            }
            found.sort_unstable();
            found.reverse();
            assert_eq!(found, expected, "{query}");
        }
        check(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_run_out_and_their_ids_are_remembered_for_a_while() {
    for (update, shards) in [("sum", 1), ("max", 7), ("last", 1)] {
        let world = world(json!({"windows": ["day", "all"], "update": update, "history": "3d", "accept_late": "2d", "shards": shards})).await;
        let client = world.client();
        for day in 21..27 {
            world.set_time(&format!("2026-11-{day}T12:00:00Z"));
            for member in ["ann", "bob", "cho"] {
                send(
                    client,
                    json!({"id": format!("{member}-{day}"), "member": member, "score": day}),
                )
                .await;
            }
            world.engine().run(&Histories).await.unwrap();
            check(&world).await;
        }
        world.set_time("2026-11-27T12:00:00Z");
        world.engine().run(&Histories).await.unwrap();
        assert_eq!(rows(&world).await, 9, "of three days");
        let again = json!({"id": "ann-23", "member": "ann", "score": 23});
        let status = send(client, again).await["status"].clone();
        assert_eq!(status, "duplicate", "for an hour");
        check(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_is_turned_on_shortened_and_off_at_any_time() {
    for shards in [1, 7] {
        let definition = |history: Value| json!({"windows": ["day", "week", "all", "last-3-days"], "carryover": {"week": 0.5}, "history": history, "shards": shards});
        let world = world(definition(Value::Null)).await;
        let client = world.client();
        let one = |id: &str| json!({"id": id, "member": "ann", "score": 5});
        send(client, one("a")).await;
        client
            .put("/v1/boards/b", definition(json!("board")))
            .await
            .expect(200);
        assert_eq!(
            send(client, one("a")).await["status"],
            "duplicate",
            "from before"
        );
        send(client, one("b")).await;
        send(client, json!({"id": "c", "member": "bob", "score": 0})).await;
        check(&world).await;
        world.engine().run(&Histories).await.unwrap();
        send(client, one("d")).await;
        check(&world).await;
        world.set_time("2026-12-21T12:00:00Z");
        send(client, one("e")).await;
        assert_eq!(rows(&world).await, 4);
        client
            .put("/v1/boards/b", definition(json!("7d")))
            .await
            .expect(200);
        world.engine().run(&Histories).await.unwrap();
        assert_eq!(rows(&world).await, 1);
        check(&world).await;
        client
            .put("/v1/boards/b", definition(Value::Null))
            .await
            .expect(200);
        send(client, one("f")).await;
        world.engine().run(&Histories).await.unwrap();
        assert_eq!(rows(&world).await, 0);
        assert_eq!(
            world.redis.keys("st:{b*:folded").await,
            Vec::<String>::new()
        );
        assert_eq!(
            world.redis.keys("st:{b*:event-index*").await,
            Vec::<String>::new()
        );
        for id in ["b", "d", "e", "f"] {
            assert_eq!(send(client, one(id)).await["status"], "duplicate", "{id}");
        }
        // An earlier release can read it again.
        expect_format_without_history(&world).await;
        client
            .put("/v1/boards/b", definition(json!("board")))
            .await
            .expect(200);
        world.engine().run(&Histories).await.unwrap();
        send(client, one("g")).await;
        check(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_leaves_keyed_hashes_of_ids_and_a_move_takes_all_along() {
    let world =
        world(json!({"windows": ["day", "all"], "history": "board", "shards": 2, "update": "max"}))
            .await;
    let client = world.client();
    // The first two members have many events.
    let events: Vec<Value> = (0..220)
        .map(|number| {
            let member = if number < 20 { number % 4 } else { number % 2 };
            json!({"board": "b", "id": format!("m{member}-{number}"), "member": format!("m{member}"), "score": number})
        })
        .collect();
    client
        .post("/v1/events", json!({"events": events}))
        .await
        .expect(200);
    for member in ["m1", "m3"] {
        client
            .delete(&format!("/v1/boards/b/members/{member}"))
            .await
            .expect(204);
        world.engine().run(&Erasures).await.unwrap();
        let mut traces = world.keys_with("st:{b*", member).await;
        traces.retain(|key| !key.starts_with("st:{boards}"));
        assert_eq!(traces, Vec::<String>::new());
    }
    let again = json!({"id": "m1-1", "member": "m1", "score": 1});
    for shards in [2, 7, 1] {
        if shards != 2 {
            world.move_to("b", shards).await;
        }
        for (query, count) in [("", 110), ("member=m0&", 105), ("member=m2&", 5)] {
            let found = list(client, &format!("{query}limit=1000")).await;
            assert_eq!(found.len(), count, "{query} {shards}");
        }
        let answer = send(client, again.clone()).await;
        assert_eq!(
            (&answer["status"], &answer["standings"]),
            (&json!("duplicate"), &json!([]))
        );
        check(&world).await;
        world.set_time(&format!("2026-11-21T12:0{shards}:00Z"));
    }
    let other = json!({"id": "m1-1", "member": "m1", "score": 2});
    let refused = client.post("/v1/boards/b/events", other).await;
    assert_eq!(refused.json["type"], "/problems/event-id-reused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_index_is_repaired_and_a_wrong_entry_is_found() {
    let world = world(json!({"windows": ["all"], "history": "board"})).await;
    let client = world.client();
    let events: Vec<Value> = (0..103)
        .map(|number| {
            let member = if number < 3 { "ann" } else { "bob" };
            json!({"board": "b", "id": format!("e{number}"), "member": member, "score": 1})
        })
        .collect();
    client
        .post("/v1/events", json!({"events": events}))
        .await
        .expect(200);
    let id = BoardId::parse("b").unwrap();
    let found = async |repair| {
        let report = check::run(world.engine(), Some(&id), repair).await.unwrap();
        let kinds = report.findings.iter();
        kinds
            .map(|finding| (finding.kind.clone(), finding.is_mended))
            .collect::<Vec<_>>()
    };
    let key = async |name: &str| {
        let keys = world.redis.keys(&format!("st:{{b}}:*{name}")).await;
        keys[0].clone()
    };
    let index = key("event-index:member").await;
    world.redis.run(&[b"HDEL", index.as_bytes(), b"ann"]).await;
    let lost = vec![("unindexed".to_owned(), false); 3];
    assert_eq!(found(Repair::None).await, lost);
    let repaired = vec![("unindexed".to_owned(), true); 3];
    assert_eq!(found(Repair::Write).await, repaired);
    assert_eq!(found(Repair::None).await, []);
    assert_eq!(list(client, "member=ann").await.len(), 3);
    for lost in [":member", ":member:many"] {
        let lost = key(&format!("event-index{lost}")).await;
        world.redis.run(&[b"DEL", lost.as_bytes()]).await;
        assert!(!found(Repair::Write).await.is_empty());
        assert_eq!(found(Repair::None).await, [], "{lost}");
        for (member, count) in [("ann", 3), ("bob", 100)] {
            let query = format!("member={member}&limit=1000");
            assert_eq!(list(client, &query).await.len(), count, "{lost}");
        }
    }

    // A row that is lost is in both indexes still, and the entry says what it was.
    let rows = key(":events").await;
    world.redis.run(&[b"HDEL", rows.as_bytes(), b"e1"]).await;
    let dangling = |is_mended| ("dangling".to_owned(), is_mended);
    let entry = || ("entry".to_owned(), false);
    assert_eq!(
        found(Repair::Write).await,
        [dangling(true), dangling(true), entry()]
    );
    assert_eq!(found(Repair::None).await, [entry()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_those_who_moderate_or_configure_list_all_events() {
    let world = World::with_keys(1, NOW, "read:a-reader,write:a-writer,admin:an-admin").await;
    let client = |key: &str| world.client().with_key(key);
    let definition = json!({"windows": ["all"], "history": "board"});
    client("an-admin").define("b", definition).await;
    send(
        &client("a-writer"),
        json!({"id": "e", "member": "ann", "score": 1}),
    )
    .await;
    let all = list(&client("an-admin"), "").await;
    assert_eq!(all[0]["key"], "configuration:write");
    assert_eq!(
        ids(&list(&client("an-admin"), "key=configuration:write").await),
        ["e"]
    );
    let path = "/v1/boards/b/events";
    let refused = client("a-writer").get(path).await;
    refused.expect_problem(400, "invalid-parameter");
    client("a-reader")
        .get(path)
        .await
        .expect_problem(403, "forbidden");
    assert_eq!(
        list(&client("a-writer"), "id=e").await[0]["status"],
        "applied"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_ends_once_the_data_of_erased_members_is_removed_and_their_ids_may_be_forgotten()
{
    let on = json!({"windows": ["all"], "history": "board"});
    let world = world(on.clone()).await;
    let client = world.client();
    let event = |member: &str| json!({"id": format!("{member}-1"), "member": member, "score": 1, "at": "2026-11-21T12:00:50Z"});
    for member in ["ann", "bob"] {
        send(client, event(member)).await;
    }
    client.delete("/v1/boards/b/members/ann").await.expect(204);
    world.engine().run(&Erasures).await.unwrap();
    // Another instance erases this member, and takes its time.
    let registry = world.redis.keys("st:{b}:*:keys").await;
    let erasing = registry[0].replace(":keys", ":erasing");
    let erasing = erasing.as_bytes();
    world.redis.run(&[b"HSET", erasing, b"bob", b"0   "]).await;
    client
        .put("/v1/boards/b", json!({"windows": ["all"]}))
        .await
        .expect(200);
    for (time, left) in [("12:00:01", 2), ("12:02:00", 1), ("13:05:00", 0)] {
        if left == 1 {
            world.redis.run(&[b"HDEL", erasing, b"bob"]).await;
        }
        world.set_time(&format!("2026-11-21T{time}Z"));
        world.engine().run(&Histories).await.unwrap();
        assert_eq!(rows(&world).await, left, "{time}");
        if left > 0 {
            let again = send(client, event("ann")).await;
            assert_eq!(again["status"], "duplicate", "{time}");
        }
    }
    expect_format_without_history(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_a_history_leaves_what_only_looks_like_a_folded_entry() {
    let definition =
        |history: Value| json!({"windows": ["all"], "history": history, "uniques": "member"});
    let world = world(definition(json!("board"))).await;
    let client = world.client();
    send(
        client,
        json!({"id": "e", "member": "x:folded", "score": 1, "voter": "v"}),
    )
    .await;
    let voters = world.redis.keys("st:{b}*x:folded").await;
    assert_eq!(voters.len(), 1);
    client
        .put("/v1/boards/b", definition(Value::Null))
        .await
        .expect(200);
    world.engine().run(&Histories).await.unwrap();
    assert_eq!(world.redis.keys("st:{b}*x:folded").await, voters);
}
