//! The service's Redis: one's own, its replicas, and servers that go back to older data.

mod history;
mod losses;
mod own;
mod replicas;
