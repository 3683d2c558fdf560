//! Votes: weights, initial scores, unique voters, and boards that list the first only.

use serde_json::{Value, json};

use crate::harness::jobs::Purge;
use crate::harness::redis::Reply;
use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";

async fn world(definition: Value) -> World {
    let world = World::with_instances(2, NOW).await;
    world.client().define("v", definition).await;
    world
}

async fn vote(client: &Client, member: &str, event: Value) -> Value {
    let mut body = json!({"member": member, "score": 1});
    let fields = event.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    client.post("/v1/boards/v/events", body).await.expect(200)
}

async fn set_initial(client: &Client, scores: Value) -> Value {
    let body = json!({"scores": scores});
    let answer = client.patch("/v1/boards/v/initial-scores", body).await;
    answer.expect(200)["members"].clone()
}

/// Reads something of a window: `day`, `day/stats?raw=true`.
async fn read(client: &Client, what: &str) -> Value {
    let path = format!("/v1/boards/v/standings/{what}");
    client.get(&path).await.expect(200)
}

/// Members and scores of a page.
fn scores(page: &Value) -> Vec<(String, f64)> {
    let entries = page["entries"].as_array().unwrap().iter();
    let score = |entry: &Value| {
        (
            entry["member"].as_str().unwrap().to_owned(),
            entry["score"].as_f64().unwrap(),
        )
    };
    entries.map(score).collect()
}

fn expected(scores: &[(&str, f64)]) -> Vec<(String, f64)> {
    let scores = scores.iter();
    scores
        .map(|(member, score)| ((*member).to_owned(), *score))
        .collect()
}

