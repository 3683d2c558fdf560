//! Taking events over HTTP: what is queued, what is not, and what becomes of it. Nothing is applied here unless a test says so: no
//! instance does background work.

use std::slice::from_ref;

use reqwest::Method;
use serde_json::{Value, json};
use standings::core::jobs::JobKind;
use standings::domain::ids::{BoardId, MemberId};
use standings::queue::capacity::QueueBounds;
use standings::worker;

use crate::harness::jobs::ApplyQueues;
use crate::harness::redis::{Reply, eventually};
use crate::harness::replicated::Replicated;
use crate::harness::{Client, Instance, RedisServer, World, clock_at};

const NOW: &str = "2026-11-21T12:00:00.000Z";

async fn start() -> World {
    let world = World::start(NOW).await;
    let board = json!({"windows": ["day", "all"], "ingest": "async", "idempotency": "1d"});
    world.client().define("b", board).await;
    let sync = json!({"windows": ["day", "all"], "idempotency": "1d"});
    world.client().define("s", sync).await;
    world
}

/// What became of an event.
async fn fate(client: &Client, board: &str, query: &str) -> Vec<Value> {
    let path = format!("/v1/boards/{board}/events?{query}");
    let json = client.get(&path).await.expect(200);
    json["events"].as_array().unwrap().clone()
}

/// How many entries all queues of a board have.
async fn length(world: &World, board: &str) -> i64 {
    let mut length = 0;
    for key in world.redis.keys(&format!("st:{{{board}*:queue")).await {
        match world.redis.run(&[b"XLEN", key.as_bytes()]).await {
            Reply::Integer(count) => length += count,
            other => panic!("{other:?}"),
        }
    }
    length
}

