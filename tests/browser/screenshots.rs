//! The pictures of `docs/console/`: pages of a service with a year's worth of names and a fixed clock. They change only when pages do.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::chromium::Chromium;
use crate::harness::jobs::ClosePeriods;
use crate::harness::{Client, World, repository};
use crate::worlds::KEYS;

const NOW: &str = "2026-11-25T15:08:30Z";
const MEMBERS: usize = 322;
const BYTES_MAX: usize = 900_000;

const FIRST: [&str; 12] = [
    "Theo", "Lila", "Hugo", "Kai", "Mara", "Milo", "Sami", "Ωmega", "ユキ", "Noa", "Ada", "Ivo",
];
const LAST: [&str; 9] = [
    "Lynx", "Byte", "Pixel", "Wolf", "Tiger", "Comet", "Bolt", "Fox", "Owl",
];

/// A number that looks random, and is the same each time.
fn pick(seed: usize, below: usize) -> usize {
    seed.wrapping_mul(2_654_435_761) % 1_000_003 % below
}

fn name(member: usize) -> String {
    let (first, last) = (
        FIRST[pick(member, FIRST.len())],
        LAST[pick(member + 7, LAST.len())],
    );
    format!("{first} {last}{}", 10 + pick(member + 3, 9_000))
}

fn id(member: usize) -> String {
    name(member).to_lowercase().replace(' ', "_")
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

async fn send(admin: &Client, path: &str, field: &str, all: &[Value]) {
    for some in all.chunks(100) {
        let sent = admin.post(path, json!({field: some})).await;
        assert!(sent.status.is_success(), "{path}: {}", sent.text);
    }
}

async fn define(admin: &Client) {
    let runner = json!({
        "title": "Star Runner · Endless Mode", "windows": ["day", "week", "month", "all"], "update": "max", "public": true,
        "tags": ["arcade"], "accept_late": "any", "finalize": "1h",
        "rewards": [{"id": "podium", "window": "day", "ranks": [1, 3], "reward": {"coins": 100}}],
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

/// Boards with members, names that wait, a hidden member, a webhook.
async fn fill(world: &World, admin: &Client) {
    define(admin).await;
    let mut events = Vec::new();
    for member in 0..MEMBERS {
        let named =
            |board: &str, id: String| json!({"board": board, "id": id, "member": self::id(member)});
        for day in 17..=25 {
            if day < 25 && pick(member + day, 10) < 4 {
                continue;
            }
            let mut event = named("star_runner", format!("s{member}-{day}"));
            event["score"] = json!(300 + pick(member * 31 + day, 80_462));
            let second = pick(member * 13 + day, 3_600);
            event["at"] = json!(format!(
                "2026-11-{day}T14:{:02}:{:02}Z",
                second / 60,
                second % 60
            ));
            events.push(event);
        }
        let mut lap = named("lap_times", format!("t{member}"));
        lap["score"] =
            json!(80.0 + f64::from(u32::try_from(pick(member, 300_000)).unwrap()) / 1_000.0);
        let mut played = named("weekly_league", format!("l{member}"));
        played["score"] = json!(1 + pick(member, 900));
        events.extend([lap, played]);
    }
    for voter in 0..400 {
        let song = format!("song-{}", pick(voter, 23));
        events.push(json!({"board": "song_poll", "id": format!("v{voter}"), "member": song, "voter": voter.to_string(), "score": 1}));
    }
    send(admin, "/v1/events", "events", &events).await;
    let profile = |member| json!({"member": id(member), "name": name(member)});
    let profiles: Vec<Value> = (0..MEMBERS).map(profile).collect();
    send(admin, "/v1/profiles", "profiles", &profiles).await;
    let hide = json!({"reason": "cheating"});
    let hidden = format!("/v1/boards/star_runner/hidden/{}", encoded(&id(40)));
    admin.put(&hidden, hide).await.expect(200);
    world.instances[0].engine.run(&ClosePeriods).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it writes files: SCREENSHOTS=1 make browser"]
async fn the_pictures_of_the_documentation_are_taken() {
    let world = World::with_keys(1, NOW, KEYS).await;
    let base = world.client().base.clone();
    fill(&world, &world.client().with_key("an-admin")).await;
    let chromium = Chromium::start().await;
    chromium.sign_in(&base, "an-admin").await;
    let folder = repository().join("docs/console");
    std::fs::create_dir_all(&folder).unwrap();
    let board = "/console/boards/star_runner";
    let member = format!("{board}/standings/day/member?member={}", encoded(&id(1)));
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
