//! Quotas: what a board takes from one voter, for one member, … in a stretch of time.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::client::Answer;
use crate::harness::{Client, World};

const NOW: &str = "2026-11-21T12:00:00Z";

/// Each test on a board with one shard, and on one whose counts lie in other slots than its members.
macro_rules! on_one_shard_and_several {
    ($($test:ident,)*) => {
        mod one_shard {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(1).await;
            })*
        }
        mod several_shards {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(7).await;
            })*
        }
    };
}

on_one_shard_and_several! {
    a_sliding_window_is_exact_to_the_millisecond_whatever_the_order,
    the_clock_frees_a_sliding_window_and_the_headers_say_when,
    periods_are_those_of_the_boards_calendar_and_a_total_never_frees,
    points_can_be_counted_and_channels_have_allowances_on_top,
    a_member_has_so_many_attempts_in_a_period,
    a_repeated_event_takes_nothing_and_is_answered_as_before,
    an_item_of_a_batch_is_refused_alone,
    many_clients_at_once_never_get_one_vote_too_many_through,
    what_is_left_can_be_read,
    a_definition_of_quotas_is_checked_and_can_change_with_events,
    an_event_that_is_taken_says_what_it_leaves,
}

/// A board with these quotas and the windows `all`.
async fn world(shards: u16, quotas: Value) -> World {
    let world = World::with_instances(2, NOW).await;
    let definition = json!({"windows": ["all"], "timezone": "Asia/Kolkata", "decimals": 1, "shards": shards, "quotas": quotas});
    world.client().define("votes", definition).await;
    world
}

async fn vote(client: &Client, event: Value) -> Answer {
    let mut body = json!({"member": "alice", "score": 1, "voter": "v"});
    let fields = event.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    client.post("/v1/boards/votes/events", body).await
}

/// Checks that an event was taken.
#[track_caller]
fn taken(answer: Answer) {
    assert_eq!(answer.expect(200)["status"], "applied");
}

/// Checks that an event was refused by this quota, and returns when it frees.
#[track_caller]
fn refused(answer: Answer, quota: &str) -> Value {
    assert_eq!(answer.json["quota"], quota, "{}", answer.text);
    let frees_at = answer.json["frees_at"].clone();
    answer.expect_problem(429, "quota-exceeded");
    frees_at
}

async fn total_of(client: &Client, member: &str) -> Value {
    let path = format!("/v1/boards/votes/standings/all/members/{member}");
    client.get(&path).await.json["score"].clone()
}

async fn a_sliding_window_is_exact_to_the_millisecond_whatever_the_order(shards: u16) {
    let quotas = json!([{"name": "voter-minute", "by": ["voter"], "window": "1m", "max": 2}]);
    let world = world(shards, quotas).await;
    let client = world.client();
    let at = async |at: &str| vote(client, json!({"at": format!("2026-11-21T11:{at}Z")})).await;

    taken(at("50:00.000").await);
    taken(at("50:30.000").await);
    let third = at("50:59.999").await;
    assert_eq!(
        third.headers["ratelimit-policy"],
        "\"voter-minute\";q=2;w=60"
    );
    // By the clock it is free long since.
    assert_eq!(third.headers["ratelimit"], "\"voter-minute\";r=0;t=0");
    assert_eq!(third.headers["retry-after"], "1");
    assert_eq!(refused(third, "voter-minute"), "2026-11-21T11:51:00.000Z");
    taken(at("51:00.000").await);
    refused(at("51:29.999").await, "voter-minute");
    taken(at("51:30.000").await);
    // Between two that are there already, and before them all.
    refused(at("50:45.000").await, "voter-minute");
    refused(at("49:30.001").await, "voter-minute");
    taken(at("49:30.000").await);
    taken(
        vote(
            client,
            json!({"at": "2026-11-21T11:50:10Z", "voter": "other"}),
        )
        .await,
    );
    assert_eq!(total_of(client, "alice").await, 6);
}

