//! The paths, modes and groups of the sockets.

use super::{ConfigError, not_allowed_error};
use nix::unistd::{Gid, Group};
use std::path::Path;

/// Maximum length of a Unix socket's path, in bytes.
pub(crate) const SOCKET_PATH_MAX_BYTES: usize = 107;

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

/// The files of the sockets.
#[derive(Debug, Clone, Copy)]
pub struct SocketFiles<'c> {
    pub routes: SocketFile<'c>,
    pub control: SocketFile<'c>,
    /// The socket for reviewers; `None` if it has no path.
    pub review: Option<SocketFile<'c>>,
}

/// The configuration keys of a socket's file.
#[derive(Debug, Clone, Copy)]
pub struct SocketKeys<'c> {
    /// The key of the path. Those of the mode and the group begin with it.
    pub key: &'static str,
    pub mode: &'c str,
    pub group: Option<&'c str>,
    /// What users who can connect can do, if not every user of this machine may do it.
    pub power: Option<&'static str>,
}

impl<'c> SocketKeys<'c> {
    /// The file with this path.
    ///
    /// # Errors
    /// If the mode is not three or four octal digits, or lets every user of this machine connect to a socket with `power`. If the
    /// group does not exist.
    pub fn file(&self, path: &'c Path) -> Result<SocketFile<'c>, ConfigError> {
        Ok(SocketFile { key: self.key, path, mode: self.parse_mode()?, group: self.find_group()? })
    }

    /// The permissions of the file.
    pub(crate) fn parse_mode(&self) -> Result<u32, ConfigError> {
        let (key, digits) = (format!("{}_mode", self.key), self.mode);
        let is_octal =
            matches!(digits.len(), 3 | 4) && digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        let parsed = u32::from_str_radix(digits, 8).ok().filter(|_| is_octal);
        let Some(mode) = parsed.filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600) else {
            let allowed = "three or four octal digits that let the owner read and write";
            return Err(not_allowed_error(key, format!("`{digits}`"), allowed));
        };
        match self.power {
            Some(power) if mode & 0o002 != 0 => {
                let given = format!("`{digits}`, which lets every user of this machine {power}");
                let allowed = format!(
                    "a mode without write permission for others: 0600, or 0660 with `{}_group`",
                    self.key
                );
                Err(not_allowed_error(key, given, allowed))
            }
            _ => Ok(mode),
        }
    }

    /// The group of the file; `None` for the daemon's own.
    pub(crate) fn find_group(&self) -> Result<Option<Gid>, ConfigError> {
        let Some(name) = self.group else { return Ok(None) };
        let group = Group::from_name(name).ok().flatten();
        let unknown = || {
            let given = format!("`{name}`, which does not exist");
            let allowed = "the name of a group, as `getent group` lists them";
            not_allowed_error(format!("{}_group", self.key), given, allowed)
        };
        group.map(|group| Some(group.gid)).ok_or_else(unknown)
    }
}
