//! Events that are retracted, restored, corrected and revoked.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use standings::check::{self, Repair};
use standings::domain::ids::BoardId;
use standings::webhooks::outbox;

use crate::harness::client::Answer;
use crate::harness::jobs::{ClosePeriods, Histories, Revisions};
use crate::harness::random::{Random, case_count, seed};
use crate::harness::{Client, World};

pub const NOW: &str = "2026-11-21T12:00:00Z";
pub const WHY: &str = "a mistake";

pub async fn world(definition: Value) -> World {
    let world = World::with_instances(2, NOW).await;
    world.client().define("b", definition).await;
    world
}

pub async fn send(client: &Client, event: Value) -> Value {
    client.post("/v1/boards/b/events", event).await.expect(200)
}

pub async fn retract(client: &Client, id: &str) -> Value {
    let path = format!("/v1/boards/b/events/{id}/retract");
    client.post(&path, json!({"reason": WHY})).await.expect(200)
}

/// The entries of a page as member, rank and score.
pub async fn page(client: &Client, board: &str, window: &str) -> Vec<(String, u64, i64)> {
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
pub async fn check(world: &World, board: &str) {
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
        "device": format!("d{}", random.below(3)),
        "ip": format!("192.0.2.{}", random.below(3)),
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
            page.retain(|name, _| ["total", "entries"].contains(&name.as_str()));
            // Which voters there were does not change.
            for entry in page["entries"].as_array_mut().unwrap() {
                entry.as_object_mut().unwrap().remove("voters");
            }
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

/// A random revocation: its criteria, and whether they match an event.
fn criteria(random: &mut Random, count: usize) -> (Value, impl Fn(&Value) -> bool + use<>) {
    let mut criteria = json!({});
    let few = |random: &mut Random| random.below(3);
    match random.below(6) {
        0 => criteria["voter"] = json!(format!("v{}", few(random))),
        1 => criteria["device"] = json!(format!("d{}", few(random))),
        2 => criteria["ip"] = json!(format!("192.0.2.{}", few(random))),
        3 => criteria["member"] = json!(format!("m{}", random.below(MEMBERS))),
        4 => {
            let ids = (0..5).map(|_| format!("e/{}", random.below(count + 3)));
            criteria["events"] = json!(ids.collect::<Vec<_>>());
        }
        _ => {
            criteria["voter"] = json!(format!("v{}", few(random)));
            criteria["ip"] = json!(format!("192.0.2.{}", few(random)));
        }
    }
    if random.below(3) == 0 {
        criteria["since"] = json!("2026-11-19T01:00:00Z");
        criteria["until"] = json!("2026-11-20T02:00:00Z");
    }
    let wanted = criteria.clone();
    let matches = move |event: &Value| {
        wanted.as_object().unwrap().iter().all(|(field, value)| {
            let at = event["at"].as_str();
            match field.as_str() {
                "events" => value.as_array().unwrap().contains(&event["id"]),
                "since" => value.as_str() <= at,
                "until" => at < value.as_str(),
                field => event[field] == *value,
            }
        })
    };
    (criteria, matches)
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
        // For each revocation the events that it covers, whether it is in force, and whether it is a dry run.
        let mut revocations: Vec<(BTreeSet<usize>, bool, bool)> = Vec::new();
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
                match random.below(5) {
                    3 => {
                        let (mut body, matches) = criteria(&mut random, events.len());
                        body["reason"] = json!(WHY);
                        body["dry_run"] = json!(random.below(4) == 0);
                        let done = client
                            .post("/v1/boards/b/revocations", body.clone())
                            .await
                            .expect(200);
                        let covered: BTreeSet<usize> = (unkept..events.len())
                            .filter(|number| matches(&events[*number]))
                            .collect();
                        assert_eq!(done["report"]["events"], covered.len(), "{body} {done}");
                        let is_dry = body["dry_run"] == true;
                        revocations.push((covered, !is_dry, is_dry));
                        assert_eq!(done["number"], revocations.len());
                    }
                    4 if !revocations.is_empty() => {
                        let number = random.below(revocations.len());
                        let path = format!("/v1/boards/b/revocations/{}/restore", number + 1);
                        let status = if revocations[number].2 { 404 } else { 200 };
                        client.post(&path, why).await.expect(status);
                        revocations[number].1 = false;
                    }
                    0 | 4 => {
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
            let counting = events.iter().enumerate().filter(|(number, _)| {
                let covers = |(covered, in_force, _): &(BTreeSet<usize>, bool, bool)| {
                    *in_force && covered.contains(number)
                };
                !out.contains(number) && !revocations.iter().any(covers)
            });
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

pub const DAY: &str = "/v1/boards/b/standings/day/periods/2026-11-21";

fn with_results(shards: u16) -> Value {
    json!({
        "windows": ["day", "last-2-days"], "finalize": "10m", "history": "board", "ranking": "competition", "shards": shards,
        "accept_late": "any",
        "rewards": [
            {"id": "crown", "window": "day", "ranks": [1, 1], "reward": "crown"},
            {"id": "half", "window": "day", "top_percent": 50, "min_score": 10, "reward": "coin"},
        ],
    })
}

/// A world whose day is final: Ann has 30 points, Bob and Cid 20, Dan 10, Eve 5.
pub async fn closed(shards: u16) -> World {
    let world = World::with_instances(2, NOW).await;
    let client = world.client();
    client.define("b", with_results(shards)).await;
    for (member, score) in [
        ("ann", 30),
        ("bob", 20),
        ("cid", 20),
        ("dan", 10),
        ("eve", 5),
    ] {
        send(
            client,
            json!({"id": member, "member": member, "score": score, "at": "2026-11-21T10:00:00Z"}),
        )
        .await;
    }
    world.set_time("2026-11-22T00:10:00Z");
    world.engine().run(&ClosePeriods).await.unwrap();
    world
}

/// The result of the day: its revision, total and winner, and the rewards as `rule rank member state`.
pub async fn result(client: &Client) -> (u64, u64, String, Vec<String>) {
    let result = client.get(DAY).await.expect(200);
    assert_eq!(result["revising"], Value::Null, "{result}");
    let listed = client.get(&format!("{DAY}/rewards")).await.expect(200);
    let line = |reward: &Value| {
        let text = |field: &str| reward[field].as_str().unwrap_or("null").to_owned();
        format!(
            "{} {} {} {}",
            text("rule"),
            reward["rank"],
            text("member"),
            text("state")
        )
    };
    let rewards = listed["rewards"].as_array().unwrap().iter().map(line);
    (
        result["revision"].as_u64().unwrap(),
        result["total"].as_u64().unwrap(),
        result["winner"]["member"]
            .as_str()
            .unwrap_or("nobody")
            .to_owned(),
        rewards.collect(),
    )
}

pub async fn restore(client: &Client, id: &str) -> Value {
    let path = format!("/v1/boards/b/events/{id}/restore");
    client.post(&path, json!({"reason": WHY})).await.expect(200)
}

/// For each revision of the day, whether events were corrected, and the changes of rewards.
pub async fn revisions(client: &Client) -> Vec<(bool, Vec<String>)> {
    let listed = client.get(&format!("{DAY}/revisions")).await.expect(200);
    let change = |change: &Value| {
        let text = |field: &str| change[field].as_str().unwrap_or("null").to_owned();
        format!("{} {} {}", text("rule"), text("member"), text("change"))
    };
    let revisions = listed["revisions"].as_array().unwrap().iter();
    let revision = |revision: &Value| {
        let changes = revision["rewards"].as_array().unwrap().iter().map(change);
        (revision["corrected"].as_bool().unwrap(), changes.collect())
    };
    revisions.map(revision).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_final_day_follows_corrections() {
    for shards in [1, 7] {
        let world = closed(shards).await;
        let client = world.client();
        let claim = async |member: &str| {
            let path = format!("{DAY}/rewards/crown/members/{member}/claim");
            client.put(&path, json!({"by": "shop"})).await
        };
        claim("ann").await.expect(201);
        let told = |revision, total, winner: &str, rewards: &[&str]| {
            let rewards: Vec<String> = rewards.iter().map(|line| (*line).to_owned()).collect();
            (revision, total, winner.to_owned(), rewards)
        };
        let first = [
            "crown 1 ann claimed",
            "half 1 ann open",
            "half 2 bob open",
            "half 2 cid open",
        ];
        assert_eq!(result(client).await, told(1, 5, "ann", &first));

        retract(client, "ann").await;
        let rewards = [
            "crown 1 ann revoked",
            "crown 1 bob open",
            "crown 1 cid open",
            "half 1 bob open",
            "half 1 cid open",
        ];
        assert_eq!(
            result(client).await,
            told(2, 4, "bob", &rewards),
            "{shards}"
        );
        assert_eq!(claim("ann").await.json["type"], "/problems/reward-revoked");
        restore(client, "ann").await;
        assert_eq!(result(client).await, told(3, 5, "ann", &first));
        // The job does it too.
        let body = json!({"from": 10, "score": 40, "reason": WHY});
        client
            .post("/v1/boards/b/events/dan/correct", body)
            .await
            .expect(200);
        world.engine().run(&Revisions).await.unwrap();
        claim("dan").await.expect(201);
        let rewards = [
            "crown 1 ann revoked",
            "crown 1 dan claimed",
            "half 1 dan open",
            "half 2 ann open",
            "half 3 bob open",
            "half 3 cid open",
        ];
        assert_eq!(result(client).await, told(4, 5, "dan", &rewards));
        let revised = revisions(client).await;
        assert_eq!(revised.len(), 3);
        assert!(revised.iter().all(|(corrected, _)| *corrected));
        assert!(
            revised[0].1.contains(&"crown ann revoked".to_owned()),
            "{revised:?}"
        );
        assert!(
            revised[1].1.contains(&"crown ann restored".to_owned()),
            "{revised:?}"
        );

        // Nobody sees that a hidden member has another score, or none.
        client
            .put("/v1/boards/b/hidden/eve", json!({"reason": "cheating"}))
            .await
            .expect(200);
        assert_eq!(result(client).await.0, 5);
        retract(client, "eve").await;
        assert_eq!(result(client).await.0, 5);
        client.delete("/v1/boards/b/hidden/eve").await;
        assert_eq!(result(client).await.1, 4);
        let revision = result(client).await.0;
        restore(client, "eve").await;
        assert_eq!(
            (result(client).await.0, result(client).await.1),
            (revision + 1, 5)
        );
        // A score as it was revises nothing.
        retract(client, "bob").await;
        restore(client, "bob").await;
        world.engine().run(&Revisions).await.unwrap();
        assert_eq!(result(client).await.2, "dan");
        check(&world, "b").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hide_whose_result_is_not_revised_yet_does_not_conceal_a_correction() {
    let world = closed(1).await;
    let client = world.client();
    assert_eq!(result(client).await.2, "ann");
    client
        .put("/v1/boards/b/hidden/ann", json!({"reason": "cheating"}))
        .await
        .expect(200);
    retract(client, "ann").await;
    let (_, total, winner, _) = result(client).await;
    assert_eq!((total, winner.as_str()), (4, "bob"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_period_that_was_empty_when_it_closed_gets_its_first_result() {
    for shards in [1, 7] {
        let world = World::with_instances(2, NOW).await;
        let client = world.client();
        client.define("b", with_results(shards)).await;
        send(client, json!({"id": "ann", "member": "ann", "score": 30})).await;
        retract(client, "ann").await;
        world.set_time("2026-11-22T00:10:00Z");
        world.engine().run(&ClosePeriods).await.unwrap();
        let none = client.get(DAY).await;
        assert_eq!(none.status.as_u16(), 404, "{}", none.text);
        restore(client, "ann").await;
        let (revision, total, winner, _) = result(client).await;
        assert_eq!((revision, total, winner.as_str()), (1, 1, "ann"));
        retract(client, "ann").await;
        let (revision, total, winner, rewards) = result(client).await;
        assert_eq!(
            (revision, total, winner.as_str(), rewards.len()),
            (2, 0, "nobody", 0)
        );
        check(&world, "b").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn corrections_go_on_while_a_board_moves_but_for_closed_periods() {
    let world = closed(2).await;
    let client = world.client();
    send(client, json!({"id": "now", "member": "ann", "score": 1})).await;
    retract(client, "bob").await;
    client.spread("b", 5).await;
    let body = json!({"reason": WHY});
    let refused = client.post("/v1/boards/b/events/cid/retract", body).await;
    assert_eq!(
        refused.json["type"], "/problems/board-moving",
        "{}",
        refused.text
    );
    retract(client, "now").await;
    world.instances[0].end_move("b").await;
    let (revision, total, winner, _) = result(client).await;
    assert_eq!((revision, total, winner.as_str()), (2, 4, "ann"));
    retract(client, "cid").await;
    assert_eq!(result(client).await.1, 3);
    restore(client, "now").await;
    let today = "/v1/boards/b/standings/day";
    assert_eq!(
        client.get(today).await.expect(200)["entries"][0]["score"],
        1
    );
    check(&world, "b").await;
}

/// The kinds of the messages in the outbox, sorted.
pub async fn posted(world: &World) -> Vec<String> {
    let (engine, id) = (&world.engine(), BoardId::parse("b").unwrap());
    let generation = world.generation("b").await.parse().unwrap();
    let messages = outbox::store::posted(&engine.store, &id, generation)
        .await
        .unwrap();
    let kind = |body: &str| {
        assert!(!body.contains("ann"), "{body}");
        let body: Value = serde_json::from_str(body).unwrap();
        body["type"].as_str().unwrap().to_owned()
    };
    let mut kinds: Vec<String> = messages.iter().map(|message| kind(&message.body)).collect();
    kinds.sort_unstable();
    kinds
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_and_the_audit_log_hear_of_corrections_but_not_whose_they_are() {
    let world = world(json!({"windows": ["all"], "history": "board"})).await;
    let client = world.client();
    send(client, json!({"id": "run/1", "member": "ann", "score": 1})).await;
    for _ in 0..2 {
        // What changes nothing is no message.
        retract(client, "run%2F1").await;
    }
    restore(client, "run%2F1").await;
    let body = json!({"from": 1, "score": 2, "reason": WHY});
    let path = "/v1/boards/b/events/run%2F1/correct?member=ann";
    client.post(path, body).await.expect(200);
    assert_eq!(
        posted(&world).await,
        ["event.corrected", "event.restored", "event.retracted"]
    );
    let log = client.get("/v1/audit?limit=1").await.expect(200);
    let line = &log["lines"][0];
    assert_eq!(
        line["outcome"]["before"],
        json!({"score": 1, "retracted": false}),
        "{log}"
    );
    assert_eq!(
        line["outcome"]["after"],
        json!({"score": 2, "retracted": false})
    );
    assert!(
        line["query"]["member"].as_str().unwrap().starts_with("m-"),
        "{log}"
    );
}

async fn amend(client: &Client, event: Value) -> Answer {
    let body = json!({"event": event, "reason": WHY});
    client.post("/v1/boards/b/amendments", body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_amendment_passes_what_refuses_other_events() {
    for shards in [1, 7] {
        let world = World::with_instances(2, NOW).await;
        let client = world.client();
        let definition = json!({
            "windows": ["day", "all", "last-2-days"], "finalize": "10m", "history": "90d", "shards": shards, "uniques": "member",
            "accept_late": "1h", "opens_at": "2026-11-20T00:00:00Z", "closes_at": "2026-11-23T00:00:00Z",
            "quotas": [{"name": "vote", "by": ["voter"], "max": 1, "window": "total"}],
        });
        client.define("b", definition).await;
        send(
            client,
            json!({"id": "1", "member": "ann", "score": 3, "voter": "v"}),
        )
        .await;
        world.set_time("2026-11-24T12:00:00Z");
        world.engine().run(&ClosePeriods).await.unwrap();
        assert_eq!(result(client).await.2, "ann");
        let sheet = json!({"id": "sheet", "member": "bob", "score": 5, "voter": "v", "at": "2026-11-21T11:00:00Z"});
        let refused = client.post("/v1/boards/b/events", sheet.clone()).await;
        assert_eq!(refused.status.as_u16(), 409, "{}", refused.text);
        for _ in 0..2 {
            let amended = amend(client, sheet.clone()).await.expect(200);
            assert_eq!(amended["event"]["score"], 5, "{amended}");
            assert_eq!(amended["event"]["accepted_at"], "2026-11-24T12:00:00.000Z");
        }
        let (revision, total, winner, _) = result(client).await;
        assert_eq!(
            (revision, total, winner.as_str()),
            (2, 2, "bob"),
            "{shards}"
        );
        let all = [("bob".to_owned(), 1, 5), ("ann".to_owned(), 2, 3)];
        assert_eq!(page(client, "b", "all").await, all);
        let stats = client
            .get("/v1/boards/b/standings/all/stats")
            .await
            .expect(200);
        assert_eq!(
            (&stats["events"], &stats["voters"]),
            (&json!(2), &json!(1)),
            "{stats}"
        );
        // An event like any other: sent again it is a duplicate, and it can be retracted.
        let again = client
            .post("/v1/boards/b/events", sheet.clone())
            .await
            .expect(200);
        assert_eq!(again["status"], "duplicate");
        let mut other = sheet.clone();
        other["score"] = json!(6);
        assert_eq!(
            amend(client, other).await.json["type"],
            "/problems/event-id-reused"
        );
        retract(client, "sheet").await;
        assert_eq!(result(client).await.2, "ann");
        // A period that had no event.
        let made = amend(
            client,
            json!({"member": "cid", "score": 1, "at": "2026-11-22T11:00:00Z"}),
        )
        .await
        .expect(200);
        assert_ne!(made["event"]["id"], "", "{made}");
        let day = client
            .get("/v1/boards/b/standings/day/periods/2026-11-22")
            .await
            .expect(200);
        assert_eq!(
            (&day["winner"]["member"], &day["revision"]),
            (&json!("cid"), &json!(1)),
            "{day}"
        );
        check(&world, "b").await;

        for (event, pointer) in [
            (json!({"score": 1}), "/event/member"),
            (json!({"member": "ann", "score": 1.5}), "/event/score"),
            (
                json!({"member": "ann", "score": 1, "data": {}}),
                "/event/data",
            ),
        ] {
            let refused = amend(client, event).await;
            assert_eq!(
                refused.json["errors"][0]["pointer"], pointer,
                "{}",
                refused.text
            );
        }
        let early = json!({"member": "ann", "score": 1, "at": "2026-11-25T12:00:00Z"});
        assert_eq!(
            amend(client, early).await.json["type"],
            "/problems/event-in-future"
        );
        let path = "/v1/boards/b/members/ann";
        client.delete(path).await;
        let late = json!({"member": "ann", "score": 1, "at": "2026-11-21T12:00:00Z"});
        assert_eq!(
            amend(client, late).await.json["type"],
            "/problems/member-erased"
        );
        check(&world, "b").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_amendment_is_added_to_what_a_member_had_before_the_history() {
    let world = World::with_instances(1, NOW).await;
    let client = world.client();
    client
        .define(
            "b",
            json!({"windows": ["all"], "update": "max", "entry_data": true}),
        )
        .await;
    send(
        client,
        json!({"id": "1", "member": "ann", "score": 7, "data": {"n": 1}}),
    )
    .await;
    client
        .patch("/v1/boards/b", json!({"history": "90d"}))
        .await
        .expect(200);
    amend(
        client,
        json!({"id": "2", "member": "ann", "score": 9, "at": "2026-11-01T00:00:00Z"}),
    )
    .await
    .expect(200);
    assert_eq!(page(client, "b", "all").await[0].2, 9);
    retract(client, "2").await;
    assert_eq!(page(client, "b", "all").await[0].2, 7);
    check(&world, "b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_amendment_of_a_member_with_many_events_keeps_what_it_had_before_the_history() {
    let world = World::with_instances(1, NOW).await;
    let client = world.client();
    client
        .define(
            "b",
            json!({"windows": ["day", "all"], "accept_late": "any"}),
        )
        .await;
    send(
        client,
        json!({"id": "old", "member": "ann", "score": 100, "at": "2026-11-01T10:00:00Z"}),
    )
    .await;
    client
        .patch("/v1/boards/b", json!({"history": "board"}))
        .await
        .expect(200);
    let events = (0..600).map(
        |number| json!({"board": "b", "id": format!("e{number}"), "member": "ann", "score": 1}),
    );
    let body = json!({"events": events.collect::<Vec<_>>()});
    client.post_until_taken("/v1/events", &body).await;
    amend(
        client,
        json!({"id": "late", "member": "ann", "score": 5, "at": "2026-11-01T11:00:00Z"}),
    )
    .await
    .expect(200);
    let day = client
        .get("/v1/boards/b/standings/day?at=2026-11-01T12:00:00Z")
        .await
        .expect(200);
    assert_eq!(day["entries"][0]["score"], 105);
    assert_eq!(page(client, "b", "all").await[0].2, 705);
    check(&world, "b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_day_whose_entries_have_expired_is_not_made_again() {
    let world = World::with_instances(1, NOW).await;
    let client = world.client();
    let mut definition = with_results(1);
    definition["retention"] = json!({"day": "7d"});
    client.define("b", definition).await;
    for member in ["ann", "bob"] {
        send(client, json!({"id": member, "member": member, "score": 3})).await;
    }
    world.set_time("2026-11-22T00:10:00Z");
    world.engine().run(&ClosePeriods).await.unwrap();
    assert_eq!(result(client).await.1, 2);
    world.set_time("2026-12-20T00:00:00Z");
    for key in world.redis.keys("st:{b}:*:s:day:2026-11-21*").await {
        world.redis.run(&[b"DEL", key.as_bytes()]).await;
    }
    let retracted = retract(client, "ann").await;
    assert_eq!(
        retracted["expired"],
        json!([{"window": "day", "key": "2026-11-21"}])
    );
    assert_eq!(
        world.redis.keys("st:{b}:*:s:day:2026-11-21*").await,
        Vec::<String>::new()
    );
    let kept = client.get(DAY).await.expect(200);
    assert_eq!((&kept["total"], &kept["revision"]), (&json!(2), &json!(1)));
}
