//! Who may do what: every route with every key, from the table of routes itself.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use standings::access::{Access, For};
use standings::api::table::{Route, routes};
use standings::domain::access::Scope;

use crate::harness::client::Answer;
use crate::harness::{Client, World};
use crate::keys::make_key;

const KEYS: &str = "read:a-reader,write:a-writer,admin:an-admin";

/// Sends the request of a route, for a board, without a body that makes sense.
pub async fn send(client: &Client, route: &Route, board: &str) -> Answer {
    Client::send(request(client, route, board)).await
}

/// That request.
pub fn request(client: &Client, route: &Route, board: &str) -> RequestBuilder {
    let address = route
        .path
        .replace("{board}", board)
        .replace("{window}", "day")
        .replace("{member}", "m")
        .replace("{name}", "nobody")
        .replace("{id}", "0");
    let method: Method = route.method.as_str().parse().unwrap();
    client.builder(method, &address)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_needs_its_scope_on_its_board() {
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let open = world.client();
    let admin = open.with_key("an-admin");
    for (board, public) in [("own-1", false), ("other", false), ("public", true)] {
        let definition = json!({"windows": ["day"], "public": public});
        admin.define(board, definition).await;
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
        let Access {
            boards, is_public, ..
        } = route.access;
        let scopes = route.access.scopes();
        if scopes.is_empty() {
            let status = send(open, &route, "own-1").await.status;
            assert!(![401, 403].contains(&status.as_u16()), "{name}");
            continue;
        }
        let unknown = format!("st_{}", "0".repeat(64));
        for nobody in [open, &open.with_key("wrong"), &open.with_key(&unknown)] {
            for board in ["own-1", "missing"] {
                let answer = send(nobody, &route, board).await;
                assert_eq!(answer.headers["www-authenticate"], "Bearer", "{name}");
                answer.expect_problem(401, "unauthenticated");
            }
        }
        // Of a public board anybody may read what is public, and nothing else. (The member is not there.)
        let answer = send(open, &route, "public").await;
        let is_read = [200, 400, 404].contains(&answer.status.as_u16());
        assert_eq!(is_read, is_public, "{name}: {}", answer.text);
        assert!(is_public || answer.status == 401, "{name}");
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
                let is_in_scope = scopes.iter().any(|scope| has.contains(scope));
                if is_in_scope && is_in_reach {
                    let status = answer.status.as_u16();
                    assert!(![401, 403].contains(&status), "{name}: {}", answer.text);
                    continue;
                }
                let detail = answer.expect_problem(403, "forbidden");
                let needed = format!("the scope {};", Scope::listed(&scopes));
                let is_named = detail.contains(&needed);
                assert_eq!(is_named, !is_in_scope, "{name}: {detail}");
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
    assert_eq!(results[0]["total"], 1);
    assert_eq!(results[1]["problem"]["type"], "/problems/forbidden");
    assert_eq!(results[1], results[2]);
    assert_eq!(results[3]["problem"]["type"], "/problems/board-not-found");
    let other = admin.get("/v1/boards/other/standings/day").await;
    assert_eq!(other.expect(200)["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_need_a_key_are_not_cached() {
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", KEYS).await;
    let admin = world.client().with_key("an-admin");
    admin.define("b", json!({"windows": ["day"]})).await;
    let rule = async |client: &Client, path: &str| {
        let answer = client.get(path).await;
        answer.headers["cache-control"].to_str().unwrap().to_owned()
    };
    let reader = world.client().with_key("a-reader");
    let page = "/v1/boards/b/standings/day";
    for path in [
        page,
        "/v1/boards/b/quotas",
        "/v1/members/m/standings?boards=b&window=day",
    ] {
        reader.get(path).await.expect(200);
        assert_eq!(rule(&reader, path).await, "private, no-cache", "{path}");
    }
    let queries = json!({"queries": [{"type": "page", "board": "b", "window": "day"}]});
    let answer = reader.post("/v1/standings/query", queries).await;
    assert_eq!(answer.headers["cache-control"], "private, no-cache");
    for route in routes() {
        if route.method == Method::DELETE || route.access.is_stream {
            continue;
        }
        let answer = send(&admin, &route, "b").await;
        let rule = answer.headers["cache-control"].to_str().unwrap();
        assert!(!rule.contains("public"), "{}: {rule}", route.path);
    }
    admin.define("b", json!({"windows": ["day"]})).await;
    assert_eq!(rule(&admin, "/v1/keys").await, "private, no-store");
    assert_eq!(rule(&admin, "/v1/boards/b").await, "private, no-store");
    let real = format!("{page}?raw=true");
    assert_eq!(rule(&admin, &real).await, "private, no-store");
    let answer = reader.get(&real).await;
    let detail = answer.expect_problem(403, "forbidden");
    assert!(detail.contains("`configure`"), "{detail}");
    assert_eq!(
        varies_by(&reader, page, None).await,
        "accept-encoding, authorization"
    );
}

/// By what an answer says that it varies, in order.
async fn varies_by(client: &Client, path: &str, origin: Option<&str>) -> String {
    let mut request = client.builder(Method::GET, path);
    if let Some(origin) = origin {
        request = request.header("origin", origin);
    }
    let answer = Client::send(request).await;
    let values = answer.headers.get_all("vary").into_iter();
    // Listed origins are told apart in every answer.
    let mut names: Vec<String> = values
        .flat_map(|value| value.to_str().unwrap().split(','))
        .map(|name| name.trim().to_lowercase())
        .filter(|name| name != "origin")
        .collect();
    names.sort();
    names.join(", ")
}

#[tokio::test(flavor = "multi_thread")]
async fn anyone_reads_a_public_board_and_shared_caches_may_keep_it() {
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let anybody = world.client();
    let admin = anybody.with_key("an-admin");
    let definition = |public: bool| {
        json!({"title": "Votes", "windows": ["day", "all"], "public": public, "accept_late": "1h",
            "timezone": "Asia/Shanghai", "weight": {"default": 3}})
    };
    admin.define("b", definition(true)).await;
    let event = json!({"member": "a", "score": 1, "id": "1"});
    admin.post("/v1/boards/b/events", event).await.expect(200);
    let page = "/v1/boards/b/standings/day";
    let (fresh, past) = (
        "public, max-age=1, stale-while-revalidate=5",
        "public, max-age=6",
    );
    for (path, rule) in [
        (page.to_owned(), fresh),
        (format!("{page}/stats"), fresh),
        (format!("{page}/members/a"), fresh),
        (format!("{page}/members?ids=a,b"), fresh),
        (format!("{page}?key=previous"), fresh),
        (format!("{page}?key=2026-11-20"), past),
        ("/v1/boards/b/summary".to_owned(), fresh),
    ] {
        for client in [anybody, &admin] {
            let answer = client.get(&path).await;
            assert_eq!(answer.headers["cache-control"], rule, "{path}");
            assert_eq!(varies_by(client, &path, None).await, "accept-encoding");
            let tag = answer.headers["etag"].clone();
            let again = client.builder(Method::GET, &path);
            let again = Client::send(again.header("if-none-match", tag)).await;
            assert_eq!(again.status, 304, "{path}");
            assert_eq!(again.headers["cache-control"], rule);
            answer.expect(200);
        }
    }
    let real = anybody.get(&format!("{page}?raw=true")).await;
    let detail = real.expect_problem(401, "unauthenticated");
    assert_eq!(detail, "this needs an API key with the scope `configure`");
    // Who has a key for other boards may do what anybody may; who sends a wrong one is told so.
    let grant = json!({"scopes": ["read"], "boards": ["other"]});
    let (_, secret) = make_key(&admin, "other", grant).await;
    anybody.with_key(&secret).get(page).await.expect(200);
    let wrong = anybody.with_key("wrong").get(page).await;
    wrong.expect_problem(401, "unauthenticated");
    let missing = anybody.get("/v1/boards/missing/standings/day").await;
    admin.define("b", definition(false)).await;
    let private = anybody.get(page).await;
    assert_eq!(private.json["detail"], missing.json["detail"]);
    private.expect_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_shows_readers_only_what_a_frontend_needs() {
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", KEYS).await;
    let admin = world.client().with_key("an-admin");
    let definition = json!({"title": "Votes", "windows": ["day", "last-7-days", "all"],
        "timezone": "Asia/Shanghai", "weight": {"default": 3}, "decimals": 1, "ranking": "competition",
        "closes_at": "2026-12-01T00:00:00Z", "shards": 3});
    admin.define("b", definition).await;
    for member in ["a", "b"] {
        let event = json!({"member": member, "score": 1, "id": member});
        admin.post("/v1/boards/b/events", event).await.expect(200);
    }
    let reader = world.client().with_key("a-reader");
    let mut summary = reader.get("/v1/boards/b/summary").await.expect(200);
    let version = summary["version"].take();
    let tag = admin.get("/v1/boards/b").await.headers["etag"].clone();
    assert_eq!(
        tag.to_str().unwrap(),
        format!("\"{}\"", version.as_str().unwrap())
    );
    let window = |name, key, starts: Option<&str>, ends: Option<&str>| json!({"window": name, "key": key, "starts_at": starts, "ends_at": ends, "state": "live", "total": 2});
    let (today, tomorrow) = ("2026-11-20T16:00:00Z", "2026-11-21T16:00:00Z");
    let expected = json!({"board": "b", "title": "Votes", "public": false, "order": "desc", "decimals": 1,
        "ranking": "competition", "timezone": "Asia/Shanghai", "opens_at": null,
        "closes_at": "2026-12-01T00:00:00.000Z", "idempotency": "1h", "version": null, "windows": [
            window("day", "2026-11-21", Some(today), Some(tomorrow)),
            window("last-7-days", "2026-11-21", Some("2026-11-14T16:00:00Z"), Some(tomorrow)),
            window("all", "all", None, None)]});
    assert_eq!(summary, expected);
    let missing = reader.get("/v1/boards/none/summary").await;
    missing.expect_problem(404, "board-not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_do_not_see_how_others_used_quotas() {
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", KEYS).await;
    let admin = world.client().with_key("an-admin");
    let quotas = json!([{"name": "q", "by": ["voter"], "window": "1m", "max": 2},
        {"name": "sms", "by": ["channel"], "window": "1m", "max": 9}]);
    let definition = json!({"windows": ["day"], "quotas": quotas});
    admin.define("b", definition).await;
    let reader = world.client().with_key("a-reader");
    for name in ["voter=v", "member=m", "device=d", "ip=203.0.113.7"] {
        let path = format!("/v1/boards/b/quotas?{name}");
        admin.get(&path).await.expect(200);
        let detail = reader.get(&path).await.expect_problem(403, "forbidden");
        assert!(detail.contains("`configure`"), "{detail}");
    }
    let left = reader
        .get("/v1/boards/b/quotas?channel=sms")
        .await
        .expect(200);
    assert_eq!(left["quotas"].as_array().unwrap().len(), 1);
}
