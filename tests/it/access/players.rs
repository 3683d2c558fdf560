//! Players: what their tokens have to be, and what they may do.

use reqwest::Method;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use ring::{digest, hmac};
use serde_json::{Value, json};
use standings::access::For;
use standings::access::players::PlayerKeys;
use standings::api::router::Options;
use standings::api::table::routes;
use standings::domain::access::Scope;
use standings::http::connection::Times;
use standings::http::listener::Limits;
use standings::redis::{Address, Store};

use super::routes::send;
use crate::harness::{Client, Instance, PATIENT, World};

/// 12:00 on 2026-11-21, in seconds since the epoch.
pub const NOW_S: i64 = 1_795_262_400;

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            let index = bits >> (18 - 6 * digit) & 63;
            text.push(char::from(DIGITS[index as usize]));
        }
    }
    text
}

/// Signs the texts of tokens.
pub type Sign = Box<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

pub fn hs256(secret: &[u8]) -> Sign {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    Box::new(move |text| hmac::sign(&key, text).as_ref().to_vec())
}

pub fn token_with(header: &Value, claims: &Value, sign: &Sign) -> String {
    let parts = [header, claims].map(|part| base64url(part.to_string().as_bytes()));
    let text = parts.join(".");
    let signature = base64url(&sign(text.as_bytes()));
    format!("{text}.{signature}")
}

/// An instance that knows a key of each kind, and what signs with it.
struct Scene {
    world: World,
    client: Client,
    admin: Client,
    /// The `kid`, the `alg` and the key.
    signers: Vec<(&'static str, &'static str, Sign)>,
    /// The public key of `ed`.
    public: Vec<u8>,
}

impl Scene {
    async fn start() -> Self {
        let world = World::start("2026-11-21T12:00:00Z").await;
        let random = SystemRandom::new();
        let secret = digest::digest(&digest::SHA256, b"secret");
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let ed = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        let public = ed.public_key().as_ref().to_vec();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let ec = EcdsaKeyPair::from_pkcs8(kind, pkcs8.as_ref(), &random).unwrap();
        let (x, y) = ec.public_key().as_ref()[1..].split_at(32);
        let set = json!({"keys": [
            {"kty": "oct", "kid": "hs", "alg": "HS256", "k": base64url(secret.as_ref())},
            {"kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": base64url(&public)},
            {"kty": "EC", "kid": "es", "crv": "P-256", "alg": "ES256", "x": base64url(x), "y": base64url(y)},
        ]});
        let single = "a secret that is long enough, by far";
        let players = PlayerKeys::read(Some(&set.to_string()), Some(single), "standings").unwrap();
        let options = Options {
            keys: "admin:an-admin".parse().unwrap(),
            players,
            proxies: "127.0.0.0/8".parse().unwrap(),
            ..Options::default()
        };
        let limits = Limits {
            connections: 100,
            times: Times::default(),
        };
        let store = Store::connect(
            &Address::parse(&world.redis.url()),
            PATIENT.try_into().unwrap(),
        );
        let clock = world.clock.clone();
        let instance = Instance::start_set_up(limits, 256, store.unwrap(), clock, options).await;
        let client = instance.client.clone();
        let mut world = world;
        world.instances.push(instance);
        let sign_ec = move |text: &[u8]| {
            ec.sign(&SystemRandom::new(), text)
                .unwrap()
                .as_ref()
                .to_vec()
        };
        Self {
            admin: client.with_key("an-admin"),
            world,
            client,
            signers: vec![
                ("hs", "HS256", hs256(secret.as_ref())),
                (
                    "ed",
                    "EdDSA",
                    Box::new(move |text| ed.sign(text).as_ref().to_vec()),
                ),
                ("es", "ES256", Box::new(sign_ec)),
                ("", "HS256", hs256(single.as_bytes())),
            ],
            public,
        }
    }

