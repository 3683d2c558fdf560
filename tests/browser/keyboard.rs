//! The console by the keyboard alone.

use serde_json::json;
use thirtyfour::prelude::*;

use crate::chromium::Chromium;
use crate::worlds;

/// More keys than any page has places for.
const STEPS_MAX: usize = 200;

/// Goes on from place to place until the one with this name is reached, as who does not see the page would hear it.
async fn go_to(chromium: &Chromium, name: &str) {
    let mut heard = Vec::new();
    for _ in 0..STEPS_MAX {
        type_keys(chromium, Key::Tab).await;
        let place = "const place = document.activeElement;
            return (place.labels?.[0] ?? place).textContent.replace(/\\s+/g, ' ').trim()";
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

async fn type_keys(chromium: &Chromium, keys: impl Into<TypingData>) {
    let typed = chromium.driver.action_chain().send_keys(keys);
    typed.perform().await.unwrap();
}

async fn enter(chromium: &Chromium) {
    type_keys(chromium, Key::Enter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_signs_in_and_hides_a_member_without_a_mouse() {
    let world = worlds::with_keys().await;
    let base = &world.client().base;
    let chromium = Chromium::start().await;
    chromium.open(&format!("{base}/console")).await;
    // The field of the key is where one begins.
    type_keys(&chromium, "an-admin").await;
    enter(&chromium).await;
    chromium.wait_for("Run heroes").await;

    // The first place leads past the head of the page.
    type_keys(&chromium, Key::Tab).await;
    enter(&chromium).await;
    let main = chromium.run("return document.activeElement.id").await;
    assert_eq!(main, json!("main"));

    for (place, then) in [
        ("runs", "Running period"),
        ("day", "2026-11-22"),
        ("bob", "Neighbours"),
    ] {
        go_to(&chromium, place).await;
        enter(&chromium).await;
        chromium.wait_for(then).await;
    }
    go_to(&chromium, "Why is bob to be hidden?").await;
    type_keys(&chromium, "cheating").await;
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
