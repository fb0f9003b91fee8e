//! The key that encrypts verdicts that the policy holds: ChaCha20-Poly1305 with the session id as additional data.

use actors_platform::key_file::{KEY_BYTES, create_key, read_key};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_base::digest::Sha256Hex;
use domain_base::session_id::SessionId;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::spawn_blocking;

/// The name of the key in the state directory.
const FILE: &str = "held.key";

/// Why a held verdict was not encrypted or decrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeldKeyError {
    #[error("the key of held verdicts in {} cannot be used: {cause}; {}", .place.name(), .place.remedy())]
    File { place: HeldKeyPlace, cause: String },
    #[error(
        "the held verdict of session {session_id} cannot be decrypted: {} has another key, or the verdict is damaged; \
         restore the key, or retry or fail the order", .place.name()
    )]
    Decryption { session_id: SessionId, place: HeldKeyPlace },
}

impl HeldKeyError {
    /// Whether orders whose verdicts may be held wait for the key. With another key, they continue.
    #[must_use]
    pub const fn delays_orders(&self) -> bool {
        matches!(self, Self::File { .. })
    }
}

/// Where the key of held verdicts is. Errors name it without a path, because applications see some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldKeyPlace {
    StateDir,
    Provided,
}

impl HeldKeyPlace {
    const fn name(self) -> &'static str {
        match self {
            Self::StateDir => "`held.key` in the state directory",
            Self::Provided => "`gate.held_key_file` or the credential `oracled_held-key`",
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::StateDir => {
                "restore it, or retry or fail all held orders and remove it, so that the daemon creates another one"
            }
            Self::Provided => "restore it",
        }
    }
}

/// The key of held verdicts. It is read from its file each time, so a restored file needs no restart.
#[derive(Debug, Clone)]
pub struct HeldVerdictKey {
    file: PathBuf,
    /// Locked while the file is created; `None` if the file is never created.
    creation: Option<Arc<Mutex<()>>>,
}

impl HeldVerdictKey {
    /// The key in a file that the operator provides.
    ///
    /// # Errors
    /// If the file has no key, or cannot be read.
    pub fn provided(file: PathBuf) -> io::Result<Self> {
        read_key(&file)?;
        Ok(Self { file, creation: None })
    }

    /// The key in the state directory, which is created at its first use.
    #[must_use]
    pub fn in_state_dir(state_dir: &Path) -> Self {
        Self { file: state_dir.join(FILE), creation: Some(Arc::default()) }
    }

    /// Checks that verdicts can be encrypted. A missing key is created only with `may_create`.
    pub(crate) async fn check(&self, may_create: bool) -> Result<(), HeldKeyError> {
        self.read(may_create).await.map(drop)
    }

    /// The digest of the key, which all hosts of a cluster compare. A missing key in the state directory is created. Blocks on the disk.
    ///
    /// # Errors
    /// The key cannot be read or created.
    pub fn digest(&self) -> Result<Sha256Hex, HeldKeyError> {
        self.read_file(true).map(|key| Sha256Hex::of(&key)).map_err(|error| self.error(error))
    }

