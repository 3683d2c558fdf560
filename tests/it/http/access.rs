//! Who may do what: every route with every key, from the table of routes itself.

use reqwest::Method;
use serde_json::{Value, json};
use standings::domain::access::Scope;
use standings::http::auth::{Access, For};
use standings::http::table::{Route, routes};

use super::api_keys::make_key;
use crate::harness::client::Answer;
use crate::harness::{Client, World};

const KEYS: &str = "read:a-reader,write:a-writer,admin:an-admin";

/// Sends the request of a route, for a board, without a body that makes sense.
async fn send(client: &Client, route: &Route, board: &str) -> Answer {
    let address = route
        .path
        .replace("{board}", board)
        .replace("{window}", "day")
        .replace("{member}", "m")
        .replace("{name}", "nobody");
    let method: Method = route.method.as_str().parse().unwrap();
    Client::send(client.builder(method, &address)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_needs_its_scope_on_its_board() {
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let open = world.client();
    let admin = open.with_key("an-admin");
    for board in ["own-1", "other"] {
        admin.define(board, json!({"windows": ["day"]})).await;
    }
    // The keys of the configuration are for all boards, and so is the last one of each scope.
    let mut keys = vec![
        (open.with_key("a-reader"), vec![Scope::Read], true),
        (
            open.with_key("a-writer"),
            vec![Scope::Read, Scope::Write],
            true,
        ),
        (admin.clone(), Scope::ALL.to_vec(), true),
    ];
    for scope in Scope::ALL {
        let has = match scope {
            Scope::Admin => Scope::ALL.to_vec(),
            scope => vec![scope],
        };
        for (boards, is_for_all) in [("own-*", false), ("*", true)] {
            let name = format!("{}-{is_for_all}", scope.name());
            let grant = json!({"scopes": [scope.name()], "boards": [boards]});
            let (_, secret) = make_key(&admin, &name, grant).await;
            keys.push((open.with_key(&secret), has.clone(), is_for_all));
        }
    }
    for route in routes() {
        let name = format!("{} {}", route.method, route.path);
        let Access { scope, boards } = route.access;
        let Some(scope) = scope else {
            let status = send(open, &route, "own-1").await.status;
            assert!(![401, 403].contains(&status.as_u16()), "{name}");
            continue;
        };
        let unknown = format!("st_{}", "0".repeat(64));
        for nobody in [open, &open.with_key("wrong"), &open.with_key(&unknown)] {
            for board in ["own-1", "missing"] {
                let answer = send(nobody, &route, board).await;
                assert_eq!(answer.headers["www-authenticate"], "Bearer", "{name}");
                answer.expect_problem(401, "unauthenticated");
            }
        }
        for (client, has, is_for_all) in &keys {
            let mut refusals = Vec::new();
            for board in ["missing", "other", "own-1"] {
                let is_in_reach = *is_for_all
                    || match boards {
                        For::Path => board == "own-1",
                        For::Each => true,
                        For::All => false,
                    };
                let answer = send(client, &route, board).await;
                if has.contains(&scope) && is_in_reach {
                    let status = answer.status.as_u16();
                    assert!(![401, 403].contains(&status), "{name}: {}", answer.text);
                    continue;
                }
                let detail = answer.expect_problem(403, "forbidden");
                let needed = format!("the scope `{}`", scope.name());
                let is_named = detail.contains(&needed);
                assert_eq!(is_named, !has.contains(&scope), "{name}: {detail}");
                refusals.push(detail);
            }
            refusals.dedup();
            assert!(
                refusals.len() < 2,
                "{name} tells boards apart: {refusals:?}"
            );
        }
    }
    for path in ["/livez", "/readyz", "/docs/", "/problems/forbidden"] {
        assert_eq!(open.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn items_for_other_boards_are_refused_one_by_one() {
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let admin = world.client().with_key("an-admin");
    for board in ["vote-1", "other"] {
        admin.define(board, json!({"windows": ["day"]})).await;
    }
    let grant = json!({"scopes": ["read", "write"], "boards": ["vote-*"]});
    let (_, secret) = make_key(&admin, "site", grant).await;
    let client = world.client().with_key(&secret);
    let event = |board: &str| json!({"board": board, "id": "1", "member": "a", "score": 1});
    let boards = ["vote-1", "other", "missing", "vote-missing"];
    let batch = json!({"events": boards.map(event)});
    let results = client.post("/v1/events", batch).await.expect(200);
    let problems: Vec<&Value> = (0..4)
        .map(|item| &results["results"][item]["problem"])
        .collect();
    assert_eq!(results["results"][0]["status"], "applied", "{results}");
    assert_eq!(problems[1]["type"], "/problems/forbidden");
    assert_eq!(
        problems[1], problems[2],
        "whether it is there shows nowhere"
    );
    assert_eq!(problems[3]["type"], "/problems/board-not-found");
    let query = |board: &str| json!({"type": "page", "board": board, "window": "day"});
    let queries = json!({"queries": boards.map(query)});
    let results = client
        .post("/v1/standings/query", queries)
        .await
        .expect(200);
    let results = &results["results"];
    assert_eq!(results[0]["page"]["total"], 1);
    assert_eq!(results[1]["problem"]["type"], "/problems/forbidden");
    assert_eq!(results[1], results[2]);
    assert_eq!(results[3]["problem"]["type"], "/problems/board-not-found");
    let other = admin.get("/v1/boards/other/standings/day").await;
    assert_eq!(other.expect(200)["total"], 0);
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
    assert_eq!(rule(&admin, "/v1/keys").await, "private, no-store");
}
