//! What the pages show.

use serde_json::json;

use crate::harness::jobs::{ClosePeriods, Revisions, Tasks};
use crate::harness::{Client, World};

pub const KEYS: &str = "read:a-reader,admin:an-admin";
/// A member whose id would be a script, if a page took it for one.
pub const SCRIPT: &str = "<script>document.title = 'run'</script>";
const LONG: &str = "a-member-with-an-id-that-does-not-end-where-the-screen-of-a-phone-does-and-has-no-place-to-break";

/// A public board with a final day, a result that was revised, and a day that runs; a league; and a board without members.
pub async fn fill(world: &World, admin: &Client) {
    let runs = json!({
        "title": "Run heroes", "windows": ["day", "last-2-days", "all"], "public": true, "tags": ["a tag"],
        "finalize": "10m", "history": "board", "uniques": "board", "public_includes": ["profile"],
        "rewards": [{"id": "podium", "window": "day", "ranks": [1, 3], "reward": {"coins": 10}}],
    });
    admin.define("runs", runs).await;
    let league = json!({"tiers": [
        {"name": "bronze", "promote": 0.5, "demote": 0},
        {"name": "gold", "promote": 0, "demote": 0.5},
    ]});
    let league = json!({"title": "League", "windows": ["week"], "score_min": 0, "public": true, "league": league});
    admin.define("league", league).await;
    admin.define("empty", json!({"windows": ["day"]})).await;
    let members = ["ann", "bob", "cid", SCRIPT, LONG, "eve"];
    for (day, now) in [
        ("2026-11-20", "2026-11-21T00:10:00Z"),
        ("2026-11-21", "2026-11-22T00:10:00Z"),
        ("2026-11-22", "2026-11-22T12:00:00Z"),
    ] {
        for (place, member) in members.into_iter().enumerate() {
            let score = 10 * (place + 3) % 50 + day.len() + usize::from(day > "2026-11-20") * place;
            let (id, at) = (format!("{day}-{place}"), format!("{day}T00:00:01Z"));
            let event = json!({"id": id, "member": member, "score": score, "at": at, "voter": place.to_string()});
            let sent = admin.post("/v1/boards/runs/events", event).await;
            sent.expect(200);
        }
        world.set_time(now);
        let engine = &world.instances[0].engine;
        engine.run(&ClosePeriods).await.unwrap();
    }
    for member in ["ann", "bob"] {
        let event = json!({"id": member, "member": member, "score": 5});
        let sent = admin.post("/v1/boards/league/events", event).await;
        sent.expect(200);
    }
    let profile = json!({"name": "Ann the Great"});
    let put = admin.put("/v1/members/ann/profile", profile).await;
    assert!(put.status.is_success(), "{}", put.text);
    let hide = json!({"reason": "cheating"});
    admin
        .put("/v1/boards/runs/hidden/eve", hide)
        .await
        .expect(200);
    let engine = &world.instances[0].engine;
    engine.run(&Revisions).await.unwrap();
    // A job at its end, and one under way.
    for _ in 0..2 {
        engine.run(&Tasks).await.unwrap();
        let order = json!({"action": "unhide", "member": "zed", "boards": "*"});
        admin.post("/v1/moderation", order).await.expect(202);
    }
}

/// A service with keys, and what is to be seen.
pub async fn with_keys() -> World {
    let world = World::with_keys(1, "2026-11-20T12:00:00Z", KEYS).await;
    let admin = world.client().with_key("an-admin");
    fill(&world, &admin).await;
    world
}
