//! Closing boards, making periods final, moving boards, and deleting them.

use serde_json::{Value, json};

use super::browser::Browser;
use super::{post, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_board_is_closed_moved_and_deleted() {
    let (world, admin) = world().await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let page = "/console/boards/votes/upkeep";
    let parts = ["The board has no end", "makes no period final", "1 shard"];
    browser.read(page, &parts).await;
    let closes_at = async || admin.get("/v1/boards/votes").await.expect(200)["closes_at"].clone();
    let close = "/console/boards/votes/close";
    browser
        .refuse(close, &[("step", "at")], &["Closes is missing"])
        .await;
    let at = [("step", "at"), ("closes_at", "2026-12-24T18:00")];
    browser.carry_out(close, &at).await;
    assert_eq!(closes_at().await, "2026-12-24T18:00:00.000Z");
    browser.read(page, &["2026-12-24 18:00:00 UTC"]).await;
    browser.carry_out(close, &[("step", "never")]).await;
    assert_eq!(closes_at().await, Value::Null);
    for past in ["2026-11-20T18:00", "2026-11-21T12:00"] {
        let at = [("step", "at"), ("closes_at", past)];
        browser
            .refuse(close, &at, &["Closes is over", "Close now"])
            .await;
    }
    browser.read(page, &["You can open it again later."]).await;
    let closed = browser.confirm(close, &[("step", "now")], "votes").await;
    browser.read(closed.leads_to(), &["It is saved."]).await;
    assert_eq!(closes_at().await, "2026-11-21T12:00:00.000Z");
    let late = json!({"id": "late", "member": "ann", "score": 1});
    let refused = admin.post("/v1/boards/votes/events", late).await;
    refused.expect_problem(409, "board-closed");

    let shards = "/console/boards/votes/shards";
    for (wrong, part) in [("", "Count"), ("many", "Count"), ("65", "64")] {
        browser.refuse(shards, &[("count", wrong)], &[part]).await;
    }
    browser.carry_out(shards, &[("count", "2")]).await;
    world.instances[0].end_move("votes").await;
    let spread = admin.get("/v1/boards/votes/shards").await.expect(200);
    assert_eq!(spread["shards"], 2);

    let delete = "/console/boards/votes/delete";
    browser.read(delete, &["Day: 2 members", "-X DELETE"]).await;
    let deleted = browser.confirm(delete, &[], "votes").await;
    browser.read(deleted.leads_to(), &["It is deleted."]).await;
    let gone = admin.get("/v1/boards/votes").await;
    gone.expect_problem(404, "board-not-found");
    browser.get(delete).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_period_that_can_be_made_final_is_offered() {
    let (world, admin) = world().await;
    admin.define("b", json!({"windows": ["hour"]})).await;
    post(&admin, "b", &[("ann", 3)]).await;
    world.set_time("2026-11-21T13:30:00Z");
    let finalize = json!({"finalize": "5d"});
    admin.patch("/v1/boards/b", finalize).await.expect(200);
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let page = "/console/boards/b/upkeep";
    browser.read(page, &["No period waits"]).await;
    let period = "/console/boards/b/standings/hour/periods/2026-11-21T12:00Z";
    let parts = ["ended", "nothing makes the period final by itself"];
    browser.read(period, &parts).await;
    post(&admin, "b", &[("bob", 3)]).await;
    world.set_time("2026-11-21T14:30:00Z");
    let offered = browser.get(page).await.expect(200);
    assert!(offered.contains("Make 2026-11-21T13:00Z final"));
    assert!(!offered.contains("Make 2026-11-21T12:00Z final"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_period_can_be_made_final_early() {
    let (world, admin) = world().await;
    let definition = json!({"windows": ["day", "week"], "finalize": "5d", "accept_late": "any"});
    admin.define("b", definition).await;
    post(&admin, "b", &[("ann", 3)]).await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let page = "/console/boards/b/upkeep";
    let last = "become final 5 days after that, and no event counts ever again";
    browser.read(page, &["No period waits", last]).await;
    world.set_time("2026-11-22T12:00:00Z");
    let parts = ["Day: Sat 21 Nov", "1 member", "Make 2026-11-21 final"];
    browser.read(page, &parts).await;
    let fields = [("window", "day"), ("key", "2026-11-21")];
    let closed = browser.confirm("/console/boards/b/close-period", &fields, "2026-11-21");
    let to = closed.await.leads_to().to_owned();
    browser.read(&to, &["The period is final"]).await;
    let period = "/v1/boards/b/standings/day/periods/2026-11-21";
    let result = admin.get(period).await.expect(200);
    assert_eq!(result["state"], "final");
    let running = [
        ("window", "day"),
        ("key", "2026-11-22"),
        ("confirm", "2026-11-22"),
    ];
    let refused = browser
        .submit("/console/boards/b/close-period", &running)
        .await;
    assert!(refused.expect(409).contains("period-running"));
}
