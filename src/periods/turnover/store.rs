//! Stores decided cohorts (`domain/league/decision.rs`), each next to the standing of its cohort.

use std::collections::HashMap;

use serde::Deserialize;

use crate::domain::league::decision::{Outcome, Summary};
use crate::domain::period::Period;
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::periods::results::store::Moderated;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::kinds::Kind;
use crate::redis::stored::read_json;
use crate::redis::{StoreError, keys, script};

/// The field of what all members of a cohort have in common. No member has this id.
const SUMMARY: &str = "";
/// The name of a record in errors.
const WHAT: &str = "a decision";

/// The outcome of recording a decision.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Recorded {
    /// There is a record, from this call or an earlier one.
    #[serde(rename = "OK")]
    Done,
    /// The barrier of the shard is before the end of the period.
    Open,
    /// A member was hidden, brought back or erased since the caller's read.
    Moderated,
}

/// The decision of a cohort for some of its members.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// What all members have in common.
    pub summary: Summary,
    /// The outcomes by member id. A missing member was not listed.
    pub outcomes: HashMap<String, Outcome>,
}

/// Stores the decision of a cohort whose period ends at this instant, unless there is one. `seen`: the shard's counters
/// before the caller read the standing.
pub async fn record(
    store: &Store,
    shard: &Shard,
    (standing, ends): (&Standing, Timestamp),
    seen: Moderated,
    (summary, outcomes): (&Summary, &[(String, Outcome)]),
) -> Result<Recorded, StoreError> {
    let zset = keys::sorted_set(shard, standing);
    let decided = keys::part(&zset, Kind::Decided);
    let mut call = store
        .call_shard(&script::DECIDE_COHORT, shard)
        .keys([zset, decided])
        .arg(shard.version())
        .arg(ends)
        .arg(seen.hides)
        .arg(seen.anonymised)
        .arg(SUMMARY)
        .json(summary);
    for (member, outcome) in outcomes {
        call = call.arg(member).json(outcome);
    }
    call.write().await
}

/// The decision of a cohort, with the outcomes of `members`; `None` if it is not decided.
pub async fn read(
    store: &Store,
    shard: &Shard,
    standing: &Standing,
    members: &[&str],
) -> Result<Option<Decided>, StoreError> {
    let summary_and_members = [SUMMARY].into_iter().chain(members.iter().copied());
    let args =
        std::iter::once(decided_of(shard, standing)).chain(summary_and_members.map(str::to_owned));
    let stored: Vec<Option<String>> = store.command("HMGET", args).await?;
    let mut stored = stored.into_iter();
    let Some(summary) = stored.next().flatten() else {
        return Ok(None);
    };
    let outcomes = members
        .iter()
        .zip(stored)
        .filter_map(|(member, outcome)| Some(((*member).to_owned(), outcome?)));
    decided(&summary, outcomes).map(Some)
}

/// The decision of a cohort, with the outcomes of all members.
pub async fn read_all(
    store: &Store,
    shard: &Shard,
    standing: &Standing,
) -> Result<Option<Decided>, StoreError> {
    let key = [decided_of(shard, standing)];
    let mut stored: HashMap<String, String> = store.command("HGETALL", key).await?;
    let Some(summary) = stored.remove(SUMMARY) else {
        return Ok(None);
    };
    decided(&summary, stored).map(Some)
}

/// Sets when this shard's seats in some tiers of a period expire, in milliseconds since the epoch.
pub async fn expire_tiers(
    store: &Store,
    shard: &Shard,
    (period, tiers): (&Period, &[u8]),
    expires_at_ms: i64,
    now: Timestamp,
) -> Result<(), StoreError> {
    let of_tiers = tiers
        .iter()
        .flat_map(|tier| keys::of_tier_seats(shard, period, *tier));
    let expired = store
        .call(&script::EXPIRE_TIERS, shard.tag())
        .key(keys::head(shard.tag()))
        .keys(of_tiers)
        .arg(shard.version())
        .arg(expires_at_ms)
        .arg(now);
    expired.write::<Done>().await.map(drop)
}

/// The key of the decision of the cohort with this standing.
fn decided_of(shard: &Shard, standing: &Standing) -> String {
    keys::part(&keys::sorted_set(shard, standing), Kind::Decided)
}

fn decided(
    summary: &str,
    outcomes: impl IntoIterator<Item = (String, String)>,
) -> Result<Decided, StoreError> {
    let outcomes = outcomes
        .into_iter()
        .map(|(member, outcome)| Ok((member, read_json(WHAT, &outcome)?)));
    Ok(Decided {
        summary: read_json(WHAT, summary)?,
        outcomes: outcomes.collect::<Result<_, StoreError>>()?,
    })
}
