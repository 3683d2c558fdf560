//! Finds problems of a server that works: it may lose data, or currently refuses writes.

use futures::future::join;

use crate::audit::store::LOG_BYTES_MAX;
use crate::redis::dispatch::Store;
use crate::redis::node::Node;
use crate::redis::reply::info_fields;
use crate::redis::{StoreError, keys, script};
use crate::runtime::join::join_all;

/// Warnings for people: settings with which a primary may lose data, and primaries that take no writes or can't be reached.
/// Always reads the current state.
pub async fn current(store: &Store) -> Vec<String> {
    let is_cluster = store.topology.is_cluster();
    let primaries = store.topology.primaries();
    let asked = primaries.iter().map(async |(server, node)| {
        let mut warnings = of_node(node).await;
        if is_cluster {
            for warning in &mut warnings {
                warning.insert_str(0, &format!("{server}: "));
            }
        }
        warnings
    });
    let (mut warnings, of_audit) = join(join_all(asked), of_audit(store)).await;
    warnings.push(of_audit.into_iter().collect());
    warnings.concat()
}

/// Whether the audit log is about to lose lines early. If Redis does not report it, other warnings do.
async fn of_audit(store: &Store) -> Option<String> {
    let [_, _, size] = keys::AUDIT_LINES;
    let is_near = store
        .command::<Option<u64>>("GET", vec![size.to_owned()])
        .await
        .ok()??
        > LOG_BYTES_MAX / 10 * 9;
    is_near.then(|| AUDIT_IS_FULL.to_owned())
}

const AUDIT_IS_FULL: &str = "the audit log has nearly reached its maximum size, so its oldest lines are dropped early. \
                             Set STANDINGS_AUDIT_DAYS to fewer days";

async fn of_node(node: &Node) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Err(failure) = node.run(&script::WRITABLE, Vec::new()).await {
        let error = StoreError::from(failure);
        warnings.push(error.to_string());
        if !matches!(error, StoreError::Full(_)) {
            return warnings;
        }
    }
    warnings.extend(of_settings(node).await);
    warnings
}

/// Settings with which it may lose data.
async fn of_settings(node: &Node) -> Vec<String> {
    let sections = ["memory", "persistence"].map(str::to_owned).to_vec();
    let info: String = match node.readers.command("INFO", sections).await {
        Ok(info) => info,
        Err(failure) => {
            let error = StoreError::from(failure);
            return vec![format!("its settings could not be checked: {error}")];
        }
    };
    let fields = info_fields(&info);
    let mut warnings = Vec::new();
    match fields.get("maxmemory_policy") {
        Some(&"noeviction") => {}
        Some(policy) => warnings.push(format!(
            "maxmemory-policy is {policy}: when its memory is full, Redis deletes standings and remembered events. Set it \
             to noeviction"
        )),
        None => warnings.push("maxmemory-policy could not be checked: it must be noeviction".into()),
    }
    match fields.get("aof_enabled") {
        Some(&"1") => {}
        Some(_) => warnings.extend(of_snapshots(node).await),
        None => warnings.push("its append-only file could not be checked".into()),
    }
    warnings
}

/// Whether snapshots are disabled, too.
async fn of_snapshots(node: &Node) -> Option<String> {
    let asked = vec!["GET".to_owned(), "save".to_owned()];
    match node.readers.command::<Vec<String>>("CONFIG", asked).await {
        Ok(setting) if setting.get(1).is_some_and(|save| !save.is_empty()) => None,
        Ok(setting) if !setting.is_empty() => Some(
            "its append-only file (appendonly) and its snapshots (save) are both off: all data is lost when it stops"
                .into(),
        ),
        Ok(_) | Err(_) => Some(
            "its append-only file is off, and its snapshots could not be checked because it refuses CONFIG GET"
                .into(),
        ),
    }
}
