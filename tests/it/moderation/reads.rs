//! Reads while members are hidden and brought back: nobody is shown after the answer to a hide, and no rank is skipped or
//! doubled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::hides::{cheating, hidden_path};
use crate::harness::random::{Random, case_count, seed};
use crate::harness::{Client, World};
use crate::keys::make_key;

const NOW: &str = "2026-11-21T12:00:00Z";
const KEYS: &str = "read:a-reader,admin:an-admin";

/// A board in whose standing the members `m0`, `m1`, … have the ranks 1, 2, …
async fn ranked(client: &Client, board: &str, definition: &Value, members: usize) {
    client.define(board, definition.clone()).await;
    let events: Vec<Value> = (0..members)
        .map(|number| {
            let (id, score) = (format!("e{number}"), members - number);
            json!({"board": board, "id": id, "member": format!("m{number}"), "score": score})
        })
        .collect();
    for events in events.chunks(500) {
        client
            .post("/v1/events", json!({"events": events}))
            .await
            .expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_member_is_in_no_answer_but_moderators_may_see_it() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let _following = world.instances[0].follow_api_keys();
    let admin = world.client().with_key("an-admin");
    let definition =
        json!({"windows": ["day", "all", "last-2-days"], "public": true, "uniques": "board"});
    ranked(&admin, "b", &definition, 10).await;
    let grant = |scopes: Value| json!({"scopes": scopes, "boards": ["b"]});
    let (_, secret) = make_key(&admin, "judge", grant(json!(["read", "moderate"]))).await;
    let judge = world.client().with_key(&secret);
    let reader = world.client().with_key("a-reader");
    let anybody = world.client();
    // Ranks 3 and 4 of ten: with the scores 8 and 7.
    for member in ["m2", "m3"] {
        judge
            .put(&hidden_path("b", member), cheating())
            .await
            .expect(200);
    }
    let window = "/v1/boards/b/standings/all";
    let page = anybody
        .get(&format!("{window}?member=m2"))
        .await
        .expect(200);
    assert_eq!(
        (&page["total"], &page["listed"], &page["me"]),
        (&json!(8), &json!(8), &Value::Null)
    );
    let lines = page["entries"].as_array().unwrap();
    let ranks: Vec<_> = lines
        .iter()
        .map(|line| line["rank"].as_u64().unwrap())
        .collect();
    assert_eq!(ranks, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(!page.to_string().contains("\"hidden\""));
    for path in ["all/members/m2", "day/members/m3", "last-2-days/members/m2"] {
        let answer = anybody.get(&format!("/v1/boards/b/standings/{path}")).await;
        answer.expect_problem(404, "member-not-found");
    }
    let neighbour = anybody
        .get(&format!("{window}/members/m4?around=3"))
        .await
        .expect(200);
    assert_eq!(
        (&neighbour["rank"], &neighbour["total"]),
        (&json!(3), &json!(8))
    );
    assert_eq!(neighbour["ahead"]["member"], "m1");
    let subset = anybody
        .get(&format!("{window}/members?ids=m1,m2,m4"))
        .await
        .expect(200);
    assert_eq!(subset["not_found"], json!(["m2"]));
    let stats = anybody.get(&format!("{window}/stats")).await.expect(200);
    // Events go on counting.
    assert_eq!(
        (&stats["members"], &stats["score_sum"], &stats["events"]),
        (&json!(8), &json!(40), &json!(10))
    );
    let top = anybody
        .get(&format!("{window}/at-percentile/70"))
        .await
        .expect(200);
    assert_eq!(top["entry"]["member"], "m4");
    let across = reader
        .get("/v1/members/m2/standings?boards=b&window=all")
        .await
        .expect(200);
    assert_eq!(across["standings"][0]["entry"], Value::Null);
    let summary = anybody.get("/v1/boards/b/summary").await.expect(200);
    assert!(
        summary["windows"]
            .as_array()
            .unwrap()
            .iter()
            .all(|window| window["total"] == 8),
        "{summary}"
    );
    sees_everybody(&judge, window).await;
    for (client, status, code) in [
        (anybody, 401, "unauthenticated"),
        (&reader, 403, "forbidden"),
    ] {
        let answer = client.get(&format!("{window}?hidden=include")).await;
        let detail = answer.expect_problem(status, code);
        assert!(detail.contains("`moderate`"), "{detail}");
    }
    let answer = judge.get(&format!("{window}?hidden=show")).await;
    answer.expect_problem(400, "invalid-parameter");
}

/// `hidden=include` shows the ten members of a standing, two of whom are hidden.
async fn sees_everybody(judge: &Client, window: &str) {
    let answer = judge
        .get(&format!("{window}?hidden=include&member=m2"))
        .await;
    assert_eq!(answer.headers["cache-control"], "private, no-store");
    let page = answer.expect(200);
    assert_eq!(
        (&page["total"], &page["me"]["hidden"]),
        (&json!(10), &json!(true))
    );
    let lines = page["entries"].as_array().unwrap().iter();
    let hidden: Vec<_> = lines.filter(|line| line["hidden"] == true).collect();
    let hidden: Vec<_> = hidden
        .iter()
        .map(|line| (&line["rank"], &line["member"]))
        .collect();
    assert_eq!(
        hidden,
        [(&json!(3), &json!("m2")), (&json!(4), &json!("m3"))]
    );
    let member = judge
        .get(&format!("{window}/members/m2?hidden=include"))
        .await
        .expect(200);
    assert_eq!(
        (&member["rank"], &member["hidden"]),
        (&json!(3), &json!(true))
    );
    assert_eq!(member["behind"]["hidden"], true);
    assert_eq!(member["ahead"]["hidden"], Value::Null);
    let subset = judge
        .get(&format!("{window}/members?ids=m1,m3&hidden=include"))
        .await
        .expect(200);
    assert_eq!(subset["entries"][0]["hidden"], Value::Null);
    assert_eq!(subset["entries"][1]["hidden"], true);
    let stats = judge
        .get(&format!("{window}/stats?hidden=include"))
        .await
        .expect(200);
    assert_eq!(
        (&stats["members"], &stats["score_sum"]),
        (&json!(10), &json!(55))
    );
    let query = json!({"queries": [
        {"type": "page", "board": "b", "window": "all", "hidden": "include"},
        {"type": "page", "board": "b", "window": "all"}]});
    let results = judge.post("/v1/standings/query", query).await.expect(200);
    assert_eq!(results["results"][0]["entries"][2]["hidden"], true);
    assert_eq!(results["results"][1]["total"], 8);
}

/// What is known of each member, for those who read: how often somebody has begun to hide it or to bring it back, and whether
/// it is hidden; `None` while that is being changed.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Known(u64, Option<bool>);

/// What is known of all members.
struct Truth(Mutex<Vec<Known>>);

impl Truth {
    fn of(members: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(vec![Known(0, Some(false)); members])))
    }

    fn begin(&self, member: usize) -> bool {
        let Known(changes, is_hidden) = &mut self.0.lock()[member];
        *changes += 1;
        is_hidden.take().expect("one moderator for each member")
    }

    fn end(&self, member: usize, is_hidden: bool) {
        self.0.lock()[member].1 = Some(is_hidden);
    }

    /// Reads, and checks who is shown and who is not: of the members whom nobody has begun to change meanwhile.
    async fn check<T>(
        &self,
        read: impl Future<Output = T>,
        is_shown: impl Fn(&T, &str) -> Option<bool>,
    ) {
        let before = self.0.lock().clone();
        let found = read.await;
        let after = self.0.lock().clone();
        for (number, (before, after)) in before.iter().zip(&after).enumerate() {
            let member = format!("m{number}");
            if let (true, Some(is_hidden), Some(is_shown)) =
                (before == after, before.1, is_shown(&found, &member))
            {
                assert_eq!(is_shown, !is_hidden, "{member}: {before:?}");
            }
        }
    }
}

