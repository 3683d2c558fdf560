//! Events without `at`: they count for the time at which the service has read them, in the order in which they came in.

use serde_json::{Value, json};
use standings::core::board::store::boards;
use standings::domain::ids::BoardId;
use standings::queue::store::queues;
use standings::redis::StoreError;

use crate::harness::client::Answer;
use crate::harness::jobs::ApplyQueues;
use crate::harness::redis::eventually;
use crate::harness::{Client, Instance, World, clock_at, store};

const NOW: &str = "2026-11-21T12:00:00Z";

/// The results of a batch.
async fn send(client: &Client, events: Vec<Value>) -> Vec<Value> {
    let batch = json!({ "events": events });
    let answer = whole(&client.post("/v1/events", batch).await);
    answer["results"].as_array().unwrap().clone()
}

/// What was answered, with its times to the microsecond.
fn whole(answer: &Answer) -> Value {
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
    serde_json::from_str(&answer.text).unwrap()
}

async fn entries(client: &Client, board: &str, window: &str) -> Vec<Value> {
    let path = format!("/v1/boards/{board}/standings/{window}?size=1000");
    let page = whole(&client.get(&path).await);
    page["entries"].as_array().unwrap().clone()
}

/// The scores of members, by their ids.
async fn scores(client: &Client, board: &str) -> Vec<(String, i64)> {
    let entries = entries(client, board, "all").await;
    let mut scores: Vec<_> = entries
        .iter()
        .map(|entry| {
            let member = entry["member"].as_str().unwrap().to_owned();
            (member, entry["score"].as_i64().unwrap())
        })
        .collect();
    scores.sort();
    scores
}

