//! Signing in, and how sessions end.

use reqwest::Method;
use serde_json::json;
use standings::domain::time::Timestamp;

use super::browser::Browser;
use super::{KEYS, NOW, world};
use crate::harness::redis::Reply;
use crate::harness::streams::Stream;
use crate::harness::{Client, World};
use crate::keys::make_key;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_lasts_until_sign_out() {
    let (world, _) = world().await;
    let client = world.client();
    let mut browser = Browser::new(client);
    let wanted = "/console/boards?tag=a";
    let to = "/console/sign-in?to=%2Fconsole%2Fboards%3Ftag%3Da";
    assert_eq!(browser.get(wanted).await.leads_to(), to);
    assert!(browser.get(to).await.expect(200).contains(wanted));
    let wrong = browser
        .submit("/console/sign-in", &[("key", "wrong")])
        .await;
    assert!(wrong.expect(401).contains("role=\"alert\""));
    let fields = [("key", "a-reader"), ("to", wanted)];
    let begun = browser.submit("/console/sign-in", &fields).await;
    assert_eq!(begun.leads_to(), wanted);
    let cookie = begun.header("set-cookie");
    let (_, about) = cookie.split_once("; ").unwrap();
    assert_eq!(about, "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
    assert!(
        browser
            .get("/console/boards")
            .await
            .expect(200)
            .contains("configuration:read")
    );
    let first = browser.session().to_owned();

    // Redis knows neither the id nor the key.
    let keys = world.redis.keys("st:{boards}:session:*").await;
    let [key] = keys.as_slice() else {
        panic!("{keys:?}");
    };
    assert!(!key.contains(&first));
    let stored = world.redis.run(&[b"GET", key.as_bytes()]).await.text();
    assert!(
        !stored.contains(&first) && !stored.contains("a-reader"),
        "{stored}"
    );
    let digest = "5306ce99e5054276e084fe75160a6fc712aaeb22114b15abbe0da30750f293a2";
    assert!(
        !stored.contains(digest),
        "a short key could be guessed: {stored}"
    );
    let left = world.redis.run(&[b"PTTL", key.as_bytes()]).await;
    let Reply::Integer(left_ms) = left else {
        panic!("{left:?}");
    };
    assert!((39_600_001..=43_200_000).contains(&left_ms), "{left_ms}");

    // For `/v1` the session is nothing.
    let name_and_id = format!("standings-session={first}");
    let request = client.builder(Method::GET, "/v1/boards/votes/summary");
    let answer = Client::send(request.header("cookie", &name_and_id)).await;
    answer.expect_problem(401, "unauthenticated");
    let request = client.builder(Method::GET, "/v1/boards/votes/summary");
    let answer = Client::send(request.bearer_auth(&first)).await;
    answer.expect_problem(401, "unauthenticated");

    // Who signs in again has a new id, and the one before is gone.
    browser.get("/console/boards").await.expect(200);
    let again = browser
        .submit("/console/sign-in", &[("key", "an-admin")])
        .await;
    assert_eq!(again.leads_to(), "/console");
    assert_ne!(browser.session(), first);
    let mut other = Browser::new(client);
    other.cookies.insert("standings-session".to_owned(), first);
    assert!(
        other
            .get("/console/boards")
            .await
            .leads_to()
            .contains("sign-in")
    );

    let second = browser.session().to_owned();
    browser.get("/console/boards").await.expect(200);
    let out = browser.submit("/console/sign-out", &[]).await;
    assert_eq!(out.leads_to(), "/console/sign-in");
    assert_eq!(browser.session(), "");
    other.cookies.insert("standings-session".to_owned(), second);
    assert!(
        other
            .get("/console/boards")
            .await
            .leads_to()
            .contains("sign-in")
    );
    assert!(world.redis.keys("st:{boards}:session:*").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_key() {
    let (world, admin) = world().await;
    let _following = world.instances[0].follow_api_keys();
    let grant = json!({"scopes": ["read"], "boards": ["*"], "expires_at": "2026-11-21T13:00:00Z"});
    let page = "/console/boards/votes/standings/day";
    let mut browsers = Vec::new();
    for name in ["deleted", "rotated", "expired"] {
        let (_, secret) = make_key(&admin, name, grant.clone()).await;
        let mut browser = Browser::signed_in(world.client(), &secret).await;
        assert!(browser.get(page).await.expect(200).contains(name));
        browsers.push(browser);
    }
    let [deleted, rotated, expired] = &mut browsers[..] else {
        unreachable!();
    };
    admin.delete("/v1/keys/deleted").await.expect(204);
    assert!(deleted.get(page).await.leads_to().contains("sign-in"));
    let form = "/console/boards/votes/hide";
    let refused = deleted
        .submit(form, &[("member", "ann"), ("reason", "x")])
        .await;
    // Its token has ended with the session.
    assert!(refused.expect(403).contains("form-refused"));

    let rotate = "/v1/keys/rotated/rotate";
    admin
        .post(rotate, json!({"grace": "10m"}))
        .await
        .expect(200);
    rotated.get(page).await.expect(200);
    world
        .clock
        .set(Timestamp::parse("2026-11-21T12:11:00Z").unwrap());
    assert!(rotated.get(page).await.leads_to().contains("sign-in"));

    expired.get(page).await.expect(200);
    world
        .clock
        .set(Timestamp::parse("2026-11-21T13:00:00Z").unwrap());
    assert!(expired.get(page).await.leads_to().contains("sign-in"));
    let again = expired.sign_in("st_0").await;
    assert!(again.expect(401).contains("No API key has this secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_at_most_a_hundred_sessions_and_the_oldest_ends() {
    let keys = format!("{KEYS},read:a-second-reader");
    let world = World::with_keys(1, NOW, &keys).await;
    let client = world.client();
    let _following = world.instances[0].follow_api_keys();
    let page = "/console/boards";
    let (_, stored) = make_key(
        &client.with_key("an-admin"),
        "site",
        json!({"scopes": ["read"], "boards": ["*"]}),
    )
    .await;
    for key in ["a-reader", &stored] {
        let mut first = Browser::signed_in(client, key).await;
        let mut second = Browser::signed_in(client, key).await;
        let mut others = Browser::signed_in(client, "a-second-reader").await;
        let mut visitor = Browser::new(client);
        visitor.get("/console/sign-in").await.expect(200);
        // One after the other from a browser without a session, as somebody who fills Redis would.
        let mut begin = async || {
            visitor.cookies.remove("standings-session");
            let begun = visitor.submit("/console/sign-in", &[("key", key)]).await;
            assert_eq!(begun.leads_to(), "/console");
        };
        for _ in 0..98 {
            begin().await;
        }
        // Those that have ended do not count.
        let mut brief = Browser::signed_in(client, key).await;
        assert!(first.get(page).await.leads_to().contains("sign-in"));
        second.get(page).await.expect(200);
        brief.get(page).await.expect(200);
        brief.submit("/console/sign-out", &[]).await.leads_to();
        begin().await;
        second.get(page).await.expect(200);
        begin().await;
        assert!(second.get(page).await.leads_to().contains("sign-in"));
        others.get(page).await.expect(200);
    }
    let sessions = world.redis.keys("st:{boards}:session:*").await;
    assert_eq!(sessions.len(), 100 + 100 + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_session_and_shows_nothing_later() {
    let world = World::with_keys(2, NOW, KEYS).await;
    let admin = world.client().with_key("an-admin");
    admin.define("votes", json!({"windows": ["day"]})).await;
    let page = "/console/boards/votes/standings/day";
    let watch = async |browser: &Browser| {
        let request = browser.http.get(format!("{}{page}/stream", browser.base));
        let cookie = format!("standings-session={}", browser.session());
        let mut stream = Stream::open_by(request.header("cookie", cookie)).await;
        stream.expect("standing").await;
        stream
    };
    let client = world.client();
    let mut kept = watch(&Browser::signed_in(client, "a-reader").await).await;
    let mut streams = Vec::new();
    // Whatever instance somebody signs out at, or signs in again.
    for (path, key) in [("/console/sign-out", ""), ("/console/sign-in", "an-admin")] {
        let browser = Browser::signed_in(client, "a-reader").await;
        streams.push(watch(&browser).await);
        let mut elsewhere = Browser::new(&world.instances[1].client);
        elsewhere.cookies = browser.cookies;
        elsewhere.get(page).await.expect(200);
        elsewhere.submit(path, &[("key", key)]).await.leads_to();
        if !elsewhere.session().is_empty() {
            streams.push(watch(&elsewhere).await);
        }
    }
    super::post(&admin, "votes", &[("ann", 3)]).await;
    for stream in &mut streams[..2] {
        assert_eq!(stream.expect("end").await.data["reason"], "unauthenticated");
        assert!(stream.next().await.is_none());
    }
    kept.until(|page| page["total"] == 1).await;
    streams[2].until(|page| page["total"] == 1).await;
    // A session that runs out ends its stream also where nothing changes.
    for key in world.redis.keys("st:{boards}:session:*").await {
        world.redis.run(&[b"DEL", key.as_bytes()]).await;
    }
    for stream in [&mut kept, &mut streams[2]] {
        assert_eq!(stream.expect("end").await.data["reason"], "unauthenticated");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_tls_cookies_are_secure_and_a_key_needs_tls() {
    let (world, _) = world().await;
    let mut browser = Browser::at(world.client(), "https://scores.example");
    let begun = browser.sign_in("a-reader").await;
    let cookie = begun.header("set-cookie");
    assert!(cookie.starts_with("__Host-standings-session="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"));
    let boards = browser.get("/console/boards").await.expect(200);
    assert!(boards.contains("configuration:read"));
    let mut plain = Browser::at(world.client(), "http://scores.example");
    let refused = plain.sign_in("a-reader").await.expect(403);
    assert!(refused.contains("HTTPS"), "{refused}");
    // A session that was begun without TLS is none with it.
    let id = Browser::signed_in(world.client(), "a-reader").await;
    let mut other = Browser::at(world.client(), "https://scores.example");
    other
        .cookies
        .insert("standings-session".to_owned(), id.session().to_owned());
    assert!(
        other
            .get("/console/boards")
            .await
            .leads_to()
            .contains("sign-in")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_on_another_site_leads_to_the_page_in_two_steps() {
    let (world, _) = world().await;
    let mut browser = Browser::signed_in(world.client(), "a-reader").await;
    let session = browser.cookies.remove("standings-session").unwrap();
    let path = "/console/boards/votes";
    let request = browser.http.get(format!("{}{path}", browser.base));
    let page = browser
        .send(request.header("sec-fetch-site", "cross-site"))
        .await;
    let text = page.expect(200);
    assert!(text.contains("<meta http-equiv=\"refresh\" content=\"0\">"));
    assert!(!text.contains("Votes"));
    // Now the browser sends the cookie, which nothing has replaced.
    assert!(!browser.cookies.contains_key("standings-session"));
    browser
        .cookies
        .insert("standings-session".to_owned(), session);
    assert!(browser.get(path).await.expect(200).contains("Votes"));
}
