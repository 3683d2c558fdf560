//! Leagues: seats, events and turning, while the service, its Redis server or both are killed again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::stream::{self, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Home, RETRY_INTERVAL, SENDERS, send_amid_kills};
use crate::harness::Client;
use crate::harness::program::Program;
use crate::harness::random::Random;
use crate::leagues::seasons::naive::{Model, Seat, Settings, Tier};
use crate::model::answers::time_text;

/// Members join a league while the service, its Redis server, or both are killed, and join again until they are answered.
#[tokio::test(flavor = "multi_thread")]
async fn joins_during_kills_give_each_member_one_seat() {
    const MEMBERS: usize = 60;
    const SIZE: usize = 7;
    let join = "/v1/boards/l/league/members";
    let (home, mut random) = (Home::new(), Random::new(16));
    let mut program = Program::serve_with(&home.data(), &home.server).await;
    let definition = json!({"windows": ["season"], "season": {"start": "2026-01-01T00:00:00Z", "length": "366d"}, "score_min": 0,
        "league": {"cohort_size": SIZE, "tiers": [{"name": "bronze", "promote": 0, "demote": 0}]}});
    program.client().define("l", definition).await;
    let mut cohorts: BTreeMap<usize, String> = BTreeMap::new();
    let cohort_of = |seat: &Value| seat["cohort"].as_str().unwrap().to_owned();
    for round in 0..6 {
        let client = program.client();
        let left = (0..MEMBERS).filter(|number| !cohorts.contains_key(number));
        let joins: Vec<_> = left
            .map(|number| {
                let body = json!({"member": format!("m{number}")});
                let request = client.builder(Method::POST, join).json(&body);
                async move { (number, Client::try_send(request).await) }
            })
            .collect();
        let joining = stream::iter(joins).buffer_unordered(SENDERS);
        let joining = tokio::spawn(joining.collect::<Vec<_>>());
        tokio::time::sleep(Duration::from_micros(random.next() % 60_000)).await;
        if round % 3 > 0 {
            home.kill_redis();
        }
        if round % 3 < 2 {
            program.kill();
        }
        for (number, answer) in joining.await.unwrap() {
            let answer = answer.ok().filter(|answer| answer.status.is_success());
            cohorts.extend(answer.map(|answer| (number, cohort_of(&answer.json))));
        }
        if round % 3 < 2 {
            program.die().await;
            program = Program::serve_with(&home.data(), &home.server).await;
        }
    }
    let client = program.client();
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..MEMBERS {
        let body = json!({"member": format!("m{number}")});
        let seat = client.post(join, body).await;
        assert!(seat.status.is_success(), "{}", seat.text);
        let cohort = cohort_of(&seat.json);
        assert_eq!(*cohorts.entry(number).or_insert(cohort.clone()), cohort);
        *sizes.entry(cohort).or_default() += 1;
    }
    let full = sizes.values().filter(|size| **size == SIZE);
    assert_eq!(full.count(), MEMBERS / SIZE, "{sizes:?}");
    assert_eq!(sizes.len(), MEMBERS / SIZE + 1, "{sizes:?}");
    program.stop().await;
}

/// How long before its end the first period of a league begins.
const UNTIL_TURNED: Duration = Duration::from_secs(15);
/// How many members play in it. Each has a score that no other has.
const PLAYERS: usize = 40;

