//! Background loops. Each only sleeps and runs one job. All jobs may run on any number of instances at once, and may be
//! stopped half-way.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::engine::jobs::JobKind;
use crate::engine::queue;
use crate::service::Service;
use crate::throttle;

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
        let run = Box::pin(kind.run(&service.engine));
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
