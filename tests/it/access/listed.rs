//! Which boards a key can list, and what it sees of them.

use serde_json::{Value, json};

use crate::harness::{Client, World};
use crate::keys::make_key;

const KEYS: &str = "read:a-reader,write:a-writer,admin:an-admin";

/// The ids of the boards that a client lists, and after which the next part begins.
async fn listed(client: &Client, query: &str) -> (Vec<String>, Value) {
    let list = client.get(&format!("/v1/boards?{query}")).await.expect(200);
    let boards = list["boards"].as_array().unwrap().iter();
    let ids = boards.map(|board| board["board"].as_str().unwrap().to_owned());
    (ids.collect(), list["next"].clone())
}

/// All boards that a client lists in parts of this length, and how many parts there are.
async fn all_listed(client: &Client, limit: usize) -> (Vec<String>, usize) {
    let (mut all, mut parts, mut after) = (Vec::new(), 0, String::new());
    loop {
        let begin = if after.is_empty() { "" } else { "&after=" };
        let (ids, next) = listed(client, &format!("limit={limit}{begin}{after}")).await;
        assert!(ids.len() <= limit);
        all.extend(ids);
        parts += 1;
        match next.as_str() {
            Some(next) => next.clone_into(&mut after),
            None => return (all, parts),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_lists_the_boards_that_it_is_for_and_no_others() {
    let world = World::with_keys(1, "2026-11-21T12:00:00Z", KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let admin = world.client().with_key("an-admin");
    for number in 0..30 {
        let board = format!("other-{number:02}");
        admin.define(&board, json!({"windows": ["day"]})).await;
    }
    for board in [
        "flappy",
        "flappy_1",
        "flappy_2-eu",
        "flappy_3",
        "flappyx",
        "run-eu",
    ] {
        admin.define(board, json!({"windows": ["day"]})).await;
    }
    let key = async |name: &str, scopes: &[&str], boards: &[&str]| {
        let grant = json!({"scopes": scopes, "boards": boards});
        let (_, secret) = make_key(&admin, name, grant).await;
        world.client().with_key(&secret)
    };
    let some = key("some", &["read", "moderate"], &["flappy_*"]).await;
    let flappy = ["flappy_1", "flappy_2-eu", "flappy_3"].map(str::to_owned);
    for limit in 1..=4 {
        // No part is empty, although other boards come before and after.
        let (ids, parts) = all_listed(&some, limit).await;
        assert_eq!((&*ids, parts), (&flappy[..], 3_usize.div_ceil(limit)));
    }
    let one = key("one", &["moderate"], &["other-07"]).await;
    assert_eq!(
        listed(&one, "limit=1").await,
        (vec!["other-07".to_owned()], Value::Null)
    );
    let many = ["other-2*", "flappy", "other-07", "missing", "other-21"];
    let many = key("many", &["configure"], &many).await;
    let mut expected = vec!["flappy".to_owned(), "other-07".to_owned()];
    expected.extend((20..30).map(|number| format!("other-{number}")));
    for limit in [1, 5, 100] {
        assert_eq!(all_listed(&many, limit).await.0, expected, "{limit}");
    }
    // With a pattern of this form a part may be empty, but the list goes on.
    let inner = key("inner", &["read"], &["*-eu"]).await;
    let (ids, parts) = all_listed(&inner, 10).await;
    assert_eq!(ids, ["flappy_2-eu", "run-eu"]);
    assert_eq!(parts, 4);
    let everything = all_listed(&key("all", &["read", "moderate"], &["*"]).await, 10).await;
    assert_eq!(everything, all_listed(&admin, 10).await);
    assert_eq!(everything.0.len(), 36);
    let writer = key("writer", &["write"], &["*"]).await;
    let detail = writer
        .get("/v1/boards")
        .await
        .expect_problem(403, "forbidden");
    assert!(
        detail.contains("`read`, `moderate` or `configure`"),
        "{detail}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_those_who_may_configure_list_definitions() {
    let world = World::with_keys(2, "2026-11-21T12:00:00Z", KEYS).await;
    let (one, other) = (&world.instances[0], &world.instances[1]);
    let _following = one.follow_api_keys();
    let admin = one.client.with_key("an-admin");
    let definition = json!({"title": "Votes", "windows": ["day", "last-7-days"], "tags": ["tv"],
        "public": true, "weight": {"default": 3}});
    admin.define("a", definition).await;
    admin.define("b", json!({"windows": ["all"]})).await;
    let outlines = json!([
        {"board": "a", "title": "Votes", "tags": ["tv"], "public": true, "windows": ["day", "last-7-days"]},
        {"board": "b", "title": "", "tags": [], "public": false, "windows": ["all"]}]);
    let reader = other.client.with_key("a-reader");
    let answer = reader.get("/v1/boards").await;
    assert_eq!(answer.headers["cache-control"], "private, no-store");
    let list = answer.expect(200);
    assert_eq!(
        list,
        json!({"boards": outlines, "unreadable": [], "next": null})
    );
    assert_eq!(listed(&reader, "tag=tv").await.0, ["a"]);
    let grant = json!({"scopes": ["configure"], "boards": ["a"]});
    let (_, secret) = make_key(&admin, "own", grant).await;
    let list = one.client.with_key(&secret).get("/v1/boards").await;
    let whole = admin.get("/v1/boards/a").await.expect(200);
    assert_eq!(list.expect(200)["boards"], json!([whole]));
    // Also from an instance that has the boards in memory.
    other.engine.refresh_boards().await.unwrap();
    assert_eq!(
        reader.get("/v1/boards").await.expect(200)["boards"],
        outlines
    );
    admin
        .patch("/v1/boards/a", json!({"title": "Hits"}))
        .await
        .expect(200);
    admin.delete("/v1/boards/b").await.expect(204);
    other.engine.refresh_boards().await.unwrap();
    let list = reader.get("/v1/boards").await.expect(200);
    assert_eq!(list["boards"][0]["title"], "Hits");
    assert_eq!(list["boards"].as_array().unwrap().len(), 1);
}
