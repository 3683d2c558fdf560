//! What is told of final periods, and what has to be.

use std::collections::BTreeMap;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::answers::{exact, prize, score_text, shown, time_text, unit_name, winner};
use super::finals::{Change, Claiming, Final, Revised, RevisedMember, Reward, Rule};
use super::naive::{Model, Unit, Window};
use super::player::expect_equal;
use crate::harness::Client;

/// How much one part of a list has.
const LIMIT: usize = 2;
const CHANGES: [&str; 4] = ["gained", "lost", "revoked", "restored"];

/// The path of a period.
pub fn path((id, model): &(String, Model), (unit, period): (Unit, i64)) -> String {
    let key = model.board.key(unit, period);
    format!(
        "/v1/boards/{id}/standings/{}/periods/{key}",
        unit_name(unit)
    )
}

/// A final section: where its result is told, and its rules.
pub struct Section<'a> {
    pub path: &'a str,
    /// What each query says beside, behind a `&`.
    pub query: &'a str,
    pub rules: &'a [Rule],
    pub decimals: u32,
}

impl<'a> Section<'a> {
    pub fn of(path: &'a str, model: &'a Model, (unit, period): (Unit, i64)) -> Self {
        Self {
            path,
            query: "",
            rules: model.rules_of(unit, period),
            decimals: model.board.decimals,
        }
    }
}

/// How a result was revised, as it is told.
pub async fn history(client: &Client, of: &Section<'_>) -> Result<Vec<Revised>, String> {
    let (mut history, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("{}/revisions?limit={LIMIT}{}{after}", of.path, of.query);
        let answer = client.get(&path).await;
        let part = answer.json["revisions"].as_array().ok_or(&answer.text)?;
        for told in part {
            let revision = told["revision"].as_u64().unwrap();
            expect_equal(&path, &revision, &(history.len() as u64 + 2))?;
            history.push(revised(told, of.rules));
        }
        let Some(next) = answer.json["next"].as_u64() else {
            return Ok(history);
        };
        after = format!("&after={next}");
    }
}

fn revised(told: &Value, rules: &[Rule]) -> Revised {
    let count = |field: &str| usize::try_from(told[field].as_u64().unwrap()).unwrap();
    let change = |told: &Value| {
        let place = rules.iter().position(|rule| told["rule"] == rule.id);
        let member = told["member"].as_str().unwrap_or_default().to_owned();
        let mut known = CHANGES.into_iter();
        let change = known.find(|change| told["change"] == *change).unwrap();
        (place.unwrap(), member, change)
    };
    let mut changes: Vec<Change> = told["rewards"]
        .as_array()
        .unwrap()
        .iter()
        .map(change)
        .collect();
    changes.sort_unstable();
    let members = told["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| RevisedMember {
            member: one["member"].as_str().map(ToOwned::to_owned),
            is_hidden: one["action"] == "hidden",
            place: usize::try_from(one["place"].as_u64().unwrap()).unwrap(),
        });
    Revised {
        members: members.collect(),
        total_before: count("total_before"),
        total: count("total"),
        changes,
    }
}

/// Compares all that is told of a result.
pub async fn compare(
    client: &Client,
    path: &str,
    model: &Model,
    (unit, period): (Unit, i64),
) -> Result<(), String> {
    let result = &model.finals[&(unit, period)];
    let answered = exact(&client.get(path).await.text);
    let told = json!({
        "state": answered["state"],
        "total": answered["total"],
        "winner": answered["winner"],
        "revision": answered["revision"],
        "revising": answered["revising"],
        "rewards": answered["rewards"],
        "cut_off": answered["cut_off"],
    });
    let expected = json!({
        "state": "final",
        "total": result.total.to_string(),
        "winner": winner(model, Window::Period(unit), period),
        "revision": (result.history.len() + 1).to_string(),
        "revising": null,
        "rewards": result.won().to_string(),
        "cut_off": result.cut_off.to_string(),
    });
    expect_equal(&format!("{path}: {answered}"), &told, &expected)?;
    let of = Section::of(path, model, (unit, period));
    compare_history(client, &of, result).await?;
    compare_rewards(client, &of, result).await
}

/// Compares how a result was revised.
pub async fn compare_history(
    client: &Client,
    of: &Section<'_>,
    result: &Final,
) -> Result<(), String> {
    let history = history(client, of).await?;
    let what = format!("{}/revisions", of.path);
    expect_equal(&what, &history, &result.history)
}

