//! The form of a secret key in a file: 32 bytes in Base64.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// The key in the content of a file; `None` if it has another form.
pub(crate) fn decode_secret_key(content: &[u8]) -> Option<[u8; 32]> {
    BASE64_STANDARD.decode(content.trim_ascii_end()).ok()?.try_into().ok()
}
