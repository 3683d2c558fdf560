//! The list of boards, and their standings.

use serde_json::{Value, json};

use super::browser::Browser;
use super::{NOW, post};
use crate::harness::World;

/// The tile that says how many members a standing has.
fn members(count: u64) -> String {
    format!("<dt>Members</dt><dd class=\"figure\">{count}<")
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_are_searched_and_listed_in_pages() {
    let world = World::start(NOW).await;
    let client = world.client();
    let mut browser = Browser::new(client);
    let empty = browser.get("/console/boards").await.expect(200);
    assert!(empty.contains("There are no boards yet"), "{empty}");
    for number in 10..40 {
        let tags = if number % 2 == 0 {
            json!(["even"])
        } else {
            json!([])
        };
        let definition = json!({"windows": ["day"], "tags": tags});
        client.define(&format!("b{number}"), definition).await;
    }
    let titled = json!({"title": "Endless Run", "windows": ["day", "all"], "public": true,
        "closes_at": "2026-11-22T12:00:00Z"});
    client.define("b3", titled).await;
    post(client, "b3", &[("ann", 1), ("bob", 2)]).await;
    let listed = |text: &str| {
        let mut boards = Vec::new();
        for part in text.split("<th scope=\"row\">").skip(1) {
            let (_, rest) = part.split_once("href=\"/console/boards/").unwrap();
            boards.push(rest.split_once('"').unwrap().0.to_owned());
        }
        boards
    };
    let of = |numbers: std::ops::Range<u32>| numbers.map(|n| format!("b{n}")).collect::<Vec<_>>();
    let text = browser.get("/console/boards?q=b3").await.expect(200);
    assert_eq!(listed(&text), [vec!["b3".to_owned()], of(30..40)].concat());
    for found in ["endless", "Run", "b3"] {
        let text = browser.get(&format!("/console/boards?q={found}")).await;
        let text = text.expect(200);
        assert_eq!(listed(&text)[0], "b3", "{found}");
        for part in ["<b>Endless Run</b>", "Closes in", "Public", "All time"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let text = browser.get("/console/boards").await.expect(200);
    assert_eq!(
        listed(&text),
        of(10..30)
            .into_iter()
            .chain(["b3".to_owned()])
            .chain(of(30..34))
            .collect::<Vec<_>>()
    );
    let next = "/console/boards?after=b33";
    assert!(text.contains(next), "{text}");
    let text = browser.get("/console/boards?after=b33").await.expect(200);
    assert_eq!(listed(&text), of(34..40));
    let text = browser
        .get("/console/boards?q=b1&tag=even")
        .await
        .expect(200);
    assert_eq!(listed(&text), ["b10", "b12", "b14", "b16", "b18"]);
    for nothing in ["q=c", "q=%20!", "tag=odd"] {
        let text = browser
            .get(&format!("/console/boards?{nothing}"))
            .await
            .expect(200);
        assert!(text.contains("class=\"empty\""), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standing_is_read_page_by_page_and_period_by_period() {
    let world = World::start(NOW).await;
    let client = world.client();
    let definition = json!({"windows": ["day", "last-7-days", "all"], "accept_late": "any", "timezone": "Asia/Shanghai"});
    client.define("b", definition).await;
    let event = |id: usize, at: &str| json!({"board": "b", "id": id.to_string(), "member": format!("m{id:03}"), "score": 200 - id, "at": at});
    let mut events: Vec<Value> = (0..120)
        .map(|id| event(id, "2026-11-21T11:00:00Z"))
        .collect();
    events.push(event(150, "2026-11-18T11:00:00Z"));
    client
        .post("/v1/events", json!({"events": events}))
        .await
        .expect(200);
    let mut browser = Browser::new(client);
    let board = browser.get("/console/boards/b").await.expect(200);
    // The board's page is the standing of its first window.
    let reached = "<time datetime=\"2026-11-21T11:00:00Z\" title=\"2026-11-21 19:00:00 Asia/Shanghai\" data-ago>1 h ago</time>";
    let parts = [
        members(120),
        "Today, Sat 21 Nov".to_owned(),
        ">4 h<".to_owned(),
    ];
    for part in [reached.to_owned()].iter().chain(&parts) {
        assert!(board.contains(part.as_str()), "{part}: {board}");
    }
    let path = "/console/boards/b/standings/day";
    let first = browser.get(path).await.expect(200);
    assert!(first.contains(&members(120)) && first.contains("m000") && first.contains("m049"));
    assert!(!first.contains("m050") && first.contains("data-live"));
    assert!(first.contains("page=2") && !first.contains("Previous page"));
    let last = browser.get(&format!("{path}?page=3")).await.expect(200);
    assert!(last.contains("m119") && last.contains("Previous page") && !last.contains("Next page"));
    // The rank that somebody looks for is on its page.
    for (rank, member) in [("1", "m000"), ("51", "m050"), ("1,000", "fewer members")] {
        let found = browser.get(&format!("{path}?rank={rank}")).await;
        assert!(found.expect(200).contains(member), "{rank}");
    }
    let behind = browser.get(&format!("{path}?page=9")).await.expect(200);
    assert!(behind.contains("This page is empty"), "{behind}");
    // Back to the period before that has data, and on again through those that have none.
    assert!(first.contains("?key=2026-11-18\" rel=\"prev\""), "{first}");
    let nothing = |there: &str| format!("<span class=\"off\" aria-hidden=\"true\">{there}</span>");
    assert!(first.contains(&nothing("›")), "nothing is later than now");
    let earlier = browser
        .get(&format!("{path}?key=2026-11-18"))
        .await
        .expect(200);
    assert!(
        earlier.contains("m150") && earlier.contains(&members(1)),
        "{earlier}"
    );
    assert!(earlier.contains(&nothing("‹")), "{earlier}");
    let later = "?at=2026-11-18T16%3A00%3A00Z\" rel=\"next\"";
    assert!(earlier.contains(later), "{earlier}");
    assert!(!earlier.contains("data-live"), "it has ended");
    let later = browser
        .get(&format!("{path}?at=2026-11-18T16%3A00%3A00Z"))
        .await
        .expect(200);
    assert!(
        later.contains("Thu 19 Nov") && later.contains("Nobody has points"),
        "{later}"
    );
    for window in ["last-7-days", "all"] {
        let text = browser
            .get(&format!("/console/boards/b/standings/{window}"))
            .await
            .expect(200);
        assert!(text.contains(&members(121)), "{text}");
    }
    // A rolling window is stepped through by the days that are the newest in it.
    let rolling = "/console/boards/b/standings/last-7-days";
    let newest = browser.get(rolling).await.expect(200);
    let earlier = "?at=2026-11-20T04%3A00%3A00Z\" rel=\"prev\"";
    assert!(newest.contains(earlier), "{newest}");
    let path_before = format!("{rolling}?at=2026-11-20T04%3A00%3A00Z");
    let earlier = browser.get(&path_before).await.expect(200);
    assert!(
        earlier.contains("2026-11-20") && earlier.contains("rel=\"next\""),
        "{earlier}"
    );
    let member = browser
        .get(&format!("{path}/member?member=m010"))
        .await
        .expect(200);
    for part in ["11 of 120", "m006", "m014", "aria-current=\"true\""] {
        assert!(member.contains(part), "{part}: {member}");
    }
    let nobody = browser
        .get(&format!("{path}/member?member=nobody"))
        .await
        .expect(200);
    assert!(
        nobody.contains("Nothing is known of <b>nobody</b>"),
        "{nobody}"
    );
    let curl = format!(
        "curl &#39;{}/v1/boards/b/standings/day/members/m010?around=4",
        client.base
    );
    assert!(member.contains(&curl), "{member}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_league_shows_tiers_cohorts_and_their_standings() {
    let world = World::start(NOW).await;
    let client = world.client();
    let league = json!({"tiers": [
        {"name": "bronze", "promote": 0.3, "demote": 0},
        {"name": "silver", "promote": 0, "demote": 0.2},
    ]});
    let definition = json!({"windows": ["week"], "score_min": 0, "league": league});
    client.define("league", definition).await;
    post(client, "league", &[("ann", 3), ("bob", 5)]).await;
    let mut browser = Browser::new(client);
    let path = "/console/boards/league/standings/week";
    let tiers = browser.get(path).await.expect(200);
    assert!(
        tiers.contains("tier=bronze") && tiers.contains("tier=silver"),
        "{tiers}"
    );
    let cohorts = browser
        .get(&format!("{path}?tier=bronze"))
        .await
        .expect(200);
    assert!(cohorts.contains("cohort=bronze-1"), "{cohorts}");
    let none = browser
        .get(&format!("{path}?tier=silver"))
        .await
        .expect(200);
    assert!(none.contains("no cohort in this period"), "{none}");
    let cohort = browser
        .get(&format!("{path}?cohort=bronze-1"))
        .await
        .expect(200);
    assert!(
        cohort.contains("bob") && cohort.contains(&members(2)),
        "{cohort}"
    );
    let member = browser
        .get(&format!("{path}/member?member=ann"))
        .await
        .expect(200);
    assert!(
        member.contains("2 of 2") && member.contains("bronze-1"),
        "{member}"
    );
}
