//! The configuration, as `oracled check-config` checks it.
//!
//! `oracled` runs as a program: its checks are those of a start, they work without a daemon, and they read the file as it is now,
//! which a running daemon has not read yet.

use super::CheckResult;
use nix::unistd::geteuid;
use serde_json::Value;
use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CHECK: &str = "configuration";
/// The configuration file of an installed daemon.
const INSTALLED_CONFIG: &str = "/etc/oracled/oracled.toml";
/// The environment that systemd gives an installed daemon.
const INSTALLED_ENVIRONMENT: [(&str, &str); 4] = [
    ("CONFIGURATION_DIRECTORY", "/etc/oracled"),
    ("STATE_DIRECTORY", "/var/lib/oracled"),
    ("RUNTIME_DIRECTORY", "/run/oracled"),
    ("CREDENTIALS_DIRECTORY", "/run/credentials/oracled.service"),
];

/// A valid configuration, with the defaults of keys that are not set.
#[derive(Debug)]
pub(super) struct CheckedConfig(Value);

impl CheckedConfig {
    fn text(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer)?.as_str()
    }

    pub(super) fn state_dir(&self) -> Option<PathBuf> {
        self.text("/state_dir").map(PathBuf::from)
    }

    pub(super) fn min_free_bytes(&self) -> Option<u64> {
        self.0.pointer("/storage/min_free_bytes")?.as_u64()
    }

    /// The configured path, mode and group of the socket whose key is `key`.
    pub(super) fn socket(&self, key: &str) -> Option<(&str, &str, Option<&str>)> {
        let of = |suffix: &str| self.text(&format!("/{key}{suffix}"));
        Some((of("")?, of("_mode")?, of("_group")))
    }

    /// The paths of files with secrets, by their keys.
    pub(super) fn secret_files(&self) -> Vec<(String, PathBuf)> {
        let mut files = Vec::new();
        add_secret_files("", &self.0, &mut files);
        files
    }
}

fn add_secret_files(prefix: &str, value: &Value, files: &mut Vec<(String, PathBuf)>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let key = format!("{prefix}{name}");
        match value {
            // `check-config` hides a path that does not exist. A certificate is not secret
            Value::String(path) if name.ends_with("_file") && name != "certificate_file" => {
                files.extend(Path::new(path).is_absolute().then(|| (key, path.into())));
            }
            below => add_secret_files(&format!("{key}."), below, files),
        }
    }
}

/// The configuration that is checked.
#[derive(Debug, Clone)]
pub(super) enum ConfigSource {
    /// The file that the caller names.
    Named(PathBuf),
    /// The file with which the running daemon was started; `None` if it has none.
    OfDaemon(Option<PathBuf>),
    /// The file of an installed daemon, else the one that `oracled serve` reads.
    Default,
}

/// Checks the configuration. Returns it if it is valid.
pub(super) fn check_config(source: &ConfigSource) -> (Option<CheckedConfig>, Vec<CheckResult>) {
    let installed = Path::new(INSTALLED_CONFIG);
    let (file, is_installed) = match source {
        ConfigSource::Named(file) => (Some(file.as_path()), false),
        ConfigSource::OfDaemon(file) => (file.as_deref(), file.as_deref() == Some(installed)),
        ConfigSource::Default => (installed.exists().then_some(installed), installed.exists()),
    };
    // a secret that crosses a network in clear text is a warning here, since the flags of the daemon are not known
    // this program, as the daemon
    let mut command = Command::new("/proc/self/exe");
    command.arg0("oracled").args(["check-config", "--json", "--allow-cleartext"]).stdin(Stdio::null());
    if let Some(file) = file {
        command.arg("--config").arg(file);
    }
    if is_installed {
        command.envs(INSTALLED_ENVIRONMENT.into_iter().filter(|(name, _)| env::var_os(name).is_none()));
    }
    if matches!(source, ConfigSource::OfDaemon(None)) {
        // this user may have a default file that the daemon does not read: nothing is below this path
        command.env("CONFIGURATION_DIRECTORY", "/dev/null");
    }
    let name = match (source, file) {
        (_, Some(file)) => file.display().to_string(),
        (ConfigSource::OfDaemon(_), None) => "the configuration of the daemon, which has no file,".to_owned(),
        (_, None) => "the default configuration".to_owned(),
    };
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            let value = format!("cannot run `oracled check-config`: {error}");
            let remedy = "run `oracled check-config` yourself";
            return (None, vec![CheckResult::warning(CHECK, value, remedy)]);
        }
    };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = stderr.lines().map(|line| line.strip_prefix("oracled: ").unwrap_or(line));
    let lines = lines.map(|line| line.strip_prefix("configuration: ").unwrap_or(line));
    let config = serde_json::from_slice(&output.stdout).ok().map(CheckedConfig);
    let Some(config) = config.filter(|_| output.status.success()) else {
        return (None, lines.map(|fault| config_fault(&name, fault)).collect());
    };
    let warnings = lines.filter_map(|line| line.strip_prefix("warning: "));
    let warnings =
        warnings.map(|warning| CheckResult::warning(CHECK, warning, format!("change it in {name}")));
    let mut checks = vec![CheckResult::pass(CHECK, format!("{name} is valid"))];
    checks.extend(warnings);
    (Some(config), checks)
}

fn config_fault(name: &str, fault: &str) -> CheckResult {
    if fault.contains("Permission denied") && !geteuid().is_root() {
        return CheckResult::warning(CHECK, fault, "run oraclectl doctor as root");
    }
    CheckResult::fault(CHECK, fault, format!("correct {name}; the next start fails"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secret_files_are_found_at_each_level_and_hidden_paths_are_not() {
        let config = CheckedConfig(json!({
            "model": {"api_key_file": "/k", "name": "x"},
            "ingestion": {"credentials": {"wb": {"key_file": "/c.key", "certificate_file": "/c.crt"}}},
            "mail": {"password_file": "not shown: no file has this path"},
        }));
        let files = config.secret_files();
        let files: Vec<_> = files.iter().map(|(key, path)| (key.as_str(), path.to_str())).collect();
        assert_eq!(
            files,
            [("ingestion.credentials.wb.key_file", Some("/c.key")), ("model.api_key_file", Some("/k"))]
        );
    }
}
