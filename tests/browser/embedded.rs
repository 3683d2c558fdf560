//! A board in a frame of another page.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use tokio::net::TcpListener;

use serde_json::json;

use crate::chromium::Chromium;
use crate::harness::World;
use crate::kit::process::eventually;
use crate::worlds;

/// A page of another origin with this in a frame; returns its address.
async fn framing(address: String) -> String {
    let page = move || {
        let frame = format!("<!doctype html><title>Elsewhere</title><iframe src=\"{address}\">");
        async move { Html(frame) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = format!("http://localhost:{}", listener.local_addr().unwrap().port());
    let pages = Router::new().route("/", get(page));
    tokio::spawn(async move { axum::serve(listener, pages).await });
    own
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_can_frame_a_board_but_not_the_console() {
    let world = worlds::with_keys().await;
    let base = &world.client().base;
    let chromium = Chromium::start().await;
    for (path, is_shown) in [("/embed/runs/day", true), ("/console/sign-in", false)] {
        chromium.open(&framing(format!("{base}{path}")).await).await;
        chromium.session.enter_frame().await;
        if is_shown {
            chromium.wait_for("Ann the Great").await;
        }
        let text = chromium.text().await;
        assert_eq!(text.contains("Run heroes"), is_shown, "{text}");
        assert!(!text.contains("API key"), "{text}");
        chromium.session.leave_frames().await;
        let complaints = chromium.complaints().await.join("\n");
        assert_eq!(
            complaints.contains("frame-ancestors"),
            !is_shown,
            "{complaints}"
        );
    }
    // A board in a frame leaves nothing behind.
    let cookies = chromium.session.cookies().await;
    assert!(cookies.is_empty(), "{cookies:?}");
    chromium.quit().await;
}

/// Marks the rows that the page began with: those that the script writes have no mark.
const MARK: &str =
    "document.querySelectorAll('#entries tr').forEach(row => row.setAttribute('data-first', ''))";

/// What the rows show: as the page has them now, and as the service writes them.
const ROWS: &str = "
    const rows = page => Array.from(page.querySelectorAll('#entries tr'), row =>
        Array.from(row.querySelectorAll('*'), ({ tagName, className, textContent }) => `${tagName} ${className}: ${textContent}`))
    const parse = text => new DOMParser().parseFromString(text, 'text/html')
    return fetch(location.href, { cache: 'no-store' }).then(page => page.text()).then(text => [rows(document), rows(parse(text))])";

#[tokio::test(flavor = "multi_thread")]
async fn the_script_of_a_board_writes_rows_as_the_service_does() {
    let world = World::start("2026-11-20T12:00:00Z").await;
    let client = world.client();
    let definition = json!({"windows": ["day"], "decimals": 2, "public": true});
    client.define("runs", definition).await;
    for (member, score) in [
        ("ユキ", json!(1_234_567.5)),
        ("*élan", json!(999)),
        ("🦊", json!(-1_000.25)),
    ] {
        let event = json!({"id": member, "member": member, "score": score});
        let sent = client.post("/v1/boards/runs/events", event).await;
        sent.expect(200);
    }
    let chromium = Chromium::start().await;
    for query in ["", "?lang=de", "?lang=fr"] {
        let address = format!("{}/embed/runs/day{query}", client.base);
        chromium.open(&address).await;
        chromium.run(MARK).await;
        let event = json!({"member": "late", "score": 1});
        let sent = client.post("/v1/boards/runs/events", event).await;
        sent.expect(200);
        let is_written = "return document.querySelector('[data-first]') === null";
        eventually("the script writes what the service does", async || {
            let is_written = chromium.run(is_written).await == json!(true);
            let rows = chromium.run(ROWS).await;
            is_written && rows[0] == rows[1] && rows[0].as_array().unwrap().len() == 4
        })
        .await;
    }
    chromium.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demonstration_of_the_first_page_moves_unless_the_viewer_wants_no_motion() {
    let world = World::start("2026-11-20T12:00:00Z").await;
    let chromium = Chromium::start().await;
    chromium.open(&world.client().base).await;
    let scores = "return document.querySelector('#demo tbody').textContent";
    let before = chromium.run(scores).await;
    eventually("a score changes", async || {
        chromium.run(scores).await != before
    })
    .await;
    let is_hidden = "return document.querySelector('#demo button').hidden";
    assert_eq!(chromium.run(is_hidden).await, json!(false));
    chromium.want_no_motion().await;
    eventually("the demonstration stops", async || {
        chromium.run(is_hidden).await == json!(true)
    })
    .await;
    // Nothing of it is stored.
    let boards = world.client().get("/v1/boards").await.expect(200);
    assert_eq!(boards["boards"], json!([]));
    chromium.fill_in("title", " for Ännchen!").await;
    let id = chromium
        .run("return document.getElementById('board').value")
        .await;
    assert_eq!(id, json!("high_scores_for_annchen"));
    chromium.press("Create the board").await;
    chromium.wait_for("High scores for Ännchen!").await;
    chromium.quit().await;
}
