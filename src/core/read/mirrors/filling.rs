//! Fills mirrors, and names their standings for the trail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::mirror::Mirror;
use super::{Due, Seen, ShardMirrors, UNUSED_MAX, store};
use crate::core::read::store::standings::{
    self, Question, ReadAnswer, ShardQuery, SortKey, Visibility,
};
use crate::domain::series::Standing;
use crate::domain::shard::Shard;
use crate::redis::{Freshness, Store, StoreError};

/// How many entries a step reads: about 0.15 ms of Redis.
const STEP_ENTRIES: u64 = 300;
/// How long a shard whose standings can't be mirrored is left alone.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// Does what a look has left to be done, in a task of its own.
pub(crate) fn spawn(store: &Arc<Store>, shard: &Shard, mirrors: &Arc<ShardMirrors>, due: Due) {
    let (store, shard, mirrors) = (Arc::clone(store), shard.clone(), Arc::clone(mirrors));
    tokio::spawn(async move {
        let done = match due {
            Due::Naming => name_again(&store, &shard, &mirrors).await,
            Due::Filling => fill_best(&store, &shard, &mirrors).await,
        };
        let mut state = mirrors.state.lock();
        if let Err(error) = done {
            tracing::debug!(board = %shard.id, %error, "mirrors are dropped");
            mirrors.drop_all(&mut state, "failed");
        }
        state.is_busy = false;
    });
}

async fn name_again(
    store: &Store,
    shard: &Shard,
    mirrors: &Arc<ShardMirrors>,
) -> Result<(), StoreError> {
    let named: Vec<(Standing, u64)> = {
        let mut state = mirrors.state.lock();
        let is_used = |mirror: &Mirror| mirror.used_at.elapsed() < UNUSED_MAX;
        state.mirrors.retain(is_used);
        let mirrors = state.mirrors.iter();
        mirrors.map(|mirror| (mirror.standing, mirror.id)).collect()
    };
    let standings: Vec<_> = named.iter().map(|(standing, _)| *standing).collect();
    let ids = store::name(store, shard, &standings).await?;
    let mut state = mirrors.state.lock();
    state.named_at = Some(Instant::now());
    state
        .mirrors
        .retain(|mirror| ids.contains(&mirror.id) || !standings.contains(&mirror.standing));
    Ok(())
}

/// Fills mirrors of the standings that have earned the most.
async fn fill_best(
    store: &Arc<Store>,
    shard: &Shard,
    mirrors: &Arc<ShardMirrors>,
) -> Result<(), StoreError> {
    let _turn = mirrors.all.filling.lock().await;
    let wanted: Vec<Standing> = {
        let state = mirrors.state.lock();
        let best = state.earnings.best().into_iter();
        best.filter(|standing| state.mirror(*standing).is_none())
            .collect()
    };
    for standing in wanted {
        let Some(id) = store::name(store, shard, &[standing]).await?.pop() else {
            let mut state = mirrors.state.lock();
            mirrors.drop_all(&mut state, "refused");
            state.earnings.refuse(Instant::now() + REFUSED_FOR);
            return Ok(());
        };
        mirrors.begin(standing, id);
        fill(store, shard, mirrors, standing).await?;
    }
    Ok(())
}

async fn fill(
    store: &Arc<Store>,
    shard: &Shard,
    mirrors: &Arc<ShardMirrors>,
    standing: Standing,
) -> Result<(), StoreError> {
    while let Some(mark) = mirrors.mark(standing) {
        let question = Question::Slice {
            mark: mark.clone(),
            before: 0,
            count: STEP_ENTRIES,
        };
        let query = Arc::new(ShardQuery::new(standing, question));
        let copies = (None, Some(mirrors));
        let how = (Visibility::Visible, Freshness::Current);
        let read = standings::read(store, shard, &[&query], copies, how).await?;
        let Some(answer) = read.value.into_iter().next() else {
            return Ok(());
        };
        let ReadAnswer::Slice(slice) = answer.answer else {
            // Something must be done first, for which a read waits.
            mirrors.remove(standing);
            return Ok(());
        };
        let seen = Seen {
            changed: answer.changed,
            barrier: answer.barrier,
        };
        let entries = slice.entries.iter().map(|line| line.mark.clone());
        // The mark itself is read again, unless its entry has moved.
        let entries: Vec<SortKey> = entries.filter(|entry| *entry != mark).collect();
        let is_last = (slice.entries.len() as u64) < STEP_ENTRIES;
        if !mirrors.fill(standing, seen, &entries, is_last) {
            mirrors.all.drop_unused();
            if mirrors.all.is_full() {
                mirrors.remove(standing);
            }
        }
    }
    Ok(())
}
