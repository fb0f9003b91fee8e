//! The two sockets: existence, mode, group, and whether this user may connect.

use super::CheckResult;
use super::config::CheckedConfig;
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use nix::unistd::{Gid, Group};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

const CHECK: &str = "socket";
/// systemd binds the sockets here, with the mode and the group of its units.
const SYSTEMD_SOCKETS: &str = "/run/oracled";

pub(super) fn check_sockets(
    options: &GlobalOptions,
    config: Option<&CheckedConfig>,
) -> Result<Vec<CheckResult>, CtlError> {
    let paths = [("socket", options.routes_path()?), ("control_socket", options.control_path()?)];
    Ok(paths.iter().map(|(key, path)| check_socket(key, path, config)).collect())
}

fn check_socket(key: &str, path: &Path, config: Option<&CheckedConfig>) -> CheckResult {
    let at = path.display();
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let remedy = format!("start the daemon, or name the path with --{}", key.replace('_', "-"));
            return CheckResult::warning(CHECK, format!("{at} does not exist"), remedy);
        }
        Err(error) => {
            return CheckResult::warning(CHECK, format!("{at}: {error}"), "run oraclectl doctor as root");
        }
    };
    if !found.file_type().is_socket() {
        return CheckResult::fault(CHECK, format!("{at} is not a socket"), "move the file away");
    }
    let (mode, group) = (found.mode() & 0o777, group_name(found.gid()));
    let value = format!("{at} has mode {mode:04o} and group {group}");
    if key == "control_socket" && mode & 0o002 != 0 {
        let value = format!("{value}: every user can control the daemon");
        return CheckResult::fault(CHECK, value, format!("chmod o-w {at}, and set `control_socket_mode`"));
    }
    if let Err(error) = UnixStream::connect(path) {
        return connect_fault(&value, &error, &group);
    }
    let (_, configured_mode, configured_group) =
        match config.and_then(|config| config.socket(key)).filter(|_| !path.starts_with(SYSTEMD_SOCKETS)) {
            Some(configured) => configured,
            None => return CheckResult::pass(CHECK, value),
        };
    let has_mode = u32::from_str_radix(configured_mode, 8).is_ok_and(|configured| configured == mode);
    if has_mode && configured_group.is_none_or(|configured| configured == group) {
        return CheckResult::pass(CHECK, value);
    }
    let group = configured_group.map(|group| format!(" and group {group}")).unwrap_or_default();
    let value = format!("{value}, and the configuration has mode {configured_mode}{group}");
    CheckResult::warning(CHECK, value, "restart the daemon; it applies both when it binds the socket")
}

fn connect_fault(value: &str, error: &io::Error, group: &str) -> CheckResult {
    let value = format!("{value}: {error}");
    match error.kind() {
        ErrorKind::PermissionDenied => {
            let remedy = format!("sudo usermod -aG {group} \"$USER\", and log in again");
            CheckResult::warning(CHECK, value, remedy)
        }
        ErrorKind::ConnectionRefused => CheckResult::fault(CHECK, value, "start the daemon"),
        _ => CheckResult::fault(CHECK, value, "`journalctl -u oracled` has the cause"),
    }
}

fn group_name(gid: u32) -> String {
    let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
    group.map_or_else(|| gid.to_string(), |group| group.name)
}
