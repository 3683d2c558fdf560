//! The board that members come over to: what must be true of it, and the scores that it has.

use std::collections::{BTreeMap, HashMap};

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::args::{Task, TieOrder, Work};
use super::names::SortedSet;
use crate::cli::Failure;
use crate::cli::client::Client;
use crate::cli::import::now;
use crate::cli::import::sender::BatchSender;
use crate::domain::board::{AcceptLate, Board, FIRST_AMENDMENT, Ingest, Order, Update};
use crate::domain::period::{Period, Unit};
use crate::domain::score::Score;
use crate::domain::ties::Ties;
use crate::domain::time::{Span, Timestamp};
use crate::domain::window::Window;

/// The board, as it is defined.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) board: Board,
    pub(super) now: Timestamp,
}

/// What a standing shows of a member.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Here {
    pub(super) score: Score,
    /// `None` on boards with `ties: member`.
    pub(super) reached_at: Option<Timestamp>,
}

/// What a standing shows of some members, and how many members it has.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) total: u64,
    pub(super) entries: HashMap<String, Here>,
}

#[derive(Deserialize)]
struct SubsetAnswer {
    total: u64,
    entries: Vec<EntryAnswer>,
}

#[derive(Deserialize)]
struct EntryAnswer {
    member: String,
    score: serde_json::Number,
    reached_at: Option<String>,
}

impl Target {
    /// Reads the board's definition.
    pub(super) async fn read(sender: &BatchSender) -> Result<Self, Failure> {
        let definition = sender.definition().await?.ok_or(
            "the board's definition can't be read: the API key lacks the scope `configure`, or another release wrote it",
        )?;
        let id = sender.client().board().clone();
        Ok(Self {
            board: Board::new(id, definition, 0, FIRST_AMENDMENT, BTreeMap::new()),
            now: now(),
        })
    }

    /// Checks that members can come over, each in one event.
    ///
    /// # Errors
    /// All that prevents it, with what to change.
    pub(super) fn check(&self, work: &Work, sets: &[SortedSet]) -> Result<(), Failure> {
        let mut obstacles = self.obstacles_to_reading(work);
        if work.task != Task::Compare {
            obstacles.extend(self.obstacles_to_events(work));
            obstacles.extend(sets.iter().filter_map(|set| self.obstacle_in(work, set)));
        }
        if obstacles.is_empty() {
            return Ok(());
        }
        let board = &self.board.id;
        let listed = obstacles.join("; ");
        Err(format!("members can't come over to board {board}: {listed}").into())
    }

    /// What makes its scores differ from those of a sorted set.
    fn obstacles_to_reading(&self, work: &Work) -> Vec<String> {
        let definition = &self.board.definition;
        let window = Window::Period(work.window());
        let windows = || {
            let names = definition.windows.iter().map(ToString::to_string);
            names.collect::<Vec<_>>().join(", ")
        };
        let faults = [
            (!definition.windows.contains(&window)).then(|| {
                format!(
                    "it has no window {window}, but {}: name one with --window",
                    windows()
                )
            }),
            definition
                .league
                .is_some()
                .then(|| "it is a league, whose scores belong to cohorts".to_owned()),
            definition
                .weight
                .is_some()
                .then(|| "it has `weight`, which multiplies the scores of events".to_owned()),
            (!definition.carryover.is_empty())
                .then(|| "it has `carryover`, which adds scores: add it afterwards".to_owned()),
            definition
                .keep_top
                .is_some()
                .then(|| "it has `keep_top`, and does not list all members".to_owned()),
            (work
                .sets
                .round
                .is_some_and(|round| round.digits() > definition.decimals.digits()))
            .then(|| {
                let decimals = definition.decimals.digits();
                format!("it keeps {decimals} decimals: --round can't have more")
            }),
        ];
        faults.into_iter().flatten().collect()
    }

