//! Hides members of a board, and reads who is hidden.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::args::{LayoutArgs, pack};
use super::dispatch::Store;
use super::reply::{Reply, unknown_code};
use super::script::Script;
use super::{StoreError, keys, random, script};
use crate::domain::hide::{HIDDEN_MAX, Hide, HideId, Reason};
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;

/// How many hides one call reads at the most.
pub const HIDES_READ_MAX: usize = 1_000;

/// How many random bytes the id of a hide has, each as two hexadecimal digits.
const HIDE_ID_BYTES: usize = 16;

/// How many lines of the journal one call follows: about a millisecond of Redis.
const LINES_MAX: u32 = 300;
/// How many members one call looks at that widens a list: about a millisecond of Redis.
const WIDENED_MAX: u32 = 300;

/// How many hides one call of [`Store::keep_hides`] tells a shard of at the most.
pub const KEPT_MAX: usize = 300;
/// How many erasures one call looks at that ends hides: about a millisecond of Redis.
const KEPT_LOOKED_AT: u32 = 300;
/// The cursor of a walk that is at its beginning, or at its end.
pub const WALK_BEGINS: &str = "0";

/// How far a hidden list has followed the hides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Followed {
    /// The number of the hide that it follows up to.
    pub number: u64,
    /// Whether its standing keeps a short list that has used up half of its spare.
    pub is_narrow: bool,
}

/// What became of a hide.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Hidden {
    /// The member is hidden.
    Done(Hiding),
    /// Nothing was done: too many members are hidden.
    Full,
}

/// A hide, and the one that the member had before.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hiding {
    /// The hide that the member has now.
    pub hide: Hide,
    /// The one before, with another reason and another end perhaps; `None` if the member was not hidden.
    pub before: Option<Hide>,
}

/// The hidden members of a shard, or some of them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HiddenMembers {
    /// How many members of the shard are hidden.
    pub total: u64,
    /// Those that were asked for, with their hides.
    pub members: Vec<(MemberId, Hide)>,
}

#[derive(Serialize)]
struct HideArgs<'a> {
    version: String,
    member: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hide: Option<StoredHide>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<i64>,
    hidden_max: u64,
}

#[derive(Serialize)]
struct KeepArgs<'a> {
    version: String,
    hides: Vec<(&'a str, StoredHide)>,
    key: String,
}

#[derive(Serialize)]
struct EndArgs<'a> {
    version: String,
    now: i64,
    cursor: &'a str,
    count: u32,
}

#[derive(Serialize)]
struct HiddenArgs<'a> {
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<&'a str>>,
    after: &'a str,
    count: usize,
}

#[derive(Serialize)]
struct ListArgs {
    version: String,
    layout: LayoutArgs,
    lines: u32,
    count: u32,
}

/// A hide as `scripts/lib/hides.lua` describes it.
#[derive(Deserialize, Serialize)]
struct StoredHide {
    id: String,
    reason: String,
    by: String,
    since: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
}

/// The id of a hide that nobody has yet.
pub fn new_hide_id() -> Result<HideId, StoreError> {
    random::hexadecimal::<HIDE_ID_BYTES>("hide_").map(HideId::named)
}

impl From<&Hide> for StoredHide {
    fn from(hide: &Hide) -> Self {
        Self {
            id: hide.id.as_str().to_owned(),
            reason: hide.reason.to_string(),
            by: hide.by.clone(),
            since: hide.since.ms(),
            until: hide.until.map(Timestamp::ms),
        }
    }
}

/// A hide from what is stored.
fn unpacked(packed: &Bytes) -> Result<Hide, StoreError> {
    let unexpected =
        |what: &dyn ToString| StoreError::Unexpected(format!("a hide: {}", what.to_string()));
    let stored: StoredHide = rmp_serde::from_slice(packed).map_err(|error| unexpected(&error))?;
    Ok(Hide {
        id: HideId::named(stored.id),
        reason: Reason::parse(&stored.reason).map_err(|error| unexpected(&error))?,
        by: stored.by,
        since: Timestamp::from_ms_clamped(stored.since),
        until: stored.until.map(Timestamp::from_ms_clamped),
    })
}

