//! `standings check`: what contradicts itself is found and named, and is repaired if it follows from other data. Nothing
//! else is touched.

mod boards;
mod repairs;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures::future::{FutureExt, join, join_all};
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use standings::check::{self, Finding, Repair, Report};
use standings::domain::ids::BoardId;
use standings::moves;
use tokio::time::sleep;

use crate::harness::World;
use crate::harness::jobs::{Moves, Purge, Rollover, Sweep};
use crate::harness::program::Program;
use crate::harness::random::{Random, case_count, some_of};
use crate::harness::redis::Reply;
use crate::model::expect_equal;

const NOW: &str = "2026-11-21T12:00:00Z";
/// Each with so many points on this day, and on the day before.
const MEMBERS: [(&str, i64, i64); 4] = [
    ("ann", 50, 3),
    ("bob", 40, 0),
    ("cid", 40, 7),
    ("dan", 10, 1),
];

/// A world with one board on which something has happened.
async fn world(definition: &Value) -> World {
    let world = World::start(NOW).await;
    fill(&world, "b", definition).await;
    world
}

async fn fill(world: &World, board: &str, definition: &Value) {
    world.client().define(board, definition.clone()).await;
    if definition.get("initial").is_some() {
        let scores = json!({"scores": {"ann": 5, "eve": 2}});
        let path = format!("/v1/boards/{board}/initial-scores");
        world.client().patch(&path, scores).await.expect(200);
    }
    for (index, (member, today, yesterday)) in MEMBERS.into_iter().enumerate() {
        for (score, day) in [(today, 21), (yesterday, 20)] {
            if score > 0 {
                let event = json!({
                    "member": member, "score": score, "id": format!("{member}-{day}"), "voter": member,
                    "at": format!("2026-11-{day}T08:00:{index:02}Z"),
                });
                let path = format!("/v1/boards/{board}/events");
                world.client().post(&path, event).await.expect(200);
            }
        }
    }
    read(world, board).await;
}

/// All that the board shows of this day.
async fn read(world: &World, board: &str) -> Vec<Value> {
    let definition = world.client().get(&format!("/v1/boards/{board}")).await;
    let windows = definition.expect(200)["windows"].clone();
    let mut shown = Vec::new();
    for window in windows.as_array().unwrap() {
        let window = window.as_str().unwrap();
        let path = format!("/v1/boards/{board}/standings/{window}");
        shown.push(world.client().get(&path).await.expect(200));
    }
    shown
}

async fn run(world: &World, words: &[&str]) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let reply = world.redis.run(&words).await;
    assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
    reply
}

/// All keys, as they are, but for how often a shard has changed.
async fn snapshot(world: &World) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for key in world.redis.keys("st:*").await {
        let kind = run(world, &["TYPE", &key]).await.text();
        let content = match kind.as_str() {
            "string" => run(world, &["GET", &key]).await,
            "zset" => run(world, &["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await,
            "hash" => sorted(&run(world, &["HGETALL", &key]).await, 2),
            "set" => sorted(&run(world, &["SMEMBERS", &key]).await, 1),
            "stream" => run(world, &["XRANGE", &key, "-", "+"]).await,
            other => panic!("{key} is a {other}"),
        };
        let ends = run(world, &["PEXPIRETIME", &key]).await;
        all.insert(key, format!("{ends:?} {content:?}"));
    }
    all
}

fn sorted(reply: &Reply, width: usize) -> Reply {
    let mut entries: Vec<Vec<Reply>> = reply.list().chunks(width).map(<[Reply]>::to_vec).collect();
    entries.retain(|entry| entry[0].bytes() != b"changed");
    entries.sort_by_key(|entry| entry[0].bytes().to_vec());
    Reply::List(entries.concat())
}

/// The elements of all keys, as `key element`: members of sets, fields of hashes.
async fn elements(world: &World) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for key in world.redis.keys("st:*").await {
        let words: &[&str] = match run(world, &["TYPE", &key]).await.text().as_str() {
            "zset" => &["ZRANGE", &key, "0", "-1"],
            "hash" => &["HKEYS", &key],
            "set" => &["SMEMBERS", &key],
            _ => &["KEYS", &key],
        };
        let found = run(world, words).await;
        let found = found.list().iter();
        all.extend(found.map(|element| format!("{key} {:?}", element.bytes())));
    }
    all
}

async fn check(world: &World, repairs: bool) -> Report {
    let repair = if repairs {
        Repair::Remove
    } else {
        Repair::None
    };
    checked(world, repair).await
}

async fn checked(world: &World, repair: Repair) -> Report {
    let report = check::run(world.engine(), None, repair).await.unwrap();
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    report
}

/// Kinds and members of what was found.
fn kinds(findings: &[Finding]) -> Vec<(&str, &str)> {
    let mut named: Vec<_> = findings
        .iter()
        .map(|finding| {
            let member = finding.member.as_deref().unwrap_or_default();
            (finding.kind.as_str(), member)
        })
        .collect();
    named.sort_unstable();
    named
}

