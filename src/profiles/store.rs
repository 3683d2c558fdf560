//! Stores profiles, and the sets of names to review.
//!
//! Profiles belong to no board. They are in buckets by a hash of the member, each in its own slot, so that a page reads all
//! of its profiles at once, and they spread over a cluster.

use std::collections::BTreeMap;
use std::fmt;

use crate::redis::Value;
use bytes::Bytes;
use serde::Deserialize;

use crate::domain::ids::MemberId;
use crate::domain::name_words::indexed_words;
use crate::domain::profile::{Record, ReviewStatus};
use crate::redis::StoreError;
use crate::redis::decode::Flat;
use crate::redis::dispatch::Store;
use crate::redis::keys::{self, ProfileBucket};
use crate::redis::script::{self, Script};
use crate::redis::stored::{read_json, to_json};
use crate::runtime::join::{join_all, try_join_all};

/// How many profiles one call reads: takes about half a millisecond in Redis.
const READ_MAX: usize = 500;
/// How many profiles one call writes: takes about a quarter of a millisecond in Redis, and a millisecond more if the words of
/// names are kept.
const WRITE_MAX: usize = 25;

/// A member's stored profile: JSON, maybe of a newer release.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredProfile(Bytes);

impl StoredProfile {
    /// The stored form of a record.
    pub fn of(record: &Record) -> Result<Self, StoreError> {
        to_json(record).map(|json| Self(json.into()))
    }

    pub fn read(&self) -> Result<Record, StoreError> {
        read_json("a profile", &self.0)
    }

    /// The words of its name that the index has, each with a line break. A newer release may have written it, so only the
    /// name is read.
    fn words(&self, member: &str) -> String {
        #[derive(Deserialize)]
        struct NamedRecord {
            profile: NamedProfile,
        }
        #[derive(Deserialize)]
        struct NamedProfile {
            name: String,
        }
        let named = serde_json::from_slice::<NamedRecord>(&self.0);
        named.map_or_else(
            |_| String::new(),
            |NamedRecord { profile }| {
                let words = indexed_words(&profile.name, member).into_iter();
                words.map(|word| word + "\n").collect()
            },
        )
    }
}

#[derive(Clone, Debug)]
pub struct ProfileChange {
    pub member: MemberId,
    /// What the caller saw.
    pub seen: Option<StoredProfile>,
    pub new: StoredProfile,
    /// The review status of its name.
    pub status: ReviewStatus,
    /// When it got that, in ms.
    pub at_ms: i64,
}

impl ProfileChange {
    fn args(&self) -> Write {
        let member = self.member.as_str();
        let seen = self.seen.as_ref();
        let old_words = seen.map_or_else(String::new, |seen| seen.words(member));
        let set = 1 + self.status as usize;
        [
            member.into(),
            Value::Bytes(seen.map(|seen| seen.0.clone()).unwrap_or_default()),
            Value::Bytes(self.new.0.clone()),
            set.to_string().into(),
            old_words.into(),
            self.new.words(member).into(),
            self.at_ms.to_string().into(),
        ]
    }
}

/// The outcome of a change of a profile.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum ProfileWritten {
    #[serde(rename = "OK")]
    Done,
    /// There was nothing to delete.
    None,
    /// The profile is not what the caller saw.
    Changed,
    /// Its key is of another type.
    Fault,
}

/// The arguments of a write: the member, the stored profile seen, the new one, the number of the set that its name belongs
/// to, the words of both names, and the instant of the review.
type Write = [Value; 7];

/// The stored profiles of these members, in one round trip.
pub async fn load<T: AsRef<str> + Sync>(
    store: &Store,
    members: &[T],
) -> Result<Vec<Option<StoredProfile>>, StoreError> {
    let mut buckets: BTreeMap<Option<ProfileBucket>, Vec<usize>> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        // A single server takes keys of all slots in one call.
        let is_apart = store.topology.is_cluster();
        let bucket = is_apart.then(|| ProfileBucket::of(member.as_ref()));
        buckets.entry(bucket).or_default().push(index);
    }
    let read = buckets
        .values()
        .flat_map(|indexes| indexes.chunks(READ_MAX))
        .map(async |indexes| {
            let key = |index: &usize| keys::profile(members[*index].as_ref());
            let keys = indexes.iter().map(key);
            let found: Vec<Option<Bytes>> = store.command("MGET", keys).await?;
            Ok::<_, StoreError>((indexes, found))
        });
    let mut stored = vec![None; members.len()];
    for (indexes, found) in try_join_all(read).await? {
        for (index, found) in indexes.iter().zip(found) {
            stored[*index] = found.map(StoredProfile);
        }
    }
    Ok(stored)
}

