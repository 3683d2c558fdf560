//! Sets initial scores.

use serde::Serialize;

use super::args::{LayoutArgs, StoredScore, closes_ms, pack, shown_score, stored_score};
use super::dispatch::Store;
use super::reply::{Reply, unknown_code};
use super::{StoreError, keys, script};
use crate::domain::ids::MemberId;
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::domain::ties::TieKey;
use crate::domain::time::Timestamp;

/// How many members one call may set: about a millisecond of Redis, for each standing that follows.
pub const CALL_MEMBERS_MAX: usize = 100;

#[derive(Serialize)]
struct InitialArgs<'a> {
    version: String,
    layout: LayoutArgs,
    score_max: i64,
    names: Vec<&'a str>,
    scores: Vec<StoredScore>,
    time: u64,
    now: i64,
    closes: i64,
    kept_from: i64,
}

/// What became of a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Initialized {
    /// It is done.
    Done {
        /// How many members have an initial score now.
        members: u64,
        /// The initial scores that the members of the call had before, in their order.
        before: Vec<Option<Score>>,
    },
    /// Nothing was changed: with this one of the members a standing would pass the bound of scores.
    OutOfRange(usize),
    /// Nothing was changed: something may be left of erased members.
    Erasing,
}

impl Store {
    /// Sets the initial scores of members, each named once, in one call: at most [`CALL_MEMBERS_MAX`].
    pub async fn set_initial(
        &self,
        shard: &Shard,
        scores: &[(MemberId, Option<Score>)],
        now: Timestamp,
    ) -> Result<Initialized, StoreError> {
        let stored = |score: &Option<Score>| {
            let stored = score.map(|score| stored_score(shard, score));
            stored.into()
        };
        let args = InitialArgs {
            version: shard.version(),
            layout: LayoutArgs::new(shard),
            score_max: shard.definition.decimals.score_max().scaled(),
            names: scores.iter().map(|(member, _)| member.as_str()).collect(),
            scores: scores.iter().map(|(_, score)| stored(score)).collect(),
            time: TieKey::new(shard.definition.ties, Timestamp::MIN).number(),
            now: now.ms(),
            closes: closes_ms(shard),
            kept_from: shard.initial_kept_from_ms(now),
        };
        let mut keys = keys::head_and_registry(shard);
        keys.extend(keys::standing(shard, &shard.initial_scores()));
        let derived = shard.derived().filter(|derived| derived.has_initial);
        keys.extend(derived.map(|derived| keys::state(shard, derived.series)));
        let reply = self
            .write(shard, &script::INITIAL, keys, vec![pack(&args)?])
            .await?;
        let (code, mut reply) = Reply::versioned(reply)?;
        Ok(match code.as_str() {
            "OK" => Initialized::Done {
                members: reply.count()?,
                before: read_scores(shard, &reply.bytes()?)?,
            },
            "OUT_OF_RANGE" => Initialized::OutOfRange(reply.index()?),
            "ERASING" => Initialized::Erasing,
            other => return unknown_code(other),
        })
    }
}

fn read_scores(shard: &Shard, packed: &[u8]) -> Result<Vec<Option<Score>>, StoreError> {
    let stored: Vec<StoredScore> = rmp_serde::from_slice(packed)
        .map_err(|error| StoreError::Unexpected(format!("initial scores: {error}")))?;
    let stored = stored.into_iter().map(Option::<i64>::from);
    Ok(stored
        .map(|score| score.map(|score| shown_score(shard, score)))
        .collect())
}
