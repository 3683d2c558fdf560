//! The memory that the data of a board takes in Redis. Keys of kinds with few keys are all measured, however large; for periods,
//! and for kinds that may have very many keys, a random sample is.

use std::collections::BTreeSet;

use crate::domain::board::Board;
use crate::domain::period::{Period, Unit};
use crate::domain::series::{Series, Standing};
use crate::domain::shard::Shard;
use crate::domain::window::Window;
use crate::moves::store::derived_entries;
use crate::redis::dispatch::Store;
use crate::redis::kinds::{Form, Kind, Purging};
use crate::redis::{StoreError, keys};
use crate::runtime::join::try_join_all;

/// How many periods of each window of a board are measured, and how many other keys.
const PERIODS_MAX: usize = 64;
const OTHERS_MAX: usize = 512;
/// How many keys are measured at once.
const AT_ONCE: usize = 256;

/// An estimate of the memory that data takes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Footprint {
    /// About how many keys there are.
    pub keys: u64,
    /// About how many bytes they take.
    pub bytes: u64,
    /// How many of them were measured.
    pub sampled: u64,
}

impl Footprint {
    /// That of keys with these sizes in bytes; `None`: the key does not exist.
    fn of(sizes: impl IntoIterator<Item = Option<u64>>) -> Self {
        let mut all = Self::default();
        for size in sizes.into_iter().flatten() {
            all.keys += 1;
            all.bytes = all.bytes.saturating_add(size);
        }
        all.sampled = all.keys;
        all
    }

    /// That of `count` items, of which `part`, chosen at random, have this.
    fn scaled(self, count: u64, part: usize) -> Self {
        let (count, part) = (u128::from(count), part as u128);
        let scaled = |of_part: u64| {
            let all = u128::from(of_part) * count.max(part);
            u64::try_from(all.checked_div(part).unwrap_or(0)).unwrap_or(u64::MAX)
        };
        Self {
            keys: scaled(self.keys),
            bytes: scaled(self.bytes),
            sampled: self.sampled,
        }
    }

    pub fn add(&mut self, other: Self) {
        self.keys = self.keys.saturating_add(other.keys);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.sampled += other.sampled;
    }
}

/// What a board has under its own tag: results and messages.
pub async fn of_board(store: &Store, board: &Board) -> Result<Footprint, StoreError> {
    let mut own = vec![keys::results_registry(&board.id, board.generation)];
    if !board.placement.current.is_together() {
        own.push(keys::head(board.id.as_str()));
    }
    let of_results = |kind: &&Kind| kind.purging() == Purging::ResultsRegistry;
    for kind in Kind::ALL.iter().filter(of_results) {
        if kind.form() == Form::Single {
            own.push(keys::of_board(board, *kind));
        } else {
            let units = units(board).into_iter();
            own.extend(units.map(|unit| keys::of_results(board, *kind, Window::Period(unit))));
        }
    }
    measure(store, own).await
}

/// What a shard has of its members; `shards`: how many the board has.
pub async fn of_shard(
    store: &Store,
    shard: &Shard,
    shards: usize,
) -> Result<Footprint, StoreError> {
    let tag = shard.tag();
    let mut whole = vec![keys::head(tag), keys::registry(tag, shard.generation)];
    whole.extend(singles(shard, Purging::Registry));
    let units = units(shard);
    whole.extend(units.iter().map(|unit| keys::periods(shard, *unit)));
    whole.extend(of_standing(shard, &shard.initial_scores()));
    for derived in shard.derived() {
        whole.push(keys::state(shard, derived.series));
        let entries = derived_entries(store, shard, derived.series).await?;
        let keys = entries
            .iter()
            .map(|entry| of_sorted_set(shard, &entry.zset));
        whole.extend(keys.flatten());
    }
    let mut all = measure(store, whole).await?;
    let mut measured = vec![prefix(shard, shard.initial_scores().series)];
    measured.extend(shard.derived().map(|derived| prefix(shard, derived.series)));
    for unit in units {
        all.add(of_periods(store, shard, unit, part_of(PERIODS_MAX, shards)).await?);
        let recorded = shard.recorded_in(&Period::endless(unit));
        measured.extend(recorded.iter().map(|one| prefix(shard, one.series)));
    }
    let is_measured = |kind: Kind, key: &str| {
        matches!(kind.form(), Form::Single)
            || matches!(kind, Kind::State | Kind::Periods)
            || measured.iter().any(|prefix| key.starts_with(prefix))
    };
    let registry = keys::registry(tag, shard.generation);
    let count = part_of(OTHERS_MAX, shards);
    all.add(of_registry(store, shard, (registry, count), is_measured).await?);
    Ok(all)
}

