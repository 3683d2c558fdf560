//! Boards that are redefined while an instance answers: it learns of each new definition by a call that is refused, and begins again.
//! Nobody is refused, or answered wrong, because of that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::{Value, json};

use crate::harness::client::Answer;
use crate::harness::jobs::ClosePeriods;
use crate::harness::random::{Random, case_count, seed};
use crate::harness::{Client, World};

const FIRST_DAY: &str = "2026-11-20T12:00:00Z";
const NOW: &str = "2026-11-21T12:00:00Z";
/// The members whose scores change.
const MEMBERS: usize = 10;
/// The kinds of requests on a board that is no league, and on a league.
const KINDS: usize = 21;
const LEAGUE_KINDS: usize = 12;

/// Has the second instance give a board another definition, of which the first is not told.
async fn redefine(world: &World, board: &str) {
    static VERSION: AtomicUsize = AtomicUsize::new(0);
    let title = format!("version {}", VERSION.fetch_add(1, Ordering::Relaxed));
    let path = format!("/v1/boards/{board}");
    let client = &world.instances[1].client;
    client
        .patch(&path, json!({"title": title}))
        .await
        .expect(200);
}

/// Who asks the first instance about a board, and what it has to say.
struct Play<'a> {
    world: &'a World,
    board: &'a str,
    client: Client,
    /// Whether the board is redefined before each request. Otherwise that may happen at any time.
    redefines: bool,
    random: Random,
    events: usize,
    /// What events have made of the score of each member.
    played: BTreeMap<String, i64>,
    initial: BTreeMap<String, i64>,
    /// How many of a member's events count today.
    today: BTreeMap<String, u64>,
    hidden: BTreeSet<String>,
}

impl<'a> Play<'a> {
    /// Asks after each change, and takes no 503; or amid changes.
    fn new(world: &'a World, board: &'a str, redefines: bool, number: u64) -> Self {
        let client = world.client();
        Self {
            world,
            board,
            client: if redefines {
                client.once()
            } else {
                client.clone()
            },
            redefines,
            random: Random::new(seed(number)),
            events: 0,
            played: BTreeMap::new(),
            initial: BTreeMap::new(),
            today: BTreeMap::new(),
            hidden: BTreeSet::new(),
        }
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        if self.redefines {
            redefine(self.world, self.board).await;
        }
        let path = format!("/v1/boards/{}{path}", self.board);
        match method {
            "GET" => self.client.get(&path).await,
            "PUT" => self.client.put(&path, body).await,
            "PATCH" => self.client.patch(&path, body).await,
            "DELETE" => self.client.delete(&path).await,
            _ => self.client.post(&path, body).await,
        }
    }

    async fn get(&self, path: &str) -> Value {
        self.ask("GET", path, Value::Null).await.expect(200)
    }

    fn some_member(&mut self) -> String {
        format!("m{}", self.random.below(MEMBERS))
    }

    fn next_id(&mut self) -> String {
        self.events += 1;
        format!("{}-{}", self.board, self.events)
    }

    /// Posts an event, and the same once more.
    async fn send(&mut self, member: &str) -> String {
        let (id, score) = (self.next_id(), self.random.below(9) + 1);
        let event = json!({"id": id, "member": member, "score": score, "voter": "v"});
        let first = self.ask("POST", "/events", event.clone()).await.expect(200);
        if self.redefines {
            assert_eq!(first["status"], "applied", "{first}");
        }
        let again = self.ask("POST", "/events", event).await.expect(200);
        assert_eq!(again["status"], "duplicate", "{again}");
        *self.played.entry(member.to_owned()).or_default() += i64::try_from(score).unwrap();
        *self.today.entry(member.to_owned()).or_default() += 1;
        id
    }

    /// The scores of a standing that shows who is not hidden.
    fn shown(&self, with_initial: bool) -> BTreeMap<String, i64> {
        let mut scores = self.played.clone();
        for (member, initial) in self.initial.iter().filter(|_| with_initial) {
            *scores.entry(member.clone()).or_default() += initial;
        }
        scores.retain(|member, _| !self.hidden.contains(member));
        scores
    }

    fn scores_of(entries: &Value) -> BTreeMap<String, i64> {
        let entries = entries.as_array().unwrap().iter();
        let score = |entry: &Value| {
            let member = entry["member"].as_str().unwrap().to_owned();
            (member, entry["score"].as_i64().unwrap())
        };
        entries.map(score).collect()
    }

