//! Collects the keys and arguments of a call of apply.lua.

use std::collections::HashMap;
use std::sync::Arc;

use super::PlannedEvent;
use super::args::{CallArgs, EventArgs, MoreArgs, QuotaArgs, ReservationArgs, RouteArgs, SumArgs};
use crate::core::write::events::HeldEntry;
use crate::core::write::store::key_list::KeyList;
use crate::core::write::store::quotas;
use crate::core::write::store::reservations::VOID_MS;
use crate::domain::board::{Board, Order, Update};
use crate::domain::data::EntryData;
use crate::domain::event::{Detail, Rejection};
use crate::domain::history::RowDetails;
use crate::domain::ids::Label;
use crate::domain::league::Cohort;
use crate::domain::period::Period;
use crate::domain::plan::{Route, Sum, Write};
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::ties::{TieKey, Ties};
use crate::domain::time::Timestamp;
use crate::domain::window::{CODES, Window};
use crate::redis::args::{LayoutArgs, pack, pack_values, stored_score};
use crate::redis::connection::Call;
use crate::redis::kinds::Kind;
use crate::redis::protocol::{flags, refusals};
use crate::redis::{StoreError, Value, keys, script};

// A report's code has a flag above the window's code.
const _: () = assert!(CODES <= flags::LISTED_BEFORE as usize);

/// `update` in the arguments of apply.lua, which compares stored scores.
pub fn update_name(board: &Board) -> &'static str {
    let greater_is_greater = board.definition.order == Order::Asc;
    match (board.definition.update, greater_is_greater) {
        (Update::Sum, _) => "sum",
        (Update::Max, true) | (Update::Min, false) => "greatest",
        (Update::Max, false) | (Update::Min, true) => "least",
        (Update::Last, _) => "last",
    }
}

/// How long an event's id is remembered.
pub fn remember_ms(board: &Board) -> u64 {
    let asked = board.definition.idempotency.ms();
    if board.reserves() {
        asked.max(VOID_MS.unsigned_abs())
    } else {
        asked
    }
}

/// Collects the keys and arguments of a call.
struct Encoder<'a> {
    shard: &'a Shard,
    keys: KeyList<'a>,
    call: CallArgs,
    events: EventArgs<'a>,
    more: MoreArgs<'a>,
    turnouts: HashMap<Period, usize>,
    sum_indexes: HashMap<(*const Sum, bool), usize>,
    route_indexes: HashMap<(*const Route, bool, Option<Cohort>), usize>,
    members: HashMap<&'a str, usize>,
}

/// The keys and arguments of a call that carries out these events. `confirm`: whether a wait for replicas follows.
pub(super) fn call(
    shard: &Shard,
    events: &[PlannedEvent],
    now: Timestamp,
    confirm: bool,
) -> Result<Call, StoreError> {
    let mut encoder = Encoder::new(shard, events.len(), now, confirm);
    for planned in events {
        encoder.event(planned);
    }
    let mut args = vec![
        pack_values(&encoder.call)?,
        pack_values(&encoder.events)?,
        pack(&encoder.more)?,
    ];
    if shard.keeps_events() {
        let details = events
            .iter()
            .map(|planned| RowDetails::new(shard, &planned.plan.event).encode());
        args.extend(details.map(|details| Value::Bytes(details.into())));
    }
    Ok(Call::new(&script::APPLY, encoder.keys.all, args))
}

impl<'a> Encoder<'a> {
    fn new(shard: &'a Shard, count: usize, now: Timestamp, confirm: bool) -> Self {
        let definition = &shard.definition;
        let mut keys = KeyList::of(shard);
        let quotas = (!definition.quotas.is_empty() && !shard.reserves()).then(|| QuotaArgs {
            registry: keys.add(keys::counts_registry(shard.tag(), shard.generation)),
            rules: quotas::rules(shard),
            instants: Vec::new(),
            uses: Vec::new(),
            asks: Vec::new(),
        });
        Self {
            shard,
            keys,
            call: CallArgs {
                version: shard.version(),
                now: now.ms(),
                confirm,
                remember: remember_ms(shard).to_string(),
                ranking: definition.ranking.name(),
                update: update_name(shard),
                score_max: definition.decimals.score_max().scaled(),
                layout: LayoutArgs::new(shard),
                routes: Vec::new(),
            },
            events: EventArgs::with_capacity(shard, count),
            more: MoreArgs::new(shard, quotas),
            turnouts: HashMap::new(),
            sum_indexes: HashMap::new(),
            route_indexes: HashMap::new(),
            members: HashMap::with_capacity(count),
        }
    }

