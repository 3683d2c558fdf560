//! The audit log: a line of each request that changes more than scores, before it changes anything; no secret, and no member by
//! its id.

use std::collections::BTreeSet;

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use standings::api::router::Options;
use standings::api::table::routes;
use standings::audit;
use standings::audit::model::Intent;
use standings::audit::work::AuditedRequest;
use standings::core::jobs::JobKind;
use standings::domain::ids::MemberId;
use standings::domain::time::Span;
use standings::http::connection::Times;
use standings::http::listener::Limits;
use standings::redis::{Address, Store};
use standings::worker;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::program::Program;
use crate::harness::redis::{Reply, eventually};
use crate::harness::{Client, Instance, PATIENT, World};
use crate::keys::make_key;

const NOW: &str = "2026-11-21T12:00:00Z";
const KEYS: &str = "read:a-reader,admin:an-admin";
const LOG: &str = "/v1/audit";
/// Nothing else in a request is spelt like this.
const MEMBER: &str = "zoë of nowhere";

/// The newest lines.
async fn lines(admin: &Client, query: &str) -> Vec<Value> {
    let log = admin.get(&format!("{LOG}?{query}")).await.expect(200);
    log["lines"].as_array().unwrap().clone()
}

async fn last(admin: &Client) -> Value {
    lines(admin, "limit=1").await.remove(0)
}

/// All that the log has of requests in Redis, without the pseudonyms.
async fn written(world: &World) -> String {
    let get = async |words: &[&[u8]]| format!("{:?}", texts(&world.redis.run(words).await));
    let log = get(&[b"XRANGE", b"st:{boards}:audit", b"-", b"+"]).await;
    log + &get(&[b"HVALS", b"st:{boards}:audit-outcomes"]).await
}

fn texts(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::List(parts) => parts.iter().flat_map(texts).collect(),
        Reply::Text(text) => vec![String::from_utf8(text.clone()).unwrap()],
        _ => Vec::new(),
    }
}

/// Checks that nothing of the log in Redis has the member's id, or its name.
async fn expect_no_trace(world: &World) {
    let mut all = written(world).await;
    for name in ["pseudonyms", "members"] {
        let key = format!("st:{{boards}}:audit-{name}");
        let reply = world.redis.run(&[b"HGETALL", key.as_bytes()]).await;
        all += &texts(&reply).concat();
    }
    assert!(!all.contains("nowhere") && !all.contains("Zoë"), "{all}");
}