/// Hides members and brings them back, one after the other, each of them one of its own.
async fn moderate(
    client: Client,
    truth: Arc<Truth>,
    own: Vec<usize>,
    stop: Arc<AtomicBool>,
) -> usize {
    let mut random = Random::new(seed(own[0] as u64));
    let mut changes = 0;
    while !stop.load(Ordering::Relaxed) {
        changes += 1;
        let member = own[random.below(own.len())];
        let path = hidden_path("b", &format!("m{member}"));
        let was_hidden = truth.begin(member);
        if was_hidden {
            client.delete(&path).await.expect(204);
        } else {
            client.put(&path, cheating()).await.expect(200);
        }
        truth.end(member, !was_hidden);
    }
    changes
}

/// The members of some lines.
fn members_of(lines: &Value) -> BTreeSet<String> {
    let lines = lines.as_array().unwrap().iter();
    lines
        .map(|line| line["member"].as_str().unwrap().to_owned())
        .collect()
}

/// The members of a page with all entries, whose ranks are 1, 2, …
fn members_of_page(page: &Value) -> BTreeSet<String> {
    let lines = page["entries"].as_array().unwrap();
    let ranks: Vec<_> = lines
        .iter()
        .map(|line| line["rank"].as_u64().unwrap())
        .collect();
    let expected: Vec<_> = (1..=lines.len() as u64).collect();
    assert_eq!(ranks, expected);
    assert_eq!(
        (&page["total"], &page["listed"]),
        (&json!(lines.len()), &json!(lines.len()))
    );
    let members = members_of(&page["entries"]);
    assert_eq!(members.len(), lines.len());
    members
}

