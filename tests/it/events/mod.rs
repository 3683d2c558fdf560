//! Events: what becomes of each, in which order, by which quotas, and what is kept of them.

mod arrival;
mod data;
mod order;
mod outcomes;
mod quotas;
mod records;
mod reservations;
mod votes;
