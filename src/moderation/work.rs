//! Hides a member, brings it back, or erases it: on one board, on many, or on all; reports the progress on all boards.

use std::collections::BTreeSet;
use std::time::Instant;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::erasures::note_everywhere;
use super::orders::store::{StandingOrder, Whom};
use super::tasks::model::{Action, FailedOn, Task, TaskStatus};
use super::{orders, tasks};
use crate::audit;
use crate::core::board::store::boards;
pub use crate::core::hide::hides::Hiding;
use crate::core::hide::store::erasures;
use crate::core::{Engine, Error};
use crate::domain::erasure::Erasure;
use crate::domain::hide::Hide;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::part::Part;
use crate::domain::problems::Problem;
use crate::profiles;

/// How many boards are changed concurrently.
const BOARDS_AT_ONCE: usize = 16;
/// On how many boards a member is erased concurrently.
const ERASED_AT_ONCE: usize = 32;

/// A member's hide before and after an action on a board; `None` where it is not hidden.
pub type HideChange = [Option<Hide>; 2];

/// Hides a member of a board; an existing hide keeps its `id`, `since` and `by`. Once this returns, no later read of any
/// instance shows the member.
///
/// # Errors
///
/// [`Problem::too_many_hidden`] if the board has the maximum number of hidden members.
pub async fn hide(
    engine: &Engine,
    id: &BoardId,
    member: &MemberId,
    hide: &Hide,
) -> Result<Hiding, Error> {
    let hidden = engine.hide(id, member, hide).await?;
    engine.wait_for_replicas(Instant::now()).await?;
    Ok(hidden)
}

/// A member's hide on a board.
///
/// # Errors
///
/// [`Problem::not_hidden`] if it has none.
pub async fn require_hide(engine: &Engine, id: &BoardId, member: &MemberId) -> Result<Hide, Error> {
    let hidden = engine
        .hidden_among(id, std::slice::from_ref(member))
        .await?;
    let hide = hidden.into_iter().next().map(|(_, hide)| hide);
    hide.ok_or_else(|| Problem::not_hidden(id, member.as_str()).into())
}

/// Brings a member of a board back. Once this returns, every later read shows the member. Returns its former hide.
///
/// # Errors
///
/// [`Problem::not_hidden`] if it had none.
pub async fn unhide(engine: &Engine, id: &BoardId, member: &MemberId) -> Result<Hide, Error> {
    let before = engine.unhide(id, member, None).await?;
    engine.wait_for_replicas(Instant::now()).await?;
    before.ok_or_else(|| Problem::not_hidden(id, member.as_str()).into())
}

/// Erases a member of a board: nothing written about it before counts. Once this returns, no later read of any instance
/// shows the member. The member need not have a score. A job removes any data that is left then.
pub async fn erase(engine: &Engine, id: &BoardId, member: &MemberId) -> Result<(), Error> {
    engine.live_board(id).await?;
    let number = erasures::begin(&engine.store, id).await?;
    let at = engine.clock.arrival();
    carry_out(engine, id, member, &Erasure { number, at }, number).await
}

/// Erases a member that was erased before and is back because older data was restored. If the board knows that erasure, or a
/// later one of the member, its data stays.
pub(crate) async fn erase_again(
    engine: &Engine,
    id: &BoardId,
    member: &MemberId,
    erasure: &Erasure,
) -> Result<(), Error> {
    let noted = erasures::begin(&engine.store, id).await?;
    carry_out(engine, id, member, erasure, noted).await
}

/// Carries out an erasure that is noted under this number.
async fn carry_out(
    engine: &Engine,
    id: &BoardId,
    member: &MemberId,
    erasure: &Erasure,
    noted: u64,
) -> Result<(), Error> {
    engine.erase_at(id, member, erasure).await?;
    let acknowledged = Instant::now();
    if let Err(error) = engine.end_erasure(id, member, noted).await {
        tracing::warn!(board = %id, %error, "remaining data of an erased member will be removed later");
    }
    engine.wait_for_replicas(acknowledged).await
}

