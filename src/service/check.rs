//! Finding what contradicts itself in Redis, and mending what follows from the rest: `standings check`.
//!
//! It runs beside the service, while events come in. So each comparison is one script, or two looks with time in between,
//! and what is in flux is left out, with a note: boards on their way to other shards are not mended, a large standing
//! that changes all the time has its total unchecked.
//!
//! - Of each standing the keys are compared with each other (`scripts/check.lua`).
//! - Derived standings that are complete are compared with their terms, and periods with carryover with what was added
//!   and carried over (`scripts/check_sums.lua`).
//! - Each key that is there has to be in its registry, or of a kind that is not (`store/kinds.rs`). What nothing needs or
//!   has marked is left over.
//! - Definitions are compared with the list of boards, and with what shards know of them.
//!
//! What was counted of quotas, voters and events is not stored twice, so that nothing can be said of it.

mod report;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

pub use self::report::{Finding, Place, Report};
use super::{Error, Service};
use crate::clock::Clock;
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::period::Period;
use crate::domain::plan::stretch;
use crate::domain::series::{Derived, List, Series, Standing};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::engine::ATTEMPTS_MAX;
use crate::store::check::{Head, Look, Manner, Sum, Total};
use crate::store::keys::{self, Name};
use crate::store::kinds::{Copying, Kind, Purging, Slot};
use crate::store::purge::Unneeded;
use crate::store::{Store, StoreError, Versioned};

/// The time between two looks at what is no single step for the service: within it, such a thing is done.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(3);
/// The most keys that are looked at again.
const SUSPECTS_MAX: usize = 100_000;
/// What all boards share, and its types.
const SHARED: [(&str, &str); 16] = [
    (keys::LIVE, "zset"),
    (keys::CHANGES, "zset"),
    (keys::MOVING, "set"),
    (keys::UNNEEDED, "set"),
    (keys::SEQUENCE, "string"),
    (keys::EPOCH, "string"),
    (keys::STAMP, "string"),
    (keys::BEGUN, "zset"),
    (keys::DELETED, "set"),
    (keys::LEASES, "hash"),
    (keys::API_KEYS, "hash"),
    (keys::API_KEY_USES, "hash"),
    (keys::OF_API_KEYS[0], "zset"),
    (keys::OF_API_KEYS[1], "zset"),
    (keys::OF_API_KEYS[2], "string"),
    (keys::OF_API_KEYS[3], "string"),
];

impl Service {
    /// Looks for contradictions in one board, or all, and with `mends` mends what follows from the rest. What should be
    /// looked after in Redis itself is among the notes.
    pub async fn check(&self, only: Option<&BoardId>, mends: bool) -> Result<Report, Error> {
        let mut check = Check {
            store: &self.engine.store,
            clock: &self.engine.clock,
            mends,
            report: Report::default(),
        };
        for warning in self.engine.store.warnings().await {
            check.report.note(warning);
        }
        Box::pin(check.run(only)).await?;
        Ok(check.report)
    }
}

/// A check under way.
struct Check<'a> {
    store: &'a Store,
    clock: &'a Clock,
    mends: bool,
    report: Report,
}

/// Whether a board was looked at as it is defined now.
enum Step {
    Done,
    /// Its definition has changed meanwhile.
    Stale,
}

/// Goes on if a step was done.
macro_rules! done {
    ($step:expr) => {
        if let Step::Stale = $step {
            return Ok(Step::Stale);
        }
    };
}

/// What to think of a key that is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Fine,
    /// It has to be in the registry of its shard.
    Registered,
    /// Nothing needs it, and nothing has marked it.
    LeftOver,
    /// Nobody knows what it is.
    Unknown,
}

