//! API keys: operators create, rotate and delete them here. What a key allows, and how requests are authenticated with one,
//! is in `access/`.
//!
//! A webhook belongs to the key that registered it. So this room is above webhooks: it lists a key's webhooks, and deletes
//! them with it.

pub mod routes;
pub mod work;
