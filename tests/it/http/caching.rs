//! Entity tags, cache rules, compression and CORS.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Client, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_has_not_changed_is_304() {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let client = world.client();
    client.define("b", json!({"windows": ["day"]})).await;
    client
        .post("/v1/boards/b/events", json!({"member": "a", "score": 1}))
        .await
        .expect(200);
    for path in [
        "/v1/boards/b/standings/day",
        "/v1/boards/b/standings/day/members/a",
        "/v1/boards/b/standings/day/members?ids=a",
    ] {
        let first = client.get(path).await;
        let tag = first.headers["etag"].to_str().unwrap().to_owned();
        let again = |tag: String| {
            Client::send(
                client
                    .builder(Method::GET, path)
                    .header("if-none-match", tag),
            )
        };
        let same = again(format!("\"x\", {tag}")).await;
        assert_eq!((same.status.as_u16(), same.text.as_str()), (304, ""));
        assert_eq!(same.headers["etag"], tag.as_str());
        client
            .post("/v1/boards/b/events", json!({"member": "a", "score": 1}))
            .await
            .expect(200);
        again(tag).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn caches_may_keep_only_immutable_answers() {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let client = world.client();
    client
        .define("b", json!({"windows": ["day"], "accept_late": "1h"}))
        .await;
    let rule = async |query: &str| {
        let answer = client
            .get(&format!("/v1/boards/b/standings/day{query}"))
            .await;
        answer.headers["cache-control"].to_str().unwrap().to_owned()
    };
    assert_eq!(rule("").await, "public, no-cache");
    assert_eq!(
        rule("?key=2026-11-21").await,
        "public, no-cache",
        "it is running"
    );
    assert_eq!(
        rule("?key=previous").await,
        "public, no-cache",
        "tomorrow it is another day"
    );
    assert_eq!(rule("?key=2026-11-20").await, "public, max-age=6");
    world.set_time("2026-11-21T00:59:59Z");
    assert_eq!(
        rule("?key=2026-11-20").await,
        "public, no-cache",
        "late events are still taken"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_compressed_and_other_origins_are_allowed_by_name_only() {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let client = world.client();
    let document = client
        .builder(Method::GET, "/openapi.json")
        .header("accept-encoding", "gzip");
    let answer = document.send().await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let preflight = async |origin: &str| {
        let request = client
            .builder(Method::OPTIONS, "/v1/boards")
            .header("origin", origin);
        let answer = request
            .header("access-control-request-method", "GET")
            .send()
            .await
            .unwrap();
        let max_age = &answer.headers()["access-control-max-age"];
        assert_eq!(max_age, "7200", "browsers ask once");
        answer.headers().contains_key("access-control-allow-origin")
    };
    assert!(preflight("https://allowed.example").await);
    assert!(!preflight("https://other.example").await);
}
