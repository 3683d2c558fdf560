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
    let kept = ["/events", "value=\"site\""];
    browser
        .refuse(list, &[name, url_there, boards], &kept)
        .await;
    let made = browser.submit(list, &wanted("votes")).await.expect(200);
    assert_eq!(made.matches("<code>whsec_").count(), 1, "{made}");
    let again = browser.carry_out(list, &wanted("votes")).await;
    assert!(again.contains("There is one of this name already"));

    let own = "/console/webhooks/site";
    let page = browser.read(own, &["Nothing was sent yet", &url]).await;
    assert!(!page.contains("whsec_"));
    let changed = [&wanted("votes")[..], &[("event", "member.hidden")]].concat();
    browser.carry_out(own, &changed).await;
    let webhook = admin.get("/v1/webhooks/site").await.expect(200);
    assert_eq!(webhook["events"], json!(["period.final", "member.hidden"]));
    let bad = [
        ("url", "ftp://x"),
        ("event", "period.final"),
        ("boards", "votes"),
    ];
    browser
        .refuse(own, &bad, &["/url", "value=\"ftp://x\""])
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
            &["No delivery is dead"],
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
    browser.read(&to, &["Create one below"]).await;
    let gone = admin.get("/v1/webhooks/site").await;
    gone.expect_problem(404, "webhook-not-found");
}
