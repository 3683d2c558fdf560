//! Reads and writes profiles of members, and reviews their names.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::store::{self, ProfileChange, ProfileWritten, ReviewPlace, StoredProfile};
use crate::core::attempts::until_unchanged;
use crate::core::{ATTEMPTS_MAX, Engine, Error, Outdated};
use crate::domain::ids::MemberId;
use crate::domain::part::Part;
use crate::domain::problems::Problem;
use crate::domain::profile::{Draft, Profiles, Record, Review, ReviewStatus, Rules, Verdict};
use crate::domain::time::Timestamp;
use crate::runtime::throttle;

/// How many profiles one request may have.
pub const PROFILES_MAX: usize = 1_000;
/// How many names are checked before other requests may run: matching patterns takes time.
const NAMES_AT_ONCE: usize = 32;

/// A profile to write.
#[derive(Clone, Debug)]
pub struct MemberDraft {
    pub member: MemberId,
    /// Its new content.
    pub draft: Draft,
}

#[derive(Clone, Debug)]
pub struct FoundProfile {
    pub member: MemberId,
    pub record: Arc<Record>,
}

/// How many names have each review status.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct ReviewCounts {
    /// To review.
    pub pending: u64,
    /// Approved.
    pub approved: u64,
    /// Blocked.
    pub blocked: u64,
}

/// The profiles of these members, in one round trip to Redis. Those that can't be read are skipped and logged.
pub async fn read(
    engine: &Engine,
    members: impl IntoIterator<Item = Arc<str>>,
) -> Result<Profiles, Error> {
    let mut members: Vec<Arc<str>> = members.into_iter().collect();
    members.sort_unstable();
    members.dedup();
    let stored = store::load(&engine.store, &members).await?;
    let found = members.into_iter().zip(stored);
    let found = found.filter_map(|(member, stored)| match stored?.read() {
        Ok(record) => Some((member, Arc::new(record))),
        Err(error) => {
            throttle::say(&format!("profile: {error}"), |more| {
                tracing::error!(%error, more, "a stored profile can't be read");
            });
            None
        }
    });
    Ok(Profiles(Some(Arc::new(found.collect()))))
}

pub async fn find(engine: &Engine, member: &MemberId) -> Result<FoundProfile, Error> {
    let (_, record) = stored(engine, member).await?;
    let member = member.clone();
    Ok(FoundProfile { member, record })
}

async fn stored(engine: &Engine, member: &MemberId) -> Result<(StoredProfile, Arc<Record>), Error> {
    let members = [member.as_str()];
    let stored = store::load(&engine.store, &members)
        .await?
        .pop()
        .flatten()
        .ok_or_else(|| Problem::profile_not_found(member))?;
    let record = Arc::new(stored.read()?);
    Ok((stored, record))
}

/// Writes profiles independently of each other; `writer` is the caller's identity. Returns the new profiles in the same
/// order.
pub async fn write(
    engine: &Engine,
    incoming: &[MemberDraft],
    rules: &Rules,
    writer: &str,
) -> Vec<Result<FoundProfile, Error>> {
    let mut results: Vec<_> = incoming.iter().map(|_| Err(Error::busy())).collect();
    let mut open: Vec<usize> = (0..incoming.len()).collect();
    for _ in 0..ATTEMPTS_MAX {
        if open.is_empty() {
            break;
        }
        let planned = match plan(engine, incoming, &open, (rules, writer)).await {
            Ok(planned) => planned,
            Err(error) => {
                for index in open {
                    results[index] = Err(error.clone());
                }
                break;
            }
        };
        for (index, error) in planned.refused {
            results[index] = Err(error);
        }
        open.clear();
        let written = store::write(&engine.store, &planned.changes).await;
        for ((index, found), written) in planned.found.into_iter().zip(written) {
            match written {
                Ok(ProfileWritten::Changed) => open.push(index),
                Ok(_) => results[index] = Ok(found),
                Err(error) => results[index] = Err(error.into()),
            }
        }
    }
    results
}

/// Reads what is stored for the members of these profiles, and plans the changes.
async fn plan(
    engine: &Engine,
    incoming: &[MemberDraft],
    open: &[usize],
    (rules, writer): (&Rules, &str),
) -> Result<Planned, Error> {
    let members: Vec<&str> = open
        .iter()
        .map(|index| incoming[*index].member.as_str())
        .collect();
    let stored = store::load(&engine.store, &members).await?;
    let by = (writer, engine.clock.now());
    let mut planned = Planned::default();
    for (place, (index, stored)) in open.iter().zip(stored).enumerate() {
        if place % NAMES_AT_ONCE == NAMES_AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        let plan = planned.plan(&incoming[*index], *index, stored, (rules, by));
        if let Err(error) = plan {
            planned.refused.push((*index, error));
        }
    }
    Ok(planned)
}

pub async fn delete(engine: &Engine, member: &MemberId) -> Result<(), Error> {
    if forget(engine, member).await? {
        return Ok(());
    }
    Err(Problem::profile_not_found(member).into())
}