/// Makes changes independently of each other; those of the same member are made in order.
pub async fn write(
    store: &Store,
    changes: &[ProfileChange],
) -> Vec<Result<ProfileWritten, StoreError>> {
    let mut buckets: BTreeMap<ProfileBucket, Vec<usize>> = BTreeMap::new();
    for (index, change) in changes.iter().enumerate() {
        let bucket = ProfileBucket::of(change.member.as_str());
        buckets.entry(bucket).or_default().push(index);
    }
    let chunks = buckets.iter().flat_map(|(bucket, indexes)| {
        let chunks = indexes.chunks(WRITE_MAX);
        chunks.map(move |indexes| (*bucket, indexes))
    });
    let written = chunks.map(async |(bucket, indexes)| {
        let writes = indexes.iter().map(|index| changes[*index].args());
        let written = write_bucket(store, bucket, &script::PROFILES, writes.collect());
        (indexes, written.await)
    });
    let mut results = vec![Ok(ProfileWritten::Changed); changes.len()];
    for (indexes, written) in join_all(written).await {
        for (place, index) in indexes.iter().enumerate() {
            results[*index] = match &written {
                Ok(written) => written[place].clone(),
                Err(error) => Err(error.clone()),
            };
        }
    }
    results
}

/// Deletes a member's stored profile if it is still what was seen. If nothing was seen, a key of another type is deleted.
pub async fn delete(
    store: &Store,
    member: &MemberId,
    seen: Option<&StoredProfile>,
) -> Result<ProfileWritten, StoreError> {
    let member = member.as_str();
    let old_words = seen.map_or_else(String::new, |seen| seen.words(member));
    let seen = seen.map_or_else(|| "*".into(), |seen| Value::Bytes(seen.0.clone()));
    let write: Write = [
        member.into(),
        seen,
        "".into(),
        "0".into(),
        old_words.into(),
        "".into(),
        "0".into(),
    ];
    let bucket = ProfileBucket::of(member);
    write_bucket(store, bucket, &script::DELETE_PROFILES, vec![write])
        .await?
        .pop()
        .unwrap_or(Ok(ProfileWritten::None))
}

async fn write_bucket(
    store: &Store,
    bucket: ProfileBucket,
    script: &'static Script,
    writes: Vec<Write>,
) -> Result<Vec<Result<ProfileWritten, StoreError>>, StoreError> {
    let reviews = ReviewStatus::ALL.map(|status| keys::reviews(bucket, status));
    let profiles = writes.iter().map(|[member, ..]| {
        let member = member.as_str().unwrap_or_default();
        keys::profile(&member)
    });
    let written: Vec<ProfileWritten> = store
        .call(script, &bucket.tag())
        .keys(reviews)
        .keys([keys::name_words(bucket), keys::name_words_state(bucket)])
        .keys(profiles)
        .args(writes.iter().flatten().cloned())
        .write()
        .await?;
    let fault = || StoreError::Unexpected("the key of a profile is not a string".to_owned());
    let sound = |written| match written {
        ProfileWritten::Fault => Err(fault()),
        written => Ok(written),
    };
    Ok(written.into_iter().map(sound).collect())
}

/// How many members have a name with this review status.
pub async fn count_reviewed(store: &Store, status: ReviewStatus) -> Result<u64, StoreError> {
    let counts = ProfileBucket::all()
        .map(|bucket| store.command::<u64>("ZCARD", [keys::reviews(bucket, status)]));
    Ok(try_join_all(counts).await?.iter().sum())
}

/// A place in the list of names by their reviews.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ReviewPlace {
    /// When the name was reviewed, or was written if it waits for a review, in ms.
    pub at_ms: i64,
    pub member: MemberId,
}

impl ReviewPlace {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let read = |(at, member): (&str, &str)| {
            let (at_ms, member) = (at.parse().ok()?, MemberId::parse(member).ok()?);
            Some(Self { at_ms, member })
        };
        let place = text.split_once(':').and_then(read);
        place.ok_or("is not a `next` of this list")
    }
}

impl fmt::Display for ReviewPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at_ms, self.member)
    }
}

/// Up to `count` members after `after` whose names have this review status, those with the oldest review first; and how many
/// members each status has.
pub async fn reviewed(
    store: &Store,
    status: ReviewStatus,
    after: Option<&ReviewPlace>,
    count: usize,
) -> Result<(Vec<ReviewPlace>, [u64; 3]), StoreError> {
    let listed =
        ProfileBucket::all().map(|bucket| reviewed_in(store, bucket, status, after, count));
    let (mut places, mut counts) = (Vec::new(), [0; 3]);
    for (found, counted) in try_join_all(listed).await? {
        places.extend(found);
        for (count, own) in counts.iter_mut().zip(counted) {
            *count += own;
        }
    }
    places.sort_unstable();
    places.truncate(count);
    Ok((places, counts))
}

/// Those of one bucket.
pub async fn reviewed_in(
    store: &Store,
    bucket: ProfileBucket,
    status: ReviewStatus,
    after: Option<&ReviewPlace>,
    count: usize,
) -> Result<(Vec<ReviewPlace>, [u64; 3]), StoreError> {
    let (at_ms, member) = after.map_or((-1, ""), |place| (place.at_ms, place.member.as_str()));
    let (counts, Flat(found)) = store
        .call(&script::REVIEWS, &bucket.tag())
        .keys(ReviewStatus::ALL.map(|status| keys::reviews(bucket, status)))
        .arg(1 + status as usize)
        .arg(at_ms)
        .arg(member)
        .arg(count)
        .read::<(_, Flat<(String, i64)>)>()
        .await?;
    let places = found.into_iter().filter_map(|(member, at_ms)| {
        let member = MemberId::parse(&member).ok()?;
        Some(ReviewPlace { at_ms, member })
    });
    Ok((places.collect(), counts))
}
