//! What is asked of a standing, and what has to be answered.

use std::collections::HashMap;

use futures::future::join_all;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use serde_json::{Map, Value, json};

use super::answers::{View, exact, score_text, time_text, window_name};
use super::cases::MEMBERS;
use super::naive::{Board, Model, Window};
use super::player::expect_equal;
use crate::harness::client::Answer;
use crate::harness::random::Random;
use crate::harness::{Client, Instance, World};

/// As many queries as one request may have.
const QUERIES_MAX: usize = 100;

/// A read, and what it should answer.
pub struct Query {
    board: String,
    window: String,
    kind: Kind,
    parameters: Map<String, Value>,
    expected: Expected,
}

enum Kind {
    Page,
    /// A page of some scores.
    Selected,
    /// The entry at a percentile.
    Percentile(String),
    Member(&'static str),
    /// The ids are in the address, or in a body.
    Subset(Vec<&'static str>, Named),
    Stats,
    /// The export of the period with this key, which is not final.
    Export(String),
}

#[derive(Clone, Copy, PartialEq)]
enum Named {
    InAddress,
    InBody,
}

enum Expected {
    Body(Value),
    Problem(u16, &'static str),
}

/// All pages of a standing, two of its members, some of them together, and its figures, all on one track.
pub fn queries(
    random: &mut Random,
    id: &str,
    model: &Model,
    window: Window,
    period: i64,
    now: i64,
) -> Vec<Query> {
    let raw = [None, Some(false), Some(true)][random.below(3)];
    let on_track = match raw {
        Some(true) => &model.raw(),
        _ => model,
    };
    let includes_data = random.below(2) == 0;
    let view = View::new(on_track, id, window, period)
        .with_data(includes_data)
        .with_state(now);
    let board = &on_track.board;
    let running = board.period(window.unit(), now);
    let is_refused = board.is_built(window) && period > running + 1;
    let choice = choose(random, board, window, period, now);
    let query = |kind: Kind, parameters: Value, expected: Option<Value>| {
        let Value::Object(mut parameters) = parameters else {
            unreachable!()
        };
        parameters.extend(choice.clone());
        parameters.extend(raw.map(|raw| ("raw".to_owned(), json!(raw))));
        if includes_data && !matches!(kind, Kind::Stats) {
            parameters.insert("include".to_owned(), json!("data"));
        }
        let expected = match expected {
            _ if is_refused => Expected::Problem(400, "invalid-parameter"),
            Some(body) => Expected::Body(body),
            None => Expected::Problem(404, "member-not-found"),
        };
        Query {
            board: id.to_owned(),
            window: window_name(window),
            kind,
            parameters,
            expected,
        }
    };
    let any = |random: &mut Random| MEMBERS[random.below(MEMBERS.len())];

    let mut queries = Vec::new();
    let size = [1, 2, 3, 5, 50, 1000][random.below(6)];
    for page in 1..=view.total() / size + 1 {
        let me = (random.below(2) == 0).then(|| any(random));
        let mut parameters = json!({"page": page, "size": size});
        if let Some(me) = me {
            parameters["member"] = json!(me);
        }
        queries.push(query(
            Kind::Page,
            parameters,
            Some(view.page(page, size, me)),
        ));
    }
    for _ in 0..2 {
        let member = any(random);
        let around = [None, Some(0), Some(1), Some(3), Some(100)][random.below(5)];
        let parameters = around.map_or_else(|| json!({}), |around| json!({"around": around}));
        queries.push(query(
            Kind::Member(member),
            parameters,
            view.member(member, around),
        ));
    }
    let named = [Named::InAddress, Named::InBody][random.below(2)];
    // In an address a comma separates the members.
    let mut members: Vec<&str> = MEMBERS
        .into_iter()
        .filter(|member| named == Named::InBody || !member.contains(','))
        .collect();
    random.shuffle(&mut members);
    members.truncate(1 + random.below(members.len()));
    let expected = Some(view.subset(&members));
    queries.push(query(Kind::Subset(members, named), json!({}), expected));
    queries.push(query(Kind::Stats, json!({}), Some(view.stats())));
    for (kind, parameters, expected) in selections(random, &view) {
        queries.push(query(kind, parameters, Some(expected)));
    }
    let is_final = model.state(window.unit(), period, now) == "final";
    let is_refused = model.board.is_built(window) && period > running + 1;
    let view = View::new(model, id, window, period);
    if view.total() > 0 && board.keep_top.is_none() && !is_final && !is_refused {
        queries.push(Query {
            board: id.to_owned(),
            window: window_name(window),
            kind: Kind::Export(board.key(window.unit(), period)),
            parameters: Map::from_iter([("format".to_owned(), json!("ndjson"))]),
            expected: Expected::Body(view.export()),
        });
    }
    queries
}

/// Reads by scores and percentiles: at scores that are there, and beside them.
fn selections(random: &mut Random, view: &View) -> Vec<(Kind, Value, Value)> {
    let bound = view.bound();
    let scores = view.scores();
    let score = |random: &mut Random| {
        let near = i64::try_from(random.below(3)).unwrap() - 1;
        let score = scores.get(random.below(scores.len() + 1));
        score.map_or(0, |score| (score + near).clamp(-bound, bound))
    };
    let text = |score: i64| score_text(score, view.decimals());
    let mut selections = Vec::new();
    let size = [1, 2, 3, 5, 50][random.below(5)];
    let me = (random.below(2) == 0).then(|| MEMBERS[random.below(MEMBERS.len())]);
    let with_me = |mut parameters: Value| {
        if let Some(me) = me {
            parameters["member"] = json!(me);
        }
        parameters["size"] = json!(size);
        parameters
    };
    let around = score(random);
    let parameters = with_me(json!({"around_score": text(around)}));
    selections.push((Kind::Selected, parameters, view.around(size, me, around)));
    let (one, other) = (score(random), score(random));
    let bounds = [one.min(other), one.max(other)];
    let open = random.below(3);
    let bounds = [0, 1].map(|end| (open != end).then_some(bounds[end]));
    for page in 1..=2 {
        let mut parameters = with_me(json!({"page": page}));
        for (name, bound) in ["from_score", "to_score"].into_iter().zip(bounds) {
            if let Some(bound) = bound {
                parameters[name] = json!(text(bound));
            }
        }
        let expected = view.page_between(page, size, me, bounds);
        selections.push((Kind::Selected, parameters, expected));
    }
    let thousandths = [0, 1, 33_333, 50_000, 99_999, 100_000, random.below(100_001)];
    let thousandths = thousandths[random.below(thousandths.len())];
    let percentile = score_text(thousandths.try_into().unwrap(), 3);
    let expected = view.at_percentile(thousandths);
    selections.push((Kind::Percentile(percentile), json!({}), expected));
    selections
}

/// One of the ways to say which period is meant.
fn choose(
    random: &mut Random,
    board: &Board,
    window: Window,
    period: i64,
    now: i64,
) -> Option<(String, Value)> {
    let unit = window.unit();
    let running = board.period(unit, now);
    let start = board.start(unit, period).unwrap_or(now);
    let end = board.start(unit, period + 1).unwrap_or(now + 1);
    let (name, value) = match random.below(4) {
        0 if period == running => return None,
        1 if period == running => ("key", "current".to_owned()),
        1 if period == running - 1 => ("key", "previous".to_owned()),
        2 => ("at", time_text(start)),
        3 => ("at", time_text(end - 1)),
        _ => ("key", board.key(unit, period)),
    };
    Some((name.to_owned(), json!(value)))
}

impl Expected {
    fn text(&self) -> String {
        match self {
            Self::Body(body) => format!("200 {body}"),
            Self::Problem(status, name) => format!("{status} {name}"),
        }
    }
}

impl Kind {
    /// The `type` of such a query.
    fn name(&self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Selected => "selected",
            Self::Percentile(_) => "percentile",
            Self::Member(_) => "member",
            Self::Subset(..) => "subset",
            Self::Stats => "stats",
            Self::Export(_) => "export",
        }
    }
}

impl Query {
    fn path(&self) -> String {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let mut parameters = self.parameters.clone();
        if let Kind::Subset(ids, Named::InAddress) = &self.kind {
            parameters.insert("ids".to_owned(), json!(ids.join(",")));
        }
        let parameters = parameters
            .iter()
            .map(|(name, value)| {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), ToOwned::to_owned);
                format!("{name}={}", encode(&text))
            })
            .collect::<Vec<_>>()
            .join("&");
        let Self { board, window, .. } = self;
        let what = match &self.kind {
            Kind::Page | Kind::Selected => String::new(),
            Kind::Percentile(percentile) => format!("/at-percentile/{percentile}"),
            Kind::Member(member) => format!("/members/{}", encode(member)),
            Kind::Subset(_, Named::InAddress) => "/members".to_owned(),
            Kind::Subset(_, Named::InBody) => "/members/query".to_owned(),
            Kind::Stats => "/stats".to_owned(),
            Kind::Export(key) => format!("/periods/{key}/export"),
        };
        format!("/v1/boards/{board}/standings/{window}{what}?{parameters}")
    }

