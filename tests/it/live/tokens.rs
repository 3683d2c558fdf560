//! Tokens for streams.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{NOW, STREAM, has};
use crate::harness::program::{Program, command};
use crate::harness::redis::eventually;
use crate::harness::streams::Stream;
use crate::harness::{Client, World};
use crate::keys::make_key;

const KEYS: &str = "read:a-reader,admin:an-admin";

async fn define(admin: &Client) {
    for board in ["b", "other"] {
        let definition = json!({"windows": ["day", "all"]});
        admin.define(board, definition).await;
    }
}

async fn make(client: &Client, body: Value) -> String {
    let made = client.post("/v1/stream-tokens", body).await.expect(200);
    assert_eq!(made["expires_at"], "2026-11-21T13:00:00.000Z");
    made["token"].as_str().unwrap().to_owned()
}

async fn is_refused(open: &Client, path: &str, token: &str) {
    let answer = open.get(&format!("{path}?token={token}")).await;
    let status = answer.status.as_u16();
    assert!([401, 403].contains(&status), "{path}: {}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_one_standing_on_every_instance() {
    let world = World::with_keys(2, NOW, KEYS).await;
    let open = world.client();
    let admin = open.with_key("an-admin");
    define(&admin).await;
    let reader = open.with_key("a-reader");
    let token = make(&reader, json!({"board": "b", "window": "day"})).await;
    let mut streams = Vec::new();
    for instance in &world.instances {
        let path = format!("{STREAM}?token={token}&size=1");
        let mut stream = Stream::open(&instance.client, &path).await;
        stream.expect("standing").await;
        streams.push(stream);
    }
    for path in [
        "/v1/boards/b/standings/all/stream",
        "/v1/boards/other/standings/day/stream",
        "/v1/boards/b/standings/day",
        "/v1/boards/b/summary",
    ] {
        is_refused(open, path, &token).await;
    }
    let bearer = open.with_key(&token);
    bearer
        .get(STREAM)
        .await
        .expect_problem(401, "unauthenticated");
    let raw = format!("{STREAM}?token={token}&raw=true");
    open.get(&raw).await.expect_problem(403, "forbidden");
    // Somebody changes what it says, or makes up another proof.
    let (said, proof) = token.split_once('.').unwrap();
    let other = make(&reader, json!({"board": "other", "window": "day"})).await;
    let (other, _) = other.split_once('.').unwrap();
    for forged in [
        format!("{other}.{proof}"),
        format!("{said}.{}", "0".repeat(64)),
        said.to_owned(),
        String::new(),
    ] {
        is_refused(open, STREAM, &forged).await;
        is_refused(open, "/v1/boards/other/standings/day/stream", &forged).await;
    }
    // A stream ends with its token.
    world.set_time("2026-11-21T13:00:00Z");
    is_refused(open, STREAM, &token).await;
    let event = json!({"member": "ann", "score": 1});
    admin.post("/v1/boards/b/events", event).await.expect(200);
    for stream in &mut streams {
        assert_eq!(stream.expect("end").await.data["reason"], "unauthenticated");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_with_the_key_that_made_it() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let open = world.client();
    let admin = open.with_key("an-admin");
    define(&admin).await;
    let grant = json!({"scopes": ["read"], "boards": ["b"]});
    let (_, secret) = make_key(&admin, "site", grant.clone()).await;
    let site = open.with_key(&secret);
    let token = make(&site, json!({"board": "b", "window": "day"})).await;
    let body = json!({"board": "other", "window": "day"});
    let problem = site.post("/v1/stream-tokens", body).await;
    problem.expect_problem(403, "forbidden");
    let path = format!("{STREAM}?token={token}");
    let mut stream = Stream::open(open, &path).await;
    stream.expect("standing").await;
    admin.delete("/v1/keys/site").await.expect(204);
    eventually("the instance knows that the key is gone", async || {
        site.get(STREAM).await.status == 401
    })
    .await;
    is_refused(open, STREAM, &token).await;
    let event = json!({"member": "ann", "score": 1});
    admin.post("/v1/boards/b/events", event).await.expect(200);
    assert_eq!(stream.expect("end").await.data["reason"], "unauthenticated");
    // Another key of this name has another secret.
    make_key(&admin, "site", grant).await;
    is_refused(open, STREAM, &token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_with_a_token_do_not_count_against_the_rate_of_its_key() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let open = world.client();
    let admin = open.with_key("an-admin");
    define(&admin).await;
    let grant = json!({"scopes": ["read"], "boards": ["b"], "rate": "2/h"});
    let (_, secret) = make_key(&admin, "site", grant).await;
    let site = open.with_key(&secret);
    let token = make(&site, json!({"board": "b", "window": "day"})).await;
    for _ in 0..3 {
        let mut stream = Stream::open(open, &format!("{STREAM}?token={token}")).await;
        stream.expect("standing").await;
    }
    let page = "/v1/boards/b/standings/day";
    site.get(page).await.expect(200);
    let problem = site.get(page).await;
    problem.expect_problem(429, "rate-limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_given_only_for_an_existing_standing() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let admin = world.client().with_key("an-admin");
    define(&admin).await;
    let ask = async |body: Value| admin.post("/v1/stream-tokens", body).await;
    let body = json!({"board": "none", "window": "day"});
    ask(body).await.expect_problem(404, "board-not-found");
    let body = json!({"board": "b", "window": "week"});
    ask(body).await.expect_problem(422, "unknown-window");
    let body = json!({"board": "b"});
    ask(body).await.expect_problem(422, "validation-failed");
    // Redis has lost the secret: the token is void, and another one is good.
    let body = json!({"board": "b", "window": "day"});
    let token = make(&admin, body.clone()).await;
    world
        .redis
        .run(&[b"DEL", b"st:{boards}:stream-secret"])
        .await;
    let again = make(&admin, body).await;
    is_refused(world.client(), STREAM, &token).await;
    Stream::open(world.client(), &format!("{STREAM}?token={again}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_a_token_can_be_made_and_has_no_effect() {
    let world = super::world(1).await;
    let client = world.client();
    let token = make(client, json!({"board": "b", "window": "day"})).await;
    super::send(client, "ann", 1).await;
    let mut stream = Stream::open(client, &format!("{STREAM}?token={token}")).await;
    stream.until(has(&["ann"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_log_contains_a_token() {
    let data = TempDir::new().unwrap();
    let data_dir = data.path().to_str().unwrap();
    let args = [
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        data_dir,
        "--api-keys",
        KEYS,
    ];
    let mut command = command(&args);
    command
        .env("STANDINGS_LOG", "trace,fred=off")
        .env("RUST_LOG", "trace,fred=off");
    let program = Program::run_until_ready(&mut command).await;
    let open = program.client();
    let admin = open.with_key("an-admin");
    define(&admin).await;
    let token = make_now(&admin, json!({"board": "b", "window": "day"})).await;
    let path = format!("{STREAM}?token={token}");
    let mut stream = Stream::open(&open, &path).await;
    stream.expect("standing").await;
    let wrong = format!("/v1/boards/other/standings/day/stream?token={token}");
    open.get(&wrong).await.expect_problem(403, "forbidden");
    drop(stream);
    let audit = admin.get("/v1/audit").await;
    let log = program.stop().await;
    assert!(log.contains("/v1/boards/b/standings/day/stream"), "{log}");
    let (said, proof) = token.split_once('.').unwrap();
    for part in [said, proof] {
        assert!(!log.contains(part), "{log}");
        assert!(!audit.text.contains(part), "{}", audit.text);
    }
}

async fn make_now(client: &Client, body: Value) -> String {
    let made = client.post("/v1/stream-tokens", body).await;
    assert_eq!(made.headers["cache-control"], "private, no-store");
    made.expect(200)["token"].as_str().unwrap().to_owned()
}
