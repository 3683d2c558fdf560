//! What is lost of definitions, or went back, takes no data away.

use super::*;

/// What a key has, as `RESTORE` takes it.
async fn dump(world: &World, key: &str) -> Vec<u8> {
    run(world, &["DUMP", key]).await.bytes().to_vec()
}

async fn restore(world: &World, key: &str, dumped: &[u8]) {
    let words: [&[u8]; 5] = [b"RESTORE", key.as_bytes(), b"0", dumped, b"REPLACE"];
    let reply = world.redis.run(&words).await;
    assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
}

/// Everything but the lists of boards, to which a repair may add.
async fn data(world: &World) -> BTreeMap<String, String> {
    let mut all = snapshot(world).await;
    all.retain(|key, _| !key.starts_with("st:{boards}"));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn no_repair_removes_data_of_a_board_whose_definition_is_lost() {
    for shards in [1, 3] {
        for damage in [
            &["DEL", "st:{b}"][..],
            &["HDEL", "st:{b}", "definition"],
            &["HDEL", "st:{b}", "definition", "version"],
        ] {
            let definition = json!({"windows": ["day", "last-2-days"], "shards": shards});
            let world = world(&definition).await;
            let shown = read(&world, "b").await;
            let head = dump(&world, "st:{b}").await;
            run(&world, damage).await;
            let damaged = data(&world).await;
            for repair in [Repair::None, Repair::Write, Repair::Remove] {
                let report = checked(&world, repair).await;
                assert_eq!(kinds(&report.findings), [("lost", "")], "{report:?}");
                let told = report.findings[0].to_string();
                assert!(told.contains("Restore st:{b} from a backup"), "{told}");
                assert!(!report.is_sound());
                world.engine().run(&Purge).await.unwrap();
                assert_eq!(data(&world).await, damaged, "{damage:?}, {repair:?}");
            }
            restore(&world, "st:{b}", &head).await;
            assert_eq!(kinds(&check(&world, false).await.findings), []);
            assert_eq!(read(&world, "b").await, shown);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_a_lost_board_is_removed_only_with_permission() {
    let definition = json!({"windows": ["day"], "shards": 2});
    let world = world(&definition).await;
    let left = world.redis.keys("st:{b:*}:*").await;
    run(&world, &["DEL", "st:{b}"]).await;
    let report = check(&world, true).await;
    assert_eq!(kinds(&report.findings), [("lost", "")], "{report:?}");

    // Another board of its name has nothing to do with it.
    fill(&world, "b", &definition).await;
    let shown = read(&world, "b").await;
    let before = data(&world).await;
    let report = check(&world, true).await;
    assert_eq!(kinds(&report.findings), [("unproved", "")], "{report:?}");
    assert_eq!(data(&world).await, before);

    let told = report.findings[0].to_string();
    let (_, command) = told.split_once("HSET ").unwrap();
    let words = std::iter::once("HSET").chain(command.split(' '));
    run(&world, &words.collect::<Vec<_>>()).await;
    let report = checked(&world, Repair::Write).await;
    assert!(report.removals > 0, "{report:?}");
    assert_eq!(report.contradictions, report.removals, "{report:?}");
    assert!(check(&world, true).await.is_sound());
    assert_eq!(kinds(&check(&world, false).await.findings), []);
    world.engine().run(&Sweep).await.unwrap();
    let now = world.redis.keys("st:{b:*}:*").await;
    assert!(!now.iter().any(|key| left.contains(key)), "{now:?}");
    assert_eq!(read(&world, "b").await, shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_repair_removes_data_of_a_board_whose_definition_went_back() {
    let world = world(&json!({"windows": ["day", "all"], "shards": 2})).await;
    let before = dump(&world, "st:{b}").await;
    world.client().spread("b", 3).await;
    world.engine().run(&Moves).await.unwrap();
    world.engine().run(&Purge).await.unwrap();
    let shown = read(&world, "b").await;
    assert_eq!(kinds(&check(&world, false).await.findings), []);
    let after = dump(&world, "st:{b}").await;

    restore(&world, "st:{b}", &before).await;
    let damaged = data(&world).await;
    for repair in [Repair::None, Repair::Write, Repair::Remove] {
        let report = checked(&world, repair).await;
        let found = kinds(&report.findings);
        assert!(found.contains(&("went_back", "")), "{report:?}");
        assert!(
            found
                .iter()
                .all(|(kind, _)| ["went_back", "head"].contains(kind)),
            "{report:?}"
        );
        assert_eq!(report.mended, 0, "{report:?}");
        world.engine().run(&Purge).await.unwrap();
        assert_eq!(data(&world).await, damaged, "{repair:?}");
    }
    restore(&world, "st:{b}", &after).await;
    assert_eq!(kinds(&check(&world, false).await.findings), []);
    assert_eq!(read(&world, "b").await, shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_stored_again_unless_a_later_definition_was_in_use() {
    let definition = json!({"windows": ["day"], "shards": 2});
    let world = world(&definition).await;
    let first = run(&world, &["HGET", "st:{b}", "definition"]).await.text();
    run(&world, &["HDEL", "st:{b}", "version"]).await;
    let report = check(&world, true).await;
    assert_eq!(kinds(&report.findings), [("version", "")], "{report:?}");
    assert!(report.is_sound());

    let mut renamed = definition.clone();
    renamed["title"] = json!("other");
    world.client().define("b", renamed).await;
    let event = json!({"member": "ann", "score": 1, "at": "2026-11-21T09:00:00Z"});
    let sent = world.client().post("/v1/boards/b/events", event).await;
    sent.expect(200);
    let second = run(&world, &["HGET", "st:{b}", "definition"]).await.text();
    run(&world, &["HSET", "st:{b}", "definition", &first]).await;
    let damaged = data(&world).await;
    let report = check(&world, true).await;
    assert_eq!(kinds(&report.findings), [("went_back", "")], "{report:?}");
    assert_eq!(data(&world).await, damaged);
    run(&world, &["HSET", "st:{b}", "definition", &second]).await;
    assert_eq!(kinds(&check(&world, false).await.findings), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_reports_nothing_while_boards_are_deleted_and_created() {
    let world = World::with_instances(2, NOW).await;
    let is_over = AtomicBool::new(false);
    let changing = (0..3).map(async |task: usize| {
        let client = &world.instances[task % 2].client;
        let mut random = Random::new(task as u64);
        while !is_over.load(Ordering::SeqCst) {
            let board = format!("b{task}{}", random.below(2));
            let path = format!("/v1/boards/{board}");
            let shards = 1 + random.below(3);
            let definition = json!({"windows": ["day", "last-2-days"], "shards": shards,
                "quotas": [{"name": "day", "by": ["member"], "window": "day", "max": 1_000}]});
            client.put(&path, definition).await;
            for member in 0..5 {
                let event = json!({"member": format!("m{member}"), "score": 1, "at": "2026-11-21T08:00:00Z"});
                client.post(&format!("{path}/events"), event).await;
            }
            client.get(&format!("{path}/standings/last-2-days")).await;
            client.delete(&path).await;
            if random.below(3) == 0 {
                world.engine().run(&Purge).await.unwrap();
            }
        }
    });
    let checking = async {
        for round in 0..(2 + case_count(1)).min(12) {
            let repair = [Repair::None, Repair::Write, Repair::Remove][round % 3];
            let report = check::run(world.engine(), None, repair).await.unwrap();
            assert_eq!(report.findings, [], "{repair:?}");
        }
        is_over.store(true, Ordering::SeqCst);
    };
    join(join_all(changing), checking).await;
    world.engine().run(&Purge).await.unwrap();
    assert_eq!(check(&world, false).await.findings, []);
}
