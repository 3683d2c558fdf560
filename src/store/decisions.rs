//! The records of decided cohorts (`domain/league/decision.rs`). Each lies beside the standing of its cohort.

use std::collections::HashMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::dispatch::Store;
use super::kinds::Kind;
use super::reply::{Reply, unknown_code};
use super::results::Moderated;
use super::{StoreError, keys, script};
use crate::domain::league::decision::{Outcome, Summary};
use crate::domain::period::Period;
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;

/// The field of what all members of a cohort have in common. Nobody has this id.
const SUMMARY: &str = "";

/// What became of the wish to record how a cohort was decided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Recorded {
    /// There is a record, of this call or of an earlier one.
    Done,
    /// The barrier of the shard lies before the end of the period.
    Open,
    /// Somebody was hidden, brought back or erased since the caller has read.
    Moderated,
}

/// What a cohort was decided to be for some of its members.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// What all members have in common.
    pub summary: Summary,
    /// The outcomes by the members' ids. Whoever is missing was not listed.
    pub outcomes: HashMap<String, Outcome>,
}

impl Store {
    /// Records how a cohort was decided whose period ends then, unless that is recorded. `seen`: what the head of the shard said
    /// before the caller has read the standing.
    pub async fn record_decision(
        &self,
        shard: &Shard,
        (standing, ends): (&Standing, Timestamp),
        seen: Moderated,
        (summary, outcomes): (&Summary, &[(String, Outcome)]),
    ) -> Result<Recorded, StoreError> {
        let zset = keys::sorted_set(shard, standing);
        let decided = keys::part(&zset, Kind::Decided);
        let mut keys = keys::head_and_registry(shard);
        keys.extend([zset, decided]);
        let mut args = vec![
            shard.version(),
            ends.ms().to_string(),
            seen.hides.to_string(),
            seen.anonymised.to_string(),
            SUMMARY.to_owned(),
            written(summary)?,
        ];
        for (member, outcome) in outcomes {
            args.extend([member.clone(), written(outcome)?]);
        }
        let args = args.into_iter().map(Into::into).collect();
        let reply = self.write(shard, &script::DECIDE_COHORT, keys, args);
        let (code, _) = Reply::versioned(reply.await?)?;
        Ok(match code.as_str() {
            "OK" => Recorded::Done,
            "OPEN" => Recorded::Open,
            "MODERATED" => Recorded::Moderated,
            other => return unknown_code(other),
        })
    }

    /// How a cohort was decided; `None` if it was not. `members`: whose outcomes are wanted.
    pub async fn decided(
        &self,
        shard: &Shard,
        standing: &Standing,
        members: &[&str],
    ) -> Result<Option<Decided>, StoreError> {
        let mut args = vec![decided_of(shard, standing), SUMMARY.to_owned()];
        args.extend(members.iter().map(|member| (*member).to_owned()));
        let stored: Vec<Option<String>> = self.command("HMGET", args).await?;
        let mut stored = stored.into_iter();
        let Some(summary) = stored.next().flatten() else {
            return Ok(None);
        };
        let outcomes = members.iter().zip(stored);
        let outcomes =
            outcomes.filter_map(|(member, outcome)| Some(((*member).to_owned(), outcome?)));
        decided(&summary, outcomes).map(Some)
    }

    /// The same with the outcomes of all members.
    pub async fn decided_of_all(
        &self,
        shard: &Shard,
        standing: &Standing,
    ) -> Result<Option<Decided>, StoreError> {
        let args = vec![decided_of(shard, standing)];
        let mut stored: HashMap<String, String> = self.command("HGETALL", args).await?;
        let Some(summary) = stored.remove(SUMMARY) else {
            return Ok(None);
        };
        decided(&summary, stored).map(Some)
    }

    /// Lets what this shard has of the seats of some tiers of a period expire at an instant, in milliseconds since the epoch.
    pub async fn expire_tiers(
        &self,
        shard: &Shard,
        (period, tiers): (&Period, &[u8]),
        expires_at_ms: i64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut keys = vec![keys::head(shard.tag())];
        for tier in tiers {
            keys.extend([
                keys::tiers(shard, period, *tier),
                keys::taking(shard, period, *tier),
            ]);
        }
        let args = [
            shard.version(),
            expires_at_ms.to_string(),
            now.ms().to_string(),
        ];
        let args = args.map(Into::into).to_vec();
        let reply = self.write(shard, &script::EXPIRE_TIERS, keys, args);
        Reply::answer(reply.await?).map(drop)
    }
}

/// The key of the record of the cohort with this standing.
fn decided_of(shard: &Shard, standing: &Standing) -> String {
    keys::part(&keys::sorted_set(shard, standing), Kind::Decided)
}

fn decided(
    summary: &str,
    outcomes: impl IntoIterator<Item = (String, String)>,
) -> Result<Decided, StoreError> {
    let outcomes = outcomes.into_iter();
    let outcomes = outcomes.map(|(member, outcome)| Ok((member, read(&outcome)?)));
    Ok(Decided {
        summary: read(summary)?,
        outcomes: outcomes.collect::<Result<_, StoreError>>()?,
    })
}

fn written<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| unexpected(&error))
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|error| unexpected(&error))
}

fn unexpected(error: &serde_json::Error) -> StoreError {
    StoreError::Unexpected(format!("how a cohort was decided: {error}"))
}