    async fn check_page(&self, window: &str, with_initial: bool) {
        let page = self.get(&format!("/standings/{window}?size=1000")).await;
        let shown = self.shown(with_initial);
        assert_eq!(Self::scores_of(&page["entries"]), shown, "{page}");
        assert_eq!(page["total"], json!(shown.len()), "{page}");
    }

    /// Reads a member who has played, or is not there.
    async fn check_member(&mut self, window: &str) {
        let member = self.some_member();
        let path = format!("/standings/{window}/members/{member}");
        let answer = self.ask("GET", &path, Value::Null).await;
        match self.shown(true).get(&member) {
            Some(score) => assert_eq!(answer.expect(200)["score"], json!(score)),
            None => self.check_absent(&member, answer),
        }
    }

    /// Who has no seat in a league is told where it would be seated, unless it is hidden.
    fn check_absent(&self, member: &str, answer: Answer) {
        if self.board == "league" && !self.hidden.contains(member) {
            assert!(answer.expect(200)["rank"].is_null());
        } else {
            answer.expect_problem(404, "member-not-found");
        }
    }

    /// Hides a member, or brings it back.
    async fn moderate(&mut self) {
        let member = self.some_member();
        let path = format!("/hidden/{member}");
        if self.hidden.remove(&member) {
            let answer = self.ask("DELETE", &path, Value::Null).await;
            // Amid changes the first answer to it may have been a 503.
            let is_known = answer.status == 204 || answer.status == 404 && !self.redefines;
            assert!(is_known, "{}", answer.text);
            let answer = self.ask("GET", &path, Value::Null).await;
            answer.expect_problem(404, "not-hidden");
        } else {
            let hide = json!({"reason": "cheating"});
            self.ask("PUT", &path, hide).await.expect(200);
            self.hidden.insert(member.clone());
            assert_eq!(self.get(&path).await["member"], json!(member));
        }
    }

    /// Erases a member that has played.
    async fn erase(&mut self, window: &str) {
        let member = format!("gone{}", self.random.below(5));
        self.send(&member).await;
        let path = format!("/members/{member}");
        let answer = self.ask("DELETE", &path, Value::Null).await;
        assert_eq!(answer.status, 204, "{}", answer.text);
        self.played.remove(&member);
        let path = format!("/standings/{window}/members/{member}");
        let answer = self.ask("GET", &path, Value::Null).await;
        self.check_absent(&member, answer);
    }