/// Erases a member on all existing boards, with its profile and its name in the audit log and in its standing order.
/// Returns the number of the task that removes the remaining data and lists the boards where this or the erasure fails.
pub async fn erase_everywhere(engine: &Engine, member: &MemberId) -> Result<u64, Error> {
    let store = &engine.store;
    // Before the boards are listed, so a board created later finds the order without the member's id.
    orders::store::forget_member(store, member).await?;
    let boards = boards::all_ids(store).await?;
    let number = match boards.first() {
        Some(first) => erasures::begin(store, first).await?,
        None => boards::stamp_ago(store, 0).await?.unsigned_abs(),
    };
    let at = engine.clock.arrival();
    note_everywhere(store, member, Erasure { number, at }).await?;
    let failed = erase_on_all(engine, &boards, member, number).await?;
    profiles::work::forget(engine, member).await?;
    audit::store::forget_member(store, member).await?;
    let forget = Action::Forget(member.clone(), number);
    let begun = tasks::job::begin(engine, forget, failed).await?;
    engine.wait_for_replicas(Instant::now()).await?;
    Ok(begun.number)
}

/// Erases a member on all existing boards under one erasure number, begun on the first of them. Returns the boards where that
/// failed: they don't delay the others.
async fn erase_on_all(
    engine: &Engine,
    boards: &BTreeSet<BoardId>,
    member: &MemberId,
    number: u64,
) -> Result<Vec<FailedOn>, Error> {
    let erased: Vec<_> = boards
        .iter()
        .map(async |id| {
            erasures::note(&engine.store, id, number).await?;
            tasks::job::failure(id, engine.erase(id, member, number).await)
        })
        .collect();
    let erased = stream::iter(erased).buffer_unordered(ERASED_AT_ONCE);
    let failed = erased.try_filter_map(async |failed| Ok(failed));
    failed.try_collect().await
}

/// Hides a member on some boards, or brings it back. Returns the outcome for each board. Once this returns, it holds for
/// all later reads of any instance.
pub async fn moderate(
    engine: &Engine,
    boards: &[BoardId],
    action: &Action,
) -> Result<Vec<Result<HideChange, Error>>, Error> {
    let moderated: Vec<_> = boards
        .iter()
        .map(
            async |board| match (act(engine, board, action).await?, action) {
                ([None, _], Action::Unhide(member)) => {
                    Err(Problem::not_hidden(board, member.as_str()).into())
                }
                (change, _) => Ok(change),
            },
        )
        .collect();
    let results = stream::iter(moderated)
        .buffered(BOARDS_AT_ONCE)
        .collect()
        .await;
    engine.wait_for_replicas(Instant::now()).await?;
    Ok(results)
}

/// Carries out an action on a board.
pub(crate) async fn act(
    engine: &Engine,
    board: &BoardId,
    action: &Action,
) -> Result<HideChange, Error> {
    Ok(match action {
        Action::Hide(member, hide) => {
            let Hiding { hide, before } = engine.hide(board, member, hide).await?;
            [before, Some(hide)]
        }
        Action::Unhide(member) => [engine.unhide(board, member, None).await?, None],
        Action::Forget(member, number) => {
            engine.end_erasure(board, member, *number).await?;
            [None, None]
        }
    })
}

/// Lists tasks with their numbers: up to `count` after `after`. Running tasks come oldest first, finished ones latest
/// first. Skips tasks of a newer release that can't be read.
pub async fn list_tasks(
    engine: &Engine,
    status: TaskStatus,
    after: Option<u64>,
    count: usize,
) -> Result<Part<(u64, Task), u64>, Error> {
    let stored = tasks::store::list(&engine.store, status, after, count + 1).await?;
    let Part { items, next } = Part::split(stored, count, |last| last.number);
    let tasks = items
        .iter()
        .filter_map(|stored| Some((stored.number, stored.read().ok()?)));
    let items = tasks.collect();
    Ok(Part { items, next })
}

/// Lists standing orders as members and their hides, in byte order of the members: up to `count` after `after`. Skips those
/// of erased members.
pub async fn list_orders(
    engine: &Engine,
    after: Option<&MemberId>,
    count: usize,
) -> Result<Part<(MemberId, Hide), MemberId>, Error> {
    let members = orders::store::members(&engine.store, after, count + 1).await?;
    let Part { items, next } = Part::split(members, count, MemberId::clone);
    let items = orders_for(engine, &items).await?;
    Ok(Part { items, next })
}

/// The standing orders for these members.
pub async fn orders_for(
    engine: &Engine,
    members: &[MemberId],
) -> Result<Vec<(MemberId, Hide)>, Error> {
    let orders = orders::store::of_members(&engine.store, members).await?;
    let orders = orders
        .into_iter()
        .filter_map(|StandingOrder { whom, hide, .. }| match whom {
            Whom::Member(member) => Some((member, hide)),
            Whom::Erased(_) => None,
        });
    Ok(orders.collect())
}