impl Check<'_> {
    async fn run(&mut self, only: Option<&BoardId>) -> Result<(), Error> {
        let sound = self.check_shared().await?;
        if !sound.contains(keys::UNNEEDED) || !sound.contains(keys::LIVE) {
            self.report
                .note("what all boards share is damaged: their keys are not checked".to_owned());
        }
        let is_sound = sound.len() == SHARED.len();
        let mut ids: BTreeSet<BoardId> = only.cloned().into_iter().collect();
        let mut suspects = Vec::new();
        if is_sound {
            let (heads, found) = self.check_names(only).await?;
            suspects = found;
            if only.is_none() {
                ids.extend(heads);
                ids.extend(self.store.live_ids().await?);
            }
        }
        if let Some(id) = only
            && self.store.load_head(id.as_str()).await?.found == "none"
            && suspects.is_empty()
            && (!is_sound || self.store.live_score(id).await?.is_none())
        {
            return Err(Error::BoardNotFound(id.clone()));
        }
        for id in &ids {
            self.check_board(id).await?;
        }
        if is_sound {
            self.check_suspects(suspects).await?;
            self.check_list(&ids).await?;
        }
        Ok(())
    }

    /// The keys that all boards share, by their types; returns those that are sound.
    async fn check_shared(&mut self) -> Result<HashSet<&'static str>, StoreError> {
        let mut sound = HashSet::new();
        for (key, expected) in SHARED {
            let found = self.store.type_of(key).await?;
            if found == expected || found == "none" {
                sound.insert(key);
            } else {
                let detail = format!("{key} is a {found}, where a {expected} should be");
                self.report.tell(Place::default(), "type", false, detail);
            }
        }
        Ok(sound)
    }

    /// Tells what is damaged so that a script fails on it. It ends nothing but the look at that.
    fn unless_damaged<T>(
        &mut self,
        place: impl FnOnce() -> Place,
        result: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Unexpected(detail)) => {
                self.report.tell(place(), "damaged", false, detail);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    // Boards.

    /// One board, as it is defined at a time.
    async fn check_board(&mut self, id: &BoardId) -> Result<(), StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            let before = self.report.clone();
            if let Step::Done = self.check_defined(id).await? {
                return Ok(());
            }
            if !self.mends {
                self.report = before;
            }
        }
        self.report.note(format!(
            "board {id} changes all the time: it is not checked"
        ));
        Ok(())
    }

    async fn check_defined(&mut self, id: &BoardId) -> Result<Step, StoreError> {
        let place = || Place::of_board(id);
        let head = self.store.load_head(id.as_str()).await?;
        if head.found == "none" {
            return Ok(Step::Done);
        }
        if head.found != "hash" {
            let detail = format!("its key is a {}, where a hash should be", head.found);
            self.report.tell(place(), "type", false, detail);
            return Ok(Step::Done);
        }
        let Some(defined) = head.board(id) else {
            // What is left of a board is told with the other keys that are left over.
            return Ok(Step::Done);
        };
        let Some(board) = self.unless_damaged(place, defined)?.map(Arc::new) else {
            return Ok(Step::Done);
        };
        if head.version.as_deref() != Some(&board.version()) {
            let is_mended = self.mends && self.store.restore_version(&board, &head).await?;
            let known = head.version.as_deref().unwrap_or("none");
            let detail = format!(
                "its version is stored as {known}, its definition is {}",
                board.version()
            );
            self.report.tell(place(), "version", is_mended, detail);
            if !is_mended {
                return Ok(Step::Done);
            }
        }
        self.report.boards += 1;
        if let Some(next) = board.placement.next {
            let shards = next.to.shards;
            self.report.note(format!(
                "board {id} is moving to {shards} shards: those are not checked, and it is not mended"
            ));
            done!(self.check_moving(&board).await?);
            if next.is_closing {
                return Ok(Step::Done);
            }
        }
        self.report.unsure = 0;
        for shard in board.shards() {
            done!(self.check_shard(&shard).await?);
        }
        let unsure = self.report.unsure;
        if unsure > 0 {
            self.report.note(format!(
                "{unsure} standings of board {id} change all the time: their totals are not checked"
            ));
        }
        Ok(Step::Done)
    }

    /// A board that is to move has to be noted as such, or else nobody moves it.
    async fn check_moving(&mut self, board: &Board) -> Result<Step, StoreError> {
        let id = &board.id;
        for attempt in 0..2 {
            if self.store.moving_boards().await?.contains(id) {
                return Ok(Step::Done);
            }
            if attempt == 0 {
                tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                if self.is_changed(board).await? {
                    return Ok(Step::Stale);
                }
            }
        }
        if self.mends {
            self.store.mark_moving(id, true).await?;
        }
        let detail = "it is to move to other shards, but is not noted for that";
        self.report
            .tell(Place::of_board(id), "not_moving", self.mends, detail);
        Ok(Step::Done)
    }

    /// Whether a board is not defined as it was.
    async fn is_changed(&self, board: &Board) -> Result<bool, StoreError> {
        let head = self.store.load_head(board.id.as_str()).await?;
        Ok(head.version != Some(board.version()))
    }

    fn manner(&self, board: &Board) -> Manner {
        Manner {
            now: self.clock.now(),
            mends: self.mends && board.placement.next.is_none(),
        }
    }

    // Shards.

    async fn check_shard(&mut self, shard: &Shard) -> Result<Step, StoreError> {
        let tag = shard.tag();
        let place = || Place::of_shard(shard);
        let registry = keys::registry(tag, shard.generation);
        let found = self.store.type_of(&registry).await?;
        if !shard.shard_id.of.is_together() {
            let head = self.store.load_head(tag).await?;
            match self.check_head(shard, &head, found != "none").await? {
                Some(Step::Done) => {}
                Some(Step::Stale) => return Ok(Step::Stale),
                None => return Ok(Step::Done),
            }
        }
        match found.as_str() {
            "none" => return Ok(Step::Done),
            "set" => {}
            _ => {
                let detail = format!("its registry is a {found}, where a set should be");
                self.report.tell(place(), "type", false, detail);
                return Ok(Step::Done);
            }
        }
        let mut readable = Vec::new();
        for derived in shard.derived() {
            let mends = self.manner(shard).mends;
            let checked = self.store.check_state(shard, &derived, mends).await;
            let state = keys::state(shard, derived.series);
            let place = || Place::of_key(shard, &state);
            match self.unless_damaged(place, checked)? {
                Some(Versioned::Stale) => return Ok(Step::Stale),
                Some(Versioned::Current(differences)) => {
                    readable.extend(differences.is_empty().then_some(derived));
                    self.report.tell_all(shard, &place(), differences);
                }
                None => {}
            }
        }
        done!(self.check_registered(shard).await?);
        for derived in readable {
            done!(self.check_derived(shard, &derived).await?);
        }
        Ok(Step::Done)
    }

    /// What a shard knows of the definition. One that knows an older one is told with the first call. Returns `None` where
    /// the shard is not in use.
    async fn check_head(
        &mut self,
        shard: &Shard,
        head: &Head,
        has_data: bool,
    ) -> Result<Option<Step>, StoreError> {
        let known = head.version.as_deref().unwrap_or_default();
        let (generation, revision) = known.rsplit_once('-').unwrap_or_default();
        let is_own = generation == shard.generation.to_string();
        let is_older = revision
            .parse()
            .is_ok_and(|revision: u64| revision <= shard.revision);
        if is_own && is_older {
            return Ok(Some(Step::Done));
        }
        if self.is_changed(shard).await? {
            return Ok(Some(Step::Stale));
        }
        if is_own || has_data || !matches!(head.found.as_str(), "none" | "hash") {
            let known = match head.found.as_str() {
                "hash" => format!("knows version {known:?}"),
                "none" => "knows no version".to_owned(),
                found => format!("is a {found}"),
            };
            let detail = format!("its head {known}, the definition is {}", shard.version());
            self.report
                .tell(Place::of_shard(shard), "head", false, detail);
        }
        Ok(None)
    }

    /// All that is in the registry of a shard.
    async fn check_registered(&mut self, shard: &Shard) -> Result<Step, StoreError> {
        let (mut cursor, mut seen) = ("0".to_owned(), HashSet::new());
        loop {
            let names = self.store.names(shard, &cursor).await;
            let Some((next, names)) = self.unless_damaged(|| Place::of_shard(shard), names)? else {
                return Ok(Step::Done);
            };
            for name in names {
                let Some(kind) = keys::kind_of(shard, &name) else {
                    continue;
                };
                match kind.copying() {
                    Copying::Whole => self.check_turnout(shard, &name, "hash").await?,
                    Copying::Merged => self.check_turnout(shard, &name, "string").await?,
                    Copying::Members | Copying::Rebuilt => {
                        let zset = keys::sorted_set_of(&name);
                        if let Some(kind) = keys::kind_of(shard, zset)
                            && kind.is_standing()
                            && seen.insert(zset.to_owned())
                        {
                            done!(self.check_standing(shard, kind, zset).await?);
                        }
                    }
                    Copying::Not => {}
                }
            }
            cursor = next;
            if cursor == "0" {
                return Ok(Step::Done);
            }
        }
    }

    /// What counts events or voters: it is stored once, so that only its form can be looked at.
    async fn check_turnout(
        &mut self,
        shard: &Shard,
        key: &str,
        expected: &str,
    ) -> Result<(), StoreError> {
        const HYPERLOGLOG: &[u8] = b"HYLL";
        let found = self.store.type_of(key).await?;
        let place = || Place::of_key(shard, key);
        if found != expected && found != "none" {
            let detail = format!("it is a {found}, where a {expected} should be");
            self.report.tell(place(), "type", false, detail);
        } else if found == "string" {
            let beginning = self.store.beginning_of(key, 4).await?;
            // It may have expired by now.
            if !beginning.is_empty() && beginning != HYPERLOGLOG {
                let detail = "it is no HyperLogLog";
                self.report.tell(place(), "type", false, detail);
            }
        }
        Ok(())
    }

    // Standings.

    async fn check_standing(
        &mut self,
        shard: &Shard,
        kind: Kind,
        zset: &str,
    ) -> Result<Step, StoreError> {
        let place = Place::of_key(shard, zset);
        let standing = keys::standing_of(shard, zset);
        let of_events = standing.filter(|_| kind == Kind::Standing);
        let expires = of_events.and_then(|standing| shard.expires_at_ms(&standing.period));
        // Later the retention may have been another one when the standing began.
        let is_first = shard.revision == 1 && of_events.is_some();
        let (mut from, mut is_whole, mut is_sound) = (None, false, true);
        loop {
            let manner = self.manner(shard);
            let part = self.store.check_standing(
                shard,
                kind,
                zset,
                (expires, is_first),
                from.as_ref(),
                manner,
            );
            let part = part.await;
            let Some(look) = self.unless_damaged(|| place.clone(), part)? else {
                return Ok(Step::Done);
            };
            let part = match look {
                Versioned::Stale => return Ok(Step::Stale),
                Versioned::Current(Look::Found(part)) => part,
                Versioned::Current(Look::Gone) => {
                    if from.is_none() && is_first && expires.is_none() {
                        let detail = "it was there, and is gone, though it never expires";
                        self.report.tell(place, "lost", false, detail);
                    }
                    return Ok(Step::Done);
                }
                Versioned::Current(Look::Impossible) => return Ok(Step::Done),
            };
            is_whole |= part.is_whole;
            is_sound &= part.differences.iter().all(|found| found.is_mended);
            self.report.tell_all(shard, &place, part.differences);
            from = part.next;
            if from.is_none() {
                break;
            }
        }
        self.report.standings += 1;
        if shard.layout().summed && !is_whole && is_sound {
            self.check_total(shard, zset, place).await?;
        }
        match of_events {
            Some(standing) => self.check_carried(shard, standing, zset).await,
            None => Ok(Step::Done),
        }
    }

    /// The total of a large standing, or one that is damaged.
    async fn check_total(
        &mut self,
        shard: &Shard,
        zset: &str,
        place: Place,
    ) -> Result<(), StoreError> {
        let mends = self.manner(shard).mends;
        let total = self.store.check_total(shard, zset, mends).await;
        match self.unless_damaged(|| place.clone(), total)? {
            Some(Total::Agrees) | None => {}
            Some(Total::Changing) => self.report.unsure += 1,
            Some(Total::Differs {
                stored,
                sum,
                is_mended,
            }) => {
                let detail = report::total(shard, stored, sum);
                self.report.tell(place, "total", is_mended, detail);
            }
        }
        Ok(())
    }

    /// A period's standing with what was carried over, beside those without it.
    async fn check_carried(
        &mut self,
        shard: &Shard,
        standing: Standing,
        zset: &str,
    ) -> Result<Step, StoreError> {
        let List::Period(unit) = standing.series.list else {
            return Ok(Step::Done);
        };
        let ratio = shard.definition.carryover.get(&unit);
        let is_current = keys::sorted_set(shard, &standing) == zset;
        let Some(ratio) = ratio.filter(|_| is_current && has_whole_base(shard, standing)) else {
            return Ok(Step::Done);
        };
        let base = shard.base(unit, standing.series.track);
        let periods = stretch(shard, standing.period, 2);
        if self.has_expired(shard, &periods) {
            return Ok(Step::Done);
        }
        let terms = periods.into_iter().map(|period| Standing {
            series: base,
            period,
        });
        // The share may have been another one.
        let ratio = (shard.revision == 1).then_some(ratio.millionths());
        let sum = Sum::carried(standing, terms.collect(), ratio);
        self.check_sum(shard, &sum).await
    }

    /// Whether some of these periods may be gone.
    fn has_expired(&self, shard: &Board, periods: &[Period]) -> bool {
        let now = self.clock.now().ms();
        let mut expires = periods
            .iter()
            .filter_map(|period| shard.expires_at_ms(period));
        expires.any(|expires| expires <= now)
    }

    /// The standings of a derived series that are complete, beside their terms.
    async fn check_derived(
        &mut self,
        shard: &Shard,
        derived: &Derived,
    ) -> Result<Step, StoreError> {
        let place = || Place::of_key(shard, &keys::state(shard, derived.series));
        let entries = self.store.derived_entries(shard, derived.series).await;
        let Some(entries) = self.unless_damaged(place, entries)? else {
            return Ok(Step::Done);
        };
        let unit = derived.window.unit();
        for entry in entries.iter().filter(|entry| entry.done) {
            let start = Timestamp::from_ms_clamped(entry.start);
            let period = shard.calendar.containing(unit, start);
            let history = stretch(shard, period, derived.periods);
            if period.start_ms != entry.start || self.has_expired(shard, &history) {
                continue;
            }
            let sum = Sum::derived(shard, derived, period, &history);
            done!(self.check_sum(shard, &sum).await?);
        }
        Ok(Step::Done)
    }

    async fn check_sum(&mut self, shard: &Shard, sum: &Sum) -> Result<Step, StoreError> {
        let zset = keys::sorted_set(shard, &sum.standing);
        let place = Place::of_key(shard, &zset);
        // The new shards of a board that has moved know nothing of terms that had expired before.
        let has_moved = !shard.placement.former.is_empty();
        let mut may_drop = !has_moved;
        let mut from = None;
        loop {
            let manner = self.manner(shard);
            let mends = manner.mends && may_drop;
            let look = Manner { mends, ..manner };
            let part = self.store.check_sum(shard, sum, from.as_ref(), look).await;
            let part = match part {
                // A member that can't be read is told with the standing that has it.
                Err(StoreError::Unexpected(_)) if self.report.has("unreadable", &place) => {
                    return Ok(Step::Done);
                }
                part => part,
            };
            let Some(look) = self.unless_damaged(|| place.clone(), part)? else {
                return Ok(Step::Done);
            };
            let part = match look {
                Versioned::Stale => return Ok(Step::Stale),
                Versioned::Current(Look::Found(part)) => part,
                Versioned::Current(Look::Gone | Look::Impossible) => return Ok(Step::Done),
            };
            let is_clear = part.differences.is_empty();
            if !is_clear && has_moved && part.absent > 0 {
                self.report.note(format!(
                    "{} of {} differs from what is left of its history",
                    keys::short(shard, &zset),
                    shard.tag()
                ));
                return Ok(Step::Done);
            }
            if !is_clear && manner.mends && !may_drop {
                // It is looked at again, now that nothing of its history is missing.
                may_drop = true;
                continue;
            }
            self.report.tell_all(shard, &place, part.differences);
            from = part.next;
            if from.is_none() {
                return Ok(Step::Done);
            }
        }
    }

    // Keys.

    /// All keys of one board or of all: what is missing in registries is told; what seems left over comes back, with the ids
    /// of all boards that have a head.
    async fn check_names(
        &mut self,
        only: Option<&BoardId>,
    ) -> Result<(BTreeSet<BoardId>, Vec<(String, Name)>), StoreError> {
        let unneeded: HashSet<Unneeded> = self.store.unneeded().await?.into_iter().collect();
        let mut boards: HashMap<BoardId, Defined> = HashMap::new();
        let (mut heads, mut suspects) = (BTreeSet::new(), Vec::new());
        let mut told = HashSet::new();
        let mut scan = self.store.scan_keys(keys::pattern(only));
        while let Some(names) = scan.next().await? {
            let mut registered: BTreeMap<(String, u64), Vec<String>> = BTreeMap::new();
            for key in names {
                let Some(name) = keys::take_apart(&key) else {
                    continue;
                };
                if name.kind == Some(Kind::Head) && name.shard.of.is_together() {
                    heads.insert(name.id.clone());
                }
                if !boards.contains_key(&name.id) {
                    let defined = self.defined(&name.id).await?;
                    boards.insert(name.id.clone(), defined);
                }
                match verdict(&name, &boards[&name.id], &unneeded) {
                    Verdict::Registered => {
                        let registry = (name.shard.tag(&name.id), name.generation.unwrap_or(0));
                        registered.entry(registry).or_default().push(key);
                    }
                    Verdict::LeftOver | Verdict::Unknown if suspects.len() < SUSPECTS_MAX => {
                        suspects.push((key, name));
                    }
                    Verdict::Fine | Verdict::LeftOver | Verdict::Unknown => {}
                }
            }
            for ((tag, generation), names) in registered {
                let checked = self.store.check_keys(&tag, generation, &names, self.mends);
                // A registry that is damaged is told with its shard.
                let missing = match checked.await {
                    Ok(missing) => missing,
                    Err(StoreError::Unexpected(_)) => continue,
                    Err(error) => return Err(error),
                };
                for key in missing {
                    if told.insert(key.clone()) {
                        let detail = "it is not in the registry of its shard";
                        let place = place_of(&key);
                        self.report.tell(place, "unregistered", self.mends, detail);
                    }
                }
            }
        }
        suspects.sort_by(|(key, _), (other, _)| key.cmp(other));
        suspects.dedup_by(|(key, _), (other, _)| key == other);
        Ok((heads, suspects))
    }

    /// Looks again at what seemed left over: its board may have come or gone in between.
    async fn check_suspects(&mut self, suspects: Vec<(String, Name)>) -> Result<(), StoreError> {
        let ids: BTreeSet<BoardId> = suspects.iter().map(|(_, name)| name.id.clone()).collect();
        let mut boards = HashMap::new();
        for id in ids {
            let defined = self.defined(&id).await?;
            boards.insert(id, defined);
        }
        // After the definitions: what is deleted is marked before.
        let unneeded: HashSet<Unneeded> = self.store.unneeded().await?.into_iter().collect();
        let (mut left_over, mut marked) = (Vec::new(), HashSet::new());
        for (key, mut name) in suspects {
            if matches!(name.kind, Some(Kind::Head | Kind::CountsHead)) {
                name.generation = self.generation_of(&key).await?;
            }
            let judged = match verdict(&name, &boards[&name.id], &unneeded) {
                Verdict::Registered | Verdict::Fine => continue,
                judged => judged,
            };
            let lasts = self.store.lasts_ms(&key).await?;
            let is_gone = lasts == -2;
            // What was taken of quotas expires by itself where it can.
            let is_swept = name.kind.is_some_and(Kind::is_swept);
            if is_gone || (is_swept && lasts >= 0) {
                continue;
            }
            let generation = name.generation.filter(|_| judged == Verdict::LeftOver);
            if let Some(generation) = generation.filter(|_| self.mends) {
                let tag = name.shard.tag(&name.id);
                let purging = name.kind.map(Kind::purging);
                if purging != Some(Purging::Purge) {
                    let key = std::slice::from_ref(&key);
                    let registered = self.store.check_keys(&tag, generation, key, true).await;
                    let place = || place_of(&key[0]);
                    self.unless_damaged(place, registered)?;
                }
                let unneeded = Unneeded {
                    generation,
                    id: name.id,
                    sharding: name.shard.of,
                };
                if marked.insert(unneeded.clone()) {
                    self.store.mark(&unneeded).await?;
                }
            }
            left_over.push((key, judged));
        }
        for unneeded in &marked {
            while Box::pin(self.store.purge(unneeded)).await? {}
        }
        for (key, judged) in left_over {
            let is_mended = self.mends && self.store.lasts_ms(&key).await? == -2;
            let place = place_of(&key);
            if judged == Verdict::Unknown {
                let detail = "nobody knows what it is";
                self.report.tell(place, "unknown", is_mended, detail);
            } else {
                let detail = "nothing needs it, and nothing has marked it to go";
                self.report.tell(place, "left_over", is_mended, detail);
            }
        }
        Ok(())
    }

    /// The generation that a head tells of.
    async fn generation_of(&self, head: &str) -> Result<Option<u64>, StoreError> {
        let version = self.store.version_at(head).await?;
        Ok(version.and_then(|version| version.rsplit_once('-')?.0.parse().ok()))
    }

    async fn defined(&self, id: &BoardId) -> Result<Defined, StoreError> {
        let head = self.store.load_head(id.as_str()).await?;
        Ok(match head.board(id) {
            Some(Ok(board)) => Defined::As(Box::new(board)),
            None if matches!(head.found.as_str(), "none" | "hash") => Defined::Not,
            Some(Err(_)) | None => Defined::Unreadable,
        })
    }

    // The list of boards.

    /// The list of all boards beside what is defined. Both change in two steps, so what seems wrong is looked at again.
    async fn check_list(&mut self, ids: &BTreeSet<BoardId>) -> Result<(), StoreError> {
        let mut seemed = Vec::new();
        for id in ids {
            if let Some(wrong) = self.wrong_in_list(id).await? {
                seemed.push((id, wrong));
            }
        }
        if seemed.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        for (id, wrong) in seemed {
            if self.wrong_in_list(id).await?.as_ref() != Some(&wrong) {
                continue;
            }
            if self.mends {
                self.store
                    .announce_board(id, wrong.version.is_some(), None)
                    .await?;
                // Nobody else may have defined or deleted it meanwhile.
                let is_defined = self
                    .store
                    .load_head(id.as_str())
                    .await?
                    .definition
                    .is_some();
                if is_defined != wrong.version.is_some() {
                    self.store.announce_board(id, is_defined, None).await?;
                }
            }
            let detail = match (&wrong.version, wrong.is_listed) {
                (None, _) => "it is in the list of boards, and not defined",
                (Some(_), false) => "it is defined, and not in the list of boards",
                (Some(_), true) => "it is not in its place in the list of boards",
            };
            self.report
                .tell(Place::of_board(id), "list", self.mends, detail);
        }
        Ok(())
    }

    /// What is wrong with a board in the list, if anything is.
    async fn wrong_in_list(&self, id: &BoardId) -> Result<Option<Listed>, StoreError> {
        let score = self.store.live_score(id).await?;
        let head = self.store.load_head(id.as_str()).await?;
        if !matches!(head.found.as_str(), "none" | "hash") {
            return Ok(None);
        }
        let is_defined = head.definition.is_some();
        let is_right = match score {
            Some(score) => is_defined && score.abs() < f64::EPSILON,
            None => !is_defined,
        };
        Ok((!is_right).then_some(Listed {
            version: head.version.filter(|_| is_defined),
            is_listed: score.is_some(),
        }))
    }
}

