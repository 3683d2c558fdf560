//! Quotas of boards of several shards when something breaks off between the steps of an event: reserve, apply, settle.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::{Value, json};
use standings::core::write::obstacles::Obstacle;
use standings::core::write::store::events::{self, EventReply, PlannedEvent};
use standings::core::write::store::reservations::{self, Reserved, Token, Wanted};
use standings::domain::event::{Detail, Event, Origin, Rejection};
use standings::domain::ids::{BoardId, EventId, Label, MemberId};
use standings::domain::plan::Routes;
use standings::domain::score::Score;
use standings::domain::shard::Shard;
use standings::redis::Store;
use tokio_util::task::AbortOnDropHandle;

use crate::harness::client::Answer as HttpAnswer;
use crate::harness::jobs::{Moves, SETTLE_ALL};
use crate::harness::redis::eventually;
use crate::harness::servers::RedisServers;
use crate::harness::{Client, Instance, World, clock_at};

const NOW: &str = "2026-11-21T12:00:00Z";

/// A board on which a voter has one vote, in all and in each minute.
async fn world() -> World {
    let world = World::with_instances(2, NOW).await;
    let quotas = json!([
        {"name": "once", "by": ["voter"], "window": "total", "max": 1},
        {"name": "minute", "by": ["voter", "member"], "window": "1m", "max": 1}]);
    let definition = json!({"windows": ["all"], "shards": 8, "quotas": quotas});
    world.client().define("votes", definition).await;
    world
}

async fn vote(client: &Client, id: &str) -> HttpAnswer {
    let body = json!({"id": id, "member": "alice", "score": 1, "voter": "v"});
    client.post("/v1/boards/votes/events", body).await
}

async fn score(client: &Client) -> Value {
    let path = "/v1/boards/votes/standings/all/members/alice";
    client.get(path).await.json["score"].clone()
}

async fn used(client: &Client) -> Vec<Value> {
    let path = "/v1/boards/votes/quotas?voter=v&member=alice";
    let quotas = client.get(path).await.expect(200)["quotas"].clone();
    let quotas = quotas.as_array().unwrap().iter();
    quotas.map(|quota| quota["used"].clone()).collect()
}

/// An event, taken through its steps by hand.
struct Steps<'a> {
    world: &'a World,
    shards: Vec<Shard>,
    member_shard: usize,
    ready: PlannedEvent,
    token: Token,
}

impl<'a> Steps<'a> {
    async fn of(world: &'a World, id: Option<&str>) -> Self {
        let board = BoardId::parse("votes").unwrap();
        let board = world.engine().board(&board).await.unwrap();
        let event = Event {
            id: id.map(|id| EventId::parse(id).unwrap()),
            member: MemberId::parse("alice").unwrap(),
            score: Score::from_stored(1),
            at: None,
            origin: Origin {
                voter: Some(Label::parse("v").unwrap()),
                ..Origin::default()
            },
            data: None,
        };
        let token = Token::random();
        Self {
            world,
            shards: board.shards(),
            member_shard: board.shard_of(&event.member),
            ready: PlannedEvent {
                plan: Routes::default().plan(&board, event, world.clock.now()),
                detail: Detail::Standings,
                asks_quotas: false,
                follows_until: None,
                with_history: false,
                token: Some(token),
                is_recalled: false,
                queued: None,
            },
            token,
        }
    }

    fn store(&self) -> &Store {
        &self.world.engine().store
    }

    async fn reserve(&self) {
        for used in &self.ready.plan.quotas {
            let home = &self.shards[self.shards[0].home_of(used)];
            let wanted = Wanted {
                token: self.token,
                shard: self.shards[self.member_shard].clone(),
                id: self.ready.plan.event.id.clone(),
                at: self.ready.plan.at,
                uses: vec![used.clone()],
                asks_quotas: false,
            };
            let now = self.world.clock.now();
            let reserved = reservations::reserve(self.store(), home, &[vec![wanted]], now).await;
            let open = Reserved::Open(Vec::new());
            assert_eq!(reserved.unwrap(), [open]);
        }
    }

