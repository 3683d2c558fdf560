//! The console, as browsers use it: through HTTP, with cookies and forms.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, redirect};
use serde_json::{Value, json};
use standings::domain::time::Timestamp;
use url::form_urlencoded::Serializer;

use super::api_keys::make_key;
use crate::harness::redis::Reply;
use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";
const KEYS: &str = "read:a-reader,write:a-writer,admin:an-admin";
/// What somebody would send who wants a script to run.
const SCRIPT: &str = "<script>alert('x')</script>\"&";

/// A browser with one tab.
struct Browser {
    http: reqwest::Client,
    base: String,
    /// What it names as the host, and as the origin of the pages.
    host: String,
    origin: Option<String>,
    cookies: BTreeMap<String, String>,
    /// The token of the last page that had one.
    token: String,
}

/// What it was answered.
struct Page {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Page {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(HeaderValue::to_str);
        value.transpose().unwrap().unwrap_or_default()
    }

    #[track_caller]
    fn expect(self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text);
        self.text
    }

    /// Where it leads.
    #[track_caller]
    fn leads_to(&self) -> &str {
        assert_eq!(self.status, 303, "{}", self.text);
        self.header("location")
    }
}

impl Browser {
    /// One that comes by this name.
    fn at(client: &Client, origin: &str) -> Self {
        let http = reqwest::Client::builder().redirect(redirect::Policy::none());
        let (_, host) = origin.split_once("://").unwrap();
        Self {
            http: http.build().unwrap(),
            base: client.base.clone(),
            host: host.to_owned(),
            origin: Some(origin.to_owned()),
            cookies: BTreeMap::new(),
            token: String::new(),
        }
    }

    fn new(client: &Client) -> Self {
        Self::at(client, &client.base)
    }

    async fn signed_in(client: &Client, key: &str) -> Self {
        let mut browser = Self::new(client);
        assert_eq!(browser.sign_in(key).await.leads_to(), "/console");
        browser
    }

