//! Events in queues: how they get there, and what becomes of them.

mod applying;
mod around;
pub mod dead_letters;
mod faults;
mod intake;
mod letters;
mod losses;
mod repeats;
mod scripts;
mod taking;
mod workers;
