//! Initial scores, as lines of text.

use serde_json::json;

use super::browser::Browser;
use super::{SCRIPT, world};

/// What is filled in, and what is to be done with it.
fn with<'a>(text: &'a str, step: &'a str) -> [(&'a str, &'a str); 2] {
    [("scores", text), ("step", step)]
}

#[tokio::test(flavor = "multi_thread")]
async fn initial_scores_are_read_from_lines_and_set_after_a_preview() {
    let (world, admin) = world().await;
    let definition = json!({"windows": ["day", "all"], "initial": ["all"], "decimals": 1});
    admin.define("b", definition).await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let page = "/console/boards/b/initial-scores";
    browser
        .read(page, &["No member has an initial score"])
        .await;
    let script = format!("\"{}\",3", SCRIPT.replace('"', "\"\""));
    let text = format!("member,score\r\nann,12.5\r\n{script}\r\nbob,\r\n");
    let preview = browser
        .submit(page, &with(&text, "preview"))
        .await
        .expect(200);
    for part in [
        "2 scores will be set, 1 taken away",
        "12.5",
        "value=\"save\"",
    ] {
        assert!(preview.contains(part), "{part}: {preview}");
    }
    let listed = "/v1/boards/b/initial-scores";
    assert_eq!(admin.get(listed).await.expect(200)["total"], 0);
    let done = browser.carry_out(page, &with(&text, "save")).await;
    assert!(done.contains("2 members have one"), "{done}");
    let found = admin.get(listed).await.expect(200);
    let entries = json!([{"member": "ann", "score": 12.5}, {"member": SCRIPT, "score": 3}]);
    assert_eq!(found["entries"], entries);
    browser.carry_out(page, &with("ann,", "save")).await;
    assert_eq!(admin.get(listed).await.expect(200)["total"], 1);

    // What is wrong is told by line, by the console and by the service, and nothing is done.
    let unread = ["Line 2: ", "Line 3: ", "ann,1", "aria-invalid"];
    browser
        .refuse(page, &with("ann,1\nbob\nann,x", "save"), &unread)
        .await;
    let wrong = ["Line 2: ", "Line 4: ", "Nothing was changed"];
    let text = "ann,1\nbob,1.25\n\ncid,1e99";
    let refused = browser.refuse(page, &with(text, "save"), &wrong).await;
    assert!(!refused.contains("Line 1: "), "{refused}");
    assert_eq!(admin.get(listed).await.expect(200)["total"], 1);
    browser
        .refuse(page, &with("", "preview"), &["there is no line"])
        .await;
    // A board without such windows has none.
    let votes = "/console/boards/votes/initial-scores";
    let text = browser.submit(votes, &with("ann,1", "save")).await;
    assert!(text.expect(422).contains("initial"));
}
