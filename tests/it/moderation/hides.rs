//! Hiding members over HTTP: on one board, on many, and on all boards that there are and that will be.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use standings::boards;
use standings::boards::draft::Draft;
use standings::boards::work::Terms;
use standings::core::board;
use standings::domain::ids::BoardId;

use crate::harness::jobs::{Announcements, EndedHides, Tasks};
use crate::harness::redis::Reply;
use crate::harness::{Client, World, break_off};
use crate::keys::make_key;

const NOW: &str = "2026-11-21T12:00:00Z";
const KEYS: &str = "read:a-reader,admin:an-admin";

pub fn hidden_path(board: &str, member: &str) -> String {
    format!("/v1/boards/{board}/hidden/{member}")
}

pub fn cheating() -> Value {
    json!({"reason": "cheating"})
}

/// The ids of the hidden members of a board.
async fn hidden_on(client: &Client, board: &str) -> Vec<String> {
    let answer = client
        .get(&format!("/v1/boards/{board}/hidden"))
        .await
        .expect(200);
    assert_eq!(answer["next"], Value::Null);
    let hidden = answer["hidden"].as_array().unwrap().iter();
    hidden
        .map(|line| line["member"].as_str().unwrap().to_owned())
        .collect()
}

/// Orders something for all boards; returns the job as it begins.
async fn order(client: &Client, action: &str, member: &str) -> Value {
    let body = json!({"action": action, "member": member, "reason": "cheating", "boards": "*"});
    let answer = client.post("/v1/moderation", body).await;
    let location = answer.headers["location"].to_str().unwrap().to_owned();
    let job = answer.expect(202);
    assert_eq!(
        location,
        format!("/v1/jobs/{}", job["id"].as_str().unwrap())
    );
    job
}

/// A job as it is now.
async fn job(client: &Client, begun: &Value) -> Value {
    let id = begun["id"].as_str().unwrap();
    client.get(&format!("/v1/jobs/{id}")).await.expect(200)
}

