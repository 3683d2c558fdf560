//! Stored API keys: creating, listing, rotating and deleting them. Each change is made and announced in one step
//! (`api_key.lua`), as all keys are in one slot. A webhook belongs to the key that made it, and may be deleted with the
//! key.

pub mod store;