async fn the_clock_frees_a_sliding_window_and_the_headers_say_when(shards: u16) {
    let quotas = json!([{"name": "voter-minute", "by": ["voter"], "window": "1m", "max": 5}]);
    let world = world(shards, quotas).await;
    let client = world.client();
    for second in [0, 10, 20, 30, 40] {
        world.set_time(&format!("2026-11-21T12:00:{second:02}Z"));
        taken(vote(client, json!({})).await);
    }
    let sixth = vote(client, json!({})).await;
    assert_eq!(sixth.headers["ratelimit"], "\"voter-minute\";r=0;t=20");
    assert_eq!(sixth.headers["retry-after"], "20");
    assert_eq!(refused(sixth, "voter-minute"), "2026-11-21T12:01:00.000Z");
    world.set_time("2026-11-21T12:00:59.999Z");
    refused(vote(client, json!({})).await, "voter-minute");
    world.set_time("2026-11-21T12:01:00Z");
    taken(vote(client, json!({})).await);
}

async fn periods_are_those_of_the_boards_calendar_and_a_total_never_frees(shards: u16) {
    let quotas = json!([
        {"name": "device-hour", "by": ["voter", "device"], "window": "hour", "max": 1},
        {"name": "once", "by": ["member", "ip"], "window": "total", "max": 2}]);
    let world = world(shards, quotas).await;
    let client = world.client();
    let origin = |at: &str, device: &str, ip: &str| json!({"at": at, "device": device, "ip": ip});
    // An hour in India begins at half past.
    let hour = ["2026-11-21T10:30:00Z", "2026-11-21T11:29:59.999Z"];
    taken(vote(client, origin(hour[0], "d", "203.0.113.7")).await);
    let refusal = vote(client, origin(hour[1], "d", "203.0.113.8")).await;
    assert_eq!(
        refusal.headers["ratelimit-policy"],
        "\"device-hour\";q=1;w=3600"
    );
    assert_eq!(refused(refusal, "device-hour"), "2026-11-21T11:30:00.000Z");
    taken(vote(client, origin("2026-11-21T11:30:00Z", "d", "203.0.113.7")).await);

    let never = vote(client, origin(hour[1], "e", "203.0.113.7")).await;
    assert_eq!(never.headers["ratelimit-policy"], "\"once\";q=2");
    assert!(!never.headers.contains_key("retry-after"));
    assert_eq!(refused(never, "once"), Value::Null);
    // What one quota refuses takes nothing from another.
    taken(vote(client, origin(hour[1], "e", "203.0.113.9")).await);
    // An IPv6 address counts by its network, and one that wraps an IPv4 address as that.
    for ip in ["2001:db8:1:2::1", "2001:db8:1:2:ffff::2"] {
        let device = format!("device of {ip}");
        taken(vote(client, origin(hour[1], &device, ip)).await);
    }
    let third = origin(hour[1], "f", "2001:db8:1:2::3");
    refused(vote(client, third).await, "once");
    let wrapped = origin(hour[1], "f", "::ffff:203.0.113.7");
    refused(vote(client, wrapped).await, "once");
    assert_eq!(total_of(client, "alice").await, 5);
}

async fn points_can_be_counted_and_channels_have_allowances_on_top(shards: u16) {
    let quotas = json!([{"name": "points", "by": ["voter"], "window": "day", "max": 5, "measure": "score",
        "extra": [{"channel": ["partner-a"], "max": 2}, {"channel": ["partner-a", "partner-b"], "max": 1}]}]);
    let world = world(shards, quotas).await;
    let client = world.client();
    taken(vote(client, json!({"score": 2.5})).await);
    taken(vote(client, json!({"score": -2})).await);
    let little = vote(client, json!({"score": 0.6})).await;
    let detail = "quota points of board votes has too little left: the event has 0.6, and 4.5 of 5 points are used in the day; it frees up at 2026-11-21T18:30:00.000Z";
    assert_eq!(little.json["detail"], detail);
    refused(little, "points");
    taken(vote(client, json!({"score": 0.5, "channel": "partner-a"})).await);
    taken(vote(client, json!({"score": 1.5, "channel": "partner-a"})).await);
    taken(vote(client, json!({"score": 1, "channel": "partner-a"})).await);
    for (channel, used) in [
        (
            "partner-a",
            "has too little left: the event has 0.8, and 7.5 of 8 points are used",
        ),
        ("partner-b", "is used up: 6 of 6 points in the day"),
        ("partner-c", "is used up: 5 of 5 points in the day"),
    ] {
        let answer = vote(client, json!({"score": 0.8, "channel": channel})).await;
        let detail = answer.json["detail"].as_str().unwrap();
        assert!(detail.contains(used), "{detail}");
        refused(answer, "points");
    }
    taken(vote(client, json!({"score": 0.5, "channel": "partner-a"})).await);
    assert_eq!(total_of(client, "alice").await, 4);
}

