//! Profiles: writing them, reading them with entries, reviewing their names.

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use standings::api::router::Options;
use standings::domain::blocklist::Blocklist;
use standings::domain::profile::Rules;
use standings::http::connection::Times;
use standings::http::listener::Limits;
use standings::redis::{Address, Store};
use tokio_util::task::AbortOnDropHandle;

use crate::harness::client::Answer;
use crate::harness::{Client, Instance, PATIENT, World};
use crate::keys::make_key;

const NOW: &str = "2026-11-21T12:00:00Z";
const DAY: &str = "/v1/boards/b/standings/day";

/// A world with a board on which these members have a score each, the first the greatest.
async fn board(members: &[&str], definition: Value) -> World {
    let world = World::start(NOW).await;
    fill(world.client(), "b", members, definition).await;
    world
}

async fn fill(client: &Client, board: &str, members: &[&str], definition: Value) {
    client.define(board, definition).await;
    let scores = members.iter().zip((1..=members.len()).rev());
    let event = |(member, score): (&&str, usize)| json!({"board": board, "id": format!("{member}-{score}"), "member": member, "score": score});
    let events: Vec<Value> = scores.map(event).collect();
    for events in events.chunks(1_000) {
        let batch = json!({"events": events});
        client.post_until_taken("/v1/events", &batch).await;
    }
}

fn address(member: &str) -> String {
    format!("/v1/members/{member}/profile")
}

async fn name(client: &Client, member: &str, name: &str) -> Value {
    let body = json!({"name": name});
    client.put(&address(member), body).await.expect(200)
}

/// What an entry shows of a profile that has a name alone.
fn named(name: &str) -> Value {
    json!({"name": name, "avatar_url": null, "attributes": {}})
}

