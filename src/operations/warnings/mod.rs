//! Warnings about a service that works but needs attention: its Redis may lose data, or currently refuses writes, or events
//! wait and no instance applies them. Each is logged when it begins and when it ends.

pub(crate) mod job;
pub mod queues;
pub mod store;

use futures::future::join;

use crate::core::Engine;

pub async fn current(engine: &Engine) -> Vec<String> {
    let of_queues = queues::unapplied(engine);
    let (mut warnings, of_queues) = join(store::current(&engine.store), of_queues).await;
    // If Redis does not answer, other warnings say so.
    warnings.extend(of_queues.ok().flatten());
    warnings
}
