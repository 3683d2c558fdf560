//! Events in queues: how they get there, and what becomes of them.

mod applying;
mod around;
mod dead_letters;
mod faults;
mod scripts;
mod taking;
mod workers;