    async fn apply(&self) -> EventReply {
        let (shard, now) = (&self.shards[self.member_shard], self.world.clock.now());
        let events = vec![self.ready.clone()];
        let applied = events::apply(self.store(), shard, events, now).await;
        applied.unwrap().remove(0)
    }
}

/// The background step; what it finds is left behind, however young it is.
async fn settle(world: &World) {
    for instance in &world.instances {
        let settled = instance.engine.run(&SETTLE_ALL).await;
        settled.unwrap();
    }
}

async fn assert_nothing_is_open(world: &World) {
    for name in ["reserved", "reserving"] {
        assert_eq!(world.redis.keys(&format!("st:*:{name}")).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_that_is_never_applied_is_returned_and_a_late_call_does_nothing() {
    let world = world().await;
    let client = world.client();
    for id in [Some("x"), None] {
        let steps = Steps::of(&world, id).await;
        steps.reserve().await;
        assert_eq!(used(client).await, [1, 1]);
        settle(&world).await;
        assert_eq!(used(client).await, [0, 0]);
        assert_eq!(
            steps.apply().await,
            EventReply::Prevented(Obstacle::VoidReservation)
        );
        assert_eq!(
            steps.apply().await,
            EventReply::Prevented(Obstacle::VoidReservation)
        );
        assert_eq!(score(client).await, Value::Null);
        assert_nothing_is_open(&world).await;
    }
    assert_eq!(vote(client, "x").await.expect(200)["status"], "applied");
    assert_eq!(used(client).await, [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applied_reservation_that_was_never_settled_is_kept() {
    for id in [Some("x"), None] {
        let world = world().await;
        let client = world.client();
        let steps = Steps::of(&world, id).await;
        steps.reserve().await;
        let first = steps.apply().await;
        assert!(matches!(first, EventReply::Taken { .. }), "{first:?}");
        // A call that is repeated on its way is the same one.
        assert_eq!(steps.apply().await, first);
        settle(&world).await;
        settle(&world).await;
        assert_nothing_is_open(&world).await;
        assert_eq!(used(client).await, [1, 1]);
        vote(client, "y")
            .await
            .expect_problem(429, "quota-exceeded");
        assert_eq!(score(client).await, 1);
        if id.is_some() {
            assert_eq!(vote(client, "x").await.expect(200)["status"], "duplicate");
        }
    }
}

/// Erases the member of the votes.
async fn erase(client: &Client) {
    let path = "/v1/boards/votes/members/alice";
    client.delete(path).await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_is_returned_if_its_member_is_erased_meanwhile() {
    let world = world().await;
    let client = world.client();
    let steps = Steps::of(&world, Some("x")).await;
    steps.reserve().await;
    erase(client).await;
    let refused = steps.apply().await;
    let is_erased = matches!(refused, EventReply::Rejected(Rejection::Erased(_)));
    assert!(is_erased, "{refused:?}");
    settle(&world).await;
    assert_nothing_is_open(&world).await;
    assert_eq!(used(client).await, [0, 0]);
    // What comes in later counts, and takes from the quotas.
    assert_eq!(vote(client, "y").await.expect(200)["status"], "applied");
    assert_eq!(score(client).await, 1);
    assert_eq!(used(client).await, [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_gives_no_votes_back() {
    let world = world().await;
    let client = world.client();
    let steps = Steps::of(&world, Some("x")).await;
    steps.reserve().await;
    let taken = steps.apply().await;
    assert!(matches!(taken, EventReply::Taken { .. }), "{taken:?}");
    erase(client).await;
    assert_eq!(score(client).await, Value::Null);
    settle(&world).await;
    assert_nothing_is_open(&world).await;
    assert_eq!(used(client).await, [1, 1]);
    vote(client, "y")
        .await
        .expect_problem(429, "quota-exceeded");
    let again = vote(client, "x").await.expect(200);
    assert_eq!(
        (&again["status"], &again["standings"]),
        (&json!("duplicate"), &json!([]))
    );
    // The same on other shards.
    client.spread("votes", 3).await;
    world.engine().run(&Moves).await.unwrap();
    vote(client, "z")
        .await
        .expect_problem(429, "quota-exceeded");
    assert_eq!(score(client).await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vote_waits_for_reservations_and_is_never_refused_because_of_them() {
    let world = world().await;
    let client = world.client();
    let steps = Steps::of(&world, Some("x")).await;
    steps.reserve().await;
    let answer = vote(&client.once(), "y").await;
    assert!(answer.headers.contains_key("retry-after"));
    let detail = answer.expect_problem(503, "quota-pending");
    assert!(detail.contains("board votes"), "{detail}");
    // A retry of the first one, whose instance is gone, and the vote that it held up.
    let (retry, ()) = join(vote(client, "x"), settle(&world)).await;
    assert_eq!(retry.expect(200)["status"], "applied");
    vote(client, "y")
        .await
        .expect_problem(429, "quota-exceeded");

    // What was applied meanwhile is known as a duplicate, although nothing says yet that its vote is used up.
    let world = self::world().await;
    let steps = Steps::of(&world, Some("x")).await;
    steps.reserve().await;
    steps.apply().await;
    let client = world.client();
    let (retry, ()) = join(vote(client, "x"), settle(&world)).await;
    assert_eq!(retry.expect(200)["status"], "duplicate");
    assert_eq!(score(client).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_retries_count_once_and_leave_nothing_reserved() {
    let world = world().await;
    let votes = (0..32).map(|number| {
        let client = &world.instances[number % 2].client;
        vote(client, "x")
    });
    let mut statuses: Vec<Value> = join_all(votes)
        .await
        .into_iter()
        .map(|answer| answer.expect(200)["status"].clone())
        .collect();
    statuses.sort_by_key(Value::to_string);
    assert_eq!(statuses[0], "applied");
    assert!(statuses[1..].iter().all(|status| status == "duplicate"));
    assert_eq!(used(world.client()).await, [1, 1]);
    assert_nothing_is_open(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_client_leaves_nothing_reserved() {
    let world = world().await;
    define(&world).await;
    for number in 0..60 {
        let client = world.client().clone();
        let voter = format!("v{}", number % 30);
        let body = json!({"member": "m", "score": 1, "voter": voter, "device": voter});
        let path = "/v1/boards/b/events";
        let sent = tokio::spawn(async move { client.post(path, body).await });
        tokio::time::sleep(Duration::from_micros(number * 50)).await;
        sent.abort();
    }
    eventually("nothing is open", async || {
        world.redis.keys("st:*:reserv*").await.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_board_that_is_redefined_between_the_steps_leaves_nothing_reserved() {
    let world = world().await;
    define(&world).await;
    let [one, other] = [0, 1].map(|index| &world.instances[index].client);
    for round in 0..40_u64 {
        let votes = (0..10).map(async |voter: u64| {
            let voter = format!("{round}-{voter}");
            let body = json!({"member": "m", "score": 1, "voter": voter, "device": voter});
            assert!(is_taken(one, &body).await);
        });
        let redefined = async {
            tokio::time::sleep(Duration::from_micros(round * 100)).await;
            let title = json!({"title": round.to_string()});
            other.patch("/v1/boards/b", title).await.expect(200);
        };
        join(join_all(votes), redefined).await;
        // What an event reserved in vain was given back by its request, rather than by the job.
        eventually("nothing is open", async || {
            world.redis.keys("st:*:reserv*").await.is_empty()
        })
        .await;
    }
    assert_eq!(total(one).await, 400);
}

/// Votes of twenty voters, ten each at a board that takes three of them; how many each got through.
async fn hammer(clients: Vec<Client>) -> Vec<usize> {
    let votes = (0..20).map(async |voter: usize| {
        let mut count = 0;
        for number in 0..10 {
            let client = &clients[(voter + number) % clients.len()];
            let body = json!({
                "id": format!("{voter}-{number}"), "member": format!("m{}", number % 3), "score": 1,
                "voter": format!("v{voter}"), "device": format!("d{}", voter / 2)});
            count += usize::from(is_taken(client, &body).await);
        }
        count
    });
    join_all(votes).await
}

async fn is_taken(client: &Client, body: &Value) -> bool {
    let answer = client.post("/v1/boards/b/events", body.clone()).await;
    if answer.status != 200 {
        answer.expect_problem(429, "quota-exceeded");
        return false;
    }
    true
}

fn clients(world: &World) -> Vec<Client> {
    let instances = world.instances.iter();
    instances.map(|instance| instance.client.clone()).collect()
}

async fn define(world: &World) {
    let quotas = json!([
        {"name": "voter", "by": ["voter"], "window": "total", "max": 3},
        {"name": "device", "by": ["device"], "window": "1h", "max": 6}]);
    let definition = json!({"windows": ["all"], "shards": 8, "quotas": quotas});
    world.client().define("b", definition).await;
}

async fn total(client: &Client) -> i64 {
    let page = client.get("/v1/boards/b/standings/all").await.expect(200);
    let entries = page["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["score"].as_i64().unwrap()).sum()
}

/// Settles whatever is open, again and again.
fn settle_again_and_again(world: &World) -> AbortOnDropHandle<()> {
    let engine = Arc::clone(&world.instances[1].engine);
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            // Redis may be gone.
            let _ = engine.run(&SETTLE_ALL).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn settling_too_early_exceeds_no_quota() {
    let world = world().await;
    define(&world).await;
    let settling = settle_again_and_again(&world);
    assert_eq!(hammer(clients(&world)).await, [3; 20]);
    drop(settling);
    assert_eq!(total(world.client()).await, 60);
    settle(&world).await;
    assert_nothing_is_open(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_killed_between_the_steps_exceeds_no_quota() {
    let world = world().await;
    define(&world).await;
    let settling = settle_again_and_again(&world);
    let votes = tokio::spawn(hammer(clients(&world)));
    for _ in 0..2 {
        // Wherever the traffic is by then.
        tokio::time::sleep(Duration::from_millis(30)).await;
        world.redis.kill();
        world.redis.restart().await;
    }
    assert_eq!(votes.await.unwrap(), [3; 20]);
    drop(settling);
    assert_eq!(total(world.client()).await, 60);
    eventually("nothing is open", async || {
        settle(&world).await;
        world.redis.keys("st:*:reserved").await.is_empty()
    })
    .await;
    assert_nothing_is_open(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_dying_between_the_steps_exceeds_no_quota() {
    let redis = RedisServers::start_cluster_with_replicas().await;
    let clock = clock_at(NOW);
    let set_up = |store: Store| store.with_min_replicas(1);
    let instances = Instance::start_two(&redis.url(), &clock, set_up).await;
    let world = World {
        instances: instances.into(),
        clock,
        redis,
    };
    define(&world).await;
    let settling = settle_again_and_again(&world);
    let votes = tokio::spawn(hammer(clients(&world)));
    // Wherever the traffic is by then.
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.redis.fail_over(1).await;
    assert_eq!(votes.await.unwrap(), [3; 20]);
    drop(settling);
    eventually("all is settled", async || {
        let is_settled = async |instance: &Instance| {
            let settled = instance.engine.run(&SETTLE_ALL).await;
            settled.is_ok()
        };
        is_settled(&world.instances[0]).await
            && world
                .client()
                .get("/v1/boards/b/standings/all")
                .await
                .status
                == 200
            && world.redis.keys("st:*:reserved").await.is_empty()
    })
    .await;
    assert_eq!(total(world.client()).await, 60);
    assert_nothing_is_open(&world).await;
}
