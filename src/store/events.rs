//! Carrying out the plans of events.
//!
//! One call takes many events of one board. How many is bounded by what they cost Redis, so that no other
//! client waits for longer than a millisecond or two.

use std::collections::HashMap;
use std::sync::Arc;

use fred::types::Value;
use serde::de::{self, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::connection::Store;
use super::reply::{Reply, unknown_code};
use super::{StoreError, Versioned, keys, script};
use crate::domain::board::{Board, Order, Ranking, Series, Standing, Update};
use crate::domain::event::{Change, Detail, Outcome, Ranks, Rejection, Status};
use crate::domain::period::Period;
use crate::domain::plan::{Amount, Plan, Roll, Route, Write};
use crate::domain::score::Score;
use crate::domain::ties::{TieKey, Ties};
use crate::domain::time::Timestamp;
use crate::domain::window::Window;

/// For how long the events of one call may keep Redis busy, in microseconds.
pub const CALL_COST_US_MAX: usize = 1_000;
/// The most events of one call, whatever they cost.
pub const CALL_EVENTS_MAX: usize = 200;

/// An event that is ready to be carried out.
#[derive(Clone, Debug)]
pub struct Ready {
    /// What to do.
    pub plan: Plan,
    /// What the outcome is to name.
    pub detail: Detail,
    /// Whether the history of rolling windows goes along, for those whose standing is not there.
    pub with_history: bool,
}

impl Ready {
    /// About how long it keeps Redis busy, in microseconds; measured on one machine, and meant to keep calls
    /// alike in length.
    pub fn cost_us(&self) -> usize {
        let Route { writes, rolls, .. } = &*self.plan.route;
        let history = |roll: &Roll| {
            if self.sends_history(roll) {
                roll.history.len()
            } else {
                0
            }
        };
        let rolls = rolls.iter().map(|roll| 10 + history(roll)).sum::<usize>();
        let ranks = if self.detail == Detail::Ranks {
            20 * writes.len()
        } else {
            0
        };
        6 + 6 * writes.len() + rolls + ranks
    }

    fn sends_history(&self, roll: &Roll) -> bool {
        self.with_history || (roll.is_past && self.detail == Detail::Standings)
    }
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It was taken.
    Taken(Outcome),
    /// Its id was known: what became of it the first time.
    Duplicate(Outcome),
    /// It was refused and has changed nothing.
    Rejected(Rejection),
    /// Nothing was done: it has to be sent with history.
    NeedsHistory,
    /// Nothing was done: the standing of this window that ends with the event's period has to be completed.
    NeedsStanding(Window),
}

impl Store {
    /// Carries out events of one board, in one call: see [`CALL_COST_US_MAX`]. The answers are in their order.
    pub async fn apply(
        &self,
        board: &Board,
        events: &[Ready],
        now: Timestamp,
    ) -> Result<Versioned<Vec<Answer>>, StoreError> {
        let (keys, args) = encode(board, events, now);
        let reply = self
            .write(&board.id, &script::APPLY, keys, vec![pack(&args)?])
            .await?;
        let (code, mut reply) = match Reply::versioned(reply)? {
            Versioned::Stale => return Ok(Versioned::Stale),
            Versioned::Current(current) => current,
        };
        if code != "OK" {
            return unknown_code(&code);
        }
        let results: Vec<Vec<Field>> = rmp_serde::from_slice(&reply.bytes()?).map_err(|error| {
            StoreError::Unexpected(format!("the results of apply.lua: {error}"))
        })?;
        if results.len() != events.len() {
            return Err(StoreError::Unexpected(
                "results that don't match the events".into(),
            ));
        }
        let answers = events.iter().zip(results).map(|(event, result)| {
            answer(board, &event.plan, event.detail, &result)
                .ok_or_else(|| StoreError::Unexpected(format!("the result {result:?}")))
        });
        answers.collect::<Result<_, _>>().map(Versioned::Current)
    }
}

/// The score as it is stored: rank 1 has the smallest.
pub(super) fn stored_score(board: &Board, score: Score) -> i64 {
    match board.definition.order {
        Order::Desc => -score.scaled(),
        Order::Asc => score.scaled(),
    }
}

/// The score of a stored number; the same sign turns it back.
pub(super) fn shown_score(board: &Board, stored: i64) -> Score {
    Score::from_stored(stored_score(board, Score::from_stored(stored)))
}

/// Packs the arguments of a script.
pub(super) fn pack<T: Serialize>(args: &T) -> Result<Value, StoreError> {
    let packed = rmp_serde::to_vec_named(args).map_err(|error| {
        StoreError::Unexpected(format!("arguments that can't be packed: {error}"))
    })?;
    Ok(Value::Bytes(packed.into()))
}

/// `layout` in the arguments of the scripts (`scripts/lib/standing.lua`).
#[derive(Clone, Copy, Serialize)]
pub(super) struct LayoutArgs {
    prefixed: bool,
    hashed: bool,
    dense: bool,
    later: i8,
    width: usize,
}

impl LayoutArgs {
    pub(super) fn new(board: &Board) -> Self {
        let layout = board.layout();
        Self {
            prefixed: layout.prefixed,
            hashed: layout.hashed,
            dense: layout.dense,
            later: if board.definition.ties == Ties::Last {
                -1
            } else {
                1
            },
            width: keys::width(layout),
        }
    }
}

/// `ranking` in the arguments of the scripts.
pub(super) fn ranking_name(board: &Board) -> &'static str {
    match board.definition.ranking {
        Ranking::Ordinal => "ordinal",
        Ranking::Competition => "competition",
        Ranking::Dense => "dense",
    }
}

