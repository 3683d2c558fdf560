//! Webhooks: made, changed, tested, given other secrets, and deleted; and their deliveries.

use serde_json::json;
use standings::core::jobs::JobKind;
use standings::worker;

use super::browser::Browser;
use super::{KEYS, NOW};
use crate::harness::World;
use crate::harness::receiver::{Manner, Receiver};
use crate::keys::make_key;

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_created_changed_tested_and_deleted_and_deliveries_are_retried() {
    let world = World::sending(1, NOW, KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let admin = world.client().with_key("an-admin");
    let receiver = Receiver::start(Manner::Status(500)).await;
    let url = receiver.url();
    let grant = json!({"scopes": ["configure"], "boards": ["votes"]});
    let (_, key) = make_key(&admin, "operators", grant).await;
    let mut browser = Browser::signed_in(world.client(), &key).await;
    let list = "/console/webhooks";
    browser.read(list, &["Create one below", "-X PUT"]).await;
    let wanted = |boards| {
        [
            ("name", "site"),
            ("url", url.as_str()),
            ("event", "period.final"),
            ("boards", boards),
        ]
    };
    // It is for the boards of the key only.
    let refused = browser.submit(list, &wanted("other")).await.expect(403);
    assert!(refused.contains("What to do"), "{refused}");
    let [name, url_there, _, boards] = wanted("votes");
    let kept = ["Events: must have", "value=\"site\""];
    browser
        .refuse(list, &[name, url_there, boards], &kept)
        .await;
    let made = browser.submit(list, &wanted("votes")).await.expect(200);
    assert_eq!(made.matches("<code>whsec_").count(), 1, "{made}");
    let again = browser.carry_out(list, &wanted("votes")).await;
    assert!(again.contains("There is already a webhook <code>site</code>"));

    let own = "/console/webhooks/site";
    let page = browser.read(own, &["Nothing was sent yet", &url]).await;
    assert!(!page.contains("whsec_"));
    let changed = [&wanted("votes")[..], &[("event", "member.hidden")]].concat();
    let saved = browser.carry_out(own, &changed).await;
    assert!(
        saved.contains("Webhook <code>site</code> changed."),
        "{saved}"
    );
    let webhook = admin.get("/v1/webhooks/site").await.expect(200);
    assert_eq!(webhook["events"], json!(["period.final", "member.hidden"]));
    let bad = [
        ("url", "ftp://x"),
        ("event", "period.final"),
        ("boards", "votes"),
    ];
    browser
        .refuse(own, &bad, &["URL: ", "value=\"ftp://x\""])
        .await;

    let tested = browser.carry_out("/console/webhooks/site/test", &[]).await;
    assert!(tested.contains("webhook.test") && tested.contains("pending"));
    let send = async || {
        let engine = &world.engine();
        worker::run(JobKind::Webhooks, engine).await.unwrap();
    };
    send().await;
    assert_eq!(receiver.count(), 1);
    let page = browser.read(
        "/console/webhooks/site?status=pending",
        &["the status is 500"],
    );
    let page = page.await;
    let (_, id) = page.split_once("name=\"delivery\" value=\"").unwrap();
    let id = id.split_once('"').unwrap().0.to_owned();
    browser
        .read(
            "/console/webhooks/site?status=dead",
            &["No delivery has failed permanently"],
        )
        .await;
    let retry = [("delivery", id.as_str()), ("status", "pending")];
    browser
        .carry_out("/console/webhooks/site/retry", &retry)
        .await;
    send().await;
    assert_eq!(receiver.count(), 2);

    let rotated = browser
        .submit("/console/webhooks/site/rotate", &[])
        .await
        .expect(200);
    let secret = |page: &str| page.split_once("whsec_").unwrap().1[..43].to_owned();
    assert_ne!(secret(&rotated), secret(&made));
    let deleted = browser.confirm("/console/webhooks/site/delete", &[], "site");
    let to = deleted.await.leads_to().to_owned();
    let parts = ["Create one below", "Webhook <code>site</code> deleted."];
    browser.read(&to, &parts).await;
    let gone = admin.get("/v1/webhooks/site").await;
    gone.expect_problem(404, "webhook-not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_a_webhook_is_seen_at_a_glance_and_failed_messages_are_sent_again_at_once() {
    let world = World::sending(1, NOW, KEYS).await;
    let admin = world.client().with_key("an-admin");
    let receiver = Receiver::start(Manner::Status(500)).await;
    let webhook = json!({"url": receiver.url(), "events": ["period.final"], "boards": ["*"]});
    admin.put("/v1/webhooks/site", webhook).await.expect(201);
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let (list, own) = ("/console/webhooks", "/console/webhooks/site");
    browser.read(list, &["Nothing sent yet"]).await;
    for _ in 0..3 {
        browser.carry_out(&format!("{own}/test"), &[]).await;
    }
    let send = async |now: &str| {
        world.set_time(now);
        let engine = &world.engine();
        worker::run(JobKind::Webhooks, engine).await.unwrap();
    };
    send("2026-11-21T12:00:10Z").await;
    browser
        .read(list, &["pill failing\">Failing", "small\">for "])
        .await;
    let page = browser.read(own, &["next try", "the status is 500"]).await;
    assert!(!page.contains("Send all failed again"), "{page}");

    // A message fails permanently after a day of tries.
    for hours in (1..=9).map(|tries| 12 + 9 * tries) {
        send(&format!(
            "2026-11-{}T{:02}:00:00Z",
            21 + hours / 24,
            hours % 24
        ))
        .await;
    }
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let failed = format!("{own}?status=dead");
    browser
        .read(&failed, &["pill failed", "Send all failed again"])
        .await;
    receiver.set(Manner::Status(200));
    let before = receiver.count();
    let retried = browser.carry_out(&format!("{own}/retry-all"), &[]).await;
    assert!(
        retried.contains("Messages that are sent again: 3."),
        "{retried}"
    );
    send("2026-11-24T21:00:10Z").await;
    assert_eq!(receiver.count(), before + 3);
    browser.read(list, &["pill good\">Working"]).await;

    receiver.set(Manner::Status(410));
    browser.carry_out(&format!("{own}/test"), &[]).await;
    send("2026-11-24T21:00:20Z").await;
    browser
        .read(list, &["Disabled", "/console/webhooks/site/enable"])
        .await;
    let disabled = browser.read(own, &["Nothing has been sent since"]).await;
    assert!(!disabled.contains("next try"), "{disabled}");
    let enabled = browser.carry_out(&format!("{own}/enable"), &[]).await;
    assert!(
        enabled.contains("Webhook <code>site</code> enabled."),
        "{enabled}"
    );
    let webhook = admin.get("/v1/webhooks/site").await.expect(200);
    assert_eq!(webhook["disabled_at"], json!(null));
}
