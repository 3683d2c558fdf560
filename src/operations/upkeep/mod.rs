//! What people see who look after the service: queues, memory, shards, instances and the log before the queues. `memory` of a
//! board is an estimate of what its data takes in Redis (in code its *footprint*), by a sample of its keys.

pub mod routes;
pub mod store;
pub mod work;
