//! Stores the last sample, and how many events boards had in each minute.

use std::collections::BTreeMap;

use super::work::Overview;
use crate::domain::ids::BoardId;
use crate::domain::texts::fields_as_text;
use crate::domain::time::Span;
use crate::redis::decode::Done;
use crate::redis::dispatch::Store;
use crate::redis::stored::to_json;
use crate::redis::{StoreError, keys, script};

/// How long the counts of a minute are kept: a bit longer than the hour that is shown.
const KEPT: Span = Span::minutes(62);
/// How many boards one call counts events of.
const CALL_BOARDS_MAX: usize = 500;

/// A board whose events are counted, not another one of that name.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct CountedBoard {
    pub generation: u64,
    pub id: BoardId,
}

/// The last sample; `None` if there is none, or if another release has taken it.
pub async fn load(store: &Store) -> Result<Option<Overview>, StoreError> {
    let json: Option<String> = store.command("GET", [keys::OVERVIEW]).await?;
    Ok(json.and_then(|json| serde_json::from_str(&json).ok()))
}

/// Replaces the last sample.
pub async fn save(store: &Store, overview: &Overview) -> Result<(), StoreError> {
    let json = to_json(overview)?;
    store.command("SET", [keys::OVERVIEW, &json]).await
}

/// Adds to the counts of a minute. If there are many boards, only the busiest are counted.
pub async fn add_accepted(
    store: &Store,
    minute: i64,
    mut counts: Vec<(CountedBoard, u64)>,
) -> Result<(), StoreError> {
    if counts.is_empty() {
        return Ok(());
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(CALL_BOARDS_MAX);
    let key = keys::accepted(minute);
    let pairs = counts
        .into_iter()
        .flat_map(|(board, count)| [board.to_string(), count.to_string()]);
    let counted = store
        .call(&script::COUNT_ACCEPTED, &key)
        .key(&key)
        .arg(KEPT.ms())
        .args(pairs);
    counted.write::<Done>().await.map(drop)
}

/// How many events boards had in a minute.
pub async fn accepted(store: &Store, minute: i64) -> Result<Vec<(CountedBoard, u64)>, StoreError> {
    let counts: BTreeMap<String, u64> = store.command("HGETALL", [keys::accepted(minute)]).await?;
    let counts = counts.into_iter();
    Ok(counts
        .filter_map(|(board, count)| Some((board.parse().ok()?, count)))
        .collect())
}

fields_as_text! {
    CountedBoard {
        generation: |text| text.parse().ok(),
        id: |text| BoardId::parse(text).ok(),
    }
}