impl Store {
    /// Hides a member of this shard, if no more than `hidden_max` members of it are hidden then; [`HIDDEN_MAX`] at the most.
    /// A hide that is there keeps its `id`, its `since` and its `by`.
    pub async fn hide(
        &self,
        shard: &Shard,
        member: &MemberId,
        hide: &Hide,
        hidden_max: u64,
    ) -> Result<Hidden, StoreError> {
        let args = HideArgs {
            version: shard.version(),
            member: member.as_str(),
            hide: Some(hide.into()),
            ends: None,
            hidden_max: hidden_max.min(HIDDEN_MAX),
        };
        let (code, mut reply) = self.run_hide(shard, &args).await?;
        Ok(match code.as_str() {
            "HIDDEN" => {
                let (hide, before) = (reply.bytes()?, reply.bytes()?);
                let before = (!before.is_empty()).then(|| unpacked(&before));
                Hidden::Done(Hiding {
                    hide: unpacked(&hide)?,
                    before: before.transpose()?,
                })
            }
            "FULL" => Hidden::Full,
            other => return unknown_code(other),
        })
    }

    /// Brings a member of this shard back, with `ends` only from a hide that ends then. Returns the hide that it had.
    pub async fn unhide(
        &self,
        shard: &Shard,
        member: &MemberId,
        ends: Option<Timestamp>,
    ) -> Result<Option<Hide>, StoreError> {
        let args = HideArgs {
            version: shard.version(),
            member: member.as_str(),
            hide: None,
            ends: ends.map(Timestamp::ms),
            hidden_max: HIDDEN_MAX,
        };
        let (code, mut reply) = self.run_hide(shard, &args).await?;
        Ok(match code.as_str() {
            "BACK" => Some(unpacked(&reply.bytes()?)?),
            "NOT_HIDDEN" => None,
            other => return unknown_code(other),
        })
    }

    async fn run_hide(
        &self,
        shard: &Shard,
        args: &HideArgs<'_>,
    ) -> Result<(String, Reply), StoreError> {
        let keys = keys::head_and_registry(shard);
        let reply = self.write(shard, &script::HIDE, keys, vec![pack(args)?]);
        Reply::versioned(reply.await?)
    }

    /// Hides erased members of this shard as soon as they have data there: up to [`KEPT_MAX`] of them, by their names
    /// (`Store::erased_name`). A hide that lies with an erasure already stays.
    pub async fn keep_hides(
        &self,
        shard: &Shard,
        hides: &[(&str, &Hide)],
    ) -> Result<(), StoreError> {
        let hides = hides.iter().take(KEPT_MAX);
        let args = KeepArgs {
            version: shard.version(),
            hides: hides.map(|(name, hide)| (*name, (*hide).into())).collect(),
            key: self.erasure_key().await?,
        };
        let keys = keys::head_and_registry(shard);
        let reply = self.write(shard, &script::KEEP_HIDES, keys, vec![pack(&args)?]);
        Reply::versioned(reply.await?).map(drop)
    }

    /// Notes that an erased member of this shard has data again, and gives it the hide back that lies with its erasure. A
    /// member that was not erased is left alone. Returns false, with nothing done, if something is left of the member.
    pub async fn return_hide(
        &self,
        shard: &Shard,
        member: &MemberId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let args = [shard.version(), now.ms().to_string(), member.to_string()];
        let args = args.map(Into::into).to_vec();
        let keys = keys::head_and_registry(shard);
        let reply = self.write(shard, &script::HIDE_AGAIN, keys, args);
        let (code, _) = Reply::versioned(reply.await?)?;
        Ok(match code.as_str() {
            "OK" => true,
            "ERASING" => false,
            other => return unknown_code(other),
        })
    }

    /// Ends hides of this shard that lie with erasures and end no later than `now`, by a bounded step of a walk that begins
    /// with [`WALK_BEGINS`]. Returns where it goes on; `None` at its end.
    pub async fn end_kept_hides(
        &self,
        shard: &Shard,
        now: Timestamp,
        cursor: &str,
    ) -> Result<Option<String>, StoreError> {
        let args = EndArgs {
            version: shard.version(),
            now: now.ms(),
            cursor,
            count: KEPT_LOOKED_AT,
        };
        let keys = keys::head_and_registry(shard);
        let reply = self.write(shard, &script::END_KEPT_HIDES, keys, vec![pack(&args)?]);
        let cursor = Reply::answer(reply.await?)?.text()?;
        Ok((cursor != WALK_BEGINS).then_some(cursor))
    }