/// Members take seats and have events, a period ends, and they take seats in the next one, while the service, its Redis server or both
/// are killed again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_league_is_seated_and_turned_by_the_rules_during_kills() {
    let (home, mut random) = (Home::new(), Random::new(16));
    let mut program = Program::serve_with(&home.data(), &home.server).await;
    let settings = small_cohorts();
    let ends = Utc::now() + UNTIL_TURNED;
    let season = json!({"start": ends.to_rfc3339(), "length": "1m"});
    let definition = json!({"windows": ["season"], "season": season, "score_min": 0, "idempotency": "20s",
        "league": settings.json()});
    program.client().define("b", definition).await;
    let mut model = Model::new(0, settings);
    // Each member is seated by an event, or joins.
    let requests = (0..PLAYERS).map(|number| {
        let event =
            json!({"id": format!("e{number}"), "member": format!("m{number}"), "score": number});
        if number == 0 {
            ("/v1/boards/b/league/members", json!({"member": "m0"}))
        } else {
            ("/v1/boards/b/events", event)
        }
    });
    let answers = send_amid_kills(&mut program, &home, &mut random, requests.collect()).await;
    assert!(
        Utc::now() < ends,
        "the machine is too slow: the period is over"
    );
    for (body, json) in answers {
        let name = body["member"].as_str().unwrap();
        let cohort = cohort_of(&json);
        let seat = Seat {
            cohort: model.settings_of(0).cohort(cohort),
            score: body["score"].as_i64().unwrap_or_default(),
            reached_at: 0,
        };
        model.sit(name, 0, seat);
    }
    let sizes: Vec<usize> = model.cohorts(0).values().map(Vec::len).collect();
    assert!(sizes.iter().all(|size| *size <= 7), "{sizes:?}");
    let left = (ends - Utc::now()).to_std().unwrap_or_default();
    tokio::time::sleep(left).await;

    model.decide_all(0);
    let joins = (0..PLAYERS).map(|number| {
        let body = json!({"member": format!("m{number}")});
        ("/v1/boards/b/league/members", body)
    });
    let answers = send_amid_kills(&mut program, &home, &mut random, joins.collect()).await;
    for (body, json) in answers {
        let name = body["member"].as_str().unwrap();
        let (tier, opening) = model.place(name, 1);
        let settings = model.settings_of(1);
        let expected = (&json!(settings.tiers[tier].name), &json!(opening));
        assert_eq!((&json["tier"], &json["score"]), expected, "{name}");
        let history = format!("/v1/boards/b/league/members/{name}/history");
        let history = program.client().get(&history).await.expect(200);
        let key = history["seats"][0]["key"].as_str().unwrap().to_owned();
        assert_eq!(
            history["seats"],
            json!(model.history(name, 1, |_| key.clone()))
        );
    }
    program.stop().await;
}

fn cohort_of(json: &Value) -> &str {
    let cohort = json["cohort"]
        .as_str()
        .or_else(|| json["standings"][0]["cohort"].as_str());
    cohort.unwrap_or_else(|| panic!("no cohort in {json}"))
}

/// Two tiers, in whose cohorts few members move.
fn small_cohorts() -> Settings {
    let tier = |name, promote, demote| Tier {
        name,
        promote,
        demote,
    };
    Settings {
        size: 7,
        join_until: None,
        min_cohort: 2,
        min_score: 3,
        is_idle_demoted: true,
        tiers: vec![tier("bronze", 4_000, 0), tier("silver", 0, 5_000)],
        bonuses: vec![(1, 2, 10)],
    }
}

/// How long before the end of a period the bursts begin.
const UNTIL_END: Duration = Duration::from_secs(8);
/// How many bursts there are at least, and behind the end of the period.
const BURSTS: usize = 10;
const BURSTS_BEHIND: usize = 4;
/// How many events a burst has beside those that are sent again.
const EVENTS: usize = 50;

/// An event, and what is known of it.
#[derive(Clone, Debug)]
struct Sent {
    id: String,
    member: String,
    score: i64,
    at: Option<DateTime<Utc>>,
    heard: Option<Heard>,
}

/// What has become of an event.
#[derive(Clone, Debug, PartialEq)]
enum Heard {
    /// It counts: the key of its period, and its cohort.
    Taken(String, String),
    /// Its period was over.
    Refused,
}

impl Sent {
    fn body(&self) -> Value {
        let at = self.at.map(|at| at.timestamp_millis()).map(time_text);
        json!({"board": "b", "id": self.id, "member": self.member, "score": self.score, "at": at})
    }

