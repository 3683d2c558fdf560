//! Reads standings. Many queries share a script call, so that ranks, scores and gaps agree with each other.

mod answer;
mod entries;
mod query;

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
pub use self::query::{Question, Selection, ShardQuery, Visibility};

/// Reads a board's standings in one call, as of one instant. The answers are in the order of the queries.
pub async fn read(
    store: &Store,
    shard: &Shard,
    queries: &[&ShardQuery],
    visibility: Visibility,
    freshness: Freshness,
) -> Result<Dated<Vec<ShardAnswer>>, StoreError> {
    let mut encoder = Encoder::new(shard, visibility);
    let queries: Vec<_> = queries.iter().map(|query| encoder.add(query)).collect();
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
        .field(
            "queries",
            each(&queries, |query| QueryArgs(&encoder, *query)),
        )
        .keys_and_args()?;
    if freshness == Freshness::Bounded && store.replicas.is_some() {
        keys.push(keys::registry(shard.tag(), shard.generation));
        let call = Call::new(&script::READ, keys.clone(), args.clone());
        if let Some(Dated { value, as_of }) = store.read_replica(shard, call).await
            && let Ok(value) = answer::read_all(shard, &queries, value)
            && value.iter().all(ShardAnswer::is_complete)
        {
            return Ok(Dated { value, as_of });
        }
        keys.pop();
    }
    let reply = store.read(Call::new(&script::READ, keys, args)).await?;
    Ok(Dated {
        value: answer::read_all(shard, &queries, reply)?,
        as_of: None,
    })
}
