//! Data of entries, by example. The property test compares it with a model.

use serde_json::{Value, json};
use standings::domain::ids::BoardId;
use standings::moves;

use crate::harness::World;
use crate::harness::jobs::Moves;
use crate::harness::random::Random;
use crate::harness::redis::eventually;

const NOW: &str = "2026-11-21T12:00:00Z";

/// An event: its score, the second of this day at which it happened, and its data.
type Sent = (i64, u32, Value);

async fn world(definition: Value) -> World {
    let world = World::start(NOW).await;
    world.client().define("b", definition).await;
    world
}

fn event(member: &str, (score, second, data): &Sent) -> Value {
    let at = format!("2026-11-21T08:00:{second:02}Z");
    json!({"board": "b", "member": member, "score": score, "at": at, "data": data})
}

/// Sends events in their order, in one request.
async fn send(world: &World, events: Vec<Value>) -> Vec<Value> {
    let batch = json!({"events": events});
    let answer = world.client().post("/v1/events", batch).await.expect(200);
    answer["results"].as_array().unwrap().clone()
}

/// The same of events that have to be taken.
async fn take(world: &World, events: Vec<Value>) {
    for result in send(world, events).await {
        assert_ne!(result["status"], "rejected", "{result}");
    }
}

async fn get(world: &World, path: &str) -> Value {
    let path = format!("/v1/boards/b/standings/{path}");
    world.client().get(&path).await.expect(200)
}

/// Members and their data.
fn shown(answer: &Value) -> Vec<(&str, &Value)> {
    let entries = answer["entries"].as_array().unwrap().iter();
    let shown = entries.map(|entry| (entry["member"].as_str().unwrap(), &entry["data"]));
    shown.collect()
}