/// The profiles of the entries of a page, in order.
async fn shown(client: &Client, path: &str) -> Vec<Value> {
    let page = client.get(path).await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["profile"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_written_read_replaced_and_deleted() {
    let world = World::start(NOW).await;
    let client = world.client();
    let path = address("a%2Fb");
    client
        .get(&path)
        .await
        .expect_problem(404, "profile-not-found");
    client
        .delete(&path)
        .await
        .expect_problem(404, "profile-not-found");
    let body = json!({"name": " Ann  B. ", "avatar_url": "https://img.example.com/a b.png",
        "attributes": {"z": [1, {"y": null}], "a": "x"}});
    let expected = json!({"member": "a/b", "name": "Ann B.", "avatar_url": "https://img.example.com/a%20b.png",
        "attributes": {"a": "x", "z": [1, {"y": null}]}, "updated_at": "2026-11-21T12:00:00.000Z",
        "review": {"status": "pending", "reason": null, "by": null, "at": "2026-11-21T12:00:00.000Z"}, "written_by": null});
    assert_eq!(client.put(&path, body.clone()).await.expect(200), expected);
    assert_eq!(client.get(&path).await.expect(200), expected);
    world.set_time("2026-11-21T13:00:00Z");
    assert_eq!(
        client.put(&path, body).await.expect(200),
        expected,
        "nothing has changed"
    );
    let replaced = client
        .put(&path, json!({"name": "Bea", "avatar_url": null}))
        .await
        .expect(200);
    assert_eq!(
        (&replaced["avatar_url"], &replaced["attributes"]),
        (&Value::Null, &json!({}))
    );
    assert_eq!(replaced["updated_at"], "2026-11-21T13:00:00.000Z");
    assert_eq!(client.delete(&path).await.status, 204);
    client
        .get(&path)
        .await
        .expect_problem(404, "profile-not-found");
    assert_eq!(
        world.redis.keys("st:{profiles:*").await,
        Vec::<String>::new()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_profile_is_refused_with_a_pointer_and_changes_nothing() {
    let world = World::start(NOW).await;
    let client = world.client();
    let before = name(client, "m", "Ann").await;
    let deep = |depth: usize| {
        let mut value = json!({});
        for _ in 1..depth {
            value = json!({ "a": value });
        }
        value
    };
    let with = |field: &str, value: Value| {
        let mut body = json!({"name": "Bob"});
        body[field] = value;
        body
    };
    let endless = format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
    let endless = format!(r#"{{"name": "Bob", "attributes": {endless}}}"#);
    for (body, pointer) in [
        (json!({}), "/name"),
        (json!({"name": null}), "/name"),
        (json!({"name": ""}), "/name"),
        (json!({"name": "  "}), "/name"),
        (json!({"name": "a".repeat(65)}), "/name"),
        (json!({"name": "a".repeat(100 << 10)}), "/name"),
        (json!({"name": "a\u{200b}b"}), "/name"),
        (json!({"name": "a\u{202e}b"}), "/name"),
        (json!({"name": "\u{3164}"}), "/name"),
        (json!({"name": "a\nb"}), "/name"),
        (with("title", json!("x")), "/title"),
        (
            with("avatar_url", json!("http://img.example.com/a")),
            "/avatar_url",
        ),
        (
            with("avatar_url", json!("javascript:alert(1)")),
            "/avatar_url",
        ),
        (
            with("avatar_url", json!("//img.example.com/a")),
            "/avatar_url",
        ),
        (
            with("avatar_url", json!("https://u:p@img.example.com/a")),
            "/avatar_url",
        ),
        (
            with("avatar_url", json!("https://img.example.com:81/a")),
            "/avatar_url",
        ),
        (with("avatar_url", json!("https://")), "/avatar_url"),
        (
            with(
                "avatar_url",
                json!(format!("https://a.b/{}", "x".repeat(2_048))),
            ),
            "/avatar_url",
        ),
        (with("attributes", json!([1])), "/attributes"),
        (with("attributes", json!("x")), "/attributes"),
        (with("attributes", deep(9)), "/attributes"),
        (
            with("attributes", json!({"a": "x".repeat(100 << 10)})),
            "/attributes",
        ),
        (with("attributes", json!({"a": "x".repeat(2_048)})), ""),
        (serde_json::from_str(&endless).unwrap_or(Value::Null), ""),
    ] {
        let text = if body.is_null() {
            endless.clone()
        } else {
            body.to_string()
        };
        let request = client
            .builder(Method::PUT, &address("m"))
            .header("content-type", "application/json")
            .body(text.clone());
        let answer = Client::send(request).await;
        let errors = answer.expect(422)["errors"].take();
        let short: String = text.chars().take(80).collect();
        let is_there = body.is_null() || errors[0]["pointer"] == pointer;
        assert!(is_there, "{short}: {errors}");
    }
    let large = format!(r#"{{"name": "{}"}}"#, "a".repeat(2 << 20));
    let request = client
        .builder(Method::PUT, &address("m"))
        .header("content-type", "application/json")
        .body(large);
    Client::send(request)
        .await
        .expect_problem(413, "payload-too-large");
    assert_eq!(client.get(&address("m")).await.expect(200), before);
    // At the bounds it is taken.
    client
        .put(&address("m"), with("attributes", deep(8)))
        .await
        .expect(200);
    let rest = 2_048 - r#"{"name":"Bob","avatar_url":null,"attributes":{"a":""}}"#.len();
    let full = with("attributes", json!({"a": "x".repeat(rest)}));
    client.put(&address("m"), full).await.expect(200);
    let over = with("attributes", json!({"a": "x".repeat(rest + 1)}));
    client
        .put(&address("m"), over)
        .await
        .expect_problem(422, "validation-failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_profiles_have_a_result_each() {
    let world = World::start(NOW).await;
    let client = world.client();
    let profiles = json!({"profiles": [
        {"member": "a", "name": "Ann"},
        {"member": "", "name": "Nobody"},
        {"member": "b", "name": "\u{200b}"},
        {"member": "c"},
        7,
        {"member": "a", "name": "Anna", "attributes": {"x": 1}},
        {"member": "d", "name": "محمد"},
    ]});
    let results = client.post("/v1/profiles", profiles).await.expect(200);
    let results = results["results"].as_array().unwrap();
    let statuses: Vec<_> = results.iter().map(|result| &result["status"]).collect();
    assert_eq!(
        statuses,
        [
            "stored", "rejected", "rejected", "rejected", "rejected", "stored", "stored"
        ]
    );
    assert_eq!(results[0]["profile"]["name"], "Ann");
    assert_eq!(results[1]["member"], "");
    assert_eq!(results[1]["problem"]["errors"][0]["pointer"], "/member");
    assert_eq!(results[2]["problem"]["errors"][0]["pointer"], "/name");
    assert_eq!(results[4]["member"], Value::Null);
    let last = client.get(&address("a")).await.expect(200);
    assert_eq!(
        (&last["name"], &last["attributes"]),
        (&json!("Anna"), &json!({"x": 1}))
    );
    for body in [
        json!({"profiles": []}),
        json!({"profiles": vec![7; 1_001]}),
        json!([]),
    ] {
        client
            .post("/v1/profiles", body)
            .await
            .expect_problem(422, "validation-failed");
    }
    let many: Vec<Value> = (0..1_000)
        .map(|place| json!({"member": format!("m-{place}"), "name": format!("M {place}")}))
        .collect();
    let results = client
        .post("/v1/profiles", json!({"profiles": many}))
        .await
        .expect(200);
    let results = results["results"].as_array().unwrap();
    assert_eq!(results.len(), 1_000);
    assert!(results.iter().all(|result| result["status"] == "stored"));
    assert_eq!(
        client.get(&address("m-999")).await.expect(200)["name"],
        "M 999"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_of_entries_shows_profiles_on_request() {
    let world = board(&["a", "b", "c", "d"], json!({"windows": ["day"]})).await;
    let client = world.client();
    for (member, text) in [("a", "Ann"), ("b", "Bob"), ("d", "Dan")] {
        name(client, member, text).await;
    }
    let (ann, bob, dan) = (named("Ann"), named("Bob"), named("Dan"));
    let page = client
        .get(&format!("{DAY}?size=3&member=d&include=profile"))
        .await
        .expect(200);
    let profiles: Vec<_> = page["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["profile"])
        .collect();
    assert_eq!(profiles, [&ann, &bob, &Value::Null]);
    assert_eq!(page["me"]["profile"], dan);
    let plain = client.get(DAY).await.expect(200);
    assert!(plain["entries"][0].get("profile").is_none(), "{plain}");

    let member = client
        .get(&format!("{DAY}/members/b?around=1&include=profile"))
        .await
        .expect(200);
    assert_eq!(member["profile"], bob);
    assert_eq!(member["ahead"]["profile"], ann);
    assert_eq!(member["behind"]["profile"], Value::Null);
    assert_eq!(member["around"][0]["profile"], ann);
    let plain = client.get(&format!("{DAY}/members/b")).await.expect(200);
    assert!(plain.get("profile").is_none() && plain["ahead"].get("profile").is_none());

    let subset = client
        .get(&format!("{DAY}/members?ids=d,a&include=profile"))
        .await
        .expect(200);
    assert_eq!(subset["entries"][1]["profile"], dan);
    let ids = json!({"ids": ["d", "c"]});
    let subset = client
        .post(&format!("{DAY}/members/query?include=profile"), ids)
        .await
        .expect(200);
    assert_eq!(subset["entries"][0]["profile"], Value::Null);
    assert_eq!(subset["entries"][1]["profile"], dan);
    let first = client
        .get(&format!("{DAY}/at-percentile/100?include=profile"))
        .await
        .expect(200);
    assert_eq!(first["entry"]["profile"], ann);
    let across = client
        .get("/v1/members/a/standings?boards=b,none,b&window=day&include=profile")
        .await
        .expect(200);
    assert_eq!(across["standings"][0]["entry"]["profile"], ann);
    assert_eq!(across["standings"][1]["problem"]["code"], "board-not-found");
    assert_eq!(across["standings"][2]["entry"]["profile"], ann);

    let queries = json!({"queries": [
        {"type": "page", "board": "b", "window": "day", "size": 2, "member": "d"},
        {"type": "member", "board": "b", "window": "day", "member": "a"},
        {"type": "subset", "board": "b", "window": "day", "ids": ["b", "c"]},
        {"type": "stats", "board": "b", "window": "day"},
        {"type": "page", "board": "none", "window": "day"}]});
    let results = client
        .post("/v1/standings/query?include=profile", queries.clone())
        .await
        .expect(200);
    let results = &results["results"];
    assert_eq!(results[0]["entries"][1]["profile"], bob);
    assert_eq!(results[0]["me"]["profile"], dan);
    assert_eq!(
        (&results[1]["profile"], &results[1]["behind"]["profile"]),
        (&ann, &bob)
    );
    assert_eq!(results[2]["entries"][0]["profile"], bob);
    assert_eq!(results[4]["problem"]["code"], "board-not-found");
    let plain = client
        .post("/v1/standings/query", queries)
        .await
        .expect(200);
    assert!(plain["results"][1].get("profile").is_none());

    for query in ["include=", "include=name", "include=profile,x"] {
        let answer = client.get(&format!("{DAY}?{query}")).await;
        let detail = answer.expect_problem(400, "invalid-parameter");
        assert!(detail.starts_with("include: "), "{detail}");
    }
    client
        .get(&format!("{DAY}?include=profile&include=profile"))
        .await
        .expect(200);
    let stats = client.get(&format!("{DAY}/stats?include=profile")).await;
    stats.expect_problem(400, "invalid-parameter");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_profile_changes_the_entity_tag_of_answers_with_it() {
    let world = board(
        &["a", "b"],
        json!({"windows": ["day"], "accept_late": "1h"}),
    )
    .await;
    let client = world.client();
    name(client, "a", "Ann").await;
    let tag = async |path: &str| client.get(path).await.headers["etag"].clone();
    let with = format!("{DAY}?include=profile");
    let (plain, shown) = (tag(DAY).await, tag(&with).await);
    assert_ne!(plain, shown);
    let again = client
        .builder(Method::GET, &with)
        .header("if-none-match", &shown);
    assert_eq!(Client::send(again).await.status, 304);
    name(client, "a", "Anna").await;
    let again = client
        .builder(Method::GET, &with)
        .header("if-none-match", &shown);
    assert_eq!(Client::send(again).await.status, 200);
    assert_eq!(tag(DAY).await, plain, "who does not see it has the same");
    // Nothing that shows profiles is kept for long, not even of a period that is over.
    let past = client
        .get(&format!("{DAY}?key=2026-11-01&include=profile"))
        .await;
    assert_eq!(past.headers["cache-control"], "public, no-cache");
    // Requests that share a call, some with profiles and some without, each get what they ask for.
    let reads = (0..64).map(async |place| {
        let path = if place % 2 == 0 { DAY } else { &with };
        let page = client.get(path).await.expect(200);
        (place, page["entries"][0].get("profile").cloned())
    });
    for (place, profile) in join_all(reads).await {
        let expected = (place % 2 == 1).then(|| named("Anna"));
        assert_eq!(profile, expected);
    }
}

/// How often each command has been called, on all servers together.
async fn calls(world: &World, command: &str) -> u64 {
    let mut calls = 0;
    for node in &world.redis.nodes {
        let stats = node.command("INFO commandstats").await;
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        calls += line.map_or(0, |line| {
            line.split(',').next().unwrap().parse::<u64>().unwrap()
        });
    }
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn the_profiles_of_a_page_cost_one_more_round_trip() {
    let members: Vec<String> = (0..400).map(|place| format!("m-{place}")).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let world = board(&members, json!({"windows": ["day"]})).await;
    let client = world.client();
    let profile = |member: &&str| json!({"member": member, "name": format!("Name {member}")});
    let profiles: Vec<Value> = members.iter().map(profile).collect();
    client
        .post("/v1/profiles", json!({"profiles": profiles}))
        .await
        .expect(200);
    let is_cluster = world.redis.nodes.len() > 1;
    // On a cluster a bucket is one call, and all of them are made at the same time.
    let most = if is_cluster { 16 } else { 1 };
    let queries = json!({"queries": [
        {"type": "page", "board": "b", "window": "day", "size": 100},
        {"type": "page", "board": "b", "window": "day", "size": 100, "page": 2},
        {"type": "member", "board": "b", "window": "day", "member": "m-7", "around": 20}]});
    for path in [
        &*format!("{DAY}?size=400&include=profile"),
        &format!("{DAY}/members/m-50?around=100&include=profile"),
        "/v1/members/m-3/standings?boards=b,b,b,b&window=day&include=profile",
        "/v1/standings/query?include=profile",
    ] {
        let (reads, scripts) = (calls(&world, "mget").await, calls(&world, "evalsha").await);
        let answer = if path.contains("/query") {
            client.post(path, queries.clone()).await.expect(200)
        } else {
            client.get(path).await.expect(200)
        };
        assert!(answer.to_string().contains("\"name\":\"Name m-"), "{path}");
        let added = calls(&world, "mget").await - reads;
        assert!((1..=most).contains(&added), "{path}: {added} calls");
        let scripts = calls(&world, "evalsha").await - scripts;
        let queries = if path.contains("boards=") { 4 } else { 3 };
        assert!(scripts <= queries, "{path}: {scripts} scripts");
    }
    let before = calls(&world, "mget").await;
    client.get(&format!("{DAY}?size=400")).await.expect(200);
    assert_eq!(
        calls(&world, "mget").await,
        before,
        "who does not ask pays nothing"
    );
    let all = shown(client, &format!("{DAY}?size=400&include=profile")).await;
    for (member, profile) in members.iter().zip(all) {
        assert_eq!(profile["name"], format!("Name {member}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_profile_does_not_hide_others() {
    let world = board(&["a", "b", "c"], json!({"windows": ["day"]})).await;
    let client = world.client();
    for member in ["a", "b", "c"] {
        name(client, member, member).await;
    }
    let key = async |member: &str| {
        world
            .redis
            .keys(&format!("st:{{profiles:*}}:p:{member}"))
            .await
            .pop()
            .unwrap()
    };
    let (a, b) = (key("a").await, key("b").await);
    world
        .redis
        .run(&[b"SET", a.as_bytes(), b"no JSON \xff"])
        .await;
    world.redis.run(&[b"DEL", b.as_bytes()]).await;
    world.redis.run(&[b"SADD", b.as_bytes(), b"x"]).await;
    let path = format!("{DAY}?include=profile");
    assert_eq!(
        shown(client, &path).await,
        [Value::Null, Value::Null, named("c")]
    );
    client
        .get(&address("a"))
        .await
        .expect_problem(500, "internal");
    let profile = |member: &str| json!({"member": member, "name": "new"});
    let profiles = ["a", "b", "c"].map(profile);
    let profiles = json!({"profiles": profiles});
    let results = client
        .post("/v1/profiles", profiles.clone())
        .await
        .expect(200);
    let statuses: Vec<_> = results["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["status"])
        .collect();
    assert_eq!(statuses, ["rejected", "rejected", "stored"]);
    for member in ["a", "b"] {
        assert_eq!(client.delete(&address(member)).await.status, 204);
    }
    let results = client.post("/v1/profiles", profiles).await.expect(200);
    assert_eq!(results["results"][1]["status"], "stored", "{results}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_concurrent_profile_writes_wins_as_a_whole() {
    let world = World::with_instances(2, NOW).await;
    let writes = (0..40).map(async |place| {
        let client = &world.instances[place % 2].client;
        let body = json!({"name": format!("N {place}"), "attributes": {"place": place}});
        client.put(&address("m"), body).await.expect(200)
    });
    let written = join_all(writes).await;
    let last = world.client().get(&address("m")).await.expect(200);
    assert!(written.contains(&last), "{last}");
    assert_eq!(last["name"], format!("N {}", last["attributes"]["place"]));
    let pending = world.client().get("/v1/name-reviews").await.expect(200);
    assert_eq!(pending["reviews"].as_array().unwrap().len(), 1);
}

const KEYS: &str = "read:a-reader,write:a-writer,admin:an-admin";

/// A world with keys, and a client with each of these scopes: `write`, `moderate`, and `admin` of the configuration.
async fn keyed() -> (World, [Client; 3], AbortOnDropHandle<()>) {
    let world = World::with_keys(1, NOW, KEYS).await;
    let following = world.instances[0].follow_api_keys();
    let admin = world.client().with_key("an-admin");
    let mut clients = Vec::new();
    for scope in ["write", "moderate"] {
        let grant = json!({"scopes": ["read", "write", scope], "boards": ["*"]});
        let (_, secret) = make_key(&admin, scope, grant).await;
        clients.push(world.client().with_key(&secret));
    }
    let [writer, moderator] = clients.try_into().ok().unwrap();
    (world, [writer, moderator, admin], following)
}

async fn review(client: &Client, member: &str, body: Value) -> Answer {
    client
        .put(&format!("/v1/members/{member}/name-review"), body)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_reviewed_and_a_changed_one_again() {
    let (world, [writer, moderator, admin], _following) = keyed().await;
    fill(&admin, "b", &["m", "n"], json!({"windows": ["day"]})).await;
    fill(
        &admin,
        "strict",
        &["m", "n"],
        json!({"windows": ["day"], "names": "approved"}),
    )
    .await;
    let seen = async || {
        let any = shown(&writer, &format!("{DAY}?include=profile")).await;
        let strict = "/v1/boards/strict/standings/day?include=profile";
        let strict = shown(&writer, strict).await;
        (any[0]["name"].clone(), strict[0]["name"].clone())
    };
    let (none, ann) = (Value::Null, json!("Ann"));
    let picture =
        |path: &str| json!({"name": "Ann", "avatar_url": format!("https://i.example.com/{path}")});
    writer.put(&address("m"), picture("1")).await.expect(200);
    assert_eq!(seen().await, (ann.clone(), none.clone()));

    let approve = json!({"name": "Ann", "status": "approved"});
    let other = json!({"name": "Anna", "status": "approved"});
    review(&moderator, "m", other)
        .await
        .expect_problem(412, "name-changed");
    review(&moderator, "nobody", approve.clone())
        .await
        .expect_problem(404, "profile-not-found");
    let detail = review(&writer, "m", approve.clone())
        .await
        .expect_problem(403, "forbidden");
    assert!(detail.contains("`moderate`"), "{detail}");
    // The text may have another spelling.
    let approved = review(
        &moderator,
        "m",
        json!({"name": " Ann ", "status": "approved"}),
    )
    .await
    .expect(200)["review"]
        .clone();
    assert_eq!(
        (&approved["status"], &approved["by"]),
        (&json!("approved"), &json!("moderate"))
    );
    assert_eq!(seen().await, (ann.clone(), ann.clone()));
    // What changes neither name nor picture leaves the review.
    let mut same = picture("1");
    same["attributes"] = json!({"x": 1});
    let same = writer.put(&address("m"), same).await.expect(200);
    assert_eq!(same["review"]["status"], "approved");
    // Another picture has to be looked at.
    let pending = writer.put(&address("m"), picture("2")).await.expect(200);
    assert_eq!(pending["review"]["status"], "pending");
    assert_eq!(seen().await, (ann.clone(), none.clone()));
    let mut judged = approve.clone();
    judged["avatar_url"] = json!("https://i.example.com/1");
    review(&moderator, "m", judged.clone())
        .await
        .expect_problem(412, "name-changed");
    judged["avatar_url"] = json!("https://i.example.com/2");
    review(&moderator, "m", judged).await.expect(200);
    assert_eq!(seen().await, (ann.clone(), ann.clone()));

    let block = json!({"name": "Ann", "status": "blocked", "reason": "not hers"});
    let blocked = review(&moderator, "m", block).await.expect(200);
    assert_eq!(blocked["review"]["reason"], "not hers");
    assert_eq!(seen().await, (none.clone(), none.clone()));
    // A detour over another name brings nothing back.
    assert_eq!(
        name(&writer, "m", "Bea").await["review"]["status"],
        "pending"
    );
    for again in ["Ann", "ANN", "Аnn"] {
        assert_eq!(
            name(&writer, "m", again).await["review"]["status"],
            "blocked",
            "{again}"
        );
        name(&writer, "m", "Bea").await;
    }
    assert_eq!(
        name(&writer, "n", "Ann").await["review"]["status"],
        "pending",
        "somebody else may"
    );
    name(&writer, "m", "Ann").await;
    review(&moderator, "m", approve.clone()).await.expect(200);
    name(&writer, "m", "Bea").await;
    assert_eq!(
        name(&writer, "m", "Ann").await["review"]["status"],
        "pending",
        "it was taken back"
    );
    // A review can be undone, but not by the writer of the name.
    review(&moderator, "m", approve).await.expect(200);
    let undo = json!({"name": "Ann", "status": "pending"});
    let undone = review(&moderator, "m", undo.clone()).await.expect(200);
    let of_review = &undone["review"];
    assert_eq!(
        (&of_review["status"], &of_review["by"]),
        (&json!("pending"), &none)
    );
    assert_eq!(undone["written_by"], "write");
    name(&admin, "m", "Cleo").await;
    let block = json!({"name": "Cleo", "status": "blocked"});
    review(&admin, "m", block).await.expect(200);
    let mut undo = undo;
    undo["name"] = json!("Cleo");
    review(&admin, "m", undo)
        .await
        .expect_problem(403, "forbidden");
    name(&writer, "m", "Ann").await;
    let audit = admin.get("/v1/audit?member=m").await.expect(200);
    let log = audit["lines"].to_string();
    let is_told = log.contains("name-review") && log.contains("\"approved\"");
    assert!(is_told && !log.contains("Ann"), "{log}");
    for (wrong, pointer) in [
        (json!({"name": "Ann", "status": "hidden"}), "/status"),
        (json!({"name": "", "status": "blocked"}), "/name"),
        (
            json!({"name": "Ann", "status": "blocked", "reason": "x".repeat(501)}),
            "/reason",
        ),
    ] {
        let errors = review(&moderator, "m", wrong).await.expect(422)["errors"].take();
        assert_eq!(errors[0]["pointer"], pointer);
    }
    drop(world);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_approves_a_name_they_wrote() {
    let (_world, [writer, moderator, admin], _following) = keyed().await;
    let approve = json!({"name": "Ann", "status": "approved"});
    let block = json!({"name": "Ann", "status": "blocked"});
    for (own, other) in [(&moderator, &admin), (&admin, &moderator)] {
        name(own, "m", "Bob").await;
        name(own, "m", "Ann").await;
        let detail = review(own, "m", approve.clone())
            .await
            .expect_problem(403, "forbidden");
        assert!(detail.contains("another key"), "{detail}");
        review(other, "m", approve.clone()).await.expect(200);
        review(own, "m", block.clone()).await.expect(200);
        own.delete(&address("m")).await;
    }
    name(&writer, "m", "Ann").await;
    // Who changes only the attributes has not written the name.
    let body = json!({"name": "Ann", "attributes": {"x": 1}});
    moderator.put(&address("m"), body).await.expect(200);
    review(&moderator, "m", approve).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn moderators_have_a_list_of_names() {
    let (world, [writer, moderator, _], _following) = keyed().await;
    // The name that has waited longest comes first.
    name(&writer, "z", "First").await;
    world.set_time("2026-11-21T12:01:00Z");
    let members: Vec<String> = (0..250).map(|place| format!("m-{place:03}")).collect();
    let profile = |member: &String| json!({"member": member, "name": format!("N {member}")});
    let profiles: Vec<Value> = members.iter().map(profile).collect();
    writer
        .post("/v1/profiles", json!({"profiles": profiles}))
        .await
        .expect(200);
    for (member, status, now) in [
        ("m-249", "approved", "2026-11-21T12:02:00Z"),
        ("m-100", "blocked", "2026-11-21T12:03:00Z"),
        ("m-007", "approved", "2026-11-21T12:04:00Z"),
    ] {
        world.set_time(now);
        let body = json!({"name": format!("N {member}"), "status": status});
        review(&moderator, member, body).await.expect(200);
    }
    let listed = async |status: &str, limit: usize| {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/name-reviews?status={status}&limit={limit}{after}");
            let part = moderator.get(&path).await.expect(200);
            let reviews = part["reviews"].as_array().unwrap();
            assert!(reviews.len() <= limit);
            assert!(reviews.iter().all(|one| one["review"]["status"] == status));
            found.extend(
                reviews
                    .iter()
                    .map(|one| one["member"].as_str().unwrap().to_owned()),
            );
            match part["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return found,
            }
        }
    };
    assert_eq!(listed("approved", 1).await, ["m-249", "m-007"]);
    assert_eq!(listed("blocked", 100).await, ["m-100"]);
    let reviewed = ["m-007", "m-100", "m-249"];
    let waiting = members.iter().filter(|id| !reviewed.contains(&&***id));
    let pending: Vec<_> = ["z"]
        .into_iter()
        .chain(waiting.map(String::as_str))
        .collect();
    for limit in [7, 100, 247, 1_000] {
        let found = listed("pending", limit).await;
        assert_eq!(found, pending, "{limit}");
    }
    let by_default = moderator.get("/v1/name-reviews").await.expect(200);
    assert_eq!(by_default["reviews"].as_array().unwrap().len(), 100);
    let counts = json!({"pending": 248, "approved": 2, "blocked": 1});
    assert_eq!(by_default["counts"], counts);
    writer.delete(&address("m-007")).await;
    assert_eq!(listed("approved", 100).await, ["m-249"]);
    let answer = writer.get("/v1/name-reviews").await;
    answer.expect_problem(403, "forbidden");
    for query in ["status=all", "limit=0", "after="] {
        let answer = moderator.get(&format!("/v1/name-reviews?{query}")).await;
        answer.expect_problem(400, "invalid-parameter");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_board_shows_profiles_without_a_key_only_if_allowed() {
    let (world, [writer, _, admin], _following) = keyed().await;
    let anybody = world.client();
    let definition =
        |includes: Value| json!({"windows": ["day"], "public": true, "public_includes": includes});
    fill(&admin, "b", &["m"], definition(json!([]))).await;
    name(&writer, "m", "Ann").await;
    let grant = json!({"scopes": ["read"], "boards": ["other"]});
    let (_, secret) = make_key(&admin, "stranger", grant).await;
    let stranger = anybody.with_key(&secret);
    stranger.get(DAY).await.expect(200);
    let raw = stranger.get(&format!("{DAY}?raw=true")).await;
    raw.expect_problem(403, "forbidden");
    let path = format!("{DAY}?include=profile");
    for read in [
        "?include=profile",
        "/members/m?include=profile",
        "/members?ids=m&include=profile",
        "/at-percentile/100?include=profile",
    ] {
        let path = format!("{DAY}{read}");
        let answer = anybody.get(&path).await;
        assert_eq!(answer.headers["www-authenticate"], "Bearer", "{read}");
        let detail = answer.expect_problem(401, "unauthenticated");
        assert!(detail.contains("public_includes"), "{detail}");
        // Who has a key for other boards needs no other one to be known.
        let detail = stranger.get(&path).await.expect_problem(403, "forbidden");
        assert!(detail.contains("public_includes"), "{detail}");
    }
    anybody.get(DAY).await.expect(200);
    let reader = world.client().with_key("a-reader");
    let answer = reader.get(&path).await;
    assert_eq!(answer.headers["cache-control"], "private, no-cache");
    let varies = answer.headers.get_all("vary").into_iter();
    assert!(varies.into_iter().any(|value| value == "authorization"));
    assert_eq!(answer.expect(200)["entries"][0]["profile"], named("Ann"));
    admin.define("b", definition(json!(["profile"]))).await;
    for client in [anybody, &reader] {
        let answer = client.get(&path).await;
        let rule = answer.headers["cache-control"].to_str().unwrap();
        assert_eq!(rule, "public, max-age=1, stale-while-revalidate=5");
        assert_eq!(answer.expect(200)["entries"][0]["profile"], named("Ann"));
    }
    let unknown = admin.put("/v1/boards/b", definition(json!(["name"]))).await;
    unknown.expect_problem(422, "validation-failed");
    let private = json!({"windows": ["day"], "public_includes": ["profile"]});
    admin.define("b", private).await;
    anybody
        .get(&path)
        .await
        .expect_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_and_names_follow_the_settings() {
    let world = World::start(NOW).await;
    let profile_rules = Rules {
        hosts: "img.example.com, *.cdn.example.org".parse().unwrap(),
        blocklist: Blocklist::parse("# staff\nadmin\n^mod(erator)?$").unwrap(),
    };
    let options = Options {
        profile_rules,
        ..Options::default()
    };
    let limits = Limits {
        connections: 100,
        times: Times::default(),
    };
    let store = Store::connect(
        &Address::parse(&world.redis.url()),
        PATIENT.try_into().unwrap(),
    );
    let instance =
        Instance::start_set_up(limits, 256, store.unwrap(), world.clock.clone(), options).await;
    let client = &instance.client;
    let picture = async |url: &str| {
        let body = json!({"name": "Ann", "avatar_url": url});
        client.put(&address("m"), body).await.status.as_u16()
    };
    for url in [
        "https://img.example.com/a",
        "https://IMG.EXAMPLE.COM/a",
        "https://a.cdn.example.org/",
        "https://a.b.cdn.example.org/x?y#z",
    ] {
        assert_eq!(picture(url).await, 200, "{url}");
    }
    for url in [
        "https://example.com/a",
        "https://img.example.com.evil.example/a",
        "https://cdn.example.org/a",
        "https://xcdn.example.org/a",
        "https://evil.example/?img.example.com",
        "https://img.example.com@evil.example/",
        "https://іmg.example.com/a",
    ] {
        assert_eq!(picture(url).await, 422, "{url}");
    }
    let public = json!({"windows": ["day"], "public": true, "public_includes": ["profile"]});
    fill(client, "b", &["m"], public).await;
    // A frame shows pictures of these hosts only.
    let frame = client.get("/embed/b/day").await;
    let policy = frame.headers["content-security-policy"].to_str().unwrap();
    let sources = "; img-src https://img.example.com https://*.cdn.example.org; ";
    assert!(policy.contains(sources), "{policy}");
    let shown_picture = "<img src=\"https://a.b.cdn.example.org/x?y#z\" alt=\"\"";
    assert!(frame.text.contains(shown_picture), "{}", frame.text);
    let path = format!("{DAY}?include=profile");
    for text in [
        "Admin",
        "The ADMIN!",
        "аdmіn",
        "a d m i n",
        "Mod",
        "Ｍｏｄｅｒａｔｏｒ",
    ] {
        let written = name(client, "m", text).await;
        assert_eq!(written["review"]["status"], "blocked", "{text}");
        assert_eq!(written["review"]["by"], "blocklist");
        assert_eq!(shown(client, &path).await, [Value::Null], "{text}");
    }
    for text in ["Modesty", "Ann"] {
        assert_eq!(name(client, "m", text).await["review"]["status"], "pending");
        assert_eq!(shown(client, &path).await, [named(text)]);
    }
    // What a moderator allows is allowed.
    name(client, "m", "Administrator").await;
    let allowed = json!({"name": "Administrator", "status": "approved"});
    review(client, "m", allowed).await.expect(200);
    assert_eq!(shown(client, &path).await, [named("Administrator")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_in_any_script_is_shown_as_it_was_written() {
    let names = [
        "محمد علي",
        "דָּוִד",
        "山田 太郎",
        "Nguyễn",
        "👩🏽\u{200d}🚀 Ada",
        "Владимир",
        "<b>&amp;\"'",
    ];
    let members: Vec<String> = (0..names.len()).map(|place| format!("m{place}")).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let world = board(&members, json!({"windows": ["day"], "shards": 7})).await;
    let client = world.client();
    for (member, text) in members.iter().zip(names) {
        assert_eq!(name(client, member, text).await["name"], text);
    }
    let expected: Vec<Value> = names.into_iter().map(named).collect();
    assert_eq!(
        shown(client, &format!("{DAY}?include=profile")).await,
        expected
    );
}
