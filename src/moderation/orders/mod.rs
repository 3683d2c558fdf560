//! Standing orders: whom a task hides on all boards is hidden on boards that are created later, too, before anybody can see
//! them.

pub mod store;
pub(crate) mod work;
