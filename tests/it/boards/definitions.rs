//! Definitions: created, replaced, listed, deleted, and seen by all instances.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use standings::core::board::deletions;
use standings::core::board::store::boards;
use standings::domain::board::Board;
use standings::domain::ids::BoardId;

use crate::harness::jobs::{Announcements, Moves, Purge};
use crate::harness::redis::eventually;
use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_created_replaced_and_read_with_its_version() {
    let world = World::start(NOW).await;
    let client = world.client();
    let created = client
        .put("/v1/boards/b", json!({"windows": ["day"]}))
        .await;
    let first = created.headers["etag"].clone();
    let body = created.expect(201);
    assert_eq!(
        (&body["board"], &body["ties"]),
        (&json!("b"), &json!("first"))
    );

    let same = client
        .put("/v1/boards/b", json!({"windows": ["day"]}))
        .await;
    assert_eq!(same.headers["etag"], first, "nothing has changed");
    same.expect(200);
    let replaced = client
        .put(
            "/v1/boards/b",
            json!({"windows": ["day", "all"], "title": "B"}),
        )
        .await;
    assert_ne!(replaced.headers["etag"], first);
    replaced.expect(200);
    let read = client.get("/v1/boards/b").await;
    assert_eq!(read.json["title"], "B");

    let put = |header: &'static str, value: &str| {
        let request = client
            .builder(Method::PUT, "/v1/boards/b")
            .header(header, value);
        Client::send(request.json(&json!({"windows": ["day"]})))
    };
    let weak = format!("W/{}", first.to_str().unwrap());
    let detail = put("if-match", &weak)
        .await
        .expect_problem(412, "precondition-failed");
    assert!(
        detail.contains(&weak) && detail.contains("without `W/`"),
        "{detail}"
    );
    put("if-match", first.to_str().unwrap())
        .await
        .expect_problem(412, "precondition-failed");
    put("if-none-match", "*")
        .await
        .expect_problem(412, "precondition-failed");
    put("if-match", read.headers["etag"].to_str().unwrap())
        .await
        .expect(200);
    put("if-match", "*").await.expect(200);

    // A definition without windows deletes none, and begins with one of all time.
    let untold = client
        .put("/v1/boards/b", json!({"title": "C"}))
        .await
        .expect(200);
    assert_eq!(
        (&untold["windows"], &untold["title"]),
        (&json!(["day"]), &json!("C"))
    );
    let least = client.put("/v1/boards/c", json!({"update": "max"})).await;
    assert_eq!(least.expect(201)["windows"], json!(["all"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_would_change_stored_data_are_fixed_once_there_are_events() {
    let world = World::start(NOW).await;
    let client = world.client();
    let definition = json!({"windows": ["day", "last-7-days"]});
    client.define("b", definition.clone()).await;
    client
        .define("b", json!({"windows": ["day"], "decimals": 3}))
        .await;
    client.define("b", definition).await;
    client
        .post("/v1/boards/b/events", json!({"member": "a", "score": 1}))
        .await
        .expect(200);
    let changes = [
        ("update", json!("max")),
        ("order", json!("asc")),
        ("decimals", json!(1)),
        ("ties", json!("last")),
        ("timezone", json!("Asia/Tokyo")),
        ("week_start", json!("sunday")),
        ("ranking", json!("dense")),
    ];
    for (field, value) in changes {
        let windows = if field == "update" {
            json!(["day"])
        } else {
            json!(["day", "last-7-days"])
        };
        let answer = client
            .put("/v1/boards/b", json!({"windows": windows, field: value}))
            .await;
        let problem = answer.expect(409);
        assert_eq!(problem["type"], "/problems/board-in-use");
        assert_eq!(problem["errors"][0]["pointer"], format!("/{field}"));
    }
    let carryover = json!({"windows": ["day", "last-7-days"], "carryover": {"day": 0.5}});
    client
        .put("/v1/boards/b", carryover)
        .await
        .expect_problem(409, "board-in-use");
    let london = json!({"windows": ["day"], "timezone": "GB"});
    client.define("london", london).await;
    let event = json!({"member": "a", "score": 1});
    client
        .post("/v1/boards/london/events", event.clone())
        .await
        .expect(200);
    let other_name = json!({"timezone": "Europe/London"});
    let renamed = client
        .patch("/v1/boards/london", other_name)
        .await
        .expect(200);
    assert_eq!(renamed["timezone"], "Europe/London");
    client
        .post("/v1/boards/london/events", event)
        .await
        .expect(200);
    let page = client
        .get("/v1/boards/london/standings/day")
        .await
        .expect(200);
    assert_eq!(page["entries"][0]["score"], 2);
    let harmless = json!({"windows": ["week", "day", "last-7-days"], "ranking": "competition", "title": "t", "accept_late": "1h"});
    client.put("/v1/boards/b", harmless).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn seasons_can_be_added_to_a_board_with_events_but_not_changed() {
    let world = World::start(NOW).await;
    let client = world.client();
    client.define("b", json!({"windows": ["all"]})).await;
    let post = async |event| client.post("/v1/boards/b/events", event).await;
    let before = json!({"id": "before", "member": "a", "score": 1});
    post(before.clone()).await.expect(200);

    let with_season = |length: &str| json!({"windows": ["all", "season"], "season": {"start": "2026-01-01T00:00:00Z", "length": length}});
    let change = with_season("14d");
    client.put("/v1/boards/b", change.clone()).await.expect(200);
    post(json!({"member": "a", "score": 5})).await.expect(200);
    let again = post(before).await.expect(200);
    assert_eq!(again["status"], "duplicate");
    // In any window that is added, events count from then on.
    for (window, score) in [("all", 6), ("season", 5)] {
        let path = format!("/v1/boards/b/standings/{window}");
        let page = client.get(&path).await.expect(200);
        assert_eq!(page["entries"][0]["score"], score, "{page}");
    }

    client.put("/v1/boards/b", change).await.expect(200);
    let none = json!({"windows": ["all", "season"]});
    let problem = client.put("/v1/boards/b", none).await.expect(422);
    assert_eq!(problem["errors"][0]["pointer"], "/season");
    let removed = json!({"windows": ["all"]});
    for (query, refused) in [("", with_season("7d")), ("?drop_windows=season", removed)] {
        let path = format!("/v1/boards/b{query}");
        let problem = client.put(&path, refused).await.expect(409);
        assert_eq!(problem["type"], "/problems/board-in-use");
        assert_eq!(problem["errors"][0]["pointer"], "/season");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_on_one_instance_applies_on_others_at_once() {
    let world = World::with_instances(2, NOW).await;
    let (one, other) = (&world.instances[0].client, &world.instances[1].client);
    one.define("b", json!({"windows": ["day"]})).await;
    let event = |member: &str| json!({"member": member, "score": 1});
    other
        .post("/v1/boards/b/events", event("a"))
        .await
        .expect(200);
    one.define("b", json!({"windows": ["day", "all"]})).await;
    let result = other
        .post("/v1/boards/b/events", event("b"))
        .await
        .expect(200);
    assert_eq!(
        result["standings"][1]["window"], "all",
        "written by the new definition"
    );

    one.delete("/v1/boards/b").await.expect(204);
    other
        .post("/v1/boards/b/events", event("c"))
        .await
        .expect_problem(404, "board-not-found");
    one.define("b", json!({"windows": ["all"]})).await;
    let page = other.get("/v1/boards/b/standings/all").await.expect(200);
    assert_eq!(page["total"], 0, "the new board is another one");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_instances_learn_of_changes_without_a_request() {
    let world = World::with_instances(2, NOW).await;
    let (one, other) = (&world.instances[0], &world.instances[1]);
    one.client.define("b", json!({"windows": ["day"]})).await;
    other
        .client
        .get("/v1/boards/b/standings/day")
        .await
        .expect(200);
    one.client
        .define("b", json!({"windows": ["day", "week"]}))
        .await;
    other
        .client
        .get("/v1/boards/b/standings/week")
        .await
        .expect_problem(404, "unknown-window");
    other.engine.refresh_boards().await.unwrap();
    other
        .client
        .get("/v1/boards/b/standings/week")
        .await
        .expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_are_listed_in_pages() {
    let world = World::start(NOW).await;
    let client = world.client();
    for board in ["c", "a", "b", "B", "10"] {
        client.define(board, json!({"windows": ["day"]})).await;
    }
    client.delete("/v1/boards/c").await.expect(204);
    let mut path = "/v1/boards?limit=3".to_owned();
    let mut found = Vec::new();
    loop {
        let part = client.get(&path).await.expect(200);
        let boards = part["boards"].as_array().unwrap();
        found.extend(
            boards
                .iter()
                .map(|board| board["board"].as_str().unwrap().to_owned()),
        );
        let Some(next) = part["next"].as_str() else {
            break;
        };
        path = format!("/v1/boards?limit=3&after={next}");
    }
    assert_eq!(found, ["10", "B", "a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_a_deleted_board_is_unlinked_and_a_new_one_is_left_alone() {
    let world = World::start(NOW).await;
    let client = world.client();
    let windows = json!({"windows": ["hour", "day", "all", "last-7-days"], "ranking": "dense"});
    client.define("b", windows.clone()).await;
    client
        .post("/v1/boards/b/events", json!({"member": "a", "score": 1}))
        .await
        .expect(200);
    client
        .get("/v1/boards/b/standings/last-7-days")
        .await
        .expect(200);
    let deleted = format!("st:{{b}}:{}:*", world.generation("b").await);
    assert_ne!(world.redis.keys(&deleted).await, [""; 0]);
    client.delete("/v1/boards/b").await.expect(204);
    client.define("b", windows).await;
    client
        .post("/v1/boards/b/events", json!({"member": "b", "score": 1}))
        .await
        .expect(200);
    world.engine().run(&Purge).await.unwrap();
    assert_eq!(world.redis.keys(&deleted).await, [""; 0]);
    let page = client.get("/v1/boards/b/standings/all").await.expect(200);
    assert_eq!(page["entries"][0]["member"], "b");
    client.delete("/v1/boards/b").await.expect(204);
    world.engine().run(&Purge).await.unwrap();
    assert_eq!(world.redis.leftover("st:{b}*").await, [""; 0]);
}

/// What `PUT` says to other windows of the board `b`.
async fn put_windows(
    client: &Client,
    query: &str,
    windows: Value,
) -> crate::harness::client::Answer {
    let definition = json!({"windows": windows});
    client
        .put(&format!("/v1/boards/b{query}"), definition)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_with_data_is_dropped_only_if_that_is_confirmed() {
    for shards in [1, 3] {
        let world = World::start(NOW).await;
        let client = world.client();
        let put = async |query: &str, windows: Value| {
            let definition = json!({"windows": windows, "shards": shards});
            client
                .put(&format!("/v1/boards/b{query}"), definition)
                .await
        };
        put("?drop_windows=day", json!(["week"]))
            .await
            .expect_problem(400, "invalid-parameter");
        put("", json!(["day", "week", "all", "last-7-days"]))
            .await
            .expect(201);
        // Nothing is lost yet.
        put("", json!(["day", "all", "last-7-days"]))
            .await
            .expect(200);
        put("", json!(["day", "week", "all", "last-7-days"]))
            .await
            .expect(200);
        let event = json!({"member": "a", "score": 5});
        client
            .post("/v1/boards/b/events", event.clone())
            .await
            .expect(200);
        let total = async |window: &str| {
            let page = client
                .get(&format!("/v1/boards/b/standings/{window}"))
                .await;
            page.expect(200)["total"].as_u64().unwrap()
        };

        let detail = put("", json!(["day"]))
            .await
            .expect_problem(409, "windows-in-use");
        assert!(
            detail.contains("?drop_windows=week,all") && !detail.contains("last"),
            "{detail}"
        );
        put("?drop_windows=week", json!(["day"]))
            .await
            .expect_problem(409, "windows-in-use");
        for wrong in [
            "?drop_windows=week,all,day",
            "?drop_windows=year",
            "?drop_windows=wek",
            "?drop_windows=",
            "?drop=week",
        ] {
            put(wrong, json!(["day"]))
                .await
                .expect_problem(400, "invalid-parameter");
        }
        assert_eq!(
            (total("week").await, total("all").await),
            (1, 1),
            "nothing was done"
        );
        // What can be built again is dropped, and built again.
        put("", json!(["last-7-days", "week", "all"]))
            .await
            .expect(200);
        put("", json!(["day", "week", "all"])).await.expect(200);
        client
            .post("/v1/boards/b/events", event.clone())
            .await
            .expect(200);
        put("", json!(["day", "week", "all", "last-7-days"]))
            .await
            .expect(200);
        let page = client
            .get("/v1/boards/b/standings/last-7-days")
            .await
            .expect(200);
        assert_eq!(page["entries"][0]["score"], 10);

        for _ in 0..2 {
            // Sent again, since the answer was lost.
            put("?drop_windows=week,all", json!(["day"]))
                .await
                .expect(200);
        }
        put("", json!(["day", "week"])).await.expect(200);
        assert_eq!(total("week").await, 0, "it begins anew");
        put("", json!(["day"])).await.expect(200);
        put("", json!(["day", "week"])).await.expect(200);
        client.post("/v1/boards/b/events", event).await.expect(200);
        put("", json!(["day"]))
            .await
            .expect_problem(409, "windows-in-use");
        // What a rolling window alone keeps is its own.
        put("?drop_windows=week", json!(["last-7-days"]))
            .await
            .expect(200);
        put("?drop_windows=day", json!(["all"]))
            .await
            .expect_problem(400, "invalid-parameter");
        put("?drop_windows=last-7-days", json!(["all"]))
            .await
            .expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_readded_window_is_in_use_once_it_has_new_events() {
    let world = World::start(NOW).await;
    let client = world.client();
    put_windows(client, "", json!(["day"])).await.expect(201);
    client
        .post("/v1/boards/b/events", json!({"member": "a", "score": 1}))
        .await
        .expect(200);
    put_windows(client, "", json!(["day", "week"]))
        .await
        .expect(200);
    put_windows(client, "", json!(["day"])).await.expect(200);
    put_windows(client, "", json!(["day", "week"]))
        .await
        .expect(200);
    client
        .post("/v1/boards/b/events", json!({"member": "a", "score": 1}))
        .await
        .expect(200);
    let refused = put_windows(client, "", json!(["day"])).await;
    refused.expect_problem(409, "windows-in-use");
    put_windows(client, "", json!(["week"]))
        .await
        .expect_problem(409, "windows-in-use");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_announced_by_another_instance_if_its_maker_dies() {
    let world = World::with_instances(2, NOW).await;
    let [one, other] = &world.instances[..] else {
        panic!("two instances")
    };
    let store = &one.engine.store;
    let definition = |windows: Value| {
        serde_json::from_value::<standings::domain::board::Definition>(json!({"windows": windows}))
            .unwrap()
    };
    let boards = async || {
        let list = other.client.get("/v1/boards").await.expect(200);
        let boards = list["boards"].as_array().unwrap().iter();
        boards
            .map(|board| board["board"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let finish = async || {
        eventually("the change is finished", async || {
            other
                .engine
                .run(&Announcements {
                    older_than: Duration::ZERO,
                })
                .await
                .unwrap();
            world.redis.keys("st:{boards}:begun").await.is_empty()
        })
        .await;
        one.engine.refresh_boards().await.unwrap();
        other.engine.refresh_boards().await.unwrap();
    };
    let id = BoardId::parse("b").unwrap();
    let at = world.clock.now();

    // Created.
    let stamp = boards::begin_change(store, &id).await.unwrap();
    let board = Board::new(
        id.clone(),
        definition(json!(["day"])),
        stamp,
        1,
        BTreeMap::new(),
    );
    boards::define(store, &board, None, None).await.unwrap();
    other
        .engine
        .run(&Announcements {
            older_than: Duration::from_mins(1),
        })
        .await
        .unwrap();
    assert_eq!(boards().await, [""; 0], "it may be under way");
    finish().await;
    assert_eq!(boards().await, ["b"]);

    // Replaced: of the window the other instance does not ask Redis.
    let stamp = boards::begin_change(store, &id).await.unwrap();
    let replaced = board.replaced(definition(json!(["day", "week"])), stamp, at);
    boards::define(store, &replaced, Some(&board), None)
        .await
        .unwrap();
    let week = "/v1/boards/b/standings/week";
    other
        .client
        .get(week)
        .await
        .expect_problem(404, "unknown-window");
    finish().await;
    other.client.get(week).await.expect(200);

    // Set out to other shards.
    let stamp = boards::begin_change(store, &id).await.unwrap();
    let mut spread = definition(json!(["day", "week"]));
    spread.shards = 2;
    let moving = replaced.replaced(spread, stamp, at);
    boards::define(store, &moving, Some(&replaced), None)
        .await
        .unwrap();
    finish().await;
    other.engine.run(&Moves).await.unwrap();
    let spread = one.client.get("/v1/boards/b/shards").await.expect(200);
    assert_eq!(spread["shards"], 2);

    // Deleted.
    let board = one.engine.board(&id).await.unwrap();
    let stamp = boards::begin_change(store, &id).await.unwrap();
    assert!(deletions::delete(store, &board, stamp).await.unwrap());
    finish().await;
    assert_eq!(boards().await, [""; 0]);
    assert!(world.redis.keys("st:{boards}:live").await.is_empty());
    let unknown = other.client.get("/v1/boards/b/standings/year").await;
    unknown.expect_problem(404, "board-not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_changes_only_its_fields_and_a_definition_that_was_read_can_be_sent_back() {
    let world = World::start(NOW).await;
    let client = world.client();
    client
        .patch("/v1/boards/b", json!({"title": "B"}))
        .await
        .expect_problem(404, "board-not-found");
    let definition = json!({"windows": ["day", "all"], "score_max": 10, "retention": {"day": "7d"}, "shards": 3});
    client.define("b", definition).await;
    let before = client.get("/v1/boards/b").await;
    let sent_back = client.put("/v1/boards/b", before.json.clone()).await;
    assert_eq!(sent_back.headers["etag"], before.headers["etag"]);
    assert_eq!(sent_back.expect(200), before.json);

    let patch = json!({"title": "B", "score_max": null, "retention": {"hour": "1d"}});
    let patched = client.patch("/v1/boards/b", patch).await.expect(200);
    let mut expected = before.json.clone();
    expected["title"] = json!("B");
    expected["score_max"] = Value::Null;
    expected["retention"] = json!({"day": "7d", "hour": "1d"});
    assert_eq!(patched, expected);
    let patch = json!({"windows": []});
    let refused = client.patch("/v1/boards/b", patch).await;
    refused.expect_problem(422, "validation-failed");
    let other = json!({"board": "c"});
    let refused = client.patch("/v1/boards/b", other).await;
    assert_eq!(refused.json["errors"][0]["pointer"], "/board");
    let merge = client
        .builder(Method::PATCH, "/v1/boards/b")
        .header("content-type", "application/merge-patch+json")
        .header("if-match", before.headers["etag"].to_str().unwrap())
        .body(r#"{"title": "C"}"#);
    let refused = Client::send(merge).await;
    refused.expect_problem(412, "precondition-failed");

    let event = json!({"member": "a", "score": 1});
    client.post("/v1/boards/b/events", event).await.expect(200);
    for (patch, problem) in [
        (json!({"decimals": 2}), "board-in-use"),
        (json!({"shards": 4}), "board-in-use"),
        (json!({"windows": ["all"]}), "windows-in-use"),
    ] {
        let refused = client.patch("/v1/boards/b", patch.clone()).await;
        refused.expect_problem(409, problem);
        let refused = client.patch("/v1/boards/b?dry_run=true", patch).await;
        refused.expect_problem(409, problem);
    }
    assert_eq!(client.get("/v1/boards/b").await.json, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_what_would_change_and_changes_nothing() {
    let world = World::start(NOW).await;
    let client = world.client();
    let definition = json!({"windows": ["day", "all"], "timezone": "Asia/Kolkata"});
    let url = "/v1/boards/b?dry_run=true";
    let preview = client.put(url, definition.clone()).await.expect(200);
    assert_eq!(
        (&preview["board"], &preview["preview"]["created"]),
        (&json!("b"), &json!(true))
    );
    let preview = &preview["preview"];
    let boundaries = json!([
        {"window": "day", "starts_at": ["2026-11-21T18:30:00Z", "2026-11-22T18:30:00Z", "2026-11-23T18:30:00Z"]},
        {"window": "all", "starts_at": []}]);
    assert_eq!(preview["boundaries"], boundaries);
    client
        .get("/v1/boards/b")
        .await
        .expect_problem(404, "board-not-found");

    client.define("b", definition).await;
    let event = json!({"member": "a", "score": 1});
    client.post("/v1/boards/b/events", event).await.expect(200);
    let before = client.get("/v1/boards/b").await;
    let unchanged = client.patch(url, json!({})).await.expect(200);
    assert_eq!(
        &unchanged["preview"],
        &json!({"created": false, "changes": [], "boundaries": boundaries})
    );
    let patch = json!({"score_max": 5, "windows": ["day", "all", "last-7-days", "week"]});
    let preview = client.patch(url, patch).await.expect(200);
    let changes = preview["preview"]["changes"].as_array().unwrap();
    assert_eq!(
        (&changes[0]["field"], &changes[0]["from"], &changes[0]["to"]),
        (&json!("score_max"), &Value::Null, &json!(5))
    );
    assert_eq!(
        changes[1]["effect"],
        "last-7-days begins with the events of its periods. week counts events from now on."
    );
    let dropped = json!({"windows": ["all"]});
    let preview = client
        .patch(&format!("{url}&drop_windows=day"), dropped)
        .await
        .expect(200);
    assert_eq!(
        preview["preview"]["changes"][0]["effect"],
        "day can no longer be read."
    );
    // The first `finalize` promises no result to periods that have ended.
    let finalize = json!({"finalize": "10m"});
    let preview = client.patch(url, finalize).await.expect(200);
    let effect = preview["preview"]["changes"][0]["effect"].as_str().unwrap();
    assert!(effect.contains("never get a result"), "{effect}");
    let after = client.get("/v1/boards/b").await;
    assert_eq!(after.json, before.json);
    assert_eq!(after.headers["etag"], before.headers["etag"]);
    client.get("/v1/boards/b/standings/day").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_are_found_by_their_tags() {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let client = world.client();
    for (board, tags) in [
        ("a", json!(["red", "big"])),
        ("b", json!([])),
        ("c", json!(["red", "red", "große Preise"])),
        ("d", json!(["big"])),
    ] {
        let definition = json!({"windows": ["day"], "tags": tags});
        client.define(board, definition).await;
    }
    let list = async |query: &str| {
        let path = format!("/v1/boards?{query}");
        let list = client.get(&path).await.expect(200);
        let boards: Vec<&str> = list["boards"]
            .as_array()
            .unwrap()
            .iter()
            .map(|board| board["board"].as_str().unwrap())
            .collect();
        json!([boards, list["next"]])
    };
    assert_eq!(list("tag=red").await, json!([["a", "c"], null]));
    assert_eq!(list("tag=gro%C3%9Fe%20Preise").await, json!([["c"], null]));
    assert_eq!(list("tag=none").await, json!([[], null]));
    assert_eq!(list("tag=red&limit=2").await, json!([["a"], "b"]));
    assert_eq!(list("tag=big&limit=2&after=b").await, json!([["d"], null]));
    let changed = json!({"tags": ["red"]});
    client.patch("/v1/boards/b", changed).await.expect(200);
    assert_eq!(list("tag=red&limit=3").await, json!([["a", "b", "c"], "c"]));
    let many: Vec<String> = (0..17).map(|number| number.to_string()).collect();
    for wrong in [
        json!(many),
        json!([""]),
        json!(["a\n"]),
        json!(["a".repeat(65)]),
    ] {
        let answer = client.patch("/v1/boards/b", json!({"tags": wrong})).await;
        answer.expect_problem(422, "validation-failed");
    }
}
