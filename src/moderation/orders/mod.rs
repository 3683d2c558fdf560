//! Standing orders: a member that a task hides on all boards is also hidden on boards created later, before anyone can see
//! them.

pub mod store;
pub(crate) mod work;
