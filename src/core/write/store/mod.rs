//! Script calls that apply events, remember them, count quotas, and seat members of leagues.

pub mod events;
pub mod initial;
pub(crate) mod key_list;
pub mod quotas;
pub mod reservations;
pub mod seats;