/// Deletes the board, and checks that nothing of it is left.
async fn expect_no_traces(world: &World) {
    world.client().delete("/v1/boards/v").await.expect(204);
    world.engine().run(&Purge).await.unwrap();
    assert_eq!(world.redis.leftover("st:{v}*").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vote_counts_by_its_weight_and_the_raw_track_counts_it_once() {
    let world = world(json!({
        "windows": ["day", "week", "last-2-days"], "carryover": {"week": 0.5}, "decimals": 1,
        "weight": {"default": 2, "members": {"alice": 3}}}))
    .await;
    let client = world.client();
    vote(client, "alice", json!({"score": 1.1})).await;
    let outcome = vote(client, "alice", json!({})).await;
    let day = &outcome["standings"][0];
    assert_eq!(
        (&day["previous_score"], &day["score"]),
        (&json!(3.3), &json!(6.3))
    );
    assert_eq!(outcome["standings"][2]["score"], 6.3);
    for _ in 0..3 {
        vote(client, "bob", json!({})).await;
    }

    let shown = expected(&[("alice", 6.3), ("bob", 6.0)]);
    let raw = expected(&[("bob", 3.0), ("alice", 2.1)]);
    for window in ["day", "week", "last-2-days"] {
        assert_eq!(scores(&read(client, window).await), shown, "{window}");
        let page = read(client, &format!("{window}?raw=true")).await;
        assert_eq!(scores(&page), raw, "{window}");
    }
    let next = "week?key=2026-11-23";
    // floor(1.65) + floor(1.5), and floor(0.55) + floor(0.5).
    assert_eq!(read(client, next).await["entries"][0]["score"], 3.1);
    let page = read(client, &format!("{next}&raw=true")).await;
    assert_eq!(scores(&page), expected(&[("bob", 1.5), ("alice", 1.0)]));

    let alice = read(client, "day/members/alice?raw=true").await;
    assert_eq!(
        (&alice["rank"], &alice["ahead"]["gap"]),
        (&json!(2), &json!(0.9))
    );
    let both = read(client, "day/members?ids=alice,bob&raw=true").await;
    assert_eq!(both["entries"][1]["score"], 2.1);
    let query = json!({"queries": [{"type": "page", "board": "v", "window": "day", "raw": true}]});
    let results = client.post("/v1/standings/query", query).await.expect(200);
    assert_eq!(
        scores(&results["results"][0]),
        expected(&[("bob", 3.0), ("alice", 2.1)])
    );
    client
        .get("/v1/boards/v/standings/day?raw=real")
        .await
        .expect_problem(400, "invalid-parameter");

    let huge = json!({"member": "alice", "score": 33_333_333_333_334_i64});
    client
        .define(
            "w",
            json!({"windows": ["all"], "decimals": 1, "weight": {"members": {"alice": 3}}}),
        )
        .await;
    let detail = client
        .post("/v1/boards/w/events", huge)
        .await
        .expect_problem(422, "score-out-of-range");
    assert!(detail.contains("all"), "{detail}");
    let weight = json!({"windows": ["day", "week", "last-2-days"], "carryover": {"week": 0.5}, "decimals": 1});
    client
        .put("/v1/boards/v", weight)
        .await
        .expect_problem(409, "board-in-use");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_raw_track_needs_the_scope_to_configure() {
    let world = World::with_keys(1, NOW, "read:a-reader,write:a-writer,admin:an-admin").await;
    let (read, write, admin) = (
        world.client().with_key("a-reader"),
        world.client().with_key("a-writer"),
        world.client().with_key("an-admin"),
    );
    admin
        .define("v", json!({"windows": ["day"], "weight": {"default": 2}}))
        .await;
    vote(&write, "alice", json!({})).await;
    for what in ["day", "day/members/alice", "day/members", "day/stats"] {
        let ids = if what.ends_with("members") {
            "&ids=alice"
        } else {
            ""
        };
        let path = |raw: bool| format!("/v1/boards/v/standings/{what}?raw={raw}{ids}");
        read.get(&path(false)).await.expect(200);
        read.get(&path(true)).await.expect_problem(403, "forbidden");
        let refused = write.get(&path(true)).await;
        refused.expect_problem(403, "forbidden");
        admin.get(&path(true)).await.expect(200);
    }
    let query = json!({"queries": [
        {"type": "page", "board": "v", "window": "day", "raw": true},
        {"type": "member", "board": "v", "window": "day", "member": "alice"}]});
    let answer = read
        .post("/v1/standings/query", query.clone())
        .await
        .expect(200);
    assert_eq!(answer["results"][0]["problem"]["status"], 403);
    assert_eq!(answer["results"][1]["score"], 2);
    let answer = admin.post("/v1/standings/query", query).await.expect(200);
    assert_eq!(answer["results"][0]["entries"][0]["score"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_have_their_initial_scores_from_the_start_of_every_period() {
    let world = world(json!({
        "windows": ["day", "all", "last-2-days"], "initial": ["day", "all"], "carryover": {"day": 0.5}}))
    .await;
    let [client, other] = [&world.instances[0].client, &world.instances[1].client];
    vote(client, "alice", json!({"score": 4})).await;
    assert_eq!(
        set_initial(client, json!({"alice": 100, "bob": 0, "carol": -7})).await,
        3
    );
    assert_eq!(
        scores(&read(other, "day").await),
        expected(&[("alice", 104.0), ("bob", 0.0), ("carol", -7.0)])
    );
    let bob = read(other, "day/members/bob").await;
    assert_eq!(bob["reached_at"], "2026-11-21T00:00:00.000Z");
    assert_eq!(
        bob["previous"]["score"], 0,
        "also in a period without events"
    );
    assert_eq!(
        read(other, "all/members/bob").await["reached_at"],
        "1900-01-01T00:00:00.000Z"
    );
    assert_eq!(
        scores(&read(other, "day?raw=true").await),
        expected(&[("alice", 4.0)])
    );
    assert_eq!(
        scores(&read(other, "last-2-days").await),
        expected(&[("alice", 4.0)])
    );
    // What is carried over is added.
    assert_eq!(
        scores(&read(other, "day?key=2026-11-22").await),
        expected(&[("alice", 102.0), ("bob", 0.0), ("carol", -7.0)])
    );

    // At midnight nobody is missing, not for a moment, and no job has run.
    world.set_time("2026-11-23T00:00:00Z");
    let outcome = client
        .post(
            "/v1/boards/v/events?ranks=true",
            json!({"member": "bob", "score": 3}),
        )
        .await
        .expect(200);
    assert_eq!(
        outcome["standings"][0],
        json!({"window": "day", "key": "2026-11-23", "score": 3, "previous_score": 0, "rank": 2, "previous_rank": 2})
    );
    assert_eq!(
        scores(&read(other, "day").await),
        expected(&[("alice", 100.0), ("bob", 3.0), ("carol", -7.0)])
    );
    // A late event finds its way too.
    let late = vote(client, "dan", json!({"at": "2026-11-22T23:59:59Z"})).await;
    assert_eq!(late["standings"][0]["previous_score"], Value::Null);
    assert_eq!(
        read(other, "day/members/dan?key=previous").await["score"],
        1
    );

    // A change is there in all periods at once; null takes it away.
    assert_eq!(
        set_initial(other, json!({"alice": null, "carol": 5, "dan": 9})).await,
        3
    );
    let today = expected(&[("dan", 9.0), ("carol", 5.0), ("bob", 3.0)]);
    assert_eq!(scores(&read(client, "day").await), today);
    let page = read(client, "day?key=2026-11-21&member=alice").await;
    assert_eq!(
        scores(&page),
        expected(&[("dan", 9.0), ("carol", 5.0), ("alice", 4.0), ("bob", 0.0)])
    );
    assert_eq!(page["me"]["rank"], 3);

    let initial = async |query: &str| {
        let path = format!("/v1/boards/v/initial-scores?{query}");
        client.get(&path).await
    };
    assert_eq!(
        initial("limit=2").await.expect(200),
        json!({"board": "v", "total": 3, "next": "5:carol",
               "entries": [{"member": "dan", "score": 9}, {"member": "carol", "score": 5}]})
    );
    // The list goes on behind who was last, also when that one is gone.
    set_initial(other, json!({"carol": null, "eve": 7, "finn": 2, "bob": 3})).await;
    let rest = initial("limit=2&after=5:carol").await.expect(200);
    assert_eq!(scores(&rest), expected(&[("bob", 3.0), ("finn", 2.0)]));
    assert_eq!((&rest["total"], &rest["next"]), (&json!(4), &Value::Null));
    for wrong in [
        "after=carol",
        "after=1.234:a",
        "after=5:",
        "limit=0",
        "limit=1001",
        "page=1",
    ] {
        initial(wrong)
            .await
            .expect_problem(400, "invalid-parameter");
    }
    client
        .get("/v1/boards/v/standings/day?key=2026-11-25")
        .await
        .expect_problem(400, "invalid-parameter");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_initial_scores_are_refused_and_change_nothing() {
    let world = world(json!({"windows": ["day"], "initial": ["day"], "decimals": 2})).await;
    let client = world.client();
    let put = async |board: &str, body: Value| {
        let path = format!("/v1/boards/{board}/initial-scores");
        client.patch(&path, body).await
    };
    for (scores, pointer) in [
        (json!({"a": 1, "b/c": 1.234}), "/scores/b~1c"),
        (json!({"a": 1, "b": "2"}), "/scores/b"),
        (json!({"a": 1e300}), "/scores/a"),
        (json!({}), "/scores"),
        (json!({"": 1}), "/scores/"),
    ] {
        let answer = put("v", json!({"scores": scores})).await;
        assert_eq!(
            answer.json["errors"][0]["pointer"], pointer,
            "{}",
            answer.text
        );
        answer.expect_problem(422, "validation-failed");
    }
    let many: serde_json::Map<String, Value> = (0..10_001)
        .map(|number| (number.to_string(), json!(1)))
        .collect();
    put("v", json!({"scores": many}))
        .await
        .expect_problem(422, "validation-failed");
    put("w", json!({"scores": {"a": 1}}))
        .await
        .expect_problem(404, "board-not-found");
    client.define("none", json!({"windows": ["day"]})).await;
    put("none", json!({"scores": {"a": 1}}))
        .await
        .expect_problem(422, "validation-failed");
    assert_eq!(read(client, "day").await["total"], 0);

    vote(client, "a", json!({"score": 9_999_999_999_999.95})).await;
    let beyond = put("v", json!({"scores": {"b": 1, "a": 0.05}})).await;
    assert_eq!(
        beyond.json["errors"][0]["pointer"], "/scores/a",
        "{}",
        beyond.text
    );
    assert_eq!(read(client, "day").await["total"], 1);
    // With scores of their own the board is in use.
    client
        .define("x", json!({"windows": ["day", "all"], "initial": ["day"]}))
        .await;
    put("x", json!({"scores": {"a": 1}})).await.expect(200);
    let other = json!({"windows": ["day", "all"], "initial": ["all"]});
    client
        .put("/v1/boards/x", other)
        .await
        .expect_problem(409, "board-in-use");
    let full = json!({"member": "a", "score": 9_007_199_254_740_991_i64});
    client
        .post("/v1/boards/x/events", full)
        .await
        .expect_problem(422, "score-out-of-range");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_initial_scores_are_one_request_and_are_complete_by_the_next_read() {
    let world =
        world(json!({"windows": ["day", "all"], "initial": ["day", "all"], "ranking": "dense"}))
            .await;
    let [client, other] = [&world.instances[0].client, &world.instances[1].client];
    let scores: serde_json::Map<String, Value> = (0..10_000)
        .map(|number| (format!("m{number}"), json!(number / 2)))
        .collect();
    assert_eq!(set_initial(client, Value::Object(scores)).await, 10_000);
    world.set_time("2026-11-23T00:00:00Z");
    let page = read(other, "day?page=10000&size=1&member=m9998").await;
    assert_eq!(
        (&page["total"], &page["me"]["rank"]),
        (&json!(10_000), &json!(1))
    );
    assert_eq!(page["entries"][0]["rank"], 5_000);
    expect_no_traces(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn voters_are_counted_once_in_each_standing() {
    let world = world(json!({
        "windows": ["day", "last-2-days"], "uniques": "member", "timezone": "Asia/Kolkata", "decimals": 2}))
    .await;
    let client = world.client();
    let today = "2026-11-21T12:00:00Z";
    let yesterday = "2026-11-20T12:00:00Z";
    for (member, voter, at, score) in [
        ("alice", "v1", today, 0.25),
        ("alice", "v1", today, 1.0),
        ("alice", "v2", yesterday, 1.0),
        ("bob", "v1", yesterday, 2.0),
    ] {
        vote(
            client,
            member,
            json!({"voter": voter, "at": at, "score": score}),
        )
        .await;
    }
    let event = json!({"id": "x", "voter": "v9", "at": today});
    for _ in 0..2 {
        vote(client, "bob", event.clone()).await;
    }
    vote(client, "carol", json!({"at": today})).await;

    let stats = async |what: &str| {
        let stats = read(client, what).await;
        ["members", "voters", "events", "score_sum"].map(|name| stats[name].clone())
    };
    assert_eq!(
        stats("day/stats").await,
        [json!(3), json!(2), json!(4), json!(3.25)]
    );
    assert_eq!(
        stats("day/stats?key=previous").await,
        [json!(2), json!(2), json!(2), json!(3)]
    );
    assert_eq!(
        stats("last-2-days/stats").await,
        [json!(3), json!(3), json!(6), json!(6.25)]
    );
    assert_eq!(
        stats("day/stats?key=2026-10-01").await,
        [json!(0), json!(0), json!(0), json!(0)]
    );

    let voters = |page: &Value| {
        let entries = page["entries"].as_array().unwrap().iter();
        let voters = entries.map(|entry| (entry["member"].clone(), entry["voters"].clone()));
        voters.collect::<Vec<_>>()
    };
    let page = read(client, "last-2-days?member=bob").await;
    let all = [("bob", 2), ("alice", 2), ("carol", 0)]
        .map(|(member, count)| (json!(member), json!(count)));
    assert_eq!(voters(&page), all);
    assert_eq!(page["me"]["voters"], 2);
    assert_eq!(
        voters(&read(client, "last-2-days/members?ids=bob,alice,carol").await),
        all
    );
    let bob = read(client, "day/members/bob?around=1").await;
    assert_eq!(
        (&bob["voters"], &bob["around"][0]["voters"]),
        (&json!(1), &json!(1))
    );

    client.define("w", json!({"windows": ["all"]})).await;
    let plain = client
        .get("/v1/boards/w/standings/all/stats")
        .await
        .expect(200);
    assert_eq!(
        plain,
        json!({"board": "w", "window": "all", "key": "all", "starts_at": null, "ends_at": null,
               "state": "live", "members": 0, "voters": null, "events": null, "score_sum": null})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_standing_without_its_history_is_empty() {
    let world =
        world(json!({"windows": ["last-2-days"], "uniques": "board", "retention": {"day": "1d"}}))
            .await;
    let stats = read(world.client(), "last-2-days/stats?key=2026-01-01").await;
    let amounts = ["members", "voters", "events", "score_sum"].map(|name| stats[name].clone());
    assert_eq!(amounts, [0, 0, 0, 0].map(Value::from));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_voters_are_estimated_within_hyperloglogs_error() {
    const VOTERS: u32 = 20_000;
    let world =
        world(json!({"windows": ["day", "all"], "uniques": "member", "retention": {"day": "1d"}}))
            .await;
    let client = world.client();
    for first in (0..VOTERS).step_by(1_000) {
        let events: Vec<Value> = (first..first + 1_000)
            .map(|voter| json!({"board": "v", "member": if voter % 4 == 0 { "alice" } else { "bob" }, "score": 1, "voter": format!("voter-{voter}")}))
            .collect();
        client
            .post("/v1/events", json!({"events": events}))
            .await
            .expect(200);
    }
    let stats = read(client, "day/stats").await;
    assert_eq!(
        (&stats["events"], &stats["score_sum"]),
        (&json!(VOTERS), &json!(VOTERS))
    );
    let is_near = |estimate: &Value, exact: u32| {
        // Five standard errors.
        estimate.as_u64().unwrap().abs_diff(exact.into()) <= u64::from(exact / 25)
    };
    assert!(is_near(&stats["voters"], VOTERS), "{stats}");
    let page = read(client, "all").await;
    assert!(
        is_near(&page["entries"][0]["voters"], VOTERS / 4 * 3),
        "{page}"
    );
    assert!(is_near(&page["entries"][1]["voters"], VOTERS / 4), "{page}");
    // All of a period's keys end together.
    let keys = world.redis.keys("st:{v}:*day:2026-11-21*").await;
    assert_eq!(keys.len(), 7, "{keys:?}");
    for key in keys {
        let ttl = world.redis.run(&[b"PTTL", key.as_bytes()]).await;
        // To the day's end, and a day.
        assert!(
            matches!(ttl, Reply::Integer(ms) if ms > 35 * 3_600_000 && ms <= 36 * 3_600_000),
            "{key} {ttl:?}"
        );
    }
    expect_no_traces(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sum_of_scores_is_exact_beyond_the_bound_of_one_score() {
    let world =
        world(json!({"windows": ["all"], "uniques": "board", "decimals": 1, "order": "asc"})).await;
    let client = world.client();
    for number in 0..12 {
        let member = format!("m{number}");
        vote(client, &member, json!({"score": 99_999_999_999_999.5})).await;
    }
    vote(client, "d", json!({"score": 0.5})).await;
    let answer = client.get("/v1/boards/v/standings/all/stats").await;
    assert!(
        answer.text.contains("\"score_sum\":1199999999999994.5"),
        "{}",
        answer.text
    );
    vote(client, "d", json!({"score": -99_999_999_999_999.5})).await;
    let answer = client.get("/v1/boards/v/standings/all/stats").await;
    assert!(
        answer.text.contains("\"score_sum\":1099999999999995}"),
        "{}",
        answer.text
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capped_board_lists_the_best_and_keeps_every_total() {
    let world = world(json!({
        "windows": ["day"], "keep_top": 2, "score_min": 1, "uniques": "board", "ranking": "competition"}))
    .await;
    let [client, other] = [&world.instances[0].client, &world.instances[1].client];
    for (member, score) in [("a", 5), ("b", 4), ("c", 3), ("d", 1)] {
        vote(client, member, json!({"score": score})).await;
    }
    let page = read(other, "day?member=c").await;
    assert_eq!(scores(&page), expected(&[("a", 5.0), ("b", 4.0)]));
    assert_eq!(page["total"], 4);
    assert_eq!(
        page["me"],
        json!({"rank": null, "member": "c", "score": 3, "reached_at": "2026-11-21T12:00:00.000Z"})
    );
    assert_eq!(read(other, "day?page=2&size=2").await["entries"], json!([]));
    let d = read(other, "day/members/d?around=1").await;
    assert_eq!(
        d["ahead"],
        json!({"rank": 2, "member": "b", "score": 4, "gap": 3})
    );
    assert_eq!(
        [&d["rank"], &d["percentile"], &d["behind"], &d["previous"]],
        [&Value::Null; 4]
    );
    let around: Vec<&Value> = d["around"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["member"])
        .collect();
    assert_eq!(around, ["b", "d"]);
    assert_eq!(read(other, "day/members/b").await["percentile"], 66.7);
    let subset = read(other, "day/members?ids=d,c,nobody,a").await;
    let ranks: Vec<(&Value, &Value)> = subset["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["member"], &entry["rank"]))
        .collect();
    assert_eq!(
        ranks,
        [
            (&json!("a"), &json!(1)),
            (&json!("c"), &Value::Null),
            (&json!("d"), &Value::Null)
        ]
    );
    assert_eq!(subset["not_found"], json!(["nobody"]));

    // Who is behind comes in with its whole total, in the same step in which another one leaves.
    let up = client
        .post(
            "/v1/boards/v/events?ranks=true",
            json!({"member": "d", "score": 3}),
        )
        .await
        .expect(200);
    let standing = &up["standings"][0];
    assert_eq!(
        (&standing["rank"], &standing["previous_rank"]),
        (&Value::Null, &Value::Null)
    );
    let up = client
        .post(
            "/v1/boards/v/events?ranks=true",
            json!({"member": "d", "score": 1}),
        )
        .await
        .expect(200);
    let standing = &up["standings"][0];
    assert_eq!(
        (&standing["rank"], &standing["previous_rank"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(
        scores(&read(other, "day").await),
        expected(&[("a", 5.0), ("d", 5.0)])
    );
    let b = read(other, "day/members/b").await;
    assert_eq!((&b["score"], &b["ahead"]["gap"]), (&json!(4), &json!(1)));
    let stats = read(other, "day/stats").await;
    assert_eq!(
        (&stats["members"], &stats["score_sum"]),
        (&json!(4), &json!(17))
    );

    world.set_time("2026-11-22T12:00:00Z");
    vote(client, "b", json!({})).await;
    let b = read(other, "day/members/b").await;
    assert_eq!(b["rank"], 1);
    assert_eq!(
        b["previous"],
        json!({"key": "2026-11-21", "rank": null, "score": 4, "rank_change": null, "score_change": -3})
    );
    client
        .post("/v1/boards/v/events", json!({"member": "a", "score": 0}))
        .await
        .expect_problem(422, "score-out-of-range");
    let day = format!("st:{{v}}:{}:s:day:2026-11-21", world.generation("v").await);
    let listed = world.redis.run(&[b"ZCARD", day.as_bytes()]).await;
    assert_eq!(listed, Reply::Integer(4), "all of them fit into the spare");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capped_board_with_initial_scores_stays_exact_when_they_fall() {
    let world =
        world(json!({"windows": ["day"], "keep_top": 2, "score_min": 1, "initial": ["day"]})).await;
    let client = world.client();
    set_initial(client, json!({"a": 10, "b": 9, "c": 8})).await;
    vote(client, "c", json!({})).await;
    assert_eq!(
        scores(&read(client, "day").await),
        expected(&[("a", 10.0), ("b", 9.0)])
    );
    set_initial(client, json!({"a": 1})).await;
    assert_eq!(
        scores(&read(client, "day").await),
        expected(&[("b", 9.0), ("c", 9.0)])
    );
    set_initial(client, json!({"b": null})).await;
    assert_eq!(
        scores(&read(client, "day").await),
        expected(&[("c", 9.0), ("a", 1.0)])
    );
    let initial = client.get("/v1/boards/v/initial-scores").await.expect(200);
    assert_eq!(
        initial["entries"],
        json!([{"member": "c", "score": 8}, {"member": "a", "score": 1}])
    );
}

/// Writes and reads side by side: the list is one snapshot at every moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_gap_to_the_next_is_never_negative() {
    let world = world(json!({"windows": ["all"], "keep_top": 3, "score_min": 1})).await;
    let [client, other] = [&world.instances[0].client, &world.instances[1].client];
    let writes = async {
        for round in 0..60 {
            let events: Vec<Value> = (0..8)
                .map(|number| json!({"board": "v", "member": format!("m{}", (round * 5 + number * 3) % 8), "score": 1 + (round + number) % 4}))
                .collect();
            client
                .post("/v1/events", json!({"events": events}))
                .await
                .expect(200);
        }
    };
    let reads = async {
        for round in 0..200 {
            let answer = other
                .get(&format!(
                    "/v1/boards/v/standings/all/members/m{}?around=8",
                    round % 8
                ))
                .await;
            if answer.status == 404 {
                continue;
            }
            let member = answer.expect(200);
            for neighbour in ["ahead", "behind"] {
                let gap = &member[neighbour]["gap"];
                assert!(gap.is_null() || gap.as_i64().unwrap() >= 0, "{member}");
            }
            let scores: Vec<i64> = member["around"]
                .as_array()
                .unwrap()
                .iter()
                .map(|entry| entry["score"].as_i64().unwrap())
                .collect();
            assert!(scores.is_sorted_by(|one, next| one >= next), "{member}");
        }
    };
    futures::future::join(writes, reads).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_no_answer_shows_changes_no_revision() {
    let world =
        world(json!({"windows": ["day"], "keep_top": 2, "update": "max", "ties": "member"})).await;
    let client = world.client();
    let at = |at: &str| json!({"score": 5, "at": format!("2026-11-21T{at}Z")});
    assert_eq!(vote(client, "a", at("11:00:00")).await["status"], "applied");
    assert_eq!(
        vote(client, "a", at("10:00:00")).await["status"],
        "unchanged"
    );
}
