//! API keys: each route needs a role, and each role includes those below it.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Client, World};

const KEYS: &str = "read:a-reader,write:a-writer,admin:an-admin";

#[tokio::test(flavor = "multi_thread")]
async fn every_route_needs_its_role() {
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", KEYS).await;
    let open = world.client();
    open.with_key("an-admin")
        .define("b", json!({"windows": ["day"]}))
        .await;
    let document = open.get("/openapi.json").await.expect(200);
    let mut seen = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let address = path
                .replace("{board}", "b")
                .replace("{window}", "day")
                .replace("{member}", "m");
            let method: Method = method.to_uppercase().parse().unwrap();
            let send =
                |key: &str| Client::send(open.with_key(key).builder(method.clone(), &address));
            if !path.starts_with("/v1") {
                continue;
            }
            seen += 1;
            Client::send(open.builder(method.clone(), &address))
                .await
                .expect_problem(401, "unauthenticated");
            send("wrong").await.expect_problem(401, "unauthenticated");
            let needed = match (method.as_str(), path.ends_with("events")) {
                ("PUT" | "DELETE", _) => 2,
                (_, true) => 1,
                _ => 0,
            };
            for (role, key) in ["a-reader", "a-writer"].into_iter().enumerate() {
                let status = send(key).await.status;
                assert_eq!(
                    status == 403,
                    role < needed,
                    "{method} {path} with {key}: {status}"
                );
                assert_ne!(status, 401);
            }
        }
    }
    assert!(seen >= 10, "the document has {seen} operations under /v1");
    for path in ["/livez", "/readyz", "/docs/", "/problems/forbidden"] {
        assert_eq!(open.get(path).await.status, 200, "{path}");
    }
    let answer = open.get("/v1/boards").await;
    assert_eq!(answer.headers["www-authenticate"], "Bearer");
    let page = open
        .with_key("a-reader")
        .get("/v1/boards/b/standings/day")
        .await;
    assert_eq!(page.headers["cache-control"], "private, no-cache");
}
