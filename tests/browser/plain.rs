//! The console and a board to embed where no script runs; and what scripts add where they do.

use serde_json::json;

use crate::chromium::Chromium;
use crate::worlds;

#[tokio::test(flavor = "multi_thread")]
async fn pages_work_without_scripts() {
    let world = worlds::with_keys().await;
    let base = &world.client().base;
    let chromium = Chromium::start().await;
    chromium.stop_scripts().await;
    chromium.sign_in(base, "an-admin").await;
    let day = format!("{base}/console/boards/runs/standings/day");
    chromium.open(&day).await;
    chromium.wait_for("Ann the Great").await;
    assert!(!chromium.text().await.contains("Pause"), "a script has run");
    chromium.open(&format!("{day}/member?member=bob")).await;
    chromium.fill_in("details", "a bot").await;
    chromium.press("Hide").await;
    chromium.wait_for("The member is hidden").await;
    chromium.press("Bring back").await;
    chromium.wait_for("The member is back").await;
    let result = format!("{day}/periods/2026-11-21");
    chromium.open(&result).await;
    chromium.wait_for("Rewards").await;
    chromium.open(&format!("{base}/embed/runs/day")).await;
    chromium.wait_for("Ann the Great").await;
    chromium.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_standing_updates_itself_and_runs_no_script_in_a_name() {
    let world = worlds::with_keys().await;
    let base = &world.client().base;
    let admin = world.client().with_key("an-admin");
    let chromium = Chromium::start().await;
    chromium.sign_in(base, "a-reader").await;
    for (number, path) in ["/console/boards/runs/standings/day", "/embed/runs/day"]
        .into_iter()
        .enumerate()
    {
        chromium.open(&format!("{base}{path}")).await;
        chromium.wait_for(worlds::SCRIPT).await;
        let member = format!("late-{number}");
        let event = json!({"id": member, "member": member, "score": 1000});
        let sent = admin.post("/v1/boards/runs/events", event).await;
        sent.expect(200);
        chromium.wait_for(&member).await;
        chromium.wait_for(worlds::SCRIPT).await;
        let title = chromium.run("return document.title").await;
        assert!(title.as_str().unwrap().contains("Run heroes"), "{title}");
        assert_eq!(chromium.complaints().await, Vec::<String>::new(), "{path}");
    }
    chromium.quit().await;
}
