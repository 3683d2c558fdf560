//! Reads of leagues: cohorts, members with their zones, tiers, histories, and what is refused.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::jobs::ClosePeriods;
use crate::harness::{Client, World};

const WEEK: &str = "2026-11-16";
const NEXT_WEEK: &str = "2026-11-23";

/// A league of weeks with three tiers, and other fields.
fn league(settings: &Value, other: &Value) -> Value {
    let mut fields = json!({"windows": ["week"], "score_min": 0, "league": {"tiers": [
        {"name": "bronze", "promote": 0.3, "demote": 0},
        {"name": "silver", "promote": 0.25, "demote": 0.25},
        {"name": "gold", "promote": 0, "demote": 0.5},
    ]}});
    for (name, value) in settings.as_object().unwrap() {
        fields["league"][name] = value.clone();
    }
    for (name, value) in other.as_object().unwrap() {
        fields[name] = value.clone();
    }
    fields
}

/// A world of three instances with the league `l`, in the middle of a week.
async fn world(settings: Value) -> World {
    let world = World::with_instances(3, &at(WEEK, 0)).await;
    world
        .client()
        .define("l", league(&settings, &json!({})))
        .await;
    world
}

/// So many seconds after ten o'clock on the first day of a week.
fn at(week: &str, seconds: u32) -> String {
    let (minute, second) = (seconds / 60, seconds % 60);
    format!("{week}T10:{minute:02}:{second:02}Z")
}

fn path(rest: &str) -> String {
    format!("/v1/boards/l/standings/week{rest}")
}

async fn get(client: &Client, rest: &str) -> Value {
    client.get(&path(rest)).await.expect(200)
}

async fn join(client: &Client, member: &str) -> Value {
    let body = json!({ "member": member });
    let joined = client.post("/v1/boards/l/league/members", body).await;
    assert!(joined.status.is_success(), "{}", joined.text);
    joined.json
}

async fn send(client: &Client, week: &str, member: &str, score: i64) {
    let event = json!({"id": format!("{week}-{member}-{score}"), "member": member, "score": score});
    let taken = client.post("/v1/boards/l/events", event).await;
    assert_eq!(taken.expect(200)["status"], "applied");
}

/// Seats these members, each a second after the one before, with these scores.
async fn play(world: &World, week: &str, scores: &[(&str, i64)]) {
    for (second, (member, score)) in (0..).zip(scores) {
        world.set_time(&at(week, second));
        join(world.client(), member).await;
        if *score > 0 {
            send(world.client(), week, member, *score).await;
        }
    }
}

/// Ends the week: the next one has begun, and what the last has led to is decided.
async fn turn(world: &World, next: &str) {
    world.set_time(&format!("{next}T00:00:01Z"));
    world.engine().run(&ClosePeriods).await.unwrap();
}