/// The key whose name ends so; of several shards the one whose standing has ann.
async fn key_of(world: &World, end: &str) -> String {
    let base = end.strip_suffix(":members").unwrap_or(end);
    let base = base.strip_suffix(":scores").unwrap_or(base);
    let base = base.strip_suffix(":total").unwrap_or(base);
    for key in world.redis.keys(&format!("st:*:{base}")).await {
        let members = format!("{key}:members");
        let in_hash = run(world, &["HEXISTS", &members, "ann"]).await;
        let is_zset = run(world, &["TYPE", &key]).await.text() == "zset";
        if in_hash == Reply::Integer(1)
            || (is_zset && run(world, &["ZSCORE", &key, "ann"]).await != Reply::Nil)
        {
            return format!("{key}{}", &end[base.len()..]);
        }
    }
    panic!("no key ends with {end} and has ann");
}

/// Carries out commands. In them a name of [`NAMES`] stands for its word, `<…>` for the key whose name ends so, `G` for
/// the generation, and `~ann` for ann's entry in the day's sorted set.
async fn damage(world: &World, commands: &str) {
    let version = run(world, &["HGET", "st:{b}", "version"]).await.text();
    let (generation, _) = version.rsplit_once('-').unwrap();
    for command in commands.split("; ") {
        let mut words: Vec<Vec<u8>> = Vec::new();
        for part in command.split(' ') {
            let named = NAMES.iter().find(|(name, _)| *name == part);
            let part = named.map_or(part, |(_, meaning)| meaning);
            let key = part.strip_prefix('<').and_then(|end| end.strip_suffix('>'));
            words.push(match key {
                Some(end) => key_of(world, end).await.into_bytes(),
                None if part == "~ann" => {
                    let key = key_of(world, "day:2026-11-21").await;
                    let listed = run(world, &["ZRANGE", &key, "0", "-1"]).await;
                    let mut listed = listed.list().iter().map(Reply::bytes);
                    listed.find(|entry| entry.ends_with(b"ann")).unwrap().into()
                }
                None => {
                    let part = part.replace("}:G:", &format!("}}:{generation}:"));
                    part.replace("G-", &format!("{generation}-")).into_bytes()
                }
            });
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let reply = world.redis.run(&words).await;
        assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
    }
}

/// What is to become of something that is repaired.
#[derive(Clone, Copy, Debug, PartialEq)]
enum After {
    /// All is as it was, key by key.
    Same,
    /// All that is shown is.
    Shown,
    /// It is sound, but something is lost.
    Sound,
    /// It is as it is: nobody knows what is right.
    Left,
}

/// Short names for words of commands.
const NAMES: [(&str, &str); 6] = [
    ("DAY", "<day:2026-11-21>"),
    ("HASH", "<day:2026-11-21:members>"),
    ("SCORES", "<day:2026-11-21:scores>"),
    ("TOTAL", "<day:2026-11-21:total>"),
    ("ROLLING", "<last-2-days:2026-11-21>"),
    // A score of 7 at the first microsecond of all, as the hash has it: seven bytes of time, and a double.
    ("PACKED", "\0\0\0\0\0\0\x01\x40\x1c\0\0\0\0\0\0"),
];

/// Something that is damaged and looked at.
#[derive(Clone)]
struct Case<'a> {
    after: After,
    /// As [`damage`] takes them.
    commands: &'a str,
    /// Kinds and members of what is to be found.
    found: Vec<(&'a str, &'a str)>,
}

