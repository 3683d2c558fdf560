//! Boards within pages of others: who may see them, in which colours, and how little they are.

use reqwest::header::HeaderMap;
use serde_json::json;

use crate::console::{KEYS, SCRIPT};
use crate::harness::relative::resolved;
use crate::harness::{Client, Instance, World};

const NOW: &str = "2026-11-21T12:00:00Z";
const PAGE: &str = "/embed/votes/day";
/// What a page may be in all.
const BYTES_MAX: usize = 20_000;

/// A service with keys, a public board with a member whom a script is called like, and one that is not public.
async fn world() -> (World, Client) {
    let world = World::with_keys(1, NOW, KEYS).await;
    let admin = world.client().with_key("an-admin");
    fill(&admin).await;
    (world, admin)
}

async fn fill(admin: &Client) {
    let public = json!({
        "title": SCRIPT, "windows": ["day", "last-2-days", "all"], "public": true,
        "public_includes": ["profile"], "decimals": 1,
    });
    admin.define("votes", public).await;
    admin
        .define("secret", json!({"title": "Secret", "windows": ["day"]}))
        .await;
    for (board, member, score) in [
        ("votes", "ann", json!(5.5)),
        ("votes", SCRIPT, json!(30)),
        ("votes", "bob", json!(7)),
        ("secret", "ann", json!(1)),
    ] {
        let event = json!({"id": member, "member": member, "score": score});
        let path = format!("/v1/boards/{board}/events");
        admin.post(&path, event).await.expect(200);
    }
    let put = admin
        .put("/v1/members/bob/profile", json!({"name": "<b>Bob</b>"}))
        .await;
    assert!(put.status.is_success(), "{}", put.text);
}

