//! Erasing members: from the answer on nothing of them is there, and what comes in later begins from nothing.

use serde_json::{Value, json};
use standings::core::Engine;
use standings::core::board::store::boards;
use standings::core::hide::store::erasures;
use standings::domain::ids::{BoardId, MemberId};
use standings::moderation;
use standings::moves;

use crate::harness::jobs::{EndedHides, Erasures, Moves, Purge, Rollover, Tasks};
use crate::harness::redis::{Reply, eventually};
use crate::harness::{Client, Instance, World, break_off};

const NOW: &str = "2026-11-21T12:00:00Z";
const LATER: &str = "2026-11-21T12:00:01Z";

async fn world(definition: Value) -> World {
    let world = World::with_instances(2, NOW).await;
    world.client().define("b", definition).await;
    world
}

fn event(member: &str, score: i64, mut more: Value) -> Value {
    more["member"] = json!(member);
    more["score"] = json!(score);
    more
}

async fn send(client: &Client, member: &str, score: i64, more: Value) -> Value {
    let body = event(member, score, more);
    client.post("/v1/boards/b/events", body).await.expect(200)
}

async fn erase(client: &Client, member: &str) {
    let path = format!("/v1/boards/b/members/{member}");
    client.delete(&path).await.expect(204);
}

/// Members and scores of a page.
async fn page(client: &Client, window: &str) -> Value {
    let path = format!("/v1/boards/b/standings/{window}");
    let page = client.get(&path).await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    let shown = entries.map(|entry| json!([entry["rank"], entry["member"], entry["score"]]));
    json!([page["total"], shown.collect::<Vec<_>>()])
}

/// The keys of the board that hold the name of this member.
async fn traces_of(world: &World, member: &str) -> Vec<String> {
    traces_in(world, "st:{b*", member).await
}