fn member() -> MemberId {
    MemberId::parse(MEMBER).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_audited_route_has_a_line_and_no_other_route_has_one() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let admin = world.client().with_key("an-admin");
    admin.define("b", json!({"windows": ["day"]})).await;
    let body = json!({"action": "hide", "member": MEMBER, "reason": "cheating", "boards": ["b"], "until": null,
        "scores": {MEMBER: 1}, "weight": {"members": {MEMBER: 2}}, "secret": "hush-hush"});
    let mut before = last(&admin).await["id"].clone();
    for route in routes() {
        let name = format!("{} {}", route.method, route.path);
        let address = route
            .path
            .replace("{board}", "b")
            .replace("{window}", "day")
            .replace("{member}", "zo%C3%AB%20of%20nowhere")
            .replace("{name}", "nobody");
        let method: Method = route.method.as_str().parse().unwrap();
        let id = format!("request-{}", route.path.len());
        let request = admin.builder(
            method,
            &format!("{address}?member={}", "zo%C3%AB%20of%20nowhere"),
        );
        let answer = Client::send(request.json(&body).header("x-request-id", &id)).await;
        let line = last(&admin).await;
        assert_eq!(line["id"] != before, route.access.is_audited, "{name}");
        before = line["id"].clone();
        if !route.access.is_audited {
            continue;
        }
        assert_eq!(line["method"], route.method.as_str());
        assert_eq!(line["route"], route.path);
        assert_eq!(line["by"], "configuration:admin", "{name}");
        assert_eq!(line["address"], "127.0.0.1", "{name}");
        assert_eq!(line["request_id"], id, "{name}");
        assert_eq!(line["at"], "2026-11-21T12:00:00.000Z");
        let is_of_all = route.path.contains("{member}") && !route.path.contains("{board}");
        let all: &[&str] = if is_of_all { &["*", "b"] } else { &["b"] };
        assert_eq!(line["boards"], json!(all), "{name}");
        assert_eq!(line["outcome"]["status"], answer.status.as_u16(), "{name}");
        assert_eq!(line["outcome"]["code"], answer.json["code"], "{name}");
        let named: Vec<&Value> = line["members"].as_array().unwrap().iter().collect();
        assert_eq!(named.len(), 1, "{name}");
        // Who is erased is nobody.
        let is_erase = route.method == Method::DELETE.as_str() && route.path.contains("members/");
        assert!(is_erase || named[0]["member"] == MEMBER, "{name}");
        assert_eq!(line["body"]["member"], named[0]["pseudonym"], "{name}");
        assert_eq!(line["query"]["member"], named[0]["pseudonym"], "{name}");
        assert_eq!(line["body"]["secret"], "…");
    }
    // A URL that is refused for its password.
    let webhook = json!({"url": "https://ann:hush-hush@app.example/", "events": ["period.final"], "boards": ["b"]});
    let refused = admin.put("/v1/webhooks/site", webhook).await;
    refused.expect_problem(422, "validation-failed");
    let line = last(&admin).await;
    assert_eq!(line["body"]["url"], "https://…@app.example/");
    before = line["id"].clone();
    let written = written(&world).await;
    assert!(written.contains("cheating"), "{written}");
    for hidden in [MEMBER, "nowhere", "hush"] {
        assert!(!written.contains(hidden), "{hidden}: {written}");
    }
    // Who may not, or sends what is no request, has changed nothing.
    let reader = world.client().with_key("a-reader");
    reader.put("/v1/boards/c", json!({})).await.expect(403);
    reader.get(LOG).await.expect_problem(403, "forbidden");
    let large = json!({"title": "x".repeat(2 << 20)});
    admin.put("/v1/boards/c", large).await.expect(413);
    assert_eq!(last(&admin).await["id"], before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_has_the_values_before_and_after() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let admin = world.client().with_key("an-admin");
    let outcome = async || last(&admin).await["outcome"].take();
    let definition = json!({"windows": ["all"], "initial": ["all"], "title": "One", "weight": {"members": {"ann": 3}}});
    let created = admin.put("/v1/boards/b", definition).await.expect(201);
    let line = last(&admin).await;
    let pseudonym = line["members"][0]["pseudonym"].as_str().unwrap();
    assert_eq!(
        line["members"],
        json!([{"pseudonym": pseudonym, "member": "ann"}])
    );
    assert_eq!(line["body"]["weight"]["members"][pseudonym], 3);
    assert_eq!(line["outcome"]["before"], Value::Null);
    let mut defined = created.clone();
    defined["weight"]["members"] = json!({pseudonym: 3});
    assert_eq!(line["outcome"]["after"], defined);

    admin
        .patch("/v1/boards/b?dry_run=true", json!({"title": "Two"}))
        .await
        .expect(200);
    let line = last(&admin).await;
    assert_eq!(line["query"], json!({"dry_run": "true"}));
    assert_eq!(line["outcome"]["after"], Value::Null, "nothing has changed");
    admin
        .patch("/v1/boards/b", json!({"title": "Two"}))
        .await
        .expect(200);
    let changed = outcome().await;
    // The members that the request does not name have no pseudonyms in its line.
    assert_eq!(changed["before"]["title"], "One");
    assert_eq!(changed["before"]["weight"]["members"], json!({"…": 3}));
    assert_eq!(changed["after"]["title"], "Two");
    admin
        .patch("/v1/boards/b", json!({"decimals": 9}))
        .await
        .expect(422);
    assert_eq!(
        outcome().await,
        json!({"at": "2026-11-21T12:00:00.000Z", "status": 422, "code": "validation-failed", "before": null, "after": null})
    );

    let path = "/v1/boards/b/initial-scores";
    for (scores, before) in [
        (json!({"ann": 5, "bob": 7}), [Value::Null, Value::Null]),
        (json!({"ann": null, "bob": 8}), [json!(5), json!(7)]),
    ] {
        admin
            .patch(path, json!({"scores": scores}))
            .await
            .expect(200);
        let line = last(&admin).await;
        for (place, before) in before.iter().enumerate() {
            let pseudonym = line["members"][place]["pseudonym"].as_str().unwrap();
            assert!(line["body"]["scores"].get(pseudonym).is_some(), "{line}");
            assert_eq!(&line["outcome"]["before"]["scores"][pseudonym], before);
        }
        assert_eq!(line["outcome"]["after"]["scores"], line["body"]["scores"]);
    }
    admin.spread("b", 4).await;
    let spread = outcome().await;
    assert_eq!(
        [&spread["before"], &spread["after"]],
        [&json!({"shards": 1}), &json!({"shards": 4})]
    );
    admin.delete("/v1/boards/b").await.expect(204);
    let deleted = outcome().await;
    assert_eq!(
        [&deleted["before"]["title"], &deleted["after"]],
        [&json!("Two"), &Value::Null]
    );
    assert!(!written(&world).await.contains("ann"));
}

#[tokio::test(flavor = "multi_thread")]
async fn api_keys_are_named_without_their_secrets() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let admin = world.client().with_key("an-admin");
    let grant = json!({"scopes": ["configure"], "boards": ["b"], "rate": "50/s"});
    let (_, secret) = make_key(&admin, "site", grant.clone()).await;
    let mut shown = grant.clone();
    shown["expires_at"] = Value::Null;
    shown["previous_until"] = Value::Null;
    let line = last(&admin).await;
    assert_eq!(line["path"], json!({"name": "site"}));
    assert_eq!(
        [&line["outcome"]["before"], &line["outcome"]["after"]],
        [&Value::Null, &shown]
    );

    let site = world.client().with_key(&secret);
    site.define("b", json!({"windows": ["day"]})).await;
    let of_site = lines(&admin, "key=site").await;
    assert_eq!(of_site.len(), 1);
    assert_eq!(
        [&of_site[0]["by"], &of_site[0]["boards"]],
        [&json!("site"), &json!(["b"])]
    );

    let rotated = admin
        .post("/v1/keys/site/rotate", json!({"grace": "1h"}))
        .await
        .expect(200);
    let outcome = last(&admin).await["outcome"].take();
    assert_eq!(outcome["before"], shown);
    assert_eq!(
        outcome["after"]["previous_until"],
        "2026-11-21T13:00:00.000Z"
    );
    admin.delete("/v1/keys/site").await.expect(204);
    let outcome = last(&admin).await["outcome"].take();
    assert_eq!(outcome["before"]["scopes"], json!(["configure"]));
    let written = written(&world).await;
    for secret in [&secret, rotated["secret"].as_str().unwrap()] {
        assert!(!written.contains(&secret[3..]), "{written}");
    }
    assert!(!written.contains("digest"), "{written}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deeply_nested_json_leaves_readable_lines() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let admin = world.client().with_key("an-admin");
    let nested = |levels: usize| -> Value {
        let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        serde_json::from_str(&text).unwrap()
    };
    // 127 levels are the most that are taken.
    let refused = admin.put("/v1/boards/a", json!({"x": nested(126)})).await;
    refused.expect(422);
    let reward = json!({"id": "r", "window": "day", "ranks": [1, 1], "reward": nested(124)});
    let definition = json!({"windows": ["day"], "finalize": "1h", "rewards": [reward]});
    admin.define("b", definition).await;
    let lines = lines(&admin, "").await;
    let told = |value: &Value| value["…"].as_str().unwrap().to_owned();
    assert!(told(&lines[0]["outcome"]["after"]).ends_with("nested deeper than 100 levels"));
    assert!(told(&lines[1]["body"]).ends_with("nested deeper than 100 levels"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_changes_if_the_intent_can_not_be_written() {
    let world = World::start(NOW).await;
    let client = world.client().once();
    let board = "/v1/boards/b";
    let definition = json!({"windows": ["day"]});
    world
        .redis
        .run(&[b"RPUSH", b"st:{boards}:audit", b"x"])
        .await;
    client
        .put(board, definition.clone())
        .await
        .expect_problem(500, "internal");
    client
        .get(board)
        .await
        .expect_problem(404, "board-not-found");
    world.redis.run(&[b"DEL", b"st:{boards}:audit"]).await;

    // The outcome is lost, and the intent stays.
    world
        .redis
        .run(&[b"RPUSH", b"st:{boards}:audit-outcomes", b"x"])
        .await;
    client.put(board, definition.clone()).await.expect(201);
    world
        .redis
        .run(&[b"DEL", b"st:{boards}:audit-outcomes"])
        .await;
    let line = last(&client).await;
    assert_eq!(
        [&line["boards"], &line["outcome"]],
        [&json!(["b"]), &Value::Null]
    );
    client.put(board, definition).await.expect(200);
    assert_eq!(last(&client).await["outcome"]["status"], 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_refused_while_redis_is_away() {
    let world = World::start(NOW).await;
    let instance = Instance::start_on(
        crate::harness::store(&world.redis.url()),
        world.clock.clone(),
        "",
    )
    .await;
    let client = instance.client.once();
    client.define("a", json!({"windows": ["day"]})).await;
    world.redis.kill();
    let refused = client
        .put("/v1/boards/b", json!({"windows": ["day"]}))
        .await;
    refused.expect_problem(503, "store-unavailable");
    world.redis.restart().await;
    let client = world.client();
    assert_eq!(check_traces(client).await.0, 1);
    client.define("b", json!({"windows": ["day"]})).await;
    // The line of the request that was refused may have been on its way, and come last.
    let lines = lines(client, "board=b").await;
    let mut statuses = lines.iter().map(|line| &line["outcome"]["status"]);
    assert!(
        statuses.any(|status| *status == 200 || *status == 201),
        "{lines:?}"
    );
}

/// Checks that each board that is there has a line. Returns how many boards there are, and how many lines have no outcome.
async fn check_traces(client: &Client) -> (usize, usize) {
    let boards = client.get("/v1/boards?limit=1000").await.expect(200);
    let boards = boards["boards"].as_array().unwrap().clone();
    let lines = lines(client, "limit=1000").await;
    let named: BTreeSet<&str> = lines
        .iter()
        .map(|line| line["boards"][0].as_str().unwrap())
        .collect();
    for board in &boards {
        let board = board["board"].as_str().unwrap();
        assert!(named.contains(board), "{board} has no line");
    }
    for line in &lines {
        let was_created = line["outcome"]["status"] == 201;
        let is_there = boards
            .iter()
            .any(|board| board["board"] == line["boards"][0]);
        assert!(is_there || !was_created, "{line}");
    }
    (
        boards.len(),
        lines
            .iter()
            .filter(|line| line["outcome"].is_null())
            .count(),
    )
}

/// Defines boards one after the other until that fails.
async fn define_until_failure(client: &Client, name: &str) {
    for number in 0.. {
        let path = format!("/v1/boards/{name}-{number}");
        let request = client
            .builder(Method::PUT, &path)
            .json(&json!({"windows": ["day"]}));
        match Client::try_send(request).await {
            Ok(answer) if answer.status == 201 => {}
            _ => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_before_a_crash_of_the_service_or_redis_have_a_line() {
    let world = World::start(NOW).await;
    for round in 0..4 {
        let mut program = Program::serve_on(&world.redis.url()).await;
        let client = program.client();
        let senders = (0..4).map(|sender| {
            let client = client.clone();
            tokio::spawn(async move {
                define_until_failure(&client, &format!("r{round}-{sender}")).await;
            })
        });
        let senders: Vec<_> = senders.collect();
        let begun = format!("r{round}-3-{}", 2 + round);
        eventually("some boards are there", async || {
            world
                .client()
                .get(&format!("/v1/boards/{begun}"))
                .await
                .status
                == 200
        })
        .await;
        if round % 2 == 0 {
            program.kill();
        } else {
            world.redis.kill();
        }
        for ended in join_all(senders).await {
            ended.unwrap();
        }
        if round % 2 == 1 {
            program.kill();
            world.redis.restart().await;
        }
        let (boards, _) = check_traces(world.client()).await;
        assert!(boards >= 4 * (round + 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_finished_and_logged_though_its_client_disconnects() {
    let world = World::start(NOW).await;
    let address = world
        .client()
        .base
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    let body = r#"{"windows": ["day"]}"#;
    for board in 0..20 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let head = format!(
            "PUT /v1/boards/b{board} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).await.unwrap();
        drop(stream);
    }
    eventually("every line has its outcome", async || {
        let lines = lines(world.client(), "limit=1000").await;
        lines.iter().all(|line| line["outcome"]["status"] == 201)
    })
    .await;
    check_traces(world.client()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_member_is_anonymous_in_the_log() {
    let world = World::start(NOW).await;
    let client = world.client();
    client
        .define("b", json!({"windows": ["day"], "initial": ["day"]}))
        .await;
    let set = async |score: u64| {
        let scores = json!({"scores": {MEMBER: score, "bob": 1}});
        client
            .patch("/v1/boards/b/initial-scores", scores)
            .await
            .expect(200);
    };
    let named = async || lines(client, "member=zo%C3%AB%20of%20nowhere").await;
    set(1).await;
    set(2).await;
    let before = named().await;
    assert_eq!(before.len(), 2);
    let pseudonym = before[0]["members"][1]["pseudonym"].clone();
    assert_eq!(
        before[1]["members"][1]["pseudonym"], pseudonym,
        "it keeps its pseudonym"
    );

    let store = &world.engine().store;
    for _ in 0..2 {
        audit::store::forget_member(store, &member()).await.unwrap();
    }
    assert_eq!(named().await, Vec::<Value>::new());
    let line = last(client).await;
    assert_eq!(
        line["members"][1],
        json!({"pseudonym": pseudonym, "member": null})
    );
    assert_eq!(line["members"][0]["member"], "bob", "others are known");
    expect_no_trace(&world).await;
    set(3).await;
    let after = named().await;
    assert_eq!(after.len(), 1);
    assert_ne!(after[0]["members"][1]["pseudonym"], pseudonym);
}

#[tokio::test(flavor = "multi_thread")]
async fn players_are_logged_under_pseudonyms() {
    let world = World::start(NOW).await;
    let service = world.engine();
    let request = AuditedRequest {
        intent: Intent {
            by: MEMBER.to_owned(),
            ..Intent::default()
        },
        player: Some(member()),
        ..AuditedRequest::default()
    };
    audit::work::begin_line(service, request).await.unwrap();
    let line = last(world.client()).await;
    let pseudonym = line["members"][0]["pseudonym"].as_str().unwrap();
    assert_eq!(line["by"], format!("player:{pseudonym}"));
    let found = lines(world.client(), &format!("key=player:{pseudonym}")).await;
    assert_eq!(found.len(), 1);
    assert!(!written(&world).await.contains("nowhere"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_read_in_pages_newest_first() {
    let world = World::start(NOW).await;
    let client = world.client();
    for number in 0..7 {
        let board = if number % 2 == 0 { "even" } else { "odd" };
        client
            .define(
                board,
                json!({"windows": ["day"], "title": number.to_string()}),
            )
            .await;
    }
    // More than one call looks at.
    for _ in 0..250 {
        client.delete("/v1/keys/none").await.expect(404);
    }
    let titles = |lines: &[Value]| -> Vec<String> {
        let titles = lines
            .iter()
            .map(|line| line["body"]["title"].as_str().unwrap().to_owned());
        titles.collect()
    };
    let (mut after, mut read, mut parts) = (String::new(), Vec::new(), 0);
    loop {
        let part = client
            .get(&format!("{LOG}?board=even&limit=3{after}"))
            .await
            .expect(200);
        let lines = part["lines"].as_array().unwrap();
        assert!(lines.len() <= 3);
        read.extend(titles(lines));
        parts += 1;
        match part["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(read, ["6", "4", "2", "0"]);
    assert!(parts >= 2);
    assert_eq!(lines(client, "key=anonymous&limit=1000").await.len(), 257);
    assert!(lines(client, "key=site").await.is_empty());
    for wrong in [
        "after=x",
        "after=1",
        "after=0-0",
        "limit=0",
        "board=%2F",
        "member=",
        "who=me",
    ] {
        let refused = client.get(&format!("{LOG}?{wrong}")).await;
        refused.expect_problem(400, "invalid-parameter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_old_lines_drops_the_members_that_only_they_name() {
    let world = World::start(NOW).await;
    let client = world.client();
    let definition = json!({"windows": ["day"], "weight": {"members": {"ann": 3}}});
    for number in 0..120 {
        client
            .define(&format!("b{number}"), definition.clone())
            .await;
    }
    let trim = async |service| worker::run(JobKind::Audit, service).await.unwrap();
    let engine = &world.engine();
    trim(engine).await;
    assert_eq!(lines(client, "limit=1000&member=ann").await.len(), 120);
    // Lines are as old as Redis' clock says, and the clock of this world does not follow it.
    world.set_time("2180-01-01T00:00:00Z");
    let address = Address::parse(&world.redis.url());
    let store = Store::connect(&address, PATIENT.try_into().unwrap()).unwrap();
    let keeping =
        Instance::start_on(store.with_audit_retention(None), world.clock.clone(), "").await;
    trim(&keeping.engine).await;
    assert_eq!(lines(client, "limit=1000").await.len(), 120);
    let store = Store::connect(&address, PATIENT.try_into().unwrap())
        .unwrap()
        .with_audit_retention(Some(Span::days(1)));
    let dropping = Instance::start_on(store, world.clock.clone(), "").await;
    trim(&dropping.engine).await;
    assert!(lines(client, "limit=1000").await.is_empty());
    let left: BTreeSet<String> = world
        .redis
        .keys("st:{boards}:audit*")
        .await
        .into_iter()
        .collect();
    assert_eq!(
        left,
        ["st:{boards}:audit", "st:{boards}:audit-size"]
            .map(str::to_owned)
            .into()
    );
    let size = world.redis.run(&[b"GET", b"st:{boards}:audit-size"]).await;
    assert_eq!(size.text(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_still_takes_lines_but_without_bodies() {
    let world = World::start(NOW).await;
    let client = world.client().once();
    let definition = json!({"windows": ["day"]});
    client.define("b", definition.clone()).await;
    world.redis.on_each("CONFIG SET maxmemory 1").await;
    let refused = client.put("/v1/boards/c", definition).await;
    refused.expect_problem(503, "store-full");
    let line = last(&client).await;
    assert_eq!(
        [&line["boards"], &line["body"]],
        [&json!(["c"]), &json!("…")]
    );
    assert_eq!(line["outcome"]["code"], "store-full");
    client.delete("/v1/boards/b").await.expect(204);
    let outcome = last(&client).await["outcome"].take();
    assert_eq!(
        [&outcome["status"], &outcome["before"]],
        [&json!(204), &json!("…")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nearly_full_log_gives_a_warning() {
    let world = World::start(NOW).await;
    let warnings = async || world.client().get("/readyz").await.expect(200)["warnings"].take();
    let before = warnings().await;
    let size = (250 << 20).to_string();
    world
        .redis
        .run(&[b"SET", b"st:{boards}:audit-size", size.as_bytes()])
        .await;
    let after = warnings().await;
    let new: Vec<&str> = after
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| !before.as_array().unwrap().contains(one))
        .map(|warning| warning.as_str().unwrap())
        .collect();
    assert!(
        new.len() == 1 && new[0].contains("STANDINGS_AUDIT_DAYS"),
        "{after}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_has_the_address_of_the_client_behind_a_proxy() {
    let world = World::start(NOW).await;
    let options = Options {
        proxies: "127.0.0.0/8".parse().unwrap(),
        is_local: true,
        ..Options::default()
    };
    let limits = Limits {
        connections: 10,
        times: Times::default(),
    };
    let store = crate::harness::store(&world.redis.url());
    let clock = world.clock.clone();
    let instance = Instance::start_set_up(limits, 64, store, clock, options).await;
    let request = instance.client.builder(Method::DELETE, "/v1/keys/none");
    let answer = Client::send(request.header("x-forwarded-for", "1.1.1.1, 203.0.113.7")).await;
    let line = last(world.client()).await;
    assert_eq!(line["address"], "203.0.113.7");
    assert_eq!(
        line["request_id"],
        answer.headers["x-request-id"].to_str().unwrap()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hides_and_reviews_are_logged_before_and_after_without_names() {
    let world = World::start(NOW).await;
    let client = world.client();
    client.define("b", json!({"windows": ["day"]})).await;
    let path = "/v1/boards/b/hidden/zo%C3%AB%20of%20nowhere";
    let outcome = async || {
        let outcome = last(client).await["outcome"].take();
        [outcome["before"].clone(), outcome["after"].clone()]
    };
    let put = client.put(path, json!({"reason": "cheating"})).await;
    let id = put.expect(200)["hide"].take();
    let hide = json!({"id": id, "reason": "cheating", "by": "anonymous", "since": "2026-11-21T12:00:00.000Z", "until": null});
    assert_eq!(outcome().await, [Value::Null, hide.clone()]);
    client.delete(path).await.expect(204);
    assert_eq!(outcome().await, [hide, Value::Null]);
    let order = json!({"action": "hide", "member": MEMBER, "reason": "bots", "boards": ["b"]});
    client
        .post("/v1/moderation", order.clone())
        .await
        .expect(200);
    let line = last(client).await;
    let pseudonym = &line["members"][0]["pseudonym"];
    assert_eq!(
        &line["outcome"]["after"]["results"][0]["hidden"]["member"], pseudonym,
        "{line}"
    );
    assert_eq!(line["boards"], json!(["b"]));
    let before = json!({"results": [{"board": "b", "hidden": null}]});
    assert_eq!(line["outcome"]["before"], before);
    let mut back = order.clone();
    back["action"] = json!("unhide");
    client.post("/v1/moderation", back).await.expect(200);
    let line = last(client).await;
    let [before, after] = ["before", "after"].map(|half| &line["outcome"][half]["results"][0]);
    assert_eq!(before["hidden"]["reason"], "bots");
    assert_eq!(
        &before["hidden"]["member"],
        &line["members"][0]["pseudonym"]
    );
    assert_eq!(after["hidden"], Value::Null);
    let mut everywhere = order;
    everywhere["boards"] = json!("*");
    for reason in ["bots", "spam"] {
        everywhere["reason"] = json!(reason);
        let ordered = client.post("/v1/moderation", everywhere.clone()).await;
        ordered.expect(202);
    }
    let line = last(client).await;
    assert_eq!(line["boards"], json!(["*"]));
    let reasons = ["before", "after"].map(|half| &line["outcome"][half]["reason"]);
    assert_eq!(reasons, ["bots", "spam"]);
    assert_eq!(
        lines(client, "board=other").await.len(),
        2,
        "they are for all boards"
    );

    let profile = "/v1/members/zo%C3%AB%20of%20nowhere";
    let body = json!({"name": "Zoë", "attributes": {}});
    let written_profile = client.put(&format!("{profile}/profile"), body).await;
    assert!(
        written_profile.status.is_success(),
        "{}",
        written_profile.text
    );
    let review = json!({"name": "Zoë", "status": "blocked", "reason": "rude"});
    client
        .put(&format!("{profile}/name-review"), review)
        .await
        .expect(200);
    let line = last(client).await;
    assert_eq!(
        line["body"],
        json!({"name": "…", "status": "blocked", "reason": "rude"})
    );
    let statuses = ["before", "after"].map(|half| line["outcome"][half]["status"].clone());
    assert_eq!(statuses, ["pending", "blocked"]);

    client.delete(profile).await.expect(202);
    let line = last(client).await;
    assert_eq!(
        [&line["route"], &line["outcome"]["status"]],
        [&json!("/v1/members/{member}"), &json!(202)]
    );
    assert_eq!(
        line["members"][0]["member"],
        Value::Null,
        "it is nobody by now"
    );
    let named = lines(client, "member=zo%C3%AB%20of%20nowhere").await;
    assert_eq!(named, Vec::<Value>::new());
    expect_no_trace(&world).await;
}