    /// What entries have beside their scores.
    fn include(&self) -> Option<&str> {
        self.parameters.get("include").and_then(Value::as_str)
    }

    /// The same as one of many queries in a request.
    fn line(&self) -> Value {
        let mut line = self.parameters.clone();
        line.remove("include");
        line.insert("board".to_owned(), json!(self.board));
        line.insert("window".to_owned(), json!(self.window));
        line.insert("type".to_owned(), json!(self.kind.name()));
        match &self.kind {
            Kind::Member(member) => line.insert("member".to_owned(), json!(member)),
            Kind::Subset(ids, _) => line.insert("ids".to_owned(), json!(ids)),
            _ => None,
        };
        Value::Object(line)
    }

    /// `tag`: that of an answer that is known.
    async fn send(&self, client: &Client, tag: Option<&str>) -> Answer {
        match (&self.kind, tag) {
            (Kind::Subset(ids, Named::InBody), _) => {
                client.post(&self.path(), json!({"ids": ids})).await
            }
            (_, Some(tag)) => client.get_unless(&self.path(), tag).await,
            (_, None) => client.get(&self.path()).await,
        }
    }

    /// What was answered; of an export a list of its lines.
    fn body(&self, answer: &Answer) -> Value {
        if matches!(self.kind, Kind::Export(_)) && answer.status == StatusCode::OK {
            answer.text.lines().map(exact).collect()
        } else {
            exact(&answer.text)
        }
    }

