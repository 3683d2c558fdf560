//! Initial scores, with which members begin each period. All existing standings of periods that are not closed are updated
//! in the same step (`initial.lua`).

pub mod routes;
pub mod work;
