//! Finding members by the words of their names, and the index for that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use standings::core::jobs::{Job, Progress};
use standings::profiles::search::job::NameIndex;
use url::form_urlencoded::byte_serialize;

use crate::harness::random::{Random, seed};
use crate::harness::redis::Reply;
use crate::harness::{Client, Instance, World};

const NOW: &str = "2026-11-21T12:00:00Z";
const INDEX: &str = "st:{profiles:*}:words*";

/// A world whose only instance does not have the search, and an instance that has it.
async fn world() -> (World, Instance) {
    let world = World::start(NOW).await;
    let keys = "";
    let url = world.redis.url();
    let finding = Instance::start_finding_names(&url, world.clock.clone(), keys).await;
    (world, finding)
}

async fn fill(instance: &Instance) {
    instance.engine.run(&NameIndex).await.unwrap();
}

async fn store(client: &Client, profiles: &[(String, String)]) {
    for profiles in profiles.chunks(500) {
        let profiles = profiles
            .iter()
            .map(|(member, name)| json!({"member": member, "name": name}));
        let batch = json!({"profiles": profiles.collect::<Vec<_>>()});
        let results = client.post("/v1/profiles", batch).await.expect(200);
        let mut results = results["results"].as_array().unwrap().iter();
        assert!(results.all(|result| result["status"] == "stored"));
    }
}

async fn name(client: &Client, member: &str, name: &str) {
    store(client, &[(member.to_owned(), name.to_owned())]).await;
}

fn path(name: &str, rest: &str) -> String {
    let name: String = byte_serialize(name.as_bytes()).collect();
    format!("/v1/members?name={name}{rest}")
}

async fn answer(client: &Client, name: &str, rest: &str) -> Value {
    client.get(&path(name, rest)).await.expect(200)
}

/// The members that are found, in their order.
async fn found(client: &Client, name: &str) -> Vec<String> {
    let answer = answer(client, name, "&limit=50").await;
    let members = answer["members"].as_array().unwrap().iter();
    members
        .map(|found| found["member"].as_str().unwrap().to_owned())
        .collect()
}

