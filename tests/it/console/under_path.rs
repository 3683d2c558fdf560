//! A service under a path, which a proxy strips from the addresses of requests.

use std::collections::BTreeSet;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, header};
use regex::Regex;
use reqwest::{Url, redirect};
use serde_json::json;

use crate::harness::World;

const PATH: &str = "/games/board";

/// Sends a request on without the path. An answer keeps what browsers need of its headers.
async fn pass(http: reqwest::Client, base: String, request: Request) -> Response<Body> {
    let address = request.uri().path_and_query().unwrap().as_str();
    let address = address
        .strip_prefix(PATH)
        .expect("an address under the path");
    let answer = http.get(format!("{base}{address}")).send().await.unwrap();
    let mut passed = Response::builder().status(answer.status());
    for name in [header::CONTENT_TYPE, header::LOCATION] {
        if let Some(value) = answer.headers().get(&name) {
            passed = passed.header(name, value);
        }
    }
    passed
        .body(Body::from(answer.bytes().await.unwrap()))
        .unwrap()
}

/// Serves `base` under the path, as nginx does with `location /games/board/ { proxy_pass …/; }`. Returns its own address.
async fn proxy(base: String) -> String {
    let http = reqwest::Client::builder().redirect(redirect::Policy::none());
    let http = http.build().unwrap();
    let pass = move |request: Request| pass(http.clone(), base.clone(), request);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(pass)).await });
    format!("{origin}{PATH}")
}

#[tokio::test(flavor = "multi_thread")]
async fn all_addresses_in_pages_stay_under_the_path_of_a_proxy() {
    let world = World::start("2026-11-21T12:00:00Z").await;
    let client = world.client();
    client
        .define("scores", json!({"windows": ["day"], "public": true}))
        .await;
    let event = json!({"id": "e-1", "member": "ann", "score": 30});
    client
        .post("/v1/boards/scores/events", event)
        .await
        .expect(200);

    let base = proxy(client.base.clone()).await;
    let attribute = Regex::new(r#" (action|data-stream|formaction|href|src)="([^"]*)""#).unwrap();
    let mut open: Vec<String> = ["/", "/docs", "/embed/scores/day?accent=cc0000"]
        .map(|page| format!("{base}{page}"))
        .to_vec();
    let mut seen = BTreeSet::new();
    while let Some(address) = open.pop() {
        if !seen.insert(address.clone()) {
            continue;
        }
        let answer = reqwest::get(&address).await.unwrap();
        let at: Url = answer.url().clone();
        assert!(at.as_str().starts_with(&base), "{address} leads to {at}");
        assert!(
            answer.status().is_success(),
            "{address}: {}",
            answer.status()
        );
        let kind = answer.headers().get("content-type");
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
            continue;
        }
        let page = answer.text().await.unwrap();
        for found in attribute.captures_iter(&page) {
            let mut leads_to = at.join(&found[2].replace("&#38;", "&")).unwrap();
            leads_to.set_fragment(None);
            let is_below = leads_to.as_str().starts_with(&format!("{base}/"));
            assert!(is_below, "{at}: {leads_to}");
            // The worlds of tests have no metrics.
            let is_there = !leads_to.path().ends_with("/metrics");
            if is_there && matches!(&found[1], "href" | "src") {
                open.push(leads_to.into());
            }
        }
    }
    for page in [
        "/console/boards/scores/standings/day",
        "/console/define",
        "/console/assets/console.css",
        "/embed/embed.js",
        "/embed/colours.css?accent=cc0000",
        "/docs/swagger-ui-bundle.js",
    ] {
        assert!(seen.contains(&format!("{base}{page}")), "{page}: {seen:#?}");
    }
}