    fn event(&mut self, planned: &'a PlannedEvent) {
        let shard = self.shard;
        let plan = &planned.plan;
        let event = &plan.event;
        let member = self.member(event.member.as_str());
        let route = self.route(planned);
        let id = match (&event.id, planned.token) {
            (Some(id), _) => self.keys.add(keys::event(shard, id)),
            (None, Some(token)) => self.keys.add(keys::named(shard, Kind::EventToken, token)),
            (None, None) => 0,
        };
        self.more(planned);
        let args = &mut self.events;
        args.on_routes.push(route);
        args.members.push(member);
        args.ids.push(id);
        for (column, score) in args.amounts.iter_mut().zip(&plan.amounts) {
            column.push(stored_score(shard, *score));
        }
        let at = TieKey::new(shard.definition.ties, plan.at);
        args.ats.push(at.number());
        args.fingerprints.push(event.fingerprint());
        let (detail, refusal) = match plan.rejection {
            // Its scores are needed to find out whether one would exceed the bound.
            Some(Rejection::Quota(_)) => (Detail::Standings, refusals::UNLESS_BEYOND),
            Some(_) => (Detail::Status, refusals::UNLESS_KNOWN),
            None => (planned.detail, refusals::NEVER),
        };
        if refusal != refusals::NEVER {
            args.refusals.resize(args.details.len(), refusals::NEVER);
            args.refusals.push(refusal);
        }
        args.details.push(detail.code());
        if let Some(held) = planned.queued {
            self.queued(held);
        }
    }

    /// Adds what only some boards need of an event.
    fn more(&mut self, planned: &'a PlannedEvent) {
        let (shard, plan) = (self.shard, &planned.plan);
        let (event, more) = (&plan.event, &mut self.more);
        if let Some(quotas) = &mut more.quotas {
            let uses = quotas::use_args(shard, &plan.quotas, &mut self.keys.all);
            quotas.uses.push(uses);
            quotas.instants.push(plan.at.ms());
            quotas.asks.push(planned.asks_quotas);
        }
        if let Some(ReservationArgs { tokens, voids }) = &mut more.reservations {
            tokens.push(planned.token.into());
            voids.push(planned.token.map_or(0, |token| {
                self.keys.add(keys::named(shard, Kind::Void, token))
            }));
        }
        if let Some(data) = &mut more.data {
            data.push(event.data.as_ref().map_or("", EntryData::as_str));
        }
        if let Some(recalled) = &mut more.recalled {
            recalled.push(planned.is_recalled);
        }
        if let Some(turnouts) = &mut more.turnouts {
            let voter = event.origin.voter.as_ref();
            turnouts.voters.push(voter.map_or("", Label::as_str));
        }
        if let Some(follow_until) = &mut more.follow_until {
            let in_time = |until| TieKey::new(Ties::First, until).number();
            follow_until.push(planned.follows_until.map_or(0, in_time));
        }
    }

    /// Names the queue entry of the event that was added last.
    fn queued(&mut self, held: HeldEntry) {
        let before = self.events.details.len() - 1;
        let queue = self.more.queue.get_or_insert_default();
        queue.entries.resize(before, String::new());
        queue.bytes.resize(before, 0);
        queue.leases.resize(before, String::new());
        queue.lates.resize(before, 0);
        queue.revocations.resize(before, 0);
        queue.logged_ats.resize(before, 0);
        queue.entries.push(held.entry.to_string());
        queue.bytes.push(held.bytes);
        queue.leases.push(held.lease.to_string());
        queue.lates.push(held.late.map_or(0, Timestamp::ms));
        queue.revocations.push(held.revocation);
        let logged_at = held.is_logged.then_some(held.queued_at);
        queue.logged_ats.push(logged_at.map_or(0, Timestamp::us));
    }