/// The keys that match a pattern and hold the name of this member, without their beginnings.
async fn traces_in(world: &World, pattern: &str, member: &str) -> Vec<String> {
    let mut keys = world.keys_with(pattern, member).await;
    keys.retain(|key| !key.starts_with("st:{boards}"));
    let names = keys.iter().map(|key| {
        let name = key.split_once("}:").map_or("definition", |(_, name)| name);
        let behind = name.split_once(':');
        behind.map_or(name, |(_generation, name)| name).to_owned()
    });
    names.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_member_appears_nowhere_and_starts_from_zero() {
    let world = world(json!({
        "windows": ["day", "week", "last-2-days"], "ranking": "dense", "carryover": {"week": 0.5},
        "initial": ["day"], "weight": {"members": {"erased-one": 2}}, "uniques": "member"}))
    .await;
    let client = world.client();
    let scores = json!({"scores": {"erased-one": 7, "bob": 1}});
    let path = "/v1/boards/b/initial-scores";
    client.patch(path, scores).await.expect(200);
    for (member, score) in [("erased-one", 5), ("bob", 3), ("cid", 9)] {
        let voter = json!({"voter": format!("v-{member}"), "id": format!("e-{score}")});
        send(client, member, score, voter).await;
    }
    world.engine().run(&Rollover).await.unwrap();
    assert_eq!(page(client, "day").await[0], 3);

    erase(client, "erased-one").await;
    let left = json!([2, [[1, "cid", 9], [2, "bob", 4]]]);
    assert_eq!(page(client, "day").await, left);
    let left = json!([2, [[1, "cid", 9], [2, "bob", 3]]]);
    for window in ["week", "last-2-days", "day?raw=true"] {
        assert_eq!(
            page(&world.instances[1].client, window).await,
            left,
            "{window}"
        );
    }
    assert_eq!(
        page(client, "week?key=2026-11-23").await[0],
        2,
        "carried over"
    );
    let stats = client
        .get("/v1/boards/b/standings/week/stats")
        .await
        .expect(200);
    assert_eq!(stats["score_sum"], 12);
    let path_of_member = "/v1/boards/b/standings/day/members/erased-one";
    client
        .get(path_of_member)
        .await
        .expect_problem(404, "member-not-found");
    let initial = client.get(path).await.expect(200);
    assert_eq!(
        (&initial["total"], &initial["entries"][0]["member"]),
        (&json!(1), &json!("bob"))
    );
    let traces = traces_of(&world, "erased-one").await;
    assert_eq!(traces, ["definition"], "the weight in the definition alone");

    // A retry is known, and tells nothing; what is older is not taken.
    let retry = send(
        client,
        "erased-one",
        5,
        json!({"voter": "v-erased-one", "id": "e-5"}),
    )
    .await;
    assert_eq!(
        (&retry["status"], &retry["standings"]),
        (&json!("duplicate"), &json!([]))
    );
    let old = event("erased-one", 5, json!({"at": NOW, "id": "old"}));
    let refused = client.post("/v1/boards/b/events", old).await;
    refused.expect_problem(409, "member-erased");
    // Without a time it counts for the time at which it comes in, which is after the erasure.
    let outcome = send(client, "erased-one", 4, json!({"id": "new"})).await;
    let week = &outcome["standings"][1];
    assert_eq!(
        (&week["previous_score"], &week["score"]),
        (&Value::Null, &json!(8))
    );
    assert_eq!(
        page(client, "last-2-days").await[1][1],
        json!([2, "erased-one", 8])
    );
    let again = send(client, "erased-one", 4, json!({"id": "new"})).await;
    assert_eq!(again["standings"], outcome["standings"], "this one is told");
    client
        .patch(path, json!({"scores": {"erased-one": 3}}))
        .await
        .expect(200);
    assert_eq!(
        page(client, "day").await[1][0],
        json!([1, "erased-one", 11])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_an_unknown_member_succeeds_and_does_not_change_others() {
    let world = world(json!({"windows": ["day", "all"], "ties": "member"})).await;
    let client = world.client();
    erase(client, "nobody").await;
    erase(client, "nobody").await;
    client
        .delete("/v1/boards/none/members/ann")
        .await
        .expect_problem(404, "board-not-found");
    send(client, "ann", 1, json!({"at": NOW})).await;
    assert_eq!(page(client, "all").await, json!([1, [[1, "ann", 1]]]));
    // Each erasure is later than the one before, also at the same instant.
    erase(client, "ann").await;
    send(client, "ann", 2, json!({"id": "second"})).await;
    erase(client, "ann").await;
    assert_eq!(page(client, "all").await, json!([0, []]));
    let retry = send(client, "ann", 2, json!({"id": "second"})).await;
    assert_eq!(retry["standings"], json!([]));
    world.set_time(LATER);
    let at = json!({"at": LATER});
    let outcome = send(client, "ann", 3, at).await;
    assert_eq!(outcome["standings"][0]["previous_score"], Value::Null);
    assert_eq!(page(client, "day").await, json!([1, [[1, "ann", 3]]]));
}

/// Erases a member, and dies as soon as that is in force and so many keys were looked at.
async fn erase_half_way(engine: &Engine, member: &str, steps: usize) {
    let (id, member) = (
        BoardId::parse("b").unwrap(),
        MemberId::parse(member).unwrap(),
    );
    let number = erasures::begin(&engine.store, &id).await.unwrap();
    engine.erase(&id, &member, number).await.unwrap();
    let live = engine.live_board(&id).await.unwrap();
    for _ in 0..steps {
        engine.forget_keys(&live, &member, 1).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_a_half_way_erasure_is_not_shown_and_is_removed_when_needed() {
    let definition = json!({"windows": ["day", "last-2-days", "all"], "initial": ["all"]});
    for steps in [0, 1, 3] {
        let world = world(definition.clone()).await;
        let [one, other] = [0, 1].map(|index| &world.instances[index]);
        let path = "/v1/boards/b/initial-scores";
        for member in ["ann", "bob", "cid", "dan"] {
            one.client
                .patch(path, json!({"scores": {member: 1}}))
                .await
                .expect(200);
            send(&one.client, member, 5, json!({})).await;
        }
        page(&one.client, "last-2-days").await;
        world.set_time(LATER);
        for member in ["ann", "bob", "cid"] {
            erase_half_way(&one.engine, member, steps).await;
        }
        for window in ["day", "last-2-days"] {
            assert_eq!(
                page(&other.client, window).await,
                json!([1, [[1, "dan", 5]]])
            );
        }
        assert_eq!(
            page(&other.client, "all").await,
            json!([1, [[1, "dan", 6]]])
        );
        // A standing that is built meanwhile does not list it either.
        let next = "last-2-days?key=2026-11-22";
        assert_eq!(page(&other.client, next).await, json!([1, [[1, "dan", 5]]]));
        // An event, an initial score and the job remove what is left of theirs.
        let outcome = send(&other.client, "ann", 2, json!({})).await;
        assert_eq!(outcome["standings"][1]["score"], 2);
        other
            .client
            .patch(path, json!({"scores": {"bob": 3}}))
            .await
            .expect(200);
        other.engine.run(&Erasures).await.unwrap();
        assert_eq!(traces_of(&world, "cid").await, [""; 0]);
        let all = json!([3, [[1, "dan", 6], [2, "bob", 3], [3, "ann", 2]]]);
        assert_eq!(page(&one.client, "all").await, all);
        assert_eq!(
            page(&one.client, next).await,
            json!([2, [[1, "dan", 5], [2, "ann", 2]]])
        );
    }
}

/// Erases a member as a request does, and is killed after so many waits. Returns whether it came to the end.
async fn erase_until_killed(instance: &Instance, member: &str, waits: u16) -> bool {
    let (id, member) = (
        BoardId::parse("b").unwrap(),
        MemberId::parse(member).unwrap(),
    );
    let erased = break_off(
        moderation::work::erase(&instance.engine, &id, &member),
        waits,
    )
    .await;
    erased.is_some_and(|erased| erased.is_ok())
}

/// How many entries each of these standings has, once two looks agree: what a killed request has sent may reach Redis between the reads
/// of one look.
async fn totals_at_rest(client: &Client, windows: [&str; 3]) -> Vec<Value> {
    let mut before = Vec::new();
    loop {
        let mut totals = Vec::new();
        for window in windows {
            totals.push(page(client, window).await[0].clone());
        }
        if totals == before {
            return totals;
        }
        before = totals;
    }
}

/// Plays one erasure after the other, each of which is killed one step later, until one comes to its end. With `kills_redis`
/// Redis dies with it.
async fn kill_at_each_step(kills_redis: bool) {
    let world = world(json!({"windows": ["day", "last-3-days", "all"], "uniques": "member"})).await;
    let [one, other] = [0, 1].map(|index| &world.instances[index]);
    let windows = ["day", "last-3-days", "all"];
    for waits in 1..60 {
        let member = format!("member-{waits}");
        send(&one.client, &member, 5, json!({"voter": "v"})).await;
        page(&one.client, "last-3-days").await;
        let is_done = erase_until_killed(one, &member, waits).await;
        if kills_redis {
            world.redis.kill();
            world.redis.restart().await;
            for instance in &world.instances {
                eventually("the instance is ready", async || {
                    instance.client.get("/readyz").await.status == 200
                })
                .await;
            }
        }
        let totals = totals_at_rest(&other.client, windows).await;
        assert!(
            totals.iter().all(|total| *total == totals[0]),
            "{waits}: {totals:?}"
        );
        let is_erased = totals[0] == 0;
        assert!(is_erased || !is_done);
        other.engine.run(&Erasures).await.unwrap();
        for window in windows {
            assert_eq!(page(&other.client, window).await[0], totals[0], "{waits}");
        }
        if is_erased {
            assert_eq!(traces_of(&world, &member).await, [""; 0], "{waits}");
        } else {
            erase(&other.client, &member).await;
        }
        if is_done {
            return;
        }
    }
    panic!("the erasure never comes to its end");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_killed_anywhere_is_whole_or_was_never_begun() {
    kill_at_each_step(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_during_a_redis_crash_is_whole_or_was_never_begun() {
    kill_at_each_step(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erasures_move_with_the_board() {
    let definition =
        json!({"windows": ["day", "last-2-days", "all"], "shards": 2, "uniques": "member"});
    let world = world(definition).await;
    let [one, other] = [0, 1].map(|index| &world.instances[index]);
    let members: Vec<String> = (0..12).map(|number| format!("member-{number}")).collect();
    for member in &members {
        let more = json!({"voter": "v", "id": format!("first-{member}")});
        send(&one.client, member, 5, more).await;
    }
    page(&one.client, "last-2-days").await;
    world.set_time(LATER);
    for (number, member) in members.iter().enumerate().take(9) {
        match number % 3 {
            0 => erase(&one.client, member).await,
            steps => erase_half_way(&one.engine, member, steps - 1).await,
        }
    }
    for shards in [7, 1, 3] {
        world.move_to("b", shards).await;
        for window in ["day", "last-2-days", "all"] {
            assert_eq!(page(&other.client, window).await[0], 3, "{shards} {window}");
        }
        for member in &members[..9] {
            let old = event(member, 5, json!({"at": NOW, "id": format!("old-{member}")}));
            let refused = other.client.post("/v1/boards/b/events", old).await;
            refused.expect_problem(409, "member-erased");
            // Its id is remembered where the board was.
            let retry = json!({"voter": "v", "id": format!("first-{member}")});
            let retry = send(&other.client, member, 5, retry).await;
            assert_eq!(
                (&retry["status"], &retry["standings"]),
                (&json!("duplicate"), &json!([]))
            );
        }
    }
    other.engine.run(&Erasures).await.unwrap();
    let outcome = send(&other.client, &members[1], 2, json!({"id": "again"})).await;
    assert_eq!(outcome["standings"][2]["score"], 2);
    world.move_to("b", 2).await;
    let again = send(&other.client, &members[1], 2, json!({"id": "again"})).await;
    assert_eq!(
        again["standings"], outcome["standings"],
        "taken after the erasure"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hide_outlives_an_erasure() {
    for shards in [1, 3] {
        let world = world(json!({"windows": ["day", "all"], "shards": shards})).await;
        let client = world.client();
        send(client, "ann", 5, json!({})).await;
        send(client, "bob", 1, json!({})).await;
        let path = "/v1/boards/b/hidden/ann";
        client
            .put(path, json!({"reason": "cheating"}))
            .await
            .expect(200);
        erase(client, "ann").await;
        assert_eq!(traces_of(&world, "ann").await, [""; 0]);
        let list = client.get("/v1/boards/b/hidden").await.expect(200);
        assert_eq!(list["hidden"], json!([]), "nobody can be named");
        if shards > 1 {
            world.move_to("b", 2).await;
        }
        world.set_time(LATER);
        let outcome = send(client, "ann", 7, json!({"at": LATER})).await;
        assert_eq!(outcome["standings"][0]["score"], 7);
        assert_eq!(page(client, "all").await, json!([1, [[1, "bob", 1]]]));
        let list = client.get("/v1/boards/b/hidden").await.expect(200);
        assert_eq!(list["hidden"][0]["reason"], "cheating");
        // It is taken back and given as any other, also while there is nothing to hide.
        erase(client, "ann").await;
        client
            .put(path, json!({"reason": "rudeness"}))
            .await
            .expect(200);
        client.delete(path).await.expect(204);
        client.delete(path).await.expect_problem(404, "not-hidden");
        send(client, "ann", 2, json!({"id": "back"})).await;
        assert_eq!(
            page(client, "all").await,
            json!([2, [[1, "ann", 2], [2, "bob", 1]]])
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hide_that_outlives_an_erasure_ends_at_its_until() {
    let until = "2026-11-21T12:10:00Z";
    for shards in [1, 3] {
        let world = world(json!({"windows": ["all"], "shards": shards})).await;
        let client = world.client();
        for member in ["ann", "bob", "cid"] {
            let path = format!("/v1/boards/b/hidden/{member}");
            let hide = json!({"reason": "a long story", "until": until});
            client.put(&path, hide).await.expect(200);
            erase(client, member).await;
        }
        let engine = &world.engine();
        engine.run(&EndedHides).await.unwrap();
        // Who has data before the end is hidden until then.
        send(client, "ann", 1, json!({})).await;
        assert_eq!(page(client, "all").await[0], 0);
        // One that is told to hide it meanwhile goes on from the first one.
        let path = "/v1/boards/b/hidden/cid";
        let longer = json!({"reason": "another story"});
        let hidden = client.put(path, longer).await.expect(200);
        assert_eq!(hidden["since"], "2026-11-21T12:00:00.000Z");
        assert_eq!(traces_of(&world, "cid").await, [""; 0]);
        world.set_time("2026-11-21T12:10:02Z");
        engine.run(&EndedHides).await.unwrap();
        assert_eq!(traces_of(&world, "a long story").await, [""; 0]);
        assert_eq!(page(client, "all").await, json!([1, [[1, "ann", 1]]]));
        for member in ["bob", "cid"] {
            send(client, member, 2, json!({})).await;
        }
        let seen = json!([2, [[1, "bob", 2], [2, "ann", 1]]]);
        assert_eq!(page(client, "all").await, seen);
        // When the day is over, nothing is noted any more.
        world.set_time("2026-11-22T00:00:00Z");
        engine.run(&EndedHides).await.unwrap();
        let left = world.redis.run(&[b"ZCARD", b"st:{boards}:hides-end"]).await;
        assert_eq!(left, Reply::Integer(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn once_an_erasure_everywhere_returns_the_member_is_on_no_board() {
    let world = World::with_instances(2, NOW).await;
    let client = world.client();
    let boards = ["b", "b2", "b3"];
    for (board, shards) in boards.into_iter().zip([1, 4, 1]) {
        let definition = json!({"windows": ["day", "last-2-days"], "shards": shards});
        client.define(board, definition).await;
        for (member, score) in [("gone", 5), ("stays", 3)] {
            let path = format!("/v1/boards/{board}/events");
            client
                .post(&path, event(member, score, json!({"id": member})))
                .await
                .expect(200);
        }
    }
    let answer = client.delete("/v1/members/gone").await;
    let address = answer.headers["location"].to_str().unwrap().to_owned();
    let job = answer.expect(202);
    assert_eq!(
        (&job["kind"], &job["status"], &job["total"]),
        (&json!("erase"), &json!("running"), &json!(3))
    );
    for board in boards {
        for window in ["day", "last-2-days"] {
            let path = format!("/v1/boards/{board}/standings/{window}");
            let page = world.instances[1].client.get(&path).await.expect(200);
            assert_eq!(page["total"], 1, "{board} {window}");
        }
        let path = format!("/v1/boards/{board}/events");
        let retry = client
            .post(&path, event("gone", 5, json!({"id": "gone"})))
            .await
            .expect(200);
        assert_eq!(retry["standings"], json!([]));
    }
    // A new life on one of them, and then the job.
    client
        .post("/v1/boards/b/events", event("gone", 2, json!({})))
        .await
        .expect(200);
    world.instances[1].engine.run(&Tasks).await.unwrap();
    let job = client.get(&address).await.expect(200);
    assert_eq!(
        (&job["status"], &job["done"], &job["failed"]),
        (&json!("done"), &json!(3), &json!([]))
    );
    assert_eq!(
        page(client, "day").await,
        json!([2, [[1, "stays", 3], [2, "gone", 2]]])
    );
    for tag in ["st:{b2*", "st:{b3*"] {
        assert_eq!(traces_in(&world, tag, "gone").await, ["e:gone"], "{tag}");
    }
    let noted = world.redis.run(&[b"EXISTS", b"st:{boards}:erasing"]).await;
    assert_eq!(noted, Reply::Integer(0));
}

/// Damages the key of a board, "damaged", that every erasure needs; returns its name.
async fn damage_erasing(world: &World) -> String {
    let registry = world.redis.keys("st:{damaged}:*:keys").await.remove(0);
    let erasing = registry.replace(":keys", ":erasing");
    let set: [&[u8]; 3] = [b"SET", erasing.as_bytes(), b"no hash"];
    world.redis.run(&set).await;
    erasing
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_where_a_member_could_not_be_erased_is_named_by_the_job() {
    let world = World::start(NOW).await;
    let client = world.client();
    let boards = ["damaged", "whole"];
    for board in boards {
        client.define(board, json!({"windows": ["day"]})).await;
        for member in ["gone", "stays"] {
            let path = format!("/v1/boards/{board}/events");
            let event = event(member, 1, json!({}));
            client.post(&path, event).await.expect(200);
        }
    }
    let erasing = damage_erasing(&world).await;
    // Once it is mended, the same request erases the member there, too.
    for (failed, totals) in [(json!("damaged"), [2, 1]), (Value::Null, [1, 1])] {
        let answer = client.delete("/v1/members/gone").await;
        let address = answer.headers["location"].to_str().unwrap().to_owned();
        answer.expect(202);
        world.redis.run(&[b"DEL", erasing.as_bytes()]).await;
        world.instances[0].engine.run(&Tasks).await.unwrap();
        let job = client.get(&address).await.expect(200);
        assert_eq!(job["status"], "done", "{job}");
        assert_eq!(job["failed"][0]["board"], failed, "{job}");
        assert!(job["failed"][1].is_null(), "{job}");
        for (board, total) in boards.into_iter().zip(totals) {
            let path = format!("/v1/boards/{board}/standings/day");
            let page = client.get(&path).await.expect(200);
            assert_eq!(page["total"], total, "{board}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_with_a_stuck_erasure_does_not_delay_others() {
    let world = world(json!({"windows": ["day"]})).await;
    let (client, engine) = (world.client(), world.engine());
    client.define("damaged", json!({"windows": ["day"]})).await;
    let path = "/v1/boards/damaged/events";
    let stays = event("stays", 1, json!({}));
    client.post(path, stays).await.expect(200);
    damage_erasing(&world).await;
    // More than the job asks for at a time, and older than the other.
    let damaged = BoardId::parse("damaged").unwrap();
    for number in 1..=150 {
        erasures::note(&engine.store, &damaged, number)
            .await
            .unwrap();
    }
    send(client, "gone", 5, json!({})).await;
    erase_half_way(engine, "gone", 0).await;
    eventually("the other is removed", async || {
        let _ = engine.run(&Erasures).await;
        traces_in(&world, "st:{b}*", "gone").await == [""; 0]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_erased_everywhere_has_no_profile_and_is_anonymous_in_the_log() {
    let world = world(json!({"windows": ["day"]})).await;
    let client = world.client();
    let member = "/v1/members/erased-one";
    let profile = format!("{member}/profile");
    let body = json!({"name": "Ann", "attributes": {"country": "NZ"}});
    let put = client.put(&profile, body).await;
    assert!(put.status.is_success(), "{}", put.text);
    let review = json!({"name": "Ann", "status": "approved", "reason": null});
    let path = format!("{member}/name-review");
    client.put(&path, review).await.expect(200);
    send(client, "erased-one", 5, json!({})).await;
    client
        .patch("/v1/boards/b", json!({"title": "Another"}))
        .await
        .expect(200);
    let log = "/v1/audit?member=erased-one";
    let named = client.get(log).await.expect(200);
    assert_eq!(named["lines"].as_array().unwrap().len(), 1);

    client.delete(member).await.expect(202);
    client
        .get(&profile)
        .await
        .expect_problem(404, "profile-not-found");
    let page = client.get("/v1/boards/b/standings/day?include=profile");
    assert_eq!(page.await.expect(200)["total"], 0);
    for status in ["pending", "approved", "blocked"] {
        let path = format!("/v1/name-reviews?status={status}");
        let listed = client.get(&path).await.expect(200).to_string();
        assert!(!listed.contains("erased-one"), "{listed}");
    }
    assert_eq!(client.get(log).await.expect(200)["lines"], json!([]));
    let all = client.get("/v1/audit").await.expect(200);
    assert_eq!(all["lines"].as_array().unwrap().len(), 4);
    assert!(!all.to_string().contains("erased-one"), "{all}");
    world.engine().run(&Tasks).await.unwrap();
    let left = world.keys_with("st:{*", "erased-one").await;
    assert_eq!(left, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_board_does_not_stop_erasures_on_others() {
    let world = world(json!({"windows": ["day"]})).await;
    let client = world.client();
    client.define("damaged", json!({"windows": ["day"]})).await;
    send(client, "gone", 5, json!({})).await;
    world
        .redis
        .run(&[b"HSET", b"st:{damaged}", b"definition", b"{"])
        .await;
    let other = Instance::start(&world.redis.url(), world.clock.clone(), "").await;
    let answer = other.client.delete("/v1/members/gone").await;
    let address = answer.headers["location"].to_str().unwrap().to_owned();
    answer.expect(202);
    assert_eq!(page(client, "day").await, json!([0, []]));
    other.engine.run(&Tasks).await.unwrap();
    let job = client.get(&address).await.expect(200);
    assert_eq!(job["status"], "done");
    assert_eq!(job["failed"][0]["board"], "damaged");
}

/// Takes the move of a board to its end that another instance has left half-way.
async fn end_move(world: &World, id: &BoardId) {
    let lease = [b"HSET".as_slice(), b"st:{b}", b"move:until", b"0"];
    eventually("the lease has run out", async || {
        matches!(world.redis.run(&lease).await, Reply::Integer(_))
    })
    .await;
    let engine = &world.instances[1].engine;
    eventually("the board has moved", async || {
        engine.run(&Moves).await.unwrap();
        let progress = moves::work::progress(engine, id).await.unwrap();
        progress.moving_to.is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_erased_during_a_move_is_erased_in_the_new_shards() {
    for waits in [3, 10, 25, 60, 120, 250] {
        let world =
            world(json!({"windows": ["day", "last-2-days"], "shards": 2, "uniques": "member"}))
                .await;
        let [one, other] = [0, 1].map(|index| &world.instances[index]);
        let member = |number: usize| format!("member-{number}");
        for number in 0..40 {
            send(&one.client, &member(number), 5, json!({"voter": "v"})).await;
        }
        page(&one.client, "last-2-days").await;
        one.client.spread("b", 3).await;
        break_off(one.engine.run(&Moves), waits).await;
        world.set_time(LATER);
        let id = BoardId::parse("b").unwrap();
        let stored = boards::load(&other.engine.store, &id).await.unwrap();
        if stored.unwrap().unwrap().placement.is_paused() {
            // Nobody else can do anything until it has moved.
            end_move(&world, &id).await;
        }
        for number in 0..30 {
            match number % 3 {
                0 => erase(&other.client, &member(number)).await,
                steps => erase_half_way(&other.engine, &member(number), steps).await,
            }
        }
        // Every fifth of them begins anew, the hidden ones out of sight.
        other
            .client
            .put(
                "/v1/boards/b/hidden/member-5",
                json!({"reason": "cheating"}),
            )
            .await
            .expect(200);
        for number in (0..30).step_by(5) {
            send(&other.client, &member(number), 2, json!({"voter": "w"})).await;
        }
        end_move(&world, &id).await;
        for window in ["day", "last-2-days", "last-2-days?key=2026-11-22"] {
            let page = page(&one.client, window).await;
            assert_eq!(page[0], 15, "{waits} {window}");
            let scores = page[1].as_array().unwrap().iter();
            let anew = scores.filter(|entry| entry[2] == 2).count();
            assert_eq!(anew, 5, "{waits} {window}: {page}");
        }
        other.engine.run(&Erasures).await.unwrap();
        let stats = one.client.get("/v1/boards/b/standings/day/stats").await;
        assert_eq!(stats.expect(200)["score_sum"], 60, "{waits}");
        assert_eq!(page(&one.client, "day").await[0], 15, "{waits}");
        // What the old shards have is unlinked with them.
        other.engine.run(&Purge).await.unwrap();
        assert_eq!(traces_of(&world, "member-28").await, [""; 0], "{waits}");
    }
}
