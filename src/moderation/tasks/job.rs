//! The job that carries out tasks on all boards.
//!
//! A task goes through the boards in the order of their ids. It is stored in Redis with its progress, so another instance
//! can continue after a crash. One instance at a time works on tasks, and no task begins in the middle of another task's
//! step. So an earlier task for the same member detects that it was overtaken, and the later one wins.

use std::time::Instant;

use futures::stream::{self, StreamExt};

use super::model::{Action, FailedOn, Task, TaskFailure, TaskLeft};
use super::store::{self, BegunTask, ORDERS_MAX, StoredTask};
use crate::audit;
use crate::core::board::store::boards;
use crate::core::jobs::faults::Subject;
use crate::core::jobs::lease::Lease;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};
use crate::domain::ids::BoardId;
use crate::domain::problems::{Problem, TOO_MANY_HIDDEN};
use crate::moderation::{orders, work};
use crate::redis::StoreError;
use crate::redis::leases::Leased;
use crate::runtime::throttle;

/// How many boards one step handles.
const STEP_BOARDS_MAX: usize = 50;
/// How many of them concurrently.
const BOARDS_AT_ONCE: usize = 8;
/// How many tasks are checked for work.
const TASKS_MAX: usize = 100;

/// Carries out tasks for all boards, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Tasks;

impl Job for Tasks {
    /// The unfinished tasks: their lease, once this instance has it.
    type Item = Option<Lease>;
    const KIND: JobKind = JobKind::Tasks;

    fn subject(&self, _: &Self::Item) -> Subject {
        Subject::all_boards()
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Self::Item>, Error> {
        let open = store::open_numbers(&engine.store, 1).await?;
        Ok(open.iter().map(|_| None).collect())
    }

    async fn step(&self, engine: &Engine, held: &mut Self::Item) -> Result<Progress, Error> {
        let lease = match held.take() {
            Some(lease) => lease,
            None => match Lease::take(&engine.store, Leased::of_all("tasks")).await? {
                Some(lease) => lease,
                None => return Ok(Progress::Done),
            },
        };
        let stepped = lease.while_held(step(engine)).await;
        let Some(stepped) = stepped else {
            return Ok(Progress::Done);
        };
        if matches!(stepped, Ok(Progress::More)) && lease.renew("").await? {
            *held = Some(lease);
            return Ok(Progress::More);
        }
        lease.give_back("").await?;
        stepped
    }
}

/// Begins a task for all boards, and changes the standing orders in the same step. `failed`: where it has failed already.
///
/// # Errors
///
/// [`Problem::too_many_orders`] if there are too many standing orders.
pub async fn begin(
    engine: &Engine,
    action: Action,
    failed: Vec<FailedOn>,
) -> Result<BegunTask, Error> {
    let total = store::board_count(&engine.store).await?;
    let mut task = Task::new(action.clone(), engine.clock.now(), total);
    task.add_failed(failed);
    if let Action::Hide(member, _) | Action::Unhide(member) = &action {
        let members = std::slice::from_ref(member);
        task.pseudonym = audit::store::pseudonyms(&engine.store, members)
            .await?
            .pop();
    }
    let begun = store::begin(&engine.store, &task, &action).await?;
    begun.ok_or_else(|| Problem::too_many_orders(ORDERS_MAX).into())
}

/// Advances the oldest task that can be read by a bounded step.
async fn step(engine: &Engine) -> Result<Progress, Error> {
    for number in store::open_numbers(&engine.store, TASKS_MAX).await? {
        let Some(stored) = store::load(&engine.store, number).await? else {
            continue;
        };
        match stored.read() {
            Ok(task) => return step_task(engine, &stored, task).await,
            // A newer release wrote it, and will carry it out.
            Err(error) => throttle::say(&format!("task {number}"), |more| {
                tracing::warn!(number, %error, more, "a job for all boards failed; it will be tried again");
            }),
        }
    }
    Ok(Progress::Done)
}

async fn step_task(
    engine: &Engine,
    stored: &StoredTask,
    mut task: Task,
) -> Result<Progress, Error> {
    let left = task.left.clone();
    let fault = || StoreError::Unexpected("an open job has nothing left to do".into());
    let TaskLeft { action, after } = left.ok_or_else(fault)?;
    let number = stored.number;
    let boards = if is_overtaken(engine, number, &action).await? {
        Vec::new()
    } else {
        boards::ids(&engine.store, after.as_ref(), STEP_BOARDS_MAX).await?
    };
    let failed = act_on(engine, &action, &boards).await?;
    task.advance(&boards, failed);
    if boards.len() < STEP_BOARDS_MAX {
        // Clients rely on a task that is reported as finished.
        engine.wait_for_replicas(Instant::now()).await?;
        task.finish(engine.clock.now());
    }
    // If the task is not as read, another instance has continued it.
    store::note(&engine.store, stored, &task, engine.clock.now()).await?;
    Ok(Progress::More)
}

/// Whether a later order for the same member has replaced that of a task.
async fn is_overtaken(engine: &Engine, number: u64, action: &Action) -> Result<bool, Error> {
    Ok(match action {
        Action::Hide(member, _) => {
            orders::store::task_of(&engine.store, member).await? != Some(number)
        }
        Action::Unhide(member) => orders::store::task_of(&engine.store, member)
            .await?
            .is_some(),
        Action::Forget(..) => false,
    })
}

/// Carries out a task's action on these boards, and returns those where it failed.
async fn act_on(
    engine: &Engine,
    action: &Action,
    boards: &[BoardId],
) -> Result<Vec<FailedOn>, Error> {
    let acts: Vec<_> = boards
        .iter()
        .map(async |board| failure(board, work::act(engine, board, action).await))
        .collect();
    // An error that is not the fault of its board stops none of the others.
    let failed: Vec<_> = stream::iter(acts).buffered(BOARDS_AT_ONCE).collect().await;
    failed.into_iter().filter_map(Result::transpose).collect()
}

/// What a task records about a board where its action failed.
///
/// # Errors
///
/// The error itself if it is not the fault of the board, for example if a server does not answer: then the action is to be
/// repeated on all boards.
pub fn failure<T>(board: &BoardId, acted: Result<T, Error>) -> Result<Option<FailedOn>, Error> {
    let Err(error) = acted else {
        return Ok(None);
    };
    let failure = match &error {
        // It was deleted meanwhile.
        Error::BoardNotFound(_) => return Ok(None),
        error if error.is(TOO_MANY_HIDDEN) => TaskFailure::Full,
        Error::Unreadable { .. } | Error::OtherFormat(_) => TaskFailure::Unreadable,
        error if error.is_fault() => TaskFailure::Fault,
        _ => return Err(error),
    };
    tracing::error!(%board, %error, "a job for all boards failed for one board");
    Ok(Some(FailedOn {
        board: board.clone(),
        failure,
        detail: error.to_string(),
    }))
}
