//! Reads from replicas: they say how old they are, and are no older than that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::Method;
use serde_json::json;
use standings::core::board::deletions;
use standings::core::board::store::boards;
use standings::domain::clock::Clock;
use standings::domain::ids::BoardId;
use standings::domain::time::Timestamp;
use standings::redis::Store;
use tokio_util::task::AbortOnDropHandle;

use crate::harness::client::Answer;
use crate::harness::delay::Delay;
use crate::harness::redis::{RedisServer, eventually};
use crate::harness::replicated::listening;
use crate::harness::sentinels::WatchedServers;
use crate::harness::servers::{RedisServers, free_ports};
use crate::harness::{Client, Instance, clock_at};

const NOW: &str = "2026-11-21T12:00:00Z";
const PAGE: &str = "/v1/boards/b/standings/all?size=1000";
/// The pause between two reads that only wait for something else.
const READ_INTERVAL: Duration = Duration::from_millis(5);

/// A primary, a replica that can be held up, and an instance that reads from it.
struct Pair {
    primary: RedisServer,
    replica: RedisServer,
    delay: Delay,
    clock: Clock,
    instance: Instance,
}

impl Pair {
    async fn start(max_staleness: Duration) -> Self {
        let ports = free_ports().map(|port| port.to_string());
        let primary = listening(&ports[0], &[]).await;
        let delay = Delay::before(&ports[0]).await;
        let port = delay.port.to_string();
        let replica = listening(&ports[1], &["--replicaof", "127.0.0.1", &port]).await;
        let clock = clock_at(NOW);
        let store = crate::harness::store(&primary.url()).with_max_staleness(max_staleness);
        let instance = Instance::start_on(store, clock.clone(), "").await;
        Self {
            primary,
            replica,
            delay,
            clock,
            instance,
        }
    }

    fn client(&self) -> &Client {
        &self.instance.client
    }

    /// Sends an event of a member; it has to be taken.
    async fn post(&self, member: &str) {
        let event = json!({"member": member, "score": 1});
        let answer = self.client().post("/v1/boards/b/events", event).await;
        answer.expect(200);
    }

    /// Waits until the replica answers, with all that there is.
    async fn wait_for_replica(&self) {
        let newest = self.client().get_current(PAGE).await.text;
        eventually("the replica answers", async || {
            let answer = self.client().get(PAGE).await;
            staleness_of(&answer).is_some() && answer.text == newest
        })
        .await;
    }
}

impl Client {
    /// Reads what is right now.
    async fn get_current(&self, path: &str) -> Answer {
        let request = self
            .builder(Method::GET, path)
            .header("cache-control", "max-age=0, No-Cache");
        let answer = Self::send(request).await;
        assert_eq!(staleness_of(&answer), None);
        answer
    }
}

