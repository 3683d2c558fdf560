//! For operators: queues, memory, shards, instances and the log before the queues. `memory` of a board (in code its
//! *footprint*) estimates the size of its data in Redis from those of its keys that are large or that stand for others.

pub mod routes;
pub mod store;
pub mod work;