async fn a_member_has_so_many_attempts_in_a_period(shards: u16) {
    let world = World::start(NOW).await;
    let client = world.client();
    let definition = json!({"windows": ["all"], "update": "max", "shards": shards, "quotas": [
        {"name": "attempts-day", "by": ["member"], "window": "day", "max": 2},
        {"name": "attempts-all", "by": ["member"], "window": "total", "max": 3}]});
    client.define("votes", definition).await;
    let attempt = async |at: &str| vote(client, json!({"at": at})).await;
    taken(attempt("2026-11-20T23:59:59.999Z").await);
    // The second one improves nothing, and is an attempt all the same.
    attempt("2026-11-20T13:00:00Z").await.expect(200);
    let third = refused(attempt("2026-11-20T14:00:00Z").await, "attempts-day");
    assert_eq!(third, "2026-11-21T00:00:00.000Z");
    attempt("2026-11-21T00:00:00Z").await.expect(200);
    let last = attempt("2026-11-21T01:00:00Z").await;
    let detail = "quota attempts-all of board votes is used up: 3 of 3 events in total";
    assert_eq!(last.json["detail"], detail);
    refused(last, "attempts-all");
    taken(vote(client, json!({"member": "bob"})).await);
    let left = &client
        .get("/v1/boards/votes/quotas?member=bob")
        .await
        .expect(200)["quotas"][0];
    assert_eq!(
        (&left["name"], &left["left"]),
        (&json!("attempts-day"), &json!(1))
    );
}

async fn a_repeated_event_takes_nothing_and_is_answered_as_before(shards: u16) {
    let quotas = json!([{"name": "once", "by": ["voter"], "window": "total", "max": 1}]);
    let world = world(shards, quotas).await;
    let client = world.client();
    let ballot = |id: &str, voter: &str| json!({"id": id, "voter": voter});
    taken(vote(client, ballot("x", "v")).await);
    for _ in 0..3 {
        let again = vote(client, ballot("x", "v")).await.expect(200);
        assert_eq!(again["status"], "duplicate");
    }
    refused(vote(client, ballot("y", "v")).await, "once");
    // Who has sent it belongs to what an event is.
    vote(client, ballot("x", "w"))
        .await
        .expect_problem(422, "event-id-reused");
    taken(vote(client, ballot("y", "w")).await);

    let missing = client
        .post(
            "/v1/boards/votes/events",
            json!({"member": "a", "score": 1}),
        )
        .await;
    assert_eq!(missing.json["errors"][0]["pointer"], "/voter");
    missing.expect_problem(422, "validation-failed");
    let wrong = vote(client, json!({"ip": "somewhere", "device": ""})).await;
    let errors = wrong.json["errors"].as_array().unwrap().iter();
    let pointers: Vec<_> = errors.map(|error| error["pointer"].clone()).collect();
    assert_eq!(pointers, ["/device", "/ip"]);
    wrong.expect(422);
}

async fn an_item_of_a_batch_is_refused_alone(shards: u16) {
    let quotas = json!([{"name": "minute", "by": ["voter"], "window": "60s", "max": 2}]);
    let world = world(shards, quotas).await;
    let client = world.client();
    let event = |member: &str, voter: &str| json!({"board": "votes", "member": member, "score": 1, "voter": voter});
    let events = [
        event("a", "v"),
        event("b", "v"),
        event("c", "v"),
        event("c", "w"),
    ];
    let answer = client.post("/v1/events", json!({"events": events})).await;
    let results = answer.expect(200)["results"].clone();
    let statuses: Vec<_> = (0..4).map(|item| results[item]["status"].clone()).collect();
    assert_eq!(statuses, ["applied", "applied", "rejected", "applied"]);
    assert_eq!(results[2]["problem"]["quota"], "minute");
    assert_eq!(total_of(client, "c").await, 1);
}

