//! Boards whose data is damaged, or was written by a newer release: the fault of one is no fault of the others.

use serde_json::{Value, json};

use crate::harness::jobs::{Moves, Purge, Rollover};
use crate::harness::redis::Reply;
use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";

async fn post(client: &Client, board: &str, score: u64) -> Value {
    let event = json!({"member": "a", "score": score});
    let path = format!("/v1/boards/{board}/events");
    client.post(&path, event).await.expect(200)
}

/// Puts a key of another type in a key's place.
async fn damage(world: &World, key: &str) {
    world.redis.run(&[b"DEL", key.as_bytes()]).await;
    let pushed = world.redis.run(&[b"RPUSH", key.as_bytes(), b"x"]).await;
    assert_eq!(pushed, Reply::Integer(1));
}

/// Has a board's stored definition be one of a newer release.
async fn make_newer(world: &World, board: &str) {
    let head = format!("st:{{{board}}}");
    let get = [b"HGET", head.as_bytes(), b"definition"];
    let mut stored: Value = serde_json::from_str(&world.redis.run(&get).await.text()).unwrap();
    stored["definition"]["colour"] = json!("red");
    let stored = stored.to_string();
    let set = [b"HSET", head.as_bytes(), b"definition", stored.as_bytes()];
    world.redis.run(&set).await;
}

/// What `GET /readyz` says of faults: boards and jobs.
async fn faults(client: &Client) -> Vec<(String, String)> {
    let ready = client.get("/readyz").await.expect(200);
    let faults = ready["faults"].as_array().unwrap();
    assert_eq!(ready["fault_count"], faults.len());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    for fault in faults {
        assert!(!text(&fault["error"]).is_empty() && !text(&fault["since"]).is_empty());
    }
    let named = |fault: &Value| (text(&fault["board"]), text(&fault["job"]));
    faults.iter().map(named).collect()
}

