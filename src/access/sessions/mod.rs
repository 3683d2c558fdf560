//! Sessions of the console, from signing in to signing out. The browser has the id, Redis its digest under a key that
//! expires. A session ends with its API key, since each request looks the key up again.

pub mod store;
pub mod work;
