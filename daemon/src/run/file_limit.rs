//! The limit of open files, and the connections that it allows.

use crate::platform::config::LimitsSection;
use crate::platform::listen::refusal::REFUSALS_MAX;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// File descriptors reserved for the store, the log and others.
const OTHER_FILES: u64 = 256;
/// Maximum number of connections to the routes' socket for this limit of open files. More connections would
/// leave no file descriptors for the store.
pub(super) fn limit_connections(files: u64, limits: &LimitsSection) -> usize {
    let left = files.saturating_sub(OTHER_FILES).saturating_sub(limits.control_connections as u64);
    let left = left.saturating_sub(2 * REFUSALS_MAX as u64);
    let connections = limits.connections.min(usize::try_from(left).unwrap_or(usize::MAX)).max(1);
    if connections < limits.connections {
        tracing::warn!(
            connections,
            file_limit = files,
            "fewer connections than configured: raise the limit on open files"
        );
    }
    connections
}

/// Raises the limit of open files to the needs of the connections, as far as the system allows. Returns the
/// resulting limit.
pub(super) fn raise(connections: usize) -> u64 {
    let needed = connections as u64 + OTHER_FILES + 2 * REFUSALS_MAX as u64;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 0 };
    let raised = needed.min(hard);
    if soft < raised && setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() {
        return raised;
    }
    soft
}