/// The zone of a member and its points to the edges.
fn zone(member: &Value) -> Value {
    let seat = &member["league"]["seat"];
    let points = ["to_promotion", "to_safety", "to_demotion"].map(|name| seat[name].clone());
    json!([seat["zone"], points])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_is_read_like_any_standing() {
    let world = world(json!({"min_cohort": 3})).await;
    play(
        &world,
        WEEK,
        &[("ann", 5), ("bob", 9), ("cid", 0), ("dan", 5)],
    )
    .await;
    let entry = |rank: u64, member: &str, score: u64, second: u32| {
        let reached_at = at(WEEK, second).replace('Z', ".000Z");
        json!({"rank": rank, "member": member, "score": score, "reached_at": reached_at})
    };
    let all = [
        entry(1, "bob", 9, 1),
        entry(2, "ann", 5, 0),
        entry(3, "dan", 5, 3),
        entry(4, "cid", 0, 2),
    ];
    let of_cohort = |more: Value| {
        let mut answer = json!({"board": "l", "window": "week", "key": WEEK, "cohort": "bronze-1",
            "starts_at": "2026-11-16T00:00:00Z", "ends_at": "2026-11-23T00:00:00Z", "state": "live"});
        answer
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        answer
    };
    for instance in &world.instances {
        let client = &instance.client;
        let page = get(client, "?cohort=bronze-1&member=dan").await;
        assert_eq!(
            page,
            of_cohort(
                json!({"total": 4, "listed": 4, "page": 1, "size": 50, "entries": all, "me": all[2]})
            )
        );
        let subset = json!({"total": 4, "entries": [
            {"position": 1, "rank": 2, "member": "ann", "score": 5, "reached_at": all[1]["reached_at"]},
            {"position": 2, "rank": 4, "member": "cid", "score": 0, "reached_at": all[3]["reached_at"]},
        ], "not_found": ["eve"]});
        assert_eq!(
            get(client, "/members?cohort=bronze-1&ids=cid,eve,ann").await,
            of_cohort(subset.clone())
        );
        let ids = json!({"ids": ["cid", "eve", "ann"]});
        let queried = client
            .post(&path("/members/query?cohort=bronze-1"), ids)
            .await;
        assert_eq!(queried.expect(200), of_cohort(subset));
        let named_query = client.get(&path("/members/query?cohort=bronze-1")).await;
        named_query.expect_problem(404, "member-not-found");
        let stats = json!({"members": 4, "voters": null, "events": null, "score_sum": null});
        assert_eq!(
            get(client, "/stats?cohort=bronze-1").await,
            of_cohort(stats)
        );
        let at = get(client, "/at-percentile/100?cohort=bronze-1").await;
        assert_eq!(
            at,
            of_cohort(json!({"total": 4, "percentile": 100, "entry": all[0]}))
        );
        let neighbour = |entry: &Value, gap: u64| json!({"rank": entry["rank"], "member": entry["member"], "score": entry["score"], "gap": gap});
        let ann = of_cohort(
            json!({"total": 4, "rank": 2, "member": "ann", "score": 5, "reached_at": all[1]["reached_at"],
            "percentile": 66.7, "ahead": neighbour(&all[0], 4), "behind": neighbour(&all[2], 0), "previous": null,
            "around": all[..3], "league": {"tier": "bronze", "last": null,
                "seat": {"cohort": "bronze-1", "zone": "safe", "to_promotion": 5, "to_safety": null, "to_demotion": null}}}),
        );
        assert_eq!(get(client, "/members/ann?around=1").await, ann);
        assert_eq!(
            get(client, "/members/ann?cohort=bronze-1&around=1").await,
            ann
        );
        let bob = get(client, "/members/bob").await;
        assert_eq!(
            (&bob["ahead"], &bob["percentile"]),
            (&Value::Null, &json!(100.0))
        );
        assert_eq!(zone(&bob), json!(["promotion", [null, null, null]]));
        let cid = get(client, "/members/cid").await;
        assert_eq!(
            (&cid["behind"], &cid["percentile"]),
            (&Value::Null, &json!(0.0))
        );
        assert_eq!(cid["around"], Value::Null);
    }
    // Pages, and a selection by scores.
    let part = world
        .client()
        .get(&path("?cohort=bronze-1&size=1&page=2"))
        .await;
    assert_eq!(
        part.headers["link"]
            .to_str()
            .unwrap()
            .matches("rel=")
            .count(),
        2
    );
    assert_eq!(part.json["entries"], json!([all[1]]));
    let between = get(world.client(), "?cohort=bronze-1&from_score=5&to_score=8").await;
    assert_eq!(
        (&between["listed"], &between["entries"]),
        (&json!(2), &json!(all[1..3]))
    );
    let around = get(world.client(), "?cohort=bronze-1&around_score=5&size=2").await;
    assert_eq!(around["entries"], json!(all[..2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_week_of_a_league_is_refused_with_a_hint() {
    let world = world(json!({})).await;
    let client = world.client();
    client.define("plain", json!({"windows": ["week"]})).await;
    join(client, "ann").await;
    for rest in [
        "",
        "/members?ids=ann",
        "/stats",
        "/at-percentile/50",
        "?key=2026-11-09",
    ] {
        let detail = client
            .get(&path(rest))
            .await
            .expect_problem(400, "cohort-required");
        for route in ["?cohort={cohort}", "/members/{member}", "/tiers"] {
            let route = format!("/v1/boards/l/standings/week{route}");
            assert!(detail.contains(&route), "{detail}");
        }
    }
    let query = client
        .post(&path("/members/query"), json!({"ids": ["ann"]}))
        .await;
    query.expect_problem(400, "cohort-required");
    let other = client.get(&path("/members/bob?cohort=bronze-1")).await;
    let detail = other.expect_problem(404, "member-not-found");
    assert!(detail.contains("in the cohort bronze-1 of "), "{detail}");
    for rest in [
        "?cohort=bronze-1",
        "/members?cohort=bronze-1&ids=a",
        "/members/a?cohort=bronze-1",
        "/stats?cohort=bronze-1",
        "/at-percentile/1?cohort=bronze-1",
        "/periods/current/export?format=csv&cohort=bronze-1",
        "/tiers",
        "/tiers/bronze/cohorts",
    ] {
        let plain = format!("/v1/boards/plain/standings/week{rest}");
        client.get(&plain).await.expect_problem(404, "no-league");
    }
    let history = client
        .get("/v1/boards/plain/league/members/a/history")
        .await;
    history.expect_problem(404, "no-league");
    for name in [
        "bronze-2",
        "bronze-0",
        "bronze-01",
        "bronze",
        "silver-1",
        "steel-1",
        "bronze-1-1",
        "-1",
        "%22",
    ] {
        for rest in [
            "?",
            "/members?ids=ann&",
            "/members/ann?",
            "/stats?",
            "/at-percentile/50?",
            "/stream?",
            "/periods/previous/export?format=csv&",
        ] {
            let answer = client.get(&path(&format!("{rest}cohort={name}"))).await;
            answer.expect_problem(404, "cohort-not-found");
        }
    }
    // Nobody was seated in these weeks.
    for key in ["previous", "2026-11-30"] {
        let answer = client
            .get(&path(&format!("?cohort=bronze-1&key={key}")))
            .await;
        answer.expect_problem(404, "cohort-not-found");
    }
    let member = client.get(&path("/members/bob?cohort=bronze-1")).await;
    member.expect_problem(404, "member-not-found");
    let detail = client
        .get(&path("/tiers/steel/cohorts"))
        .await
        .expect_problem(404, "unknown-tier");
    assert!(detail.ends_with("bronze, silver, gold"), "{detail}");
    // Of what is not of one cohort none can be named.
    for rest in ["/tiers", "/tiers/bronze/cohorts"] {
        let answer = client.get(&path(&format!("{rest}?cohort=bronze-1"))).await;
        answer.expect_problem(400, "invalid-parameter");
    }
    for after in ["silver-1", "bronze-x"] {
        let answer = client
            .get(&path(&format!("/tiers/bronze/cohorts?after={after}")))
            .await;
        answer.expect_problem(400, "invalid-parameter");
    }
    let before = client
        .get("/v1/boards/l/league/members/ann/history?before=x")
        .await;
    before.expect_problem(400, "invalid-parameter");
    client
        .get("/v1/boards/l/standings/day/tiers")
        .await
        .expect_problem(404, "unknown-window");
}

#[tokio::test(flavor = "multi_thread")]
async fn zones_follow_cuts_ties_hides_and_the_minimum_score() {
    let world = world(json!({"min_cohort": 4, "min_score_to_promote": 5})).await;
    let client = world.client();
    // One fewer than `min_cohort`: nobody moves, whatever they have.
    play(&world, WEEK, &[("ann", 9), ("bob", 9), ("cid", 4)]).await;
    assert_eq!(
        zone(&get(client, "/members/ann").await),
        json!(["safe", [null, null, null]])
    );
    // ⌊0.3 · 4⌋ = 1: of two with the same score the first to reach it goes up.
    play(&world, WEEK, &[("dan", 0)]).await;
    assert_eq!(
        zone(&get(client, "/members/ann").await),
        json!(["promotion", [null, null, null]])
    );
    assert_eq!(
        zone(&get(client, "/members/bob").await),
        json!(["safe", [1, null, null]])
    );
    assert_eq!(
        zone(&get(client, "/members/dan").await),
        json!(["safe", [10, null, null]])
    );
    // A hidden member is not counted: with three of them nobody moves.
    let hide = "/v1/boards/l/hidden/dan";
    client
        .put(hide, json!({"reason": "cheats"}))
        .await
        .expect(200);
    assert_eq!(
        zone(&get(client, "/members/ann").await),
        json!(["safe", [null, null, null]])
    );
    client
        .get(&path("/members/dan"))
        .await
        .expect_problem(404, "member-not-found");
    let shown = get(client, "/members/dan?hidden=include").await;
    assert_eq!(
        (&shown["hidden"], &shown["rank"]),
        (&json!(true), &json!(4))
    );
    assert_eq!(zone(&shown), json!([null, [null, null, null]]));
    // Who sees hidden members sees others in the zones that they have.
    let shown = get(client, "/members/ann?hidden=include").await;
    assert_eq!(
        (&shown["total"], &shown["behind"]["member"]),
        (&json!(4), &json!("bob"))
    );
    assert_eq!(zone(&shown), json!(["safe", [null, null, null]]));
    client.delete(hide).await.expect(204);
    // The next two are beyond the cut; with seven, two go up, if they have 5 points.
    play(&world, WEEK, &[("eve", 1), ("fay", 2), ("gus", 3)]).await;
    assert_eq!(
        zone(&get(client, "/members/bob").await),
        json!(["promotion", [null, null, null]])
    );
    assert_eq!(
        zone(&get(client, "/members/cid").await),
        json!(["safe", [6, null, null]])
    );
    for member in ["ann", "bob"] {
        client
            .put(
                &format!("/v1/boards/l/hidden/{member}"),
                json!({"reason": "cheats"}),
            )
            .await
            .expect(200);
    }
    // Five are counted, and one could go up, who has too few points.
    assert_eq!(
        zone(&get(client, "/members/cid").await),
        json!(["safe", [1, null, null]])
    );
    assert_eq!(
        zone(&get(client, "/members/gus").await),
        json!(["safe", [2, null, null]])
    );
    send(client, WEEK, "cid", 1).await;
    assert_eq!(
        zone(&get(client, "/members/cid").await),
        json!(["promotion", [null, null, null]])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tiers_and_their_cohorts_are_listed() {
    let world = world(json!({"cohort_size": 2})).await;
    let members: Vec<String> = (0..7).map(|index| format!("m{index}")).collect();
    let joins = members.iter().zip(world.instances.iter().cycle());
    join_all(joins.map(|(member, instance)| join(&instance.client, member))).await;
    for instance in &world.instances {
        let client = &instance.client;
        let tiers = get(client, "/tiers").await;
        let expected = json!({"board": "l", "window": "week", "key": WEEK, "starts_at": "2026-11-16T00:00:00Z",
            "ends_at": "2026-11-23T00:00:00Z", "state": "live", "tiers": [
            {"tier": "bronze", "promote": 0.3, "demote": 0, "cohorts": 4, "members": 7},
            {"tier": "silver", "promote": 0.25, "demote": 0.25, "cohorts": 0, "members": 0},
            {"tier": "gold", "promote": 0, "demote": 0.5, "cohorts": 0, "members": 0}]});
        assert_eq!(tiers, expected);
        let cohorts = get(client, "/tiers/bronze/cohorts").await;
        assert_eq!(
            (&cohorts["tier"], &cohorts["next"]),
            (&json!("bronze"), &Value::Null)
        );
        let listed = cohorts["cohorts"].as_array().unwrap();
        let names = listed
            .iter()
            .map(|cohort| cohort["cohort"].as_str().unwrap());
        assert!(names.eq(["bronze-1", "bronze-2", "bronze-3", "bronze-4"]));
        let sizes = listed
            .iter()
            .map(|cohort| cohort["members"].as_u64().unwrap());
        assert!(sizes.clone().all(|size| (1..=2).contains(&size)) && sizes.sum::<u64>() == 7);
        let part = get(client, "/tiers/bronze/cohorts?limit=2&after=bronze-1").await;
        let names: Vec<&Value> = part["cohorts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cohort| &cohort["cohort"])
            .collect();
        assert_eq!(
            json!([names, part["next"]]),
            json!([["bronze-2", "bronze-3"], "bronze-3"])
        );
        assert_eq!(
            get(client, "/tiers/bronze/cohorts?after=bronze-4").await["cohorts"],
            json!([])
        );
        assert_eq!(
            get(client, "/tiers/gold/cohorts").await["cohorts"],
            json!([])
        );
        let empty = get(client, "/tiers?key=2026-11-30").await;
        assert_eq!(
            (&empty["state"], &empty["tiers"][0]["members"]),
            (&json!("upcoming"), &json!(0))
        );
        let summary = client.get("/v1/boards/l/summary").await.expect(200);
        let week = &summary["windows"][0];
        assert_eq!(
            (&week["total"], &week["key"], &week["state"]),
            (&json!(7), &json!(WEEK), &json!("live"))
        );
    }
    turn(&world, NEXT_WEEK).await;
    let last = get(world.client(), "/tiers?key=previous").await;
    assert_eq!(
        (&last["state"], &last["tiers"][0]["members"]),
        (&json!("final"), &json!(7))
    );
    let last = get(world.client(), "/tiers/bronze/cohorts?key=previous").await;
    assert_eq!(
        (&last["state"], last["cohorts"].as_array().unwrap().len()),
        (&json!("final"), 4)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_many_boards_find_cohorts_too() {
    let world = world(json!({})).await;
    let client = world.client();
    client.define("plain", json!({"windows": ["week"]})).await;
    play(&world, WEEK, &[("ann", 5), ("bob", 9)]).await;
    let plain = json!({"id": "p", "member": "ann", "score": 3});
    client
        .post("/v1/boards/plain/events", plain)
        .await
        .expect(200);
    let boards = "/standings?boards=l,plain&window=week";
    let ann = client
        .get(&format!("/v1/members/ann{boards}"))
        .await
        .expect(200);
    let [first, second] = ann["standings"].as_array().unwrap().as_slice() else {
        panic!("{ann}")
    };
    assert_eq!(
        (&first["cohort"], &first["total"], &first["entry"]["rank"]),
        (&json!("bronze-1"), &json!(2), &json!(2))
    );
    assert_eq!(
        (&second["cohort"], &second["entry"]["score"]),
        (&Value::Null, &json!(3))
    );
    let cid = client
        .get(&format!("/v1/members/cid{boards}"))
        .await
        .expect(200);
    let first = &cid["standings"][0];
    assert_eq!(
        (
            &first["type"],
            &first["total"],
            &first["entry"],
            &first["key"]
        ),
        (&json!("entry"), &json!(0), &Value::Null, &json!(WEEK))
    );
    let of = |more: Value| {
        let mut query = json!({"board": "l", "window": "week"});
        query
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        query
    };
    let queries = json!({"queries": [
        of(json!({"type": "member", "member": "ann"})),
        of(json!({"type": "member", "member": "ann", "cohort": "bronze-1"})),
        of(json!({"type": "page", "cohort": "bronze-1"})),
        of(json!({"type": "subset", "cohort": "bronze-1", "ids": ["bob"]})),
        of(json!({"type": "stats", "cohort": "bronze-1"})),
        of(json!({"type": "page"})),
        of(json!({"type": "stats", "cohort": "bronze-2"})),
        {"type": "page", "board": "plain", "window": "week", "cohort": "bronze-1"},
        {"type": "member", "board": "plain", "window": "week", "member": "ann"},
    ]});
    let answers = client
        .post("/v1/standings/query", queries)
        .await
        .expect(200);
    let answers = answers["results"].as_array().unwrap();
    for member in &answers[..2] {
        assert_eq!(
            (&member["rank"], &member["league"]["seat"]["zone"]),
            (&json!(2), &json!("safe"))
        );
    }
    assert_eq!(answers[2]["entries"][0]["member"], "bob");
    assert_eq!(answers[3]["entries"][0]["rank"], 1);
    assert_eq!(answers[4]["members"], 2);
    assert_eq!(answers[5]["problem"]["code"], "cohort-required");
    assert_eq!(answers[6]["problem"]["code"], "cohort-not-found");
    assert_eq!(answers[7]["problem"]["code"], "no-league");
    assert_eq!(
        (&answers[8]["rank"], answers[8].get("league")),
        (&json!(1), None)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_learns_its_cohort_and_the_outcome_of_its_last_seat() {
    let bonus = json!([{"ranks": [1, 1], "score": 50}, {"ranks": [1, 2], "score": 20}]);
    let world = world(json!({"idle": "demote", "entry_bonus": bonus})).await;
    let client = world.client();
    // Whom nobody knows would begin in the first tier.
    let stranger = get(client, "/members/ann").await;
    let expected = json!({"board": "l", "window": "week", "key": WEEK, "starts_at": "2026-11-16T00:00:00Z",
        "ends_at": "2026-11-23T00:00:00Z", "state": "live", "total": 0, "rank": null, "member": "ann", "score": 0,
        "percentile": null, "ahead": null, "behind": null, "previous": null,
        "league": {"tier": "bronze", "seat": null, "last": null}});
    assert_eq!(stranger, expected);
    play(
        &world,
        WEEK,
        &[("ann", 9), ("bob", 5), ("cid", 1), ("dan", 0)],
    )
    .await;
    let moderate = "/v1/boards/l/league/members/gil";
    client
        .put(moderate, json!({"tier": "gold"}))
        .await
        .expect(200);
    // The week is over. Nobody has looked yet: the read turns the seat over itself.
    world.set_time(&format!("{NEXT_WEEK}T00:00:01Z"));
    let played = |cohort: &str, position: u64, score: u64, moved: &str, bonus: u64| {
        let (tier, _) = cohort.split_once('-').unwrap();
        json!({"key": WEEK, "tier": tier, "cohort": cohort, "position": position, "score": score, "move": moved, "bonus": bonus})
    };
    let last = played("bronze-1", 1, 9, "up", 70);
    for instance in &world.instances {
        let ann = get(&instance.client, "/members/ann").await;
        assert_eq!(
            ann["league"],
            json!({"tier": "silver", "seat": null, "last": last})
        );
        assert_eq!(
            (&ann["key"], &ann["score"]),
            (&json!(NEXT_WEEK), &json!(70))
        );
        assert_eq!((&ann["rank"], ann.get("cohort")), (&Value::Null, None));
    }
    turn(&world, NEXT_WEEK).await;
    // The last week as it is now.
    for (member, zone_then, moved) in [
        ("ann", "promotion", "up"),
        ("bob", "safe", "stay"),
        ("dan", "safe", "stay"),
    ] {
        let then = get(client, &format!("/members/{member}?key=previous")).await;
        assert_eq!(
            (&then["state"], &then["cohort"]),
            (&json!("final"), &json!("bronze-1"))
        );
        assert_eq!(then["league"]["tier"], "bronze");
        assert_eq!(zone(&then), json!([zone_then, [null, null, null]]));
        assert_eq!(then["league"]["last"], Value::Null);
        let now = get(client, &format!("/members/{member}")).await;
        assert_eq!(now["league"]["last"]["move"], moved);
    }
    // Who had no seat then was not in that standing.
    client
        .get(&path("/members/gil?key=previous"))
        .await
        .expect_problem(404, "member-not-found");
    assert_eq!(get(client, "/members/gil").await["league"]["tier"], "gold");
    assert_eq!(
        get(client, "/members/zoe").await["league"]["tier"],
        "bronze"
    );
    // In the new week: other tiers, bonuses, and three kinds of zones.
    play(
        &world,
        NEXT_WEEK,
        &[("ann", 0), ("gil", 3), ("bob", 2), ("cid", 0)],
    )
    .await;
    let ann = get(client, "/members/ann").await;
    let seat = json!({"cohort": "silver-1", "zone": "safe", "to_promotion": null, "to_safety": null, "to_demotion": null});
    assert_eq!(
        ann["league"],
        json!({"tier": "silver", "seat": seat, "last": last})
    );
    assert_eq!((&ann["rank"], &ann["score"]), (&json!(1), &json!(70)));
    let bob = get(client, "/members/bob").await;
    assert_eq!(
        (&bob["score"], &bob["league"]["last"]["bonus"]),
        (&json!(22), &json!(20))
    );
    assert_eq!(get(client, "/tiers").await["tiers"][2]["members"], 1);
    for (member, weeks) in [("ann", 1), ("gil", 0), ("zoe", 0)] {
        let history = format!("/v1/boards/l/league/members/{member}/history");
        let history = client.get(&history).await.expect(200);
        assert_eq!(history["seats"].as_array().unwrap().len(), weeks);
    }
    // Two weeks later: of ann's week in silver there is a line; whoever misses a week goes down.
    turn(&world, "2026-11-30").await;
    join(client, "gil").await;
    turn(&world, "2026-12-07").await;
    let history = "/v1/boards/l/league/members/ann/history";
    let all = client.get(history).await.expect(200);
    let silver = json!({"key": NEXT_WEEK, "tier": "silver", "cohort": "silver-1", "position": 1, "score": 70, "move": "stay", "bonus": 70});
    assert_eq!(
        all,
        json!({"board": "l", "member": "ann", "seats": [silver, last], "next": null})
    );
    let part = client.get(&format!("{history}?limit=1")).await.expect(200);
    assert_eq!(
        (&part["seats"], &part["next"]),
        (&json!([silver]), &json!(NEXT_WEEK))
    );
    let rest = client
        .get(&format!("{history}?limit=1&before={NEXT_WEEK}"))
        .await
        .expect(200);
    assert_eq!(
        (&rest["seats"], &rest["next"]),
        (&json!([last]), &Value::Null)
    );
    let ann = get(client, "/members/ann").await;
    assert_eq!(
        ann["league"],
        json!({"tier": "bronze", "seat": null, "last": silver})
    );
    assert_eq!(ann["score"], 70, "the bonus waits for the next seat");
    let before = get(client, &format!("/members/ann?key={NEXT_WEEK}")).await;
    assert_eq!(
        (&before["cohort"], &before["league"]["last"]),
        (&json!("silver-1"), &last)
    );
    // Hidden members are as if they were not there, but for moderators.
    client
        .put("/v1/boards/l/hidden/ann", json!({"reason": "cheats"}))
        .await
        .expect(200);
    for rest in ["/members/ann", "/members/ann?key=2026-11-16"] {
        client
            .get(&path(rest))
            .await
            .expect_problem(404, "member-not-found");
    }
    assert_eq!(client.get(history).await.expect(200)["seats"], json!([]));
    let seen = client.get(&format!("{history}?hidden=include")).await;
    assert_eq!(seen.headers["cache-control"], "private, no-store");
    assert_eq!(seen.json["seats"], json!([silver, last]));
    let seen = get(client, "/members/ann?hidden=include").await;
    assert_eq!(
        (&seen["hidden"], &seen["league"]["tier"]),
        (&json!(true), &json!("bronze"))
    );
    // Who was erased is a stranger.
    client.delete("/v1/boards/l/members/ann").await.expect(204);
    client.delete("/v1/boards/l/hidden/ann").await;
    assert_eq!(
        get(client, "/members/ann").await["league"],
        json!({"tier": "bronze", "seat": null, "last": null})
    );
    assert_eq!(client.get(history).await.expect(200)["seats"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn cohorts_keep_the_names_that_their_tiers_had() {
    let world = world(json!({})).await;
    let client = world.client();
    play(&world, WEEK, &[("ann", 9), ("bob", 5)]).await;
    let tiers = json!([{"name": "wood", "promote": 0.5, "demote": 0}, {"name": "steel", "promote": 0, "demote": 0}]);
    client
        .patch(
            "/v1/boards/l",
            json!({"league": {"tiers": tiers, "cohort_size": 2}}),
        )
        .await
        .expect(200);
    assert_eq!(get(client, "/tiers").await["tiers"][0]["tier"], "bronze");
    assert_eq!(get(client, "/members/ann").await["cohort"], "bronze-1");
    client
        .get(&path("?cohort=wood-1"))
        .await
        .expect_problem(404, "cohort-not-found");
    turn(&world, NEXT_WEEK).await;
    assert_eq!(
        get(client, "?cohort=bronze-1&key=previous").await["total"],
        2
    );
    assert_eq!(get(client, "/members/ann").await["league"]["tier"], "wood");
    play(&world, NEXT_WEEK, &[("ann", 1)]).await;
    assert_eq!(get(client, "/members/ann").await["cohort"], "wood-1");
    client
        .get(&path("?cohort=bronze-1"))
        .await
        .expect_problem(404, "cohort-not-found");
    let names: Vec<Value> = ["", "?key=previous"]
        .map(ToOwned::to_owned)
        .into_iter()
        .map(Value::from)
        .collect();
    assert_eq!(names.len(), 2);
    let history = client
        .get("/v1/boards/l/league/members/ann/history")
        .await
        .expect(200);
    assert_eq!(history["seats"][0]["cohort"], "bronze-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_is_exported() {
    let world = world(json!({})).await;
    let client = world.client();
    play(&world, WEEK, &[("ann", 9), ("bob", 5)]).await;
    let lines = "rank,member,score,reached_at\n1,ann,9,2026-11-16T10:00:00.000002Z\n2,bob,5,2026-11-16T10:00:01.000002Z\n";
    let running = client
        .get(&path("/periods/current/export?format=csv&cohort=bronze-1"))
        .await;
    assert_eq!(
        (running.status.as_u16(), running.text.as_str()),
        (200, lines)
    );
    turn(&world, NEXT_WEEK).await;
    for rest in [
        "/periods/previous/export?format=csv&cohort=bronze-1",
        "/periods/2026-11-16/export?format=csv&cohort=bronze-1",
    ] {
        let export = client.get(&path(rest)).await;
        assert_eq!(
            (export.status.as_u16(), export.text.as_str()),
            (200, lines),
            "{rest}"
        );
        let name = export.headers["content-disposition"].to_str().unwrap();
        assert_eq!(
            name,
            "attachment; filename=\"l-week-2026-11-16-bronze-1.csv\""
        );
    }
    let unknown = client
        .get(&path("/periods/previous/export?format=csv&cohort=bronze-2"))
        .await;
    unknown.expect_problem(404, "cohort-not-found");
}

#[tokio::test(flavor = "multi_thread")]
async fn anyone_reads_a_public_league_and_caches_know_its_content() {
    let world = World::with_keys(
        1,
        &at(WEEK, 0),
        "read:a-reader,write:a-writer,admin:an-admin",
    )
    .await;
    let open = world.client();
    let (admin, writer) = (open.with_key("an-admin"), open.with_key("a-writer"));
    let public = json!({"public": true, "public_includes": ["profile"], "entry_data": true});
    admin.define("l", league(&json!({}), &public)).await;
    join(&writer, "ann").await;
    let event = json!({"id": "e", "member": "ann", "score": 3, "data": {"car": "gt"}});
    writer.post("/v1/boards/l/events", event).await.expect(200);
    let profile = json!({"name": "Ann"});
    writer.put("/v1/members/ann/profile", profile).await;
    let history = "/v1/boards/l/league/members/ann/history";
    for rest in [
        path("/members/ann?include=profile"),
        path("?cohort=bronze-1&include=profile"),
        path("/members?cohort=bronze-1&ids=ann"),
        path("/stats?cohort=bronze-1"),
        path("/tiers"),
        path("/tiers/bronze/cohorts"),
        history.to_owned(),
    ] {
        let first = open.get(&rest).await;
        assert_eq!(first.status, 200, "{rest}: {}", first.text);
        assert!(
            first.headers["cache-control"]
                .to_str()
                .unwrap()
                .starts_with("public, max-age=1")
        );
        let again = open
            .builder(reqwest::Method::GET, &rest)
            .header("If-None-Match", &first.headers["etag"]);
        assert_eq!(Client::send(again).await.status, 304, "{rest}");
    }
    for (rest, status) in [
        ("/members/ann?hidden=include", 401),
        ("?cohort=bronze-1&include=data", 401),
        ("/periods/current/export?format=csv&cohort=bronze-1", 401),
    ] {
        assert_eq!(open.get(&path(rest)).await.status, status, "{rest}");
    }
    let hidden = format!("{history}?hidden=include");
    open.with_key("a-reader")
        .get(&hidden)
        .await
        .expect_problem(403, "forbidden");
    let shown = open
        .get(&path("/members/ann?include=profile"))
        .await
        .expect(200);
    assert_eq!(shown["profile"]["name"], "Ann");
    let shown = open
        .get(&path("/members/zoe?include=profile"))
        .await
        .expect(200);
    assert_eq!(shown["profile"], Value::Null);
    let data = writer
        .get(&path("/members/ann?include=data&around=1"))
        .await
        .expect(200);
    assert_eq!(
        (&data["data"], &data["around"][0]["data"]),
        (&json!({"car": "gt"}), &json!({"car": "gt"}))
    );
    // What has changed has another tag.
    let before = open.get(&path("/members/ann")).await.headers["etag"].clone();
    writer
        .post(
            "/v1/boards/l/events",
            json!({"id": "f", "member": "ann", "score": 1}),
        )
        .await
        .expect(200);
    assert_ne!(
        open.get(&path("/members/ann")).await.headers["etag"],
        before
    );
}
