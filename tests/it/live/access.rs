//! Who may watch, and for how long.

use serde_json::{Value, json};
use standings::access::players::PlayerKeys;
use standings::api::router::Options;

use super::{NOW, STREAM, has};
use crate::access::players::{NOW_S, hs256, token_with};
use crate::harness::streams::Stream;
use crate::harness::{Client, World};
use crate::keys::make_key;

const KEYS: &str = "read:a-reader,admin:an-admin";

async fn define(admin: &Client, is_public: bool) {
    let definition = json!({"windows": ["day"], "public": is_public});
    admin.define("b", definition).await;
}

async fn send(admin: &Client, member: &str) {
    let event = json!({"member": member, "score": 1});
    admin.post("/v1/boards/b/events", event).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn anyone_watches_a_board_while_it_is_public() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let open = world.client();
    let admin = open.with_key("an-admin");
    define(&admin, false).await;
    open.get(STREAM)
        .await
        .expect_problem(401, "unauthenticated");
    let mut reader = Stream::open(&open.with_key("a-reader"), STREAM).await;
    reader.expect("standing").await;
    define(&admin, true).await;
    let mut visitor = Stream::open(open, STREAM).await;
    visitor.expect("standing").await;
    // What the board shows of profiles is for nobody without a key.
    let with_names = format!("{STREAM}?include=profile");
    open.get(&with_names)
        .await
        .expect_problem(401, "unauthenticated");
    let raw = format!("{STREAM}?raw=true");
    open.get(&raw).await.expect_problem(401, "unauthenticated");
    define(&admin, false).await;
    send(&admin, "ann").await;
    assert_eq!(
        visitor.expect("end").await.data["reason"],
        "unauthenticated"
    );
    assert!(visitor.next().await.is_none());
    reader.until(has(&["ann"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_key() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let open = world.client();
    let admin = open.with_key("an-admin");
    define(&admin, false).await;
    let mut streams = Vec::new();
    for (name, expires_at) in [
        ("deleted", Value::Null),
        ("expiring", json!("2026-11-21T12:30:00Z")),
        ("kept", Value::Null),
    ] {
        let mut grant = json!({"scopes": ["read"], "boards": ["b"]});
        if expires_at.is_string() {
            grant["expires_at"] = expires_at;
        }
        let (_, secret) = make_key(&admin, name, grant).await;
        let mut stream = Stream::open(&open.with_key(&secret), STREAM).await;
        stream.expect("standing").await;
        streams.push(stream);
    }
    admin.delete("/v1/keys/deleted").await.expect(204);
    world.set_time("2026-11-21T12:30:00Z");
    send(&admin, "ann").await;
    let mut kept = streams.pop().unwrap();
    kept.until(has(&["ann"])).await;
    for mut stream in streams {
        // An instance hears of a key that is gone a moment later.
        let end = loop {
            let event = stream.next().await.unwrap();
            if event.name == "end" {
                break event;
            }
            assert_eq!(event.name, "standing");
        };
        assert_eq!(end.data["reason"], "unauthenticated");
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_watches_while_its_token_is_valid() {
    let secret = "a secret that is long enough, by far";
    let options = Options {
        keys: KEYS.parse().unwrap(),
        players: PlayerKeys::read(None, Some(secret), "standings").unwrap(),
        ..Options::default()
    };
    let world = World::with_options(NOW, options).await;
    let open = world.client();
    let admin = open.with_key("an-admin");
    define(&admin, false).await;
    let claims = |scopes: Value| {
        json!({"aud": "standings", "sub": "ann", "iat": NOW_S, "exp": NOW_S + 60,
            "boards": ["b"], "scopes": scopes})
    };
    let sign = hs256(secret.as_bytes());
    let token = |scopes| token_with(&json!({"alg": "HS256"}), &claims(scopes), &sign);
    let player = open.with_key(&token(json!(["play"])));
    player.get(STREAM).await.expect_problem(403, "forbidden");
    let player = open.with_key(&token(json!(["read"])));
    let mut stream = Stream::open(&player, &format!("{STREAM}?member=ann")).await;
    stream.expect("standing").await;
    send(&admin, "ann").await;
    assert_eq!(stream.until(has(&["ann"])).await.data["me"]["rank"], 1);
    world.set_time("2026-11-21T12:01:00Z");
    send(&admin, "bob").await;
    assert_eq!(stream.expect("end").await.data["reason"], "unauthenticated");
}