    /// What prevents events with old times, or changes their order.
    fn obstacles_to_events(&self, work: &Work) -> Vec<String> {
        let definition = &self.board.definition;
        let ties = (work.sets.ties, definition.ties, definition.order);
        let others = definition.windows.len() > 1;
        let faults = [
            definition
                .finalize
                .is_some()
                .then_some("it has `finalize`: set it afterwards"),
            definition
                .opens_at
                .is_some()
                .then_some("it has `opens_at`: set it afterwards"),
            (definition.ingest == Ingest::Async)
                .then_some("it has `ingest: async`: set it to `sync` meanwhile"),
            (!definition.quotas.is_empty())
                .then_some("it has quotas, which count these events or need their voters: set them afterwards"),
            matches!(ties, (TieOrder::Lex, Ties::Member, Order::Desc)).then_some(
                "with `ties: member` it orders equal scores by the smaller id, the other Redis by the greater one: use --ties none",
            ),
            matches!(ties, (TieOrder::ScoreFraction, Ties::Member, _))
                .then_some("with `ties: member` it keeps no times: use --ties none"),
            (work.sets.ties == TieOrder::ScoreFraction && others).then_some(
                "with --ties score-fraction its other windows would count scores of all time: add them afterwards",
            ),
            (work.task == Task::Sync
                && definition.update == Update::Last
                && definition.ties == Ties::Member)
                .then_some("with `update: last` and `ties: member` it does not show which score is newer"),
        ];
        faults
            .into_iter()
            .flatten()
            .map(ToOwned::to_owned)
            .collect()
    }

    /// What prevents events of this period.
    fn obstacle_in(&self, work: &Work, set: &SortedSet) -> Option<String> {
        let definition = &self.board.definition;
        let (begin, key) = (set.begin(work.at), self.key(&set.period));
        if !set.period.contains(begin) {
            return Some(format!("{begin} is not in the period {key} of {}", set.key));
        }
        if begin > self.now {
            return Some(format!("the period {key} of {} has not begun", set.key));
        }
        if let AcceptLate::Within(span) = definition.accept_late
            && begin < self.now.saturating_sub(span)
        {
            return Some(format!(
                "it accepts no events of {begin}: set `accept_late` to `any`"
            ));
        }
        if definition.closes_at.is_some_and(|end| end <= begin) {
            return Some(format!("it has ended before {begin} (`closes_at`)"));
        }
        let expires_ms = self.board.expires_at_ms(&set.period)?;
        (expires_ms <= self.now.ms())
            .then(|| format!("its `retention` keeps {key} of {} no longer", set.key))
    }

    /// The key of a period.
    pub(super) fn key(&self, period: &Period) -> String {
        self.board.calendar.key(period)
    }

    /// The names of other standings that an event at this time counts in.
    pub(super) fn others(&self, unit: Unit, at: Timestamp) -> Vec<String> {
        let units = self.board.recorded_units().filter(|other| *other != unit);
        units
            .map(|other| {
                let period = self.board.calendar.containing(other, at);
                format!("{other} {}", self.key(&period))
            })
            .collect()
    }

    /// For how long it remembers ids.
    pub(super) fn idempotency(&self) -> Span {
        self.board.definition.idempotency
    }

    /// Reads the scores of some members, hidden ones included.
    pub(super) async fn standing(
        &self,
        client: &Client,
        period: &Period,
        members: &[&str],
    ) -> Result<Shown, Failure> {
        let under = format!(
            "/standings/{}/members/query?key={}&hidden=include",
            Window::Period(period.unit),
            self.key(period).replace(':', "%3A")
        );
        let body = json!({ "ids": members });
        let request = || {
            let request = client.board_request(Method::POST, &under);
            request.header("Cache-Control", "no-cache").json(&body)
        };
        let outage_max = client.limits.outage_max;
        let answer: SubsetAnswer = client.ask(request, "reading scores", outage_max).await?;
        let decimals = self.board.definition.decimals;
        let entries = answer.entries.into_iter().map(|entry| {
            let score = Score::parse(&entry.score.to_string(), decimals)?;
            let reached_at = entry.reached_at.as_deref().map(Timestamp::parse);
            let reached_at = reached_at.transpose()?;
            Ok((entry.member, Here { score, reached_at }))
        });
        let entries: Result<_, Failure> = entries.collect();
        Ok(Shown {
            total: answer.total,
            entries: entries?,
        })
    }
}
