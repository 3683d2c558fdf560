//! Which instances there are.

use std::sync::Arc;

use axum::Json as JsonResponse;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::problem::Problem;
use crate::domain::instance::{Instance, Part};
use crate::domain::time::Timestamp;

/// An instance of the service, as it was when it was last heard of.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Instance)]
pub struct InstanceBody {
    /// Its id: another one each time that it starts.
    pub id: String,
    /// The version of the program.
    pub version: String,
    /// The name of its machine, or container; null if that can't be told.
    pub host: Option<String>,
    /// Whether it answers requests.
    pub serves: bool,
    /// Whether it does background work.
    pub works: bool,
    /// When it started.
    pub started_at: Timestamp,
    /// When it was last heard of. A running instance tells of itself every 10 seconds.
    pub seen_at: Timestamp,
    /// How many faults its background work had then.
    pub fault_count: usize,
}

/// The instances of the service.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct InstanceList {
    /// The instances that were heard of within the last ten minutes. One that was stopped in good order is not among them.
    pub instances: Vec<InstanceBody>,
}

impl InstanceBody {
    fn new(id: String, instance: Instance) -> Self {
        Self {
            id,
            version: instance.version,
            host: instance.host,
            serves: instance.part != Part::Working,
            works: instance.part != Part::Serving,
            started_at: instance.started_at,
            seen_at: instance.seen_at,
            fault_count: instance.fault_count,
        }
    }
}

/// List the instances of the service.
#[utoipa::path(
    get, path = "/v1/instances", tag = "operations", operation_id = "list_instances",
    responses((status = 200, description = "The instances", body = InstanceList))
)]
pub async fn list(State(app): State<Arc<App>>) -> Result<JsonResponse<InstanceList>, Problem> {
    let instances = app.service.instances().await?.into_iter();
    let instances = instances.map(|(id, instance)| InstanceBody::new(id, instance));
    Ok(JsonResponse(InstanceList {
        instances: instances.collect(),
    }))
}