/// What is in the list of boards, and what is defined.
#[derive(Debug, Eq, PartialEq)]
struct Listed {
    /// The version of the definition.
    version: Option<String>,
    is_listed: bool,
}

/// What there is under the key of a board.
enum Defined {
    As(Box<Board>),
    Not,
    /// Something, but not for this program.
    Unreadable,
}

/// What to think of a key by its name.
fn verdict(name: &Name, defined: &Defined, unneeded: &HashSet<Unneeded>) -> Verdict {
    let sharding = name.shard.of;
    let board = match defined {
        Defined::As(board) => Some(&**board),
        Defined::Not => None,
        Defined::Unreadable => return Verdict::Fine,
    };
    let is_marked = |generation| {
        unneeded.contains(&Unneeded {
            generation,
            id: name.id.clone(),
            sharding,
        })
    };
    let is_placed = board.is_some_and(|board| board.placement.all().any(|own| own == sharding));
    let Some(kind) = name.kind else {
        return Verdict::Unknown;
    };
    let is_fine = match (kind, kind.purging()) {
        (Kind::Head, _) => is_placed || (board.is_some() && sharding.is_together()),
        (Kind::CountsHead, _) => board.is_some_and(|board| board.placement.home() == sharding),
        (_, Purging::Sweep | Purging::Call) => true,
        (_, Purging::Purge | Purging::Registry | Purging::CountsRegistry) => false,
    };
    if is_fine {
        return Verdict::Fine;
    }
    let Some(generation) = name.generation else {
        return Verdict::LeftOver;
    };
    let own = board.filter(|board| is_placed && board.generation == generation);
    let is_needed = own.is_some_and(|board| board.placement.needs(sharding));
    match (kind.slot(), kind.purging()) {
        (_, Purging::Registry) if is_needed => Verdict::Registered,
        _ if is_needed || is_marked(generation) => Verdict::Fine,
        // It stays where it was when its board has moved.
        (Slot::Home, _) if own.is_some() => Verdict::Fine,
        _ => Verdict::LeftOver,
    }
}

fn place_of(key: &str) -> Place {
    match keys::take_apart(key) {
        Some(name) => Place {
            shard: (!name.shard.of.is_together()).then(|| name.shard.tag(&name.id)),
            standing: Some(key.to_owned()),
            ..Place::of_board(&name.id)
        },
        None => Place {
            standing: Some(key.to_owned()),
            ..Place::default()
        },
    }
}

/// Whether all that was added to a period is also in its base: both are recorded since the board began, or the same moment.
fn has_whole_base(board: &Board, standing: Standing) -> bool {
    let Series {
        list: List::Period(unit),
        ..
    } = standing.series
    else {
        return false;
    };
    let own = board.epoch(Some(Window::Period(unit)));
    let rolling =
        board.definition.windows.iter().filter(
            |window| matches!(window, Window::Rolling { unit: other, .. } if *other == unit),
        );
    let mut epochs = rolling.map(|window| board.epoch(Some(*window)));
    epochs.any(|epoch| epoch <= own)
}
