//! What each job does, and the background loops. A loop only sleeps and runs one job. All jobs may run on any number of
//! instances at once, and may be stopped at any time.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::access::keyring;
use crate::audit;
use crate::core::board::announcements::Announcements;
use crate::core::board::purge::Purge;
use crate::core::board::registries::Registries;
use crate::core::board::sweep::Sweep;
use crate::core::hide::erasures::Erasures;
use crate::core::hide::hidden::HiddenLists;
use crate::core::jobs::{JobKind, clock};
use crate::core::read::rollover::Rollover;
use crate::core::write::left_behind::LeftBehind;
use crate::core::{Engine, Error};
use crate::corrections::revocations::job::Revocations;
use crate::history::job::Histories;
use crate::moderation::ended_hides::EndedHides;
use crate::moderation::tasks::job::Tasks;
use crate::moves::job::Moves;
use crate::operations::{overview, warnings};
use crate::periods::closings::work::ClosePeriods;
use crate::periods::revisions::job::Revisions;
use crate::profiles::search::job::NameIndex;
use crate::queue::applying::ApplyQueues;
use crate::queue::listing::ListQueues;
use crate::queue::{self, capacity};
use crate::runtime::throttle;
use crate::webhooks::deliveries;
use crate::webhooks::outbox::job::Outboxes;

/// Does everything that is due of a job once.
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
            capacity::sample(engine).await;
            Ok(())
        }
        JobKind::EventCounts => overview::work::count_accepted(engine).await,
        JobKind::Overview => overview::work::sample(engine).await,
        JobKind::Rollover => engine.run(&Rollover).await,
        JobKind::Reshard => engine.run(&Moves).await,
        JobKind::Purge => engine.run(&Purge).await,
        JobKind::Registries => engine.run(&Registries).await,
        JobKind::Announcement => engine.run(&Announcements::USUAL).await,
        JobKind::Sweep => engine.run(&Sweep).await,
        JobKind::Reservations => engine.run(&LeftBehind::USUAL).await,
        JobKind::Audit => audit::job::trim(engine).await,
        JobKind::NameIndex => engine.run(&NameIndex).await,
        JobKind::HiddenLists => engine.run(&HiddenLists).await,
        JobKind::Hides => engine.run(&EndedHides).await,
        JobKind::Tasks => engine.run(&Tasks).await,
        JobKind::Erasures => engine.run(&Erasures).await,
        JobKind::Outboxes => engine.run(&Outboxes).await,
        JobKind::Webhooks => deliveries::job::deliver(engine).await,
        JobKind::History => engine.run(&Histories).await,
        JobKind::Revocations => engine.run(&Revocations).await,
        JobKind::Revisions => engine.run(&Revisions).await,
        JobKind::Closings => engine.run(&ClosePeriods).await,
        JobKind::Queues => engine.run(&ApplyQueues).await,
        JobKind::QueueIndex => engine.run(&ListQueues).await,
    }
}

/// The longest pause after failures, which double the interval up to it.
fn pause_max(kind: JobKind) -> Duration {
    Duration::from_millis(match kind {
        // Unconfirmed keys give no access, replicas without a registered bound serve no reads, and callers wait for queued
        // events.
        JobKind::ApiKeys | JobKind::Staleness | JobKind::Queues => 500,
        _ => 10_000,
    })
}

/// Sleeps until the next run, or until there is something to do.
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

/// Runs a job repeatedly until it has to stop, less often while it fails.
pub async fn repeat(kind: JobKind, engine: Arc<Engine>, cancelled: CancellationToken) {
    let mut pause = kind.interval();
    loop {
        let run = Box::pin(run(kind, &engine));
        match cancelled.run_until_cancelled(run).await {
            None => return,
            Some(Ok(())) => pause = kind.interval(),
            Some(Err(error)) => {
                let job = kind.name();
                if engine.store.outage().is_some() {
                    // The outage is logged separately.
                    tracing::debug!(%error, job, "a background job failed; it will be tried again");
                } else {
                    throttle::say(&format!("background job: {error}"), |more| {
                        tracing::warn!(%error, job, more, "a background job failed; it will be tried again");
                    });
                }
                pause = (pause * 2).min(pause_max(kind));
            }
        }
        let slept = cancelled
            .run_until_cancelled(sleep(kind, &engine, pause))
            .await;
        if slept.is_none() {
            return;
        }
    }
}