    async fn send(&mut self, request: reqwest::RequestBuilder) -> Page {
        let cookies = self.cookies.iter();
        let cookies = cookies.map(|(name, value)| format!("{name}={value}"));
        let cookies = cookies.collect::<Vec<_>>().join("; ");
        let request = request.header("host", &self.host).header("cookie", cookies);
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        for cookie in headers.get_all("set-cookie") {
            let (cookie, _) = cookie.to_str().unwrap().split_once(';').unwrap();
            let (name, value) = cookie.split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        let text = response.text().await.unwrap();
        if let Some((_, rest)) = text.split_once("name=\"token\" value=\"") {
            rest.split_once('"').unwrap().0.clone_into(&mut self.token);
        }
        let page = Page {
            status,
            headers,
            text,
        };
        page.check();
        page
    }

    async fn get(&mut self, path: &str) -> Page {
        self.send(self.http.get(format!("{}{path}", self.base)))
            .await
    }

    /// Sends a form with the token of the last page.
    async fn submit(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let token = self.token.clone();
        let fields = [&[("token", token.as_str())], fields].concat();
        let body = Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = self.http.post(format!("{}{path}", self.base));
        let form = "application/x-www-form-urlencoded";
        request = request.header("content-type", form).body(body);
        if let Some(origin) = &self.origin {
            request = request.header("origin", origin);
        }
        self.send(request).await
    }

    async fn sign_in(&mut self, key: &str) -> Page {
        self.get("/console/sign-in").await.expect(200);
        self.submit("/console/sign-in", &[("key", key)]).await
    }

    fn session(&self) -> &str {
        &self.cookies["standings-session"]
    }
}

impl Page {
    /// What is true of every page.
    fn check(&self) {
        assert!(self.headers.contains_key("x-request-id"));
        let policy = self.header("content-security-policy");
        for part in ["default-src 'none'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(self.header("cache-control"), "private, no-store");
        assert_eq!(self.header("x-content-type-options"), "nosniff");
        assert_eq!(self.header("referrer-policy"), "same-origin");
        if self.status == 303 {
            return;
        }
        assert_eq!(self.header("content-type"), "text/html; charset=utf-8");
        let text = &self.text;
        for part in [
            "<html lang=\"en\">",
            "<title>",
            "<h1>",
            "id=\"main\"",
            "class=\"skip\"",
        ] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        // Nothing that the policy would keep from running, and nothing that somebody has put in.
        for part in [
            "<style",
            " style=",
            "javascript:",
            " onclick=",
            "alert('x')",
        ] {
            assert!(!text.contains(part), "{part}: {text}");
        }
        let scripts = text.matches("<script").count();
        let own = "<script type=\"module\" src=\"/console/assets/live.js\"></script>";
        assert_eq!(scripts, text.matches(own).count(), "{text}");
    }
}

/// A service with keys, a board with members, and a client that may do everything.
async fn world() -> (World, Client) {
    let world = World::with_keys(1, NOW, KEYS).await;
    let admin = world.client().with_key("an-admin");
    let definition = json!({"title": "Votes", "windows": ["day", "all"], "accept_late": "any"});
    admin.define("votes", definition).await;
    post(&admin, "votes", &[("ann", 3), ("bob", 5)]).await;
    (world, admin)
}

async fn post(admin: &Client, board: &str, scores: &[(&str, i64)]) {
    for (member, score) in scores {
        let event = json!({"id": member, "member": member, "score": score});
        let answer = admin
            .post(&format!("/v1/boards/{board}/events"), event)
            .await;
        answer.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_opens_the_console_until_one_signs_out() {
    let (world, _) = world().await;
    let client = world.client();
    let mut browser = Browser::new(client);
    let wanted = "/console/boards?tag=a";
    let to = "/console/sign-in?to=%2Fconsole%2Fboards%3Ftag%3Da";
    assert_eq!(browser.get(wanted).await.leads_to(), to);
    assert!(browser.get(to).await.expect(200).contains(wanted));
    let wrong = browser
        .submit("/console/sign-in", &[("key", "wrong")])
        .await;
    assert!(wrong.expect(401).contains("role=\"alert\""));
    let fields = [("key", "a-reader"), ("to", wanted)];
    let begun = browser.submit("/console/sign-in", &fields).await;
    assert_eq!(begun.leads_to(), wanted);
    let cookie = begun.header("set-cookie");
    let (_, about) = cookie.split_once("; ").unwrap();
    assert_eq!(about, "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
    assert!(
        browser
            .get("/console/boards")
            .await
            .expect(200)
            .contains("configuration:read")
    );
    let first = browser.session().to_owned();

    // Redis knows neither the id nor the key.
    let keys = world.redis.keys("st:{boards}:session:*").await;
    let [key] = keys.as_slice() else {
        panic!("{keys:?}");
    };
    assert!(!key.contains(&first));
    let stored = world.redis.run(&[b"GET", key.as_bytes()]).await.text();
    assert!(
        !stored.contains(&first) && !stored.contains("a-reader"),
        "{stored}"
    );
    let digest = "5306ce99e5054276e084fe75160a6fc712aaeb22114b15abbe0da30750f293a2";
    assert!(
        !stored.contains(digest),
        "a short key could be guessed: {stored}"
    );
    let left = world.redis.run(&[b"PTTL", key.as_bytes()]).await;
    let Reply::Integer(left_ms) = left else {
        panic!("{left:?}");
    };
    assert!((39_600_001..=43_200_000).contains(&left_ms), "{left_ms}");

    // For `/v1` the session is nothing.
    let name_and_id = format!("standings-session={first}");
    let request = client.builder(Method::GET, "/v1/boards/votes/summary");
    let answer = Client::send(request.header("cookie", &name_and_id)).await;
    answer.expect_problem(401, "unauthenticated");
    let request = client.builder(Method::GET, "/v1/boards/votes/summary");
    let answer = Client::send(request.bearer_auth(&first)).await;
    answer.expect_problem(401, "unauthenticated");

    // Who signs in again has a new id, and the one before is gone.
    browser.get("/console/boards").await.expect(200);
    let again = browser
        .submit("/console/sign-in", &[("key", "an-admin")])
        .await;
    assert_eq!(again.leads_to(), "/console");
    assert_ne!(browser.session(), first);
    let mut other = Browser::new(client);
    other.cookies.insert("standings-session".to_owned(), first);
    assert!(
        other
            .get("/console/boards")
            .await
            .leads_to()
            .contains("sign-in")
    );

    let second = browser.session().to_owned();
    browser.get("/console/boards").await.expect(200);
    let out = browser.submit("/console/sign-out", &[]).await;
    assert_eq!(out.leads_to(), "/console/sign-in");
    assert_eq!(browser.session(), "");
    other.cookies.insert("standings-session".to_owned(), second);
    assert!(
        other
            .get("/console/boards")
            .await
            .leads_to()
            .contains("sign-in")
    );
    assert!(world.redis.keys("st:{boards}:session:*").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_key() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let grant = json!({"scopes": ["read"], "boards": ["*"], "expires_at": "2026-11-21T13:00:00Z"});
    let page = "/console/boards/votes/standings/day";
    let mut browsers = Vec::new();
    for name in ["deleted", "rotated", "expired"] {
        let (_, secret) = make_key(&admin, name, grant.clone()).await;
        let mut browser = Browser::signed_in(world.client(), &secret).await;
        assert!(browser.get(page).await.expect(200).contains(name));
        browsers.push(browser);
    }
    let [deleted, rotated, expired] = &mut browsers[..] else {
        unreachable!();
    };
    admin.delete("/v1/keys/deleted").await.expect(204);
    assert!(deleted.get(page).await.leads_to().contains("sign-in"));
    let form = "/console/boards/votes/hide";
    let refused = deleted
        .submit(form, &[("member", "ann"), ("reason", "x")])
        .await;
    // Its token has ended with the session.
    assert!(refused.expect(403).contains("form-refused"));

    let rotate = "/v1/keys/rotated/rotate";
    admin
        .post(rotate, json!({"grace": "10m"}))
        .await
        .expect(200);
    rotated.get(page).await.expect(200);
    world
        .clock
        .set(Timestamp::parse("2026-11-21T12:11:00Z").unwrap());
    assert!(rotated.get(page).await.leads_to().contains("sign-in"));

    expired.get(page).await.expect(200);
    world
        .clock
        .set(Timestamp::parse("2026-11-21T13:00:00Z").unwrap());
    assert!(expired.get(page).await.leads_to().contains("sign-in"));
    let again = expired.sign_in("st_0").await;
    assert!(again.expect(401).contains("No API key has this secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_are_taken_from_the_pages_of_the_console_only() {
    let (world, admin) = world().await;
    let open = World::start(NOW).await;
    open.client()
        .define("votes", json!({"windows": ["day"]}))
        .await;
    let mut browsers = [
        Browser::signed_in(world.client(), "an-admin").await,
        Browser::new(open.client()),
    ];
    let form = "/console/boards/votes/hide";
    let fields = [("member", "ann"), ("reason", "cheating")];
    for browser in &mut browsers {
        let page = "/console/boards/votes/standings/day/member?member=ann";
        browser.get(page).await.expect(200);
        let (own, token) = (browser.origin.clone(), browser.token.clone());
        let port = browser.host.rsplit_once(':').unwrap().1.to_owned();
        for origin in [
            None,
            Some("null".to_owned()),
            Some("https://evil.example".to_owned()),
            Some("http://127.0.0.1:1".to_owned()),
            Some(format!("http://localhost:{port}")),
        ] {
            browser.origin.clone_from(&origin);
            let refused = browser.submit(form, &fields).await;
            assert!(refused.expect(403).contains("form-refused"), "{origin:?}");
        }
        browser.origin = own;
        for wrong in ["", "0", &token.replace(['0', '1', '2'], "3")] {
            wrong.clone_into(&mut browser.token);
            let refused = browser.submit(form, &fields).await;
            assert!(refused.expect(403).contains("form-refused"), "{wrong}");
        }
        browser.token.clone_from(&token);
        // The token of one browser is of no use to another one.
        let cookies = std::mem::take(&mut browser.cookies);
        let refused = browser.submit(form, &fields).await;
        assert!(refused.expect(403).contains("form-refused"));
        browser.cookies = cookies;
        browser.token = token;
    }
    for client in [&admin, open.client()] {
        let hidden = client.get("/v1/boards/votes/hidden").await.expect(200);
        assert_eq!(hidden["hidden"], json!([]));
    }
    for browser in &mut browsers {
        browser.submit(form, &fields).await.leads_to();
    }
    for client in [&admin, open.client()] {
        let hidden = client.get("/v1/boards/votes/hidden").await.expect(200);
        assert_eq!(hidden["hidden"][0]["member"], "ann");
    }
    // A name that leads to this machine is none of its own: without keys nobody would be asked for one.
    let mut rebound = Browser::at(open.client(), "http://evil.example");
    let refused = rebound.get("/console/boards").await;
    assert!(refused.expect(403).contains("foreign-origin"));
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_tls_cookies_are_for_tls_alone_and_a_key_needs_it() {
    let (world, _) = world().await;
    let mut browser = Browser::at(world.client(), "https://scores.example");
    let begun = browser.sign_in("a-reader").await;
    let cookie = begun.header("set-cookie");
    assert!(cookie.starts_with("__Host-standings-session="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"));
    let boards = browser.get("/console/boards").await.expect(200);
    assert!(boards.contains("configuration:read"));
    let mut plain = Browser::at(world.client(), "http://scores.example");
    let refused = plain.sign_in("a-reader").await.expect(403);
    assert!(refused.contains("HTTPS"), "{refused}");
    // A session that was begun without TLS is none with it.
    let id = Browser::signed_in(world.client(), "a-reader").await;
    let mut other = Browser::at(world.client(), "https://scores.example");
    other
        .cookies
        .insert("standings-session".to_owned(), id.session().to_owned());
    assert!(
        other
            .get("/console/boards")
            .await
            .leads_to()
            .contains("sign-in")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_on_another_site_leads_to_the_page_in_two_steps() {
    let (world, _) = world().await;
    let mut browser = Browser::signed_in(world.client(), "a-reader").await;
    let session = browser.cookies.remove("standings-session").unwrap();
    let path = "/console/boards/votes";
    let request = browser.http.get(format!("{}{path}", browser.base));
    let page = browser
        .send(request.header("sec-fetch-site", "cross-site"))
        .await;
    let text = page.expect(200);
    assert!(text.contains("<meta http-equiv=\"refresh\" content=\"0\">"));
    assert!(!text.contains("Votes"));
    // Now the browser sends the cookie, which nothing has replaced.
    assert!(!browser.cookies.contains_key("standings-session"));
    browser
        .cookies
        .insert("standings-session".to_owned(), session);
    assert!(browser.get(path).await.expect(200).contains("Votes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_sees_and_does_what_its_scopes_and_boards_allow() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    admin.define("other", json!({"windows": ["day"]})).await;
    let pages = [
        ("/console/boards", "configure"),
        ("/console/boards/votes/standings/day", "read"),
        (
            "/console/boards/votes/standings/day?hidden=include",
            "read moderate",
        ),
        (
            "/console/boards/votes/standings/day/member?member=ann",
            "read",
        ),
        ("/console/boards/votes/hidden", "moderate"),
        ("/console/boards/votes/definition", "configure"),
        ("/console/define?board=votes", "configure"),
        ("/console/audit", "admin"),
    ];
    for scopes in [
        "read",
        "write",
        "moderate",
        "configure",
        "admin",
        "read moderate",
    ] {
        for (patterns, is_for_board, is_for_all) in [
            ("votes", true, false),
            ("*", true, true),
            ("o*", false, false),
        ] {
            let named: Vec<&str> = scopes.split(' ').collect();
            let name = format!("{}.{}", named.join("."), patterns.replace('*', "all"));
            let grant = json!({"scopes": named, "boards": [patterns]});
            let (_, secret) = make_key(&admin, &name, grant).await;
            let mut browser = Browser::signed_in(world.client(), &secret).await;
            let has = |wanted: &str| {
                let mut wanted = wanted.split(' ');
                scopes == "admin" || wanted.all(|scope| named.contains(&scope))
            };
            for (path, needed) in pages {
                let page = browser.get(path).await;
                if path == "/console/boards" {
                    let is_listed = page.expect(200).contains("<table>");
                    assert_eq!(is_listed, has(needed) && is_for_all, "{name}");
                    continue;
                }
                let is_in_reach = if path.contains("votes") {
                    is_for_board
                } else {
                    is_for_all
                };
                let may = has(needed) && is_in_reach;
                let text = page.expect(if may { 200 } else { 403 });
                if !may {
                    assert!(
                        !text.contains("Votes") && !text.contains("bob"),
                        "{name} {path}"
                    );
                    continue;
                }
                let link = text.contains("href=\"/console/audit\"");
                assert_eq!(link, has("admin") && is_for_all, "{name} {path}");
                if !path.contains("/votes/") {
                    continue;
                }
                let tabs = [("definition", "configure"), ("hidden", "moderate")];
                for (tab, scope) in tabs {
                    let tab = format!("href=\"/console/boards/votes/{tab}\"");
                    assert_eq!(text.contains(&tab), has(scope), "{name} {path}: {tab}");
                }
                let form = text.contains("action=\"/console/boards/votes/hide\"");
                assert_eq!(
                    form,
                    path.contains("member=") && has("moderate"),
                    "{name} {path}"
                );
            }
            // What isn't shown isn't possible either.
            let fields = [("member", "zoe"), ("reason", "cheating")];
            browser.get("/console/boards").await.expect(200);
            let hidden = browser.submit("/console/boards/votes/hide", &fields).await;
            let may = has("moderate") && is_for_board;
            assert_eq!(hidden.status, if may { 303 } else { 403 }, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_board_is_for_all_who_are_signed_in_and_nothing_else_of_it() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let public = json!({"windows": ["day"], "public": true});
    admin.define("public", public).await;
    let (_, secret) = make_key(
        &admin,
        "elsewhere",
        json!({"scopes": ["write"], "boards": ["x"]}),
    )
    .await;
    let mut browser = Browser::signed_in(world.client(), &secret).await;
    browser
        .get("/console/boards/public/standings/day")
        .await
        .expect(200);
    browser
        .get("/console/boards/public/definition")
        .await
        .expect(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_hidden_and_brought_back_with_a_reason_and_a_line_in_the_audit_log() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let grant = json!({"scopes": ["read", "moderate"], "boards": ["votes"]});
    let (_, secret) = make_key(&admin, "moderators", grant).await;
    let mut browser = Browser::signed_in(world.client(), &secret).await;
    let member = "/console/boards/votes/standings/day/member?member=bob&key=2026-11-21";
    let page = browser.get(member).await.expect(200);
    assert!(
        page.contains("1 of 2") && page.contains("Why is bob to be hidden?"),
        "{page}"
    );
    let place = [("member", "bob"), ("window", "day"), ("key", "2026-11-21")];
    let hide = "/console/boards/votes/hide";
    let without_reason = browser.submit(hide, &place).await;
    let text = without_reason.expect(422);
    assert!(
        text.contains("/reason") && text.contains("What to do"),
        "{text}"
    );
    let why = [("reason", "cheating"), ("until", "2026-11-30T08:30")];
    let hidden = browser.submit(hide, &[&place[..], &why].concat()).await;
    let to = hidden.leads_to().to_owned();
    assert_eq!(to, format!("{member}&done=hidden"));
    let page = browser.get(&to).await.expect(200);
    assert!(
        page.contains("role=\"status\"") && page.contains("Bring back"),
        "{page}"
    );
    let standing = "/console/boards/votes/standings/day";
    let page = browser.get(standing).await.expect(200);
    assert!(!page.contains("bob") && page.contains("1 member"), "{page}");
    let page = browser
        .get(&format!("{standing}?hidden=include"))
        .await
        .expect(200);
    assert!(
        page.contains("bob") && page.contains("hidden ones too"),
        "{page}"
    );
    let page = browser
        .get("/console/boards/votes/hidden")
        .await
        .expect(200);
    for part in ["bob", "cheating", "moderators", "2026-11-30 08:30:00 UTC"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let back = browser
        .submit("/console/boards/votes/unhide", &[("member", "bob")])
        .await;
    assert_eq!(
        back.leads_to(),
        "/console/boards/votes/hidden?done=unhidden"
    );
    let page = browser.get(back.leads_to()).await.expect(200);
    assert!(page.contains("Nobody is hidden"), "{page}");
    assert!(browser.get(standing).await.expect(200).contains("bob"));
    let mut operator = Browser::signed_in(world.client(), "an-admin").await;
    let log = operator.get("/console/audit?member=bob").await.expect(200);
    for part in [
        "PUT /v1/boards/{board}/hidden/{member}",
        "moderators",
        "validation-failed",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let service = operator.get("/console/service").await.expect(200);
    assert!(service.contains(env!("CARGO_PKG_VERSION")), "{service}");
    // It says what `/v1` says, by the same name.
    let lines = admin.get("/v1/audit?key=moderators").await.expect(200);
    let told: Vec<Value> = lines["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            json!([
                line["method"],
                line["route"],
                line["outcome"]["status"],
                line["members"][0]["member"]
            ])
        })
        .collect();
    let route = "/v1/boards/{board}/hidden/{member}";
    let expected = [("DELETE", 204), ("PUT", 200), ("PUT", 422)];
    let expected = expected.map(|(method, status)| json!([method, route, status, "bob"]));
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_name_is_made_of_no_page_runs_it() {
    let (world, admin) = world().await;
    let definition = json!({"title": SCRIPT, "tags": [SCRIPT], "windows": ["day"]});
    admin.define("odd", definition).await;
    let event = json!({"id": "1", "member": SCRIPT, "score": 1});
    admin.post("/v1/boards/odd/events", event).await.expect(200);
    let profile = format!("/v1/members/{}/profile", encoded(SCRIPT));
    let put = admin.put(&profile, json!({"name": "<b>Ann</b>"})).await;
    assert!(put.status.is_success(), "{}", put.text);
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let member = format!(
        "/console/boards/odd/standings/day/member?member={}",
        encoded(SCRIPT)
    );
    let escaped = "&#60;script&#62;alert(&#39;x&#39;)";
    for path in [
        "/console/boards",
        &format!("/console/boards?tag={}", encoded(SCRIPT)),
        &format!("/console/boards?prefix={}", encoded(SCRIPT)),
        "/console/boards/odd",
        "/console/boards/odd/definition",
        "/console/boards/odd/standings/day",
        &member,
    ] {
        let text = browser.get(path).await.expect(200);
        assert!(text.contains(escaped), "{path}: {text}");
        assert!(!text.contains("<b>Ann"), "{text}");
    }
    let fields = [
        ("member", SCRIPT),
        ("reason", SCRIPT),
        ("window", "day"),
        ("key", ""),
    ];
    let hidden = browser.submit("/console/boards/odd/hide", &fields).await;
    browser.get(hidden.leads_to()).await.expect(200);
    let text = browser.get("/console/boards/odd/hidden").await.expect(200);
    assert_eq!(text.matches(escaped).count(), 6, "{text}");
    for path in [
        format!("/console/boards/{}", encoded(SCRIPT)),
        format!("/console/boards/odd/standings/{}", encoded(SCRIPT)),
        format!("/console/{}", encoded(SCRIPT)),
        format!("/console/boards/odd/standings/day?key={}", encoded(SCRIPT)),
        format!("/console/boards?{}=1", encoded(SCRIPT)),
    ] {
        let page = browser.get(&path).await;
        assert!([400, 404].contains(&page.status), "{path}: {}", page.text);
    }
}

fn encoded(text: &str) -> String {
    let bytes = text.bytes().map(|byte| format!("%{byte:02X}"));
    bytes.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_are_searched_by_the_beginning_of_their_ids_and_come_in_parts() {
    let world = World::start(NOW).await;
    let client = world.client();
    let mut browser = Browser::new(client);
    let empty = browser.get("/console/boards").await.expect(200);
    assert!(empty.contains("There are no boards yet"), "{empty}");
    for number in 10..40 {
        let tags = if number % 2 == 0 {
            json!(["even"])
        } else {
            json!([])
        };
        let definition = json!({"windows": ["day"], "tags": tags});
        client.define(&format!("b{number}"), definition).await;
    }
    client
        .define("b3", json!({"windows": ["day", "all"]}))
        .await;
    post(client, "b3", &[("ann", 1), ("bob", 2)]).await;
    let listed = |text: &str| {
        let mut boards = Vec::new();
        for part in text.split("<th scope=\"row\">").skip(1) {
            let (_, rest) = part.split_once('>').unwrap();
            boards.push(rest.split_once('<').unwrap().0.to_owned());
        }
        boards
    };
    let of = |numbers: std::ops::Range<u32>| numbers.map(|n| format!("b{n}")).collect::<Vec<_>>();
    let text = browser.get("/console/boards?prefix=b3").await.expect(200);
    assert_eq!(listed(&text), [vec!["b3".to_owned()], of(30..40)].concat());
    assert!(text.contains("all <b>2</b>"), "{text}");
    let text = browser.get("/console/boards?prefix=b").await.expect(200);
    assert_eq!(
        listed(&text),
        of(10..30)
            .into_iter()
            .chain(["b3".to_owned()])
            .chain(of(30..34))
            .collect::<Vec<_>>()
    );
    let next = "/console/boards?prefix=b&#38;after=b33";
    assert!(text.contains(next), "{text}");
    let text = browser
        .get("/console/boards?prefix=b&after=b33")
        .await
        .expect(200);
    assert_eq!(listed(&text), of(34..40));
    let text = browser
        .get("/console/boards?prefix=b1&tag=even")
        .await
        .expect(200);
    assert_eq!(listed(&text), ["b10", "b12", "b14", "b16", "b18"]);
    for nothing in ["prefix=c", "prefix=%20!", "tag=odd"] {
        let text = browser
            .get(&format!("/console/boards?{nothing}"))
            .await
            .expect(200);
        assert!(text.contains("class=\"empty\""), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standing_is_read_page_by_page_and_period_by_period() {
    let world = World::start(NOW).await;
    let client = world.client();
    let definition = json!({"windows": ["day", "last-7-days", "all"], "accept_late": "any", "timezone": "Asia/Shanghai"});
    client.define("b", definition).await;
    let event = |id: usize, at: &str| json!({"board": "b", "id": id.to_string(), "member": format!("m{id:03}"), "score": 200 - id, "at": at});
    let mut events: Vec<Value> = (0..120)
        .map(|id| event(id, "2026-11-21T11:00:00Z"))
        .collect();
    events.push(event(150, "2026-11-18T11:00:00Z"));
    client
        .post("/v1/events", json!({"events": events}))
        .await
        .expect(200);
    let mut browser = Browser::new(client);
    let board = browser.get("/console/boards/b").await.expect(200);
    assert!(board.contains("<td class=\"number\">121</td>"), "{board}");
    assert!(
        board.contains("<time datetime=\"2026-11-21T16:00:00Z\">2026-11-22 00:00:00 CST</time>"),
        "{board}"
    );
    let path = "/console/boards/b/standings/day";
    let first = browser.get(path).await.expect(200);
    assert!(first.contains("120 members") && first.contains("m000") && first.contains("m049"));
    assert!(!first.contains("m050") && first.contains("data-live"));
    assert!(first.contains("page=2") && !first.contains("Previous page"));
    let last = browser.get(&format!("{path}?page=3")).await.expect(200);
    assert!(last.contains("m119") && last.contains("Previous page") && !last.contains("Next page"));
    let behind = browser.get(&format!("{path}?page=9")).await.expect(200);
    assert!(behind.contains("This page is empty"), "{behind}");
    // Back to the period before that has data, and on again through those that have none.
    assert!(first.contains("?key=2026-11-18\" rel=\"prev\""), "{first}");
    assert!(
        first.contains("<span class=\"button off\">Later"),
        "nothing is later than now"
    );
    let earlier = browser
        .get(&format!("{path}?key=2026-11-18"))
        .await
        .expect(200);
    assert!(
        earlier.contains("m150") && earlier.contains("1 member"),
        "{earlier}"
    );
    assert!(
        earlier.contains("<span class=\"button off\">‹ Earlier"),
        "{earlier}"
    );
    let later = "?at=2026-11-18T16%3A00%3A00Z\" rel=\"next\"";
    assert!(earlier.contains(later), "{earlier}");
    assert!(!earlier.contains("data-live"), "it has ended");
    let later = browser
        .get(&format!("{path}?at=2026-11-18T16%3A00%3A00Z"))
        .await
        .expect(200);
    assert!(
        later.contains("2026-11-19") && later.contains("Nobody has points"),
        "{later}"
    );
    for window in ["last-7-days", "all"] {
        let text = browser
            .get(&format!("/console/boards/b/standings/{window}"))
            .await
            .expect(200);
        assert!(text.contains("121 members"), "{text}");
    }
    let member = browser
        .get(&format!("{path}/member?member=m010"))
        .await
        .expect(200);
    for part in ["11 of 120", "m005", "m015", "aria-current=\"true\""] {
        assert!(member.contains(part), "{part}: {member}");
    }
    let nobody = browser
        .get(&format!("{path}/member?member=nobody"))
        .await
        .expect(200);
    assert!(
        nobody.contains("The member is not in this standing"),
        "{nobody}"
    );
    let curl = format!(
        "curl &#39;{}/v1/boards/b/standings/day/members/m010?around=5",
        client.base
    );
    assert!(member.contains(&curl), "{member}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_league_tiers_cohorts_and_their_standings_are_shown() {
    let world = World::start(NOW).await;
    let client = world.client();
    let league = json!({"tiers": [
        {"name": "bronze", "promote": 0.3, "demote": 0},
        {"name": "silver", "promote": 0, "demote": 0.2},
    ]});
    let definition = json!({"windows": ["week"], "score_min": 0, "league": league});
    client.define("league", definition).await;
    post(client, "league", &[("ann", 3), ("bob", 5)]).await;
    let mut browser = Browser::new(client);
    let path = "/console/boards/league/standings/week";
    let tiers = browser.get(path).await.expect(200);
    assert!(
        tiers.contains("tier=bronze") && tiers.contains("tier=silver"),
        "{tiers}"
    );
    let cohorts = browser
        .get(&format!("{path}?tier=bronze"))
        .await
        .expect(200);
    assert!(cohorts.contains("cohort=bronze-1"), "{cohorts}");
    let none = browser
        .get(&format!("{path}?tier=silver"))
        .await
        .expect(200);
    assert!(none.contains("no cohort in this period"), "{none}");
    let cohort = browser
        .get(&format!("{path}?cohort=bronze-1"))
        .await
        .expect(200);
    assert!(
        cohort.contains("bob") && cohort.contains("2 members"),
        "{cohort}"
    );
    let member = browser
        .get(&format!("{path}/member?member=ann"))
        .await
        .expect(200);
    assert!(
        member.contains("2 of 2") && member.contains("bronze-1"),
        "{member}"
    );
}

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
        text.contains(&format!("curl {}/v1/boards/hello", client.base)),
        "{text}"
    );
    let definition = json!({"title": "Miles flown", "windows": ["day"]});
    client.define("demo_flights", definition).await;
    let text = browser.get("/").await.expect(200);
    assert!(
        text.contains("href=\"/console/boards/demo_flights\""),
        "{text}"
    );
    assert_eq!(browser.get("/console").await.leads_to(), "/console/boards");
    // Nobody has to sign in.
    assert_eq!(browser.get("/console/sign-in").await.leads_to(), "/console");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_has_a_page_that_says_what_to_do() {
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
        ("/console/boards/votes/hide", 405, "method-not-allowed"),
    ] {
        let page = browser.get(path).await;
        let id = page.header("x-request-id").to_owned();
        let text = page.expect(status);
        for part in [code, "What to do", "href=\"/console\"", &id] {
            assert!(text.contains(part), "{path}, {part}: {text}");
        }
    }
    // A page is several requests of its key.
    let _following = world.instances[0].follow_api_keys();
    let grant = json!({"scopes": ["read"], "boards": ["*"], "rate": "2/h"});
    let (_, secret) = make_key(&admin, "slow", grant).await;
    let mut slow = Browser::signed_in(world.client(), &secret).await;
    slow.get("/console/boards/votes").await.expect(200);
    let page = slow.get("/console/boards/votes").await;
    let wait = format!("Try again in {} s.", page.header("retry-after"));
    assert!(page.expect(429).contains(&wait), "{wait}");
    world.redis.kill();
    let page = browser.get("/console/boards").await;
    assert!(page.headers.contains_key("retry-after"));
    assert!(page.expect(503).contains("store-unavailable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pages_are_made_of_is_kept_until_it_changes() {
    let (world, _) = world().await;
    let client = world.client();
    let mut tags = Vec::new();
    for (name, kind) in [
        ("console.css", "text/css; charset=utf-8"),
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
    assert_eq!(tags.len(), 3);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_board_is_defined_and_changed_once_one_has_seen_what_would_happen() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let form = browser.get("/console/define").await.expect(200);
    for part in [
        "name=\"finalize\"",
        "name=\"quotas\"",
        "<option>competition</option>",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
    assert!(!form.contains("value=\"save\""), "first one looks");
    let new = [
        ("board", "runs"),
        ("etag", ""),
        ("title", SCRIPT),
        ("windows", "day\r\nweek\r\n"),
        ("decimals", "1"),
        ("public", "true"),
        (
            "quotas",
            "[{\"name\": \"q\", \"by\": [\"voter\"], \"window\": \"day\", \"max\": 1}]",
        ),
    ];
    let with = |step| [&new[..], &[("step", step)]].concat();
    let preview = browser
        .submit("/console/define", &with("preview"))
        .await
        .expect(200);
    for part in [
        "would be created",
        "2026-11-22T00:00:00Z",
        "-X PUT",
        "value=\"save\"",
    ] {
        assert!(preview.contains(part), "{part}: {preview}");
    }
    admin
        .get("/v1/boards/runs")
        .await
        .expect_problem(404, "board-not-found");
    let saved = browser.submit("/console/define", &with("save")).await;
    assert_eq!(saved.leads_to(), "/console/boards/runs/definition");
    let board = admin.get("/v1/boards/runs").await.expect(200);
    assert_eq!(board["title"], SCRIPT);
    assert_eq!(
        (&board["decimals"], &board["public"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(board["windows"], json!(["day", "week"]));
    assert_eq!(board["quotas"][0]["name"], "q");
    // The same again is no change of a board that is there by now.
    let again = browser.submit("/console/define", &with("save")).await;
    assert!(again.expect(412).contains("role=\"alert\""));

    // What is wrong stands beside its setting, and nothing that was filled in is lost.
    let wrong = [
        ("board", "runs2"),
        ("windows", "daily"),
        ("title", "Kept"),
        ("quotas", "["),
    ];
    let text = browser.submit("/console/define", &wrong).await.expect(422);
    assert!(
        text.contains("is not JSON") && text.contains("value=\"Kept\""),
        "{text}"
    );
    let wrong = [
        ("board", "runs2"),
        ("windows", "daily"),
        ("decimals", "many"),
    ];
    let text = browser.submit("/console/define", &wrong).await.expect(422);
    assert!(
        text.contains("/decimals") && text.contains("aria-invalid"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_board_goes_by_the_definition_that_was_read() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let form = browser.get("/console/define?board=votes").await.expect(200);
    let (_, etag) = form.split_once("name=\"etag\" value=\"").unwrap();
    let etag = etag.split_once("\">").unwrap().0.replace("&#34;", "\"");
    let change = |windows, dropped, step| {
        [
            ("board", "votes"),
            ("etag", etag.as_str()),
            ("title", "Votes"),
            ("windows", windows),
            ("accept_late", "any"),
            ("timezone", "UTC"),
            ("idempotency", "1h"),
            ("drop_windows", dropped),
            ("step", step),
        ]
    };
    let preview = browser
        .submit("/console/define", &change("day\nweek\nall", "", "preview"))
        .await;
    let preview = preview.expect(200);
    assert!(preview.contains("<code>windows</code>"), "{preview}");
    let refused = browser
        .submit("/console/define", &change("day", "", "save"))
        .await;
    assert!(refused.expect(409).contains("all"));
    let saved = browser
        .submit("/console/define", &change("day", "all", "save"))
        .await;
    saved.leads_to();
    let board = admin.get("/v1/boards/votes").await.expect(200);
    assert_eq!(board["windows"], json!(["day"]));
    let outdated = browser
        .submit("/console/define", &change("day\nall", "", "save"))
        .await;
    outdated.expect(412);
}
