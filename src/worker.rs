//! Background loops. Each only sleeps and runs one job. All jobs may run on any number of instances at once, and may be
//! stopped half-way.

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, gauge};
use tokio_util::sync::CancellationToken;

use crate::engine::announcements::Announcements;
use crate::engine::closings::ClosePeriods;
use crate::engine::ended_hides::EndedHides;
use crate::engine::erasures::Erasures;
use crate::engine::hidden::HiddenLists;
use crate::engine::jobs::JobKind;
use crate::engine::left_behind::LeftBehind;
use crate::engine::moves::Moves;
use crate::engine::outboxes::Outboxes;
use crate::engine::purge::Purge;
use crate::engine::queue::applying::ApplyQueues;
use crate::engine::queue::listing::ListQueues;
use crate::engine::revisions::Revisions;
use crate::engine::rollover::Rollover;
use crate::engine::sweep::Sweep;
use crate::engine::tasks::Tasks;
use crate::engine::{Engine, Error};
use crate::service::Service;
use crate::throttle;

/// The longest pause after failures; they double the interval up to it.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The longest pause after failures.
fn pause_max(kind: JobKind) -> Duration {
    match kind {
        // Keys that can't be confirmed open nothing, replicas whose bound is not registered answer nothing, and queued events are
        // waited for.
        JobKind::ApiKeys | JobKind::Staleness | JobKind::Queues => Duration::from_millis(500),
        _ => PAUSE_MAX,
    }
}

/// Does all that is due once.
pub async fn run(kind: JobKind, engine: &Engine) -> Result<(), Error> {
    match kind {
        JobKind::Clock => follow_clock(engine).await,
        JobKind::Definition => engine.refresh_boards().await,
        JobKind::ApiKeys => engine.refresh_api_keys().await,
        JobKind::ApiKeyUses => engine.note_api_key_uses().await,
        JobKind::Staleness => Ok(engine.store.register_staleness().await?),
        JobKind::Instances => engine.tell_presence().await,
        JobKind::Warnings => engine.warn().await,
        JobKind::Rollover => engine.run(&Rollover).await,
        JobKind::Reshard => engine.run(&Moves).await,
        JobKind::Purge => engine.run(&Purge).await,
        JobKind::Announcement => engine.run(&Announcements::USUAL).await,
        JobKind::Sweep => engine.run(&Sweep).await,
        JobKind::Reservations => engine.run(&LeftBehind::USUAL).await,
        JobKind::Erasures => engine.run(&Erasures).await,
        JobKind::Revisions => engine.run(&Revisions).await,
        JobKind::Hides => engine.run(&EndedHides).await,
        JobKind::Tasks => engine.run(&Tasks).await,
        JobKind::Closings => engine.run(&ClosePeriods).await,
        JobKind::Audit => engine.trim_audit().await,
        JobKind::HiddenLists => engine.run(&HiddenLists).await,
        JobKind::Outboxes => engine.run(&Outboxes).await,
        JobKind::Webhooks => engine.deliver().await,
        JobKind::Queues => engine.run(&ApplyQueues).await,
        JobKind::QueueSizes => {
            engine.sample_queues().await;
            Ok(())
        }
        JobKind::QueueIndex => engine.run(&ListQueues).await,
    }
}

/// Sleeps before the next run, or until there is something to do.
async fn sleep(kind: JobKind, engine: &Engine, pause: Duration) {
    let slept = tokio::time::sleep(pause);
    match kind {
        JobKind::Queues => tokio::select! {
            () = slept => {}
            () = engine.queues.woken() => {}
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

async fn follow_clock(engine: &Engine) -> Result<(), Error> {
    let followed = engine.follow_clock().await;
    gauge!("standings_store_up").set(if followed.is_ok() { 1.0 } else { 0.0 });
    if let Some(jump_ms) = followed? {
        counter!("standings_clock_jumps_total").increment(1);
        let what = "the clock of Redis has jumped: ahead, what was to expire within that time is gone (event ids, counts of \
                    quotas, standings with a retention); back, it stays for so much longer";
        tracing::error!(jump_ms, "{what}");
    }
    Ok(())
}
