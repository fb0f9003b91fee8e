//! The flags of the command line that are part of the configuration.

use super::DaemonConfig;
use crate::platform::telemetry::LogFormat;
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
    /// Whether a flag sets the path `key`.
    pub(super) fn sets(&self, key: &str) -> bool {
        let paths = [
            ("state_dir", &self.state_dir),
            ("socket", &self.socket),
            ("control_socket", &self.control_socket),
        ];
        paths.iter().any(|(name, flag)| *name == key && flag.is_some())
    }

    /// Overrides the values of `config`. A relative path is resolved against the current directory.
    pub(super) fn apply_to(&self, config: &mut DaemonConfig) {
        let Self { config: _, state_dir, socket, control_socket, log_format, allow_cleartext: _ } = self;
        for (flag, value) in [
            (state_dir, &mut config.state_dir),
            (socket, &mut config.socket),
            (control_socket, &mut config.control_socket),
        ] {
            if let Some(flag) = flag {
                // an empty path has no absolute form, and is rejected later
                *value = path::absolute(flag).unwrap_or_else(|_| flag.clone());
            }
        }
        if let Some(log_format) = log_format {
            config.log_format = *log_format;
        }
    }
}
