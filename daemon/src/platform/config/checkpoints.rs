//! The configuration of checkpoints of the log.

use super::{ConfigError, check_path, not_allowed_error};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use utoipa::ToSchema;

/// Signed checkpoints of the log, which the daemon hands out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckpointsSection {
    /// Existing folder for the newest checkpoint, outside of `state_dir`, at best on another machine's disk. The daemon does not
    /// start if its log does not continue the log of that checkpoint.
    #[schema(value_type = Option<String>)]
    pub dir: Option<PathBuf>,
    /// Interval of checkpoints, while the log grows. Each is also in the service log.
    #[schema(minimum = 1, maximum = 86_400)]
    pub every_s: u64,
}

impl Default for CheckpointsSection {
    fn default() -> Self {
        Self { dir: None, every_s: 300 }
    }
}

impl CheckpointsSection {
    pub(super) fn check(&self, state_dir: &Path) -> Result<(), ConfigError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        check_path("checkpoints.dir", dir, usize::MAX)?;
        if dir.starts_with(state_dir) {
            return Err(not_allowed_error(
                "checkpoints.dir",
                dir.display(),
                "a folder outside of `state_dir`",
            ));
        }
        Ok(())
    }
}
