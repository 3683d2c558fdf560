//! What each job does, and the background loops. A loop only sleeps and runs one job. All jobs may run on any number of
//! instances at once, and may be stopped half-way.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::engine::announcements::Announcements;
use crate::engine::closings::ClosePeriods;
use crate::engine::ended_hides::EndedHides;
use crate::engine::erasures::Erasures;
use crate::engine::hidden::HiddenLists;
use crate::engine::jobs::{JobKind, clock};
use crate::engine::left_behind::LeftBehind;
use crate::engine::moves::Moves;
use crate::engine::outboxes::Outboxes;
use crate::engine::purge::Purge;
use crate::engine::queue;
use crate::engine::queue::applying::ApplyQueues;
use crate::engine::queue::listing::ListQueues;
use crate::engine::queue::room;
use crate::engine::revisions::Revisions;
use crate::engine::rollover::Rollover;
use crate::engine::sweep::Sweep;
use crate::engine::tasks::Tasks;
use crate::engine::{Engine, Error, audit, deliveries, keyring, warnings};
use crate::service::Service;
use crate::throttle;

/// Does all that is due of a job once.
pub async fn run(kind: JobKind, engine: &Engine) -> Result<(), Error> {
    match kind {
        JobKind::Clock => clock::follow(engine).await,
        JobKind::ApiKeys => keyring::refresh(engine).await,
        JobKind::Definition => engine.refresh_boards().await,
        JobKind::Warnings => warnings::log_new(engine).await,
        JobKind::ApiKeyUses => keyring::note_uses(engine).await,
        JobKind::Staleness => Ok(engine.store.register_staleness().await?),
        JobKind::Instances => engine.tell_presence().await,
        JobKind::QueueSizes => {
            room::sample(engine).await;
            Ok(())
        }
        JobKind::Rollover => engine.run(&Rollover).await,
        JobKind::Reshard => engine.run(&Moves).await,
        JobKind::Purge => engine.run(&Purge).await,
        JobKind::Announcement => engine.run(&Announcements::USUAL).await,
        JobKind::Sweep => engine.run(&Sweep).await,
        JobKind::Reservations => engine.run(&LeftBehind::USUAL).await,
        JobKind::Audit => audit::trim(engine).await,
        JobKind::HiddenLists => engine.run(&HiddenLists).await,
        JobKind::Hides => engine.run(&EndedHides).await,
        JobKind::Tasks => engine.run(&Tasks).await,
        JobKind::Erasures => engine.run(&Erasures).await,
        JobKind::Outboxes => engine.run(&Outboxes).await,
        JobKind::Webhooks => deliveries::deliver(engine).await,
        JobKind::Revisions => engine.run(&Revisions).await,
        JobKind::Closings => engine.run(&ClosePeriods).await,
        JobKind::Queues => engine.run(&ApplyQueues).await,
        JobKind::QueueIndex => engine.run(&ListQueues).await,
    }
}

/// The longest pause after failures; they double the interval up to it.
fn pause_max(kind: JobKind) -> Duration {
    Duration::from_millis(match kind {
        // Keys that can't be confirmed open nothing, replicas whose bound is not registered answer nothing, and queued events are
        // waited for.
        JobKind::ApiKeys | JobKind::Staleness | JobKind::Queues => 500,
        _ => 10_000,
    })
}

/// Sleeps before the next run, or until there is something to do.
async fn sleep(kind: JobKind, engine: &Engine, pause: Duration) {
    let slept = tokio::time::sleep(pause);
    match kind {
        JobKind::Queues => tokio::select! {
            () = slept => {}
            () = queue::of(engine).queues.woken() => {}
        },
        _ => slept.await,
    }
}

/// Runs a job again and again until it is told to stop, less often while it fails.
pub async fn repeat(kind: JobKind, service: Arc<Service>, cancelled: CancellationToken) {
    let mut pause = kind.interval();
    loop {
        let run = Box::pin(run(kind, &service.engine));
        match cancelled.run_until_cancelled(run).await {
            None => return,
            Some(Ok(())) => pause = kind.interval(),
            Some(Err(error)) => {
                let job = kind.name();
                throttle::say(&format!("background job: {error}"), |more| {
                    tracing::warn!(%error, job, more, "a background job failed; it will be tried again");
                });
                pause = (pause * 2).min(pause_max(kind));
            }
        }
        let slept = cancelled
            .run_until_cancelled(sleep(kind, &service.engine, pause))
            .await;
        if slept.is_none() {
            return;
        }
    }
}