/// The words that the index has, with their members.
async fn indexed(world: &World) -> BTreeSet<(String, String)> {
    let mut all = BTreeSet::new();
    for key in world.redis.keys("st:{profiles:*}:words").await {
        let range = [b"ZRANGE", key.as_bytes(), b"0", b"-1"];
        for block in world.redis.run(&range).await.list() {
            let block = block.text();
            assert!(block.len() <= 2048, "{}", block.len());
            let (_, lines) = block.split_once('\n').unwrap();
            for line in lines.lines() {
                let (indexed, member) = line.split_once('\u{1f}').unwrap();
                let is_new = all.insert((indexed.to_owned(), member.to_owned()));
                assert!(is_new, "{line:?} is there twice");
            }
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_found_by_the_beginnings_of_words_of_its_name() {
    let (world, finding) = world().await;
    fill(&finding).await;
    let client = &finding.client;
    for (member, own) in [
        ("1", "Ann Smith"),
        ("2", "anna-lena MÜLLER"),
        ("3", "Ｂｏ Ｓｍｉｔ"),
        ("a/4", "李 小龍"),
        ("5", "Zoë"),
    ] {
        name(client, member, own).await;
    }
    for (query, members) in [
        ("ann", &["1", "2"][..]),
        ("ANNA", &["2"]),
        ("smi", &["3", "1"]),
        ("smith", &["1"]),
        ("smith ann", &["1"]),
        ("ann smi", &["1"]),
        ("bo", &["3"]),
        ("muller", &["2"]),
        ("Mül", &["2"]),
        ("lena", &["2"]),
        ("小", &["a/4"]),
        ("zoe", &["5"]),
        ("nn", &[]),
        ("ann x", &[]),
    ] {
        assert_eq!(found(client, query).await, members, "{query}");
    }
    // Moderators find what boards do not show.
    let review = json!({"name": "Ann Smith", "status": "blocked"});
    let path_of_review = "/v1/members/1/name-review";
    client.put(path_of_review, review).await.expect(200);
    let expected = json!({"members": [
        {"member": "1", "name": "Ann Smith", "status": "blocked"},
        {"member": "2", "name": "anna-lena MÜLLER", "status": "pending"}], "more": false, "complete": true});
    assert_eq!(answer(client, "an", "").await, expected);
    let first = answer(client, "an", "&limit=1").await;
    assert_eq!(
        (&first["members"][0]["member"], &first["more"]),
        (&json!("1"), &json!(true))
    );
    for wrong in [
        "/v1/members".to_owned(),
        path("", ""),
        path("--", ""),
        path(&"a".repeat(65), ""),
        path("a", "&limit=51"),
        path("a", "&board=b"),
    ] {
        client
            .get(&wrong)
            .await
            .expect_problem(400, "invalid-parameter");
    }
    let off = world.client().get(&path("ann", "")).await;
    let detail = off.expect_problem(409, "name-search-off");
    assert!(detail.contains("STANDINGS_NAME_SEARCH"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_follows_every_change_of_a_profile() {
    let (world, finding) = world().await;
    fill(&finding).await;
    // Writes of an instance without the search keep the index, too.
    for client in [&finding.client, world.client()] {
        name(client, "m", "Old Name").await;
        name(client, "m", "New Name").await;
        assert!(found(&finding.client, "old").await.is_empty());
        assert_eq!(found(&finding.client, "new").await, ["m"]);
        client.delete("/v1/members/m/profile").await.expect(204);
        assert!(found(&finding.client, "name").await.is_empty());
        assert_eq!(indexed(&world).await, BTreeSet::new());
        name(client, "m", "Erased Name").await;
        assert_eq!(found(&finding.client, "erased").await, ["m"]);
        client.delete("/v1/members/m").await.expect(202);
        assert_eq!(indexed(&world).await, BTreeSet::new());
        assert!(world.keys_with(INDEX, "erased").await.is_empty());
    }
    // The name of a profile that a newer release has written is read, but not what else it has.
    name(&finding.client, "m", "Newer").await;
    let key = world.redis.keys("st:{profiles:*}:p:m").await.pop().unwrap();
    let stored = world.redis.run(&[b"GET", key.as_bytes()]).await.text();
    let newer = stored.replacen('{', "{\"colour\":1,", 1);
    let set = [b"SET", key.as_bytes(), newer.as_bytes()];
    world.redis.run(&set).await;
    finding
        .client
        .delete("/v1/members/m/profile")
        .await
        .expect(204);
    assert_eq!(indexed(&world).await, BTreeSet::new());
}

/// Names of few words, so that many members share them.
fn random_name(random: &mut Random) -> String {
    let words = [
        "ann", "Anna", "ÄNN", "bo", "bob", "Cid", "dan", "eve", "李", "x_y",
    ];
    let count = 1 + random.below(3);
    let chosen: Vec<_> = (0..count)
        .map(|_| words[random.below(words.len())])
        .collect();
    chosen.join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_has_the_words_of_all_names_after_any_changes() {
    let (world, finding) = world().await;
    let mut random = Random::new(seed(1));
    let mut names = BTreeMap::new();
    // Those of before are added by the job, while others change.
    for step in 0..12 {
        let mut changed = BTreeMap::new();
        for _ in 0..250 {
            let member = format!("member-{}", random.below(1_500));
            changed.insert(member, random_name(&mut random));
        }
        names.extend(changed.clone());
        store(world.client(), &changed.into_iter().collect::<Vec<_>>()).await;
        for _ in 0..20 {
            let member = format!("member-{}", random.below(1_500));
            if names.remove(&member).is_some() {
                let path = format!("/v1/members/{member}/profile");
                world.client().delete(&path).await.expect(204);
            }
        }
        if step == 5 {
            fill(&finding).await;
        }
    }
    let mut members: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
    for (member, name) in &names {
        let plain = name
            .to_lowercase()
            .replace('ä', "a")
            .replace(['-', '_'], " ");
        for word in plain.split(' ') {
            for (end, one) in word.char_indices() {
                let begin = word[..end + one.len_utf8()].to_owned();
                members.entry(begin).or_default().insert(member);
            }
        }
    }
    for (begin, expected) in &members {
        let answer = answer(&finding.client, begin, "&limit=50").await;
        let found = answer["members"].as_array().unwrap();
        assert_eq!(found.len(), expected.len().min(50), "{begin}");
        assert_eq!(answer["more"], expected.len() > 50, "{begin}");
        assert_eq!(answer["complete"], true);
        for one in found {
            let member = one["member"].as_str().unwrap().to_owned();
            assert!(expected.contains(&member), "{begin}: {one}");
        }
    }
    let indexed: BTreeSet<String> = indexed(&world).await.into_iter().map(|one| one.1).collect();
    assert_eq!(indexed, names.into_keys().collect());
    let blocks = world.redis.keys("st:{profiles:*}:words").await;
    assert_eq!(blocks.len(), 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_before_are_found_once_the_index_is_filled() {
    let (world, finding) = world().await;
    let members: Vec<_> = (0..3_000)
        .map(|number| (format!("m{number}"), format!("Name{number}")))
        .collect();
    store(world.client(), &members).await;
    let before = answer(&finding.client, "name", "").await;
    assert_eq!(
        before,
        json!({"members": [], "more": false, "complete": false})
    );
    // Members change while the index is filled, at whatever place that is.
    let mut filling = NameIndex.due(&finding.engine).await.unwrap();
    let mut changed = 0;
    loop {
        let progress = NameIndex
            .step(&finding.engine, &mut filling[0])
            .await
            .unwrap();
        for number in [changed, 2_999 - changed] {
            name(world.client(), &format!("m{number}"), "Changed").await;
            let gone = format!("/v1/members/m{}/profile", number ^ 1);
            world.client().delete(&gone).await;
        }
        changed += 2;
        if progress == Progress::Done {
            break;
        }
    }
    let lines = indexed(&world).await;
    for (word, member) in &lines {
        let profile = world
            .client()
            .get(&format!("/v1/members/{member}/profile"))
            .await;
        assert_eq!(
            profile.expect(200)["name"].as_str().unwrap().to_lowercase(),
            *word
        );
    }
    assert_eq!(lines.len(), 3_000 - changed);
    assert_eq!(
        answer(&finding.client, "changed", "").await["complete"],
        true
    );
    assert!(NameIndex.due(&finding.engine).await.unwrap().is_empty());
    // An instance without the search removes the index.
    fill(&world.instances[0]).await;
    assert!(world.redis.keys(INDEX).await.is_empty());
    assert_eq!(
        answer(&finding.client, "changed", "").await["complete"],
        false
    );
    // A filling that this has interrupted is not taken for a whole one.
    let mut filling = NameIndex.due(&finding.engine).await.unwrap();
    for _ in 0..2 {
        NameIndex
            .step(&finding.engine, &mut filling[0])
            .await
            .unwrap();
    }
    fill(&world.instances[0]).await;
    let rest = &mut filling[0];
    while NameIndex.step(&finding.engine, rest).await.unwrap() == Progress::More {}
    assert_eq!(answer(&finding.client, "name", "").await["complete"], false);
    fill(&finding).await;
    assert_eq!(answer(&finding.client, "name", "").await["complete"], true);
    assert_eq!(indexed(&world).await, lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_takes_at_most_200_bytes_of_the_index() {
    let (world, finding) = world().await;
    fill(&finding).await;
    let mut random = Random::new(seed(2));
    let mut letters = |bytes: usize| -> String {
        let one = |_| char::from(b'a' + u8::try_from(random.below(26)).unwrap());
        (0..bytes).map(one).collect()
    };
    for (id, words) in [
        (6, &[9][..]),
        (8, &[5, 8]),
        (36, &[6, 7, 6, 7]),
        (12, &[15, 15, 15, 15]),
        (60, &[16, 16]),
        (128, &[20]),
    ] {
        let profiles: Vec<_> = (0..4_000)
            .map(|number| {
                let name: Vec<_> = words.iter().map(|bytes| letters(*bytes)).collect();
                (format!("{number:0id$}"), name.join(" "))
            })
            .collect();
        store(&finding.client, &profiles).await;
        let mut bytes = 0;
        for key in world.redis.keys(INDEX).await {
            let usage = [
                b"MEMORY".as_slice(),
                b"USAGE",
                key.as_bytes(),
                b"SAMPLES",
                b"0",
            ];
            bytes += match world.redis.run(&usage).await {
                Reply::Integer(bytes) => usize::try_from(bytes).unwrap(),
                other => panic!("{other:?}"),
            };
        }
        let each = bytes / profiles.len();
        assert!(each <= 200, "{id} {words:?}: {each}");
        for key in world.redis.keys("st:{profiles:*}:*").await {
            if !key.ends_with(":words-state") {
                world.redis.run(&[b"DEL", key.as_bytes()]).await;
            }
        }
    }
}