fn fault(board: &str, job: &str) -> (String, String) {
    (board.to_owned(), job.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_definition_affects_one_board_and_can_be_replaced_or_deleted() {
    let world = World::with_instances(2, NOW).await;
    let (client, other) = (world.client(), &world.instances[1]);
    for board in ["a", "b", "c", "d"] {
        let shards = if board == "c" { 3 } else { 1 };
        let definition = json!({"windows": ["all", "week", "last-2-days"], "shards": shards});
        client.define(board, definition).await;
        post(client, board, 5).await;
        if ["b", "c"].contains(&board) {
            make_newer(&world, board).await;
        }
    }
    other.engine.refresh_boards().await.unwrap();
    let unreadable = [fault("b", "definition"), fault("c", "definition")];
    assert_eq!(faults(&other.client).await, unreadable);
    for instance in &world.instances {
        instance.engine.run(&Rollover).await.unwrap();
        instance.engine.run(&Moves).await.unwrap();
    }

    let list = other.client.get("/v1/boards?limit=3").await.expect(200);
    let named = |list: &Value| {
        let boards = list.as_array().unwrap().iter();
        let names = boards.map(|board| board["board"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(named(&list["boards"]), ["a"]);
    assert_eq!(named(&list["unreadable"]), ["b", "c"]);
    let detail = list["unreadable"][0]["detail"].as_str().unwrap();
    assert!(detail.ends_with("unknown field `colour`"), "{detail}");
    assert_eq!(list["next"], "c");
    let rest = other.client.get("/v1/boards?after=c").await.expect(200);
    assert_eq!(named(&rest["boards"]), ["d"]);
    assert_eq!(rest["unreadable"], json!([]));

    let read = other.client.get("/v1/boards/b").await;
    assert_eq!(read.expect_problem(500, "internal"), detail);
    let batch = json!({"events": [
        {"board": "b", "member": "a", "score": 1}, {"board": "d", "member": "a", "score": 1},
        {"board": "b", "member": "a", "score": 2}]});
    let results = other.client.post("/v1/events", batch).await.expect(200);
    for (place, status) in ["rejected", "applied", "rejected"].iter().enumerate() {
        assert_eq!(results["results"][place]["status"], *status);
    }
    assert_eq!(
        results["results"][0]["problem"]["type"],
        "/problems/internal"
    );
    assert_eq!(results["results"][0]["problem"]["detail"], detail);

    // The rules for a change are the same.
    let put = async |query: &str, definition: Value| {
        let path = format!("/v1/boards/b{query}");
        other.client.put(&path, definition).await
    };
    let windows = json!(["all", "week", "last-2-days"]);
    put("", json!({"windows": windows, "decimals": 2}))
        .await
        .expect_problem(409, "board-in-use");
    put("", json!({"windows": ["all", "last-2-days"]}))
        .await
        .expect_problem(409, "windows-in-use");
    let version = world
        .redis
        .run(&[b"HGET", b"st:{b}", b"version"])
        .await
        .text();
    let put_if = |version: &str| {
        let request = other
            .client
            .builder(reqwest::Method::PUT, "/v1/boards/b")
            .header("if-match", format!("\"{version}\""));
        Client::send(request.json(&json!({"windows": windows})))
    };
    put_if("1-1")
        .await
        .expect_problem(412, "precondition-failed");
    put_if(&version).await.expect(200);
    let page = other
        .client
        .get("/v1/boards/b/standings/all")
        .await
        .expect(200);
    assert_eq!(page["entries"][0]["score"], 5, "its data is there");

    other.client.delete("/v1/boards/c").await.expect(204);
    world.engine().run(&Purge).await.unwrap();
    assert_eq!(world.redis.leftover("st:{c*").await, [""; 0]);
    for instance in &world.instances {
        instance.engine.refresh_boards().await.unwrap();
        assert_eq!(faults(&instance.client).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_badly_damaged_definition_can_be_replaced_only_without_events() {
    let world = World::start(NOW).await;
    let client = world.client();
    for board in ["a", "b"] {
        client.define(board, json!({"windows": ["all"]})).await;
        let head = format!("st:{{{board}}}");
        let set = [&b"HSET"[..], head.as_bytes(), b"definition", b"{nothing"];
        if board == "b" {
            post(client, board, 5).await;
        }
        world.redis.run(&set).await;
    }
    let replaced = client
        .put("/v1/boards/a", json!({"windows": ["day"]}))
        .await;
    replaced.expect(200);
    let refused = client
        .put("/v1/boards/b", json!({"windows": ["all"]}))
        .await;
    refused.expect_problem(409, "board-in-use");
    client.delete("/v1/boards/b").await.expect(204);
    world.engine().run(&Purge).await.unwrap();
    assert_eq!(world.redis.leftover("st:{b}*").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_wrong_type_blocks_background_work_of_its_board_only() {
    let world = World::start(NOW).await;
    let (client, engine) = (world.client(), world.engine());
    let boards: Vec<String> = (0..12).map(|index| format!("b{index}")).collect();
    for board in &boards {
        client
            .define(board, json!({"windows": ["day", "last-2-days"]}))
            .await;
        post(client, board, 5).await;
    }
    let bad = &boards[4];
    let generation = world.generation(bad).await;
    let state = format!("st:{{{bad}}}:{generation}:state:last-2-days");
    damage(&world, &state).await;
    world.set_time("2026-11-21T23:50:00Z");
    for _ in 0..2 {
        engine.run(&Rollover).await.unwrap();
    }
    assert_eq!(faults(client).await, [fault(bad, "rollover")]);
    for board in boards.iter().filter(|board| *board != bad) {
        let next = format!("st:{{{board}}}:*:last-2-days:2026-11-22");
        assert_eq!(world.redis.keys(&next).await.len(), 1, "{board}");
    }

    // Two boards move: what the one has is damaged, and the other gets there.
    for board in [bad, &boards[5]] {
        client.spread(board, 2).await;
    }
    engine.run(&Moves).await.unwrap();
    let moved = client.get("/v1/boards/b5/shards").await.expect(200);
    assert_eq!(
        (&moved["shards"], &moved["moving_to"]),
        (&json!(2), &Value::Null)
    );
    assert!(faults(client).await.contains(&fault(bad, "reshard")));

    // Two are deleted.
    let generation = world.generation(&boards[6]).await;
    damage(&world, &format!("st:{{b6}}:{generation}:keys")).await;
    for board in ["b6", "b7"] {
        client
            .delete(&format!("/v1/boards/{board}"))
            .await
            .expect(204);
    }
    engine.run(&Purge).await.unwrap();
    assert_eq!(world.redis.leftover("st:{b7}*").await, [""; 0]);
    assert!(faults(client).await.contains(&fault("b6", "purge")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_accepted_except_for_events_of_damaged_boards() {
    let world = World::start(NOW).await;
    let client = world.client();
    for board in ["a", "b", "c"] {
        let shards = if board == "c" { 8 } else { 1 };
        client
            .define(board, json!({"windows": ["all"], "shards": shards}))
            .await;
    }
    let events = |score: u64| {
        let of = |board: &'static str, members: u64| {
            (0..members)
                .map(move |m| json!({"board": board, "member": format!("m{m}"), "score": score}))
        };
        let events = of("a", 2).chain(of("b", 2)).chain(of("c", 40));
        json!({"events": events.collect::<Vec<_>>()})
    };
    client.post("/v1/events", events(1)).await.expect(200);
    let [a, c] = [world.generation("a").await, world.generation("c").await];
    damage(&world, &format!("st:{{a}}:{a}:s:all:all")).await;
    damage(&world, &format!("st:{{c:8:3}}:{c}:s:all:all")).await;
    let sent = client.post("/v1/events", events(1)).await.expect(200);
    let results = sent["results"].as_array().unwrap();
    let rejected = |board: &str| {
        let of_board = results.iter().filter(|result| result["board"] == board);
        let (rejected, taken): (Vec<&Value>, Vec<&Value>) =
            of_board.partition(|result| result["status"] == "rejected");
        for result in &rejected {
            assert_eq!(result["problem"]["type"], "/problems/internal");
            assert_eq!(result["problem"]["status"], 500);
        }
        (rejected.len(), taken.len())
    };
    assert_eq!((rejected("a"), rejected("b")), ((2, 0), (0, 2)));
    let (of_one_shard, of_others) = rejected("c");
    assert!(
        of_one_shard > 0 && of_others > of_one_shard,
        "{of_one_shard} {of_others}"
    );
}
