//! What every route shares: errors, caching, and what one client may take from others.

mod budget;
mod caching;
mod connections;
mod crowding;
mod errors;
mod waiting;