    /// Takes note of an answer. What was taken is taken once, and stays so.
    fn hear(&mut self, result: &Value, ends: DateTime<Utc>) {
        let heard = match result["status"].as_str() {
            Some("applied" | "unchanged") => {
                let is_first = self.heard.is_none();
                assert!(is_first, "{self:?} is counted twice: {result}");
                taken(result)
            }
            Some("duplicate") => taken(result),
            _ => {
                let problem = &result["problem"];
                let code = problem["code"].as_str().unwrap_or_default();
                // A service that has just heard of the time late takes a period that has begun for one that has not.
                let is_to_wait = ["league-turning", "event-in-future"].contains(&code);
                if is_to_wait || code == "internal" || problem["status"] == 503 {
                    return;
                }
                let is_late = self.at.is_some_and(|at| at < ends);
                let is_told = ["period-closed", "not-seated"].contains(&code);
                assert!(is_late && is_told, "{self:?}: {result}");
                Heard::Refused
            }
        };
        let before = self.heard.get_or_insert(heard.clone());
        assert_eq!(*before, heard, "{result}");
    }
}

fn taken(result: &Value) -> Heard {
    let standing = &result["standings"][0];
    let text = |field: &str| standing[field].as_str().unwrap().to_owned();
    Heard::Taken(text("key"), text("cohort"))
}

/// Sends events in batches, at once; some of them may get no answer.
fn send_batches(client: &Client, events: &[Sent]) -> tokio::task::JoinHandle<Vec<Value>> {
    let batches: Vec<_> = events
        .chunks(9)
        .map(|events| {
            let events: Vec<Value> = events.iter().map(Sent::body).collect();
            let request = client.builder(Method::POST, "/v1/events");
            Client::try_send(request.json(&json!({"events": events})))
        })
        .collect();
    let answers = stream::iter(batches).buffer_unordered(SENDERS);
    tokio::spawn(async move {
        let results = answers
            .collect::<Vec<_>>()
            .await
            .into_iter()
            .flatten()
            .filter_map(|answer| answer.json["results"].as_array().cloned());
        results.flatten().collect()
    })
}

/// What is known of events by their ids.
type Known = BTreeMap<String, Sent>;

/// A burst: new events, those without an answer, and some that were answered. Meanwhile somebody is killed.
async fn burst(
    (program, home): (&mut Program, &Home),
    random: &mut Random,
    known: &mut Known,
    (number, ends): (usize, DateTime<Utc>),
) {
    let now = Utc::now();
    for event in 0..EVENTS {
        let id = format!("e{number}-{event}");
        let ago = Duration::from_millis(random.next() % 3_000);
        let sent = Sent {
            id: id.clone(),
            member: format!("m{}", random.below(PLAYERS)),
            score: i64::try_from(random.below(20)).unwrap(),
            at: (random.below(3) == 0).then(|| now - ago),
            heard: None,
        };
        known.insert(id, sent);
    }
    let again = known
        .values()
        .filter(|sent| sent.heard.is_none() || random.below(12) == 0);
    let mut events: Vec<Sent> = again.cloned().collect();
    random.shuffle(&mut events);
    let answers = send_batches(&program.client(), &events);
    tokio::time::sleep(Duration::from_micros(random.next() % 90_000)).await;
    let kills = number % 4;
    if kills == 0 || kills == 2 {
        home.kill_redis();
    }
    if kills == 1 || kills == 2 {
        program.kill();
    }
    for result in answers.await.unwrap() {
        let sent = known.get_mut(result["id"].as_str().unwrap()).unwrap();
        sent.hear(&result, ends);
    }
    if kills == 1 || kills == 2 {
        program.gone().await;
        *program = Program::serve_with(&home.data(), &home.server).await;
    }
}