async fn prefer(
    client: &Client,
    path: &str,
    prefer: &str,
    body: Value,
) -> crate::harness::client::Answer {
    let request = client.builder(Method::POST, path).json(&body);
    Client::send(request.header("prefer", prefer)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_responds_once_an_event_is_queued() {
    let world = start().await;
    let client = world.client();
    let event = json!({"id": "x1", "member": "ann", "score": 5.0});
    let first = client.post("/v1/boards/b/events", event.clone()).await;
    assert!(!first.headers.contains_key("preference-applied"));
    let queued = json!({"status": "queued", "id": "x1", "board": "b", "member": "ann", "at": NOW});
    assert_eq!(first.expect(202), queued);
    world.set_time("2026-11-21T12:00:05Z");
    let again = client.post("/v1/boards/b/events", event).await.expect(202);
    assert_eq!(again, queued, "the same instant as before");
    let same = json!({"id": "x1", "member": "ann", "score": 50e-1});
    assert_eq!(
        client.post("/v1/boards/b/events", same).await.expect(202),
        queued
    );
    assert_eq!(length(&world, "b").await, 1);
    let expected =
        json!({"status": "queued", "id": "x1", "member": "ann", "at": NOW, "queued_at": NOW});
    assert_eq!(fate(client, "b", "id=x1").await, from_ref(&expected));
    assert_eq!(fate(client, "b", "id=x1&member=ann").await, [expected]);
    assert!(fate(client, "b", "id=x2").await.is_empty());
    let standing = client.get("/v1/boards/b/standings/day").await.expect(200);
    assert_eq!(standing["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_of_an_event_are_set_and_returned() {
    let world = start().await;
    let client = world.client();
    let (mut ids, path) = (Vec::new(), "/v1/boards/b/events");
    for _ in 0..2 {
        let event = json!({"member": "ann", "score": 5});
        let queued = client.post(path, event).await.expect(202);
        assert_eq!(queued["at"], NOW);
        let id = queued["id"].as_str().unwrap().to_owned();
        assert_eq!(fate(client, "b", &format!("id={id}")).await.len(), 1);
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(length(&world, "b").await, 2);
    let at = "2026-11-21T11:00:00.000Z";
    let event = json!({"member": "ann", "score": 5, "id": "x1", "at": at});
    let queued = client.post(path, event).await.expect(202);
    assert_eq!((&queued["at"], &queued["id"]), (&json!(at), &json!("x1")));
    let request = client
        .builder(Method::POST, path)
        .json(&json!({"member": "ann", "score": 5}));
    let keyed = Client::send(request.header("idempotency-key", "k1")).await;
    assert_eq!(keyed.expect(202)["id"], "k1");
}

/// Another content under a queued id may be the one that counts: the first may be refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_id_does_not_block_other_content() {
    let world = start().await;
    let client = world.client();
    for score in [5, 6, 5] {
        let event = json!({"id": "x1", "member": "ann", "score": score});
        client.post("/v1/boards/b/events", event).await.expect(202);
    }
    assert_eq!(length(&world, "b").await, 2);
    assert_eq!(fate(client, "b", "id=x1").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_can_ask_to_be_queued_with_a_prefer_header() {
    let world = start().await;
    let (client, path) = (world.client(), "/v1/boards/s/events");
    let event = |id: &str| json!({"id": id, "member": "ann", "score": 5});
    let wanted = [
        "respond-async",
        "Respond-Async; x=1",
        "wait=10, respond-async",
    ];
    for (index, preference) in wanted.iter().enumerate() {
        let answer = prefer(client, path, preference, event(&format!("x{index}"))).await;
        assert_eq!(answer.headers["preference-applied"], "respond-async");
        assert_eq!(answer.expect(202)["status"], "queued");
    }
    for (index, preference) in ["wait=10", "x=respond-async", ""].iter().enumerate() {
        let answer = prefer(client, path, preference, event(&format!("y{index}"))).await;
        assert!(!answer.headers.contains_key("preference-applied"));
        assert_eq!(answer.expect(200)["status"], "applied");
    }
    let bad = json!({"member": "ann", "score": 0.5});
    let refused = prefer(client, path, "respond-async", bad).await;
    assert!(!refused.headers.contains_key("preference-applied"));
    refused.expect_problem(422, "score-out-of-range");
    assert_eq!(length(&world, "s").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_of_a_batch_is_queued_applied_or_refused_separately() {
    let world = start().await;
    let client = world.client();
    let batch = json!({"events": [
        {"board": "b", "id": "x1", "member": "ann", "score": 1},
        {"board": "s", "id": "x2", "member": "bob", "score": 2},
        {"board": "b", "id": "x3", "member": "cid", "score": 0.5},
        {"board": "gone", "id": "x4", "member": "dee", "score": 4},
        {"board": "b", "member": "eve", "score": 5, "at": "2026-11-21T11:00:00Z"},
        {"board": "b", "id": "x6", "member": "", "score": 6},
    ]});
    let answer = client
        .post_text("/v1/events", "application/json", batch.to_string())
        .await;
    assert!(!answer.headers.contains_key("preference-applied"));
    let results = answer.expect(200)["results"].as_array().unwrap().clone();
    let statuses: Vec<&Value> = results.iter().map(|result| &result["status"]).collect();
    assert_eq!(
        statuses,
        [
            "queued", "applied", "rejected", "rejected", "queued", "rejected"
        ]
    );
    let queued = json!({"status": "queued", "id": "x1", "board": "b", "member": "ann", "at": NOW});
    assert_eq!(results[0], queued);
    assert_eq!(results[4]["at"], "2026-11-21T11:00:00.000Z");
    assert_eq!(results[3]["problem"]["code"], "board-not-found");
    let preferred = prefer(client, "/v1/events", "respond-async", batch).await;
    assert_eq!(preferred.headers["preference-applied"], "respond-async");
    let results = preferred.expect(200)["results"].as_array().unwrap().clone();
    assert_eq!(
        results[1]["status"], "queued",
        "also one that was taken: that is found out later"
    );
    assert_eq!(
        (length(&world, "b").await, length(&world, "s").await),
        (3, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_events_are_refused_before_they_are_queued() {
    let world = World::start(NOW).await;
    let client = world.client();
    let board = json!({"windows": ["day"], "ingest": "async", "score_max": 10, "closes_at": "2026-11-22T00:00:00Z",
        "opens_at": "2026-11-20T00:00:00Z", "accept_late": "1h", "quotas": [{"name": "v", "by": ["voter"], "max": 1, "window": "day"}]});
    client.define("b", board).await;
    for (change, status, code) in [
        (json!({"score": 11}), 422, "score-out-of-range"),
        (json!({"score": 1.5}), 422, "score-out-of-range"),
        (json!({"score": "1"}), 422, "validation-failed"),
        (json!({"voter": null}), 422, "validation-failed"),
        (json!({"data": {}}), 422, "validation-failed"),
        (
            json!({"at": "2026-11-21T12:01:01Z"}),
            422,
            "event-in-future",
        ),
        (json!({"at": "2026-11-21T10:59:59Z"}), 422, "event-too-late"),
    ] {
        for id in [None, Some("x1")] {
            let mut event = json!({"member": "ann", "score": 1, "voter": "v", "id": id});
            for (name, value) in change.as_object().unwrap() {
                event[name] = value.clone();
            }
            let answer = client.once().post("/v1/boards/b/events", event).await;
            answer.expect_problem(status, code);
        }
    }
    let event = json!({"member": "ann", "score": 1, "voter": "v", "id": "x1"});
    for _ in 0..2 {
        client
            .post("/v1/boards/b/events", event.clone())
            .await
            .expect(202);
    }
    world.set_time("2026-11-22T00:00:00Z");
    let again = client.post("/v1/boards/b/events", event).await.expect(202);
    assert_eq!(
        again["at"], NOW,
        "it waits, whatever would become of it by now"
    );
    let late = json!({"member": "ann", "score": 1, "voter": "w", "id": "x2"});
    client
        .post("/v1/boards/b/events", late)
        .await
        .expect_problem(409, "board-closed");
    assert_eq!(length(&world, "b").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_league_applies_events_before_it_responds() {
    let world = World::start(NOW).await;
    let client = world.client();
    let league = json!({"windows": ["week"], "score_min": 0, "finalize": "0s", "ingest": "async",
        "league": {"tiers": [{"name": "bronze", "promote": 0, "demote": 0}]}});
    let answer = client.put("/v1/boards/l", league.clone()).await.expect(422);
    assert_eq!(answer["errors"][0]["pointer"], "/ingest");
    let mut league = league;
    league["ingest"] = json!("sync");
    client.define("l", league).await;
    let event = json!({"id": "x1", "member": "ann", "score": 5});
    let answer = prefer(client, "/v1/boards/l/events", "respond-async", event).await;
    assert!(!answer.headers.contains_key("preference-applied"));
    assert_eq!(answer.expect(200)["status"], "applied");
    let found = fate(client, "l", "id=x1").await;
    assert_eq!((found.len(), &found[0]["status"]), (1, &json!("applied")));
    assert_eq!(fate(client, "l", "id=x1&member=ann").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_applied_without_the_queue_are_found_by_id() {
    let world = start().await;
    let client = world.client();
    let path = "/v1/boards/s/events";
    client
        .post(path, json!({"id": "x1", "member": "ann", "score": 5}))
        .await
        .expect(200);
    client
        .post(path, json!({"id": "x2", "member": "ann", "score": 2}))
        .await
        .expect(200);
    let bare = "/v1/boards/s/events?standings=false";
    client
        .post(bare, json!({"id": "x3", "member": "bob", "score": 1}))
        .await
        .expect(200);
    let expected = json!({"status": "applied", "id": "x2", "at": NOW, "outcome": "applied", "standings": [
        {"window": "day", "key": "2026-11-21", "score": 7}, {"window": "all", "key": "all", "score": 7}]});
    assert_eq!(fate(client, "s", "id=x2").await, from_ref(&expected));
    assert_eq!(
        fate(client, "s", "id=x2&member=ann").await,
        from_ref(&expected)
    );
    assert_eq!(fate(client, "s", "id=x3").await[0]["standings"], json!([]));
    assert!(fate(client, "s", "id=x4").await.is_empty());
    let refused = json!({"id": "x4", "member": "ann", "score": 0.5});
    client.post(path, refused).await.expect(422);
    assert!(fate(client, "s", "id=x4").await.is_empty());
    client
        .get("/v1/boards/s/events?id=")
        .await
        .expect_problem(400, "invalid-parameter");
    client
        .get("/v1/boards/gone/events?id=x1")
        .await
        .expect_problem(404, "board-not-found");
    client.spread("s", 4).await;
    world.instances[0].end_move("s").await;
    assert_eq!(
        fate(client, "s", "id=x2").await,
        from_ref(&expected),
        "former shards remember it"
    );
    assert_eq!(fate(client, "s", "id=x2&member=ann").await, [expected]);
    client
        .post(path, json!({"id": "x5", "member": "ann", "score": 1}))
        .await
        .expect(200);
    assert_eq!(
        fate(client, "s", "id=x5").await[0]["standings"][1]["score"],
        8
    );
    assert_eq!(fate(client, "s", "id=x5&member=ann").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_score_from_before_an_erasure_is_shown() {
    let world = start().await;
    let client = world.client();
    let send = async |id: &str, member: &str| {
        let event = json!({"id": id, "member": member, "score": 5});
        client.post("/v1/boards/s/events", event).await.expect(200);
    };
    send("x1", "ann").await;
    send("x2", "bob").await;
    assert!(
        client
            .delete("/v1/boards/s/members/ann")
            .await
            .status
            .is_success()
    );
    world.set_time("2026-11-21T12:00:01Z");
    send("x3", "ann").await;
    // Nothing tells whose an event was. So whoever names another member is told no score that may be one of ann's.
    for (query, standings) in [
        ("id=x1", 0),
        ("id=x1&member=ann", 0),
        ("id=x1&member=bob", 0),
        ("id=x1&member=nobody", 0),
        ("id=x2", 0),
        ("id=x2&member=bob", 0),
        ("id=x3", 0),
        ("id=x3&member=ann", 2),
        ("id=x3&member=bob", 0),
    ] {
        assert_eq!(scores_told(client, "s", query).await, standings, "{query}");
    }
}

/// How many scores are told of an event that was applied.
async fn scores_told(client: &Client, board: &str, query: &str) -> usize {
    let found = fate(client, board, query).await;
    assert_eq!(found[0]["status"], "applied", "{query}");
    found[0]["standings"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_hides_no_scores_of_another_shard_until_the_board_moves() {
    let world = World::start(NOW).await;
    let client = world.client();
    let board = json!({"windows": ["day"], "shards": 2});
    client.define("s", board).await;
    let board = BoardId::parse("s").unwrap();
    let board = world.engine().board(&board).await.unwrap();
    let members = |shard: usize| {
        let names = (0..100).map(|number| format!("m{number}"));
        let is_there = |name: &String| board.shard_of(&MemberId::parse(name).unwrap()) == shard;
        names.filter(is_there).take(2).collect::<Vec<_>>()
    };
    let [first, second] = [members(0), members(1)];
    for member in first.iter().chain(&second) {
        let event = json!({"id": member, "member": member, "score": 5});
        client.post("/v1/boards/s/events", event).await.expect(200);
    }
    let path = format!("/v1/boards/s/members/{}", first[0]);
    client.delete(&path).await.expect(204);
    let told = async |id: &str, member: &str| {
        let query = format!("id={id}&member={member}");
        scores_told(client, "s", &query).await
    };
    assert_eq!(told(&first[0], &first[1]).await, 0);
    assert_eq!(told(&second[0], &second[0]).await, 1);
    // By now the others may be anywhere.
    world.move_to("s", 3).await;
    assert_eq!(told(&second[0], &second[0]).await, 0);
    assert_eq!(told(&second[0], &second[1]).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_with_queued_events_is_in_use() {
    let world = start().await;
    let client = world.client();
    let event = json!({"id": "x1", "member": "ann", "score": 5});
    client.post("/v1/boards/b/events", event).await.expect(202);
    let changed = client.patch("/v1/boards/b", json!({"decimals": 2})).await;
    changed.expect_problem(409, "board-in-use");
    client
        .patch("/v1/boards/b", json!({"ingest": "sync"}))
        .await
        .expect(200);
    let event = json!({"id": "x2", "member": "ann", "score": 5});
    client.post("/v1/boards/b/events", event).await.expect(200);
    assert_eq!(length(&world, "b").await, 1, "what waits goes on waiting");
}

/// What became of an event is told also by an instance that has an old definition.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_with_an_old_definition_finds_queued_events() {
    let world = World::with_instances(2, NOW).await;
    let [first, second] = [0, 1].map(|index| world.instances[index].client.once());
    first.define("b", json!({"windows": ["day"]})).await;
    let event = json!({"id": "x1", "member": "ann", "score": 5});
    second.post("/v1/boards/b/events", event).await.expect(200);
    for (number, query) in ["id=x1", "id=x1&member=ann", "id=x2"]
        .iter()
        .cycle()
        .take(30)
        .enumerate()
    {
        let title = json!({"title": format!("the {number}th")});
        first.patch("/v1/boards/b", title).await.expect(200);
        let path = format!("/v1/boards/b/events?{query}");
        second.get(&path).await.expect(200);
    }
}

/// An instance that has an old definition reads it anew, and boards that have moved are followed.
#[tokio::test(flavor = "multi_thread")]
async fn queued_events_follow_a_board_that_moved() {
    let world = World::with_instances(2, NOW).await;
    let [first, second] = [0, 1].map(|index| world.instances[index].client.clone());
    let board = json!({"windows": ["day"], "ingest": "async"});
    first.define("b", board).await;
    let send = async |client: &Client, id: &str| {
        let event = json!({"id": id, "member": id, "score": 5});
        client.post("/v1/boards/b/events", event).await.expect(202);
    };
    send(&second, "x1").await;
    first
        .patch("/v1/boards/b", json!({"title": "B"}))
        .await
        .expect(200);
    send(&second, "x2").await;
    assert_eq!(length(&world, "b").await, 2);
    world.redis.run(&[b"DEL", b"nothing"]).await;
    first
        .define("m", json!({"windows": ["day"], "ingest": "async"}))
        .await;
    second.get("/v1/boards/m").await.expect(200);
    world.move_to("m", 3).await;
    for index in 0..20 {
        let event = json!({"id": format!("y{index}"), "member": format!("m{index}"), "score": 5});
        second.post("/v1/boards/m/events", event).await.expect(202);
    }
    let queues = world.redis.keys("st:{m*:queue").await;
    assert_eq!(
        (queues.len(), length(&world, "m").await),
        (3, 20),
        "{queues:?}"
    );
    for index in 0..20 {
        assert_eq!(fate(&first, "m", &format!("id=y{index}")).await.len(), 1);
        let of_member = format!("id=y{index}&member=m{index}");
        assert_eq!(fate(&first, "m", &of_member).await.len(), 1);
    }
    let index = world
        .redis
        .run(&[b"ZRANGE", b"st:{boards}:queues", b"0", b"-1"])
        .await;
    assert_eq!(index.list().len(), 4, "{index:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_loses_nothing_and_takes_events_again_once_drained() {
    let redis = RedisServer::start().await;
    let bounds = QueueBounds {
        queue_bytes: 2_000,
        server_bytes: 1 << 20,
    };
    let instance = Instance::start_bounded(&redis.url(), clock_at(NOW), bounds).await;
    let client = instance.client.once();
    client
        .define("b", json!({"windows": ["day"], "ingest": "async"}))
        .await;
    let event = |index: usize| json!({"id": format!("x{index}"), "member": "ann", "score": 5});
    let mut taken = 0;
    let refused = loop {
        let answer = client.post("/v1/boards/b/events", event(taken)).await;
        if answer.status != 202 {
            break answer;
        }
        taken += 1;
        assert!(taken < 100);
    };
    assert!(refused.headers.contains_key("retry-after"));
    refused.expect_problem(503, "queue-full");
    client
        .post("/v1/boards/b/events", event(0))
        .await
        .expect(202);
    let bytes = async || {
        let words: &[&[u8]] = &[b"KEYS", b"st:{b}:*:queue-state"];
        let state = redis.run(words).await.list()[0].text();
        redis
            .run(&[b"HGET", state.as_bytes(), b"bytes"])
            .await
            .text()
            .parse::<u64>()
            .unwrap()
    };
    assert!(
        (1_500..=2_000).contains(&bytes().await),
        "{}",
        bytes().await
    );
    assert!(fate(&client, "b", &format!("id=x{taken}")).await.is_empty());
    let mut batch = [event(0), event(taken)];
    for event in &mut batch {
        event["board"] = json!("b");
    }
    let answer = client
        .post("/v1/events", json!({"events": batch}))
        .await
        .expect(200);
    assert_eq!(answer["results"][0]["status"], "queued");
    assert_eq!(answer["results"][1]["problem"]["code"], "queue-full");
    // What was acknowledged counts once; and when it is applied, there is room again.
    let score = async || {
        let page = client.get("/v1/boards/b/standings/day").await.expect(200);
        page["entries"][0]["score"].clone()
    };
    let length = async || {
        let queue = redis.run(&[b"KEYS", b"st:{b}:*:queue"]).await.list()[0].text();
        redis.run(&[b"XLEN", queue.as_bytes()]).await
    };
    for _ in 0..3 {
        eventually("nothing waits", async || {
            instance.engine.run(&ApplyQueues).await.unwrap();
            length().await == Reply::Integer(0)
        })
        .await;
        assert_eq!((score().await, bytes().await), (json!(taken * 5), 0));
        let before = taken;
        loop {
            let answer = client.post("/v1/boards/b/events", event(taken)).await;
            if answer.status != 202 {
                answer.expect_problem(503, "queue-full");
                break;
            }
            taken += 1;
        }
        assert!(taken > before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_queues_together_are_bounded_in_events() {
    let redis = RedisServer::start().await;
    let bounds = QueueBounds {
        queue_bytes: 1 << 20,
        server_bytes: 1_000,
    };
    let start = async || Instance::start_bounded(&redis.url(), clock_at(NOW), bounds).await;
    let (first, second) = (start().await, start().await);
    for board in ["a", "b"] {
        let definition = json!({"windows": ["day"], "ingest": "async"});
        first.client.define(board, definition).await;
    }
    let send = async |instance: &Instance, board: &str, id: String| {
        let event = json!({"id": id, "member": "ann", "score": 5});
        let path = format!("/v1/boards/{board}/events");
        instance.client.once().post(&path, event).await
    };
    let mut taken = 0;
    while send(&first, "a", format!("x{taken}")).await.status == 202 {
        taken += 1;
        assert!(taken < 100);
    }
    assert!(taken > 2, "{taken}");
    send(&first, "b", "y".to_owned())
        .await
        .expect_problem(503, "queue-full");
    look(&second).await;
    send(&second, "b", "y".to_owned())
        .await
        .expect_problem(503, "queue-full");
    redis.command("CONFIG SET maxmemory 100mb").await;
    for instance in [&first, &second] {
        look(instance).await;
    }
    send(&first, "b", "y".to_owned()).await.expect(202);
    send(&second, "a", "z".to_owned()).await.expect(202);
}

/// Has an instance look how much waits, as it does every second.
async fn look(instance: &Instance) {
    let looked = worker::run(JobKind::QueueSizes, &instance.engine);
    looked.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_queues_together_use_at_most_a_quarter_of_the_memory() {
    const MEMORY_BYTES: u64 = 12 << 20;
    let maxmemory = MEMORY_BYTES.to_string();
    let redis = RedisServer::start_with(&["--port", "0", "--maxmemory", &maxmemory]).await;
    // The other bounds are not those that refuse anything here.
    let bounds = QueueBounds {
        queue_bytes: 1 << 30,
        server_bytes: 1 << 30,
    };
    let start = async || Instance::start_bounded(&redis.url(), clock_at(NOW), bounds).await;
    let (first, second) = (start().await, start().await);
    for board in ["a", "b", "c"] {
        let definition = json!({"windows": ["day"], "ingest": "async", "shards": 2});
        first.client.define(board, definition).await;
    }
    // Sends a thousand events, and says how many are queued.
    let fill = async |instance: &Instance, board: &str, part: usize| {
        let event = |number: usize| {
            let id = format!("{part}-{number}-{}", "x".repeat(100));
            json!({"board": board, "id": id, "member": format!("m{number}"), "score": 5})
        };
        let events: Vec<Value> = (0..1_000).map(event).collect();
        let body = json!({"events": events});
        let answer = instance
            .client
            .once()
            .post("/v1/events", body)
            .await
            .expect(200);
        let results = answer["results"].as_array().unwrap();
        let is_queued = |result: &&Value| result["status"] == "queued";
        for result in results.iter().filter(|result| !is_queued(result)) {
            assert_eq!(result["problem"]["code"], "queue-full", "{result}");
        }
        results.iter().filter(is_queued).count()
    };
    let bytes = async || {
        let mut bytes = 0;
        for state in redis.run(&[b"KEYS", b"st:*:queue-state"]).await.list() {
            let stored = redis.run(&[b"HGET", state.bytes(), b"bytes"]).await;
            // Nothing was ever put where there was no room from the beginning.
            if stored != Reply::Nil {
                bytes += stored.text().parse::<u64>().unwrap();
            }
        }
        bytes
    };
    look(&first).await;
    let mut taken = 0;
    for part in 0.. {
        let board = ["a", "b"][part % 2];
        let queued = fill(&first, board, part).await;
        taken += queued;
        if queued < 1_000 {
            break;
        }
    }
    // Calls of one request that were under way together may each have been told of the same room: they have its 1,000 events, of less
    // than 500 bytes each.
    let most = bytes().await;
    assert!(most > MEMORY_BYTES / 4 - 1_000, "{most}");
    assert!(most < MEMORY_BYTES / 4 + 1_000 * 500, "{most}");
    // Neither instance takes anything more, on any board.
    look(&second).await;
    for instance in [&first, &second] {
        assert_eq!(fill(instance, "c", 0).await, 0);
    }
    assert_eq!(bytes().await, most);
    // What was taken counts, and then there is room again.
    eventually("nothing waits", async || {
        first.engine.run(&ApplyQueues).await.unwrap();
        bytes().await == 0
    })
    .await;
    let mut sum = 0;
    for board in ["a", "b"] {
        let path = format!("/v1/boards/{board}/standings/day?size=1000");
        let page = first.client.get(&path).await.expect(200);
        let entries = page["entries"].as_array().unwrap().iter();
        sum += entries
            .map(|entry| entry["score"].as_u64().unwrap())
            .sum::<u64>();
    }
    assert_eq!(sum, 5 * taken as u64);
    assert_eq!(fill(&second, "c", 0).await, 0, "it has not looked since");
    look(&second).await;
    assert_eq!(fill(&second, "c", 0).await, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_queue_affects_no_other_board() {
    let redis = RedisServer::start().await;
    let bounds = QueueBounds {
        queue_bytes: 1 << 20,
        server_bytes: 1_000,
    };
    let instance = Instance::start_bounded(&redis.url(), clock_at(NOW), bounds).await;
    let (client, engine) = (&instance.client, &instance.engine);
    for board in ["a", "b"] {
        let definition = json!({"windows": ["day"], "ingest": "async"});
        client.define(board, definition).await;
    }
    let send = async |board: &str, id: String| {
        let event = json!({"id": id, "member": "ann", "score": 5});
        let path = format!("/v1/boards/{board}/events");
        client.once().post(&path, event).await.expect(202)
    };
    let sample = async || worker::run(JobKind::QueueSizes, engine).await.unwrap();
    let is_told = async || {
        let ready = client.get("/readyz").await.expect(200);
        ready["faults"].to_string().contains("queue-sizes")
    };
    send("a", "x".to_owned()).await;
    let key = async |kind: &str| {
        let pattern = format!("st:{{a}}:*:{kind}");
        let keys = redis.run(&[b"KEYS", pattern.as_bytes()]).await;
        keys.list()[0].text()
    };
    let keys = [key("queue-state").await, key("queue").await];
    for (round, damaged) in keys.iter().enumerate() {
        redis.run(&[b"SET", damaged.as_bytes(), b"x"]).await;
        // Each of them is applied before the next one comes; together they have more bytes than may wait.
        for number in 0..20 {
            send("b", format!("{round}-{number}")).await;
            engine.run(&ApplyQueues).await.unwrap();
            sample().await;
        }
        send("b", format!("{round}-last")).await;
        let listed = client.get("/v1/queues").await.expect(200);
        let listed = listed["queues"].as_array().unwrap();
        assert_eq!((listed.len(), &listed[0]["board"]), (1, &json!("b")));
        assert!(is_told().await);
        redis.run(&[b"DEL", damaged.as_bytes()]).await;
        sample().await;
        assert!(!is_told().await);
    }
}

/// A newer release may have queued it.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_waiting_event_fails_only_its_own_retry() {
    let world = start().await;
    let client = world.client();
    let event = |id: &str| json!({"board": "b", "id": id, "member": "ann", "score": 5});
    let post = async |events: &[Value]| {
        let answer = client.post("/v1/events", json!({ "events": events })).await;
        answer.expect(200)["results"].clone()
    };
    post(&[event("x1")]).await;
    let [queue, ids] = ["queue", "queue-ids"].map(|kind| format!("st:{{b}}:*:{kind}"));
    let queue = world.redis.keys(&queue).await.remove(0);
    let ids = world.redis.keys(&ids).await.remove(0);
    let all: [&[u8]; 4] = [b"XRANGE", queue.as_bytes(), b"-", b"+"];
    let first = world.redis.run(&all).await.list()[0].clone();
    // It begins with the same fingerprint.
    let read: Vec<Value> = rmp_serde::from_slice(first.list()[1].list()[3].bytes()).unwrap();
    let changed = rmp_serde::to_vec(&read[..1]).unwrap();
    let add: [&[u8]; 7] = [
        b"XADD",
        queue.as_bytes(),
        b"*",
        b"id",
        b"x1",
        b"event",
        &changed,
    ];
    let entry = world.redis.run(&add).await.text();
    let set: [&[u8]; 4] = [b"HSET", ids.as_bytes(), b"x1", entry.as_bytes()];
    world.redis.run(&set).await;
    let results = post(&[event("x1"), event("x2")]).await;
    assert_eq!(results[0]["status"], "rejected", "{results}");
    assert_eq!(results[1]["status"], "queued", "{results}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_waits_until_replicas_have_the_event() {
    let replicated = Replicated::start(NOW).await;
    let client = &replicated.instance.client;
    client
        .define("b", json!({"windows": ["day"], "ingest": "async"}))
        .await;
    let event = json!({"id": "x1", "member": "ann", "score": 5});
    client
        .post("/v1/boards/b/events", event.clone())
        .await
        .expect(202);
    let words: &[&[u8]] = &[b"KEYS", b"st:{b}:*:queue"];
    assert_eq!(replicated.replica.run(words).await.list().len(), 1);
    replicated.replica.freeze(true);
    for id in ["x1", "x2"] {
        let event = json!({"id": id, "member": "ann", "score": 5});
        let answer = client.once().post("/v1/boards/b/events", event).await;
        answer.expect_problem(503, "store-unavailable");
    }
    replicated.replica.freeze(false);
    client.post("/v1/boards/b/events", event).await.expect(202);
}
