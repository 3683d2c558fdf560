//! The background work of an instance: one runner for all jobs.
//!
//! A `Job` says which items are due, and takes one item a bounded step further. The runner does the rest:
//!
//! - Items take turns, step by step, four at a time (16 for queues). When all have had a turn, the runner asks again what
//!   is due, so a long item does not hold up a short one, even one that comes later. For queues it asks every 100 ms, also
//!   while steps run (`LOOK_INTERVAL`).
//! - The result of each item is recorded separately (`faults.rs`). An item that fails is retried after growing pauses, and
//!   `/readyz` and a metric show it. A server that does not answer is not the item's fault: the other items take their
//!   turns, and then the run ends with that error. Nor is it one that another instance works on the item.
//! - Either any number of instances may take a step at once, or the item has a lease (`lease.rs`, `scripts/redis/lease.lua`). The
//!   lease says how far the last holder came, so any instance can go on from there; its number grows with each holder, so
//!   late writes of an earlier one are refused.
//! - Items that are not due cost nothing. Due items come either from a set in Redis (moves, deletions, begun changes), or
//!   from a schedule in memory (`schedule.rs`: derived standings, closings, reservations): a board is due when it is loaded
//!   into memory, and then when its next period is near.
//!
//! A schedule in memory is enough, also for what falls due while no instance runs: an instance that starts reads all
//! definitions, and each board is due once. Then the job computes what to do from the definition, the time, and what Redis
//! says was done. So a job notes in Redis what it has done, as a field of the board or as the position of its lease.
//! (No step could change both a board and a durable index in another slot, and a new calendar would make that wrong.)
//!
//! Names and intervals are here; `worker.rs` says what each kind does, and has a loop for each, which sleeps and then does
//! all that is due. *Everyone's* loops run on every instance, to keep its memory and its clock right. The others run where
//! `STANDINGS_BACKGROUND` is on; `queues` also needs `STANDINGS_APPLY_QUEUES`. `standings worker` runs all.
//!
//! | name | file | what it does | every |
//! | --- | --- | --- | --- |
//! | `clock` | `core/jobs/clock.rs` | everyone's: compares the clock with that of Redis | 1 s |
//! | `definition` | `core/board/boards.rs` | everyone's: reads changed definitions | 250 ms |
//! | `api-keys`, `api-key-uses` | `access/keyring.rs` | everyone's: reads changed API keys; notes when keys were used | 250 ms, 10 s |
//! | `warnings` | `operations/warnings.rs` | everyone's: checks the settings of Redis | 10 s |
//! | `staleness` | `redis/staleness.rs` | everyone's: registers how stale this instance's replicas may be | 1 s |
//! | `instances` | `core/jobs/instances.rs` | everyone's: announces this instance to others | 10 s |
//! | `queue-sizes` | `queue/capacity.rs` | everyone's: looks up how much waits in queues | 1 s |
//! | `event-counts` | `operations/overview/work.rs` | everyone's: adds to the counts of boards' events, by minute | 10 s |
//! | `overview` | `operations/overview/work.rs` | a loop: samples what waits or fails, unless another instance just has | 10 s |
//! | `rollover` | `core/read/rollover.rs` | completes derived standings ahead of time | 500 ms |
//! | `purge` | `core/board/purge.rs` | unlinks data that nothing needs | 1 s |
//! | `registries` | `core/board/registries.rs` | takes names of expired keys out of registries | 1 s; each registry every hour |
//! | `sweep` | `core/board/sweep.rs` | lease: searches all keys for leftovers of deleted boards | 1 min |
//! | `announcement` | `core/board/announcements.rs` | announces changes whose instance died | 1 s |
//! | `hidden-lists` | `core/hide/hidden.rs` | finds more members for lists that `keep_top` keeps short | 1 s |
//! | `erasures` | `core/hide/erasures.rs` | removes the remaining data of erased members | 1 s |
//! | `reservations` | `core/write/left_behind.rs` | settles reservations that are left behind | 1 s |
//! | `hides` | `moderation/ended_hides.rs` | ends hides and standing orders at their `until`; forgets members that were brought back | 1 s |
//! | `tasks` | `moderation/tasks/job.rs` | lease: carries out on all boards what was ordered | 1 s |
//! | `closings` | `periods/closings/work.rs` | makes periods final whose wait is over | 1 s |
//! | `revisions` | `periods/revisions/job.rs` | revises results after members were hidden or brought back | 1 s |
//! | `history` | `history/job.rs` | removes rows of kept events that have run out | 1 s |
//! | `revocations` | `corrections/revocations/job.rs` | lease: revokes all events that match something | 1 s |
//! | `queues` | `queue/applying.rs` | lease: applies what waits in queues | 100 ms, and when this instance has queued something |
//! | `queue-index` | `queue/listing.rs` | puts queues back into their index | 1 s |
//! | `reshard` | `moves/job.rs` | lease: moves a board to other shards | 1 s |
//! | `outboxes` | `webhooks/outbox/job.rs` | moves messages from outboxes to the queues of webhooks | 1 s |
//! | `webhooks` | `webhooks/deliveries/job.rs` | a loop: sends what is queued for webhooks | 500 ms |
//! | `name-index` | `profiles/search/job.rs` | lease: fills the index of the words of names, or removes it | 10 s |
//! | `audit` | `audit/job.rs` | a loop: drops old lines of the audit log | 1 min |

