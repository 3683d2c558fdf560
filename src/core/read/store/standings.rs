//! Reads standings. Many queries share a script call, so that ranks, scores and gaps agree with each other.

mod answer;
mod entries;
mod kept;
mod query;

use std::sync::Arc;

use crate::domain::shard::Shard;
use crate::redis::args::{LayoutArgs, each};
use crate::redis::connection::Call;
use crate::redis::dispatch::{Freshness, Store};
use crate::redis::kinds::Kind;
use crate::redis::{Dated, StoreError, keys, script};

use self::query::{Encoder, LEFT_OUT_MAX, QueryArgs};

pub use self::answer::{ReadAnswer, ShardAnswer};
pub use self::entries::{
    Amounts, Entry, MadeWith, Neighbourhood, Page, PageMemo, ShardLine, Slice, SortKey, Spread,
    Subset,
};
pub(crate) use self::kept::{KeptAnswers, KeptOfShard};
pub use self::query::{Question, Selection, ShardQuery, Visibility};

/// Reads a board's standings in one call, as of one instant; a replica may answer if they need not be current. The answers are
/// in the order of the queries. Those that were kept are given again if they still hold, and the others are kept.
pub(crate) async fn read(
    store: &Store,
    shard: &Shard,
    queries: &[&Arc<ShardQuery>],
    kept: Option<&KeptOfShard>,
    (visibility, freshness): (Visibility, Freshness),
) -> Result<Dated<Vec<ShardAnswer>>, StoreError> {
    let asks_replica = freshness == Freshness::Bounded && store.replicas.is_some();
    // A replica may give an older answer.
    let kept = kept.filter(|_| !asks_replica);
    let mut encoder = Encoder::new(shard, visibility);
    let indexed: Vec<_> = queries.iter().map(|query| encoder.add(query)).collect();
    let found = kept.map_or_else(Vec::new, |kept| kept.find(queries));
    let erasing = (visibility == Visibility::All || encoder.keeps_lines()).then(|| {
        encoder.keys.push(keys::single(shard, Kind::Erasing));
        encoder.keys.len()
    });
    let followed = match visibility {
        Visibility::HiddenUpTo(number) => Some(number),
        _ => None,
    };
    let leaves_out = visibility == Visibility::LeavingOut;
    let registry = leaves_out.then(|| keys::registry(shard.tag(), shard.generation));
    let is_sent = |index: &usize| queries[*index].question != Question::Changed;
    let sent: Vec<usize> = (0..queries.len()).filter(is_sent).collect();
    let (mut keys, args) = store
        .call(&script::READ, shard.tag())
        .with_keys(std::mem::take(&mut encoder.keys))
        .field("version", shard.version())
        .field("layout", LayoutArgs::new(shard))
        .field("ranking", shard.definition.ranking.name())
        .field("standings", &encoder.standings)
        .field("followed", followed)
        .field("left_out_max", leaves_out.then_some(LEFT_OUT_MAX))
        .field("registry", registry)
        .field("erasing", erasing)
        .field("kept", encoder.kept_args(&indexed, &sent, &found))
        .field(
            "queries",
            each(&sent, |index| QueryArgs(&encoder, indexed[*index])),
        )
        .keys_and_args()?;
    if asks_replica {
        keys.push(keys::registry(shard.tag(), shard.generation));
        let call = Call::new(&script::READ, keys.clone(), args.clone());
        if let Some(Dated { value, as_of }) = store.read_replica(shard, call).await
            && let Ok(answers) = answer::read_all(shard, &indexed, &[], value)
            && answers.iter().all(ShardAnswer::is_complete)
        {
            return Ok(Dated {
                value: answers,
                as_of,
            });
        }
        keys.pop();
    }
    let reply = store.read(Call::new(&script::READ, keys, args)).await?;
    let answers = answer::read_all(shard, &indexed, &found, reply)?;
    if let Some(kept) = kept {
        kept.put(queries, &answers, &found);
    }
    Ok(Dated {
        value: answers,
        as_of: None,
    })
}
