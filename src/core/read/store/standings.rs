//! Reads standings. Many queries share a script call, so that ranks, scores and gaps agree with each other.

mod answer;
mod entries;
mod kept;
mod query;

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::core::read::mirrors::{ShardMirrors, filling};
use crate::domain::shard::Shard;
use crate::redis::args::{LayoutArgs, each};
use crate::redis::connection::Call;
use crate::redis::dispatch::{Freshness, Store};
use crate::redis::kinds::Kind;
use crate::redis::reply::require;
use crate::redis::{Dated, StoreError, keys, script};

use self::kept::Copied;
use self::query::{Encoder, LEFT_OUT_MAX, QueryArgs};

pub use self::answer::{ReadAnswer, ShardAnswer};
pub use self::entries::{
    Amounts, Entry, MadeWith, Neighbourhood, Page, PageMemo, ShardLine, Slice, SortKey, Spread,
    Subset,
};
pub(crate) use self::kept::{KeptAnswers, KeptOfShard};
pub use self::query::{Question, Selection, ShardQuery, Visibility};

/// Where answers may come from without Redis: those that were kept, and mirrors.
pub(crate) type Copies<'a> = (Option<&'a KeptOfShard>, Option<&'a Arc<ShardMirrors>>);

/// Reads a board's standings in one call, as of one instant; a replica may answer if they need not be current. The answers are
/// in the order of the queries. Mirrors give those that they have; those that were kept are given again if they still hold, and
/// the others are kept.
pub(crate) async fn read(
    store: &Arc<Store>,
    shard: &Shard,
    queries: &[&Arc<ShardQuery>],
    copies: Copies<'_>,
    (visibility, freshness): (Visibility, Freshness),
) -> Result<Dated<Vec<ShardAnswer>>, StoreError> {
    let asks_replica = freshness == Freshness::Bounded && store.replicas.is_some();
    // A replica may give an older answer.
    let (kept, mirrors) = if asks_replica { (None, None) } else { copies };
    let look = mirrors.and_then(|mirrors| mirrors.plan(queries));
    let mut copied = Copied {
        found: kept.map_or_else(Vec::new, |kept| kept.find(queries)),
        covers: look
            .as_ref()
            .map_or_else(Vec::new, |look| look.covers.clone()),
    };
    copied.prefer_mirrors();
    let mut encoder = Encoder::new(shard, visibility);
    let indexed: Vec<_> = queries.iter().map(|query| encoder.add(query)).collect();
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
    let trail = look.as_ref().map(|look| {
        encoder.keys.push(keys::trail(shard));
        (look.from.stored(), encoder.keys.len(), look.is_compared)
    });
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
        .field("kept", encoder.kept_args(&indexed, &copied.found))
        .field("trail", trail)
        .field("sources", each(&sent, |index| copied.source(*index)))
        .field(
            "queries",
            each(&sent, |index| QueryArgs(&encoder, indexed[*index])),
        )
        .keys_and_args()?;
    if asks_replica {
        keys.push(keys::registry(shard.tag(), shard.generation));
        let call = Call::new(&script::READ, keys.clone(), args.clone());
        if let Some(Dated { value, as_of }) = store.read_replica(shard, call).await
            && let Ok(read) = answer::read_all(shard, &indexed, &copied, value)
            && let Some(answers) = read.answers.into_iter().collect::<Option<Vec<_>>>()
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
    let is_compared = look.as_ref().is_some_and(|look| look.is_compared);
    if is_compared {
        copied.forget_all();
    }
    let answered = answer::read_all(shard, &indexed, &copied, reply)?;
    let mut answers = answered.answers;
    if let Some(mirrors) = mirrors {
        let counts: Vec<_> = encoder.named.iter().copied().zip(answered.counts).collect();
        let records = answered.records.as_deref();
        let due = mirrors.look(queries, look.as_ref(), answered.seen, &counts, records);
        if let Some(due) = due {
            filling::spawn(store, shard, mirrors, due);
        }
        let is_followed = is_compared && records.is_some();
        for (query, answer) in queries.iter().zip(&mut answers) {
            match answer {
                Some(answer) if is_followed => mirrors.compare(shard, query, answer),
                Some(_) => {}
                None => *answer = mirrors.answer(shard, query)?,
            }
        }
    }
    // A mirror was dropped meanwhile.
    let missing: Vec<_> = (0..answers.len())
        .filter(|index| answers[*index].is_none())
        .collect();
    if !missing.is_empty() {
        let again: Vec<_> = missing.iter().map(|index| queries[*index]).collect();
        let others = read_alone(store, shard, &again, (visibility, freshness)).await?;
        for (index, answer) in missing.into_iter().zip(others.value) {
            answers[index] = Some(answer);
        }
    }
    let answers: Option<Vec<_>> = answers.into_iter().collect();
    let answers = require(answers, "a query has no answer")?;
    if let Some(kept) = kept {
        kept.put(queries, &answers, &copied);
    }
    Ok(Dated {
        value: answers,
        as_of: None,
    })
}

/// Reads without copies. Boxed because it is rare, and [`read`] calls it.
fn read_alone<'a>(
    store: &'a Arc<Store>,
    shard: &'a Shard,
    queries: &'a [&'a Arc<ShardQuery>],
    how: (Visibility, Freshness),
) -> BoxFuture<'a, Result<Dated<Vec<ShardAnswer>>, StoreError>> {
    Box::pin(read(store, shard, queries, (None, None), how))
}
