//! Stores decided cohorts (`domain/league/decision.rs`), each next to the standing of its cohort.

use std::collections::HashMap;

use serde::Deserialize;

use crate::domain::ids::MemberId;
use crate::domain::league::decision::{Outcome, Summary};
use crate::domain::period::Period;
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::periods::results::store::ChangeCounters;
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
pub enum DecisionRecord {
    /// There is a record, from this call or an earlier one.
    #[serde(rename = "OK")]
    Done,
    /// The barrier of the shard is before the end of the period.
    Open,
    /// A member was hidden, brought back or erased since the caller's read.
    Moderated,
}

/// Stores the decision of a cohort whose period ends at this instant, unless there is one. `seen`: the shard's counters
/// before the caller read the standing.
pub async fn record(
    store: &Store,
    shard: &Shard,
    (standing, ends): (&Standing, Timestamp),
    seen: ChangeCounters,
    (summary, outcomes): (&Summary, &[(String, Outcome)]),
) -> Result<DecisionRecord, StoreError> {
    let mut call = store
        .call_shard(&script::DECIDE_COHORT, shard)
        .keys([
            keys::sorted_set(shard, standing),
            decided_of(shard, standing),
        ])
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

/// What all members of a decided cohort have in common; `None` if it is not decided.
pub async fn summary(
    store: &Store,
    shard: &Shard,
    standing: &Standing,
) -> Result<Option<Summary>, StoreError> {
    let field = [decided_of(shard, standing), SUMMARY.to_owned()];
    let stored: Option<String> = store.command("HGET", field).await?;
    stored.map(|stored| read_json(WHAT, &stored)).transpose()
}

/// The outcome of a member of a decided cohort, `None` if it was not listed; `None` if the cohort is not decided.
pub async fn outcome(
    store: &Store,
    shard: &Shard,
    standing: &Standing,
    member: &MemberId,
) -> Result<Option<Option<Outcome>>, StoreError> {
    let fields = [&*decided_of(shard, standing), SUMMARY, member.as_str()];
    let (summary, stored): (Option<String>, Option<String>) =
        store.command("HMGET", fields).await?;
    let outcome = stored.map(|stored| read_json(WHAT, &stored)).transpose()?;
    Ok(summary.map(|_| outcome))
}

/// The outcomes of all members of a cohort, by their ids; none if it is not decided.
pub async fn outcomes(
    store: &Store,
    shard: &Shard,
    standing: &Standing,
) -> Result<Vec<(String, Outcome)>, StoreError> {
    let key = [decided_of(shard, standing)];
    let stored: HashMap<String, String> = store.command("HGETALL", key).await?;
    stored
        .into_iter()
        .filter(|(member, _)| member != SUMMARY)
        .map(|(member, outcome)| Ok((member, read_json(WHAT, &outcome)?)))
        .collect()
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
