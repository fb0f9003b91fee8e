//! The default directories of the configuration, the state and the sockets.

use std::env;
use std::path::PathBuf;

/// The default directories: systemd's if systemd runs the daemon, otherwise those of the XDG Base Directory
/// Specification.
#[derive(Debug)]
pub struct DefaultDirectories {
    /// The directory of the configuration file.
    pub config: PathBuf,
    /// The state directory.
    pub state: PathBuf,
    /// The directory of the sockets.
    pub runtime: PathBuf,
}

impl DefaultDirectories {
    /// The directories of this process.
    #[must_use]
    pub fn from_environment() -> Self {
        // the XDG specification ignores relative paths
        let variable = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = variable("HOME").unwrap_or_else(|| "/".into());
        let below =
            |base: Option<PathBuf>, rest: &str| base.unwrap_or_else(|| home.join(rest)).join("oracled");
        let config = variable("CONFIGURATION_DIRECTORY")
            .unwrap_or_else(|| below(variable("XDG_CONFIG_HOME"), ".config"));
        let state =
            variable("STATE_DIRECTORY").unwrap_or_else(|| below(variable("XDG_STATE_HOME"), ".local/state"));
        let runtime = variable("RUNTIME_DIRECTORY");
        // without a runtime directory the sockets are in the state directory, where only this user can create files
        let runtime = runtime.or_else(|| variable("XDG_RUNTIME_DIR").map(|dir| dir.join("oracled")));
        let runtime = runtime.unwrap_or_else(|| state.clone());
        Self { config, state, runtime }
    }

    /// The path at which a client connects to the socket `name`: the first that exists in `/run/oracled`, the runtime directory, and the
    /// state directory, which a daemon uses that was started without a runtime directory. Without any, that in the first directory that exists.
    #[must_use]
    pub fn find_socket(name: &str) -> PathBuf {
        let own = Self::from_environment();
        let directories = [PathBuf::from("/run/oracled"), own.runtime, own.state];
        let of_socket = directories.iter().find(|directory| directory.join(name).exists());
        let found = of_socket.or_else(|| directories.iter().find(|directory| directory.is_dir()));
        found.unwrap_or(&directories[1]).join(name)
    }

    /// The configuration file, if it exists.
    #[must_use]
    pub fn config_file(&self) -> Option<PathBuf> {
        Some(self.config.join("oracled.toml")).filter(|file| file.is_file())
    }
}
