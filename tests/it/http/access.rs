//! Who may do what: every route with every key, from the table of routes itself.

use reqwest::Method;
use serde_json::json;
use standings::domain::access::Scope;
use standings::http::auth::Access;
use standings::http::table::{Route, routes};

use crate::harness::client::Answer;
use crate::harness::{Client, World};

const KEYS: &str = "read:a-reader,write:a-writer,admin:an-admin";

/// Sends the request of a route, for a board, without a body that makes sense.
async fn send(client: &Client, route: &Route, board: &str) -> Answer {
    let address = route
        .path
        .replace("{board}", board)
        .replace("{window}", "day")
        .replace("{member}", "m");
    let method: Method = route.method.as_str().parse().unwrap();
    Client::send(client.builder(method, &address)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_needs_its_scope() {
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", KEYS).await;
    let open = world.client();
    open.with_key("an-admin")
        .define("b", json!({"windows": ["day"]}))
        .await;
    let scopes = [
        ("a-reader", &[Scope::Read][..]),
        ("a-writer", &[Scope::Read, Scope::Write]),
        ("an-admin", &Scope::ALL),
    ];
    for route in routes() {
        let name = format!("{} {}", route.method, route.path);
        let Access {
            scope: Some(scope), ..
        } = route.access
        else {
            let status = send(open, &route, "b").await.status;
            assert!(![401, 403].contains(&status.as_u16()), "{name}");
            continue;
        };
        for nobody in [open, &open.with_key("wrong")] {
            let answer = send(nobody, &route, "b").await;
            assert_eq!(answer.headers["www-authenticate"], "Bearer", "{name}");
            answer.expect_problem(401, "unauthenticated");
        }
        // The admin deletes the board in the end.
        for (key, scopes) in scopes {
            let answer = send(&open.with_key(key), &route, "b").await;
            if scopes.contains(&scope) {
                assert!(![401, 403].contains(&answer.status.as_u16()), "{name}");
                continue;
            }
            let detail = answer.expect_problem(403, "forbidden");
            let needed = format!("the scope `{}`", scope.name());
            assert!(detail.contains(&needed), "{name}: {detail}");
        }
    }
    for path in ["/livez", "/readyz", "/docs/", "/problems/forbidden"] {
        assert_eq!(open.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_key_is_needed_for_is_kept_by_nobody_else() {
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", KEYS).await;
    let admin = world.client().with_key("an-admin");
    admin.define("b", json!({"windows": ["day"]})).await;
    let rule = async |client: &Client, path: &str| {
        let answer = client.get(path).await;
        answer.headers["cache-control"].to_str().unwrap().to_owned()
    };
    let reader = world.client().with_key("a-reader");
    let page = "/v1/boards/b/standings/day";
    assert_eq!(rule(&reader, page).await, "private, no-cache");
}
