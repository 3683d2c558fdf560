//! Sets initial scores.

use serde::Deserialize;

use crate::domain::ids::MemberId;
use crate::domain::score::Score;
use crate::domain::shard::Shard;
use crate::domain::ties::TieKey;
use crate::domain::time::Timestamp;
use crate::redis::args::{LayoutArgs, StoredScore, closes_ms, shown_score, stored_score};
use crate::redis::decode::Packed;
use crate::redis::dispatch::Store;
use crate::redis::reply::require;
use crate::redis::{StoreError, keys, script};

/// How many members one call may set: about a millisecond of Redis, for each standing that is updated.
pub const CALL_MEMBERS_MAX: usize = 100;

/// The result of a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Initialized {
    /// The scores are set.
    Done {
        /// How many members have an initial score now.
        members: u64,
        /// The members' initial scores before, in order.
        before: Vec<Option<Score>>,
    },
    /// Nothing was changed: this member's score would exceed the bound in some standing.
    OutOfRange(usize),
    /// Nothing was changed: some data of erased members may be left.
    Erasing,
}

/// Sets the initial scores of members, each named once, in one call: at most [`CALL_MEMBERS_MAX`].
pub async fn set(
    store: &Store,
    shard: &Shard,
    scores: &[(MemberId, Option<Score>)],
    now: Timestamp,
) -> Result<Initialized, StoreError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    enum Reply {
        Ok(u64, Packed<Vec<StoredScore>>),
        OutOfRange(usize),
        Erasing,
    }
    let derived = shard.derived().filter(|derived| derived.has_initial);
    let names = scores.iter().map(|(member, _)| member.as_str());
    let to_store = scores
        .iter()
        .map(|(_, score)| StoredScore::from(score.map(|score| stored_score(shard, score))));
    let time = TieKey::new(shard.definition.ties, Timestamp::MIN).number();
    let set = store
        .call_version(&script::INITIAL, shard)
        .keys(keys::standing(shard, &shard.initial_scores()))
        .keys(derived.map(|derived| keys::state(shard, derived.series)))
        .field("layout", LayoutArgs::new(shard))
        .field("score_max", shard.definition.decimals.score_max().scaled())
        .field("names", names.collect::<Vec<_>>())
        .field("scores", to_store.collect::<Vec<_>>())
        .field("time", time)
        .field("now", now.ms())
        .field("closes", closes_ms(shard))
        .field("kept_from", shard.initial_kept_from_ms(now))
        .write();
    Ok(match set.await? {
        Reply::Ok(members, Packed(before)) => {
            let before = before
                .into_iter()
                .map(Option::<i64>::from)
                .map(|score| score.map(|score| shown_score(shard, score)));
            Initialized::Done {
                members,
                before: before.collect(),
            }
        }
        Reply::OutOfRange(place) => {
            Initialized::OutOfRange(require(place.checked_sub(1), "an index is 0")?)
        }
        Reply::Erasing => Initialized::Erasing,
    })
}
