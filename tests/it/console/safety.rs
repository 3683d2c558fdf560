//! Who sees and does what: scopes, forms of other origins, and names that look like scripts.

use serde_json::json;

use super::browser::Browser;
use super::{NOW, SCRIPT, encoded, world};
use crate::harness::World;
use crate::keys::make_key;

#[tokio::test(flavor = "multi_thread")]
async fn forms_from_other_sites_are_refused() {
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

/// What is filled in may be an id, and so a part of an address.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_too_long_is_refused_without_a_fault() {
    let (world, admin) = world().await;
    let public = json!({"windows": ["day"], "public": true});
    admin.define("public", public).await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let long = "x".repeat(70_000);
    let mut fields: Vec<_> = [
        "name", "board", "member", "id", "url", "reason", "score", "boards", "grace",
    ]
    .map(|name| (name, long.as_str()))
    .to_vec();
    let fixed = [
        ("event", "period.final"),
        ("scope", "read"),
        ("action", "hide"),
    ];
    fields.extend(fixed);
    let mut refused = 0;
    for form in [
        "/console/keys",
        "/console/webhooks",
        "/console/define",
        "/console/member/profile",
        "/console/member/delete-profile",
        "/console/member/review",
        "/console/member/moderate",
        "/console/boards/votes/events",
        "/console/boards/votes/hide",
        "/console/boards/votes/unhide",
        "/console/boards/votes/tier",
        "/console/boards/votes/join",
        "/console/boards/votes/leave",
        "/console/boards/votes/retract",
        "/console/boards/votes/correct",
    ] {
        let page = browser.submit(form, &fields).await;
        assert!((400..500).contains(&page.status), "{form}: {}", page.text);
        refused += usize::from(page.text.contains("uri-too-long"));
    }
    assert!(refused >= 5, "{refused}");
    // Signs take more room in an address that the service writes.
    let signs = "!".repeat(30_000);
    for page in [
        format!("/console/member?member={signs}"),
        format!("/console/boards/votes/standings/{signs}"),
    ] {
        let text = browser.get(&page).await.expect(414);
        assert!(text.contains("the values are too long"), "{text}");
    }
    let embedded = format!("{}/embed/public/{signs}", world.client().base);
    let embedded = world.client().http.get(embedded).send().await.unwrap();
    assert_eq!(embedded.status().as_u16(), 414);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_sees_and_does_what_its_scopes_and_boards_allow() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    admin.define("other", json!({"windows": ["day"]})).await;
    let pages = [
        ("/console/boards", "read|moderate|configure"),
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
        ("/console/boards/votes/quotas", "read"),
        ("/console/boards/votes/queue", "configure"),
        ("/console/boards/votes/initial-scores", "configure"),
        ("/console/boards/votes/upkeep", "configure"),
        ("/console/boards/votes/delete", "configure"),
        ("/console/members", "write|moderate"),
        ("/console/names", "moderate"),
        ("/console/keys", "admin"),
        ("/console/service/memory", "configure"),
        ("/console/queues", "configure"),
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
                let has_one = |scopes: &str| scopes.split('|').any(|scope| named.contains(&scope));
                scopes == "admin" || wanted.all(has_one)
            };
            // What it shows depends on the boards that the key may list.
            let everywhere = browser.get("/console/member?member=zoe").await;
            let may = has("read") || has("write|moderate") && is_for_all;
            let everywhere = everywhere.expect(if may { 200 } else { 403 });
            let form = everywhere.contains("action=\"/console/member/moderate\"");
            assert_eq!(form, has("moderate") && is_for_all, "{name}");
            for (path, needed) in pages {
                let page = browser.get(path).await;
                if path == "/console/boards" {
                    let text = page.expect(200);
                    for (board, is_own) in [("votes", is_for_board), ("other", patterns != "votes")]
                    {
                        let link = format!("href=\"/console/boards/{board}\"");
                        let is_listed = text.contains(&link);
                        assert_eq!(is_listed, has(needed) && is_own, "{name}: {board}");
                    }
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
                for (page, needed) in [
                    ("audit", "admin"),
                    ("keys", "admin"),
                    ("names", "moderate"),
                    ("members", "write|moderate"),
                ] {
                    let link = text.contains(&format!("href=\"/console/{page}\""));
                    assert_eq!(link, has(needed) && is_for_all, "{name} {path}: {page}");
                }
                // Its own boards are in the hand of the route.
                let link = text.contains("href=\"/console/webhooks\"");
                assert_eq!(link, has("configure"), "{name} {path}");
                if !path.contains("/votes/") {
                    continue;
                }
                // A tab leads to the first of its parts that the key may see.
                let tabs: [&[(&str, &str)]; 3] = [
                    &[("hidden", "moderate")],
                    &[
                        ("events", "write"),
                        ("queue", "configure"),
                        ("quotas", "read"),
                    ],
                    &[("definition", "configure")],
                ];
                for parts in tabs {
                    let mut links = parts.iter().map(|(part, scope)| {
                        let link = format!("href=\"/console/boards/votes/{part}\"");
                        (text.contains(&link), has(scope))
                    });
                    let first = links.find(|(_, may)| *may);
                    assert!(
                        first.is_none_or(|(is_there, _)| is_there),
                        "{name} {path}: {parts:?}"
                    );
                    let may_not = parts.iter().filter(|(_, scope)| !has(scope));
                    for (part, _) in may_not {
                        let link = format!("href=\"/console/boards/votes/{part}\"");
                        assert!(!text.contains(&link), "{name} {path}: {link}");
                    }
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
async fn any_session_reads_a_public_board_and_can_do_nothing_else_with_it() {
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
    browser.get("/console/define").await.expect(403);
    // Who may hide a member, and not read the board, sees what everybody sees.
    let (_, secret) = make_key(
        &admin,
        "moderators",
        json!({"scopes": ["moderate"], "boards": ["*"]}),
    )
    .await;
    super::post(&admin, "public", &[("ann", 3)]).await;
    let mut moderator = Browser::signed_in(world.client(), &secret).await;
    let standing = moderator.get("/console/boards/public/standings/day").await;
    assert!(!standing.expect(200).contains("Show hidden members too"));
    let member = "/console/boards/public/standings/day/member?member=ann";
    let text = moderator.get(member).await.expect(200);
    assert!(text.contains("1 of 1") && text.contains(">Hide</button>"));
    assert!(!text.contains("hidden members too"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_runs_a_script_in_a_name() {
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
        &format!("/console/boards?q={}", encoded(SCRIPT)),
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
    assert_eq!(text.matches(escaped).count(), 8, "{text}");
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
