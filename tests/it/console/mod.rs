//! The console, as browsers use it: through HTTP, with cookies and forms.

mod boards;
mod browser;
mod corrections;
mod definitions;
mod initial;
mod keys;
mod members;
mod overview;
mod pages;
mod queue;
mod results;
mod safety;
mod service;
mod sessions;
mod under_path;
mod upkeep;
mod webhooks;

use serde_json::json;

use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";
pub(super) const KEYS: &str = "read:a-reader,write:a-writer,admin:an-admin";
/// What somebody would send who wants a script to run.
pub(super) const SCRIPT: &str = "<script>alert('x')</script>\"&";

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

fn encoded(text: &str) -> String {
    let bytes = text.bytes().map(|byte| format!("%{byte:02X}"));
    bytes.collect()
}
