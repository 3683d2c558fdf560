//! The pages in Chromium: what only a browser can tell. `make browser` runs these tests; `make test` does not build them.

#![expect(unreachable_pub, reason = "nothing is outside of a test binary")]

mod chromium;
mod embedded;
#[path = "../it/harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the other tests need more of it")]
mod harness;
mod keyboard;
#[path = "../kit/mod.rs"]
#[expect(dead_code, reason = "the other tests need more of it")]
mod kit;
mod plain;
mod screenshots;
mod walk;
mod webdriver;
mod worlds;