async fn many_clients_at_once_never_get_one_vote_too_many_through(shards: u16) {
    let quotas = json!([
        {"name": "minute", "by": ["voter"], "window": "1m", "max": 5},
        {"name": "hour", "by": ["voter", "member"], "window": "hour", "max": 7}]);
    let world = world(shards, quotas).await;
    let hammer = async |task: usize, minute: usize| {
        let client = &world.instances[task % 2].client;
        let mut count = 0;
        for number in 0..8 {
            let id = format!("{minute}-{task}-{number}");
            let answer = vote(client, json!({"id": id})).await;
            count += usize::from(answer.status == 200);
            assert!(
                [200, 429].contains(&answer.status.as_u16()),
                "{}",
                answer.text
            );
        }
        count
    };
    let in_minute = async |minute| -> usize {
        let counts = (0..64).map(|task| hammer(task, minute));
        join_all(counts).await.into_iter().sum()
    };
    assert_eq!(in_minute(0).await, 5);
    world.set_time("2026-11-21T12:01:00Z");
    assert_eq!(in_minute(1).await, 2, "seven in the hour");
    assert_eq!(total_of(world.client(), "alice").await, 7);
}

async fn what_is_left_can_be_read(shards: u16) {
    let quotas = json!([
        {"name": "minute", "by": ["voter"], "window": "1m", "max": 3, "extra": [{"channel": ["partner"], "max": 2}]},
        {"name": "points", "by": ["voter", "member"], "window": "hour", "max": 2, "measure": "score"},
        {"name": "device", "by": ["device"], "window": "total", "max": 1}]);
    let world = world(shards, quotas).await;
    let client = world.client();
    let left = async |query: &str| {
        let answer = client
            .get(&format!("/v1/boards/votes/quotas?{query}"))
            .await;
        answer.expect(200)["quotas"].clone()
    };
    assert_eq!(
        left("voter=v").await,
        json!([{"name": "minute", "window": "1m", "max": 3, "used": 0, "left": 3, "extra": [], "frees_at": null}])
    );
    for second in ["00", "20", "40"] {
        world.set_time(&format!("2026-11-21T12:00:{second}Z"));
        taken(vote(client, json!({"score": 0.5, "device": second})).await);
    }
    taken(
        vote(
            client,
            json!({"score": 0, "device": "d", "channel": "partner"}),
        )
        .await,
    );
    assert_eq!(
        left("voter=v&member=alice&channel=partner&device=d").await,
        json!([
            {"name": "minute", "window": "1m", "max": 3, "used": 3, "left": 0,
             "extra": [{"max": 2, "used": 1, "left": 1}], "frees_at": "2026-11-21T12:01:00.000Z"},
            {"name": "points", "window": "hour", "max": 2, "used": 1.5, "left": 0.5, "extra": [],
             "frees_at": "2026-11-21T12:30:00.000Z"},
            {"name": "device", "window": "total", "max": 1, "used": 1, "left": 0, "extra": [], "frees_at": null}])
    );
    world.set_time("2026-11-21T12:01:00Z");
    let minute = left("voter=v").await[0].clone();
    assert_eq!((&minute["used"], &minute["left"]), (&json!(2), &json!(1)));
    assert_eq!(left("ip=2001:db8::1").await, json!([]));
    client
        .get("/v1/boards/votes/quotas?ip=here")
        .await
        .expect_problem(400, "invalid-parameter");
    client
        .get("/v1/boards/none/quotas")
        .await
        .expect_problem(404, "board-not-found");
}

