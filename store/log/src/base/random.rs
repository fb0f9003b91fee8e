//! Random numbers of the system.

use store_base::error::StoreError;

/// Random bytes.
///
/// # Errors
/// `Unavailable` if the system has none.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Unavailable { cause: format!("no random numbers: {error}") })?;
    Ok(bytes)
}
