//! Whether a public key is a point that can belong to a key pair.

use curve25519_dalek::edwards::CompressedEdwardsY;
use p256::PublicKey;

/// The bytes of a key of Ed25519, and of one coordinate of P-256.
pub(super) const CURVE_BYTES: usize = 32;

/// Check that these bytes are the canonical form of a point of Ed25519 (RFC 8032, 5.1.2) and that its order is not small: a key
/// of small order verifies signatures that no one has made.
///
/// # Errors
/// The fault and what is allowed.
pub(super) fn check_ed25519(x: &[u8; CURVE_BYTES]) -> Result<(), &'static str> {
    const NO_POINT: &str = "its `x` is no point of Ed25519; allowed: a public key as RFC 8032 writes it";
    let point = CompressedEdwardsY(*x).decompress().ok_or(NO_POINT)?;
    // `decompress` also accepts a `y` that is not reduced, which differs in its first byte; the sign of `x` is in the last one
    if point.compress().0.first() != x.first() {
        return Err(NO_POINT);
    }
    if point.is_small_order() {
        return Err(
            "its `x` is a point of small order, by which signatures hold that nobody has made; allowed: the \
                    public key of a pair",
        );
    }
    Ok(())
}

/// Check that `point`, in the uncompressed form of SEC 1, is a point of P-256.
///
/// # Errors
/// The fault and what is allowed.
pub(super) fn check_p256(point: &[u8]) -> Result<(), &'static str> {
    let fault = |_| "its `x` and `y` are no point of P-256; allowed: the coordinates of a public key";
    PublicKey::from_sec1_bytes(point).map(drop).map_err(fault)
}
