//! The index of the words of names, and its state.

use crate::domain::ids::MemberId;
use crate::redis::StoreError;
use crate::redis::dispatch::Store;
use crate::redis::keys::{self, ProfileBucket};
use crate::redis::kinds::SEPARATOR;
use crate::redis::script;
use crate::runtime::join::try_join_all;

/// The state of an index that has all names.
const FILLED: &str = "filled";

/// What the index of a bucket has under the beginning of a word.
#[derive(Debug)]
pub(super) struct FoundWords {
    /// Words with the members whose names have them.
    pub(super) found: Vec<(String, MemberId)>,
    /// Whether the index has all names.
    pub(super) is_complete: bool,
}

/// Looks up the beginning of a word in all buckets: the first words, of `enough` members in each, if there are as many.
pub(super) async fn find(
    store: &Store,
    begin: &str,
    enough: usize,
) -> Result<Vec<FoundWords>, StoreError> {
    let found = ProfileBucket::all().map(async |bucket| {
        let (state, lines): (String, Vec<String>) = store
            .call(&script::FIND_NAMES, &bucket.tag())
            .keys([keys::name_words(bucket), keys::name_words_state(bucket)])
            .arg(begin)
            .arg(enough)
            .read()
            .await?;
        let found = lines.iter().filter_map(|line| {
            let (word, member) = line.split_once(SEPARATOR)?;
            Some((word.to_owned(), MemberId::parse(member).ok()?))
        });
        Ok(FoundWords {
            found: found.collect(),
            is_complete: state == FILLED,
        })
    });
    try_join_all(found).await
}

/// The buckets whose index lacks names.
pub(super) async fn unfilled(store: &Store) -> Result<Vec<ProfileBucket>, StoreError> {
    let states = ProfileBucket::all().map(async |bucket| {
        let state = state(store, bucket).await?;
        Ok::<_, StoreError>((bucket, state))
    });
    let mut states = try_join_all(states).await?;
    states.retain(|(_, state)| state.as_deref() != Some(FILLED));
    Ok(states.into_iter().map(|(bucket, _)| bucket).collect())
}

async fn state(store: &Store, bucket: ProfileBucket) -> Result<Option<String>, StoreError> {
    store.command("GET", [keys::name_words_state(bucket)]).await
}

fn filling(lease: u64) -> String {
    format!("filling {lease}")
}

/// Begins to fill the index of a bucket, under the number of a lease: from now on writes of profiles keep it.
pub(super) async fn begin(
    store: &Store,
    bucket: ProfileBucket,
    lease: u64,
) -> Result<(), StoreError> {
    if state(store, bucket).await?.is_none() {
        // Nothing has kept it meanwhile.
        remove(store, bucket).await?;
    }
    let state = [keys::name_words_state(bucket), filling(lease)];
    store.command::<()>("SET", state).await
}

/// Notes that the index of a bucket has all names, unless it was removed since the filling began.
pub(super) async fn end(
    store: &Store,
    bucket: ProfileBucket,
    lease: u64,
) -> Result<(), StoreError> {
    let noted = store
        .call(&script::FILL_WORDS, &bucket.tag())
        .key(keys::name_words_state(bucket))
        .arg(filling(lease))
        .arg(FILLED);
    noted.write::<u8>().await.map(drop)
}

/// Removes the index of a bucket.
pub(super) async fn remove(store: &Store, bucket: ProfileBucket) -> Result<(), StoreError> {
    let index = [keys::name_words_state(bucket), keys::name_words(bucket)];
    let _removed: i64 = store.command("UNLINK", index).await?;
    Ok(())
}
