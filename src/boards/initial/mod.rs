//! Initial scores: what members begin each period with. All existing standings of periods that are not closed follow in one
//! step (`initial.lua`).

pub mod routes;
pub mod work;