/// `update` in the arguments of apply.lua, which compares stored scores.
fn update_name(board: &Board) -> &'static str {
    let greater_is_greater = board.definition.order == Order::Asc;
    match (board.definition.update, greater_is_greater) {
        (Update::Sum, _) => "sum",
        (Update::Max, true) | (Update::Min, false) => "greatest",
        (Update::Max, false) | (Update::Min, true) => "least",
        (Update::Last, true) => "last_greatest",
        (Update::Last, false) => "last_least",
    }
}

#[derive(Serialize)]
struct ApplyArgs<'a> {
    version: String,
    now: i64,
    layout: LayoutArgs,
    ranking: &'static str,
    update: &'static str,
    remember: u64,
    rolls: Vec<RollArgs>,
    routes: Vec<RouteArgs>,
    events: Vec<EventArgs<'a>>,
}

#[derive(Serialize)]
struct RouteArgs {
    writes: Vec<(usize, usize, u16, u8, i64)>,
    rolls: Vec<usize>,
}

#[derive(Serialize)]
struct RollArgs {
    state: usize,
    code: u16,
    start: i64,
    base: usize,
    expires: i64,
    later: Vec<(i64, usize)>,
    history: Vec<usize>,
}

struct EventArgs<'a> {
    member: &'a str,
    id: usize,
    amount: i64,
    at: u64,
    fingerprint: u64,
    route: usize,
    rejected: bool,
    detail: Detail,
    carried: Vec<i64>,
}

impl Serialize for EventArgs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(8 + self.carried.len()))?;
        list.serialize_element(self.member)?;
        list.serialize_element(&self.id)?;
        list.serialize_element(&self.amount)?;
        list.serialize_element(&self.at)?;
        list.serialize_element(&self.fingerprint)?;
        list.serialize_element(&self.route)?;
        list.serialize_element(&u8::from(self.rejected))?;
        list.serialize_element(&self.detail.code())?;
        for carried in &self.carried {
            list.serialize_element(carried)?;
        }
        list.end()
    }
}

/// The keys and arguments of a call as they come together. Places in lists count from 1, as in Lua.
struct Encoder<'a> {
    board: &'a Board,
    keys: Vec<String>,
    standings: HashMap<Standing, usize>,
    states: HashMap<Window, usize>,
    rolls: Vec<RollArgs>,
    roll_places: HashMap<(*const Roll, bool), usize>,
    routes: Vec<RouteArgs>,
    route_places: HashMap<(*const Route, bool), usize>,
}