    /// Sends a request of a kind, and checks the answers.
    async fn play(&mut self, kind: usize) {
        let final_day = "/standings/day/periods/2026-11-20";
        match kind {
            0 => {
                let member = self.some_member();
                self.send(&member).await;
            }
            1 => self.check_page("all", true).await,
            2 => self.check_page("last-2-days", false).await,
            3 => self.check_member("all").await,
            4 => {
                let mut shown = self.shown(true);
                shown.retain(|member, _| member.starts_with('m'));
                let members = (0..MEMBERS).map(|member| format!("m{member}"));
                let ids: Vec<String> = members.collect();
                let query = json!({"ids": ids});
                let path = "/standings/all/members/query";
                let found = self.ask("POST", path, query).await.expect(200);
                assert_eq!(Self::scores_of(&found["entries"]), shown, "{found}");
                let path = format!("/standings/all/members?ids={}", ids.join(","));
                let found = self.get(&path).await;
                assert_eq!(Self::scores_of(&found["entries"]), shown, "{found}");
            }
            5 => {
                let stats = self.get("/standings/all/stats").await;
                assert_eq!(stats["members"], json!(self.shown(true).len()), "{stats}");
            }
            6 => {
                let summary = self.get("/summary").await;
                let mut windows = summary["windows"].as_array().unwrap().iter();
                let all = windows.find(|window| window["window"] == "all").unwrap();
                assert_eq!(all["total"], json!(self.shown(true).len()), "{summary}");
            }
            7 => drop(self.get("/standings/all/at-percentile/50").await),
            8 => {
                let (member, score) = (self.some_member(), self.random.below(5));
                let score = i64::try_from(score).unwrap();
                let given = (score > 0).then_some(score);
                let scores = json!({"scores": {member.as_str(): given}});
                let set = self
                    .ask("PATCH", "/initial-scores", scores)
                    .await
                    .expect(200);
                self.initial.remove(&member);
                self.initial.extend(given.map(|score| (member, score)));
                assert_eq!(set["members"], json!(self.initial.len()), "{set}");
            }
            9 => {
                let listed = self.get("/initial-scores").await;
                assert_eq!(
                    Self::scores_of(&listed["entries"]),
                    self.initial,
                    "{listed}"
                );
            }
            10 => self.moderate().await,
            11 => {
                let listed = self.get("/hidden").await;
                let members = listed["hidden"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|hidden| hidden["member"].as_str().unwrap().to_owned());
                assert_eq!(members.collect::<BTreeSet<_>>(), self.hidden);
            }
            12 => self.erase("all").await,
            13 => {
                let member = self.some_member();
                let quotas = self.get(&format!("/quotas?voter=v&member={member}")).await;
                let used = self.today.get(&member).copied().unwrap_or(0);
                assert_eq!(quotas["quotas"][0]["used"], json!(used), "{quotas}");
                assert_eq!(self.get("/quotas").await["quotas"], json!([]));
            }
            14 => {
                let listed = self.get("/standings/day/periods").await;
                let periods = listed["periods"].as_array().unwrap();
                let first = periods.last().unwrap();
                assert_eq!(
                    (&first["key"], &first["state"]),
                    (&json!("2026-11-20"), &json!("final"))
                );
            }
            15 => {
                let result = self.get(final_day).await;
                assert_eq!(
                    (&result["state"], &result["total"]),
                    (&json!("final"), &json!(3))
                );
                assert_eq!(result["winner"]["member"], "ann", "{result}");
            }
            16 => {
                let listed = self.get(&format!("{final_day}/rewards")).await;
                assert_eq!(listed["rewards"][0]["member"], "ann", "{listed}");
                let path = format!("{final_day}/rewards?member=bob");
                assert_eq!(self.get(&path).await["rewards"], json!([]));
                let revisions = self.get(&format!("{final_day}/revisions")).await;
                assert_eq!(revisions["revisions"], json!([]), "{revisions}");
            }
            17 => {
                let path = format!("{final_day}/rewards/crown/members/ann/claim");
                let claimed = self.ask("PUT", &path, json!({"by": "game"})).await;
                assert!(claimed.status.is_success(), "{}", claimed.text);
                assert_eq!(claimed.json["state"], "claimed", "{}", claimed.text);
            }
            18 => {
                let export = self
                    .ask(
                        "GET",
                        &format!("{final_day}/export?format=csv"),
                        Value::Null,
                    )
                    .await;
                assert_eq!(export.status, 200, "{}", export.text);
            }
            19 => {
                let member = self.some_member();
                let id = self.send(&member).await;
                let path = format!("/events?id={id}&member={member}");
                let found = self.get(&path).await;
                assert_eq!(found["events"][0]["status"], "applied", "{found}");
                assert_eq!(self.get("/dead-letters").await["dead_letters"], json!([]));
            }
            _ if self.redefines => {
                let page = self.ask("GET", "/standings/all", Value::Null).await;
                let revision = page.revision.unwrap();
                self.get(&format!("/standings/all?min_revision={revision}"))
                    .await;
            }
            // A board that moves has other revisions.
            _ => drop(self.get("/shards").await),
        }
    }

    /// The same on a league.
    async fn play_league(&mut self, kind: usize) {
        match kind {
            0 => {
                let member = self.some_member();
                self.send(&member).await;
            }
            1 => {
                let member = self.some_member();
                self.join(&member).await;
                self.played.entry(member).or_default();
            }
            2 | 3 => self.check_member("week").await,
            4 => {
                let member = self.some_member();
                let found = self.get(&format!("/league/members/{member}")).await;
                assert_eq!(found["member"], json!(member), "{found}");
                let path = format!("/league/members/{member}/history");
                assert_eq!(self.get(&path).await["seats"], json!([]));
            }
            5 => {
                let listed = self.get("/standings/week/tiers").await;
                assert_eq!(listed["tiers"].as_array().unwrap().len(), 2, "{listed}");
                self.get("/standings/week/tiers/bronze/cohorts").await;
            }
            6 => {
                let member = self.some_member();
                let path = format!("/league/members/{member}");
                let order = json!({"tier": "silver"});
                let ordered = self.ask("PUT", &path, order).await.expect(200);
                assert_eq!(ordered["order"]["tier"], "silver", "{ordered}");
            }
            7 => {
                let member = format!("left{}", self.random.below(5));
                self.join(&member).await;
                let left = json!({ "member": member });
                self.ask("POST", "/league/leave", left).await.expect(200);
            }
            8 => self.moderate().await,
            9 => self.erase("week").await,
            10 => drop(self.get("/standings/week/periods").await),
            _ => drop(self.get("/summary").await),
        }
    }

