//! Events that are retracted, restored and corrected.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use standings::check::{self, Repair};
use standings::domain::ids::BoardId;

use crate::harness::jobs::Histories;
use crate::harness::random::{Random, case_count, seed};
use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";
const WHY: &str = "a mistake";

async fn world(definition: Value) -> World {
    let world = World::with_instances(2, NOW).await;
    world.client().define("b", definition).await;
    world
}

async fn send(client: &Client, event: Value) -> Value {
    client.post("/v1/boards/b/events", event).await.expect(200)
}

async fn retract(client: &Client, id: &str) -> Value {
    let path = format!("/v1/boards/b/events/{id}/retract");
    client.post(&path, json!({"reason": WHY})).await.expect(200)
}

/// The entries of a page as member, rank and score.
async fn page(client: &Client, board: &str, window: &str) -> Vec<(String, u64, i64)> {
    let path = format!("/v1/boards/{board}/standings/{window}");
    let page = client.get(&path).await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    let entry = |entry: &Value| {
        (
            entry["member"].as_str().unwrap().to_owned(),
            entry["rank"].as_u64().unwrap(),
            entry["score"].as_i64().unwrap(),
        )
    };
    entries.map(entry).collect()
}

/// Nothing that is stored contradicts the rest.
async fn check(world: &World, board: &str) {
    let id = BoardId::parse(board).unwrap();
    let report = check::run(world.engine(), Some(&id), Repair::None)
        .await
        .unwrap();
    assert_eq!(report.findings, Vec::new(), "{:?}", report.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typo_on_a_board_of_least_times_is_corrected_and_taken_back() {
    for shards in [1, 7] {
        let world = world(json!({"windows": ["day", "all"], "history": "board", "update": "min", "order": "asc", "shards": shards})).await;
        let client = world.client();
        send(client, json!({"id": "1", "member": "ann", "score": 70})).await;
        send(client, json!({"id": "2", "member": "ann", "score": 6})).await;
        send(client, json!({"id": "3", "member": "bob", "score": 65})).await;
        let at = |member: &str, rank, score| (member.to_owned(), rank, score);
        let correct = async |from: i64, score: i64| {
            let body = json!({"from": from, "score": score, "reason": WHY});
            client.post("/v1/boards/b/events/2/correct", body).await
        };
        let corrected = correct(6, 60).await.expect(200);
        assert_eq!(corrected["event"]["score"], 60);
        assert_eq!(corrected["event"]["retracted"], false);
        assert_eq!(corrected["expired"], json!([]));
        for window in ["day", "all"] {
            let expected = [at("ann", 1, 60), at("bob", 2, 65)];
            assert_eq!(page(client, "b", window).await, expected);
        }
        // Sent again it changes nothing, and another one knows another score.
        correct(6, 60).await.expect(200);
        let problem = correct(6, 61).await;
        assert_eq!(
            (problem.status.as_u16(), &problem.json["type"]),
            (409, &json!("/problems/score-changed"))
        );
        assert_eq!(problem.json["detail"], "the event counts for 60, not 6");

        for _ in 0..2 {
            assert_eq!(retract(client, "2").await["event"]["retracted"], true);
            let expected = [at("bob", 1, 65), at("ann", 2, 70)];
            assert_eq!(page(client, "b", "all").await, expected);
        }
        // What is out stays out, and its id is not free.
        correct(60, 50).await.expect(200);
        assert_eq!(
            page(client, "b", "all").await,
            [at("bob", 1, 65), at("ann", 2, 70)]
        );
        let again = send(client, json!({"id": "2", "member": "ann", "score": 6})).await;
        assert_eq!(again["status"], "duplicate");
        let body = json!({"reason": "it was none"});
        let restored = client
            .post("/v1/boards/b/events/2/restore", body)
            .await
            .expect(200);
        assert_eq!(restored["event"]["score"], 50);
        assert_eq!(
            page(client, "b", "all").await,
            [at("ann", 1, 50), at("bob", 2, 65)]
        );
        retract(client, "3").await;
        assert_eq!(page(client, "b", "all").await, [at("ann", 1, 50)]);
        check(&world, "b").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_corrected_is_refused_by_name() {
    let world = World::with_instances(1, NOW).await;
    let client = world.client();
    client
        .define(
            "b",
            json!({"windows": ["all"], "shards": 7, "score_max": 100}),
        )
        .await;
    send(client, json!({"id": "before", "member": "ann", "score": 1})).await;
    let problem = async |path: &str, body: Value| {
        let answer = client
            .post(&format!("/v1/boards/b/events/{path}"), body)
            .await;
        let kind = answer.json["type"].as_str().unwrap_or_default().to_owned();
        (
            answer.status.as_u16(),
            kind.trim_start_matches("/problems/").to_owned(),
        )
    };
    let why = || json!({"reason": WHY});
    let refused = |status, kind: &str| (status, kind.to_owned());
    assert_eq!(
        problem("before/retract", why()).await,
        refused(409, "history-off")
    );
    client
        .patch("/v1/boards/b", json!({"history": "90d"}))
        .await
        .expect(200);
    world.engine().run(&Histories).await.unwrap();
    assert_eq!(
        problem("before/retract", why()).await,
        refused(404, "event-not-kept")
    );
    assert_eq!(
        problem("never/retract", why()).await,
        refused(404, "event-not-kept")
    );
    // In a shard of its own an id is free.
    for number in 0..20 {
        let event = json!({"id": "x/y", "member": format!("m{number}"), "score": 1});
        client.post("/v1/boards/b/events", event).await;
    }
    assert_eq!(
        problem("x%2Fy/retract", why()).await,
        refused(409, "event-of-several")
    );
    let path = "x%2Fy/retract?member=m0";
    assert_eq!(problem(path, why()).await, refused(200, ""));
    assert_eq!(
        problem("x%2Fy/retract?member=zoe", why()).await,
        refused(404, "event-not-kept")
    );
    assert_eq!(
        problem("x%2Fy/retract?player=m0", why()).await,
        refused(404, "event-not-kept")
    );
    send(client, json!({"id": "own", "member": "ann", "score": 1})).await;
    for body in [
        json!({}),
        json!({"reason": " "}),
        json!({"reason": WHY, "from": 1}),
    ] {
        assert_eq!(
            problem("own/retract", body).await,
            refused(422, "validation-failed")
        );
    }
    let score = |score: Value| json!({"from": 1, "score": score, "reason": WHY});
    for too_much in [json!(101), json!(1.5), json!("1")] {
        let kind = problem("own/correct", score(too_much.clone())).await;
        assert_eq!(kind, refused(422, "score-out-of-range"), "{too_much}");
    }
    let mut with_data = score(json!(2));
    with_data["data"] = json!({});
    assert_eq!(
        problem("own/correct", with_data).await,
        refused(422, "validation-failed")
    );
    assert_eq!(
        problem("own/correct", score(json!(100))).await,
        refused(200, "")
    );
    check(&world, "b").await;
}

fn pick(random: &mut Random, of: &[&'static str]) -> &'static str {
    of[random.below(of.len())]
}

/// A random board whose windows go back only so far that a few events fill them.
fn definition(random: &mut Random, shards: usize) -> Value {
    let update = pick(random, &["sum", "sum", "max", "min", "last"]);
    let mut definition = json!({
        "update": update,
        "order": pick(random, &["asc", "desc"]),
        "ties": pick(random, &["first", "last", "member"]),
        "ranking": pick(random, &["ordinal", "competition", "dense"]),
        "accept_late": "any",
        "history": "board",
        "shards": shards,
    });
    if definition["ranking"] == "dense" {
        definition["shards"] = json!(1);
    }
    let mut windows = vec!["day", "week", "all"];
    if update == "sum" {
        windows.push("last-3-days");
        if random.below(2) == 0 {
            definition["weight"] = json!({"default": 2, "members": {"m1": 3}});
        }
        match random.below(3) {
            0 => definition["initial"] = json!(["day", "all"]),
            1 => definition["uniques"] = json!("member"),
            _ => definition["carryover"] = json!({"day": 0.5}),
        }
    }
    if random.below(2) == 0 && definition["ties"] != "member" {
        definition["entry_data"] = json!(true);
    }
    windows.rotate_left(random.below(2));
    definition["windows"] = json!(windows);
    definition
}

const MEMBERS: usize = 4;

/// A random event of four days, with few different scores and instants.
fn event(random: &mut Random, number: usize, has_data: bool) -> Value {
    let mut event = json!({
        "id": format!("e/{number}"),
        "member": format!("m{}", random.below(MEMBERS)),
        "score": i64::try_from(random.below(5)).unwrap() - 2,
        "at": format!("2026-11-{:02}T{:02}:00:00Z", 18 + random.below(4), random.below(3)),
        "voter": format!("v{}", random.below(3)),
    });
    if has_data && random.below(2) == 0 {
        event["data"] = json!({"n": random.below(3)});
    }
    event
}

/// What a board shows of the instants of its events.
async fn shown(client: &Client, board: &str, definition: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for window in definition["windows"].as_array().unwrap() {
        for day in 17..=22 {
            let window = window.as_str().unwrap();
            let include = if definition["entry_data"] == true {
                "&include=data"
            } else {
                ""
            };
            let path = format!(
                "/v1/boards/{board}/standings/{window}?at=2026-11-{day}T12:00:00Z{include}"
            );
            let answer = client.get(&path).await;
            // Without an event a period is not there.
            let mut page = if answer.status == 404 {
                json!({"total": 0, "entries": []})
            } else {
                answer.expect(200)
            };
            let page = page.as_object_mut().unwrap();
            page.remove("board");
            page.remove("voters");
            page.retain(|name, _| ["total", "entries"].contains(&name.as_str()));
            all.push(json!({"window": window, "day": day, "page": page}));
        }
    }
    all
}

/// What a board shows to which only these events were sent.
async fn shown_by_twin(
    client: &Client,
    name: &str,
    definition: &Value,
    initial: &Value,
    events: &[Value],
) -> Vec<Value> {
    let mut own = definition.clone();
    own.as_object_mut().unwrap().remove("history");
    client.define(name, own).await;
    set_initial(client, name, definition, initial).await;
    for event in events {
        let answer = client
            .post(&format!("/v1/boards/{name}/events"), event.clone())
            .await;
        answer.expect(200);
    }
    shown(client, name, definition).await
}

async fn set_initial(client: &Client, board: &str, definition: &Value, initial: &Value) {
    if definition.get("initial").is_some() {
        let path = format!("/v1/boards/{board}/initial-scores");
        client
            .patch(&path, json!({"scores": initial}))
            .await
            .expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_corrections_a_board_shows_what_the_events_that_count_make_it() {
    for case in 0..case_count(12) {
        let mut random = Random::new(seed(case as u64));
        let shards = [1, 7][random.below(2)];
        let definition = definition(&mut random, shards);
        let has_data = definition["entry_data"] == true;
        let world = World::with_instances(2, NOW).await;
        let client = world.client();
        // The history of some boards begins after their first events.
        let is_late = random.below(2) == 0;
        let mut own = definition.clone();
        if is_late {
            own.as_object_mut().unwrap().remove("history");
        }
        client.define("b", own).await;
        let initial = json!({"m0": 3, "m9": -1});
        set_initial(client, "b", &definition, &initial).await;
        let mut events: Vec<Value> = Vec::new();
        let mut unkept = 0;
        let mut out = BTreeSet::new();
        let what = |step: &str| format!("case {case}, {step}: {definition}");
        for round in 0..3 {
            for _ in 0..12 {
                let event = event(&mut random, events.len(), has_data);
                send(client, event.clone()).await;
                events.push(event);
            }
            if is_late && round == 0 {
                unkept = events.len();
                client
                    .patch("/v1/boards/b", json!({"history": "board"}))
                    .await
                    .expect(200);
                world.engine().run(&Histories).await.unwrap();
                continue;
            }
            // Some standings are built before, others later.
            if random.below(2) == 0 {
                shown(client, "b", &definition).await;
            }
            for _ in 0..12 {
                let number = unkept + random.below(events.len() - unkept);
                let path = |action: &str| format!("/v1/boards/b/events/e%2F{number}/{action}");
                let why = json!({"reason": WHY});
                match random.below(3) {
                    0 => {
                        client.post(&path("retract"), why).await.expect(200);
                        out.insert(number);
                    }
                    1 => {
                        client.post(&path("restore"), why).await.expect(200);
                        out.remove(&number);
                    }
                    _ => {
                        let score = i64::try_from(random.below(7)).unwrap() - 3;
                        let mut body =
                            json!({"from": events[number]["score"], "score": score, "reason": WHY});
                        events[number]["score"] = json!(score);
                        if has_data && random.below(2) == 0 {
                            body["data"] = json!({"n": "new"});
                            // An event that counts for the score already keeps its data, unless that differs.
                            events[number]["data"] = json!({"n": "new"});
                        }
                        client.post(&path("correct"), body).await.expect(200);
                    }
                }
            }
            check(&world, "b").await;
            let counting = events
                .iter()
                .enumerate()
                .filter(|(number, _)| !out.contains(number));
            let mut counting: Vec<Value> = counting.map(|(_, event)| event.clone()).collect();
            random.shuffle(&mut counting);
            let twin = format!("twin{round}");
            let expected = shown_by_twin(client, &twin, &definition, &initial, &counting).await;
            let own = shown(client, "b", &definition).await;
            for (own, expected) in own.iter().zip(&expected) {
                assert_eq!(own, expected, "{}", what(&format!("round {round}")));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_many_events_is_corrected_while_it_gets_more() {
    let world = world(json!({"windows": ["all"], "history": "board"})).await;
    let client = world.client();
    let batch = |first: usize, count: usize| {
        let events = (first..first + count)
            .map(|number| json!({"board": "b", "id": format!("e{number}"), "member": "song", "score": 1}));
        json!({"events": events.collect::<Vec<_>>()})
    };
    for first in (0..2_000).step_by(1_000) {
        client
            .post_until_taken("/v1/events", &batch(first, 1_000))
            .await;
    }
    let other = world.instances[1].client.clone();
    let more = tokio::spawn(async move {
        for number in 0..40 {
            other
                .post_until_taken("/v1/events", &batch(2_000 + 10 * number, 10))
                .await;
        }
    });
    for number in 0..20 {
        retract(client, &format!("e{}", 97 * number)).await;
    }
    more.await.unwrap();
    let expected = [("song".to_owned(), 1, 2_400 - 20)];
    assert_eq!(page(client, "b", "all").await, expected);
    let lone = retract(client, "e2399").await;
    assert_eq!(lone["event"]["retracted"], true);
    assert_eq!(page(client, "b", "all").await[0].2, 2_379);
}
