//! Erasing members of final standings: their lines stay and are nobody's, and nobody moves.

use serde_json::{Value, json};
use standings::check;
use standings::core::hide::store::erasures;
use standings::domain::ids::{BoardId, MemberId};

use crate::harness::jobs::{ClosePeriods, Erasures, Revisions, Rollover};
use crate::harness::random::some_of;
use crate::harness::{Client, World, interrupt};

const NOW: &str = "2026-11-21T12:00:00Z";
const CLOSED: &str = "2026-11-22T12:00:00Z";
const DAY: &str = "day?key=2026-11-21";

/// A board whose events lie on one day, which is final.
async fn closed(mut definition: Value, events: &[(&str, i64, &str)], initial: Value) -> World {
    let world = World::with_instances(2, NOW).await;
    let client = world.client();
    definition["finalize"] = json!("10m");
    if definition["windows"].is_null() {
        definition["windows"] = json!(["day", "all", "last-3-days"]);
    }
    let has_initial = definition.get("initial").is_some();
    client.define("b", definition).await;
    if has_initial {
        set_initial(client, initial).await;
    }
    for (index, (member, score, time)) in events.iter().enumerate() {
        let event = json!({"id": format!("e{index}"), "member": member, "score": score,
            "at": format!("2026-11-21T{time}Z")});
        client.post("/v1/boards/b/events", event).await.expect(200);
    }
    world.set_time(CLOSED);
    world.engine().run(&ClosePeriods).await.unwrap();
    world
}

async fn set_initial(client: &Client, scores: Value) {
    let path = "/v1/boards/b/initial-scores";
    client
        .patch(path, json!({"scores": scores}))
        .await
        .expect(200);
}

async fn get(client: &Client, path: &str) -> Value {
    let path = format!("/v1/boards/b/standings/{path}");
    client.get(&path).await.expect(200)
}

/// A standing, with nobody's name in the lines of these members.
async fn without_names(client: &Client, path: &str, erased: &[&str]) -> Value {
    let mut page = get(client, path).await;
    for line in page["entries"].as_array_mut().unwrap() {
        let is_erased = erased.iter().any(|member| line["member"] == *member);
        if is_erased {
            line["member"] = Value::Null;
        }
    }
    page
}

async fn erase(client: &Client, member: &str) {
    let path = format!("/v1/boards/b/members/{member}");
    client.delete(&path).await.expect(204);
}