/// What somebody without a key is answered.
struct Shown {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Shown {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    fn policy(&self) -> &str {
        self.header("content-security-policy")
    }
}

async fn get(client: &Client, path: &str) -> Shown {
    let answer = reqwest::get(format!("{}{path}", client.base))
        .await
        .unwrap();
    let address = answer.url().clone();
    Shown {
        status: answer.status().as_u16(),
        headers: answer.headers().clone(),
        text: resolved(&answer.text().await.unwrap(), &address),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_board_is_shown_to_everyone_with_names_as_text() {
    let (world, _) = world().await;
    let page = get(world.client(), PAGE).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    for part in [
        "&#60;script&#62;",
        "&#60;b&#62;Bob",
        ">ann<",
        ">5.5<",
        // With all decimals of the board.
        ">30.0<",
        ">3 members<",
        ">Today, 21 November<",
        "<span class=\"medal gold\">1</span>",
        "<span class=\"medal bronze\">3</span>",
        "aria-hidden=\"true\">A</span>",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    for part in ["alert('x')", "<b>", "<style", " style=", "href=\"/console"] {
        assert!(!page.text.contains(part), "{part}: {}", page.text);
    }
    assert_eq!(page.text.matches("<script").count(), 1, "{}", page.text);
    assert!(page.policy().starts_with("default-src 'none'; "));
    assert!(!page.policy().contains("unsafe"));
    assert!(
        page.policy().ends_with("; frame-ancestors *"),
        "{}",
        page.policy()
    );
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    let rule = "public, max-age=1, stale-while-revalidate=5";
    assert_eq!(page.header("cache-control"), rule);
    assert!(page.headers.get("set-cookie").is_none());
    // Pictures would tell their hosts who looks: the operator lists those that may know.
    assert!(!page.policy().contains("img-src") && !page.text.contains("data-pictures"));
    // Where no script runs the browser loads it again by itself.
    assert!(page.text.contains("<noscript><meta http-equiv=\"refresh\""));
    let first = get(world.client(), "/embed/votes/last-2-days?size=1").await;
    assert!(first.text.contains("&#60;script") && !first.text.contains(">ann<"));
    assert!(first.text.contains("3 members"), "{}", first.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_board_looks_like_a_missing_one() {
    let (world, admin) = world().await;
    let open = World::start(NOW).await;
    fill(open.client()).await;
    for client in [world.client(), &admin, open.client()] {
        let [secret, missing] = ["secret", "nothing"].map(|board| format!("/embed/{board}/day"));
        let (secret, missing) = (get(client, &secret).await, get(client, &missing).await);
        assert_eq!((secret.status, missing.status), (404, 404));
        assert_eq!(secret.text, missing.text);
        assert!(secret.text.contains("no public board") && !secret.text.contains("Secret"));
        assert_eq!(secret.policy(), get(client, PAGE).await.policy());
    }
    admin
        .patch("/v1/boards/votes", json!({"public": false}))
        .await
        .expect(200);
    assert_eq!(get(world.client(), PAGE).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn colours_are_hexadecimal_digits_and_anything_else_is_refused() {
    let (world, _) = world().await;
    let client = world.client();
    let page = get(client, &format!("{PAGE}?accent=C00&background=002&size=2")).await;
    let stylesheet = "/embed/colours.css?accent=cc0000&background=000022";
    let link = stylesheet.replace('&', "&#38;");
    assert!(
        page.text.contains(&format!("href=\"{link}\"")),
        "{}",
        page.text
    );
    let colours = get(client, stylesheet).await;
    let rules = ":root { color-scheme: dark; --accent: #cc0000; --background: #000022; --text: #ffffff; }\n";
    assert_eq!(colours.text, rules);
    assert_eq!(colours.header("content-type"), "text/css; charset=utf-8");
    for wrong in [
        "accent=red",
        "accent=",
        "accent=%23fff",
        "text=fff%3B%7D%20body%7Bbackground:url(x)",
        "background=12345",
        "colour=fff",
        "size=0",
        "size=101",
        "size=x",
        "theme=blue",
        "lang=d_e",
        "noun=",
    ] {
        let page = get(client, &format!("{PAGE}?{wrong}")).await;
        assert_eq!(page.status, 400, "{wrong}: {}", page.text);
        assert!(
            page.text.contains("<h1>A parameter is invalid</h1>"),
            "{}",
            page.text
        );
        let colours = get(client, &format!("/embed/colours.css?{wrong}")).await;
        assert_eq!(colours.status, 400, "{wrong}: {}", colours.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_speaks_the_language_of_the_site_around_it() {
    let (world, admin) = world().await;
    let event = json!({"id": "million", "member": "ann", "score": 1_234_567});
    let sent = admin.post("/v1/boards/votes/events", event).await;
    sent.expect(200);
    for (query, parts) in [
        (
            "lang=de-AT&noun=Lied,Lieder",
            &[
                "<html lang=\"de\">",
                ">1.234.572,5<",
                ">3 Lieder<",
                ">Heute, 21. November<",
                ">Punkte<",
            ][..],
        ),
        (
            "lang=fr",
            &[
                "<html lang=\"fr\">",
                ">1\u{202f}234\u{202f}572,5<",
                ">3 membres<",
                ">Aujourd’hui, 21 novembre<",
            ],
        ),
        (
            "lang=ja",
            &["<html lang=\"ja\">", ">1,234,572.5<", ">今日、11月21日<"],
        ),
        (
            "lang=xx&noun=<b>",
            &["<html lang=\"en\">", ">3 &#60;b&#62;<"],
        ),
    ] {
        let page = get(world.client(), &format!("{PAGE}?{query}")).await;
        assert_eq!(page.status, 200, "{query}: {}", page.text);
        for part in parts {
            assert!(page.text.contains(part), "{query}, {part}: {}", page.text);
        }
    }
    let days = get(world.client(), "/embed/votes/last-2-days?lang=es").await;
    assert!(days.text.contains(">Últimos 2 días<"), "{}", days.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_light_or_dark_and_may_have_no_ground() {
    let (world, _) = world().await;
    for (query, scheme) in [
        ("", "light dark"),
        ("?theme=auto", "light dark"),
        ("?theme=dark&background=transparent", "dark"),
        ("?theme=light", "light"),
    ] {
        let page = get(world.client(), &format!("{PAGE}{query}")).await;
        let meta = format!("<meta name=\"color-scheme\" content=\"{scheme}\">");
        assert!(page.text.contains(&meta), "{query}: {}", page.text);
        let stylesheet = "/embed/colours.css?background=transparent";
        let is_linked = page.text.contains(&format!("href=\"{stylesheet}\""));
        assert_eq!(is_linked, query.contains("transparent"), "{query}");
        let colours = get(world.client(), stylesheet).await;
        assert_eq!(colours.text, ":root { --background: transparent; }\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_of_a_public_league_is_shown() {
    let (world, admin) = world().await;
    let league = json!({"tiers": [{"name": "bronze", "promote": 0, "demote": 0}]});
    let definition = json!({"windows": ["week"], "score_min": 0, "public": true, "league": league});
    admin.define("league", definition).await;
    for member in ["ann", "bob"] {
        let event = json!({"id": member, "member": member, "score": 5});
        let sent = admin.post("/v1/boards/league/events", event).await;
        sent.expect(200);
    }
    let page = get(world.client(), "/embed/league/week?cohort=bronze-1").await;
    assert_eq!(page.status, 200, "{}", page.text);
    let stream = "/v1/boards/league/standings/week/stream?size=10&#38;cohort=bronze-1";
    for part in [
        ">bronze-1<",
        ">Week of 16 November<",
        ">2 members<",
        &format!("data-stream=\"{stream}\""),
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let page = get(world.client(), "/embed/league/week?cohort=bronze-9").await;
    assert_eq!(page.status, 404, "{}", page.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_shown_in_a_page_that_can_be_framed() {
    let (world, admin) = world().await;
    let league = json!({"tiers": [{"name": "bronze", "promote": 0, "demote": 0}]});
    let definition = json!({"windows": ["week"], "score_min": 0, "public": true, "league": league});
    admin.define("league", definition).await;
    for (path, status) in [
        ("/embed/votes/year", 404),
        ("/embed/v%20otes/day", 400),
        ("/embed/league/week", 400),
    ] {
        let page = get(world.client(), path).await;
        assert_eq!(page.status, status, "{path}: {}", page.text);
        assert!(page.text.contains("<h1>"), "{path}: {}", page.text);
        assert!(page.policy().ends_with("frame-ancestors *"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_board_is_under_twenty_kilobytes() {
    let (world, admin) = world().await;
    let client = world.client();
    for number in 0..10 {
        let member = format!("a-member-with-a-name-{number}");
        let event = json!({"id": member, "member": member, "score": number});
        let sent = admin.post("/v1/boards/votes/events", event).await;
        sent.expect(200);
    }
    let mut bytes = 0;
    for path in [
        &format!("{PAGE}?accent=c00&background=fff&text=000"),
        "/embed/embed.css",
        "/embed/embed.js",
        "/embed/colours.css?accent=c00&background=fff&text=000",
    ] {
        let answer = get(client, path).await;
        assert_eq!(answer.status, 200, "{path}");
        bytes += answer.text.len();
        if path.starts_with("/embed/embed") {
            let etag = answer.header("etag").to_owned();
            let request = client.builder(reqwest::Method::GET, path);
            let again = Client::send(request.header("if-none-match", etag)).await;
            assert_eq!(again.status, 304, "{path}");
        }
    }
    assert!(bytes < BYTES_MAX, "{bytes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_choose_which_sites_may_frame_boards() {
    let world = World::start(NOW).await;
    for (origins, ancestors) in [
        ("none", "frame-ancestors 'none'"),
        (
            "https://a.example",
            "frame-ancestors 'self' https://a.example",
        ),
    ] {
        let instance = Instance::start_embedding(&world.redis.url(), origins).await;
        let page = get(&instance.client, "/embed/nothing/day").await;
        assert!(page.policy().ends_with(ancestors), "{}", page.policy());
    }
}
