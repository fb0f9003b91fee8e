//! Files with a secret key: 32 bytes in Base64.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The length of a key, in bytes.
pub const KEY_BYTES: usize = 32;
/// The longest file that is read as a key, in bytes.
const FILE_MAX_BYTES: u64 = 1024;

/// Reads the key in a file.
///
/// # Errors
/// If the file has no key, cannot be read, or every user can read or write it.
pub fn read_key(file: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let invalid = || io::Error::new(ErrorKind::InvalidData, "it is not 32 bytes in Base64");
    let found = fs::metadata(file)?;
    if !found.is_file() {
        return Err(invalid());
    }
    let mode = found.mode() & 0o777;
    if mode & 0o007 != 0 {
        let fault = format!(
            "every user can use the key (mode {mode:04o}); run `chmod o= FILE`, and replace the key if others may have read it"
        );
        return Err(io::Error::new(ErrorKind::PermissionDenied, fault));
    }
    let mut text = String::new();
    File::open(file)?.take(FILE_MAX_BYTES).read_to_string(&mut text)?;
    let key = BASE64_STANDARD.decode(text.trim()).ok().and_then(|key| key.try_into().ok());
    key.ok_or_else(invalid)
}

/// Creates a file with a random key, durably. It has another name first, so that no partial key remains.
///
/// # Errors
/// If the file cannot be written.
pub fn create_key(file: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("the system has no random numbers"))?;
    let piece = file.with_extension("key.new");
    // a file of an interrupted creation may have another mode, which an open would keep
    match fs::remove_file(&piece) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&piece)?;
    writeln!(new, "{}", BASE64_STANDARD.encode(key))?;
    new.sync_all()?;
    fs::rename(&piece, file)?;
    if let Some(dir) = file.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn key_that_every_user_can_use_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("held.key");
        let key = create_key(&file).expect("the key is created");
        for (mode, is_used) in [(0o600, true), (0o640, true), (0o644, false), (0o602, false), (0o604, false)]
        {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("the mode is set");
            let read = read_key(&file);
            assert_eq!(read.as_ref().ok(), is_used.then_some(&key), "{mode:04o}");
            assert!(is_used || read.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied));
        }
    }

    #[test]
    fn created_key_has_its_mode_after_an_interrupted_creation() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("log.key");
        let incomplete = file.with_extension("key.new");
        fs::write(&incomplete, "half").expect("the file is written");
        fs::set_permissions(&incomplete, fs::Permissions::from_mode(0o644)).expect("the mode is set");
        let key = create_key(&file).expect("the key is created");
        assert_eq!(read_key(&file).ok(), Some(key));
        let mode = fs::metadata(&file).expect("the key exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!incomplete.exists());
    }
}
