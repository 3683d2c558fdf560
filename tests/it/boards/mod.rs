//! Boards: their definitions, how they change and end, and what a damaged one does to others.

mod damage;
mod definitions;
mod deleted;
mod deletion;
mod expiry;
mod memory;
mod redefined;
mod registries;