/// Compares what members have won.
pub async fn compare_rewards(
    client: &Client,
    section: &Section<'_>,
    result: &Final,
) -> Result<(), String> {
    let path = format!("{}{}", section.path, section.query);
    let mut listed = list_rewards(client, section).await?;
    let mut expected: Vec<(usize, Value)> = result
        .rewards
        .iter()
        .map(|((rule, member), of)| (*rule, reward(section, (*rule, member), of)))
        .collect();
    let rank = |reward: &Value| reward["rank"].as_str().unwrap().parse::<usize>().unwrap();
    let place = |reward: &Value| {
        let mut rules = section.rules.iter().map(|rule| reward["rule"] == *rule.id);
        rules.position(|is_it| is_it)
    };
    let order: Vec<_> = listed.iter().map(|of| (place(of), rank(of))).collect();
    if !order.is_sorted() {
        return Err(format!("{path}/rewards are in another order: {listed:?}"));
    }
    // Of some that are revoked nobody knows with which rank they were won.
    for (_, of) in expected.iter_mut().filter(|(_, of)| of["rank"] == "0") {
        let same = |other: &&Value| {
            ["rule", "member", "by"]
                .iter()
                .all(|name| other[name] == of[name])
        };
        if let Some(told) = listed.iter().find(same) {
            of["rank"] = told["rank"].clone();
        }
    }
    let mut expected: Vec<Value> = expected.into_iter().map(|(_, of)| of).collect();
    listed.sort_by_key(Value::to_string);
    expected.sort_by_key(Value::to_string);
    expect_equal(&format!("{path}/rewards"), &listed, &expected)
}

/// All rewards of a period, part by part.
async fn list_rewards(client: &Client, of: &Section<'_>) -> Result<Vec<Value>, String> {
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("{}/rewards?limit={LIMIT}{}{after}", of.path, of.query);
        let answer = client.get(&path).await;
        let answered = exact(&answer.text);
        let part = answered["rewards"].as_array().ok_or(&answer.text)?;
        listed.extend(part.iter().cloned());
        let Some(next) = answered["next"].as_str() else {
            return Ok(listed);
        };
        after = format!("&after={}", utf8_percent_encode(next, NON_ALPHANUMERIC));
    }
}

/// A reward as it is told.
fn reward(section: &Section<'_>, (rule, member): (usize, &str), reward: &Reward) -> Value {
    let rule = &section.rules[rule];
    let claim = reward.claim.as_ref();
    json!({
        "rule": rule.id,
        "member": shown(member),
        "rank": reward.rank.to_string(),
        "score": score_text(reward.score, section.decimals),
        "reward": prize(rule),
        "state": reward.state(),
        "by": claim.map(|claim| &claim.by),
        "claimed_at": claim.map(|claim| time_text(claim.at)),
    })
}

/// What has to be answered to a claim: the status, and fields of the body.
pub fn claimed(
    model: &Model,
    of: (Unit, i64),
    named: (&str, &str),
    claimed: Claiming,
) -> (u16, BTreeMap<&'static str, Value>) {
    claimed_of(&Section::of("", model, of), named, claimed)
}

/// The same of any section.
pub fn claimed_of(
    of: &Section<'_>,
    (rule, member): (&str, &str),
    claimed: Claiming,
) -> (u16, BTreeMap<&'static str, Value>) {
    let place = of.rules.iter().position(|own| own.id == rule);
    let body = |own: &Reward| {
        let place = place.unwrap();
        let body = reward(of, (place, member), own);
        let fields = [
            "rule",
            "member",
            "rank",
            "score",
            "reward",
            "state",
            "by",
            "claimed_at",
        ];
        fields.map(|name| (name, body[name].clone())).into()
    };
    let problem = |code: &str, claim: &super::finals::Claim| {
        BTreeMap::from([
            ("code", json!(code)),
            ("claimed_by", json!(claim.by)),
            ("claimed_at", json!(time_text(claim.at))),
        ])
    };
    match claimed {
        Claiming::New(own) => (201, body(&own)),
        Claiming::Same(own) => (200, body(&own)),
        Claiming::Taken(claim) => (409, problem("already-claimed", &claim)),
        Claiming::Revoked(claim) => (409, problem("reward-revoked", &claim)),
        Claiming::None => (404, BTreeMap::from([("code", json!("reward-not-found"))])),
    }
}

pub fn compare_claim(
    path: &str,
    (status, answered): (u16, &Value),
    (expected_status, expected): &(u16, BTreeMap<&'static str, Value>),
) -> Result<(), String> {
    let told = expected.keys().map(|name| (*name, answered[*name].clone()));
    expect_equal(
        path,
        &(status, told.collect()),
        &(*expected_status, expected.clone()),
    )
}