/// All orders of three numbers.
fn orders([a, b, c]: [i64; 3]) -> [[i64; 3]; 6] {
    [
        [a, b, c],
        [a, c, b],
        [b, a, c],
        [b, c, a],
        [c, a, b],
        [c, b, a],
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_value_wins_in_every_order_and_by_every_path() {
    let world = World::start(NOW).await;
    let client = world.client();
    for (board, shards, is_queued) in [("one", 1, false), ("many", 4, false), ("queued", 1, true)] {
        let definition = json!({"windows": ["all", "day"], "update": "last", "shards": shards});
        client.define(board, definition).await;
        let mut events = Vec::new();
        let mut expected = Vec::new();
        for (index, order) in orders([3, 5, 9]).into_iter().enumerate() {
            let member = format!("m{index}");
            events.extend(
                order.map(|score| json!({"board": board, "member": member, "score": score})),
            );
            expected.push((member, order[2]));
        }
        if is_queued {
            send(&client.queueing(), events).await;
            while !queues::listed(&world.engine().store)
                .await
                .unwrap()
                .is_empty()
            {
                world.engine().run(&ApplyQueues).await.unwrap();
            }
        } else {
            let results = send(client, events).await;
            let times: Vec<_> = results.iter().map(|result| &result["at"]).collect();
            assert!(
                times.is_sorted_by(|one, next| one.as_str() < next.as_str()),
                "{times:?}"
            );
        }
        assert_eq!(scores(client, board).await, expected, "{board}");
        // One after the other, downwards too.
        for score in [1010, 990, 0, -5] {
            let path = format!("/v1/boards/{board}/events");
            client
                .post(&path, json!({"member": "z", "score": score}))
                .await
                .expect(200);
            assert_eq!(scores(client, board).await.last().unwrap().1, score);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_last_scores_at_one_instant_the_better_one_wins() {
    let world = World::start(NOW).await;
    let client = world.client();
    for (board, best) in [("desc", 9), ("asc", 3)] {
        let definition =
            json!({"windows": ["all"], "update": "last", "order": board, "accept_late": "any"});
        client.define(board, definition).await;
        let at = "2026-11-21T09:00:00Z";
        let (mut events, mut expected) = (Vec::new(), Vec::new());
        for (index, order) in orders([3, 5, 9]).into_iter().enumerate() {
            let member = format!("m{index}");
            events.extend(
                order.map(
                    |score| json!({"board": board, "member": member, "score": score, "at": at}),
                ),
            );
            expected.push((member, best));
        }
        send(client, events).await;
        assert_eq!(scores(client, board).await, expected, "{board}");
        // A correction is a millisecond later.
        let later = "2026-11-21T09:00:00.001Z";
        let right = json!({"member": "m0", "score": 5, "at": later});
        let path = format!("/v1/boards/{board}/events");
        let result = client.post(&path, right).await.expect(200);
        assert_eq!(result["status"], "applied");
        assert_eq!(scores(client, board).await[0].1, 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_scores_rank_in_order_of_arrival() {
    let world = World::start(NOW).await;
    let client = world.client();
    // By their ids they would stand the other way round.
    let members: Vec<String> = (0..900)
        .rev()
        .map(|number| format!("m{number:03}"))
        .collect();
    for (board, ties, shards) in [
        ("first", "first", 1),
        ("last", "last", 1),
        ("shards", "first", 4),
    ] {
        client
            .define(
                board,
                json!({"windows": ["day"], "ties": ties, "shards": shards}),
            )
            .await;
        let event = |member: &String| json!({"board": board, "member": member, "score": 7});
        send(client, members.iter().map(event).collect()).await;
        let entries = entries(client, board, "day").await;
        let mut listed: Vec<_> = entries
            .iter()
            .map(|entry| entry["member"].as_str().unwrap())
            .collect();
        if ties == "last" {
            listed.reverse();
        }
        assert_eq!(listed, members, "{board}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_keeps_its_time_and_returns_it() {
    let world = World::start(NOW).await;
    let client = world.client();
    client.define("b", json!({"windows": ["day"]})).await;
    let event = json!({"id": "e", "member": "a", "score": 5});
    let first = whole(&client.post("/v1/boards/b/events", event.clone()).await);
    let at = first["at"].as_str().unwrap();
    assert!(
        at.starts_with("2026-11-21T12:00:00.000") && at.len() == 27,
        "{at}"
    );
    world.set_time("2026-11-21T13:00:00Z");
    let again = whole(&client.post("/v1/boards/b/events", event).await);
    assert_eq!(
        (&again["status"], &again["at"]),
        (&json!("duplicate"), &first["at"])
    );
    assert_eq!(
        entries(client, "b", "day").await[0]["reached_at"],
        first["at"]
    );
    // One that says when it happened is before those of the same millisecond that do not.
    let given = json!({"member": "b", "score": 5, "at": NOW});
    let given = whole(&client.post("/v1/boards/b/events", given).await);
    assert_eq!(given["at"], "2026-11-21T12:00:00.000Z");
    assert_eq!(entries(client, "b", "day").await[0]["member"], "b");
    let exact = json!({"member": "c", "score": 5, "at": "2026-11-21T11:59:59.9999994Z"});
    let exact = whole(&client.post("/v1/boards/b/events", exact).await);
    assert_eq!(exact["at"], "2026-11-21T11:59:59.999999Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_value_wins_through_instances_whose_clocks_differ() {
    let world = World::start("2026-11-21T23:59:59.5Z").await;
    let clock = clock_at("2026-11-21T23:59:58.9Z");
    let behind = Instance::start(&world.redis.url(), clock.clone(), "").await;
    let (client, other) = (world.client(), &behind.client);
    client
        .define("b", json!({"windows": ["day", "all"], "update": "last"}))
        .await;
    let set = async |client: &Client, member: &str, score: i64| {
        let event = json!({"member": member, "score": score});
        let answer = whole(&client.post("/v1/boards/b/events", event).await);
        answer["at"].as_str().unwrap().to_owned()
    };
    let mut last = String::new();
    for round in 0..20 {
        let client = if round % 2 == 0 { client } else { other };
        let at = set(client, "a", 100 - round).await;
        assert!(at > last, "{at} after {last}");
        last = at;
        assert_eq!(scores(client, "b").await, [("a".to_owned(), 100 - round)]);
    }
    assert!(last.starts_with("2026-11-21T23:59:59.500"), "{last}");
    // What lies further ahead is not what another clock has made.
    world.set_time("2026-11-21T23:59:59.95Z");
    set(client, "a", 1).await;
    let at = set(other, "a", 2).await;
    assert!(at.starts_with("2026-11-21T23:59:58.9"), "{at}");
    assert_eq!(scores(client, "b").await, [("a".to_owned(), 1)]);
    // Nor what its sender has dated.
    let given = json!({"member": "c", "score": 3, "at": "2026-11-21T23:59:59.1Z"});
    whole(&client.post("/v1/boards/b/events", given).await);
    set(other, "c", 4).await;
    assert_eq!(scores(client, "b").await[1], ("c".to_owned(), 3));

    // Behind the end of the day it counts for the next one.
    world.set_time("2026-11-21T23:59:59.999Z");
    clock.set("2026-11-21T23:59:59.5Z".parse().unwrap());
    let event = json!({"board": "b", "member": "e", "score": 1});
    send(client, vec![event; 998]).await;
    assert!(set(client, "d", 5).await.ends_with(":59.999999Z"));
    let at = set(other, "d", 6).await;
    assert!(at.starts_with("2026-11-22T00:00:00.000"), "{at}");
    assert_eq!(scores(client, "b").await[2], ("d".to_owned(), 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn zero_scores_and_lost_leads_do_not_change_reached_at() {
    let world = World::start(NOW).await;
    let client = world.client();
    let windows = json!(["day", "last-3-days", "all"]);
    client
        .define(
            "b",
            json!({"windows": windows, "accept_late": "any", "entry_data": true}),
        )
        .await;
    let at = |hour: u32| format!("2026-11-21T{hour:02}:00:00.000Z");
    let event = |member: &str, score: i64, hour: u32| {
        let data = json!({"hour": hour});
        json!({"board": "b", "member": member, "score": score, "at": at(hour), "data": data})
    };
    // In each order, +5, −5, 0 and +3 reach 3 at the last of them that is not 0.
    let steps = [(0, 4), (5, 5), (-5, 6), (0, 9), (3, 7), (0, 3)];
    for first in 0..steps.len() {
        let member = format!("m{first}");
        let events = (0..steps.len()).map(|index| {
            let (score, hour) = steps[(first + index) % steps.len()];
            event(&member, score, hour)
        });
        send(client, events.collect()).await;
    }
    // Nothing but zeros is reached at the first of them.
    send(
        client,
        vec![
            event("zero", 0, 8),
            event("zero", 0, 2),
            event("zero", 0, 5),
        ],
    )
    .await;
    for window in ["day", "last-3-days", "all"] {
        let path = format!("/v1/boards/b/standings/{window}?include=data");
        let page = client.get(&path).await.expect(200);
        let entries = page["entries"].as_array().unwrap();
        let listed = if window == "last-3-days" { 6 } else { 7 };
        assert_eq!(entries.len(), listed, "{window}");
        for entry in entries {
            let hour = if entry["member"] == "zero" { 2 } else { 7 };
            assert_eq!(entry["reached_at"], at(hour), "{window}: {entry}");
            assert_eq!(entry["data"], json!({"hour": hour}), "{window}: {entry}");
        }
    }
    // In a rolling window a zero leaves the time of an earlier day.
    let later = json!({"board": "b", "member": "m0", "score": 0, "at": "2026-11-22T09:00:00Z"});
    world.set_time("2026-11-22T12:00:00Z");
    send(client, vec![later]).await;
    let page = client
        .get("/v1/boards/b/standings/last-3-days/members/m0")
        .await
        .expect(200);
    assert_eq!(
        (&page["score"], &page["reached_at"]),
        (&json!(3), &json!(at(7)))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn zero_scores_keep_the_time_of_an_initial_score() {
    let world = World::start(NOW).await;
    let client = world.client();
    client
        .define(
            "b",
            json!({"windows": ["day", "last-2-days"], "initial": ["day"], "accept_late": "any"}),
        )
        .await;
    let initial = |score: Value| json!({"scores": {"a": score}});
    let path = "/v1/boards/b/initial-scores";
    let reached = async |member: &str| {
        let path = format!("/v1/boards/b/standings/day/members/{member}");
        let found = client.get(&path).await.expect(200);
        (
            found["score"].clone(),
            found["reached_at"].as_str().unwrap().to_owned(),
        )
    };
    let event =
        |score: i64, at: &str| json!({"board": "b", "member": "a", "score": score, "at": at});
    let start = "2026-11-21T00:00:00.000Z";
    let [early, late] = ["2026-11-21T03:00:00.000Z", "2026-11-21T09:00:00.000Z"];
    send(client, vec![event(0, late)]).await;
    assert_eq!(reached("a").await, (json!(0), late.to_owned()));
    client.patch(path, initial(json!(10))).await.expect(200);
    assert_eq!(reached("a").await, (json!(10), start.to_owned()));
    send(client, vec![event(0, early)]).await;
    assert_eq!(reached("a").await, (json!(10), start.to_owned()));
    client.patch(path, initial(Value::Null)).await.expect(200);
    assert_eq!(reached("a").await, (json!(0), early.to_owned()));
    client.patch(path, initial(json!(10))).await.expect(200);
    send(client, vec![event(5, early), event(0, late)]).await;
    assert_eq!(reached("a").await, (json!(15), early.to_owned()));
    client.patch(path, initial(json!(-5))).await.expect(200);
    assert_eq!(reached("a").await, (json!(0), early.to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_another_format_is_left_alone() {
    let world = World::start(NOW).await;
    let client = world.client();
    for board in ["old", "own"] {
        client.define(board, json!({"windows": ["all"]})).await;
    }
    let definition = world
        .redis
        .run(&[b"HGET", b"st:{old}", b"definition"])
        .await
        .text();
    assert!(definition.contains("\"data_format\":2"), "{definition}");
    let other = definition.replace("\"data_format\":2", "\"data_format\":1");
    world
        .redis
        .run(&[b"HSET", b"st:{old}", b"definition", other.as_bytes()])
        .await;
    let fresh = Instance::start(&world.redis.url(), world.clock.clone(), "").await;
    let event = json!({"member": "a", "score": 1});
    let problem = "data-of-another-version";
    let told = fresh
        .client
        .once()
        .post("/v1/boards/old/events", event.clone())
        .await;
    let detail = told.expect_problem(503, problem);
    assert!(
        detail.contains("format 1") && detail.contains("supports 2"),
        "{detail}"
    );
    for path in ["/v1/boards/old", "/v1/boards/old/standings/all"] {
        fresh
            .client
            .once()
            .get(path)
            .await
            .expect_problem(503, problem);
    }
    fresh
        .client
        .once()
        .delete("/v1/boards/old")
        .await
        .expect_problem(503, problem);
    let change = json!({"windows": ["all", "day"]});
    fresh
        .client
        .once()
        .put("/v1/boards/old", change)
        .await
        .expect_problem(503, problem);
    fresh
        .client
        .post("/v1/boards/own/events", event)
        .await
        .expect(200);
    let listed = fresh.client.get("/v1/boards").await.expect(200);
    assert_eq!(listed["boards"].as_array().unwrap().len(), 1);
    assert_eq!(listed["unreadable"][0]["board"], "old");
    let kept = world
        .redis
        .run(&[b"HGET", b"st:{old}", b"definition"])
        .await
        .text();
    assert_eq!(kept, other);

    // What belongs to no board.
    let format = b"st:{boards}:format";
    assert_eq!(world.redis.run(&[b"GET", format]).await.text(), "2");
    for stored in [Some("3"), None] {
        match stored {
            Some(stored) => world.redis.run(&[b"SET", format, stored.as_bytes()]).await,
            None => world.redis.run(&[b"DEL", format]).await,
        };
        let store = store(&world.redis.url());
        let format = stored.unwrap_or("1");
        eventually("the store refuses the format", async || {
            matches!(store.prepare().await, Err(StoreError::Unusable(_)))
        })
        .await;
        let error = store.prepare().await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("the data format {format}")),
            "{error}"
        );
        let id = BoardId::parse("own").unwrap();
        let error = boards::begin_change(&store, &id).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("the data format {format}")),
            "{error}"
        );
    }
}
