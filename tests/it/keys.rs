//! API keys that are stored: made, listed, renewed, deleted, and in force on all instances.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use serde_json::{Value, json};
use standings::access::keyring;
use standings::access::keyring::store::ApiKey;
use standings::core::jobs::JobKind;
use standings::domain::access::{Boards, Grant, KeyName, Scope, Scopes};
use standings::domain::secret::Digest;
use standings::domain::time::Timestamp;
use standings::redis::stored::Changed;
use standings::worker;
use tokio_util::task::AbortOnDropHandle;

use crate::harness::redis::eventually;
use crate::harness::{Client, Instance, World};

const KEYS: &str = "read:a-reader,admin:an-admin";
const NOW: &str = "2026-11-21T12:00:00Z";

/// Makes an API key; returns what is answered, and the secret.
pub async fn make_key(admin: &Client, name: &str, grant: Value) -> (Value, String) {
    let made = admin
        .put(&format!("/v1/keys/{name}"), grant)
        .await
        .expect(201);
    let secret = made["secret"].as_str().unwrap().to_owned();
    (made, secret)
}

fn reader() -> Value {
    json!({"scopes": ["read"], "boards": ["*"]})
}

const PAGE: &str = "/v1/boards/b/standings/day";

/// Instances that follow the API keys, and a board.
async fn world(instances: usize) -> (World, Client, Vec<AbortOnDropHandle<()>>) {
    let world = World::with_keys(instances, NOW, KEYS).await;
    let following = world
        .instances
        .iter()
        .map(Instance::follow_api_keys)
        .collect();
    let admin = world.client().with_key("an-admin");
    admin.define("b", json!({"windows": ["day"]})).await;
    (world, admin, following)
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_outlive_their_key_unless_they_are_deleted_with_it() {
    let (world, admin, _following) = world(1).await;
    let configures = json!({"scopes": ["configure"], "boards": ["*"]});
    let make = async |name| {
        let (_, secret) = make_key(&admin, name, configures.clone()).await;
        world.client().with_key(&secret)
    };
    let (one, other) = (make("one").await, make("other").await);
    let put = async |client: &Client, name: &str| {
        let webhook =
            json!({"url": "https://app.example/", "events": ["period.final"], "boards": ["*"]});
        client.put(&format!("/v1/webhooks/{name}"), webhook).await
    };
    for name in ["a", "b"] {
        put(&one, name).await.expect(201);
    }
    put(&other, "c").await.expect(201);
    put(&admin, "d").await.expect(201);
    let webhooks_of = async |name: &str| {
        let mut key = admin.get(&format!("/v1/keys/{name}")).await.expect(200);
        key["webhooks"].take()
    };
    assert_eq!(webhooks_of("one").await, json!(["a", "b"]));
    // Whoever changes a webhook decides where messages go.
    put(&other, "b").await.expect(200);
    other
        .post("/v1/webhooks/a/rotate", json!({}))
        .await
        .expect(200);
    assert_eq!(webhooks_of("one").await, json!(["a"]));
    assert_eq!(webhooks_of("other").await, json!(["b", "c"]));
    let listed = admin.get("/v1/keys").await.expect(200);
    assert_eq!(listed["keys"][1]["webhooks"], json!(["b", "c"]));

    let deleted = admin.delete("/v1/keys/one").await.expect(200);
    assert_eq!(
        deleted,
        json!({"webhooks_deleted": [], "webhooks_left": ["a"]})
    );
    admin.get("/v1/webhooks/a").await.expect(200);
    let wrong = admin.delete("/v1/keys/other?with=boards").await;
    wrong.expect_problem(400, "invalid-parameter");
    let deleted = admin
        .delete("/v1/keys/other?with=webhooks")
        .await
        .expect(200);
    assert_eq!(
        deleted,
        json!({"webhooks_deleted": ["b", "c"], "webhooks_left": []})
    );
    let left = admin.get("/v1/webhooks").await.expect(200);
    let left: Vec<&Value> = left["webhooks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|webhook| &webhook["name"])
        .collect();
    assert_eq!(left, ["a", "d"]);
    let log = admin.get("/v1/audit?limit=1").await.expect(200);
    let line = &log["lines"][0];
    assert_eq!(
        line["outcome"]["before"]["webhooks"],
        json!(["b", "c"]),
        "{line}"
    );
    // Where there are none there is nothing to say.
    make_key(&admin, "none", configures.clone()).await;
    let none = admin.delete("/v1/keys/none?with=webhooks").await;
    none.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_changed_and_keeps_its_secret() {
    let (world, admin, _following) = world(2).await;
    let grant = json!({"scopes": ["read"], "boards": ["*"], "rate": "50/s",
        "expires_at": "2026-11-21T13:00:00Z"});
    let (mut key, secret) = make_key(&admin, "site", grant).await;
    key.as_object_mut().unwrap().remove("secret");
    let own = "/v1/keys/site";
    let nothing = admin.patch(own, json!({})).await.expect(200);
    assert_eq!(nothing, key);
    let status = async |instance: usize| {
        let client = world.instances[instance].client.with_key(&secret);
        client.get(PAGE).await.status.as_u16()
    };
    assert_eq!(status(0).await, 200);

    let changed = admin.patch(own, json!({"boards": ["other"], "rate": null}));
    let changed = changed.await.expect(200);
    assert_eq!(changed["boards"], json!(["other"]));
    assert_eq!(
        changed["scopes"],
        json!(["read"]),
        "what is missing is kept"
    );
    assert_eq!(changed["rate"], Value::Null);
    assert_eq!(changed["expires_at"], "2026-11-21T13:00:00.000Z");
    for instance in 0..2 {
        eventually("the change is known", async || {
            status(instance).await == 403
        })
        .await;
    }
    let log = admin.get("/v1/audit?limit=1").await.expect(200);
    let line = &log["lines"][0];
    assert_eq!(line["method"], "PATCH");
    let boards = ["before", "after"].map(|state| &line["outcome"][state]["boards"]);
    assert_eq!(boards, [&json!(["*"]), &json!(["other"])]);

    world.set_time("2026-11-21T13:00:00Z");
    assert_eq!(status(0).await, 401, "it has expired");
    for (wrong, pointer) in [
        (json!({"boards": ["*"]}), "/expires_at"),
        (json!({"scopes": [], "expires_at": null}), "/scopes"),
        (json!({"scopes": null}), "/scopes"),
        (json!({"rate": "fast"}), "/rate"),
        (json!({"name": "other"}), "/name"),
    ] {
        let refused = admin.patch(own, wrong.clone()).await;
        assert_eq!(refused.status, 422, "{wrong}");
        let errors = refused.text.contains(&format!("\"pointer\":\"{pointer}\""));
        assert!(errors, "{wrong}: {}", refused.text);
    }
    let again = json!({"boards": ["*"], "scopes": ["write", "read"], "expires_at": null});
    let again = admin.patch(own, again).await.expect(200);
    assert_eq!(again["scopes"], json!(["read", "write"]));
    assert_eq!(again["expires_at"], Value::Null);
    eventually("it is valid again", async || status(0).await == 200).await;
    let missing = admin.patch("/v1/keys/other", json!({})).await;
    missing.expect_problem(404, "key-not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_shown_once_and_only_its_hash_is_kept() {
    let (world, admin, _following) = world(1).await;
    let grant = json!({"scopes": ["write", "read"], "boards": ["vote-*", "b"], "rate": "50/s",
        "expires_at": "2026-11-22T12:00:00Z"});
    let (made, secret) = make_key(&admin, "site", grant.clone()).await;
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = secret.strip_prefix("st_").unwrap();
    assert!(digits.len() == 64 && is_hex(digits), "{secret}");
    let mut shown = json!({"name": "site", "scopes": ["read", "write"], "boards": ["vote-*", "b"],
        "rate": "50/s", "expires_at": "2026-11-22T12:00:00.000Z", "created_at": "2026-11-21T12:00:00.000Z",
        "last_used": null, "previous_until": null, "webhooks": []});
    assert_eq!(made, {
        let mut made = shown.clone();
        made["secret"] = secret.clone().into();
        made
    });
    let again = admin.put("/v1/keys/site", grant).await;
    again.expect_problem(409, "key-exists");

    let client = world.client().with_key(&secret);
    client.get(PAGE).await.expect(200);
    shown["last_used"] = "2026-11-21T12:00:00.000Z".into();
    assert_eq!(admin.get("/v1/keys/site").await.expect(200), shown);
    let listed = admin.get("/v1/keys").await.expect(200);
    assert_eq!(listed, json!({"keys": [shown], "next": null}));
    let stored = world
        .redis
        .run(&[b"HGETALL", b"st:{boards}:api-keys"])
        .await
        .list()[1]
        .text();
    assert!(
        stored.contains("vote-*") && !stored.contains(digits),
        "{stored}"
    );

    world.set_time("2026-11-22T12:00:00Z");
    let detail = client
        .get(PAGE)
        .await
        .expect_problem(401, "unauthenticated");
    assert!(detail.contains("expired"), "{detail}");
    for (wrong, pointer) in [
        (json!({"scopes": [], "boards": ["*"]}), "/scopes"),
        (json!({"scopes": ["reads"], "boards": ["*"]}), "/scopes"),
        (json!({"scopes": ["read"], "boards": []}), "/boards"),
        (json!({"scopes": ["read"], "boards": ["a?"]}), "/boards"),
        (json!({"scopes": ["read"]}), ""),
        (
            json!({"scopes": ["read"], "boards": ["*"], "rate": "5"}),
            "/rate",
        ),
        (
            json!({"scopes": ["read"], "boards": ["*"], "rates": "5/s"}),
            "",
        ),
        (
            json!({"scopes": ["read"], "boards": ["*"], "expires_at": "2026-11-22T12:00:00Z"}),
            "/expires_at",
        ),
    ] {
        let answer = admin.put("/v1/keys/wrong", wrong.clone()).await.expect(422);
        let found = answer["errors"][0]["pointer"].as_str().unwrap();
        assert!(found.starts_with(pointer), "{wrong}: {answer}");
    }
    let wrong = admin.put("/v1/keys/-", reader()).await;
    wrong.expect_problem(400, "invalid-parameter");
    for (method, path) in [
        (Method::GET, "/v1/keys/none"),
        (Method::DELETE, "/v1/keys/none"),
    ] {
        let answer = Client::send(admin.builder(method, path)).await;
        answer.expect_problem(404, "key-not-found");
    }
    let answer = admin.post("/v1/keys/none/rotate", json!({})).await;
    answer.expect_problem(404, "key-not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_secret_works_on_every_instance_until_its_grace_ends() {
    let (world, admin, _following) = world(2).await;
    let (_, first) = make_key(&admin, "site", reader()).await;
    let other = &world.instances[1].client;
    let status = async |secret: &str| other.with_key(secret).get(PAGE).await.status.as_u16();
    eventually("the key is in force", async || status(&first).await == 200).await;
    let path = "/v1/keys/site/rotate";
    let rotate = async |body: Value| admin.post(path, body).await.expect(200);
    let rotated = rotate(json!({"grace": "1h"})).await;
    assert_eq!(rotated["previous_until"], "2026-11-21T13:00:00.000Z");
    let second = rotated["secret"].as_str().unwrap();
    eventually("it has another secret", async || {
        status(second).await == 200
    })
    .await;
    assert_eq!(status(&first).await, 200);
    world.set_time("2026-11-21T13:00:00Z");
    assert_eq!((status(&first).await, status(second).await), (401, 200));
    let third = rotate(json!({})).await;
    let third = third["secret"].as_str().unwrap();
    eventually("the one before has ended", async || {
        status(second).await == 401
    })
    .await;
    assert_eq!(status(third).await, 200);
    let wrong = admin.post(path, json!({"grace": "31d"})).await;
    wrong.expect_problem(422, "validation-failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_deleted_under_load_stays_refused() {
    let (world, admin, _following) = world(3).await;
    let (_, secret) = make_key(&admin, "site", reader()).await;
    let is_deleted = Arc::new(AtomicBool::new(false));
    let streams = world.instances.iter().map(|instance| {
        let client = instance.client.with_key(&secret);
        let is_deleted = Arc::clone(&is_deleted);
        tokio::spawn(async move {
            let mut statuses = Vec::new();
            let mut behind = 0;
            while behind < 20 {
                let was_deleted = is_deleted.load(Ordering::SeqCst);
                let status = client.get(PAGE).await.status.as_u16();
                behind += usize::from(was_deleted && status == 401);
                if statuses.last() != Some(&status) {
                    statuses.push(status);
                }
            }
            statuses
        })
    });
    let streams: Vec<_> = streams.collect();
    for instance in &world.instances {
        let client = instance.client.with_key(&secret);
        eventually("it is in force", async || {
            client.get(PAGE).await.status == 200
        })
        .await;
    }
    assert_eq!(admin.delete("/v1/keys/site").await.status, 204);
    is_deleted.store(true, Ordering::SeqCst);
    for (index, stream) in streams.into_iter().enumerate() {
        let mut statuses = stream.await.unwrap();
        // An instance may have been asked before it knew the key.
        if index > 0 && statuses[0] == 401 {
            statuses.remove(0);
        }
        assert_eq!(statuses, [200, 401], "instance {index}");
    }
    // A new key of that name is another one.
    let (_, new) = make_key(&admin, "site", reader()).await;
    assert_ne!(new, secret);
    let old = world.client().with_key(&secret).get(PAGE).await;
    old.expect_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_instance_loads_ten_thousand_keys() {
    let (world, admin, _following) = world(2).await;
    let store = &world.engine().store;
    let name = |index: usize| format!("key-{index:05}");
    let secret = |index: usize| format!("st_{index}");
    for index in 0..10_000 {
        let key = ApiKey {
            digest: Digest::of(&secret(index)),
            previous: None,
            grant: Grant {
                scopes: Scopes::from_iter([Scope::Read]),
                boards: Boards::all(),
                rate: None,
                expires_at: None,
            },
            created_at: Timestamp::parse(NOW).unwrap(),
        };
        let named = KeyName::parse(&name(index)).unwrap();
        let made = keyring::store::change(store, &named, None, Some(&key))
            .await
            .unwrap();
        assert_eq!(made, Changed::Done);
    }
    let new = Instance::start(&world.redis.url(), world.clock.clone(), KEYS).await;
    keyring::refresh(&new.engine).await.unwrap();
    let _following = new.follow_api_keys();
    for instance in world.instances.iter().chain([&new]) {
        for index in [0, 4_999, 9_999] {
            let client = instance.client.with_key(&secret(index));
            let is_known = async || client.get(PAGE).await.status == 200;
            eventually("the key is known", is_known).await;
        }
        let unknown = instance.client.with_key(&secret(10_000)).get(PAGE).await;
        unknown.expect_problem(401, "unauthenticated");
    }
    let (mut after, mut listed) = (String::new(), Vec::new());
    loop {
        let part = admin
            .get(&format!("/v1/keys?limit=1000{after}"))
            .await
            .expect(200);
        let keys = part["keys"].as_array().unwrap();
        listed.extend(
            keys.iter()
                .map(|key| key["name"].as_str().unwrap().to_owned()),
        );
        let Some(next) = part["next"].as_str() else {
            break;
        };
        after = format!("&after={next}");
    }
    assert_eq!(listed, (0..10_000).map(name).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_keys_are_refused_without_redis_but_configured_keys_work() {
    let (world, admin, _following) = world(1).await;
    let (_, secret) = make_key(&admin, "site", reader()).await;
    let stored = world.client().with_key(&secret).once();
    stored.get(PAGE).await.expect(200);
    world.redis.kill();
    let is_unconfirmed = async |client: &Client| {
        let answer = client.get(PAGE).await;
        assert!(answer.headers.contains_key("retry-after"));
        let detail = answer.expect_problem(503, "store-unavailable");
        detail.contains("can't be checked")
    };
    eventually("the key is refused", async || is_unconfirmed(&stored).await).await;
    let configured = world.client().with_key("a-reader").once();
    assert!(!is_unconfirmed(&configured).await);
    let unknown = world.client().with_key("wrong").once();
    unknown
        .get(PAGE)
        .await
        .expect_problem(401, "unauthenticated");
    world.redis.restart().await;
    eventually("the key counts again", async || {
        stored.get(PAGE).await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_redis_has_lost_are_lost() {
    let (world, admin, _following) = world(1).await;
    let (_, secret) = make_key(&admin, "site", reader()).await;
    let client = world.client().with_key(&secret);
    client.get(PAGE).await.expect(200);
    world.redis.on_each("FLUSHALL").await;
    eventually("the key is gone", async || {
        client.get(PAGE).await.status == 401
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limited_key_learns_when_to_retry() {
    let (world, admin, _following) = world(1).await;
    let grant = json!({"scopes": ["read"], "boards": ["b"], "rate": "3/h"});
    let (_, secret) = make_key(&admin, "slow", grant).await;
    let client = world.client().with_key(&secret);
    let header = |answer: &crate::harness::client::Answer, name: &str| {
        answer.headers[name].to_str().unwrap().to_owned()
    };
    for (path, status, left) in [
        (PAGE, 200, 2),
        ("/v1/boards/other/standings/day", 403, 1),
        (PAGE, 200, 0),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(
            header(&answer, "ratelimit-policy"),
            "\"api-key\";q=3;w=3600"
        );
        let limit = header(&answer, "ratelimit");
        assert!(
            limit.starts_with(&format!("\"api-key\";r={left};t=")),
            "{limit}"
        );
    }
    let answer = client.get(PAGE).await;
    let wait: u64 = header(&answer, "retry-after").parse().unwrap();
    assert!((1..=1_200).contains(&wait), "{wait}");
    assert_eq!(
        header(&answer, "ratelimit"),
        format!("\"api-key\";r=0;t={wait}")
    );
    answer.expect_problem(429, "rate-limited");
    admin.get(PAGE).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_instances_know_when_a_key_was_last_used() {
    let (world, admin, _following) = world(2).await;
    let (_, secret) = make_key(&admin, "site", reader()).await;
    world.client().with_key(&secret).get(PAGE).await.expect(200);
    let last_used = async || {
        let other = world.instances[1].client.with_key("an-admin");
        other.get("/v1/keys/site").await.expect(200)["last_used"].clone()
    };
    assert_eq!(last_used().await, Value::Null);
    worker::run(JobKind::ApiKeyUses, world.engine())
        .await
        .unwrap();
    assert_eq!(last_used().await, "2026-11-21T12:00:00.000Z");
    admin.delete("/v1/keys/site").await;
    let uses = world
        .redis
        .run(&[b"HGETALL", b"st:{boards}:api-key-uses"])
        .await;
    assert_eq!(uses.list().len(), 0, "it is forgotten with its key");
}
