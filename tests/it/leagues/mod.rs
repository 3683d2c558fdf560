//! Leagues: seats, events, the turn of a period, reads, and whole seasons as a property.

mod definitions;
mod events;
mod reads;
pub mod seasons;
mod seats;
mod turning;