/// Members and scores of a standing.
async fn listed(client: &Client, path: &str) -> Vec<(Value, Value)> {
    let page = get(client, path).await;
    let lines = page["entries"].as_array().unwrap().iter();
    lines
        .map(|line| (line["member"].clone(), line["score"].clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_a_member_changes_no_rank_in_a_final_standing() {
    // Some have equal scores, and some of these have them from the same instant.
    let events = [
        ("bob", 5, "08:00:00"),
        ("alina", 5, "08:00:00"),
        ("al", 5, "08:00:00"),
        ("alice", 5, "08:00:00"),
        ("alice-2", 5, "07:00:00"),
        ("zed", 9, "06:00:00"),
        ("\u{10FFFF}x", 5, "08:00:00"),
        ("cid", 1, "09:00:00"),
        ("dan", 1, "09:00:00"),
    ];
    for definition in [
        json!({"ties": "first"}),
        json!({"ties": "first", "shards": 4}),
        json!({"ties": "last", "order": "asc"}),
        json!({"ties": "member"}),
        json!({"ties": "member", "shards": 3, "ranking": "competition"}),
        json!({"ties": "first", "shards": 5, "weight": {"default": 2, "members": {}}}),
        json!({"ties": "member", "ranking": "dense"}),
        json!({"ties": "first", "uniques": "member", "entry_data": true}),
        json!({"update": "max", "keep_top": 4, "windows": ["day", "all"]}),
        json!({"ties": "first", "ranking": "competition", "weight": {"default": 2, "members": {}}}),
    ] {
        let has_raw = definition.get("weight").is_some();
        let rolls = definition.get("keep_top").is_none();
        let live: &[&str] = if rolls {
            &["all", "last-3-days", "last-3-days?key=2026-11-21"]
        } else {
            &["all"]
        };
        let world = closed(definition.clone(), &events, Value::Null).await;
        let [one, other] = [0, 1].map(|index| &world.instances[index].client);
        let raw = "day?key=2026-11-21&raw=true";
        let mut erased = Vec::new();
        for member in ["alice", "al", "zed", "dan", "alina", "bob", "cid"] {
            erased.push(member);
            let before = without_names(one, DAY, &erased).await;
            let raw_before = without_names(one, raw, &erased).await;
            let stats = get(one, "day/stats?key=2026-11-21").await;
            erase(one, member).await;
            assert_eq!(get(other, DAY).await, before, "{definition} {member}");
            assert_eq!(get(other, raw).await, raw_before, "{definition} {member}");
            let stats_now = get(one, "day/stats?key=2026-11-21").await;
            assert_eq!(stats_now, stats, "{definition} {member}");
            let path = format!("day/members/{member}?key=2026-11-21");
            let path = format!("/v1/boards/b/standings/{path}");
            let gone = other.get(&path).await;
            gone.expect_problem(404, "member-not-found");
            // No other standing has the line.
            for live in live {
                let members = listed(other, live).await;
                assert!(
                    members.iter().all(|(member, _)| !member.is_null()),
                    "{live}"
                );
                assert!(members.iter().all(|(one, _)| one != member), "{live}");
            }
            let traces = world.keys_with("st:{b*", &format!("{member}\u{0}")).await;
            assert_eq!(traces, [""; 0]);
        }
        world.engine().run(&Rollover).await.unwrap();
        if rolls {
            let left = listed(one, "last-3-days?key=2026-11-22").await;
            assert_eq!(left.len(), 2, "{definition}: {left:?}");
        }
        if has_raw {
            assert_ne!(get(one, raw).await, get(one, DAY).await);
        }
        let report = check::run(world.engine(), None, check::Repair::None)
            .await
            .unwrap();
        assert_eq!(report.findings, [], "{definition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_line_has_no_trace_of_its_member() {
    let events = [("erased-one", 5, "08:00:00"), ("bob", 5, "08:00:00")];
    for definition in [
        json!({"uniques": "member", "entry_data": true}),
        json!({"ties": "member", "initial": ["day"]}),
    ] {
        let world = closed(definition, &events, json!({"erased-one": 2})).await;
        set_up_and_erase(&world).await;
        let mut traces = world.keys_with("st:{b}*", "erased-one").await;
        traces.retain(|key| !key.starts_with("st:{boards}"));
        assert_eq!(traces, [""; 0]);
        let page = get(world.client(), &format!("{DAY}&include=profile,data")).await;
        let line = page["entries"].as_array().unwrap().iter();
        let line: Vec<_> = line.filter(|line| line["member"].is_null()).collect();
        assert_eq!(line.len(), 1, "{page}");
        assert_eq!(
            [&line[0]["profile"], &line[0]["data"]],
            [&Value::Null, &Value::Null]
        );
    }
}

/// Gives the member what else there is to forget, and erases it.
async fn set_up_and_erase(world: &World) {
    let client = world.client();
    get(client, DAY).await;
    get(client, "last-3-days").await;
    erase(client, "erased-one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_member_leaves_no_anonymous_line() {
    let events = [
        ("ann", 5, "08:00:00"),
        ("bob", 4, "08:00:00"),
        ("cid", 3, "08:00:00"),
    ];
    let world = closed(json!({}), &events, Value::Null).await;
    let client = world.client();
    let hide = json!({"reason": "cheating"});
    client
        .put("/v1/boards/b/hidden/ann", hide)
        .await
        .expect(200);
    let before = get(client, DAY).await;
    assert_eq!(before["total"], 2);
    erase(client, "ann").await;
    assert_eq!(get(client, DAY).await, before);
    client.delete("/v1/boards/b/hidden/ann").await.expect(204);
    assert_eq!(get(client, DAY).await, before, "it does not come back");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_are_stable_while_an_erasure_is_half_way() {
    let events = [
        ("ann", 5, "08:00:00"),
        ("bob", 4, "08:00:00"),
        ("cid", 3, "08:00:00"),
    ];
    for steps in [0, 1, 4, 9] {
        let world = closed(json!({}), &events, Value::Null).await;
        let [one, other] = [0, 1].map(|index| &world.instances[index]);
        let expected = without_names(&one.client, DAY, &["ann"]).await;
        let (engine, id) = (&one.engine, BoardId::parse("b").unwrap());
        let member = MemberId::parse("ann").unwrap();
        let number = erasures::begin(&engine.store, &id).await.unwrap();
        engine.erase(&id, &member, number).await.unwrap();
        let live = engine.live_board(&id).await.unwrap();
        for _ in 0..steps {
            engine.forget_keys(&live, &member, 1).await.unwrap();
        }
        assert_eq!(get(&other.client, DAY).await, expected, "{steps}");
        other.engine.run(&Erasures).await.unwrap();
        assert_eq!(get(&other.client, DAY).await, expected, "{steps}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_erased_before_the_end_leaves_no_line_however_late_its_data_is_removed() {
    for (steps, definition) in [
        (0, json!({})),
        (1, json!({"shards": 3})),
        (3, json!({"initial": ["day"], "windows": ["day"]})),
    ] {
        let world = World::with_instances(2, NOW).await;
        let [one, other] = [0, 1].map(|index| &world.instances[index]);
        let mut definition = definition;
        let has_initial = definition.get("initial").is_some();
        definition["finalize"] = json!("10m");
        definition
            .as_object_mut()
            .unwrap()
            .entry("windows")
            .or_insert(json!(["day", "all"]));
        one.client.define("b", definition).await;
        if has_initial {
            set_initial(&one.client, json!({"ann": 7})).await;
        }
        for (member, score) in [("ann", 5), ("bob", 4)] {
            let event = json!({"member": member, "score": score});
            one.client
                .post("/v1/boards/b/events", event)
                .await
                .expect(200);
        }
        let (engine, id) = (&one.engine, BoardId::parse("b").unwrap());
        let member = MemberId::parse("ann").unwrap();
        let number = erasures::begin(&engine.store, &id).await.unwrap();
        engine.erase(&id, &member, number).await.unwrap();
        let live = engine.live_board(&id).await.unwrap();
        for _ in 0..steps {
            engine.forget_keys(&live, &member, 1).await.unwrap();
        }
        world.set_time(CLOSED);
        other.engine.refresh_boards().await.unwrap();
        other.engine.run(&ClosePeriods).await.unwrap();
        other.engine.run(&Erasures).await.unwrap();
        let bob = (json!("bob"), json!(4));
        assert_eq!(listed(&other.client, DAY).await, [bob], "{steps}");
        assert_eq!(get(&one.client, DAY).await["state"], "final", "{steps}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn anonymous_lines_move_with_the_board() {
    let members: Vec<String> = (0..20).map(|number| format!("m{number}")).collect();
    let events: Vec<_> = (1..)
        .zip(&members)
        .map(|(score, member)| (member.as_str(), score, "08:00:00"))
        .collect();
    for shards in [1, 4] {
        let world = closed(json!({"shards": shards}), &events, Value::Null).await;
        let [one, other] = [0, 1].map(|index| &world.instances[index].client);
        let erased: Vec<&str> = members.iter().step_by(3).map(String::as_str).collect();
        let expected = without_names(one, DAY, &erased).await;
        for member in &erased[1..] {
            erase(one, member).await;
        }
        for shards in [3, 7, 2] {
            world.move_to("b", shards).await;
            if shards == 7 {
                erase(one, erased[0]).await;
            }
            if shards != 3 {
                assert_eq!(get(other, DAY).await, expected, "{shards}");
            }
        }
        let report = check::run(world.engine(), None, check::Repair::None)
            .await
            .unwrap();
        assert_eq!(report.findings, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_line_stays_when_a_board_goes_back_to_one_shard() {
    let events = [("ann", 5, "08:00:00"), ("bob", 5, "08:00:00")];
    let world = closed(json!({}), &events, Value::Null).await;
    let client = world.client();
    for shards in [3, 1] {
        world.move_to("b", shards).await;
    }
    let expected = without_names(client, DAY, &["ann"]).await;
    erase(client, "ann").await;
    assert_eq!(get(client, DAY).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn anonymous_lines_keep_the_initial_scores_of_their_closing() {
    let events = [
        ("ann", 5, "08:00:00"),
        ("bob", 4, "08:00:00"),
        ("cid", 3, "08:00:00"),
    ];
    let initial = json!({"ann": 10, "bob": 20, "dan": 7, "eve": 1});
    for ties in ["first", "member"] {
        let definition = json!({"ties": ties, "initial": ["day"]});
        let world = closed(definition, &events, initial.clone()).await;
        let [one, other] = [0, 1].map(|index| &world.instances[index]);
        set_initial(&one.client, json!({"ann": 90, "bob": 1})).await;
        let mut erased = Vec::new();
        for member in ["dan", "ann", "cid"] {
            erased.push(member);
            let expected = without_names(&one.client, DAY, &erased).await;
            erase(&one.client, member).await;
            assert_eq!(get(&other.client, DAY).await, expected, "{ties} {member}");
        }
        let expected = get(&one.client, DAY).await;
        let live = listed(&one.client, "day").await;
        let left = [(json!("bob"), json!(1)), (json!("eve"), json!(1))];
        assert_eq!(live, left);
        // As it is built anew.
        for key in world.redis.keys("st:{b}:*:state:initial-day").await {
            world.redis.run(&[b"DEL", key.as_bytes()]).await;
        }
        for key in world.redis.keys("st:{b}:*:d:initial-day:*").await {
            world.redis.run(&[b"DEL", key.as_bytes()]).await;
        }
        assert_eq!(get(&other.client, DAY).await, expected, "{ties}");
        let report = check::run(world.engine(), None, check::Repair::None)
            .await
            .unwrap();
        assert_eq!(report.findings, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_keeps_an_anonymous_line_for_an_erased_winner() {
    let events = [
        ("ann", 5, "08:00:00"),
        ("bob", 4, "08:00:00"),
        ("cid", 3, "08:00:00"),
    ];
    for shards in [1, 3] {
        let rewards =
            json!([{"id": "top", "window": "day", "ranks": [1, 2], "reward": {"item": "crown"}}]);
        let definition = json!({"shards": shards, "rewards": rewards});
        let world = closed(definition, &events, Value::Null).await;
        let [one, other] = [0, 1].map(|index| &world.instances[index].client);
        let path = "/v1/boards/b/standings/day/periods/2026-11-21";
        let before = one.get(path).await.expect(200);
        assert_eq!(
            [&before["winner"]["member"], &before["rewards"]],
            [&json!("ann"), &json!(2)]
        );
        let claim = format!("{path}/rewards/top/members/ann/claim");
        let claimed = one.put(&claim, json!({"by": "grant-1"})).await;
        claimed.expect(201);
        erase(one, "ann").await;
        let rewards = other.get(&format!("{path}/rewards")).await.expect(200);
        let first = &rewards["rewards"][0];
        assert_eq!(
            [
                &first["member"],
                &first["rank"],
                &first["state"],
                &first["by"]
            ],
            [
                &Value::Null,
                &json!(1),
                &json!("claimed"),
                &json!("grant-1")
            ]
        );
        assert_eq!(rewards["rewards"][1]["member"], "bob");
        let after = other.get(path).await.expect(200);
        assert_ne!(after["digest"], before["digest"]);
        let mut expected = before.clone();
        expected["winner"]["member"] = Value::Null;
        expected["digest"] = after["digest"].clone();
        assert_eq!(after, expected);
        let export = other.get(&format!("{path}/export?format=ndjson")).await;
        let first: Value = serde_json::from_str(export.text.lines().next().unwrap()).unwrap();
        assert_eq!(
            [&first["member"], &first["score"]],
            [&Value::Null, &json!(5)]
        );
        let traces = world.keys_with("st:{b*", "ann").await;
        let traces = traces.iter().filter(|key| !key.starts_with("st:{boards}"));
        assert_eq!(traces.count(), 0);
        // What changes later changes no more than it says.
        let hide = json!({"reason": "cheating"});
        one.put("/v1/boards/b/hidden/bob", hide).await.expect(200);
        let revised = other.get(path).await.expect(200);
        assert_eq!(
            [&revised["total"], &revised["rewards"], &revised["revision"]],
            [&json!(2), &json!(2), &json!(2)]
        );
        assert_eq!(revised["winner"]["member"], Value::Null);
    }
}

/// What a result says: winner, total, rewards, revision.
async fn result(client: &Client) -> Value {
    let path = "/v1/boards/b/standings/day/periods/2026-11-21";
    let result = client.get(path).await.expect(200);
    let of_winner = &result["winner"]["member"];
    json!([
        of_winner,
        result["total"],
        result["rewards"],
        result["revision"]
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn results_follow_a_hide_and_its_end_even_if_the_member_is_erased_at_once() {
    let events = [
        ("ann", 5, "08:00:00"),
        ("bob", 4, "08:00:00"),
        ("cid", 3, "08:00:00"),
    ];
    let hidden = "/v1/boards/b/hidden/ann";
    for shards in [1, 3] {
        let rewards = json!([{"id": "top", "window": "day", "ranks": [1, 3], "reward": 1}]);
        let definition = json!({"shards": shards, "rewards": rewards});
        for is_brought_back in [false, true] {
            let world = closed(definition.clone(), &events, Value::Null).await;
            let client = world.client();
            assert_eq!(result(client).await, json!(["ann", 3, 3, 1]));
            let hide = json!({"reason": "cheating"});
            client.put(hidden, hide).await.expect(200);
            if is_brought_back {
                assert_eq!(result(client).await, json!(["bob", 2, 2, 2]));
                client.delete(hidden).await.expect(204);
            }
            erase(client, "ann").await;
            let expected = if is_brought_back {
                json!([null, 3, 3, 3])
            } else {
                json!(["bob", 2, 2, 2])
            };
            assert_eq!(result(client).await, expected, "{definition}");
            let left = world.keys_with("st:{b*", "ann").await;
            let left = left.iter().filter(|key| !key.starts_with("st:{boards}"));
            // A hide outlives an erase under a hash.
            assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
        }
    }
}

/// However far a closing has come when its winner is erased, no result keeps the name.
#[tokio::test]
async fn no_result_names_a_winner_erased_while_it_is_recorded() {
    let world = World::with_instances(2, NOW).await;
    let [one, other] = [0, 1].map(|index| &world.instances[index]);
    let (mut waits, mut goes_on) = (0, true);
    while goes_on {
        waits += 1;
        world.set_time(NOW);
        let id = format!("c{waits}");
        let rewards = json!([{"id": "top", "window": "day", "ranks": [1, 1], "reward": 1}]);
        let definition = json!({"windows": ["day"], "finalize": "10m", "rewards": rewards,
            "shards": 1 + waits % 2});
        one.client.define(&id, definition).await;
        for (member, score) in [("ann", 5), ("bob", 4)] {
            let event = json!({"member": member, "score": score});
            let path = format!("/v1/boards/{id}/events");
            one.client.post(&path, event).await.expect(200);
        }
        world.set_time(CLOSED);
        other.engine.refresh_boards().await.unwrap();
        let closing = async { one.engine.run(&ClosePeriods).await.unwrap() };
        let erasing = async {
            let path = format!("/v1/boards/{id}/members/ann");
            other.client.delete(&path).await.expect(204);
        };
        goes_on = interrupt(closing, waits, erasing).await;
        other.engine.run(&Erasures).await.unwrap();
        other.engine.run(&ClosePeriods).await.unwrap();
        let path = format!("/v1/boards/{id}/standings/day");
        let result = other
            .client
            .get(&format!("{path}/periods/2026-11-21"))
            .await
            .expect(200);
        assert_eq!(result["state"], "final", "{waits}");
        let page = other
            .client
            .get(&format!("{path}?key=2026-11-21"))
            .await
            .expect(200);
        assert_eq!(
            [&result["winner"]["member"], &result["total"]],
            [&page["entries"][0]["member"], &page["total"]],
            "{waits}"
        );
        assert_eq!(result["rewards"], 1, "{waits}");
        let left = world.keys_with(&format!("st:{{{id}*"), "ann").await;
        assert_eq!(left, [""; 0], "{waits}");
    }
    assert!(waits > 5, "{waits}");
}

/// However far a revision has come when the member is erased because of whom it is made, nothing keeps the name.
#[tokio::test]
async fn no_revision_names_a_member_erased_while_it_is_made() {
    let events = [
        ("ann", 5, "08:00:00"),
        ("bob", 4, "08:00:00"),
        ("cid", 3, "08:00:00"),
    ];
    for waits in some_of(1.., 3) {
        let definition = json!({"shards": 1 + waits % 2});
        let world = closed(definition, &events, Value::Null).await;
        let [one, other] = [0, 1].map(|index| &world.instances[index]);
        let hide = json!({"reason": "cheating"});
        let hidden = other.client.put("/v1/boards/b/hidden/ann", hide).await;
        hidden.expect(200);
        let revising = async {
            // Another one has erased the member.
            let _ = one.engine.run(&Revisions).await;
        };
        let erasing = async { erase(&other.client, "ann").await };
        let goes_on = interrupt(revising, waits, erasing).await;
        other.engine.run(&Erasures).await.unwrap();
        other.engine.run(&Revisions).await.unwrap();
        assert_eq!(
            result(&other.client).await,
            json!(["bob", 2, 0, 2]),
            "{waits}"
        );
        let left = world.keys_with("st:{b*", "ann").await;
        let left = left.iter().filter(|key| !key.starts_with("st:{boards}"));
        assert_eq!(left.count(), 0, "{waits}");
        if !goes_on {
            break;
        }
    }
}
