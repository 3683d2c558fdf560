//! Members who are hidden, brought back or erased.

mod backups;
mod erasures;
mod final_lines;
mod guards;
mod hidden;
mod hides;
mod reads;