impl<'a> Encoder<'a> {
    fn new(board: &'a Board) -> Self {
        let registry = keys::registry(&board.id, board.generation);
        Self {
            board,
            keys: vec![keys::board(&board.id), registry],
            standings: HashMap::new(),
            states: HashMap::new(),
            rolls: Vec::new(),
            roll_places: HashMap::new(),
            routes: Vec::new(),
            route_places: HashMap::new(),
        }
    }

    fn key(&mut self, key: String) -> usize {
        self.keys.push(key);
        self.keys.len()
    }

    fn standing(&mut self, series: Series, period: Period) -> usize {
        let standing = Standing { series, period };
        if let Some(place) = self.standings.get(&standing) {
            return *place;
        }
        let place = self.keys.len() + 1;
        self.keys.extend(keys::standing(self.board, &standing));
        self.standings.insert(standing, place);
        place
    }

    fn state(&mut self, window: Window) -> usize {
        if let Some(place) = self.states.get(&window) {
            return *place;
        }
        let place = self.key(keys::series(self.board, self.board.series(window)));
        self.states.insert(window, place);
        place
    }

    fn event<'e>(&mut self, ready: &'e Ready) -> EventArgs<'e> {
        let Plan {
            event,
            at,
            rejection,
            carried,
            ..
        } = &ready.plan;
        let board = self.board;
        EventArgs {
            member: event.member.as_str(),
            id: event
                .id
                .as_ref()
                .map_or(0, |id| self.key(keys::event(board, id))),
            amount: stored_score(board, event.score),
            at: TieKey::new(board.definition.ties, *at).number(),
            fingerprint: event.fingerprint(),
            route: self.route(ready),
            rejected: rejection.is_some(),
            detail: ready.detail,
            carried: carried
                .iter()
                .map(|score| stored_score(board, *score))
                .collect(),
        }
    }

    fn route(&mut self, ready: &Ready) -> usize {
        let route = &ready.plan.route;
        let variant = (Arc::as_ptr(route), ready.with_history);
        if let Some(place) = self.route_places.get(&variant) {
            return *place;
        }
        let writes = route.writes.iter().map(|write| self.write(write)).collect();
        let rolls = route
            .rolls
            .iter()
            .map(|roll| self.roll(roll, ready.sends_history(roll)));
        let rolls = rolls.collect();
        self.routes.push(RouteArgs { writes, rolls });
        self.route_places.insert(variant, self.routes.len());
        self.routes.len()
    }

    fn write(&mut self, write: &Write) -> (usize, usize, u16, u8, i64) {
        let Standing { series, period } = write.standing;
        let amount = match write.amount {
            Amount::Score => 0,
            Amount::Carried(index) => index + 1,
        };
        let code = Window::Period(period.unit).code();
        let reported = u8::from(write.reported.is_some());
        let expires = write.expires_at_ms.unwrap_or(0);
        (
            self.standing(series, period),
            amount,
            code,
            reported,
            expires,
        )
    }

    fn roll(&mut self, roll: &Arc<Roll>, sends_history: bool) -> usize {
        let variant = (Arc::as_ptr(roll), sends_history);
        if let Some(place) = self.roll_places.get(&variant) {
            return *place;
        }
        let mut base = |period: &Period| self.standing(roll.base, *period);
        let later = roll
            .later
            .iter()
            .map(|period| (period.start_ms, base(period)))
            .collect();
        let history = if sends_history {
            &roll.history[..]
        } else {
            &[]
        };
        let history = history.iter().map(&mut base).collect();
        let args = RollArgs {
            code: roll.window.code(),
            start: roll.period.start_ms,
            base: base(&roll.period),
            state: self.state(roll.window),
            expires: roll.expires_at_ms.unwrap_or(0),
            later,
            history,
        };
        self.rolls.push(args);
        self.roll_places.insert(variant, self.rolls.len());
        self.rolls.len()
    }
}