/// Reads in every way, so often.
async fn watch(client: Client, truth: Arc<Truth>, members: usize, reads: usize) {
    let window = "/v1/boards/b/standings/day";
    let all: Vec<_> = (0..members).map(|number| format!("m{number}")).collect();
    let subset = format!("{window}/members?ids={}", all.join(","));
    for turn in 0..reads {
        let get = async |path: &str| client.get(path).await.expect(200);
        match turn % 4 {
            0 => {
                let read = async { members_of_page(&get(&format!("{window}?size=1000")).await) };
                truth
                    .check(read, |shown, member| Some(shown.contains(member)))
                    .await;
            }
            1 => {
                let read = async { members_of(&get(&subset).await["entries"]) };
                truth
                    .check(read, |shown, member| Some(shown.contains(member)))
                    .await;
            }
            2 => {
                let own = &all[turn / 4 % members];
                let path = format!("{window}/members/{own}?around=3");
                let read = client.get(&path);
                truth
                    .check(read, |answer, member| {
                        let is_own = member == own;
                        let shown = answer.status == 200
                            && members_of(&answer.json["around"]).contains(member);
                        (is_own || shown).then_some(shown)
                    })
                    .await;
            }
            _ => {
                let read = async {
                    let stats = get(&format!("{window}/stats")).await;
                    let best = get(&format!("{window}/at-percentile/100")).await;
                    assert!(stats["members"].as_u64().unwrap() <= members as u64);
                    best["entry"]["member"].as_str().unwrap().to_owned()
                };
                truth
                    .check(read, |best, member| (best == member).then_some(true))
                    .await;
            }
        }
    }
}

/// Two instances; four readers and three moderators, each with members of its own.
async fn hammer(world: &World, definition: &Value) {
    const MEMBERS: usize = 60;
    let client = world.client();
    ranked(client, "b", definition, MEMBERS).await;
    let (truth, stop) = (Truth::of(MEMBERS), Arc::new(AtomicBool::new(false)));
    let readers: Vec<_> = (0..4)
        .map(|number| {
            let client = world.instances[number % 2].client.clone();
            tokio::spawn(watch(client, Arc::clone(&truth), MEMBERS, case_count(150)))
        })
        .collect();
    let moderators: Vec<_> = (0..3)
        .map(|number| {
            let client = world.instances[number % 2].client.clone();
            // The last ten are never hidden.
            let own = (number..MEMBERS - 10).step_by(3).collect();
            tokio::spawn(moderate(client, Arc::clone(&truth), own, Arc::clone(&stop)))
        })
        .collect();
    for reader in join_all(readers).await {
        reader.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let changes: usize = join_all(moderators)
        .await
        .into_iter()
        .map(Result::unwrap)
        .sum();
    assert!(changes > case_count(25), "{changes}");
    // All of them come back as they were.
    let truth = truth.0.lock().clone();
    for (number, Known(_, is_hidden)) in truth.iter().enumerate() {
        if *is_hidden == Some(true) {
            client
                .delete(&hidden_path("b", &format!("m{number}")))
                .await
                .expect(204);
        }
    }
    let page = client
        .get("/v1/boards/b/standings/day?size=1000")
        .await
        .expect(200);
    assert_eq!(members_of_page(&page).len(), MEMBERS);
    let first: Vec<_> = (0..3)
        .map(|index| page["entries"][index]["member"].clone())
        .collect();
    assert_eq!(first, [json!("m0"), json!("m1"), json!("m2")]);
    client.delete("/v1/boards/b").await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn once_a_hide_returns_the_member_is_not_shown_and_ranks_have_no_gaps() {
    let world = World::with_instances(2, NOW).await;
    for definition in [
        json!({"windows": ["day"]}),
        json!({"windows": ["day", "last-2-days"], "shards": 3, "ranking": "competition"}),
    ] {
        hammer(&world, &definition).await;
    }
}
