//! Tells which instances there are.

use std::collections::BTreeMap;

use super::{Error, Service};
use crate::domain::instance::Instance;

impl Service {
    /// The instances that were heard of lately, by their ids.
    pub async fn instances(&self) -> Result<BTreeMap<String, Instance>, Error> {
        let now = self.engine.clock.now();
        let mut instances = self.engine.store.instances().await?;
        instances.retain(|_, instance| instance.is_remembered(now));
        Ok(instances)
    }
}
