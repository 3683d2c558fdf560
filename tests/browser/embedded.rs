//! A board in a frame of another page.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::chromium::Chromium;
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
