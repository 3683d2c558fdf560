//! Stands in for Kafka in programs built without the feature `kafka`.

use std::sync::Arc;

use super::settings::Settings;
use crate::queue::intake::EventLog;

impl Settings {
    /// Reports that the program was built without Kafka.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn check_options(&self) -> Result<(), String> {
        let what = "this program was built without Kafka. Build it with `cargo build --release --features kafka`, or use the Docker image";
        Err(what.to_owned())
    }

    /// Connects to nothing.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn connect(self) -> Result<Arc<dyn EventLog>, String> {
        self.check_options()?;
        unreachable!("the check always fails")
    }
}
