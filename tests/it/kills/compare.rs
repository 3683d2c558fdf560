//! The boards of a siege, and what their standings are compared with.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{BOARDS, PAGE, UNTIMED, VOTES_OF_A_DAY};
use crate::harness::Client;
use crate::harness::redis::eventually;
use crate::model::answers::{self, View, exact};
use crate::model::naive::{Board, Model, Quota, QuotaWindow, Ranking, Ties, Uniques, Unit, Window};

/// Everything that shows in standings: ties by time and by member, carryover, rolling windows, shards, quotas that are
/// counted in other shards.
pub(super) fn boards() -> [Model; BOARDS.len()] {
    let (day, week, all) = (
        Window::Period(Unit::Day),
        Window::Period(Unit::Week),
        Window::Period(Unit::All),
    );
    let board = Board {
        carryover: BTreeMap::from([(Unit::Day, 250_000), (Unit::Week, 200_000)]),
        ..Board::of(vec![day, week, all, Window::Rolling(Unit::Day, 3)])
    };
    let members = Board {
        ties: Ties::Member,
        ranking: Ranking::Competition,
        windows: vec![day, all, Window::Rolling(Unit::Day, 2)],
        carryover: BTreeMap::from([(Unit::Day, 500_000)]),
        shards: 3,
        ..board.clone()
    };
    let quota = Quota {
        by_voter: true,
        by_member: false,
        window: QuotaWindow::Period(Unit::Day),
        max: VOTES_OF_A_DAY,
        counts_points: false,
        extra: Vec::new(),
    };
    let quotas = Board {
        windows: vec![day, all, Window::Rolling(Unit::Day, 2)],
        carryover: BTreeMap::from([(Unit::Day, 500_000)]),
        quotas: vec![quota],
        uniques: Some(Uniques::Board),
        shards: 4,
        ..board.clone()
    };
    let untimed = Board {
        windows: vec![all],
        carryover: BTreeMap::new(),
        uniques: Some(Uniques::Board),
        ..board.clone()
    };
    [board, members, quotas, untimed].map(Model::new)
}

/// The standings in which an event shows, but for rolling ones of the future.
pub(super) fn standings(model: &Model, now: i64) -> BTreeSet<(usize, i64)> {
    let windows = model.board.windows.iter().enumerate();
    let of_window = |(place, window): (usize, &Window)| {
        let unit = window.unit();
        let running = model.board.period(unit, now);
        let length = match window {
            Window::Period(unit) => 1 + i64::from(model.board.carryover.contains_key(unit)),
            Window::Rolling(_, length) => *length,
        };
        let is_rolling = matches!(window, Window::Rolling(..));
        let periods: BTreeSet<i64> = model
            .instants()
            .map(|at| model.board.period(unit, at))
            .collect();
        let shown = periods
            .into_iter()
            .flat_map(move |period| period..period + length)
            .filter(move |period| !is_rolling || *period <= running);
        shown.map(move |period| (place, period)).collect::<Vec<_>>()
    };
    windows.flat_map(of_window).collect()
}

/// What a standing shows must not contradict itself, and be what the model says.
pub(super) async fn compare_standing(
    client: &Client,
    board: usize,
    model: &Model,
    window: Window,
    period: i64,
) {
    let view = View::new(model, BOARDS[board], window, period);
    let [name, key] = [
        answers::window_name(window),
        model.board.key(window.unit(), period),
    ];
    let path = |what: &str| {
        format!(
            "/v1/boards/{}/standings/{name}{what}key={key}",
            BOARDS[board]
        )
    };
    let mut page = read(client, &path(&format!("?size={PAGE}&"))).await;
    // It follows from the time.
    page.as_object_mut().unwrap().remove("state");
    let members = page["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["member"]);
    let listed = members.clone().count();
    let distinct: BTreeSet<String> = members.map(Value::to_string).collect();
    assert_eq!(distinct.len(), listed, "somebody is listed twice: {page}");
    assert_eq!(page["total"], listed.to_string(), "{page}");
    let expected = view.page(1, PAGE, None);
    if board == UNTIMED {
        // The service alone knows who of those with the same score was the first.
        assert_eq!(scores(&page), scores(&expected));
    } else {
        assert_eq!(page, expected);
    }

    let stats = read(client, &path("/stats?")).await;
    let expected = view.stats();
    for field in ["members", "events", "score_sum"] {
        assert_eq!(stats[field], expected[field], "{field} of {stats}");
    }
}

/// The ranks with their scores, and the members with theirs.
pub(super) fn scores(page: &Value) -> (Vec<String>, BTreeSet<String>) {
    let entries = page["entries"].as_array().unwrap().iter();
    let score_of =
        |name: &'static str| move |entry: &Value| format!("{} {}", entry[name], entry["score"]);
    (
        entries.clone().map(score_of("rank")).collect(),
        entries.map(score_of("member")).collect(),
    )
}

pub(super) async fn read(client: &Client, path: &str) -> Value {
    eventually(&format!("{path} can be read"), async || {
        client.get(path).await.status != 503
    })
    .await;
    let answer = client.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    exact(&answer.text)
}