    /// A token by one of the keys.
    fn signed(&self, signer: usize, claims: &Value) -> String {
        let (kid, alg, sign) = &self.signers[signer];
        let mut header = json!({"typ": "JWT", "alg": alg});
        if !kid.is_empty() {
            header["kid"] = (*kid).into();
        }
        token_with(&header, claims, sign)
    }

    fn player(&self, sub: &str, scopes: &[&str]) -> Client {
        let claims = with(&json!({"sub": sub, "scopes": scopes}));
        self.client.with_key(&self.signed(0, &claims))
    }
}

/// The claims of a token, some of which are others; null for none.
fn with(others: &Value) -> Value {
    let mut claims = json!({"sub": "alice", "aud": "standings", "iat": NOW_S, "exp": NOW_S + 3_600,
        "boards": ["own-*"], "scopes": ["read", "play"]});
    for (name, value) in others.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    claims
}

const PAGE: &str = "/v1/boards/own-1/standings/day";

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_is_401_with_the_reason() {
    let scene = Scene::start().await;
    scene
        .admin
        .define("own-1", json!({"windows": ["day"]}))
        .await;
    let read = async |token: &str| scene.client.with_key(token).get(PAGE).await;
    for signer in 0..4 {
        read(&scene.signed(signer, &with(&json!({}))))
            .await
            .expect(200);
    }
    for right in [
        json!({"aud": ["other", "standings"]}),
        json!({"exp": NOW_S + 24 * 3_600}),
        json!({"nbf": NOW_S, "name": "Alice"}),
        json!({"iat": NOW_S + 60}),
    ] {
        read(&scene.signed(1, &with(&right))).await.expect(200);
    }
    let refused = async |token: &str, said: &str| {
        let answer = read(token).await;
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        let detail = answer.expect_problem(401, "unauthenticated");
        assert!(detail.starts_with("the token "), "{detail}");
        assert!(detail.contains(said), "{detail} lacks {said}");
    };
    for (wrong, said) in [
        (
            json!({"exp": NOW_S}),
            "the token expired at 2026-11-21T12:00:00Z; send a new one",
        ),
        (json!({"exp": null}), "`exp`"),
        (json!({"exp": "2026-11-22"}), "`exp`"),
        (json!({"exp": NOW_S + 25 * 3_600}), "24 hours"),
        (json!({"exp": i64::MAX, "iat": 0}), "24 hours"),
        (json!({"iat": null}), "`iat`"),
        (json!({"iat": -1}), "`iat`"),
        (json!({"iat": NOW_S + 61}), "`iat`"),
        (json!({"nbf": NOW_S + 61}), "`nbf`"),
        (json!({"aud": null}), "`aud`"),
        (json!({"aud": "others"}), "wrong audience: its `aud`"),
        (json!({"aud": ["others"]}), "`aud`"),
        (json!({"sub": null}), "`sub`"),
        (json!({"sub": ""}), "`sub`"),
        (json!({"sub": 7}), "`sub`"),
        (json!({"sub": "a\u{1f}b"}), "`sub`"),
        (json!({"sub": "a".repeat(129)}), "`sub`"),
        (json!({"boards": null}), "`boards`"),
        (json!({"boards": []}), "`boards`"),
        (json!({"boards": "own-1"}), "`boards`"),
        (json!({"scopes": null}), "`scopes`"),
        (json!({"scopes": []}), "`scopes`"),
        (json!({"scopes": ["read", "write"]}), "`scopes`"),
        (json!({"scopes": ["admin"]}), "`scopes`"),
    ] {
        for signer in [0, 2] {
            refused(&scene.signed(signer, &with(&wrong)), said).await;
        }
    }
    let claims = with(&json!({}));
    let none: Sign = Box::new(|_| Vec::new());
    let (hs, ed) = (&scene.signers[0].2, &scene.signers[1].2);
    for (header, sign, said) in [
        (json!({"alg": "none", "kid": "hs"}), &none, "`alg`"),
        (json!({"alg": "HS384", "kid": "hs"}), hs, "`alg`"),
        (json!({"alg": "RS256", "kid": "hs"}), hs, "`alg`"),
        (json!({"alg": "EdDSA", "kid": "hs"}), ed, "`alg`"),
        // A public key is no secret.
        (
            json!({"alg": "HS256", "kid": "ed"}),
            &hs256(&scene.public),
            "`alg`",
        ),
        (json!({"alg": "HS256", "kid": "hs"}), &none, "signature"),
        (json!({"alg": "HS256", "kid": "hs"}), ed, "signature"),
        (json!({"alg": "EdDSA", "kid": "ed"}), hs, "signature"),
        (json!({"alg": "ES256", "kid": "es"}), ed, "signature"),
        (json!({"alg": "HS256"}), hs, "signature"),
        (json!({"alg": "HS256", "kid": "other"}), hs, "`kid`"),
        (
            json!({"alg": "HS256", "kid": "hs", "crit": ["b64"], "b64": false}),
            hs,
            "`crit`",
        ),
    ] {
        refused(&token_with(&header, &claims, sign), said).await;
    }
    let token = scene.signed(0, &claims);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, _) = signed.split_once('.').unwrap();
    let others = base64url(with(&json!({"sub": "bob"})).to_string().as_bytes());
    refused(&format!("{header}.{others}.{signature}"), "signature").await;
    refused("a.b.c", "JWT").await;
    refused("..", "JWT").await;
    refused(&format!("{signed}."), "signature").await;
    let long = scene.signed(0, &with(&json!({"name": "a".repeat(50_000)})));
    refused(&long, "8192").await;
    // The head of a request is bounded anyway.
    let endless = scene.signed(0, &with(&json!({"name": "a".repeat(1 << 20)})));
    let endless = scene.client.with_key(&endless).builder(Method::GET, PAGE);
    if let Ok(answer) = endless.send().await {
        assert_eq!(answer.status(), 431);
    }
    read(&token).await.expect(200);
    scene.world.set_time("2026-11-21T13:00:00Z");
    refused(&token, "expired at 2026-11-21T13:00:00Z").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_reads_and_sends_and_does_nothing_else() {
    let scene = Scene::start().await;
    for board in ["own-1", "other"] {
        scene.admin.define(board, json!({"windows": ["day"]})).await;
    }
    for scopes in [
        &["read"][..],
        &["play"],
        &["vote"],
        &["read", "play", "vote"],
    ] {
        let player = scene.player("alice", scopes);
        for route in routes().iter().filter(|route| route.access.scope.is_some()) {
            let has = match route.access.scopes()[0] {
                Scope::Read => scopes.contains(&"read"),
                // What it may do with its own profile has a test of its own.
                Scope::Write if route.access.boards == For::All => {
                    if route.access.is_for_players {
                        continue;
                    }
                    false
                }
                Scope::Write => {
                    let may_write = scopes.contains(&"play") || scopes.contains(&"vote");
                    route.access.is_for_players && may_write
                }
                _ => false,
            };
            let name = format!("{} {} {scopes:?}", route.method, route.path);
            let answer = send(&player, route, "own-1").await;
            let status = answer.status;
            assert_eq!(status == 403, !has, "{name}");
            if !has {
                let detail = answer.expect_problem(403, "forbidden");
                let own = format!("the token has: {}", scopes.join(", "));
                assert!(detail.ends_with(&own), "{name}: {detail}");
            }
            if route.path.contains("{board}") {
                let other = send(&player, route, "other").await;
                let detail = other.expect_problem(403, "forbidden");
                assert!(detail.contains("the token "), "{name}: {detail}");
            }
            assert_ne!(status, 401, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_sends_only_its_own_events_without_trusted_fields() {
    let scene = Scene::start().await;
    let definition = json!({"windows": ["day"], "accept_late": "any"});
    scene.admin.define("own-1", definition.clone()).await;
    scene.admin.define("other", definition).await;
    let path = "/v1/boards/own-1/events";
    let event = |member: &str, id: &str| json!({"id": id, "member": member, "score": 1});
    scene
        .admin
        .post(path, event("alice", "run-1"))
        .await
        .expect(200);
    let alice = scene.player("alice", &["play", "read"]);
    for (status, score) in [("applied", 2), ("duplicate", 2)] {
        let sent = alice.post(path, event("alice", "run-1")).await.expect(200);
        assert_eq!(
            (&sent["status"], &sent["id"]),
            (&json!(status), &json!("run-1"))
        );
        assert_eq!(sent["standings"][0]["score"], score);
    }
    // Of the backend it is a duplicate still, and of another player an event of its own.
    let again = scene
        .admin
        .post(path, event("alice", "run-1"))
        .await
        .expect(200);
    assert_eq!(again["status"], "duplicate");
    let bob = scene.player("bob", &["play"]);
    let sent = bob.post(path, event("bob", "run-1")).await.expect(200);
    assert_eq!(sent["status"], "applied");
    let header = alice
        .builder(Method::POST, path)
        .header("idempotency-key", "run-1");
    let sent = Client::send(header.json(&json!({"member": "alice", "score": 1}))).await;
    assert_eq!(sent.expect(200)["status"], "duplicate");

    let detail = alice
        .post(path, event("bob", "2"))
        .await
        .expect_problem(403, "forbidden");
    assert!(detail.contains("`vote`"), "{detail}");
    for (field, value) in [
        ("at", "2026-11-20T12:00:00Z"),
        ("channel", "sms"),
        ("device", "d"),
        ("ip", "203.0.113.7"),
        ("voter", "bob"),
    ] {
        let mut wrong = event("alice", "3");
        wrong[field] = value.into();
        let answer = alice.post(path, wrong.clone()).await.expect(422);
        assert_eq!(
            answer["errors"][0]["pointer"],
            format!("/{field}"),
            "{answer}"
        );
        wrong["board"] = "own-1".into();
        let answer = alice
            .post("/v1/events", json!({"events": [wrong]}))
            .await
            .expect(200);
        assert_eq!(answer["results"][0]["problem"]["status"], 422, "{answer}");
    }
    scene
        .admin
        .define("own-data", json!({"windows": ["day"], "entry_data": true}))
        .await;
    let with_data =
        |member: &str| json!({"id": "d", "member": member, "score": 1, "data": {"car": "gt"}});
    let path = "/v1/boards/own-data/events";
    let sent = alice.post(path, with_data("alice")).await.expect(200);
    assert_eq!(sent["status"], "applied");
    let voter = scene.player("cid", &["vote"]);
    let answer = voter.post(path, with_data("alice")).await.expect(422);
    assert_eq!(answer["errors"][0]["pointer"], "/data", "{answer}");
    let of_board = |board: &str, member: &str| {
        let mut event = event(member, "4");
        event["board"] = board.into();
        event
    };
    let batch = [
        of_board("own-1", "alice"),
        of_board("own-1", "bob"),
        of_board("other", "alice"),
    ];
    let results = alice
        .post("/v1/events", json!({"events": batch}))
        .await
        .expect(200);
    assert_eq!(results["results"][0]["status"], "applied");
    for index in [1, 2] {
        let problem = &results["results"][index]["problem"];
        assert_eq!(problem["type"], "/problems/forbidden", "{results}");
    }
    let page = alice.get(PAGE).await.expect(200);
    let scores: Vec<_> = page["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["member"], &entry["score"]))
        .collect();
    assert_eq!(
        scores,
        [(&json!("alice"), &json!(3)), (&json!("bob"), &json!(1))]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_sees_the_outcome_of_its_own_events_only() {
    let scene = Scene::start().await;
    let board = json!({"windows": ["day"], "ingest": "async"});
    scene.admin.define("own-1", board).await;
    let [alice, bob] = [("alice", "play"), ("bob", "vote")];
    let [alice, bob] = [alice, bob].map(|(sub, scope)| scene.player(sub, &[scope]));
    let path = "/v1/boards/own-1/events";
    let send = async |client: &Client, event| client.post(path, event).await.expect(202);
    let event = json!({"id": "x1", "member": "alice", "score": 5});
    assert_eq!(send(&alice, event).await["id"], "x1");
    let named = send(&alice, json!({"member": "alice", "score": 5})).await;
    let named = named["id"].as_str().unwrap();
    let event = json!({"id": "x1", "member": "alice", "score": 7});
    assert_eq!(send(&bob, event).await["id"], "x1");
    for (client, id, count) in [
        (&alice, "x1", 1),
        (&alice, named, 1),
        (&bob, "x1", 1),
        (&bob, named, 0),
        (&scene.admin, "x1", 0),
        (&scene.admin, named, 0),
    ] {
        for query in [format!("id={id}"), format!("id={id}&member=alice")] {
            let found = client.get(&format!("{path}?{query}")).await.expect(200);
            assert_eq!(found["events"].as_array().unwrap().len(), count, "{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_writes_its_own_name_and_picture_and_no_attributes() {
    let scene = Scene::start().await;
    let path = |member: &str| format!("/v1/members/{member}/profile");
    let by_backend = json!({"name": "A", "attributes": {"country": "NZ"}});
    scene
        .admin
        .put(&path("alice"), by_backend)
        .await
        .expect(200);
    let alice = scene.player("alice", &["play"]);
    let own = json!({"name": "Alice", "avatar_url": "https://img.example.com/a.png"});
    let written = alice.put(&path("alice"), own.clone()).await.expect(200);
    assert_eq!(written["name"], "Alice");
    assert_eq!(written["attributes"], json!({"country": "NZ"}));
    assert_eq!(written["review"]["status"], "pending");
    assert_eq!(alice.get(&path("alice")).await.expect(200), written);
    for attributes in [json!({}), json!({"country": "AU"})] {
        let mut wrong = own.clone();
        wrong["attributes"] = attributes;
        let errors = alice.put(&path("alice"), wrong).await.expect(422)["errors"].take();
        assert_eq!(errors[0]["pointer"], "/attributes");
    }
    for (client, member) in [
        (&alice, "bob"),
        (&scene.player("alice", &["vote", "read"]), "alice"),
        (&scene.player("alice", &["read"]), "alice"),
    ] {
        let answer = client.put(&path(member), own.clone()).await;
        answer.expect_problem(403, "forbidden");
        let answer = client.get(&path(member)).await;
        answer.expect_problem(403, "forbidden");
    }
    let many = json!({"profiles": [{"member": "alice", "name": "Alice"}]});
    let review = json!({"name": "Alice", "status": "approved"});
    let refused = [
        alice.post("/v1/profiles", many).await,
        alice.delete(&path("alice")).await,
        alice
            .put("/v1/members/alice/name-review", review.clone())
            .await,
    ];
    for answer in refused {
        answer.expect_problem(403, "forbidden");
    }
    // The name is the player's, so the operator may approve it, until the operator writes it.
    let reviewed = scene
        .admin
        .put("/v1/members/alice/name-review", review)
        .await
        .expect(200);
    assert_eq!(reviewed["review"]["by"], "configuration:admin");
    assert_eq!(scene.admin.get(&path("alice")).await.expect(200), reviewed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vote_counts_for_the_sub_and_the_client_address() {
    let scene = Scene::start().await;
    let quotas = json!([{"name": "voter", "by": ["voter"], "window": "1h", "max": 2},
        {"name": "ip", "by": ["ip"], "window": "1h", "max": 3}]);
    let definition = json!({"windows": ["day"], "quotas": quotas, "uniques": "board"});
    scene.admin.define("own-1", definition).await;
    let path = "/v1/boards/own-1/events";
    let vote = async |sub: &str, member: &str, id: &str, forwarded: &str| {
        let client = scene.player(sub, &["vote"]);
        let request = client
            .builder(Method::POST, path)
            .header("x-forwarded-for", forwarded);
        Client::send(request.json(&json!({"id": id, "member": member, "score": 1}))).await
    };
    let (home, office) = ("9.9.9.9, 203.0.113.7", "203.0.113.8");
    vote("alice", "x", "1", home).await.expect(200);
    vote("alice", "y", "2", home).await.expect(200);
    let over = vote("alice", "alice", "3", home).await.expect(429);
    assert_eq!(over["quota"], "voter");
    vote("bob", "x", "1", home).await.expect(200);
    let over = vote("carl", "x", "1", home).await.expect(429);
    assert_eq!(
        over["quota"], "ip",
        "what a client writes itself makes no difference"
    );
    vote("carl", "x", "1", office).await.expect(200);
    let stats = scene.admin.get(&format!("{PAGE}/stats")).await.expect(200);
    assert_eq!((&stats["voters"], &stats["events"]), (&json!(3), &json!(4)));

    // What is left for a player it may read, and nobody else's.
    let alice = scene.player("alice", &["read", "vote"]);
    let quotas = "/v1/boards/own-1/quotas";
    for query in ["", "?voter=alice", "?member=alice"] {
        let left = alice.get(&format!("{quotas}{query}")).await.expect(200);
        assert_eq!(left["quotas"][0]["left"], 0, "{query}: {left}");
    }
    for query in ["?voter=bob", "?member=bob", "?ip=203.0.113.7", "?device=d"] {
        let answer = alice.get(&format!("{quotas}{query}")).await;
        answer.expect_problem(403, "forbidden");
    }
}

#[test]
fn invalid_signing_keys_are_refused() {
    let read = |set: Value| PlayerKeys::read(Some(&set.to_string()), None, "a").map(drop);
    let secret = base64url(&[7; 32]);
    let oct = |kid: &str, k: &str| json!({"kty": "oct", "kid": kid, "k": k});
    assert_eq!(
        read(json!({"keys": [oct("a", &secret), oct("b", &secret)]})),
        Ok(())
    );
    for (set, said) in [
        (json!({"keys": []}), "no key"),
        (json!([]), "not a set"),
        (
            json!({"keys": [oct("a", &secret), oct("a", &secret)]}),
            "`kid`",
        ),
        (json!({"keys": [oct("a", &secret[4..])]}), "length"),
        (
            json!({"keys": [{"kty": "oct", "k": secret, "alg": "HS512"}]}),
            "`alg`",
        ),
        (
            json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": secret, "alg": "ES256"}]}),
            "`alg`",
        ),
        (
            json!({"keys": [{"kty": "EC", "crv": "P-384", "x": secret, "y": secret}]}),
            "not a key for",
        ),
        (
            json!({"keys": [{"kty": "RSA", "n": secret, "e": "AQAB"}]}),
            "not a key for",
        ),
        (
            json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}]}),
            "length",
        ),
    ] {
        let error = read(set.clone()).unwrap_err();
        assert!(error.contains(said), "{set}: {error}");
        assert!(!error.contains(&secret), "{error}");
    }
    let single = |text: &str| PlayerKeys::read(None, Some(text), "a");
    assert!(single("too short").unwrap_err().contains("32 bytes"));
    assert!(single(&"s".repeat(32)).is_ok());
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": secret}).to_string();
    assert!(!single(&jwk).unwrap().is_empty());
    assert!(!format!("{:?}", single(&"s".repeat(32))).contains("sss"));
    let broken = single(&jwk[..jwk.len() - 1]).unwrap_err();
    assert!(!broken.contains(&secret), "{broken}");
}