/// The counts of quotas at their home that never expire, and what is reserved there.
pub async fn of_home(store: &Store, home: &Shard, homes: usize) -> Result<Footprint, StoreError> {
    let registry = keys::counts_registry(home.tag(), home.generation);
    let mut whole: Vec<String> = singles(home, Purging::CountsRegistry).collect();
    whole.push(registry.clone());
    if !home.shard_id.of.is_together() {
        whole.push(keys::counts_head(home.tag(), home.shard_id.of));
    }
    let mut all = measure(store, whole).await?;
    let is_measured = |kind: Kind, _: &str| kind.form() == Form::Single;
    let count = part_of(OTHERS_MAX, homes);
    all.add(of_registry(store, home, (registry, count), is_measured).await?);
    Ok(all)
}

/// The standings of the periods of a unit.
async fn of_periods(
    store: &Store,
    shard: &Shard,
    unit: Unit,
    count: usize,
) -> Result<Footprint, StoreError> {
    let index = keys::periods(shard, unit);
    let all: u64 = store.command("ZCARD", [&index]).await?;
    let names: Vec<String> = store
        .command("ZRANDMEMBER", [index, count.to_string()])
        .await?;
    let of_sections = names
        .iter()
        .filter_map(|name| shard.section_named(unit, name))
        .flat_map(|section| {
            shard
                .recorded_in(&section.period)
                .into_iter()
                .flat_map(move |one| of_standing(shard, &Standing::of(one.series, section)))
        });
    Ok(measure(store, of_sections.collect())
        .await?
        .scaled(all, names.len()))
}

/// The keys that a registry of a shard names, without those that are measured otherwise.
async fn of_registry(
    store: &Store,
    shard: &Shard,
    (registry, count): (String, usize),
    is_measured: impl Fn(Kind, &str) -> bool,
) -> Result<Footprint, StoreError> {
    let all: u64 = store.command("SCARD", [&registry]).await?;
    let mut names: Vec<String> = store
        .command("SRANDMEMBER", [registry, count.to_string()])
        .await?;
    let part = names.len();
    names.retain(|key| keys::kind_of(shard, key).is_some_and(|kind| !is_measured(kind, key)));
    Ok(measure(store, names).await?.scaled(all, part))
}

async fn measure(store: &Store, keys: Vec<String>) -> Result<Footprint, StoreError> {
    let mut all = Footprint::default();
    for keys in keys.chunks(AT_ONCE) {
        let sizes = keys.iter().map(|key| store.memory_of(key));
        all.add(Footprint::of(try_join_all(sizes).await?));
    }
    Ok(all)
}

/// The share of a shard in what is measured of a board.
fn part_of(max: usize, shards: usize) -> usize {
    max.div_ceil(shards.max(1))
}

/// The units of which a board stores periods.
fn units(board: &Board) -> BTreeSet<Unit> {
    board
        .definition
        .windows
        .iter()
        .map(|window| window.unit())
        .collect()
}

fn singles(shard: &Shard, purging: Purging) -> impl Iterator<Item = String> {
    Kind::ALL
        .iter()
        .filter(move |kind| kind.form() == Form::Single && kind.purging() == purging)
        .map(|kind| keys::single(shard, *kind))
}

/// What the keys of the standings of a series begin with.
fn prefix(shard: &Shard, series: Series) -> String {
    let standing = Standing::of(series, Period::endless(Unit::All));
    let key = keys::sorted_set(shard, &standing);
    let end = key.rfind(':').map_or(key.len(), |end| end + 1);
    key[..end].to_owned()
}

fn of_standing(shard: &Shard, standing: &Standing) -> Vec<String> {
    of_sorted_set(shard, &keys::sorted_set(shard, standing))
}

/// All keys that the standing with this sorted set may have.
fn of_sorted_set(shard: &Shard, zset: &str) -> Vec<String> {
    let own = keys::of_sorted_set(zset.to_owned(), shard.layout());
    let cohort = [Kind::Seats, Kind::Decided]
        .into_iter()
        .filter(|_| shard.is_league())
        .map(|kind| keys::part(zset, kind));
    own.chain(keys::hidden_parts(zset)).chain(cohort).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_extrapolated_and_missing_keys_count_as_empty() {
        let of = |count, sizes: &[Option<u64>]| {
            let scaled = Footprint::of(sizes.iter().copied()).scaled(count, sizes.len());
            (scaled.keys, scaled.bytes)
        };
        assert_eq!(of(0, &[]), (0, 0));
        assert_eq!(of(2, &[Some(10), Some(30)]), (2, 40));
        assert_eq!(of(200, &[Some(10), Some(30)]), (200, 4_000));
        assert_eq!(of(200, &[Some(10), None, None, None]), (50, 500));
        let most = u64::MAX;
        assert_eq!(of(most, &[Some(most), Some(1)]), (most, most));
    }
}
