//! Files with a secret key: 32 bytes in Base64.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom, generate};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::{fs, io};

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
            "every user can use the key (mode {mode:04o}); run `chmod o= {}`, and replace the key if others may have read it",
            file.display()
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

// Ids of events and calls.
//
// An id stays in the log after an erasure. So it has a time and a random part, and nothing of what it names: neither an id of a
// session nor a digest of a text, which a reader who guesses the text can confirm.

/// The digits of the random part.
const TAG_DIGITS: usize = 10;

/// A new id. Ids of one kind sort by time as texts, and are unique across restarts and when the clock is set back.
pub fn unique_id(kind: char, at: Timestamp) -> String {
    let tag = format!("{:016x}", random_tag());
    format!("{kind}-{:014x}-{}", at.as_microsecond(), &tag[..TAG_DIGITS])
}

/// A random number that makes an id unique.
pub fn random_tag() -> u64 {
    let random = generate::<[u8; 8]>(&SystemRandom::new()).expect("the system has random numbers");
    u64::from_be_bytes(random.expose())
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

    mod unique_id {
        use crate::key_file::*;

        #[test]
        fn ids_of_the_same_time_differ_and_sort_by_time() {
            let at: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a time");
            let (first, second) = (unique_id('v', at), unique_id('v', at));
            assert_ne!(first, second);
            assert_eq!(first.len(), "v-0660bc5347f1ed-d07ba42cbb".len());
            let later = unique_id('v', at + jiff::SignedDuration::from_micros(1));
            assert!(first < later && second < later);
        }
    }
}