    /// Makes the hidden list of a standing follow the hides by a bounded step. Returns how far it has come when it is up to
    /// date; `None` if more steps are needed.
    pub async fn follow_hides(
        &self,
        shard: &Shard,
        standing: &Standing,
    ) -> Result<Option<Followed>, StoreError> {
        let step = self.step_of_list(shard, standing, &script::HIDDEN_LIST);
        let Some(mut reply) = step.await? else {
            return Ok(None);
        };
        Ok(Some(Followed {
            number: reply.count()?,
            is_narrow: reply.count()? == 1,
        }))
    }

    /// Finds more members for a list that is kept short and has many hidden members, by a bounded step. Returns whether it
    /// has enough.
    pub async fn widen_list(&self, shard: &Shard, standing: &Standing) -> Result<bool, StoreError> {
        let step = self.step_of_list(shard, standing, &script::WIDEN_LIST);
        Ok(step.await?.is_some())
    }

    /// What follows `DONE`; `None` if there is more to do.
    async fn step_of_list(
        &self,
        shard: &Shard,
        standing: &Standing,
        script: &'static Script,
    ) -> Result<Option<Reply>, StoreError> {
        let args = ListArgs {
            version: shard.version(),
            layout: LayoutArgs::new(shard),
            lines: LINES_MAX,
            count: WIDENED_MAX,
        };
        let mut keys = keys::head_and_registry(shard);
        keys.extend(keys::standing(shard, standing));
        let reply = self.derive(shard, script, keys, vec![pack(&args)?]);
        let (code, reply) = Reply::versioned(reply.await?)?;
        Ok(match code.as_str() {
            "DONE" => Some(reply),
            "MORE" => None,
            other => return unknown_code(other),
        })
    }

    /// Notes that a list is to be widened.
    pub async fn mark_narrow(&self, shard: &Shard, standing: &Standing) -> Result<(), StoreError> {
        let args = vec![keys::NARROW.into(), keys::sorted_set(shard, standing)];
        self.command("SADD", args).await
    }

    /// The lists that are noted so: the names of their sorted sets, and their boards.
    pub async fn narrow_lists(&self) -> Result<Vec<(String, BoardId)>, StoreError> {
        let names: Vec<String> = self.command("SMEMBERS", vec![keys::NARROW.into()]).await?;
        let lists = names.into_iter().filter_map(|name| {
            let board = keys::take_apart(&name)?.id;
            Some((name, board))
        });
        Ok(lists.collect())
    }

    /// Forgets that the list with this name was to be widened: it is wide enough, or gone.
    pub async fn forget_narrow(&self, name: &str) -> Result<(), StoreError> {
        let args = vec![keys::NARROW.into(), name.to_owned()];
        self.command("SREM", args).await
    }

    /// Those of some members of this shard who are hidden, in the order in which they are named; of no more than
    /// [`HIDES_READ_MAX`].
    pub async fn hidden_among(
        &self,
        shard: &Shard,
        members: &[MemberId],
    ) -> Result<HiddenMembers, StoreError> {
        let members = members.iter().take(HIDES_READ_MAX).map(MemberId::as_str);
        self.read_hidden(shard, Some(members.collect()), "", 0)
            .await
    }

    /// The hidden members of this shard in the order of their bytes, behind `after`: `count` of them, no more than
    /// [`HIDES_READ_MAX`]. If fewer come, there are no more.
    pub async fn hidden_members(
        &self,
        shard: &Shard,
        after: Option<&MemberId>,
        count: usize,
    ) -> Result<HiddenMembers, StoreError> {
        let after = after.map_or("", MemberId::as_str);
        let count = count.min(HIDES_READ_MAX);
        self.read_hidden(shard, None, after, count).await
    }

    async fn read_hidden(
        &self,
        shard: &Shard,
        members: Option<Vec<&str>>,
        after: &str,
        count: usize,
    ) -> Result<HiddenMembers, StoreError> {
        let args = HiddenArgs {
            version: shard.version(),
            members,
            after,
            count,
        };
        let keys = keys::head_and_registry(shard);
        let reply = self.read(&script::HIDDEN, keys, vec![pack(&args)?]);
        let mut reply = Reply::answer(reply.await?)?;
        let (total, mut flat) = (reply.count()?, reply.list()?);
        let mut members = Vec::new();
        while !flat.is_empty() {
            let member = MemberId::parse(&flat.text()?)
                .map_err(|error| StoreError::Unexpected(format!("a hidden member: {error}")))?;
            members.push((member, unpacked(&flat.bytes()?)?));
        }
        Ok(HiddenMembers { total, members })
    }
}