pub mod clock;
pub mod faults;
pub mod instances;
pub mod lease;
pub mod schedule;
pub(crate) mod steps;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use metrics::{counter, gauge, histogram};

use self::faults::Subject;
use super::{Engine, Error};

/// A kind of background work.
pub trait Job: fmt::Debug + Send + Sync {
    /// One thing to do.
    type Item: Send + Sync;
    /// Its kind: the name in metrics, in the log and in faults.
    const KIND: JobKind;
    /// The pause of an item between two steps, which leaves Redis to other clients.
    const PAUSE: Duration = Duration::ZERO;
    /// How many items are worked on at once.
    const AT_ONCE: usize = 4;
    /// How long steps may run before the job is asked again what is due.
    const LOOK_INTERVAL: Duration = Duration::MAX;

    /// What the faults of an item are recorded under.
    fn subject(&self, item: &Self::Item) -> Subject;

    /// The items that are due now.
    fn due(&self, engine: &Engine) -> impl Future<Output = Result<Vec<Self::Item>, Error>> + Send;

    /// Takes an item a bounded step further. The item may hold what the next step continues with.
    fn step(
        &self,
        engine: &Engine,
        item: &mut Self::Item,
    ) -> impl Future<Output = Result<Progress, Error>> + Send;
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// There is more to do for the item now.
    More,
    /// This instance can do nothing more for it now.
    Done,
}

impl Progress {
    /// The outcome of a step that knows whether there is more to do.
    pub(crate) fn more_if(is_more: bool) -> Self {
        if is_more { Self::More } else { Self::Done }
    }
}

/// Which instances do a job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Doer {
    /// Every instance, to keep its memory and its clock right, and its operator informed.
    Everyone,
    /// Instances that work in the background: one is enough.
    Anyone,
}

