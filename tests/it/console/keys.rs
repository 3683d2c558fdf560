//! API keys: made, given other secrets, and deleted.

use serde_json::json;

use super::browser::Browser;
use super::world;
use crate::keys::make_key;

/// The secret that a page shows.
fn secret_on(page: &str) -> String {
    let (_, rest) = page.split_once("<code>st_").unwrap();
    format!("st_{}", rest.split_once('<').unwrap().0)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_key_lists_its_webhooks_and_can_delete_them() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    for (key, choice, left) in [("one", "", 200), ("two", "webhooks", 404)] {
        let grant = json!({"scopes": ["configure"], "boards": ["*"]});
        let (_, secret) = make_key(&admin, key, grant).await;
        let own = format!("/console/keys/{key}");
        assert!(!browser.read(&own, &[]).await.contains("outlive"));
        let webhook =
            json!({"url": "https://app.example/", "events": ["period.final"], "boards": ["*"]});
        let path = format!("/v1/webhooks/of-{key}");
        let made = world.client().with_key(&secret).put(&path, webhook).await;
        made.expect(201);
        let link = format!("href=\"/console/webhooks/of-{key}\"");
        browser
            .read(&own, &["outlive", &link, "name=\"with\""])
            .await;
        let form = format!("{own}/delete");
        let page = browser
            .submit(&form, &[("confirm", key), ("with", choice)])
            .await;
        assert_eq!(
            page.leads_to(),
            format!("/console/keys?done=key-deleted&name={key}")
        );
        assert_eq!(admin.get(&path).await.status, left);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_created_rotated_and_deleted_and_each_secret_is_shown_once() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let keys = "/console/keys";
    browser
        .read(keys, &["No keys are stored yet", "-X PUT"])
        .await;
    let wanted = [
        ("name", "site"),
        ("boards", "votes\r\nrun_*\r\n"),
        ("rate", "500/m"),
        ("expires_at", "2026-12-24T08:30"),
    ];
    // Nothing of what was filled in is lost.
    let kept = [
        "Scopes: must have",
        "value=\"site\"",
        "run_*",
        "value=\"500/m\"",
        "2026-12-24T08:30",
    ];
    browser.refuse(keys, &wanted, &kept).await;
    let scopes = [("scope", "read"), ("scope", "write")];
    let wanted = [&wanted[..], &scopes].concat();
    let first = secret_on(&browser.submit(keys, &wanted).await.expect(200));
    let key = admin.get("/v1/keys/site").await.expect(200);
    assert_eq!(key["boards"], json!(["votes", "run_*"]));
    assert_eq!(key["scopes"], json!(["read", "write"]));
    assert_eq!(key["rate"], "500/m");
    assert_eq!(key["expires_at"], "2026-12-24T08:30:00.000Z");
    let summary = async |secret: &str| {
        let client = world.client().with_key(secret);
        client.get("/v1/boards/votes/summary").await.status.as_u16()
    };
    assert_eq!(summary(&first).await, 200);
    let again = browser.submit(keys, &wanted).await;
    assert!(again.expect(409).contains("role=\"alert\""));
    let list = browser.read(keys, &["/console/keys/site"]).await;
    assert!(!list.contains(&first), "{list}");

    let own = "/console/keys/site";
    browser.read(own, &["run_*", "500/m", "/rotate"]).await;
    let rotate = "/console/keys/site/rotate";
    let rotated = browser.submit(rotate, &[("grace", "1h")]).await;
    let second = secret_on(&rotated.expect(200));
    assert_eq!((summary(&first).await, summary(&second).await), (200, 200));
    browser
        .read(own, &["The previous secret is valid until"])
        .await;
    let rotated = browser.submit(rotate, &[("grace", "")]).await;
    let third = secret_on(&rotated.expect(200));
    assert_eq!((summary(&second).await, summary(&third).await), (401, 200));

    let deleted = browser.confirm("/console/keys/site/delete", &[], "site");
    let to = deleted.await.leads_to().to_owned();
    browser.read(&to, &["Key <code>site</code> deleted."]).await;
    let gone = admin.get("/v1/keys/site").await;
    gone.expect_problem(404, "key-not-found");
    assert_eq!(summary(&third).await, 401);
    let gone = browser.get(own).await;
    assert!(gone.expect(404).contains("key-not-found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_key_allows_is_changed_and_an_expired_one_says_so() {
    let (world, admin) = world().await;
    let grant = json!({"scopes": ["read"], "boards": ["votes", "run_*"], "rate": "50/s",
        "expires_at": "2026-11-21T13:00:00Z"});
    make_key(&admin, "agency-2025", grant).await;
    let mut browser = Browser::signed_in(world.client(), "an-admin").await;
    let (keys, own) = ("/console/keys", "/console/keys/agency-2025");
    let list = browser.read(keys, &["in 1 h", "agency-2025"]).await;
    assert!(!list.contains("Expired"), "{list}");
    let filled_in = [
        "value=\"read\" checked",
        "votes\nrun_*</textarea>",
        "value=\"50/s\"",
        "value=\"2026-11-21T13:00\"",
    ];
    let page = browser.read(own, &filled_in).await;
    assert!(!page.contains("value=\"write\" checked"), "{page}");

    world.set_time("2026-11-21T13:00:00Z");
    for page in [keys, own] {
        browser
            .read(page, &["<span class=\"pill expired\">Expired</span>"])
            .await;
    }
    let wanted = [
        ("scope", "read"),
        ("scope", "write"),
        ("boards", "votes"),
        ("rate", ""),
    ];
    let late = [&wanted[..], &[("expires_at", "2026-11-21T13:00:00")]].concat();
    let kept = [
        "Expires at: must be in the future",
        "value=\"write\" checked",
        "Nothing was changed",
    ];
    browser.refuse(own, &late, &kept).await;
    let never = [&wanted[..], &[("expires_at", "")]].concat();
    let saved = browser.carry_out(own, &never).await;
    assert!(
        saved.contains("Key <code>agency-2025</code> changed."),
        "{saved}"
    );
    assert!(!saved.contains("Expired"), "{saved}");
    let key = admin.get("/v1/keys/agency-2025").await.expect(200);
    assert_eq!(key["scopes"], json!(["read", "write"]));
    let nothing = (&json!(null), &json!(null));
    assert_eq!((&key["rate"], &key["expires_at"]), nothing);
    // A name that is mistyped leaves the form as the key is.
    let wrong = [("confirm", "agency-2024")];
    let filled_in = ["value=\"write\" checked", "votes</textarea>"];
    browser
        .refuse(&format!("{own}/delete"), &wrong, &filled_in)
        .await;
}