    fn member(&mut self, id: &'a str) -> usize {
        *self.members.entry(id).or_insert_with(|| {
            self.events.names.push(id);
            self.events.names.len()
        })
    }

    fn turnout(&mut self, period: Period, expires_at_ms: Option<i64>) -> usize {
        if let Some(index) = self.turnouts.get(&period) {
            return *index;
        }
        let events = self
            .keys
            .add(keys::of_period(self.shard, Kind::Turnout, &period));
        let voters = self.keys.add(keys::voters(self.shard, &period));
        let expires = expires_at_ms.unwrap_or(0);
        let index = self.turnouts.len() + 1;
        if let Some(turnouts) = &mut self.more.turnouts {
            turnouts.periods.push((events, voters, expires));
        }
        self.turnouts.insert(period, index);
        index
    }

    fn route(&mut self, planned: &PlannedEvent) -> usize {
        let (route, cohort) = (&planned.plan.route, planned.plan.cohort);
        let variant = (Arc::as_ptr(route), planned.with_history, cohort);
        if let Some(index) = self.route_indexes.get(&variant) {
            return *index;
        }
        let writes = route
            .writes
            .iter()
            .flat_map(|write| self.write(write, cohort))
            .collect();
        let sums = route
            .sums
            .iter()
            .map(|sum| self.sum(sum, planned.sends_history(sum)))
            .collect();
        let turnouts = route
            .turnouts
            .iter()
            .map(|(period, expires)| self.turnout(*period, *expires))
            .collect();
        let section = planned.plan.section();
        let seats = section.map(|section| self.keys.add(keys::seats(self.shard, &section)));
        self.call.routes.push(RouteArgs {
            writes,
            sums,
            turnouts,
            seats,
        });
        let index = self.call.routes.len();
        self.route_indexes.insert(variant, index);
        index
    }

    fn write(&mut self, write: &Write, cohort: Option<Cohort>) -> [i64; 5] {
        let period = write.standing.period;
        let standing = Standing {
            cohort,
            ..write.standing
        };
        let code = Window::Period(period.unit).code();
        let index = self.keys.standing(standing);
        if let Some(history) = &mut self.more.history
            && history.keeps
            && self.shard.has_unkept(&period)
        {
            history.unkept.push(index);
        }
        [
            as_number(index),
            as_number(write.amount.column(self.shard) + 1),
            code.into(),
            write.reported.is_some().into(),
            write.expires_at_ms.unwrap_or(0),
        ]
    }

    fn sum(&mut self, sum: &Arc<Sum>, sends_history: bool) -> usize {
        let variant = (Arc::as_ptr(sum), sends_history);
        if let Some(index) = self.sum_indexes.get(&variant) {
            return *index;
        }
        let derived = &sum.derived;
        let mut base = |period: &Period| self.keys.standing(Standing::of(derived.base, *period));
        let later = sum
            .later
            .iter()
            .map(|period| (period.start_ms, base(period)))
            .collect();
        let history = if sends_history { &sum.history[..] } else { &[] };
        let mut history: Vec<usize> = history.iter().map(&mut base).collect();
        let own = base(&sum.period);
        if derived.has_initial {
            history.push(self.keys.standing(self.shard.initial_scores()));
        }
        let args = SumArgs {
            code: derived.window.code(),
            reported: u8::from(sum.is_reported),
            column: sum.amount.column(self.shard) + 1,
            lists_zero: derived.has_initial,
            start: sum.period.start_ms,
            base: own,
            state: self.keys.state(derived.series),
            expires: sum.expires_at_ms.unwrap_or(0),
            later,
            history,
        };
        self.more.sums.push(args);
        let index = self.more.sums.len();
        self.sum_indexes.insert(variant, index);
        index
    }
}

/// An index among a list of numbers.
fn as_number(index: usize) -> i64 {
    i64::try_from(index).expect("invariant: a call has few keys and columns")
}