/// Declares the jobs: each with its name, its doer, and the milliseconds that its loop sleeps between two runs. What a run
/// does is in `worker.rs`, which knows all rooms.
macro_rules! jobs {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $doer:ident, $interval_ms:literal;)*) => {
        /// The kinds of background work. The log, metrics and faults use their names.
        #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
        pub enum JobKind {
            $($(#[$doc])* $kind,)*
        }

        impl JobKind {
            const ALL: &[(Self, &'static str, Doer, u64)] =
                &[$((Self::$kind, $name, Doer::$doer, $interval_ms)),*];
        }
    };
}

jobs! {
    /// Compares the clock with Redis' clock.
    Clock = "clock", Everyone, 1_000;
    /// Reads changed API keys into memory.
    ApiKeys = "api-keys", Everyone, 250;
    /// Reads changed definitions of boards into memory.
    Definition = "definition", Everyone, 250;
    /// Logs what an operator should look at in Redis.
    Warnings = "warnings", Everyone, 10_000;
    /// Notes when API keys were used.
    ApiKeyUses = "api-key-uses", Everyone, 10_000;
    /// Registers how old the answers of replicas may be.
    Staleness = "staleness", Everyone, 1_000;
    /// Announces this instance to others.
    Instances = "instances", Everyone, 10_000;
    /// Looks up how much waits in queues.
    QueueSizes = "queue-sizes", Everyone, 1_000;
    /// Counts accepted events of boards.
    EventCounts = "event-counts", Everyone, 10_000;
    /// Samples what waits or fails.
    Overview = "overview", Anyone, 10_000;
    /// Completes derived standings ahead of time.
    Rollover = "rollover", Anyone, 500;
    /// Moves the data of a board to other shards.
    Reshard = "reshard", Anyone, 1_000;
    /// Unlinks data that is not needed any more.
    Purge = "purge", Anyone, 1_000;
    /// Takes names of keys that no longer exist out of registries.
    Registries = "registries", Anyone, 1_000;
    /// Announces a change whose instance died.
    Announcement = "announcement", Anyone, 1_000;
    /// Searches all keys for leftovers of deleted boards: one walk serves all that were deleted before it.
    Sweep = "sweep", Anyone, 60_000;
    /// Settles reservations that are left behind.
    Reservations = "reservations", Anyone, 1_000;
    /// Drops old lines of the audit log.
    Audit = "audit", Anyone, 60_000;
    /// Fills the index of the words of names, or removes it.
    NameIndex = "name-index", Anyone, 10_000;
    /// Finds more members for lists that are kept short and have many hidden members.
    HiddenLists = "hidden-lists", Anyone, 1_000;
    /// Ends hides whose end has come.
    Hides = "hides", Anyone, 1_000;
    /// Carries out on all boards what was ordered.
    Tasks = "tasks", Anyone, 1_000;
    /// Removes the remaining data of erased members.
    Erasures = "erasures", Anyone, 1_000;
    /// Moves messages from the outboxes of boards to the queues of webhooks.
    Outboxes = "outboxes", Anyone, 1_000;
    /// Sends what is queued for webhooks.
    Webhooks = "webhooks", Anyone, 500;
    /// Revises results after members were hidden or brought back.
    Revisions = "revisions", Anyone, 1_000;
    /// Removes rows of kept events that have run out.
    History = "history", Anyone, 1_000;
    /// Revokes all events that match something.
    Revocations = "revocations", Anyone, 1_000;
    /// Makes periods final whose wait is over.
    Closings = "closings", Anyone, 1_000;
    /// Applies queued events.
    Queues = "queues", Anyone, 100;
    /// Puts queues back into their index.
    QueueIndex = "queue-index", Anyone, 1_000;
}

impl JobKind {
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// How long its loop sleeps between two runs.
    pub fn interval(self) -> Duration {
        Duration::from_millis(Self::ALL[self as usize].3)
    }

    fn of(doer: Doer) -> impl Iterator<Item = Self> {
        Self::ALL
            .iter()
            .filter_map(move |(kind, _, own, _)| (*own == doer).then_some(*kind))
    }

    /// The jobs that every instance does.
    pub fn of_every_instance() -> impl Iterator<Item = Self> {
        Self::of(Doer::Everyone)
    }

    /// The jobs for which one instance is enough.
    pub fn in_background() -> impl Iterator<Item = Self> {
        Self::of(Doer::Anyone)
    }
}

impl Engine {
    /// Does all that is due of a job. Safe to run on any number of instances at once, and to stop half-way.
    pub async fn run<J: Job>(&self, job: &J) -> Result<(), Error> {
        let (mut waiting, mut in_hand) = (VecDeque::new(), BTreeSet::new());
        let (mut running, mut failed) = (FuturesUnordered::new(), None);
        // How many turns are left until the job is asked again what is due, and whether any item had more to do.
        let (mut turns, mut is_more) = (0, true);
        loop {
            if turns == 0 && is_more {
                match job.due(self).await {
                    Ok(mut due) => {
                        due.retain(|item| !in_hand.contains(&job.subject(item)));
                        in_hand.extend(due.iter().map(|item| job.subject(item)));
                        waiting.extend(due);
                    }
                    // Steps in flight are finished.
                    Err(error) => failed = Some(error),
                }
                (turns, is_more) = (waiting.len() + running.len(), false);
            }
            while running.len() < J::AT_ONCE
                && let Some(item) = waiting.pop_front()
            {
                running.push(self.take_step(job, item));
            }
            #[expect(clippy::cast_precision_loss, reason = "a count of items")]
            gauge!("standings_job_items", "job" => J::KIND.name())
                .set((waiting.len() + running.len()) as f64);
            let Ok(next) = tokio::time::timeout(J::LOOK_INTERVAL, running.next()).await else {
                (turns, is_more) = (0, true);
                continue;
            };
            let Some((item, stepped)) = next else {
                return failed.map_or(Ok(()), Err);
            };
            turns -= 1;
            match stepped {
                Ok(Progress::More) => {
                    waiting.push_back(item);
                    is_more = true;
                }
                Ok(Progress::Done) => {
                    in_hand.remove(&job.subject(&item));
                }
                // It stays in hand, so only the next run tries it again.
                Err(error) => failed = Some(error),
            }
        }
    }

    /// Takes an item one step further. A fault of the item is recorded, and ends its turns in this run.
    pub(crate) async fn take_step<J: Job>(
        &self,
        job: &J,
        mut item: J::Item,
    ) -> (J::Item, Result<Progress, Error>) {
        let subject = job.subject(&item);
        if !self.faults.is_due(J::KIND, &subject) {
            return (item, Ok(Progress::Done));
        }
        let begun = Instant::now();
        let stepped = job.step(self, &mut item).boxed().await;
        let kind = J::KIND.name();
        histogram!("standings_job_step_seconds", "job" => kind).record(begun.elapsed());
        let result = match &stepped {
            Ok(_) => "ok",
            Err(error) if error.is_turn_of_others() => "busy",
            Err(_) => "failed",
        };
        counter!("standings_job_steps_total", "job" => kind, "result" => result).increment(1);
        let now = self.clock.now();
        self.faults
            .record(J::KIND, &subject, now, stepped.as_ref().err());
        let progress = match stepped {
            Err(error) if error.is_fault() || error.is_turn_of_others() => Ok(Progress::Done),
            stepped => stepped,
        };
        if matches!(progress, Ok(Progress::More)) {
            tokio::time::sleep(J::PAUSE).await;
        }
        (item, progress)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::domain::clock::Clock;
    use crate::domain::ids::BoardId;
    use crate::domain::time::Timestamp;
    use crate::redis::{Address, Store, StoreError};
    use crate::runtime::timeouts::TimeoutFactor;
    use crate::setup::HOOKS;

    /// Counts to a number for each item. The items of one board fail, those of another find their server down, and those of
    /// a third are held by other instances.
    #[derive(Debug, Default)]
    struct Counting {
        steps: Mutex<Vec<(&'static str, u32)>>,
    }

    impl Job for Counting {
        type Item = (&'static str, u32);
        const KIND: JobKind = JobKind::Purge;

        fn subject(&self, (board, _): &Self::Item) -> Subject {
            Subject::board(&BoardId::parse(board).unwrap())
        }

        async fn due(&self, _: &Engine) -> Result<Vec<Self::Item>, Error> {
            let mut due = vec![
                ("bad", 9),
                ("away", 9),
                ("held", 9),
                ("long", 5),
                ("short", 1),
            ];
            due.retain(|(board, steps)| count(self, board) < *steps as usize);
            if count(self, "long") > 0 && count(self, "late") == 0 {
                due.push(("late", 1));
            }
            Ok(due)
        }

        async fn step(&self, _: &Engine, item: &mut Self::Item) -> Result<Progress, Error> {
            let done = {
                let mut steps = self.steps.lock();
                steps.push(*item);
                steps.iter().filter(|step| step.0 == item.0).count()
            };
            tokio::task::yield_now().await;
            match item.0 {
                "bad" => Err(StoreError::Unexpected("WRONGTYPE".into()).into()),
                "away" => Err(StoreError::Unavailable("away".into()).into()),
                "held" => Err(Error::busy()),
                _ if done >= item.1 as usize => Ok(Progress::Done),
                _ => Ok(Progress::More),
            }
        }
    }

    fn count(job: &Counting, board: &str) -> usize {
        let steps = job.steps.lock();
        steps.iter().filter(|step| step.0 == board).count()
    }

    #[tokio::test]
    async fn items_take_turns_and_a_failing_one_does_not_delay_others() {
        let address = Address::parse("redis://127.0.0.1:1");
        let store = Store::connect(&address, TimeoutFactor::default()).unwrap();
        let clock = Clock::set_to(Timestamp::from_ms_clamped(0));
        let engine = Engine::new(store, clock, &HOOKS);
        let job = Counting::default();
        let run = engine.run(&job).await;
        assert!(matches!(run, Err(Error::Store(StoreError::Unavailable(_)))));
        let counts = ["bad", "away", "long", "short", "late"].map(|board| count(&job, board));
        assert_eq!(counts, [1, 1, 5, 1, 1]);
        let last = job
            .steps
            .lock()
            .iter()
            .rfind(|step| step.0 != "held")
            .copied();
        assert_eq!(last, Some(("long", 5)));
        // What has failed waits. An unreachable server and items held by others cause no wait.
        let held = count(&job, "held");
        engine.run(&job).await.unwrap_err();
        let counts = ["bad", "away"].map(|board| count(&job, board));
        assert_eq!(counts, [1, 2]);
        assert!(held > 0 && count(&job, "held") > held);
        let (faults, _) = engine.faults.list(5);
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].name, "bad");
    }

    /// An item whose step ends only after that of another item, which is due later. Once a look fails.
    #[derive(Debug, Default)]
    struct Waiting {
        is_over: tokio::sync::Notify,
        looks: Mutex<usize>,
    }

    impl Job for Waiting {
        type Item = &'static str;
        const KIND: JobKind = JobKind::Purge;
        const LOOK_INTERVAL: Duration = Duration::from_millis(1);

        fn subject(&self, board: &Self::Item) -> Subject {
            Subject::board(&BoardId::parse(board).unwrap())
        }

        async fn due(&self, _: &Engine) -> Result<Vec<Self::Item>, Error> {
            let mut looks = self.looks.lock();
            *looks += 1;
            match *looks {
                1 => Ok(vec!["slow"]),
                2 => Err(StoreError::Unavailable("away".into()).into()),
                _ => Ok(vec!["slow", "late"]),
            }
        }

        async fn step(&self, _: &Engine, item: &mut Self::Item) -> Result<Progress, Error> {
            match *item {
                "slow" => self.is_over.notified().await,
                _ => self.is_over.notify_one(),
            }
            Ok(Progress::Done)
        }
    }

    #[tokio::test]
    async fn a_long_step_and_a_failed_look_do_not_end_each_other() {
        let address = Address::parse("redis://127.0.0.1:1");
        let store = Store::connect(&address, TimeoutFactor::default()).unwrap();
        let clock = Clock::set_to(Timestamp::from_ms_clamped(0));
        let engine = Engine::new(store, clock, &HOOKS);
        let job = Waiting::default();
        engine.run(&job).await.unwrap_err();
        assert!(*job.looks.lock() > 2);
    }
}
