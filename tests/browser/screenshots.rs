//! The pictures of `docs/console/`: a month of made-up players under a fixed clock. They change only when pages do.

use std::cmp::Reverse;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use standings::core::jobs::JobKind;
use standings::worker;
use url::form_urlencoded;

use crate::chromium::Chromium;
use crate::harness::jobs::{ClosePeriods, Revisions};
use crate::harness::receiver::{Manner, Receiver};
use crate::harness::{Client, World, repository};

const NOW: &str = "2026-11-25T15:08:30Z";
const FIRST_DAY: usize = 1;
const TODAY: usize = 25;
const KEYS: &str = "admin:an-admin";
/// For how long they have played today.
const MINUTES: usize = 60;
const MEMBERS: usize = 322;
/// How many members have a name that nobody has reviewed.
const NAMES_TO_REVIEW: usize = 12;
const BYTES_MAX: usize = 900_000;

const FIRST: [&str; 16] = [
    "Theo", "Lila", "Hugo", "Kai", "Mara", "Milo", "Sami", "Ωmega", "ユキ", "Noa", "Ada", "Ivo",
    "Zoë", "Jun", "Élise", "Otto",
];
const LAST: [&str; 12] = [
    "Lynx", "Byte", "Pixel", "Wolf", "Tiger", "Comet", "Bolt", "Fox", "Owl", "Storm", "Reef",
    "Quartz",
];

/// A number that looks random, and is the same each time.
fn pick(seed: usize, below: usize) -> usize {
    seed.wrapping_mul(2_654_435_761) % 1_000_003 % below
}

/// What a member is called: some like numbers, some have only a first name.
fn name(member: usize) -> String {
    let first = FIRST[pick(member, FIRST.len())];
    let last = LAST[pick(member + 7, LAST.len())];
    match pick(member + 3, 5) {
        0 => first.to_owned(),
        1 => format!("{first}{}", 2 + pick(member + 5, 98)),
        2 => format!("{}_{}", last.to_lowercase(), first.to_lowercase()),
        _ => format!("{first} {last}"),
    }
}