/// Bursts of events with ids, with and without `at`, over the end of a period. What got no answer is sent again, also when the period
/// is over. Each event counts once, in the period that its first answer names, and the tiers and bonuses of the next period follow.
#[tokio::test(flavor = "multi_thread")]
async fn league_events_during_kills_count_once_across_the_end_of_a_period() {
    let (home, mut random) = (Home::new(), Random::new(17));
    let mut program = Program::serve_with(&home.data(), &home.server).await;
    let settings = small_cohorts();
    let ends = Utc::now() + UNTIL_END;
    let season = json!({"start": ends.to_rfc3339(), "length": "10m"});
    let definition = json!({"windows": ["season"], "season": season, "score_min": 0, "idempotency": "9m",
        "league": settings.json()});
    program.client().define("b", definition).await;
    let (mut known, mut bursts, mut behind) = (Known::new(), 0, 0);
    while bursts < BURSTS || behind < BURSTS_BEHIND {
        behind += usize::from(Utc::now() > ends);
        let of = (bursts, ends);
        burst((&mut program, &home), &mut random, &mut known, of).await;
        bursts += 1;
    }
    // What has no answer yet, and all that was taken: that is known, whichever period it counts for.
    loop {
        let all: Vec<Sent> = known.values().cloned().collect();
        let results = send_batches(&program.client(), &all).await.unwrap();
        for result in &results {
            let sent = known.get_mut(result["id"].as_str().unwrap()).unwrap();
            sent.hear(result, ends);
        }
        if results.len() == all.len() && known.values().all(|sent| sent.heard.is_some()) {
            break;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    compare(&program.client(), settings, &known).await;
    program.stop().await;
}

/// Compares both periods with what a naive model makes of the events that were taken.
async fn compare(client: &Client, settings: Settings, known: &Known) {
    let mut model = Model::new(0, settings);
    let mut periods: BTreeMap<&str, Vec<(&Sent, &str)>> = BTreeMap::new();
    for sent in known.values() {
        if let Some(Heard::Taken(key, cohort)) = &sent.heard {
            periods.entry(key).or_default().push((sent, cohort));
        }
    }
    // The names of seasons have the order of time. On a very slow machine the first period is over before it has an event.
    let keys: Vec<&str> = periods.keys().copied().collect();
    let first = match keys.len() {
        2 => 0,
        count => {
            assert_eq!(count, 1, "{keys:?}");
            1
        }
    };
    for ((key, events), period) in periods.iter().zip(first..) {
        for (sent, cohort) in events {
            if model.seat(&sent.member, period).is_none() {
                let (tier, score) = model.place(&sent.member, period);
                let cohort = model.settings_of(period).cohort(cohort);
                assert_eq!(cohort.0, tier, "{sent:?}");
                let reached_at = 0;
                let seat = Seat {
                    cohort,
                    score,
                    reached_at,
                };
                model.sit(&sent.member, period, seat);
            }
            let member = model.members.get_mut(&sent.member).unwrap();
            let seat = member.seats.get_mut(&period).unwrap();
            seat.score += sent.score;
            let own = seat.cohort;
            assert_eq!(model.settings_of(period).name(own), **cohort, "{sent:?}");
        }
        compare_period(client, &mut model, (period, key)).await;
        model.decide_all(period);
    }
    for name in model.members.keys() {
        let path = format!("/v1/boards/b/league/members/{name}");
        // That turns its seat.
        client.get(&path).await.expect(200);
        let history = client.get(&format!("{path}/history")).await.expect(200);
        let expected = model.history(name, 1, |_| keys[0].to_owned());
        assert_eq!(history["seats"], json!(expected), "{name}");
    }
}

/// Compares the cohorts of a period. When its scores were reached, only the service knows.
async fn compare_period(client: &Client, model: &mut Model, (period, key): (i64, &str)) {
    let cohorts: Vec<_> = model.cohorts(period).into_keys().collect();
    for cohort in cohorts {
        let name = model.settings_of(period).name(cohort);
        let path = format!("/v1/boards/b/standings/season?cohort={name}&key={key}&size=1000");
        // Its text has the microseconds by which equal scores are in order.
        let page: Value = serde_json::from_str(&client.get(&path).await.text).unwrap();
        let entries = page["entries"].as_array().unwrap();
        for entry in entries {
            let member = model.members.get_mut(entry["member"].as_str().unwrap());
            let seat = member.unwrap().seats.get_mut(&period).unwrap();
            let reached_at = entry["reached_at"].as_str().unwrap();
            let reached_at = DateTime::parse_from_rfc3339(reached_at).unwrap();
            seat.reached_at = reached_at.timestamp_micros();
        }
        let entries = entries
            .iter()
            .map(|entry| json!([entry["member"], entry["score"]]));
        let shown = model.shown(period, cohort);
        assert!(shown.len() <= model.settings_of(period).size, "{page}");
        let expected = shown.iter().map(|(name, seat)| json!([name, seat.score]));
        assert_eq!(
            entries.collect::<Vec<_>>(),
            expected.collect::<Vec<_>>(),
            "{name}: {page}"
        );
    }
}
