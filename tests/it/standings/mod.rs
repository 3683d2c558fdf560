//! Reads of standings: pages, members and subsets, of now and of the past.

mod kept;
mod past;
mod reads;
mod revisions;