    fn compare(&self, status: u16, answered: &Value) -> Result<(), String> {
        let is_expected = match &self.expected {
            Expected::Body(body) => status == 200 && answered == body,
            Expected::Problem(number, name) => {
                status == *number && answered["type"] == format!("/problems/{name}")
            }
        };
        if is_expected {
            return Ok(());
        }
        Err(format!(
            "{}\n     got {status} {answered}\nexpected {}",
            self.path(),
            self.expected.text()
        ))
    }
}

/// What was answered before, by the address: the entity tag, and the body.
pub type Known = HashMap<String, (String, Value)>;

/// Reads, of one instance or of each, one by one or many at once. What is not changed may be told so.
pub async fn ask(
    world: &World,
    random: &mut Random,
    known: &mut Known,
    mut queries: Vec<Query>,
) -> Result<(), String> {
    random.shuffle(&mut queries);
    let is_alone = random.below(4) == 0;
    let (by_one, mut at_once): (Vec<Query>, Vec<Query>) = queries.into_iter().partition(|query| {
        let has_own_route = matches!(
            query.kind,
            Kind::Selected | Kind::Percentile(_) | Kind::Export(_)
        );
        is_alone || has_own_route
    });
    at_once.sort_by_key(|query| query.include().is_some());
    let chosen = random.below(world.instances.len());
    let is_for_all = random.below(5) == 0;
    for (index, instance) in world.instances.iter().enumerate() {
        if is_for_all || index == chosen {
            ask_by_one(instance, known, &by_one).await?;
            // What is included is said once, for all queries of a request.
            for part in at_once.chunk_by(|one, next| one.include() == next.include()) {
                for part in part.chunks(QUERIES_MAX) {
                    ask_at_once(instance, part).await?;
                }
            }
        }
    }
    Ok(())
}

async fn ask_by_one(
    instance: &Instance,
    known: &mut Known,
    queries: &[Query],
) -> Result<(), String> {
    let gets = queries.iter().map(|query| {
        let before = known.get(&query.path());
        async move {
            query
                .send(&instance.client, before.map(|(tag, _)| tag.as_str()))
                .await
        }
    });
    let answers = join_all(gets).await;
    for (query, answer) in queries.iter().zip(answers) {
        let path = query.path();
        if answer.status == StatusCode::NOT_MODIFIED {
            query.compare(200, &known[&path].1)?;
            continue;
        }
        let body = query.body(&answer);
        query.compare(answer.status.as_u16(), &body)?;
        if let Some(tag) = answer.headers.get("etag") {
            known.insert(path, (tag.to_str().unwrap().to_owned(), body));
        }
    }
    Ok(())
}

async fn ask_at_once(instance: &Instance, queries: &[Query]) -> Result<(), String> {
    let lines: Vec<Value> = queries.iter().map(Query::line).collect();
    let include = queries[0]
        .include()
        .map(|include| format!("?include={include}"));
    let path = format!("/v1/standings/query{}", include.unwrap_or_default());
    let answer = instance.client.post(&path, json!({"queries": lines})).await;
    let answered = exact(&answer.text);
    let results = answered["results"].as_array().ok_or(&answer.text)?;
    expect_equal("the number of results", &results.len(), &queries.len())?;
    for (query, result) in queries.iter().zip(results) {
        let mut result = result.clone();
        let kind = result.as_object_mut().unwrap().remove("type").unwrap();
        if let Some(problem) = result.get("problem") {
            let status = problem["status"].as_str().unwrap().parse().unwrap();
            expect_equal("the type", &kind, &json!("problem"))?;
            query.compare(status, problem)?;
        } else {
            expect_equal("the type", &kind, &json!(query.kind.name()))?;
            query.compare(200, &result)?;
        }
    }
    Ok(())
}