fn id(member: usize) -> String {
    format!("p{}", 10_000 + pick(member + 11, 90_000))
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

async fn send(client: &Client, path: &str, field: &str, all: &[Value]) {
    for some in all.chunks(100) {
        let sent = client.post(path, json!({field: some})).await;
        assert!(sent.status.is_success(), "{path}: {}", sent.text);
    }
}

async fn define(admin: &Client) {
    let reward = |(rank, coins): (u64, u64)| json!({"id": format!("rank-{rank}"), "window": "day", "ranks": [rank, rank], "reward": {"coins": coins}});
    let rewards: Vec<Value> = [(1, 100), (2, 50), (3, 25)].map(reward).into();
    let runner = json!({
        "title": "Star Runner · Endless Mode", "windows": ["day", "week", "month", "all"], "update": "max", "public": true,
        "tags": ["arcade"], "finalize": "1h", "uniques": "board", "rewards": rewards,
    });
    let poll = json!({"title": "Song of the week", "windows": ["week", "all"], "public": true, "uniques": "member", "tags": ["music"]});
    let laps = json!({"title": "Lap times", "windows": ["month", "all"], "update": "min", "order": "asc", "decimals": 3});
    let tiers = json!([
        {"name": "bronze", "promote": 0.3, "demote": 0},
        {"name": "silver", "promote": 0.2, "demote": 0.2},
        {"name": "gold", "promote": 0, "demote": 0.3},
    ]);
    let league = json!({"title": "Weekly league", "windows": ["week"], "score_min": 0, "league": {"tiers": tiers}});
    for (board, definition) in [
        ("star_runner", runner),
        ("song_poll", poll),
        ("lap_times", laps),
        ("weekly_league", league),
    ] {
        admin.define(board, definition).await;
    }
}

/// How well a member plays on a day: few play very well, and nobody plays the same each day.
fn score(member: usize, day: usize) -> usize {
    let skill = 100 + pick(member, 900);
    let luck = 85 + pick(member * 31 + day, 30);
    300 + skill * skill * luck / 1_250
}

fn event(board: &str, member: usize, day: usize, score: impl Into<Value>) -> Value {
    json!({"board": board, "id": format!("{board}-{member}-{day}"), "member": id(member), "score": score.into()})
}

/// What members play on a day, in the order in which they do.
fn played_on(day: usize) -> Vec<Value> {
    let mut members: Vec<usize> = (0..MEMBERS)
        .filter(|member| day == TODAY || pick(member + 17 * day, 100) < 30 + day + pick(day, 25))
        .collect();
    members.sort_by_key(|member| pick(member * 13 + day, 3_600));
    let events = |member: usize| {
        let lap = 80_000 + pick(member * 7 + day, 300_000);
        let lap = 0.001 * f64::from(u32::try_from(lap).unwrap());
        let song = format!("song-{}", pick(member * member, 23));
        let mut vote = event("song_poll", member, day, 1);
        vote["member"] = json!(song);
        let mut run = event("star_runner", member, day, score(member, day));
        for event in [&mut vote, &mut run] {
            event["voter"] = json!(id(member));
        }
        let events = [
            (10, run),
            (
                3,
                event("lap_times", member, day, (lap * 1_000.0).round() / 1_000.0),
            ),
            (
                5,
                event("weekly_league", member, day, 1 + pick(member + day, 90)),
            ),
            (7, vote),
        ];
        let played = events
            .into_iter()
            .filter(move |(tenths, _)| pick(member * tenths, 10) < *tenths);
        played.map(|(_, event)| event)
    };
    members.into_iter().flat_map(events).collect()
}

/// Adds an API key, and returns a client with it, and its secret.
async fn add_key(world: &World, name: &str, grant: Value) -> (Client, String) {
    let admin = world.client().with_key("an-admin");
    let added = admin
        .put(&format!("/v1/keys/{name}"), grant)
        .await
        .expect(201);
    let secret = added["secret"].as_str().unwrap();
    (world.client().with_key(secret), secret.to_owned())
}

/// A month on four boards, its last day half over. A member is hidden, some names wait, a webhook fails.
async fn fill(world: &World, admin: &Client, backend: &Client) {
    let engine = world.engine();
    define(admin).await;
    for day in FIRST_DAY..TODAY {
        world.set_time(&format!("2026-11-{day:02}T21:00:00Z"));
        send(backend, "/v1/events", "events", &played_on(day)).await;
        worker::run(JobKind::EventCounts, engine).await.unwrap();
        world.set_time(&format!("2026-11-{:02}T01:00:00Z", day + 1));
        engine.run(&ClosePeriods).await.unwrap();
    }
    let profile = |member| json!({"member": id(member), "name": name(member)});
    let profiles: Vec<Value> = (NAMES_TO_REVIEW..MEMBERS).map(profile).collect();
    send(backend, "/v1/profiles", "profiles", &profiles).await;
    for member in NAMES_TO_REVIEW..MEMBERS {
        let review = format!("/v1/members/{}/name-review", encoded(&id(member)));
        let approved = json!({"name": name(member), "status": "approved", "reason": null});
        admin.put(&review, approved).await.expect(200);
    }
    let today = played_on(TODAY);
    // More and more of them.
    let until = |minute| today.len() * minute * (minute + MINUTES) / (2 * MINUTES * MINUTES);
    for minute in 0..MINUTES {
        world.set_time(&format!("2026-11-{TODAY}T{}:15Z", clock_after(9 + minute)));
        let some = &today[until(minute)..until(minute + 1)];
        send(backend, "/v1/events", "events", some).await;
        worker::run(JobKind::EventCounts, engine).await.unwrap();
        if minute % 5 == 4 {
            send(backend, "/v1/profiles", "profiles", &[profile(minute / 5)]).await;
        }
    }
    let hidden = format!("/v1/boards/star_runner/hidden/{}", encoded(&id(40)));
    let hide = json!({"reason": "cheating"});
    admin.put(&hidden, hide).await.expect(200);
    engine.run(&Revisions).await.unwrap();
    let receiver = Receiver::start(Manner::Status(500)).await;
    let webhook = json!({"url": receiver.url(), "events": ["period.final"], "boards": ["*"]});
    let rewards = "/v1/webhooks/reward-service";
    admin.put(rewards, webhook).await.expect(201);
    let test = format!("{rewards}/test");
    admin.post(&test, json!({})).await.expect(202);
    worker::run(JobKind::Webhooks, engine).await.unwrap();
    world.set_time(NOW);
    for job in [JobKind::Instances, JobKind::Overview] {
        worker::run(job, engine).await.unwrap();
    }
}

/// The time of day so many minutes after two in the afternoon.
fn clock_after(minutes: usize) -> String {
    format!("{}:{:02}", 14 + minutes / 60, minutes % 60)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it writes files: SCREENSHOTS=1 make browser"]
async fn the_pictures_of_the_documentation_are_taken() {
    let world = World::sending(1, "2026-11-01T00:00:00Z", KEYS).await;
    let base = world.client().base.clone();
    let _following = world.instances[0].follow_api_keys();
    let everywhere = |scopes: &[&str]| json!({"scopes": scopes, "boards": ["*"]});
    let (admin, secret) = add_key(&world, "maya", everywhere(&["admin"])).await;
    let (backend, _) = add_key(&world, "game-server", everywhere(&["read", "write"])).await;
    fill(&world, &admin, &backend).await;
    let chromium = Chromium::start().await;
    let hidden = json!({"hidden": true});
    let orders = &chromium.session;
    orders.order("Emulation.setScrollbarsHidden", hidden).await;
    chromium.sign_in(&base, &secret).await;
    let folder = repository().join("docs/console");
    std::fs::create_dir_all(&folder).unwrap();
    let board = "/console/boards/star_runner";
    let mut best: Vec<usize> = (0..MEMBERS).collect();
    best.sort_by_key(|member| Reverse(score(*member, TODAY)));
    let sixth = encoded(&id(best[5]));
    let member = format!("{board}/standings/day/member?member={sixth}");
    let pages = [
        ("board", board.to_owned()),
        ("overview", "/console".to_owned()),
        ("member", member),
        (
            "result",
            format!("{board}/standings/day/periods/2026-11-24"),
        ),
        ("charts", format!("{board}/standings/day/charts")),
        ("settings", "/console/define?board=star_runner".to_owned()),
        ("names", "/console/names".to_owned()),
        ("boards", "/console/boards".to_owned()),
    ];
    let mut bytes = 0;
    for (name, path) in &pages {
        let on_phone = ["board", "overview", "member"].contains(name);
        for (suffix, width, scheme) in [("", 1_280, "light"), ("-phone", 390, "dark")] {
            if !suffix.is_empty() && !on_phone {
                continue;
            }
            chromium.look(width, scheme).await;
            chromium.open(&format!("{base}{path}")).await;
            let picture = STANDARD.decode(chromium.picture().await).unwrap();
            bytes += picture.len();
            std::fs::write(folder.join(format!("{name}{suffix}.webp")), picture).unwrap();
        }
    }
    chromium.quit().await;
    assert!(bytes < BYTES_MAX, "{bytes} bytes");
}
