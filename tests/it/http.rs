//! The HTTP contract: every error by a request that causes it, caching, who may do what, and the shapes of answers.

mod access;
mod api_keys;
mod audit;
mod boards;
mod budget;
mod caching;
mod damage;
mod data;
mod deletion;
mod erasures;
mod errors;
mod events;
mod expiry;
mod final_lines;
mod hiding;
mod history;
mod moderation;
mod players;
mod profiles;
mod quotas;
mod reads;
mod reservations;
mod resharding;
mod shards;
mod votes;
mod webhooks;