async fn define(client: &Client, board: &str) {
    client.define(board, json!({"windows": ["day"]})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hide_is_created_listed_and_removed() {
    let world = World::start(NOW).await;
    let client = world.client();
    define(client, "b").await;
    assert_eq!(hidden_on(client, "b").await, [""; 0]);
    // Not on the board yet.
    let put = client.put(&hidden_path("b", "ann"), cheating()).await;
    assert_eq!(put.headers["cache-control"], "private, no-store");
    let put = put.expect(200);
    let hide = put["hide"].as_str().unwrap();
    assert!(hide.len() == 37 && hide.starts_with("hide_"), "{hide}");
    let line = json!({"member": "ann", "hide": hide, "reason": "cheating", "by": "anonymous",
        "since": "2026-11-21T12:00:00.000Z", "until": null});
    assert_eq!(put, line);
    world.set_time("2026-11-21T13:00:00Z");
    let again = client.put(&hidden_path("b", "ann"), cheating()).await;
    assert_eq!(again.expect(200), line);
    let changed = json!({"reason": "  a bot ", "until": "2026-11-22T12:00:00+01:00"});
    let changed = client
        .put(&hidden_path("b", "ann"), changed)
        .await
        .expect(200);
    let line = json!({"member": "ann", "hide": hide, "reason": "a bot", "by": "anonymous",
        "since": "2026-11-21T12:00:00.000Z", "until": "2026-11-22T11:00:00.000Z"});
    assert_eq!(changed, line);
    let listed = client.get("/v1/boards/b/hidden").await.expect(200);
    assert_eq!(listed, json!({"hidden": [line], "next": null, "total": 1}));

    let gone = client.delete(&hidden_path("b", "ann")).await;
    assert_eq!(gone.expect(204), Value::Null);
    assert_eq!(hidden_on(client, "b").await, [""; 0]);
    let again = client.delete(&hidden_path("b", "ann")).await;
    again.expect_problem(404, "not-hidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_hide_is_refused_with_a_pointer() {
    let world = World::start(NOW).await;
    let client = world.client();
    define(client, "b").await;
    let long = "é".repeat(501);
    for (body, pointer) in [
        (json!({}), "/reason"),
        (json!({"reason": null}), "/reason"),
        (json!({"reason": " \n"}), "/reason"),
        (json!({"reason": long}), "/reason"),
        (
            json!({"reason": "a", "until": "2026-11-21T12:00:00Z"}),
            "/until",
        ),
        (json!({"reason": "a", "until": "soon"}), "/until"),
        (json!({"reason": "a", "by": "me"}), "/by"),
    ] {
        let answer = client
            .put(&hidden_path("b", "ann"), body.clone())
            .await
            .expect(422);
        assert_eq!(answer["errors"][0]["pointer"], pointer, "{body}: {answer}");
    }
    for (method, path) in [
        (Method::PUT, hidden_path("missing", "ann")),
        (Method::DELETE, hidden_path("missing", "ann")),
        (Method::GET, "/v1/boards/missing/hidden".to_owned()),
    ] {
        let request = client.builder(method, &path).json(&cheating());
        Client::send(request)
            .await
            .expect_problem(404, "board-not-found");
    }
    let member = "m".repeat(129);
    let answer = client.put(&hidden_path("b", &member), cheating()).await;
    answer.expect_problem(400, "invalid-parameter");
    let one = json!({"action": "hide", "member": "ann", "reason": "a", "boards": ["b"]});
    let with = |field: &str, value: Value| {
        let mut body = one.clone();
        body[field] = value;
        body
    };
    for (body, pointer) in [
        (with("reason", Value::Null), "/reason"),
        (with("boards", json!([])), "/boards"),
        (with("boards", json!("b")), "/boards"),
        (with("boards", json!(vec!["b"; 101])), "/boards"),
        (with("boards", json!(["b", "*"])), "/boards/1"),
        (with("boards", json!(7)), "/boards"),
        (with("action", json!("erase")), "/action"),
        (with("member", json!("")), "/member"),
        (
            json!({"action": "unhide", "member": "ann", "until": "2026-11-22T12:00:00Z", "boards": ["b"]}),
            "/until",
        ),
    ] {
        let answer = client
            .post("/v1/moderation", body.clone())
            .await
            .expect(422);
        assert_eq!(answer["errors"][0]["pointer"], pointer, "{body}: {answer}");
    }
    assert_eq!(hidden_on(client, "b").await, [""; 0]);
    order(client, "hide", "bob").await;
    for id in ["0", "2", "x", "-1", "01", "%2B1"] {
        let answer = client.get(&format!("/v1/jobs/{id}")).await;
        answer.expect_problem(404, "job-not-found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_members_of_all_shards_are_listed_in_byte_order() {
    let world = World::start(NOW).await;
    let client = world.client();
    client
        .define("b", json!({"windows": ["day"], "shards": 7}))
        .await;
    let mut members: Vec<String> = (0..25).map(|number| format!("m{number}")).collect();
    members.extend(["é", "Z", "a/b"].map(str::to_owned));
    for member in &members {
        let path = hidden_path("b", &member.replace('/', "%2F"));
        client.put(&path, cheating()).await.expect(200);
    }
    members.sort_unstable();
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let behind = after.replace('/', "%2F");
        let path = if behind.is_empty() {
            "/v1/boards/b/hidden?limit=6".to_owned()
        } else {
            format!("/v1/boards/b/hidden?limit=6&after={behind}")
        };
        let part = client.get(&path).await.expect(200);
        let lines = part["hidden"].as_array().unwrap();
        listed.extend(
            lines
                .iter()
                .map(|line| line["member"].as_str().unwrap().to_owned()),
        );
        match part["next"].as_str() {
            Some(next) => {
                assert_eq!((lines.len(), next), (6, listed.last().unwrap().as_str()));
                next.clone_into(&mut after);
            }
            None => break,
        }
    }
    assert_eq!(listed, members);
    for limit in ["0", "1001"] {
        let answer = client
            .get(&format!("/v1/boards/b/hidden?limit={limit}"))
            .await;
        answer.expect_problem(400, "invalid-parameter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_listed_board_has_a_result_and_all_boards_need_a_key_for_all() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let admin = world.client().with_key("an-admin");
    for board in ["own-1", "own-2", "other"] {
        define(&admin, board).await;
    }
    let grant = json!({"scopes": ["moderate"], "boards": ["own-*"]});
    let (_, secret) = make_key(&admin, "judge", grant).await;
    let judge = world.client().with_key(&secret);
    let boards = json!(["own-1", "other", "own-missing", "own-2"]);
    let mut body =
        json!({"action": "hide", "member": "ann", "reason": "cheating", "boards": boards});
    let results = judge.post("/v1/moderation", body.clone()).await.expect(200);
    let results = &results["results"];
    let hide = &results[0]["hidden"]["hide"];
    let line = json!({"member": "ann", "hide": hide, "reason": "cheating", "by": "judge",
        "since": "2026-11-21T12:00:00.000Z", "until": null});
    assert_eq!(
        results[0],
        json!({"board": "own-1", "status": "done", "hidden": line})
    );
    assert_eq!(results[1]["status"], "refused");
    assert_eq!(results[1]["problem"]["code"], "forbidden");
    assert_eq!(results[2]["problem"]["code"], "board-not-found");
    assert_eq!(
        results[3],
        json!({"board": "own-2", "status": "done", "hidden": line})
    );
    assert_eq!(hidden_on(&admin, "other").await, [""; 0]);
    body["action"] = json!("unhide");
    admin.delete(&hidden_path("own-2", "ann")).await.expect(204);
    let results = judge.post("/v1/moderation", body.clone()).await.expect(200);
    let results = &results["results"];
    assert_eq!(
        results[0],
        json!({"board": "own-1", "status": "done", "hidden": null})
    );
    assert_eq!(results[1]["problem"]["code"], "forbidden");
    assert_eq!(results[3]["problem"]["code"], "not-hidden");
    assert_eq!(hidden_on(&admin, "own-1").await, [""; 0]);

    body["boards"] = json!("*");
    let answer = judge.post("/v1/moderation", body.clone()).await;
    answer.expect_problem(403, "forbidden");
    for path in ["/v1/jobs/1", "/v1/jobs", "/v1/moderation"] {
        judge.get(path).await.expect_problem(403, "forbidden");
    }
    admin.post("/v1/moderation", body).await.expect(202);
    // Who has hidden a member: the name of a key, never the key.
    let put = admin.put(&hidden_path("other", "bob"), cheating()).await;
    assert_eq!(put.expect(200)["by"], "configuration:admin");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_reaches_all_boards_however_often_it_is_interrupted() {
    const BOARDS: usize = 60;
    let world = World::with_instances(2, NOW).await;
    let client = world.client();
    for number in 0..BOARDS {
        define(client, &format!("b{number}")).await;
    }
    let begun = order(client, "hide", "ann").await;
    let expected = json!({"id": "1", "kind": "hide", "member": "ann", "status": "running", "done": 0, "total": BOARDS,
        "failed": [], "created_at": "2026-11-21T12:00:00.000Z", "finished_at": null});
    assert_eq!(begun, expected);
    world.set_time("2026-11-21T12:00:05Z");
    let mut is_done = false;
    for waits in 1.. {
        let instance = &world.instances[usize::from(waits) % 2];
        let ran = break_off(instance.engine.run(&Tasks), waits).await;
        if let Some(ran) = ran {
            ran.unwrap();
        }
        // Whoever was killed leaves its lease.
        world.redis.run(&[b"DEL", b"st:{boards}:leases"]).await;
        let job = job(client, &begun).await;
        if job["status"] == "done" {
            assert_eq!(job["finished_at"], "2026-11-21T12:00:05.000Z");
            assert_eq!(
                (&job["done"], &job["total"]),
                (&json!(BOARDS), &json!(BOARDS))
            );
            is_done = true;
            break;
        }
    }
    assert!(is_done);
    for number in 0..BOARDS {
        assert_eq!(hidden_on(client, &format!("b{number}")).await, ["ann"]);
    }
    // Nothing of the member is kept with a job that has ended.
    let stored = world
        .redis
        .run(&[b"HGET", b"st:{boards}:tasks", b"1"])
        .await;
    assert!(!stored.text().contains("ann"), "{}", stored.text());
    let back = order(client, "unhide", "ann").await;
    assert_eq!(
        (&back["id"], &back["kind"]),
        (&json!("2"), &json!("unhide"))
    );
    world.engine().run(&Tasks).await.unwrap();
    assert_eq!(job(client, &back).await["status"], "done");
    for number in 0..BOARDS {
        assert_eq!(hidden_on(client, &format!("b{number}")).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_reports_where_it_failed_and_goes_on() {
    let world = World::start(NOW).await;
    let client = world.client();
    for board in ["a", "b", "c", "deleted"] {
        define(client, board).await;
    }
    let damage: [&[u8]; 6] = [b"HSET", b"st:{b}", b"definition", b"{}", b"version", b"7-9"];
    world.redis.run(&damage).await;
    // It is listed, and gone.
    world.redis.run(&[b"DEL", b"st:{deleted}"]).await;
    let begun = order(client, "hide", "ann").await;
    world.engine().run(&Tasks).await.unwrap();
    let job = job(client, &begun).await;
    assert_eq!((&job["status"], &job["done"]), (&json!("done"), &json!(4)));
    let failed = job["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{job}");
    assert_eq!(
        (&failed[0]["board"], &failed[0]["problem"]["code"]),
        (&json!("b"), &json!("internal"))
    );
    for board in ["a", "c"] {
        assert_eq!(hidden_on(client, board).await, ["ann"]);
    }
}

/// The ids of the jobs of a part of the list, and what the next one begins behind.
async fn listed(client: &Client, query: &str) -> (Vec<String>, Value) {
    let part = client.get(&format!("/v1/jobs?{query}")).await.expect(200);
    let ids = part["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["id"].as_str().unwrap().to_owned());
    (ids.collect(), part["next"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_jobs_are_listed_in_order_then_finished_ones_newest_first() {
    let world = World::start(NOW).await;
    let client = world.client();
    define(client, "a").await;
    let mut begun = Vec::new();
    for number in 0..12 {
        begun.push(order(client, "hide", &format!("m{number}")).await);
    }
    let ids: Vec<String> = (1..=12).map(|number: u32| number.to_string()).collect();
    assert_eq!(listed(client, "").await, (ids.clone(), Value::Null));
    assert_eq!(
        listed(client, "status=running&limit=5").await,
        (ids[..5].to_vec(), json!("5"))
    );
    let (part, next) = listed(client, "status=running&after=5&limit=7").await;
    assert_eq!((part, next), (ids[5..].to_vec(), Value::Null));
    assert_eq!(listed(client, "status=done").await, (vec![], Value::Null));
    let first = job(client, &begun[0]).await;
    let list = client.get("/v1/jobs?limit=1").await.expect(200);
    assert_eq!(list, json!({"jobs": [first], "next": "1"}));
    // All come to their end at the same instant, and then one more.
    world.engine().run(&Tasks).await.unwrap();
    world.set_time("2026-11-21T13:00:00Z");
    order(client, "unhide", "m1").await;
    world.engine().run(&Tasks).await.unwrap();
    // Whoever reads on behind one that has come to its end meanwhile misses none.
    let late = order(client, "unhide", "m2").await;
    assert_eq!(
        listed(client, "after=5").await,
        (vec![late["id"].as_str().unwrap().to_owned()], Value::Null)
    );
    let (mut all, mut query) = (Vec::new(), "status=done&limit=4".to_owned());
    loop {
        let (part, next) = listed(client, &query).await;
        all.extend(part);
        let Some(next) = next.as_str() else { break };
        query = format!("status=done&limit=4&after={next}");
    }
    assert_eq!(all[0], "13");
    all.sort_by_key(|id| id.parse::<u32>().unwrap());
    let ids: Vec<String> = (1..=13).map(|number: u32| number.to_string()).collect();
    assert_eq!(all, ids);
    // Behind one that is forgotten nothing is left.
    assert_eq!(
        listed(client, "status=done&after=77").await,
        (vec![], Value::Null)
    );
    // A newer release has begun one.
    let words = ["HSET", "st:{boards}:tasks", "14", "{\"kind\":\"new\"}"];
    world.redis.run(&words.map(str::as_bytes)).await;
    assert_eq!(listed(client, "").await, (vec![], Value::Null));
    for wrong in [
        "status=failed",
        "after=x",
        "after=-1",
        "limit=0",
        "limit=101",
    ] {
        let answer = client.get(&format!("/v1/jobs?{wrong}")).await;
        answer.expect_problem(400, "invalid-parameter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_order_for_a_member_wins() {
    let world = World::start(NOW).await;
    let client = world.client();
    for board in ["a", "b"] {
        define(client, board).await;
    }
    let hide = order(client, "hide", "ann").await;
    let back = order(client, "unhide", "ann").await;
    let other = order(client, "hide", "bob").await;
    world.engine().run(&Tasks).await.unwrap();
    let done = [
        job(client, &hide).await,
        job(client, &back).await,
        job(client, &other).await,
    ];
    let done: Vec<_> = done
        .iter()
        .map(|job| (&job["status"], &job["done"]))
        .collect();
    let (is_done, none, all) = (&json!("done"), &json!(0), &json!(2));
    assert_eq!(done, [(is_done, none), (is_done, all), (is_done, all)]);
    for board in ["a", "b"] {
        assert_eq!(hidden_on(client, board).await, ["bob"]);
    }
    let orders = client.get("/v1/moderation").await.expect(200);
    assert_eq!(orders["hidden"][0]["member"], "bob");
    assert_eq!(orders["hidden"].as_array().unwrap().len(), 1);
    // One member can be asked for.
    for list in ["/v1/moderation", "/v1/boards/a/hidden"] {
        let of = async |member: &str| {
            let found = client.get(&format!("{list}?member={member}")).await;
            found.expect(200)["hidden"].clone()
        };
        assert_eq!(of("bob").await[0]["member"], "bob");
        assert_eq!(of("ann").await, json!([]));
    }
    // An order that is given again is the new one.
    let first = order(client, "hide", "bob").await;
    let second = order(client, "hide", "bob").await;
    world.engine().run(&Tasks).await.unwrap();
    assert_eq!(job(client, &first).await["done"], 0);
    assert_eq!(job(client, &second).await["done"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_hidden_on_all_boards_is_hidden_on_later_boards() {
    let world = World::with_instances(2, NOW).await;
    let client = world.client();
    for number in 0..3 {
        order(client, "hide", &format!("m{number}")).await;
    }
    for (board, shards) in [("one", 1), ("many", 5)] {
        let definition = json!({"windows": ["day"], "shards": shards});
        let path = format!("/v1/boards/{board}");
        let created = client.put(&path, definition.clone()).await;
        let tag = created.headers["etag"].clone();
        created.expect(201);
        let read = world.instances[1].client.get(&path).await;
        assert_eq!(read.headers["etag"], tag);
        assert_eq!(hidden_on(client, board).await, ["m0", "m1", "m2"]);
        let event = json!({"id": "1", "member": "a", "score": 1});
        let events = format!("{path}/events");
        world.instances[1]
            .client
            .post(&events, event)
            .await
            .expect(200);
        let page = client.get(&format!("{path}/standings/day")).await;
        assert_eq!(page.expect(200)["total"], 1);
        client.put(&path, definition).await.expect(200);
    }
    order(client, "unhide", "m1").await;
    world.engine().run(&Tasks).await.unwrap();
    define(client, "later").await;
    for board in ["one", "many", "later"] {
        assert_eq!(hidden_on(client, board).await, ["m0", "m2"]);
    }
    let begun = board::store::boards::unfinished_changes(&world.engine().store, 0).await;
    assert_eq!(begun.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standing_order_outlives_an_erase_without_naming_its_member() {
    let world = World::with_instances(2, NOW).await;
    let client = world.client();
    define(client, "before").await;
    let soon = "2026-11-21T12:10:00Z";
    for (member, until) in [("ann-1", None), ("ann-2", Some(soon)), ("eve", None)] {
        let order = json!({"action": "hide", "member": member, "reason": "cheating", "until": until,
            "boards": ["*"]});
        client.post("/v1/moderation", order).await.expect(202);
    }
    // The tasks that hide them are not done yet: they end later than the erasures.
    for member in ["ann-1", "ann-2"] {
        let path = format!("/v1/members/{member}");
        client.delete(&path).await.expect(202);
    }
    define(client, "between").await;
    world.engine().run(&Tasks).await.unwrap();
    for (board, shards) in [("after", 1), ("many", 5)] {
        client
            .define(board, json!({"windows": ["day"], "shards": shards}))
            .await;
    }
    assert_eq!(world.keys_with("st:{*", "ann-").await, [""; 0]);
    let orders = client.get("/v1/moderation").await.expect(200);
    assert_eq!(orders["hidden"].as_array().unwrap().len(), 1);
    assert_eq!(orders["hidden"][0]["member"], "eve");

    let boards = ["before", "between", "after", "many"];
    let send = async |board: &str, member: &str| {
        let event = json!({"member": member, "score": 1});
        let path = format!("/v1/boards/{board}/events");
        client.post(&path, event).await.expect(200);
        let page = format!("/v1/boards/{board}/standings/day");
        client.get(&page).await.expect(200)["total"].clone()
    };
    for board in boards {
        assert_eq!(hidden_on(client, board).await, ["eve"]);
        assert_eq!(send(board, "ann-1").await, 0, "{board}");
        assert_eq!(hidden_on(client, board).await, ["ann-1", "eve"]);
    }
    // Nobody was erased on a board that is newer: an older event is taken there.
    let event = json!({"member": "ann-2", "score": 1, "at": "2026-11-21T11:00:00Z"});
    client
        .post("/v1/boards/many/events", event)
        .await
        .expect(200);
    assert_eq!(hidden_on(client, "many").await, ["ann-1", "ann-2", "eve"]);
    world.set_time("2026-11-21T12:10:02Z");
    world.engine().run(&EndedHides).await.unwrap();
    for board in boards {
        assert_eq!(send(board, "ann-2").await, 1, "{board}: it has ended");
    }
    // Whoever brings the member back names it, and so ends the order.
    order(client, "unhide", "ann-1").await;
    world.engine().run(&Tasks).await.unwrap();
    define(client, "last").await;
    assert_eq!(send("last", "ann-1").await, 1);
    for board in boards {
        assert_eq!(send(board, "ann-1").await, 2, "{board}");
    }
    let left = world.redis.run(&[b"HLEN", b"st:{boards}:orders"]).await;
    assert_eq!(left, Reply::Integer(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_repeated_after_an_erase_replaces_the_earlier_one() {
    let world = World::start(NOW).await;
    let client = world.client();
    for _ in 0..2 {
        let hide = order(client, "hide", "ann").await;
        client.delete("/v1/members/ann").await.expect(202);
        world.engine().run(&Tasks).await.unwrap();
        assert_eq!(job(client, &hide).await["status"], "done");
        assert_eq!(world.keys_with("st:{*", "ann").await, [""; 0]);
        let left = world.redis.run(&[b"HLEN", b"st:{boards}:orders"]).await;
        assert_eq!(left, Reply::Integer(1));
    }
    order(client, "hide", "ann").await;
    let orders = client.get("/v1/moderation").await.expect(200);
    assert_eq!(orders["hidden"][0]["member"], "ann");
    let left = world.redis.run(&[b"HLEN", b"st:{boards}:orders"]).await;
    assert_eq!(left, Reply::Integer(1));
}

#[tokio::test]
async fn a_new_board_is_closed_until_its_standing_orders_are_applied() {
    let world = World::with_instances(2, NOW).await;
    let client = world.client();
    order(client, "hide", "ann").await;
    let (mut closed, mut waits) = (0, 0_u16);
    loop {
        waits += 1;
        for (board, shards) in [("one", 1), ("many", 3)] {
            let path = format!("/v1/boards/{board}");
            let id = BoardId::parse(board).unwrap();
            let sent = break_off(create(&world, &id, shards), waits).await;
            // What it has sent arrives before it is missed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let stored = board::store::boards::load(&world.engine().store, &id)
                .await
                .unwrap();
            let is_there = stored.is_some();
            if stored.is_some_and(|board| board.unwrap().placement.is_paused()) {
                closed += 1;
            }
            let announcing = Announcements {
                older_than: Duration::ZERO,
            };
            world.instances[1].engine.run(&announcing).await.unwrap();
            if is_there {
                assert_eq!(hidden_on(&world.instances[1].client, board).await, ["ann"]);
                let page = format!("{path}/standings/day");
                let page = world.instances[1].client.get(&page).await;
                assert_eq!(page.expect(200)["total"], 0);
                client.delete(&path).await.expect(204);
            }
            if sent.is_some() && board == "many" {
                assert!(closed > 5, "{closed}");
                return;
            }
        }
    }
}

async fn create(world: &World, id: &BoardId, shards: u16) {
    let fields = json!({"windows": ["day"], "shards": shards});
    let draft = Draft::Whole(serde_json::from_value(fields).unwrap());
    let terms = Terms::default();
    let defined = boards::work::define(world.engine(), id, &draft, &terms);
    defined.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hide_ends_at_its_time_and_a_longer_one_continues() {
    let world = World::start(NOW).await;
    let client = world.client();
    client
        .define("b", json!({"windows": ["day"], "shards": 3}))
        .await;
    let until = |until: &str| json!({"reason": "a", "until": until});
    let (soon, later) = ("2026-11-21T12:10:00.001Z", "2026-11-21T12:10:30Z");
    for (member, until) in [
        ("ann", until(soon)),
        ("bob", until(soon)),
        ("cid", until(later)),
    ] {
        client
            .put(&hidden_path("b", member), until)
            .await
            .expect(200);
    }
    // It is made longer.
    client
        .put(&hidden_path("b", "bob"), until(later))
        .await
        .expect(200);
    client
        .put(&hidden_path("b", "dan"), cheating())
        .await
        .expect(200);
    let everywhere =
        json!({"action": "hide", "member": "eve", "reason": "a", "until": soon, "boards": "*"});
    client.post("/v1/moderation", everywhere).await.expect(202);
    let run = async || {
        let engine = &world.engine();
        engine.run(&Tasks).await.unwrap();
        engine.run(&EndedHides).await.unwrap();
        hidden_on(client, "b").await
    };
    assert_eq!(run().await, ["ann", "bob", "cid", "dan", "eve"]);
    world.set_time("2026-11-21T12:10:02Z");
    assert_eq!(run().await, ["bob", "cid", "dan"]);
    let orders = client.get("/v1/moderation").await.expect(200);
    assert_eq!(orders, json!({"hidden": [], "next": null, "total": null}));
    define(client, "new").await;
    assert_eq!(hidden_on(client, "new").await, [""; 0]);
    world.set_time("2026-11-21T12:10:32Z");
    assert_eq!(run().await, ["dan"]);
    client.delete("/v1/boards/b").await.expect(204);
    // When the day is over, nothing is noted any more.
    world.set_time("2026-11-22T00:00:00Z");
    world.engine().run(&EndedHides).await.unwrap();
    let left = world.redis.run(&[b"ZCARD", b"st:{boards}:hides-end"]).await;
    assert_eq!(left, Reply::Integer(0));
}
