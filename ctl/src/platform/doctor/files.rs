//! The state directory with its keys, its disk, and the files with secrets.

use super::CheckResult;
use super::config::CheckedConfig;
use crate::base::input::decode_secret_key;
use nix::sys::statvfs::statvfs;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The keys in the state directory.
const KEYS: [&str; 2] = ["log.key", "held.key"];
const AS_ROOT: &str = "run oraclectl doctor as root or as the daemon's user";
/// Below this part of all inodes, a disk is nearly full.
const INODES_PART: u64 = 20;

/// Checks the permissions of the state directory, and its keys.
pub(super) fn check_state_dir(dir: &Path) -> Vec<CheckResult> {
    let at = dir.display();
    let found = match fs::metadata(dir) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let value = format!("{at} does not exist");
            return vec![CheckResult::warning("permissions", value, "the first start creates it")];
        }
        Err(error) => {
            return vec![CheckResult::warning("permissions", format!("{at}: {error}"), AS_ROOT)];
        }
    };
    let mode = found.mode() & 0o777;
    let value = format!("{at} has mode {mode:04o}");
    if mode & 0o022 != 0 {
        let value = format!("{value}: others can replace its files, so the daemon does not start");
        return vec![CheckResult::fault("permissions", value, format!("chmod go-w {at}"))];
    }
    if let Err(error) = fs::read_dir(dir) {
        return vec![CheckResult::warning("permissions", format!("{value}: {error}"), AS_ROOT)];
    }
    let mut checks = vec![CheckResult::pass("permissions", value)];
    checks.extend(KEYS.iter().filter_map(|name| check_key(dir, name)));
    checks
}

/// `None` if the key is not needed yet.
fn check_key(dir: &Path, name: &str) -> Option<CheckResult> {
    let file = dir.join(name);
    let at = file.display();
    let read = fs::metadata(&file).and_then(|found| Ok((found, fs::read(&file)?)));
    Some(match read {
        Ok((found, content)) if decode_secret_key(&content).is_some() => {
            check_secret_mode("key", &at.to_string(), &found)
        }
        Ok(_) => {
            let remedy = "restore it from a backup";
            CheckResult::fault("key", format!("{at} is not 32 bytes in Base64"), remedy)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // a key of the log can be a systemd credential
            let is_needed = name == "log.key" && dir.join("segments").exists();
            return is_needed.then(|| {
                let remedy = "restore it from a backup, unless the key is systemd's credential oracled_log-key; \
                              otherwise the next start creates a new key";
                CheckResult::warning("key", format!("{at} does not exist"), remedy)
            });
        }
        Err(error) => CheckResult::warning("key", format!("{at}: {error}"), AS_ROOT),
    })
}

/// Checks that others cannot read the secret in the file `name`.
fn check_secret_mode(check: &'static str, name: &str, found: &Metadata) -> CheckResult {
    let mode = found.mode() & 0o777;
    let value = format!("{name} has mode {mode:04o}");
    if mode & 0o077 == 0 {
        return CheckResult::pass(check, value);
    }
    let remedy = format!("chmod go= {name}, unless a group must read it");
    if mode & 0o007 == 0 {
        return CheckResult::warning(check, format!("{value}: its group can use the secret"), remedy);
    }
    let value = format!("{value}: every user can use the secret");
    CheckResult::fault(check, value, format!("chmod o= {name}, and replace the secret"))
}

/// Checks the permissions of the files with secrets that the configuration names.
pub(super) fn check_secret_files(config: &CheckedConfig) -> Vec<CheckResult> {
    let check = |(key, file): (String, std::path::PathBuf)| match fs::metadata(&file) {
        Ok(found) => check_secret_mode("secret", &file.display().to_string(), &found),
        Err(error) => CheckResult::warning("secret", format!("{key}: {error}"), AS_ROOT),
    };
    config.secret_files().into_iter().map(check).collect()
}

/// Checks the free space and the inodes of the disk with `dir`. `min_free_bytes` is `storage.min_free_bytes`.
pub(super) fn check_disk(dir: &Path, min_free_bytes: Option<u64>) -> Vec<CheckResult> {
    // the directory may not exist yet
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let disk = match statvfs(existing).map_err(io::Error::from) {
        Ok(disk) => disk,
        Err(error) => {
            return vec![CheckResult::warning("disk", format!("{}: {error}", existing.display()), AS_ROOT)];
        }
    };
    let free = disk.blocks_available().saturating_mul(disk.fragment_size());
    let inodes = (disk.files_available(), disk.files());
    vec![judge_space(free, min_free_bytes.unwrap_or(0)), judge_inodes(inodes.0, inodes.1)]
}

fn judge_space(free: u64, min_free: u64) -> CheckResult {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let value = format!("{} are free, and `storage.min_free_bytes` is {}", mib(free), mib(min_free));
    match () {
        () if free < min_free => {
            CheckResult::fault("disk", format!("{value}: new work is rejected"), "free space on the disk")
        }
        () if free < min_free.saturating_mul(4) => {
            CheckResult::warning("disk", value, "free space before new work is rejected")
        }
        () => CheckResult::pass("disk", value),
    }
}

/// `all` is 0 on file systems without a fixed number of inodes.
fn judge_inodes(free: u64, all: u64) -> CheckResult {
    if all == 0 {
        return CheckResult::pass("disk", "the file system has no limit of inodes");
    }
    let value = format!("{free} of {all} inodes are free");
    match () {
        () if free == 0 => CheckResult::fault("disk", value, "remove files on the disk"),
        () if free < all / INODES_PART => CheckResult::warning("disk", value, "remove files on the disk"),
        () => CheckResult::pass("disk", value),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckLevel::{Fault, Pass, Warning};
    use super::*;

    #[test]
    fn free_space_is_compared_with_the_reserve_of_the_daemon() {
        for (free, level) in [(9, Fault), (10, Warning), (39, Warning), (40, Pass)] {
            assert_eq!(judge_space(free, 10).level, level, "{free}");
        }
        assert_eq!(judge_space(0, 0).level, Pass);
    }

    #[test]
    fn inodes_are_judged_only_if_the_file_system_has_a_limit() {
        for (free, all, level) in [(0, 0, Pass), (0, 100, Fault), (4, 100, Warning), (5, 100, Pass)] {
            assert_eq!(judge_inodes(free, all).level, level, "{free} of {all}");
        }
    }
}