async fn a_definition_of_quotas_is_checked_and_can_change_with_events(shards: u16) {
    let world = World::start(NOW).await;
    let client = world.client();
    let quota = |change: Value| {
        let mut quota = json!({"name": "q", "by": ["voter"], "window": "1m", "max": 1});
        let fields = change.as_object().unwrap().clone();
        quota.as_object_mut().unwrap().extend(fields);
        quota
    };
    let board = |quotas: Value| json!({"windows": ["all"], "shards": shards, "quotas": quotas});
    for (quotas, pointer) in [
        (json!([quota(json!({"name": "Q"}))]), "/quotas/0/name"),
        (
            json!([quota(json!({})), quota(json!({}))]),
            "/quotas/1/name",
        ),
        (json!([quota(json!({"by": []}))]), "/quotas/0/by"),
        (
            json!([quota(json!({"by": ["voter", "voter"]}))]),
            "/quotas/0/by",
        ),
        (json!([quota(json!({"by": ["shoe"]}))]), "/quotas/0/by/0"),
        (json!([quota(json!({"window": "all"}))]), "/quotas/0/window"),
        (json!([quota(json!({"window": "0s"}))]), "/quotas/0/window"),
        (
            json!([quota(json!({"window": "season"}))]),
            "/quotas/0/window",
        ),
        (json!([quota(json!({"max": 0}))]), "/quotas/0/max"),
        (
            json!([quota(json!({"extra": [{"channel": [], "max": 1}]}))]),
            "/quotas/0/extra/0/channel",
        ),
    ] {
        let answer = client.put("/v1/boards/wrong", board(quotas)).await;
        assert_eq!(
            answer.json["errors"][0]["pointer"], pointer,
            "{}",
            answer.text
        );
        answer.expect(422);
    }
    let mut unbounded = board(json!([quota(json!({}))]));
    unbounded["accept_late"] = json!("any");
    let answer = client.put("/v1/boards/wrong", unbounded).await;
    assert_eq!(answer.json["errors"][0]["pointer"], "/quotas/0/window");

    client
        .define("votes", board(json!([quota(json!({}))])))
        .await;
    taken(vote(client, json!({})).await);
    refused(vote(client, json!({})).await, "q");
    // One of another window begins to count anew; one that allows more goes on.
    client
        .define("votes", board(json!([quota(json!({"window": "total"}))])))
        .await;
    taken(vote(client, json!({})).await);
    client
        .define("votes", board(json!([quota(json!({"max": 2}))])))
        .await;
    taken(vote(client, json!({})).await);
    refused(vote(client, json!({})).await, "q");
}

async fn an_event_that_is_taken_says_what_it_leaves(shards: u16) {
    let quotas = json!([
        {"name": "minute", "by": ["voter"], "window": "1m", "max": 5},
        {"name": "points", "by": ["voter"], "window": "hour", "max": 10, "measure": "score",
         "extra": [{"channel": ["app"], "max": 3}]},
        {"name": "ever", "by": ["member"], "window": "total", "max": 100}]);
    let world = world(shards, quotas).await;
    let client = world.client();
    let headers = |answer: &Answer| {
        ["ratelimit-policy", "ratelimit"]
            .map(|name| answer.headers[name].to_str().unwrap().to_owned())
    };
    let event = json!({"score": 2.5, "channel": "app", "id": "x"});
    let first = vote(client, event.clone()).await;
    assert_eq!(
        headers(&first),
        [
            "\"minute\";q=5;w=60, \"points\";q=10;w=3600, \"ever\";q=100",
            "\"minute\";r=4, \"points\";r=10;t=1800, \"ever\";r=99",
        ]
    );
    taken(first);
    let again = vote(client, event).await;
    assert!(!again.headers.contains_key("ratelimit"));
    let web = vote(client, json!({"score": 4})).await;
    assert_eq!(
        headers(&web)[1],
        "\"minute\";r=3, \"points\";r=3;t=1800, \"ever\";r=98"
    );
    let plain = json!({"windows": ["all"]});
    client.define("plain", plain).await;
    let answer = client
        .post(
            "/v1/boards/plain/events",
            json!({"member": "a", "score": 1}),
        )
        .await;
    assert!(!answer.headers.contains_key("ratelimit"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_without_quotas_says_so_before_it_has_events() {
    let world = World::start(NOW).await;
    let client = world.client();
    let tiers = json!([{"name": "bronze", "promote": 0.3, "demote": 0}, {"name": "gold", "promote": 0, "demote": 0.3}]);
    let league = json!({"windows": ["day"], "score_min": 0, "league": {"tiers": tiers}});
    client.define("league", league).await;
    client.define("board", json!({"windows": ["day"]})).await;
    for board in ["league", "board"] {
        let path = format!("/v1/boards/{board}/quotas");
        assert_eq!(client.get(&path).await.expect(200)["quotas"], json!([]));
    }
}
