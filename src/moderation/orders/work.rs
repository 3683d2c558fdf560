//! Applies standing orders to a board that is being created, before anyone can see it.
//!
//! If there are standing orders, a new board is first stored as opening, so that events and reads wait. It is listed before
//! the orders are read, so a task with a later order finds the board in the list.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::store::{self, StandingOrder, Whom};
use crate::core::board::store::boards::{self, Defined};
use crate::core::{Engine, Error, Outdated};
use crate::domain::board::Board;

/// How many members of a board are hidden concurrently.
const HIDES_AT_ONCE: usize = 32;

/// Applies all standing orders to a board that was just stored, and opens it if it is opening.
///
/// # Errors
///
/// [`Error::Again`] if it was changed or deleted meanwhile.
pub(crate) async fn carry_out_orders(
    engine: &Engine,
    board: &Arc<Board>,
) -> Result<Arc<Board>, Error> {
    boards::announce(&engine.store, &board.id, None).await?;
    let orders = store::all(&engine.store).await?;
    if !orders.is_empty() {
        carry_out(engine, board, &orders).await?;
    }
    if !board.placement.is_opening {
        return Ok(Arc::clone(board));
    }
    let stamp = boards::begin_change(&engine.store, &board.id).await?;
    let open = Arc::new(board.placed(board.placement.opened(), stamp));
    let defined = boards::define(&engine.store, &open, Some(board), None).await?;
    boards::end_change(&engine.store, &board.id, stamp).await?;
    (defined == Defined::Stored)
        .then_some(open)
        .ok_or(Error::Again(Outdated::Board))
}

/// Hides the members of some orders.
async fn carry_out(
    engine: &Engine,
    board: &Arc<Board>,
    orders: &[StandingOrder],
) -> Result<(), Error> {
    if !board.placement.current.is_together() {
        boards::open_shards(&engine.store, board).await?;
    }
    let now = engine.clock.now();
    let lasting = |order: &&StandingOrder| order.hide.until.is_none_or(|until| now < until);
    let (mut members, mut erased) = (Vec::new(), Vec::new());
    for order in orders.iter().filter(lasting) {
        match &order.whom {
            Whom::Member(member) => members.push(engine.hide_on(board, member, &order.hide)),
            Whom::Erased(name) => erased.push((name.as_str(), &order.hide)),
        }
    }
    let mut hides = stream::iter(members).buffer_unordered(HIDES_AT_ONCE);
    while hides.try_next().await?.is_some() {}
    engine.keep_hides(board, &erased).await
}
