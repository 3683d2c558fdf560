//! Each page that links lead to, at two widths, light and dark: axe finds nothing wrong, no page is wider than its window, and
//! the browser complains of nothing.

use std::collections::{BTreeSet, VecDeque};

use serde_json::Value;

use crate::chromium::Chromium;
use crate::harness::World;
use crate::worlds;

const WIDTHS: [u32; 2] = [390, 1_280];
const SCHEMES: [&str; 2] = ["light", "dark"];

/// What tells a page from others of its kind: its path, and the names of its parameters.
fn kind(address: &str) -> String {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let names: BTreeSet<&str> = query
        .split('&')
        .filter_map(|pair| pair.split('=').next())
        .collect();
    format!("{path} {names:?}")
}

/// Checks the page that is open.
async fn check(chromium: &Chromium, address: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (width, scheme) in WIDTHS
        .into_iter()
        .flat_map(|width| SCHEMES.map(|scheme| (width, scheme)))
    {
        chromium.look(width, scheme).await;
        let violations = chromium.violations().await;
        let of_page = |fault| format!("{address} at {width}, {scheme}: {fault}");
        faults.extend(violations.into_iter().map(of_page));
        let shown = chromium
            .run("return document.documentElement.scrollWidth")
            .await;
        if shown.as_u64() > Some(width.into()) {
            faults.push(of_page(format!("{shown} wide")));
        }
    }
    faults
}

/// Walks from these pages to all that they lead to; returns what is wrong, and the kinds of pages.
async fn walk(chromium: &Chromium, base: &str, from: &[&str]) -> (Vec<String>, BTreeSet<String>) {
    let mut open: VecDeque<String> = from.iter().map(|path| format!("{base}{path}")).collect();
    let mut seen = BTreeSet::new();
    let mut faults = Vec::new();
    while let Some(address) = open.pop_front() {
        let path = address.strip_prefix(base).unwrap_or(&address).to_owned();
        if !seen.insert(kind(&path)) {
            continue;
        }
        chromium.open(&address).await;
        faults.extend(check(chromium, &path).await);
        let complaints = chromium.complaints().await.into_iter();
        faults.extend(complaints.map(|complaint| format!("{path}: {complaint}")));
        let links = "return Array.from(document.links).filter(link => !link.hasAttribute('download')).map(link => link.href.split('#')[0])";
        let Value::Array(links) = chromium.run(links).await else {
            panic!("{path}: no list of links");
        };
        for link in links.iter().filter_map(Value::as_str) {
            if link.starts_with(&format!("{base}/console")) {
                open.push_back(link.to_owned());
            }
        }
    }
    (faults, seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_of_the_console_has_a_fault() {
    let world = worlds::with_keys().await;
    let base = &world.client().base;
    let chromium = Chromium::start().await;
    chromium.sign_in(base, "an-admin").await;
    let (faults, seen) = walk(&chromium, base, &["/console/boards"]).await;
    chromium.quit().await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for page in [
        "/console/audit {\"\"}",
        "/console/define {\"board\"}",
        "/console/boards/runs/hidden {\"\"}",
        "/console/boards/runs/standings/day {\"hidden\", \"key\"}",
        "/console/boards/runs/standings/day/member {\"key\", \"member\"}",
        "/console/boards/runs/standings/day/periods {\"\"}",
        "/console/boards/runs/standings/day/periods/2026-11-21 {\"\"}",
        "/console/boards/league/standings/week {\"cohort\", \"key\"}",
        "/console/boards/empty/standings/day {\"\"}",
        "/console/jobs {\"\"}",
        "/console/jobs/1 {\"\"}",
    ] {
        assert!(seen.contains(page), "{page} was not found: {seen:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_has_a_fault_when_signed_out_or_with_fewer_scopes() {
    let world = worlds::with_keys().await;
    let base = &world.client().base;
    let chromium = Chromium::start().await;
    let mut faults = walk(&chromium, base, &["/console/sign-in"]).await.0;
    chromium.sign_in(base, "a-reader").await;
    let result = "/console/boards/runs/standings/day/periods/2026-11-21";
    let pages = ["/console/boards", result];
    faults.extend(walk(&chromium, base, &pages).await.0);
    // The browser says of an answer that is a problem that it is one.
    for path in ["/console/nothing", "/console/boards/runs/hidden"] {
        chromium.open(&format!("{base}{path}")).await;
        faults.extend(check(&chromium, path).await);
    }
    chromium.quit().await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_has_no_fault_without_keys() {
    let world = World::start("2026-11-20T12:00:00Z").await;
    let base = &world.client().base;
    let chromium = Chromium::start().await;
    let mut faults = Vec::new();
    for path in [
        "/",
        "/console/boards",
        "/problems",
        "/problems/forbidden",
        "/docs/",
    ] {
        chromium.open(&format!("{base}{path}")).await;
        if path == "/docs/" {
            // The page is made of the OpenAPI document.
            chromium.wait_for("Create or replace a board.").await;
        }
        faults.extend(check(&chromium, path).await);
        faults.extend(chromium.complaints().await);
    }
    // Swagger UI makes a button of the whole line of an operation, with a link in it.
    faults.retain(|fault| !fault.contains(": nested-interactive: "));
    chromium.quit().await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_board_has_no_fault() {
    let world = worlds::with_keys().await;
    let base = &world.client().base;
    let chromium = Chromium::start().await;
    let mut faults = Vec::new();
    for path in [
        "/embed/runs/day",
        "/embed/runs/all?size=3&accent=c00&background=002&text=eee",
        "/embed/runs/day?background=ffe",
        "/embed/runs/day?theme=light&background=transparent&lang=de&noun=Lied,Lieder",
        "/embed/league/week?cohort=bronze-1&theme=light",
    ] {
        chromium.open(&format!("{base}{path}")).await;
        faults.extend(check(&chromium, path).await);
        faults.extend(chromium.complaints().await);
    }
    let trouble = "/embed/empty/day";
    chromium.open(&format!("{base}{trouble}")).await;
    faults.extend(check(&chromium, trouble).await);
    chromium.quit().await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
