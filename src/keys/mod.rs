//! API keys: operators create, rotate and delete them here. What a key allows, and how a request is recognised by one, is in `access/`.
//!
//! A webhook belongs to the key that registered it. Therefore this room is above webhooks: it lists them with their key, and deletes
//! them with it.

pub mod routes;
pub mod work;
