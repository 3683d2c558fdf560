//! The console by the keyboard alone.

use serde_json::json;

use crate::chromium::Chromium;
use crate::worlds;

/// Keys, as WebDriver writes them.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
/// More keys than any page has places for.
const STEPS_MAX: usize = 200;

/// Goes on from place to place until the one with this name is reached, as who does not see the page would hear it.
async fn go_to(chromium: &Chromium, name: &str) {
    let mut heard = Vec::new();
    for _ in 0..STEPS_MAX {
        chromium.session.type_keys(TAB).await;
        let place = "const place = document.activeElement;
            const copy = (place.labels?.[0] ?? place).cloneNode(true);
            copy.querySelectorAll('[aria-hidden=true]').forEach(unheard => unheard.remove());
            return copy.textContent.replace(/\\s+/g, ' ').trim()";
        let place = chromium.run(place).await;
        if place == json!(name) {
            let outline = "return getComputedStyle(document.activeElement).outlineStyle";
            assert_eq!(
                chromium.run(outline).await,
                json!("solid"),
                "{name} is not marked"
            );
            return;
        }
        heard.push(place.to_string());
    }
    panic!("{name} is not reached: {}", heard.join(", "));
}

async fn enter(chromium: &Chromium) {
    chromium.session.type_keys(ENTER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moderator_signs_in_and_hides_a_member_without_a_mouse() {
    let world = worlds::with_keys().await;
    let base = &world.client().base;
    let chromium = Chromium::start().await;
    chromium.open(&format!("{base}/console")).await;
    // The field of the key is where one begins.
    chromium.session.type_keys("an-admin").await;
    enter(&chromium).await;
    chromium.wait_for("Sign out").await;

    // The first place leads past the head of the page.
    chromium.session.type_keys(TAB).await;
    enter(&chromium).await;
    let main = chromium.run("return document.activeElement.id").await;
    assert_eq!(main, json!("main"));

    for (place, then) in [
        ("Boards", "Run heroes"),
        ("Run heroesruns", "Results"),
        ("bob", "Neighbours"),
    ] {
        go_to(&chromium, place).await;
        enter(&chromium).await;
        chromium.wait_for(then).await;
    }
    go_to(&chromium, "Details (optional)").await;
    chromium.session.type_keys("a bot").await;
    go_to(&chromium, "Hide").await;
    enter(&chromium).await;
    chromium.wait_for("The member is hidden").await;
    chromium.quit().await;
    let admin = world.client().with_key("an-admin");
    let hidden = admin.get("/v1/boards/runs/hidden").await.expect(200);
    let hidden = hidden["hidden"].as_array().unwrap();
    assert!(
        hidden.iter().any(|line| line["member"] == "bob"),
        "{hidden:?}"
    );
}