/// How old an answer is at the most, if it is by a replica.
fn staleness_of(answer: &Answer) -> Option<Duration> {
    let ms = answer.headers.get("max-staleness-ms")?;
    Some(Duration::from_millis(ms.to_str().unwrap().parse().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_from_a_replica_says_how_old_it_is() {
    const MAX_STALENESS: Duration = Duration::from_secs(2);
    let pair = Pair::start(MAX_STALENESS).await;
    let client = pair.client();
    client.define("b", json!({"windows": ["all"]})).await;
    pair.post("a").await;
    pair.wait_for_replica().await;
    let stats = pair.replica.command("INFO commandstats").await;
    assert!(stats.contains("cmdstat_evalsha"), "{stats}");

    pair.delay.hold(true);
    pair.post("b").await;
    let acknowledged = Instant::now();
    let mut seen_old = 0;
    loop {
        let sent = Instant::now();
        let answer = client.get(PAGE).await;
        let Some(staleness) = staleness_of(&answer) else {
            assert_eq!(answer.expect(200)["total"], 2);
            break;
        };
        assert_eq!(answer.headers["cache-control"], "public, no-cache");
        assert_eq!(answer.expect(200)["total"], 1);
        assert!(acknowledged + staleness > sent, "{staleness:?}");
        assert!(staleness <= MAX_STALENESS, "{staleness:?}");
        if seen_old == 0 {
            // Whoever asks for it is told what is right now, and so is who asks for a member that nobody knows yet.
            assert_eq!(client.get_current(PAGE).await.expect(200)["total"], 2);
            let member = client.get("/v1/boards/b/standings/all/members/b").await;
            assert_eq!(staleness_of(&member), None);
            assert_eq!(member.expect(200)["score"], 1);
            let queries = json!({"queries": [
                {"type": "page", "board": "b", "window": "all"},
                {"type": "member", "board": "b", "window": "all", "member": "b"}]});
            let both = client.post("/v1/standings/query", queries).await;
            assert!(staleness_of(&both).is_some());
            let both = both.expect(200);
            assert_eq!(both["results"][0]["total"], 1);
            assert_eq!(both["results"][1]["total"], 2);
            for path in ["members?ids=a,b", "stats", "members/a"] {
                let path = format!("/v1/boards/b/standings/all/{path}");
                let answer = client.get(&path).await;
                assert!(staleness_of(&answer).is_some(), "{path}");
                let tag = answer.headers["etag"].to_str().unwrap();
                let again = client
                    .builder(Method::GET, &path)
                    .header("if-none-match", tag);
                let again = Client::send(again).await;
                assert_eq!(again.status, 304);
                assert!(staleness_of(&again).is_some(), "{path}");
            }
        }
        seen_old += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(seen_old > 10, "{seen_old}");
    assert!(acknowledged.elapsed() > MAX_STALENESS / 2);
    pair.delay.hold(false);
    pair.wait_for_replica().await;
}

/// A cohort, the cohort of a member, and a member without seat.
#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_of_a_league_is_read_from_replicas_too() {
    const COHORT: &str = "/v1/boards/l/standings/week?cohort=bronze-1";
    let pair = Pair::start(Duration::from_secs(2)).await;
    let client = pair.client();
    let tiers = json!([{"name": "bronze", "promote": 0, "demote": 0}]);
    let league = json!({"windows": ["week"], "score_min": 0, "league": {"tiers": tiers}});
    client.define("l", league).await;
    let join = async |member: &str| {
        let path = "/v1/boards/l/league/members";
        client
            .post(path, json!({"member": member}))
            .await
            .expect(201)
    };
    let post = async |member: &str, score: u32| {
        let event = json!({"member": member, "score": score});
        let answer = client.post("/v1/boards/l/events", event).await;
        answer.expect(200);
    };
    join("ann").await;
    post("ann", 5).await;
    let by_replica = async |path: &str| {
        eventually("the replica answers", async || {
            staleness_of(&client.get(path).await).is_some()
        })
        .await;
    };
    let member = |name: &str| format!("/v1/boards/l/standings/week/members/{name}");
    by_replica(COHORT).await;
    by_replica(&member("ann")).await;
    pair.delay.hold(true);
    // Who joins is told what is right now, and so is who asks for somebody that the replica has not seen.
    let seat = join("bob").await;
    assert_eq!((&seat["rank"], &seat["size"]), (&json!(2), &json!(2)));
    post("bob", 9).await;
    let acknowledged = Instant::now();
    let bob = client.get(&member("bob")).await;
    assert_eq!(staleness_of(&bob), None);
    assert_eq!(bob.expect(200)["rank"], 1);
    let mut seen_old = 0;
    loop {
        let begun = Instant::now();
        let answer = client.get(COHORT).await;
        let Some(staleness) = staleness_of(&answer) else {
            assert_eq!(answer.expect(200)["total"], 2);
            break;
        };
        assert_eq!(answer.expect(200)["total"], 1);
        assert!(acknowledged + staleness > begun, "{staleness:?}");
        seen_old += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(seen_old > 0);
    pair.delay.hold(false);
    by_replica(COHORT).await;
    // A hide holds in every cohort, whoever answers.
    let hidden = client.put("/v1/boards/l/hidden/bob", json!({"reason": "cheating"}));
    hidden.await.expect(200);
    for _ in 0..20 {
        let page = client.get(COHORT).await.expect(200);
        assert_eq!(page["total"], 1, "{page}");
        client
            .get(&member("bob"))
            .await
            .expect_problem(404, "member-not-found");
    }
}

/// The instance that hides a member reads from no replica. It waits for the one that does.
#[tokio::test(flavor = "multi_thread")]
async fn once_a_hide_returns_no_replica_shows_the_member() {
    const MAX_STALENESS: Duration = Duration::from_secs(2);
    let pair = Pair::start(MAX_STALENESS).await;
    let store = crate::harness::store(&pair.primary.url());
    let moderating = Instance::start_on(store, pair.clock.clone(), "").await;
    pair.client().define("b", json!({"windows": ["all"]})).await;
    pair.post("a").await;
    pair.post("b").await;
    let path = "/v1/boards/b/hidden/a";
    for is_held in [true, false] {
        pair.wait_for_replica().await;
        pair.delay.hold(is_held);
        let client = moderating.client.clone();
        let hiding = tokio::spawn(async move {
            let begun = Instant::now();
            client
                .put(path, json!({"reason": "cheating"}))
                .await
                .expect(200);
            begun.elapsed()
        });
        let mut by_replicas = 0;
        while !hiding.is_finished() {
            let answer = pair.client().get(PAGE).await;
            by_replicas += usize::from(staleness_of(&answer).is_some());
            tokio::time::sleep(READ_INTERVAL).await;
        }
        assert!(hiding.await.unwrap() >= MAX_STALENESS);
        for _ in 0..50 {
            let answer = pair.client().get(PAGE).await.expect(200);
            assert_eq!(answer["total"], 1, "{answer}");
        }
        assert!(by_replicas > 0);
        pair.delay.hold(false);
        moderating.client.delete(path).await.expect(204);
        assert_eq!(pair.client().get(PAGE).await.expect(200)["total"], 2);
    }
}

/// The same of who is erased. What comes in later is seen.
#[tokio::test(flavor = "multi_thread")]
async fn once_an_erasure_returns_no_replica_shows_the_member() {
    const MAX_STALENESS: Duration = Duration::from_secs(2);
    let pair = Pair::start(MAX_STALENESS).await;
    let store = crate::harness::store(&pair.primary.url());
    let erasing = Instance::start_on(store, pair.clock.clone(), "").await;
    pair.client().define("b", json!({"windows": ["all"]})).await;
    pair.post("b").await;
    for (is_held, path) in [
        (true, "/v1/boards/b/members/a"),
        (true, "/v1/members/a"),
        (false, "/v1/members/a"),
    ] {
        pair.post("a").await;
        pair.wait_for_replica().await;
        pair.delay.hold(is_held);
        let client = erasing.client.clone();
        let erased = tokio::spawn(async move {
            let begun = Instant::now();
            let answer = client.delete(path).await;
            assert!(answer.status.is_success(), "{}", answer.text);
            begun.elapsed()
        });
        let mut by_replicas = 0;
        while !erased.is_finished() {
            let answer = pair.client().get(PAGE).await;
            by_replicas += usize::from(staleness_of(&answer).is_some());
            tokio::time::sleep(READ_INTERVAL).await;
        }
        assert!(erased.await.unwrap() >= MAX_STALENESS);
        for _ in 0..50 {
            let answer = pair.client().get(PAGE).await.expect(200);
            assert_eq!(answer["total"], 1, "{answer}");
        }
        assert!(by_replicas > 0);
        pair.delay.hold(false);
        pair.post("a").await;
        let page = pair.client().get_current(PAGE).await.expect(200);
        assert_eq!(page["entries"][0]["score"], 1, "{page}");
        assert_eq!(page["total"], 2);
    }
}

/// The instance that reads from the replica has the board in memory.
#[tokio::test(flavor = "multi_thread")]
async fn once_a_deletion_returns_no_replica_shows_the_board() {
    let pair = Pair::start(Duration::from_secs(2)).await;
    let store = crate::harness::store(&pair.primary.url());
    let deleting = Instance::start_on(store, pair.clock.clone(), "").await;
    for (is_held, shards) in [(true, 1), (true, 3), (false, 3)] {
        let definition = json!({"windows": ["all"], "shards": shards});
        pair.client().define("b", definition).await;
        pair.post("a").await;
        pair.wait_for_replica().await;
        pair.client().get(PAGE).await.expect(200);
        pair.delay.hold(is_held);
        deleting.client.delete("/v1/boards/b").await.expect(204);
        for _ in 0..50 {
            let answer = pair.client().get(PAGE).await;
            answer.expect_problem(404, "board-not-found");
        }
        pair.delay.hold(false);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_primary_answers_if_a_replica_lacks_something() {
    let pair = Pair::start(Duration::from_mins(1)).await;
    let client = pair.client();
    let windows = json!(["all", "last-2-days"]);
    client
        .define("b", json!({"windows": windows, "ties": "member"}))
        .await;
    pair.post("a").await;
    let rolling = "/v1/boards/b/standings/last-2-days";
    client.get(rolling).await.expect(200);
    pair.wait_for_replica().await;
    pair.delay.hold(true);
    // A standing that is not complete yet.
    pair.clock
        .set(Timestamp::parse("2026-11-22T12:00:00Z").unwrap());
    let answer = client.get(rolling).await;
    assert_eq!(staleness_of(&answer), None);
    assert_eq!(answer.expect(200)["total"], 1);
    assert!(staleness_of(&client.get(PAGE).await).is_some());
    // Another definition.
    client
        .define(
            "b",
            json!({"windows": windows, "ties": "member", "score_max": 9}),
        )
        .await;
    let answer = client.get(PAGE).await;
    assert_eq!(staleness_of(&answer), None);
    assert_eq!(answer.expect(200)["total"], 1);
    // Another board of the same name. A request would wait for the replica before it answers.
    let engine = &pair.instance.engine;
    let (store, id) = (&engine.store, BoardId::parse("b").unwrap());
    let board = engine.board(&id).await.unwrap();
    let stamp = boards::begin_change(store, &id).await.unwrap();
    assert!(deletions::delete(store, &board, stamp).await.unwrap());
    deletions::end(store, &id, stamp).await.unwrap();
    boards::announce(store, &id, Some(stamp)).await.unwrap();
    engine.refresh_boards().await.unwrap();
    client
        .get(PAGE)
        .await
        .expect_problem(404, "board-not-found");
    client
        .define("b", json!({"windows": windows, "ties": "member"}))
        .await;
    let answer = client.get(PAGE).await;
    assert_eq!(staleness_of(&answer), None);
    assert_eq!(answer.expect(200)["total"], 0);
    // One that the replica has never heard of.
    client.define("c", json!({"windows": ["all"]})).await;
    let answer = client.get("/v1/boards/c/standings/all").await;
    assert_eq!(answer.expect(200)["total"], 0);
    pair.delay.hold(false);
    pair.wait_for_replica().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_go_on_without_a_replica() {
    let pair = Pair::start(Duration::from_mins(1)).await;
    let client = pair.client();
    client.define("b", json!({"windows": ["all"]})).await;
    pair.post("a").await;
    pair.wait_for_replica().await;
    pair.replica.kill();
    for _ in 0..20 {
        client.get(PAGE).await.expect(200);
    }
    pair.post("b").await;
    pair.replica.restart().await;
    pair.wait_for_replica().await;
}

/// One replica answers at once, and another one not at all: until its primary has been asked instead, the first answer has
/// grown too old.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_is_older_than_allowed_when_it_is_sent() {
    const MAX_STALENESS: Duration = Duration::from_millis(500);
    let servers = RedisServers::start_cluster_with_replicas().await;
    let clock = clock_at(NOW);
    let store = crate::harness::store(&servers.url()).with_max_staleness(MAX_STALENESS);
    let instance = Instance::start_on(store, clock, "").await;
    let client = &instance.client;
    client
        .define("b", json!({"windows": ["all"], "shards": 8}))
        .await;
    let members: Vec<String> = (0..50).map(|number| format!("m{number}")).collect();
    for member in &members {
        let event = json!({"id": member, "member": member, "score": 1});
        client.post_until_taken("/v1/boards/b/events", &event).await;
    }
    let ids = members.join(",");
    let queries = json!({"queries": [{"type": "page", "board": "b", "window": "all"}]});
    for path in [
        "all",
        "all/members/m7",
        &format!("all/members?ids={ids}"),
        "all/stats",
        "query",
    ] {
        let read = async || {
            if path == "query" {
                client.post("/v1/standings/query", queries.clone()).await
            } else {
                client.get(&format!("/v1/boards/b/standings/{path}")).await
            }
        };
        eventually("replicas answer", async || {
            staleness_of(&read().await).is_some()
        })
        .await;
        servers.freeze_replica(1, true);
        let answer = read().await;
        servers.freeze_replica(1, false);
        let staleness = staleness_of(&answer).unwrap_or_default();
        assert!(staleness <= MAX_STALENESS, "{path}: {staleness:?}");
        assert!(answer.expect(200).to_string().contains("50"), "{path}");
    }
}

/// Replicas have answered so often by then, or they never do.
const WATCH_MAX: Duration = Duration::from_mins(3);

/// Who sends one event after the other, each of another member, and when they were acknowledged.
#[derive(Default)]
struct Writer {
    acknowledged: Mutex<Vec<Instant>>,
    sent: AtomicUsize,
}

impl Writer {
    fn start(self: &Arc<Self>, client: Client) -> AbortOnDropHandle<()> {
        let writer = Arc::clone(self);
        AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let number = writer.sent.fetch_add(1, Ordering::SeqCst);
                let member = format!("m{number}");
                let body = json!({"id": member, "member": member, "score": 1});
                client.post_until_taken("/v1/boards/b/events", &body).await;
                writer.acknowledged.lock().push(Instant::now());
            }
        }))
    }

    /// Reads until so many answers were by replicas. None may lack an event that was acknowledged before the answer was
    /// as old as it says.
    async fn watch(&self, client: &Client, enough: usize) {
        let begun = Instant::now();
        let mut by_replicas = 0;
        while by_replicas < enough {
            assert!(begun.elapsed() < WATCH_MAX, "only {by_replicas}");
            let asked = Instant::now();
            let answer = client
                .get("/v1/boards/b/standings/all?size=1&member=m0")
                .await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            let staleness = staleness_of(&answer);
            by_replicas += usize::from(staleness.is_some());
            let age = staleness.unwrap_or_default();
            let at_least = {
                let acknowledged = self.acknowledged.lock();
                acknowledged.partition_point(|at| *at + age <= asked)
            };
            let total = usize::try_from(answer.json["total"].as_u64().unwrap()).unwrap();
            assert!(total >= at_least, "{total} of {at_least}, {staleness:?}");
            assert!(total <= self.sent.load(Ordering::SeqCst));
        }
    }
}

/// Two instances that wait for a replica with each event, and read from replicas.
async fn two_instances(url: &str) -> [Instance; 2] {
    let clock = clock_at(NOW);
    let set_up = |store: Store| {
        let store = store.with_min_replicas(1);
        store.with_max_staleness(Duration::from_secs(1))
    };
    Instance::start_two(url, &clock, set_up).await
}

/// Events come in at one instance, and are read at the other, while a primary dies and its replica takes over.
async fn watch_a_failover(url: &str, shards: u16, fail_over: impl Future<Output = ()>) {
    let [writing, reading] = two_instances(url).await;
    let client = &writing.client;
    let definition = json!({"windows": ["all"], "shards": shards});
    eventually("the replicas follow", async || {
        let answer = client.put("/v1/boards/b", definition.clone()).await;
        answer.status.is_success()
    })
    .await;
    let writer = Arc::new(Writer::default());
    let _writing = writer.start(client.clone());
    writer.watch(&reading.client, 300).await;
    tokio::join!(fail_over, writer.watch(&reading.client, 300));
    let before = writer.acknowledged.lock().len();
    eventually("events go on", async || {
        writer.acknowledged.lock().len() > before + 20
    })
    .await;
    writer.watch(&reading.client, 300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_a_cluster_are_no_older_than_they_say_while_a_primary_dies() {
    let servers = RedisServers::start_cluster_with_replicas().await;
    let url = servers.url();
    watch_a_failover(&url, 4, servers.fail_over(1)).await;
}

/// A replica does not know that a slot of its primary is moving, and has a part of its keys then.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_no_older_than_they_say_while_slots_move() {
    let servers = RedisServers::start_cluster_with_replicas().await;
    let [writing, reading] = two_instances(&servers.url()).await;
    let definition = json!({"windows": ["all"], "shards": 4});
    writing.client.define("b", definition).await;
    let writer = Arc::new(Writer::default());
    let _writing = writer.start(writing.client.clone());
    writer.watch(&reading.client, 100).await;
    let _moving = servers.keep_moving().await;
    writer.watch(&reading.client, 500).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_behind_sentinels_are_no_older_than_they_say_while_the_primary_dies() {
    let servers = WatchedServers::start().await;
    let url = servers.url();
    watch_a_failover(&url, 1, servers.fail_over()).await;
}
