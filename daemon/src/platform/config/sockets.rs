//! The paths, modes and groups of the sockets.

use super::{ConfigError, DaemonConfig, SOCKET_PATH_MAX_BYTES, check_path, not_allowed_error};
use nix::unistd::{Gid, Group};
use std::path::Path;

/// The file of a socket that the daemon binds.
#[derive(Debug, Clone, Copy)]
pub struct SocketFile<'c> {
    /// The configuration key of the path.
    pub key: &'static str,
    pub path: &'c Path,
    pub mode: u32,
    /// The group; `None` for the daemon's own.
    pub group: Option<Gid>,
}

impl DaemonConfig {
    /// The file of the routes' socket.
    ///
    /// # Errors
    /// If the mode is not three or four octal digits, or the group does not exist.
    pub fn routes_socket_file(&self) -> Result<SocketFile<'_>, ConfigError> {
        Ok(SocketFile {
            key: "socket",
            path: &self.socket,
            mode: parse_mode("socket_mode", &self.socket_mode)?,
            group: find_group("socket_group", self.socket_group.as_deref())?,
        })
    }

    /// The file of the control socket.
    ///
    /// # Errors
    /// If the mode is not three or four octal digits, or lets every user of this machine connect. If the group does not exist.
    pub fn control_socket_file(&self) -> Result<SocketFile<'_>, ConfigError> {
        Ok(SocketFile {
            key: "control_socket",
            path: &self.control_socket,
            mode: self.control_socket_mode()?,
            group: find_group("control_socket_group", self.control_socket_group.as_deref())?,
        })
    }

    /// The file of the socket for reviewers; `None` if it has no path.
    ///
    /// # Errors
    /// As for the control socket.
    pub fn review_socket_file(&self) -> Result<Option<SocketFile<'_>>, ConfigError> {
        let (mode, group) = (self.review_socket_mode()?, self.review_socket_group()?);
        let path = self.review_socket.as_deref();
        Ok(path.map(|path| SocketFile { key: "review_socket", path, mode, group }))
    }

    fn control_socket_mode(&self) -> Result<u32, ConfigError> {
        parse_closed_mode(
            "control_socket_mode",
            &self.control_socket_mode,
            "control the daemon",
            "control_socket_group",
        )
    }

    fn review_socket_mode(&self) -> Result<u32, ConfigError> {
        parse_closed_mode(
            "review_socket_mode",
            &self.review_socket_mode,
            "decide reviews",
            "review_socket_group",
        )
    }

    fn review_socket_group(&self) -> Result<Option<Gid>, ConfigError> {
        find_group("review_socket_group", self.review_socket_group.as_deref())
    }

    /// The checks of each key.
    pub(super) fn check_sockets(&self) -> Vec<Result<(), ConfigError>> {
        let review = self.review_socket.as_deref();
        vec![
            check_path("socket", &self.socket, SOCKET_PATH_MAX_BYTES),
            check_path("control_socket", &self.control_socket, SOCKET_PATH_MAX_BYTES),
            review.map_or(Ok(()), |path| check_path("review_socket", path, SOCKET_PATH_MAX_BYTES)),
            parse_mode("socket_mode", &self.socket_mode).map(drop),
            self.control_socket_mode().map(drop),
            self.review_socket_mode().map(drop),
            find_group("socket_group", self.socket_group.as_deref()).map(drop),
            find_group("control_socket_group", self.control_socket_group.as_deref()).map(drop),
            self.review_socket_group().map(drop),
        ]
    }

    pub(super) fn check_distinct_sockets(&self) -> Result<(), ConfigError> {
        let differ = |key: &str, path: &Path, other: &str| {
            Err(not_allowed_error(key, path.display(), format_args!("another path than `{other}`")))
        };
        match self.review_socket.as_deref() {
            _ if self.socket == self.control_socket => {
                differ("control_socket", &self.control_socket, "socket")
            }
            Some(path) if path == self.socket => differ("review_socket", path, "socket"),
            Some(path) if path == self.control_socket => differ("review_socket", path, "control_socket"),
            _ => Ok(()),
        }
    }
}

/// Parses a mode that does not let every user of this machine connect. Users who can connect can do `what`.
fn parse_closed_mode(
    key: &'static str,
    digits: &str,
    what: &str,
    group_key: &str,
) -> Result<u32, ConfigError> {
    let mode = parse_mode(key, digits)?;
    if mode & 0o002 == 0 {
        return Ok(mode);
    }
    let given = format!("`{digits}`, which lets every user of this machine {what}");
    let allowed = format!("a mode without write permission for others: 0600, or 0660 with `{group_key}`");
    Err(not_allowed_error(key, given, allowed))
}

fn parse_mode(key: &'static str, digits: &str) -> Result<u32, ConfigError> {
    let is_octal = matches!(digits.len(), 3 | 4) && digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let parsed = u32::from_str_radix(digits, 8).ok().filter(|_| is_octal);
    parsed.filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600).ok_or_else(|| {
        not_allowed_error(
            key,
            format!("`{digits}`"),
            "three or four octal digits that let the owner read and write",
        )
    })
}

fn find_group(key: &'static str, name: Option<&str>) -> Result<Option<Gid>, ConfigError> {
    let Some(name) = name else { return Ok(None) };
    let group = Group::from_name(name).ok().flatten();
    let unknown = || {
        let given = format!("`{name}`, which does not exist");
        not_allowed_error(key, given, "the name of a group, as `getent group` lists them")
    };
    group.map(|group| Some(group.gid)).ok_or_else(unknown)
}
