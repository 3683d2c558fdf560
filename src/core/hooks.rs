//! The functions of other rooms that the core calls. The core declares when they are called; `setup.rs` says which they are. So
//! the core depends on none of these rooms.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::hide::erasures::Revised;
use super::jobs::Progress;
use super::{Engine, Error, LiveBoard};
use crate::domain::board::Board;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::redis::Store;

/// What a hook returns. It is boxed: hooks are rare, and the futures that await them don't grow.
pub type Called<'a, T = ()> = BoxFuture<'a, Result<T, Error>>;

/// Removes the name of an erased member from one kind of data of a board.
pub type ForgetMember = for<'a> fn(&'a Engine, &'a LiveBoard, &'a MemberId) -> Called<'a>;

/// The functions of other rooms that the core calls.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Before a board is created: whether something was ordered for all boards. If so the board is stored as opening, so
    /// that events and reads wait.
    pub has_orders: for<'a> fn(&'a Store) -> Called<'a, bool>,
    /// After a new board was stored: carries out what was ordered for all boards, and opens the board if it is opening.
    /// Returns the board as stored then; [`Error::Again`] if it was changed or deleted meanwhile.
    pub carry_out_orders: for<'a> fn(&'a Engine, &'a Arc<Board>) -> Called<'a, Arc<Board>>,

    /// When a board is new in memory: plans its background work.
    pub plan_work: fn(&Engine, &BoardId),

    /// Before a line that hides a member, or brings it back, is added to a shard's journal.
    pub begin_moderation: for<'a> fn(&'a Engine, &'a Board, &'a Shard) -> Called<'a>,

    /// When a shard refuses an erasure because results lack hides: revises the results of a board until all its hides are
    /// in them, and returns which those are.
    pub revise_results: for<'a> fn(&'a Engine, &'a BoardId) -> Called<'a, Revised>,
    /// When a member is erased: one function for each kind of data that may have its name. They are called before the keys
    /// of the member are removed, and again while any of these are left, and after each change of the definition. What has
    /// read the name before must not write it afterwards.
    pub forget_member: &'static [ForgetMember],
    /// Prevents all shards of a board from changing what events before this instant have made. `More`: queued events must
    /// be applied first, and were given some time; call it again.
    pub close_shards: for<'a> fn(&'a Engine, &'a BoardId, Timestamp) -> Called<'a, Progress>,

    /// When a member needs a seat in a league whose last period can't be closed yet: helps with the closing before it.
    pub help_closing: for<'a> fn(&'a Engine, &'a BoardId) -> Called<'a>,
    /// Closes a league's periods that end up to an instant, without results; [`Error::LeagueTurning`] if that must wait.
    pub close_league_until: for<'a> fn(&'a Engine, &'a BoardId, Timestamp) -> Called<'a>,
    /// Turns the seat of a member whose period is over; [`Error::LeagueTurning`] while the period can't be closed.
    pub turn_seat: for<'a> fn(&'a Engine, &'a BoardId, &'a MemberId) -> Called<'a>,
}