    /// Encrypts `text`, as Base64. A missing key is created only with `may_create`.
    pub(crate) async fn seal(
        &self,
        session_id: &SessionId,
        mut text: Vec<u8>,
        may_create: bool,
    ) -> Result<String, HeldKeyError> {
        let key = self.read(may_create).await?;
        let mut nonce = [0; NONCE_LEN];
        let sealed = SystemRandom::new().fill(&mut nonce).and_then(|()| {
            let aad = Aad::from(session_id.as_str().as_bytes());
            key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text)
        });
        sealed.map_err(|_| self.error("the system has no random numbers"))?;
        Ok(BASE64_STANDARD.encode([nonce.as_slice(), &text].concat()))
    }

    /// Decrypts a text that was encrypted for the same session.
    ///
    /// # Errors
    /// The key cannot be read, or is another one, or the text is damaged.
    pub async fn open(&self, session_id: &SessionId, sealed: &str) -> Result<Vec<u8>, HeldKeyError> {
        let key = self.read(false).await?;
        let open = || {
            let mut sealed = BASE64_STANDARD.decode(sealed).ok()?;
            let (nonce, text) = sealed.split_first_chunk_mut()?;
            let aad = Aad::from(session_id.as_str().as_bytes());
            let text = key.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, text).ok()?;
            Some(text.to_vec())
        };
        open().ok_or_else(|| HeldKeyError::Decryption { session_id: session_id.clone(), place: self.place() })
    }

    async fn read(&self, may_create: bool) -> Result<LessSafeKey, HeldKeyError> {
        let (key, clone) = (self.clone(), self.clone());
        let read = spawn_blocking(move || clone.read_file(may_create)).await;
        let bytes = read.map_err(io::Error::other).and_then(|read| read).map_err(|error| key.error(error))?;
        let key =
            UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| self.error("its length is wrong"))?;
        Ok(LessSafeKey::new(key))
    }

    /// Blocks on the disk.
    fn read_file(&self, may_create: bool) -> io::Result<[u8; KEY_BYTES]> {
        let _creation =
            self.creation.as_ref().map(|creation| creation.lock().unwrap_or_else(PoisonError::into_inner));
        match read_key(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound && may_create && self.creation.is_some() => {
                create_key(&self.file)
            }
            read => read,
        }
    }

    fn error(&self, cause: impl ToString) -> HeldKeyError {
        HeldKeyError::File { place: self.place(), cause: cause.to_string() }
    }

    const fn place(&self) -> HeldKeyPlace {
        if self.creation.is_some() { HeldKeyPlace::StateDir } else { HeldKeyPlace::Provided }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actors_testing::id;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn sealed_text_opens_only_with_its_key_and_session() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = HeldVerdictKey::in_state_dir(dir.path());
        let missing = key.seal(&id("cs_1"), b"text".to_vec(), false).await;
        assert!(matches!(missing, Err(HeldKeyError::File { .. })), "{missing:?}");
        let sealed = key.seal(&id("cs_1"), b"text".to_vec(), true).await.expect("the key is created");
        let again = key.seal(&id("cs_1"), b"text".to_vec(), false).await.expect("the key exists");
        assert_ne!(sealed, again, "each has a nonce of its own");
        assert_eq!(key.open(&id("cs_1"), &sealed).await, Ok(b"text".to_vec()));
        let file = dir.path().join(FILE);
        let mode = fs::metadata(&file).expect("the key is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        let other = key.open(&id("cs_2"), &sealed).await;
        assert!(matches!(other, Err(HeldKeyError::Decryption { .. })), "{other:?}");
        for damaged in ["", "AAAA", "no Base64!"] {
            assert!(matches!(key.open(&id("cs_1"), damaged).await, Err(HeldKeyError::Decryption { .. })));
        }
        fs::write(&file, BASE64_STANDARD.encode([7; KEY_BYTES])).expect("the key is replaced");
        let replaced = key.open(&id("cs_1"), &sealed).await;
        assert!(matches!(replaced, Err(HeldKeyError::Decryption { .. })), "{replaced:?}");
        fs::write(&file, "short").expect("the key is replaced");
        assert!(matches!(key.open(&id("cs_1"), &sealed).await, Err(HeldKeyError::File { .. })));
        fs::remove_file(&file).expect("the key is removed");
        assert!(matches!(key.open(&id("cs_1"), &sealed).await, Err(HeldKeyError::File { .. })));
        assert!(HeldVerdictKey::provided(file.clone()).is_err());
        fs::write(&file, BASE64_STANDARD.encode([7; KEY_BYTES])).expect("the key is provided");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("the mode is set");
        let provided = HeldVerdictKey::provided(file.clone()).expect("it can be used");
        fs::remove_file(&file).expect("the key is removed");
        let sealed = provided.seal(&id("cs_1"), b"text".to_vec(), true).await;
        assert!(matches!(sealed, Err(HeldKeyError::File { .. })), "a provided key is not created");
    }
}
