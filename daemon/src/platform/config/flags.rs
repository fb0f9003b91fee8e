//! The flags of the command line that are part of the configuration.

use super::DaemonConfig;
use crate::platform::telemetry::LogFormat;
use oracled_api::base::directories::DefaultDirectories;
use std::path::{self, PathBuf};

/// The variable that names the configuration file; it is not itself a key.
pub const CONFIG_VARIABLE: &str = "ORACLED_CONFIG";

/// Flags that override the file and the variables.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DaemonFlags {
    /// Configuration file
    ///
    /// The default is oracled.toml in systemd's configuration directory, else in $XDG_CONFIG_HOME/oracled/, if it
    /// exists.
    #[arg(long, value_name = "FILE", env = CONFIG_VARIABLE)]
    pub config: Option<PathBuf>,
    /// Directory of the store and oracle_log.jsonl
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Path of the routes' socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Path of the control socket
    #[arg(long, value_name = "PATH")]
    pub control_socket: Option<PathBuf>,
    /// Format of the service log
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Allow keys, passwords, credentials and mail to cross a network in clear text
    ///
    /// With this flag, each start logs a warning. Without it, such a configuration is an error.
    #[arg(long)]
    pub allow_cleartext: bool,
}

impl DaemonFlags {
    /// The configuration file: the one that these flags name, else the default one if it exists.
    #[must_use]
    pub fn config_file(&self) -> Option<PathBuf> {
        self.config.clone().or_else(|| DefaultDirectories::from_environment().config_file())
    }

    /// The paths that have a flag: the key, the flag, and the value in `config`.
    pub(crate) fn paths<'a>(
        &'a self,
        config: &'a mut DaemonConfig,
    ) -> [(&'static str, &'a Option<PathBuf>, &'a mut PathBuf); 3] {
        [
            ("state_dir", &self.state_dir, &mut config.state_dir),
            ("socket", &self.socket, &mut config.socket),
            ("control_socket", &self.control_socket, &mut config.control_socket),
        ]
    }

    /// Overrides the values of `config`, and returns the keys of the paths that it overrides. A relative path is resolved
    /// against the current directory.
    pub(super) fn apply_to(&self, config: &mut DaemonConfig) -> Vec<&'static str> {
        config.log_format = self.log_format.unwrap_or(config.log_format);
        let mut keys = Vec::new();
        for (key, flag, value) in self.paths(config) {
            if let Some(flag) = flag {
                // an empty path has no absolute form, and is rejected later
                *value = path::absolute(flag).unwrap_or_else(|_| flag.clone());
                keys.push(key);
            }
        }
        keys
    }
}