fn encode<'e>(board: &Board, events: &'e [Ready], now: Timestamp) -> (Vec<String>, ApplyArgs<'e>) {
    let mut encoder = Encoder::new(board);
    let events = events.iter().map(|ready| encoder.event(ready)).collect();
    let args = ApplyArgs {
        version: board.version(),
        now: now.ms(),
        layout: LayoutArgs::new(board),
        ranking: ranking_name(board),
        update: update_name(board),
        remember: board.definition.idempotency.ms(),
        rolls: encoder.rolls,
        routes: encoder.routes,
        events,
    };
    (encoder.keys, args)
}

/// One value in a result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    Flag(bool),
    Number(i64),
}

impl Field {
    fn number(self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Flag(_) => None,
        }
    }

    fn count(self) -> Option<u64> {
        self.number().and_then(|number| u64::try_from(number).ok())
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldVisitor;
        impl Visitor<'_> for FieldVisitor {
            type Value = Field;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a boolean or an integer")
            }

            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Field, E> {
                Ok(Field::Flag(flag))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Field, E> {
                Ok(Field::Number(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Field, E> {
                i64::try_from(number)
                    .map(Field::Number)
                    .map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(FieldVisitor)
    }
}

/// Takes a result apart as apply.lua documents it.
fn answer(board: &Board, plan: &Plan, detail: Detail, result: &[Field]) -> Option<Answer> {
    let (code, fields) = result.split_first()?;
    let window = || Window::from_code(u16::try_from(fields.first()?.number()?).ok()?);
    Some(match code.number()? {
        1 => Answer::Taken(outcome(board, plan, Status::Applied, detail, fields)?),
        2 => Answer::Taken(outcome(board, plan, Status::Unchanged, detail, fields)?),
        3 => {
            let [at, status, detail, entries @ ..] = fields else {
                return None;
            };
            let status = if status.number()? == 2 {
                Status::Unchanged
            } else {
                Status::Applied
            };
            let fields: Vec<Field> = std::iter::once(*at)
                .chain(entries.iter().copied())
                .collect();
            Answer::Duplicate(outcome(
                board,
                plan,
                status,
                Detail::from_code(detail.number()?)?,
                &fields,
            )?)
        }
        4 => Answer::Rejected(Rejection::IdReused),
        5 => Answer::Rejected(plan.rejection?),
        6 => Answer::Rejected(Rejection::OutOfRange(window()?)),
        7 => Answer::NeedsHistory,
        8 => Answer::NeedsStanding(window()?),
        _ => return None,
    })
}

fn outcome(
    board: &Board,
    plan: &Plan,
    status: Status,
    detail: Detail,
    fields: &[Field],
) -> Option<Outcome> {
    let (at, entries) = fields.split_first()?;
    let at = TieKey::from_number(at.count()?).instant(board.definition.ties)?;
    let entries = entries.chunks(if detail == Detail::Ranks { 5 } else { 3 });
    let amount = stored_score(board, plan.event.score);
    let changes = entries.map(|entry| {
        let [code, stored, previous, ranks @ ..] = entry else {
            return None;
        };
        let stored = stored.number()?;
        let previous_score = match *previous {
            Field::Flag(false) => None,
            Field::Flag(true) => Some(shown_score(board, stored - amount)),
            Field::Number(previous) => Some(shown_score(board, previous)),
        };
        let ranks = match ranks {
            [] => None,
            [rank, previous_rank] => Some(Ranks {
                rank: rank.count(),
                previous_rank: previous_rank.count(),
            }),
            _ => return None,
        };
        Some(Change {
            window: Window::from_code(u16::try_from(code.number()?).ok()?)?,
            score: shown_score(board, stored),
            previous_score,
            ranks,
        })
    });
    Some(Outcome {
        status,
        at,
        changes: changes.collect::<Option<_>>()?,
    })
}
