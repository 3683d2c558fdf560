//! The first page, pages of problems, and what pages are made of.

use reqwest::Method;
use serde_json::json;

use super::browser::Browser;
use super::{NOW, world};
use crate::harness::{Client, World};
use crate::keys::make_key;

#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_shows_the_first_steps_or_leads_to_the_console() {
    let (world, _) = world().await;
    let mut browser = Browser::new(world.client());
    assert_eq!(browser.get("/").await.leads_to(), "/console");
    let open = World::start(NOW).await;
    let client = open.client();
    let mut browser = Browser::new(client);
    let text = browser.get("/").await.expect(200);
    assert!(
        text.contains("make demo") && text.contains("Version"),
        "{text}"
    );
    assert!(
        text.contains(&format!("curl {}/v1/boards/high_scores", client.base)),
        "{text}"
    );
    let definition = json!({"title": "Miles flown", "windows": ["day"]});
    client.define("demo_flights", definition).await;
    let text = browser.get("/").await.expect(200);
    assert!(
        text.contains("href=\"/console/boards/demo_flights\""),
        "{text}"
    );
    browser.read("/console", &["<h1>Overview</h1>"]).await;
    // Nobody has to sign in.
    assert_eq!(browser.get("/console/sign-in").await.leads_to(), "/console");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_board_is_made_on_the_first_page() {
    let open = World::start(NOW).await;
    let client = open.client();
    let mut browser = Browser::new(client);
    let parts = [
        "Create your first board",
        "nothing is stored",
        ">Theo Lynx<",
        "property=\"og:title\"",
        "action=\"/console/first-board\"",
    ];
    browser.read("/", &parts).await;
    let create = "/console/first-board";
    let form = |board| {
        [
            ("title", "Laps"),
            ("board", board),
            ("update", "min"),
            ("windows", "week all"),
        ]
    };
    let made = browser.submit(create, &form("laps")).await;
    assert_eq!(made.leads_to(), "/console/boards/laps");
    let defined = client.get("/v1/boards/laps").await.expect(200);
    for (field, value) in [
        ("title", json!("Laps")),
        ("update", json!("min")),
        ("order", json!("asc")),
        ("windows", json!(["week", "all"])),
    ] {
        assert_eq!(defined[field], value);
    }
    // The board is as before, and the page has what was filled in.
    for (board, said) in [("laps", "already"), ("a b", "/board")] {
        let value = format!("value=\"{board}\"");
        let refused = browser.submit(create, &form(board)).await;
        let text = refused.text.clone();
        assert!([400, 422].contains(&refused.status), "{text}");
        for part in [said, "value=\"Laps\"", &value] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_of_an_open_service_says_so_and_where_to_create_a_key() {
    let (open, (closed, admin)) = (World::start(NOW).await, world().await);
    let said = "protects nothing until";
    let mut browser = Browser::new(open.client());
    let first = [
        "STANDINGS_API_KEYS</code> is not set",
        "API keys that you create protect nothing",
    ];
    browser.read("/", &first).await;
    let keys = "/console/keys";
    browser.read(keys, &[said]).await;
    let wanted = [("name", "site"), ("boards", "*"), ("scope", "read")];
    let made = browser.submit(keys, &wanted).await.expect(200);
    let said = "API keys have no effect until";
    assert!(made.contains(said), "{made}");
    let rotated = browser.submit("/console/keys/site/rotate", &[]).await;
    assert!(rotated.expect(200).contains(said));
    let mut browser = Browser::signed_in(closed.client(), "an-admin").await;
    assert!(!browser.read(keys, &[]).await.contains(said));
    let made = browser.submit(keys, &wanted).await.expect(200);
    assert!(!made.contains(said), "{made}");

    let grant = json!({"scopes": ["read"], "boards": ["*"]});
    let (made, _) = make_key(open.client(), "app", grant.clone()).await;
    let warning = made["warning"].as_str().unwrap();
    assert!(warning.contains("STANDINGS_API_KEYS"), "{warning}");
    let rotated = open.client().post("/v1/keys/app/rotate", json!({})).await;
    assert_eq!(rotated.expect(200)["warning"], warning);
    let (made, _) = make_key(&admin, "app", grant).await;
    assert_eq!(made.get("warning"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_problem_says_what_to_do() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    for (path, status, code) in [
        ("/console/nothing", 404, "not-found"),
        ("/console/boards/missing", 404, "board-not-found"),
        (
            "/console/boards/votes/standings/week",
            404,
            "unknown-window",
        ),
        (
            "/console/boards/votes/standings/day?key=soon",
            400,
            "invalid-parameter",
        ),
        ("/console/boards?unknown=1", 400, "invalid-parameter"),
        (
            "/console/audit?afer=1",
            400,
            "<code>after</code>? Known parameters: <code>board</code>, <code>member</code>",
        ),
        (
            "/console/audit?key=a&key=b",
            400,
            "duplicate parameter <code>key</code>",
        ),
        (
            "/console/boards/votes?board=x",
            400,
            "unknown parameter <code>board</code>. Known parameters: <code>key</code>",
        ),
        (
            "/console/boards/votes/definition?board=votes",
            400,
            "there are no parameters",
        ),
        ("/console/boards/votes/hide", 405, "method-not-allowed"),
    ] {
        let page = browser.get(path).await;
        let id = page.header("x-request-id").to_owned();
        let text = page.expect(status);
        for part in [code, "What to do", "href=\"/console\"", &id] {
            assert!(text.contains(part), "{path}, {part}: {text}");
        }
    }
    // The parameters of a notice are no part of a page.
    let twice = "/console/audit?done=set&done=set&name=a&name=b";
    browser.read(twice, &["The initial scores are set."]).await;
    // A page is several requests of its key.
    let _following = world.instances[0].follow_api_keys();
    let grant = json!({"scopes": ["read"], "boards": ["*"], "rate": "20/h"});
    let (_, secret) = make_key(&admin, "slow", grant).await;
    let mut slow = Browser::signed_in(world.client(), &secret).await;
    let mut page = slow.get("/console/boards/votes").await;
    assert_eq!(page.status, 200, "{}", page.text);
    while page.status == 200 {
        page = slow.get("/console/boards/votes").await;
    }
    let wait = format!("Try again in {} s.", page.header("retry-after"));
    assert!(page.expect(429).contains(&wait), "{wait}");
    world.redis.kill();
    let page = browser.get("/console/boards").await;
    assert!(page.headers.contains_key("retry-after"));
    assert!(page.expect(503).contains("store-unavailable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn assets_of_pages_are_cached_until_they_change() {
    let (world, _) = world().await;
    let client = world.client();
    let mut tags = Vec::new();
    for (name, kind) in [
        ("console.css", "text/css; charset=utf-8"),
        ("console.js", "text/javascript; charset=utf-8"),
        ("home.js", "text/javascript; charset=utf-8"),
        ("live.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let path = format!("/console/assets/{name}");
        let answer = client.get(&path).await;
        assert_eq!(answer.headers["content-type"], kind);
        let tag = answer.headers["etag"].clone();
        let request = client.builder(Method::GET, &path);
        let again = Client::send(request.header("if-none-match", &tag)).await;
        assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
        tags.push(tag);
    }
    tags.dedup();
    assert_eq!(tags.len(), 5);
    client
        .get("/console/assets/other")
        .await
        .expect_problem(404, "not-found");
    let docs = client.get("/docs/").await;
    assert_eq!(
        docs.headers["content-security-policy"],
        "frame-ancestors 'none'"
    );
}