/// All orders of so many things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let with = |order: &Vec<usize>, place: usize| {
        let mut order = order.clone();
        order.insert(place, count - 1);
        order
    };
    let shorter = orders(count - 1);
    let longer = shorter
        .iter()
        .flat_map(|order| (0..count).map(move |place| with(order, place)));
    longer.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_shows_the_data_of_the_event_that_gave_its_time_in_any_order() {
    let [old, small, great] = [json!({"z": 1}), json!({"a": 10}), json!({"a": 2})];
    let none = Value::Null;
    for (update, order, events, expected) in [
        (
            "sum",
            "desc",
            [
                (5, 1, old.clone()),
                (1, 2, small.clone()),
                (2, 2, great.clone()),
                (3, 2, none.clone()),
            ],
            great.clone(),
        ),
        (
            // The newest has none.
            "sum",
            "desc",
            [
                (5, 1, old.clone()),
                (1, 2, small.clone()),
                (2, 3, none.clone()),
                (3, 2, great.clone()),
            ],
            none.clone(),
        ),
        (
            "max",
            "desc",
            [
                (9, 2, small.clone()),
                (9, 2, great.clone()),
                (9, 3, old.clone()),
                (8, 1, old.clone()),
            ],
            great.clone(),
        ),
        (
            "max",
            "asc",
            [
                (9, 2, none.clone()),
                (9, 1, none.clone()),
                (9, 2, old.clone()),
                (1, 1, old.clone()),
            ],
            none.clone(),
        ),
        (
            "min",
            "asc",
            [
                (2, 2, none.clone()),
                (2, 2, small.clone()),
                (2, 4, old.clone()),
                (3, 1, old.clone()),
            ],
            small.clone(),
        ),
        (
            "last",
            "desc",
            [
                (7, 3, small.clone()),
                (7, 3, great.clone()),
                (6, 3, old.clone()),
                (9, 2, old.clone()),
            ],
            great.clone(),
        ),
    ] {
        for ties in ["first", "last"] {
            let windows = if update == "sum" {
                json!(["day", "last-2-days"])
            } else {
                json!(["day"])
            };
            let definition = json!({"windows": windows, "update": update, "order": order, "ties": ties,
                "entry_data": true});
            let world = world(definition).await;
            for (number, order) in orders(events.len()).into_iter().enumerate() {
                let member = format!("m{number:02}");
                let sent = order.iter().map(|place| event(&member, &events[*place]));
                take(&world, sent.collect()).await;
            }
            for window in windows.as_array().unwrap() {
                let window = window.as_str().unwrap();
                let page = get(&world, &format!("{window}?include=data")).await;
                let shown = shown(&page);
                assert_eq!(shown.len(), 24);
                for (member, data) in shown {
                    assert_eq!(*data, expected, "{update}, {ties}, {window}, {member}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_of_entries_shows_data_on_request() {
    for shards in [1, 7] {
        let definition = json!({"windows": ["day", "all"], "entry_data": true, "shards": shards, "score_min": 1,
            "keep_top": 3});
        let world = world(definition).await;
        let (ann, cid) = (json!({"car": "gt", "n": 1.5}), json!({}));
        let events = [
            event("ann", &(50, 1, ann.clone())),
            event("bob", &(40, 2, Value::Null)),
            event("cid", &(30, 3, cid.clone())),
            event("dan", &(20, 4, json!({"of": "dan"}))),
        ];
        send(&world, events.to_vec()).await;
        let without = get(&world, "day").await;
        assert_eq!(without["entries"][0].get("data"), None);
        let dan = json!({"of": "dan"});
        let page = get(&world, "day?include=data&member=dan").await;
        assert_eq!(
            shown(&page),
            [("ann", &ann), ("bob", &Value::Null), ("cid", &cid)]
        );
        assert_eq!(
            (&page["me"]["rank"], &page["me"]["data"]),
            (&Value::Null, &dan)
        );
        for (path, place, member) in [
            (
                "day?include=data&from_score=35&to_score=45",
                "/entries/0",
                "bob",
            ),
            (
                "day?include=data&around_score=30&size=2",
                "/entries/1",
                "cid",
            ),
            ("day/at-percentile/100?include=data", "/entry", "ann"),
            ("day/members/cid?include=data&around=1", "", "cid"),
            ("day/members/cid?include=data&around=1", "/around/1", "cid"),
            ("day/members/dan?include=data", "", "dan"),
            ("day/members?ids=dan,ann&include=data", "/entries/0", "ann"),
            ("day/members?ids=dan,ann&include=data", "/entries/1", "dan"),
        ] {
            let answer = get(&world, path).await;
            let entry = answer.pointer(place).unwrap();
            let expected = [("ann", &ann), ("cid", &cid), ("dan", &dan)];
            let expected = expected.iter().find(|(name, _)| *name == member);
            let expected = expected.map_or(&Value::Null, |(_, data)| data);
            assert_eq!(
                (&entry["member"], &entry["data"]),
                (&json!(member), expected),
                "{path}: {answer}"
            );
        }
        let path = "/v1/boards/b/standings/day/members/query?include=data";
        let subset = world
            .client()
            .post(path, json!({"ids": ["cid"]}))
            .await
            .expect(200);
        assert_eq!(shown(&subset), [("cid", &cid)]);
        let across = world
            .client()
            .get("/v1/members/ann/standings?boards=b&window=all&include=data")
            .await;
        assert_eq!(across.expect(200)["standings"][0]["entry"]["data"], ann);
        let queries = json!({"queries": [
            {"type": "page", "board": "b", "window": "day", "size": 1},
            {"type": "member", "board": "b", "window": "day", "member": "cid"},
            {"type": "subset", "board": "b", "window": "all", "ids": ["dan"]}]});
        let answers = world
            .client()
            .post("/v1/standings/query?include=data,profile", queries)
            .await
            .expect(200);
        let at = |place: &str| answers.pointer(place).cloned();
        assert_eq!(at("/results/0/entries/0/data"), Some(ann.clone()));
        assert_eq!(at("/results/0/entries/0/profile"), Some(Value::Null));
        assert_eq!(at("/results/1/data"), Some(cid.clone()));
        assert_eq!(at("/results/2/entries/0/data"), Some(dan.clone()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_is_shown_in_its_canonical_form_and_is_part_of_the_entity_tag() {
    let world = world(json!({"windows": ["day"], "update": "max", "entry_data": true})).await;
    let send = async |id: &str, data: &str| {
        let body = format!(
            r#"{{"id": "{id}", "member": "ann", "score": 5, "at": "2026-11-21T08:00:00Z", "data": {data}}}"#
        );
        let client = world.client();
        client
            .post_text("/v1/boards/b/events", "application/json", body)
            .await
    };
    let page = async || {
        world
            .client()
            .get("/v1/boards/b/standings/day?include=data")
            .await
    };
    send("1", r#"{"b": [1.0, 1e3], "a": "\u00e9\/"}"#)
        .await
        .expect(200);
    let first = page().await;
    assert!(
        first.text.contains(r#""data":{"a":"é/","b":[1,1000]}"#),
        "{}",
        first.text
    );
    let first_tag = first.headers["etag"].clone();
    assert_eq!(page().await.headers["etag"], first_tag);
    // The same score at the same time: only the data changes.
    let second = send("2", r#"{"c": 0}"#).await.expect(200);
    assert_eq!(second["status"], "applied");
    let answer = page().await;
    assert!(answer.text.contains(r#""data":{"c":0}"#), "{}", answer.text);
    assert_ne!(answer.headers["etag"], first_tag);
    assert_eq!(
        send("3", r#"{"b": 9}"#).await.expect(200)["status"],
        "unchanged"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn other_data_under_an_id_is_a_conflict_and_equal_data_a_duplicate() {
    let world = world(json!({"windows": ["day"], "entry_data": true})).await;
    let send = async |data: &str| {
        let body = format!(r#"{{"id": "1", "member": "ann", "score": 5{data}}}"#);
        let client = world.client();
        client
            .post_text("/v1/boards/b/events", "application/json", body)
            .await
    };
    assert_eq!(
        send(r#", "data": {"b": 1, "a": 10}"#).await.expect(200)["status"],
        "applied"
    );
    for same in [
        r#", "data": {"a":1e1,"b":1.0}"#,
        r#", "data": {"b": 1, "\u0061": 10}"#,
    ] {
        assert_eq!(
            send(same).await.expect(200)["status"],
            "duplicate",
            "{same}"
        );
    }
    for other in [
        "",
        r#", "data": null"#,
        r#", "data": {}"#,
        r#", "data": {"b": 1, "a": 11}"#,
    ] {
        send(other).await.expect_problem(422, "event-id-reused");
    }
    let none = async |data: &str| {
        let body = format!(r#"{{"id": "2", "member": "ann", "score": 5{data}}}"#);
        let client = world.client();
        client
            .post_text("/v1/boards/b/events", "application/json", body)
            .await
    };
    assert_eq!(none("").await.expect(200)["status"], "applied");
    assert_eq!(
        none(r#", "data": null"#).await.expect(200)["status"],
        "duplicate",
        "null is none"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_data_is_refused_and_changes_nothing() {
    let world = world(json!({"windows": ["day"], "entry_data": true})).await;
    world
        .client()
        .define("plain", json!({"windows": ["day"]}))
        .await;
    let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(505));
    let deep = format!(r#"{{"a": {}1{}}}"#, "[".repeat(200), "]".repeat(200));
    for (data, detail) in [
        ("[1]", "must be a JSON object"),
        ("\"{}\"", "must be a JSON object"),
        (r#"{"a": 1, "a": 2}"#, "an object has the name \"a\" twice"),
        (r#"{"a": 9007199254740993}"#, "send it as a string"),
        (r#"{"a": 1e400}"#, "out of range"),
        (&long, "has 513 bytes in its canonical form"),
        (&deep, "recursion limit"),
    ] {
        let body = format!(r#"{{"member": "ann", "score": 5, "data": {data}}}"#);
        let client = world.client();
        let answer = client
            .post_text("/v1/boards/b/events", "application/json", body)
            .await;
        let problem = answer.expect(422);
        assert_eq!(problem["errors"][0]["pointer"], "/data", "{problem}");
        let found = problem["errors"][0]["detail"].as_str().unwrap();
        assert!(found.contains(detail), "{found}");
    }
    assert_eq!(get(&world, "day").await["total"], 0);
    // One event of a batch, and a board without data.
    let mut wrong = event("ann", &(1, 1, json!([])));
    let plain = json!({"board": "plain", "member": "ann", "score": 1, "data": {}});
    let results = send(
        &world,
        vec![wrong.clone(), plain, event("bob", &(1, 1, json!({})))],
    )
    .await;
    for (index, detail) in [
        (0, "must be a JSON object"),
        (1, "does not store data of entries"),
    ] {
        let problem = &results[index]["problem"];
        assert_eq!(problem["code"], "validation-failed", "{problem}");
        assert_eq!(problem["errors"][0]["pointer"], "/data");
        let found = problem["errors"][0]["detail"].as_str().unwrap();
        assert!(found.contains(detail), "{found}");
    }
    assert_eq!(results[2]["status"], "applied");
    wrong["data"] = Value::Null;
    wrong["board"] = json!("plain");
    assert_eq!(
        send(&world, vec![wrong]).await[0]["status"],
        "applied",
        "null is no data"
    );
    let page = world
        .client()
        .get("/v1/boards/plain/standings/day?include=data")
        .await;
    assert_eq!(page.expect(200)["entries"][0]["data"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_must_be_enabled_before_there_are_events() {
    let world = world(json!({"windows": ["day"]})).await;
    let client = world.client();
    let answer = client
        .put(
            "/v1/boards/c",
            json!({"windows": ["day"], "entry_data": true, "ties": "member"}),
        )
        .await
        .expect(422);
    assert_eq!(answer["errors"][0]["pointer"], "/entry_data", "{answer}");
    // Not frozen yet.
    for wanted in [true, false, true] {
        let answer = client
            .patch("/v1/boards/b", json!({"entry_data": wanted}))
            .await
            .expect(200);
        assert_eq!(answer["entry_data"], wanted);
    }
    send(&world, vec![event("ann", &(1, 1, json!({"a": 1})))]).await;
    let answer = client
        .patch("/v1/boards/b", json!({"entry_data": false}))
        .await
        .expect(409);
    assert_eq!(answer["errors"][0]["pointer"], "/entry_data", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_show_the_data_of_their_newest_event() {
    let world = world(
        json!({"windows": ["day", "last-3-days"], "carryover": {"day": 0.5}, "initial": ["day"],
        "accept_late": "any", "entry_data": true}),
    )
    .await;
    let scores = json!({"scores": {"ann": 7, "eve": 3}});
    world
        .client()
        .patch("/v1/boards/b/initial-scores", scores)
        .await
        .expect(200);
    let at = |member: &str, day: u32, score: i64, data: &str| {
        json!({"board": "b", "member": member, "score": score, "at": format!("2026-11-{day}T08:00:00Z"),
            "data": {"of": data}})
    };
    take(
        &world,
        vec![
            at("ann", 21, 10, "today"),
            at("ann", 20, 10, "yesterday"),
            at("bob", 20, 10, "bob"),
        ],
    )
    .await;
    let of = |data: &str| json!({"of": data});
    let page = get(&world, "day?include=data").await;
    let (today, bob) = (of("today"), of("bob"));
    assert_eq!(
        shown(&page),
        [("ann", &today), ("bob", &bob), ("eve", &Value::Null)],
        "a share that is carried over counts as its event, an initial score as none"
    );
    assert_eq!(
        shown(&get(&world, "last-3-days?include=data").await),
        [("ann", &today), ("bob", &bob)]
    );
    // A late event shows no data, and one that makes a sum zero and another that ends that show the newest.
    take(
        &world,
        vec![
            at("ann", 19, 1, "late"),
            at("bob", 19, -10, "zero"),
            at("bob", 19, 3, "again"),
        ],
    )
    .await;
    assert_eq!(
        shown(&get(&world, "last-3-days?include=data").await),
        [("ann", &today), ("bob", &bob)]
    );
    let scores = json!({"scores": {"ann": 8}});
    let path = "/v1/boards/b/initial-scores";
    world.client().patch(path, scores).await.expect(200);
    let page = get(&world, "day?include=data").await;
    assert_eq!(
        (&page["entries"][0]["score"], &page["entries"][0]["data"]),
        (&json!(23), &today)
    );
    // Built anew, and carried on.
    world.set_time("2026-11-22T00:00:30Z");
    assert_eq!(
        shown(&get(&world, "last-3-days?include=data").await),
        [("ann", &today), ("bob", &bob)]
    );
    assert_eq!(
        shown(&get(&world, "last-3-days?include=data&key=2026-11-20").await).len(),
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_board_shows_data_without_a_key_only_if_allowed() {
    let world = World::with_keys(1, NOW, "admin:an-admin").await;
    let admin = world.client().with_key("an-admin");
    let definition = json!({"windows": ["day"], "public": true, "entry_data": true});
    admin.define("b", definition).await;
    let sent = event("ann", &(1, 1, json!({"a": 1})));
    admin.post("/v1/boards/b/events", sent).await.expect(200);
    let path = "/v1/boards/b/standings/day?include=data";
    let of_admin = admin.get(path).await;
    assert!(
        of_admin.headers["cache-control"]
            .to_str()
            .unwrap()
            .contains("private")
    );
    assert_eq!(of_admin.expect(200)["entries"][0]["data"], json!({"a": 1}));
    let refused = world.client().get(path).await;
    refused.expect_problem(401, "unauthenticated");
    let public = json!({"public_includes": ["data"]});
    admin.patch("/v1/boards/b", public).await.expect(200);
    let shown = world.client().get(path).await;
    assert!(
        shown.headers["cache-control"]
            .to_str()
            .unwrap()
            .contains("public")
    );
    assert_eq!(shown.expect(200)["entries"][0]["data"], json!({"a": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn data_moves_with_the_board() {
    let definition = json!({"windows": ["day", "last-2-days"], "entry_data": true, "shards": 3});
    let world = world(definition.clone()).await;
    world.client().define("stays", definition).await;
    let mut random = Random::new(3);
    let mut send = async |round: u32| {
        let events: Vec<Value> = (0..400).map(|_| {
            let at = format!("2026-11-2{}T08:00:{:02}Z", random.below(2), random.below(60));
            let data = [Value::Null, json!({"round": round}), json!({"n": random.below(9)})];
            json!({"board": "b", "member": format!("m{}", random.below(250)), "score": random.below(5), "at": at,
                "data": data[random.below(3)]})
        }).collect();
        let twins: Vec<Value> = events
            .iter()
            .map(|event| {
                let mut twin = event.clone();
                twin["board"] = json!("stays");
                twin
            })
            .collect();
        for batch in [events, twins] {
            let answer = world
                .client()
                .post("/v1/events", json!({"events": batch}))
                .await;
            answer.expect(200);
        }
    };
    let id = BoardId::parse("b").unwrap();
    let steps = async |steps: usize| {
        for _ in 0..steps {
            world.engine().run(&Moves).await.unwrap();
        }
    };
    send(0).await;
    for (round, shards) in [(1, 1), (2, 4)] {
        world.client().spread("b", shards).await;
        steps(1).await;
        send(round).await;
        eventually("the board has moved", async || {
            steps(1).await;
            let progress = moves::work::progress(world.engine(), &id).await.unwrap();
            progress.moving_to.is_none()
        })
        .await;
        send(round + 10).await;
        for window in ["day", "last-2-days"] {
            let path =
                |board| format!("/v1/boards/{board}/standings/{window}?include=data&size=1000");
            let moved = world.client().get(&path("b")).await.expect(200);
            let stays = world.client().get(&path("stays")).await.expect(200);
            assert!(moved["entries"].as_array().unwrap().len() > 150, "{moved}");
            assert_eq!(moved["entries"], stays["entries"], "{window}, {shards}");
        }
    }
}