    async fn join(&self, member: &str) {
        let body = json!({ "member": member });
        let joined = self.ask("POST", "/league/members", body).await;
        assert!(joined.status.is_success(), "{}", joined.text);
    }

    async fn play_any(&mut self) {
        if self.board == "league" {
            let kind = self.random.below(LEAGUE_KINDS);
            self.play_league(kind).await;
        } else {
            let kind = self.random.below(KINDS);
            self.play(kind).await;
        }
    }
}

/// Two instances, with boards of one and of three shards whose first day is final, and a league.
async fn world() -> World {
    let world = World::with_instances(2, FIRST_DAY).await;
    let client = world.client();
    for (board, shards) in [("one", 1), ("three", 3)] {
        let definition = json!({
            "windows": ["day", "all", "last-2-days"], "shards": shards, "initial": ["all"], "finalize": "10m",
            "rewards": [{"id": "crown", "window": "day", "ranks": [1, 1], "reward": "crown"}],
            "quotas": [{"name": "of-member", "by": ["member"], "window": "day", "max": 1_000_000},
                {"name": "of-voter", "by": ["voter"], "window": "day", "max": 1_000_000}],
        });
        client.define(board, definition).await;
        for (member, score) in [("ann", 30), ("bob", 20), ("cid", 10)] {
            let event = json!({"id": member, "member": member, "score": score, "voter": "v"});
            let path = format!("/v1/boards/{board}/events");
            client.post(&path, event).await.expect(200);
        }
    }
    let league = json!({"windows": ["week"], "score_min": 0, "league": {"tiers": [
        {"name": "bronze", "promote": 0.3, "demote": 0}, {"name": "silver", "promote": 0, "demote": 0.5},
    ]}});
    client.define("league", league).await;
    world.set_time(NOW);
    world.engine().run(&ClosePeriods).await.unwrap();
    world
}

fn plays(world: &World, redefines: bool) -> Vec<Play<'_>> {
    let boards = ["one", "three", "league"].into_iter().zip(0..);
    let plays = boards.map(|(board, number)| {
        let mut play = Play::new(world, board, redefines, number);
        if board != "league" {
            for (member, score) in [("ann", 30), ("bob", 20), ("cid", 10)] {
                play.played.insert(member.to_owned(), score);
            }
        }
        play
    });
    plays.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_right_on_an_instance_that_missed_a_change() {
    let world = world().await;
    for play in &mut plays(&world, true) {
        for _ in 0..2 {
            if play.board == "league" {
                for kind in 0..LEAGUE_KINDS {
                    play.play_league(kind).await;
                }
            } else {
                for kind in 0..KINDS {
                    play.play(kind).await;
                }
            }
        }
    }
}

/// Redefines boards all the time, and moves some of them, until it is over.
async fn redefine_all(world: &World, is_over: &AtomicBool) {
    let (other, mut random) = (&world.instances[1], Random::new(seed(9)));
    while !is_over.load(Ordering::SeqCst) {
        for board in ["one", "three", "league"] {
            redefine(world, board).await;
            tokio::time::sleep(Duration::from_millis(random.next() % 20)).await;
        }
        if random.below(8) == 0 {
            let shards = u16::try_from(random.below(4) + 1).unwrap();
            other.client.spread("three", shards).await;
            other.end_move("three").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_right_while_boards_are_redefined_and_moved() {
    let world = world().await;
    let is_over = AtomicBool::new(false);
    let playing = async {
        let all = plays(&world, false).into_iter().map(async |mut play| {
            for _ in 0..case_count(60) {
                play.play_any().await;
            }
        });
        join_all(all).await;
        is_over.store(true, Ordering::SeqCst);
    };
    join(playing, redefine_all(&world, &is_over)).await;
}