impl<'a> Case<'a> {
    /// Reads `shards after: command; command => kind member, kind`. It is tried with each of these numbers of shards.
    fn parse(text: &'a str) -> (Vec<u16>, Self) {
        let (how, rest) = text.split_once(": ").unwrap();
        let (shards, after) = how.split_once(' ').unwrap();
        let (commands, found) = rest.split_once(" => ").unwrap();
        let after = match after {
            "same" => After::Same,
            "shown" => After::Shown,
            "sound" => After::Sound,
            "left" => After::Left,
            other => panic!("{other} is no end of a case"),
        };
        let found = found.split(", ");
        let case = Self {
            after,
            commands,
            found: found
                .map(|one| one.split_once(' ').unwrap_or((one, "")))
                .collect(),
        };
        let shards = shards.split(',').map(|count| count.parse().unwrap());
        (shards.collect(), case)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_contradiction_is_found_named_and_repaired() {
    let first = json!({"windows": ["day", "all"]});
    let member = json!({"windows": ["day"], "ties": "member"});
    let dense = json!({"windows": ["day"], "ties": "member", "ranking": "dense"});
    let short = json!({"windows": ["day"], "score_min": 1, "keep_top": 2});
    let summed = json!({"windows": ["day", "all"], "uniques": "member"});
    let last = json!({"windows": ["day"], "update": "last", "ties": "member", "uniques": "board"});
    let rolling = json!({"windows": ["day", "last-2-days"], "weight": {"members": {"ann": 3}}});
    let initial = json!({"windows": ["day"], "initial": ["day"], "ties": "member"});
    let carried =
        json!({"windows": ["day", "last-2-days"], "carryover": {"day": 0.5}, "ties": "member"});
    let kept = json!({"windows": ["day"], "retention": {"day": "30d"}});
    let both = json!({"windows": ["day"], "ranking": "dense"});
    let cases: [(&Value, &[&str]); 11] = [
        (
            &first,
            &[
                // The sorted set and the hash.
                "1,4 same: ZADD DAY -70 \0\0\0\0\0\0\x01ann => stray ann",
                "1,4 same: ZREM DAY ~ann => unlisted ann",
                "1,4 left: ZADD DAY -70 ~ann => score ann",
                "1,4 same: ZADD DAY 1.5 ~ann => score ann",
                "1,4 same: HDEL HASH ann => no_member ann",
                "1 same: DEL HASH => no_member ann, no_member bob, no_member cid, no_member dan",
                "1,4 left: HSET HASH ann PACKED => stray ann",
                "1,4 sound: ZADD DAY -7 \0\0\0\0\0\0\x01eve => no_member eve",
                // Its time may be one of zeros alone.
                "1 left: ZADD DAY 0 \0\0\0\0\0\0\x01eve => no_member eve",
                "1 same: ZADD DAY -7 x => unreadable x",
                "1 same: DEL DAY; SET st:{b}:G:s:day:2026-11-21 x => type",
                "1 same: DEL HASH; SET st:{b}:G:s:day:2026-11-21:members x => type",
                "1,4 same: HSET HASH ann xyz => unreadable ann",
                "1 left: HSET HASH eve xyz => unreadable eve",
                // Keys.
                "1 left: DEL DAY HASH => lost",
                "1 same: SREM st:{b}:G:keys DAY => unregistered",
                "1 same: EXPIRE DAY 100000 => expiry",
                "1,4 same: EXPIRE HASH 100000 => expiry",
                "1 same: EXPIRE DAY 100000; EXPIRE HASH 100000 => expiry",
                // What expires by itself is not left over. Nor is what nobody has deleted.
                "1 left: ZADD st:{b}:99:s:day:2026-11-21 1 x; HSET st:{gone:4:2}:98:s:all:all:members 1 x; \
                 HSET st:{gone} version 98-3; SET st:{b}:99:q:0:hour 1 EX 100; SET st:{b}:99:e:x 1 EX 100 \
                 => lost, unproved",
                "1 sound: ZADD st:{b}:99:s:day:2026-11-21 1 x; HSET st:{gone:4:2}:98:s:all:all:members 1 x; \
                 HSET st:{gone} deleted 98; HSET st:{b} deleted 99; SET st:{b}:99:q:0:hour 1 EX 100; \
                 HSET st:{gone:4:1} version 98-0; EXPIRE st:{gone:4:1} 100 => left_over, left_over",
                "1 left: ZADD st:{b}:G:days 1 x; SET st:{b}:hello x => unknown, unknown",
                // Definitions.
                "1 same: HSET st:{b} version G-9 => version",
                "1 shown: ZREM st:{boards}:live b; ZADD st:{boards}:live 0 ghost; HSET st:{ghost} deleted 7 => list, list",
                "1 left: ZADD st:{boards}:live 0 ghost => lost",
                "1 shown: ZADD st:{boards}:live 7 b => list",
            ],
        ),
        (
            &last,
            &[
                "1,4 same: ZADD DAY -70 ann => score ann",
                "1 left: DEL HASH => no_member ann, no_member bob, no_member cid, no_member dan, total",
            ],
        ),
        (
            &member,
            &[
                "1,4 left: ZADD DAY 1.5 ann => number ann",
                "1 left: DEL DAY; SET st:{b}:G:s:day:2026-11-21 x => type",
            ],
        ),
        (
            &short,
            &[
                // What a list keeps.
                "1 same: ZREM DAY ~ann => unlisted ann",
                "1 sound: ZADD DAY -5 \0\0\0\0\0\0\x01eve => no_member eve",
            ],
        ),
        (
            &dense,
            &[
                // Distinct scores and totals.
                "1 same: ZREM SCORES -50 => undistinct",
                "1 same: ZADD SCORES -77 -77 => distinct",
                "1 same: ZADD SCORES -999 -50 => distinct, undistinct",
                "1 same: DEL SCORES; SET st:{b}:G:s:day:2026-11-21:scores x => type",
            ],
        ),
        (
            &both,
            &[
                // The distinct scores show which is right.
                "1 same: ZADD DAY -70 ~ann => distinct, score ann",
                "1 left: ZADD DAY -70 ~ann; DEL SCORES => score ann, undistinct, undistinct",
            ],
        ),
        (
            &summed,
            &[
                "1,4 same: HINCRBY TOTAL low -3 => total",
                "1,4 same: DEL TOTAL => total",
                // The total shows which is right.
                "1,4 same: ZADD DAY -70 ~ann => score ann",
                "1 left: ZADD DAY -70 ~ann; DEL TOTAL => score ann, total",
                "1 left: SET st:{b}:G:voters:day:2026-11-21 x => type",
            ],
        ),
        (
            &rolling,
            &[
                // Sums.
                "1,4 shown: HSET <last-2-days:2026-11-21:members> eve PACKED; \
                 ZADD ROLLING 7 \0\0\0\0\0\0\x01eve => sum eve",
                "1,4 shown: HSET <last-2-days:2026-11-21:members> eve xyz => unreadable eve",
                "1 shown: DEL ROLLING; SET st:{b}:G:d:last-2-days:2026-11-21 x => type",
                "1 same: EXPIRE ROLLING 100000 => expiry",
                // What it follows from is in doubt.
                "1 left: ZADD DAY -70 ~ann; HSET <last-2-days:2026-11-21:members> eve xyz => score ann, unreadable eve",
            ],
        ),
        (
            &initial,
            &[
                "1,4 shown: ZINCRBY <initial-day:2026-11-21> -5 ann => sum ann",
                "1 shown: DEL <initial-day:2026-11-21> => sum ann, sum bob, sum cid, sum dan, sum eve",
            ],
        ),
        (
            &carried,
            &[
                "1,4 shown: ZINCRBY ROLLING -5 ann => sum ann",
                "1,4 sound: ZINCRBY <base-day:2026-11-20> -5 ann => sum ann",
                "1,4 left: ZINCRBY DAY -50 ann => carried ann",
                "1 left: ZREM DAY ann => carried ann",
                "1 shown: SET st:{b}:G:state:last-2-days x => state",
                "1 shown: DEL st:{b}:G:state:last-2-days; SADD st:{b}:G:state:last-2-days x => state",
                "1 shown: DEL st:{b}:G:state:last-2-days => no_state",
                "1 same: SREM st:{b}:G:keys st:{b}:G:state:last-2-days => unregistered",
            ],
        ),
        (
            &kept,
            &[
                // Ends.
                "1,4 same: PERSIST DAY => expiry",
                "1,4 same: PERSIST HASH => expiry",
                "1,4 shown: PERSIST DAY; PERSIST HASH => no_expiry",
            ],
        ),
    ];
    let cases = cases.into_iter().flat_map(|(definition, texts)| {
        let cases = texts.iter().map(|text| Case::parse(text));
        cases.flat_map(move |(shards, case)| {
            shards.into_iter().map(move |shards| {
                let mut definition = definition.clone();
                definition["shards"] = json!(shards);
                (definition, case.clone())
            })
        })
    });
    let tried = cases.map(async |(definition, case)| {
        let what = format!("{:?} on {definition}", case.commands);
        let tried = AssertUnwindSafe(try_case(&definition, &case));
        match tried.catch_unwind().await {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(format!("{what}: {why}")),
            Err(_) => Some(format!("{what}: see above")),
        }
    });
    let tried = stream::iter(tried).buffer_unordered(3);
    let wrong: Vec<String> = tried.filter_map(async |wrong| wrong).collect().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn try_case(definition: &Value, case: &Case<'_>) -> Result<(), String> {
    let Case {
        after,
        commands,
        found,
    } = case;
    let world = world(definition).await;
    let report = check(&world, false).await;
    expect_equal("before", &report.findings, &Vec::new())?;
    let (before, shown) = (snapshot(&world).await, read(&world, "b").await);
    damage(&world, commands).await;
    let damaged = snapshot(&world).await;

    let report = check(&world, false).await;
    let what = format!("found in {report:?}");
    expect_equal(&what, &kinds(&report.findings), found)?;
    expect_equal(&what, &(report.mended, report.is_sound()), &(0, false))?;
    expect_equal("a look changes nothing", &snapshot(&world).await, &damaged)?;

    let there = elements(&world).await;
    let written = checked(&world, Repair::Write).await;
    let now = elements(&world).await;
    let removed: Vec<&String> = there.difference(&now).collect();
    expect_equal("removed without permission", &removed, &Vec::new())?;
    let report = check(&world, true).await;
    let what = format!("mended in {written:?} and {report:?}");
    let is_left = *after == After::Left;
    expect_equal(&what, &report.is_sound(), &!is_left)?;
    if is_left {
        return expect_equal(&what, &kinds(&written.findings), found);
    }
    expect_equal(&what, &(written.mended + written.removals >= 1), &true)?;
    expect_equal(&what, &check(&world, false).await.findings, &Vec::new())?;
    match after {
        After::Same => expect_equal(&what, &snapshot(&world).await, &before),
        After::Shown => expect_equal(&what, &read(&world, "b").await, &shown),
        After::Sound | After::Left => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_data_is_rebuilt_where_other_data_determines_it() {
    let world = World::start(NOW).await;
    let definition = json!({"windows": ["day", "last-2-days"], "entry_data": true});
    world.client().define("b", definition).await;
    let event =
        json!({"member": "ann", "score": 5, "at": "2026-11-21T08:00:00Z", "data": {"a": 1}});
    let sent = world.client().post("/v1/boards/b/events", event).await;
    sent.expect(200);
    read(&world, "b").await;
    assert_eq!(kinds(&check(&world, false).await.findings), []);
    let [day, sum] = [
        key_of(&world, "day:2026-11-21:members").await,
        key_of(&world, "last-2-days:2026-11-21:members").await,
    ];
    let stored = run(&world, &["HGET", &day, "ann"]).await.bytes().to_vec();
    assert_eq!(&stored[15..], br#"{"a":1}"#);
    let store = async |key: &str, data: &str| {
        let value = [&stored[..15], data.as_bytes()].concat();
        let words = [b"HSET", key.as_bytes(), b"ann", &value];
        world.redis.run(&words).await
    };
    for other in [r#"{"a":2}"#, ""] {
        store(&sum, other).await;
        let report = check(&world, false).await;
        assert_eq!(kinds(&report.findings), [("data", "ann")]);
        let told = report.findings[0].to_string();
        assert!(told.ends_with(r#"; sum of its periods: {"a":1}"#), "{told}");
        assert!(check(&world, true).await.is_sound());
        read(&world, "b").await;
        let path = "/v1/boards/b/standings/last-2-days?include=data";
        let page = world.client().get(path).await.expect(200);
        assert_eq!(page["entries"][0]["data"], json!({"a": 1}));
    }
    // Of a period nothing else has the data: it is told, and stays as it is.
    for damaged in ["x", r#"{"a":1"#] {
        store(&day, damaged).await;
        let report = check(&world, true).await;
        assert!(
            kinds(&report.findings).contains(&("unreadable", "ann")),
            "{report:?}"
        );
        assert!(!report.is_sound());
        let path = "/v1/boards/b/standings/day";
        world.client().get(path).await.expect(200);
        let with_data = world.client().get(&format!("{path}?include=data")).await;
        with_data.expect_problem(500, "internal");
    }
    // Without the data the score still follows from the sorted set.
    store(&day, r#"{"a":1}"#).await;
    read(&world, "b").await;
    run(&world, &["DEL", &day]).await;
    let report = check(&world, true).await;
    let lost = report
        .findings
        .iter()
        .find(|found| found.kind == "no_member")
        .unwrap()
        .to_string();
    assert!(lost.ends_with("its data is lost (repaired)"), "{lost}");
    assert_eq!(read(&world, "b").await[0]["entries"][0]["score"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_list_that_contradicts_the_hides_is_rebuilt() {
    for definition in [
        json!({"windows": ["day"]}),
        json!({"windows": ["day"], "ties": "member"}),
        json!({"windows": ["day", "last-2-days"], "ranking": "dense", "uniques": "board"}),
    ] {
        let world = world(&definition).await;
        for member in ["bob", "dan"] {
            let path = format!("/v1/boards/b/hidden/{member}");
            let hide = json!({"reason": "cheating"});
            world.client().put(&path, hide).await.expect(200);
        }
        let shown = read(&world, "b").await;
        let list = world.redis.keys("st:*:s:day:2026-11-21:hidden-list").await;
        let [list] = &list[..] else {
            panic!("{list:?}");
        };
        let standing = list.strip_suffix(":hidden-list").unwrap();
        let hidden = run(&world, &["ZRANGE", list, "0", "0"]).await;
        let visible = run(&world, &["ZRANGE", standing, "0", "0"]).await;
        let [hidden, visible] = [hidden.list()[0].bytes(), visible.list()[0].bytes()];
        let [scores, state] = ["scores", "state"].map(|part| format!("{standing}:hidden-{part}"));
        // Of the hidden members' scores, 40 and 10, somebody else has 40.
        let of_scores: [&[&[u8]]; 4] = [
            &[b"ZADD", scores.as_bytes(), b"999", b"-10"],
            &[b"ZADD", scores.as_bytes(), b"-77", b"-77"],
            &[b"DEL", scores.as_bytes()],
            &[b"HINCRBY", state.as_bytes(), b"low", b"1"],
        ];
        let of_list: [&[&[u8]]; 4] = [
            &[b"ZADD", list.as_bytes(), b"999", hidden],
            &[b"ZREM", list.as_bytes(), hidden],
            &[b"ZADD", list.as_bytes(), b"-50", visible],
            &[b"DEL", list.as_bytes()],
        ];
        let is_dense = definition.get("ranking").is_some();
        let of_scores = of_scores.into_iter().filter(|_| is_dense);
        for damage in of_list.into_iter().chain(of_scores) {
            world.redis.run(damage).await;
            let report = check(&world, false).await;
            let found = kinds(&report.findings);
            let is_hidden = |(kind, _): &(&str, &str)| kind.starts_with("hidden");
            assert!(
                !found.is_empty() && found.iter().all(is_hidden),
                "{report:?}"
            );
            assert!(check(&world, true).await.is_sound());
            assert_eq!(read(&world, "b").await, shown);
            assert_eq!(kinds(&check(&world, false).await.findings), []);
        }
    }
}

/// A board of everything that a check compares, of more members than it looks at in one call.
async fn large(world: &World, shards: u16) -> Vec<&'static str> {
    let all = json!({"windows": ["day", "all", "last-2-days"], "carryover": {"day": 0.3}, "uniques": "board",
        "weight": {"members": {"m1": 3}}, "initial": ["all"], "shards": shards, "decimals": 1});
    let short = json!({"windows": ["all", "hour"], "score_min": 1, "keep_top": 100, "ties": "last", "initial": ["hour"],
        "uniques": "board", "shards": shards});
    let plain = json!({"windows": ["hour", "last-3-hours"], "ties": "member", "order": "asc", "uniques": "board",
        "shards": shards});
    let newest = json!({"windows": ["day"], "update": "last", "ties": "member", "shards": shards});
    let dense = json!({"windows": ["all", "last-2-hours"], "ranking": "dense", "retention": {"hour": "30d"}});
    for (board, definition) in [
        ("all", all),
        ("short", short),
        ("plain", plain),
        ("newest", newest),
        ("dense", dense),
    ] {
        world.client().define(board, definition).await;
    }
    vec!["all", "short", "plain", "newest", "dense"]
}

fn events(random: &mut Random, boards: &[&str], count: usize) -> Value {
    let event = |_| {
        let signs = ["plain", "newest", "dense"];
        let board = boards[random.below(boards.len())];
        let is_negative = signs.contains(&board) && random.below(3) == 0;
        let size = 1 + i64::try_from(random.below(4)).unwrap();
        json!({
            "id": format!("{:x}", random.below(1 << 40)),
            "board": board, "member": format!("m{}", random.below(1_700)),
            "score": if is_negative { -size } else { size },
            "at": format!("2026-11-{}T{:02}:{:02}:00Z", 20 + random.below(2), random.below(12), random.below(60)),
            "voter": format!("v{}", random.below(50)),
        })
    };
    let events: Vec<Value> = (0..count).map(event).collect();
    json!({"events": events})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_reports_nothing_during_writes_and_reads_large_standings_in_parts() {
    for shards in some_of([1, 3], 2) {
        let world = World::with_instances(2, NOW).await;
        let boards = large(&world, shards).await;
        let mut random = Random::new(5);
        for _ in 0..12 {
            let batch = events(&mut random, &boards, 1_000);
            world
                .client()
                .post_until_taken("/v1/events?standings=false", &batch)
                .await;
        }
        let scores: BTreeMap<String, usize> =
            (0..900).map(|m| (format!("m{}", m * 2), m)).collect();
        for board in ["all", "short"] {
            let path = format!("/v1/boards/{board}/initial-scores");
            world
                .client()
                .patch(&path, json!({"scores": scores}))
                .await
                .expect(200);
        }
        let is_over = AtomicBool::new(false);
        let sending = (0..3).map(async |task| {
            let mut random = Random::new(100 + task);
            let client = &world.instances[usize::try_from(task % 2).unwrap()].client;
            while !is_over.load(Ordering::SeqCst) {
                let begun = Instant::now();
                let batch = events(&mut random, &boards, 20);
                client
                    .post_until_taken("/v1/events?standings=false", &batch)
                    .await;
                if random.below(5) == 0 {
                    let score =
                        json!({"scores": {format!("m{}", random.below(1_700)): random.below(90)}});
                    client
                        .patch("/v1/boards/all/initial-scores", score)
                        .await
                        .expect(200);
                }
                for window in ["all/standings/last-2-days", "plain/standings/last-3-hours"] {
                    client
                        .get(&format!("/v1/boards/{window}"))
                        .await
                        .expect(200);
                }
                // What changes amid a check is looked at again. So on a slow machine, too, most of the time is the check's.
                sleep(4 * begun.elapsed()).await;
            }
        });
        let checking = async {
            for round in 0..(2 + case_count(1)).min(12) {
                // Standings are begun, half-way and complete; the clock goes on.
                world.set_time(&format!("2026-11-21T{:02}:59:00Z", 11 + round));
                world.engine().run(&Rollover).await.unwrap();
                let repair = [Repair::None, Repair::Write, Repair::Remove][round % 3];
                let report = check::run(world.engine(), None, repair).await.unwrap();
                assert_eq!(report.findings, [], "amid writes");
                assert_eq!(report.boards, 5);
            }
            is_over.store(true, Ordering::SeqCst);
        };
        join(join_all(sending), checking).await;
        assert_eq!(check(&world, false).await.findings, [], "afterwards");

        // The total of a large standing, and members of a large sum.
        let path = "/v1/boards/plain/standings/last-3-hours?key=2026-11-21T10:00Z";
        world.client().get(path).await.expect(200);
        let key = key_of_largest(&world, "st:*all*:all:all").await;
        run(&world, &["HINCRBY", &format!("{key}:total"), "high", "1"]).await;
        let rolling = key_of_largest(&world, "st:*plain*:last-3-hours:*T10:00Z").await;
        run(&world, &["ZINCRBY", &rolling, "1", "m7"]).await;
        let report = check(&world, false).await;
        // What a standing with a wrong total follows from is only compared once that is repaired.
        let found = kinds(&report.findings);
        assert_eq!(found, [("total", ""), ("total", "")], "{report:?}");
        assert!(check(&world, true).await.is_sound());
        assert_eq!(check(&world, false).await.findings, []);
    }
}

/// The sorted set with the most members, of those whose names match; m7 is one of them.
async fn key_of_largest(world: &World, pattern: &str) -> String {
    let mut largest = (0, String::new());
    for key in world.redis.keys(pattern).await {
        if run(world, &["TYPE", &key]).await.text() != "zset" {
            continue;
        }
        let Reply::Integer(count) = run(world, &["ZCARD", &key]).await else {
            panic!("no number");
        };
        largest = largest.max((count, key));
    }
    largest.1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moving_board_is_not_repaired_and_its_leftovers_are_found() {
    let definition = json!({"windows": ["day", "last-2-days"], "shards": 2});
    let world = world(&definition).await;
    world.client().spread("b", 3).await;
    run(&world, &["DEL", "st:{boards}:moving"]).await;
    let key = key_of(&world, "day:2026-11-21").await;
    run(&world, &["ZADD", &key, "-70", "x"]).await;
    run(&world, &["ZADD", &key, "-70", "a longer entry"]).await;
    for repair in [Repair::None, Repair::Remove] {
        let report = check::run(world.engine(), None, repair).await.unwrap();
        let noted = report
            .notes
            .iter()
            .any(|note| note.contains("is moving to 3 shards"));
        assert!(noted, "{report:?}");
        let expected = [
            ("not_moving", ""),
            ("unreadable", "a longer entry"),
            ("unreadable", "x"),
        ];
        assert_eq!(kinds(&report.findings), expected, "{report:?}");
        let mended = u64::from(repair == Repair::Remove);
        assert_eq!(report.mended, mended, "{report:?}");
    }
    run(&world, &["ZREM", &key, "x", "a longer entry"]).await;
    let id = BoardId::parse("b").unwrap();
    world.engine().run(&Moves).await.unwrap();
    assert_eq!(
        moves::work::progress(world.engine(), &id)
            .await
            .unwrap()
            .shards,
        3
    );
    // Until it has gone, what has moved is marked.
    assert_eq!(check(&world, false).await.findings, []);
    world.engine().run(&Purge).await.unwrap();
    assert_eq!(check(&world, false).await.findings, []);

    // A part that was left behind, as if nobody had registered it.
    run(&world, &["ZADD", &key, "1", "x"]).await;
    let report = check(&world, false).await;
    assert_eq!(kinds(&report.findings), [("left_over", "")]);
    assert!(check(&world, true).await.is_sound());
    assert_eq!(run(&world, &["EXISTS", &key]).await, Reply::Integer(0));
    assert_eq!(check(&world, false).await.findings, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_in_one_place_does_not_stop_the_check_of_others() {
    let world = World::start(NOW).await;
    let definition = json!({"windows": ["day"], "shards": 2});
    for board in ["head", "registry", "shard", "definition", "newer", "sound"] {
        fill(&world, board, &definition).await;
    }
    let keys = world.redis.keys("st:{registry:2:*}:*:keys").await;
    let newer = run(&world, &["HGET", "st:{newer}", "version"])
        .await
        .text()
        .replace("-1", "-7");
    for command in [
        &["DEL", "st:{head}"][..],
        &["SET", "st:{head}", "x"],
        &["DEL", &keys[0]],
        &["SET", &keys[0], "x"],
        &["DEL", "st:{shard:2:0}"],
        &["SADD", "st:{shard:2:0}", "x"],
        &[
            "HSET",
            "st:{definition}",
            "definition",
            "{\"of\": \"a later version\"}",
        ],
        &["HSET", "st:{newer:2:1}", "version", &newer],
        &["DEL", "st:{boards}:moving"],
    ] {
        run(&world, command).await;
    }
    let day = world.redis.keys("st:{sound:2:*}:*:day:2026-11-21").await;
    run(&world, &["ZADD", &day[0], "1", "somebody else"]).await;
    for repairs in [false, true] {
        let report = check(&world, repairs).await;
        let told: Vec<(String, &str)> = report
            .findings
            .iter()
            .map(|finding| (finding.place.board.clone().unwrap(), finding.kind.as_str()))
            .collect();
        let expected = [
            ("definition", "damaged"),
            ("head", "type"),
            ("newer", "head"),
            ("registry", "type"),
            ("shard", "head"),
            ("sound", "unreadable"),
        ]
        .map(|(board, kind)| (board.to_owned(), kind));
        assert_eq!(told, expected, "{report:?}");
        assert_eq!(report.mended, u64::from(repairs));
    }
    let id = BoardId::parse("nobody").unwrap();
    let error = check::run(world.engine(), Some(&id), Repair::None)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "there is no board nobody");
    let sound = BoardId::parse("sound").unwrap();
    let report = check::run(world.engine(), Some(&sound), Repair::None)
        .await
        .unwrap();
    assert_eq!((report.boards, report.findings), (1, Vec::new()));

    run(&world, &["SET", "st:{boards}:unneeded", "x"]).await;
    let report = check::run(world.engine(), Some(&sound), Repair::None)
        .await
        .unwrap();
    assert_eq!(kinds(&report.findings), [("type", "")]);
    assert_eq!(report.notes.len(), 1, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn partly_expired_data_is_removed_and_a_deleted_board_leaves_nothing() {
    let definition = json!({"windows": ["day"], "retention": {"day": "30d"}});
    let world = world(&definition).await;
    let key = key_of(&world, "day:2026-11-21").await;
    run(&world, &["PERSIST", &key]).await;
    run(&world, &["DEL", &format!("{key}:members")]).await;
    world.set_time("2027-06-01T00:00:00Z");
    let report = check(&world, false).await;
    assert_eq!(kinds(&report.findings), [("remnant", "")]);
    assert!(check(&world, true).await.is_sound());
    assert_eq!(run(&world, &["EXISTS", &key]).await, Reply::Integer(0));
    assert_eq!(check(&world, false).await.findings, []);
    world.client().delete("/v1/boards/b").await.expect(204);
    // It is marked.
    assert_eq!(check(&world, false).await.findings, []);
    world.engine().run(&Purge).await.unwrap();
    let report = check(&world, false).await;
    assert_eq!((report.boards, report.findings), (0, Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_works_with_and_without_a_running_service() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let missing = directory.path().join("missing");
    let (status, _) = Program::run_alone(&["check", "--data-dir", missing.to_str().unwrap()]).await;
    assert_eq!(status, 2);
    assert!(!missing.exists(), "a check makes no data directory");

    let mut program = Program::serve(directory.path()).await;
    let client = program.client();
    client.define("b", json!({"windows": ["day"]})).await;
    let event = json!({"member": "ann", "score": 5, "at": null});
    client.post("/v1/boards/b/events", event).await;
    let event = json!({"member": "ann", "score": 5});
    client.post("/v1/boards/b/events", event).await.expect(200);
    let sound = "1 boards, 1 standings: no contradictions\n".to_owned();
    let beside = Program::run_alone(&["check", "b", "--data-dir", data]).await;
    assert_eq!(beside, (0, sound.clone()));
    let (status, _) = Program::run_alone(&["check", "other", "--data-dir", data]).await;
    assert_eq!(status, 2);

    // The service dies, and its Redis is left over.
    program.kill();
    let alone = Program::run_alone(&["check", "--data-dir", data]).await;
    assert_eq!(alone, (0, sound.clone()));

    let program = Program::serve(directory.path()).await;
    let socket = directory.path().join("redis.sock");
    let keys = crate::harness::redis::run(&socket, &[b"KEYS", b"st:{b}:*:members"]).await;
    let hash = keys.list()[0].bytes();
    let set = crate::harness::redis::run(&socket, &[b"HSET", hash, b"b\x1bob", b"x"]).await;
    assert_eq!(set, Reply::Integer(1));
    program.stop().await;
    let (status, told) = Program::run_alone(&["check", "--repair", "--data-dir", data]).await;
    assert_eq!(status, 1);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("board b, day:"), "{told}");
    assert!(
        lines[0].contains(", member b\u{fffd}ob: its value in day:"),
        "{told}"
    );
    assert_eq!(
        lines[1],
        "1 boards, 1 standings: 1 contradictions, 0 of them repaired"
    );
    let (status, json) = Program::run_alone(&["check", "--json", "--data-dir", data]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (status, &json["findings"][0]["kind"]),
        (1, &json!("unreadable"))
    );
    assert_eq!(json["findings"][0]["board"], "b");
    assert_eq!(json["contradictions"], 1);
}