/// Deletes a member's profile, whatever it is, with the words of its name; returns whether there was one.
pub async fn forget(engine: &Engine, member: &MemberId) -> Result<bool, Error> {
    until_unchanged(async || {
        let stored = store::load(&engine.store, &[member.as_str()]).await?.pop();
        let seen = stored.flatten();
        match store::delete(&engine.store, member, seen.as_ref()).await? {
            ProfileWritten::Changed => Err(Error::Again(Outdated::Read)),
            written => Ok(written == ProfileWritten::Done),
        }
    })
    .await
}

/// Reviews a member's name: whether it may be shown. `reviewer` is the reviewer's identity, and `by` the name shown to
/// others; the writer of a name can't approve it. Returns the former review, and the profile.
pub async fn review_name(
    engine: &Engine,
    member: &MemberId,
    verdict: &Verdict,
    (reviewer, by): (&str, &str),
) -> Result<(Review, FoundProfile), Error> {
    for _ in 0..ATTEMPTS_MAX {
        let (seen, before) = stored(engine, member).await?;
        if !before.is_judged_by(verdict) {
            return Err(Problem::name_changed(before.profile.name.as_str()).into());
        }
        let is_own = !reviewer.is_empty() && before.writer == reviewer;
        // On many boards a name is shown until it is reviewed.
        if is_own && verdict.status != ReviewStatus::Blocked {
            return Err(Problem::own_name().into());
        }
        let record = before.reviewed(verdict, by, engine.clock.now());
        let change = ProfileChange {
            member: member.clone(),
            seen: Some(seen),
            new: StoredProfile::of(&record)?,
            status: record.review.status,
            at_ms: record.review.at.ms(),
        };
        let written = store::write(&engine.store, &[change]).await.pop();
        if written.unwrap_or(Ok(ProfileWritten::Changed))? == ProfileWritten::Done {
            let (member, record) = (member.clone(), Arc::new(record));
            return Ok((before.review.clone(), FoundProfile { member, record }));
        }
    }
    Err(Error::busy())
}

/// Up to `count` profiles after `after` whose names have this review status, those with the oldest review first; and how many
/// names have each status.
pub async fn reviewed(
    engine: &Engine,
    status: ReviewStatus,
    after: Option<&ReviewPlace>,
    count: usize,
) -> Result<(Part<FoundProfile, ReviewPlace>, ReviewCounts), Error> {
    let store = &engine.store;
    let (places, counts) = store::reviewed(store, status, after, count + 1).await?;
    let Part { items, next } = Part::split(places, count, ReviewPlace::clone);
    let ids = items.iter().map(|place| Arc::from(place.member.as_str()));
    let profiles = read(engine, ids).await?;
    let items = items
        .into_iter()
        .filter_map(|ReviewPlace { member, .. }| {
            let record = Arc::clone(profiles.of(member.as_str())?);
            // The status may have changed since the set was read.
            (record.review.status == status).then_some(FoundProfile { member, record })
        })
        .collect();
    let [pending, approved, blocked] = counts;
    let counts = ReviewCounts {
        pending,
        approved,
        blocked,
    };
    Ok((Part { items, next }, counts))
}

/// The changes of one call, and the resulting profiles.
#[derive(Default)]
struct Planned {
    latest: HashMap<MemberId, (StoredProfile, Arc<Record>)>,
    changes: Vec<ProfileChange>,
    /// For each change the index of its input, and the resulting profile.
    found: Vec<(usize, FoundProfile)>,
    /// The refused inputs by index, with their errors.
    refused: Vec<(usize, Error)>,
}

impl Planned {
    /// Adds the change of one profile. A profile that occurs twice in a call is changed twice.
    fn plan(
        &mut self,
        MemberDraft { member, draft }: &MemberDraft,
        index: usize,
        stored: Option<StoredProfile>,
        (rules, by): (&Rules, (&str, Timestamp)),
    ) -> Result<(), Error> {
        let before = match (self.latest.get(member), stored) {
            (Some(latest), _) => Some(latest.clone()),
            (None, Some(stored)) => Some((stored.clone(), Arc::new(stored.read()?))),
            (None, None) => None,
        };
        let record = before.as_ref().map(|(_, record)| &**record);
        let attributes = record.map(|record| &*record.profile.attributes);
        let profile = rules.profile(draft, attributes).map_err(Problem::invalid)?;
        let record = Arc::new(Record::written(profile, record, rules, by));
        let new = StoredProfile::of(&record)?;
        self.changes.push(ProfileChange {
            member: member.clone(),
            seen: before.map(|(stored, _)| stored),
            new: new.clone(),
            status: record.review.status,
            at_ms: record.review.at.ms(),
        });
        self.latest
            .insert(member.clone(), (new, Arc::clone(&record)));
        let member = member.clone();
        self.found.push((index, FoundProfile { member, record }));
        Ok(())
    }
}
