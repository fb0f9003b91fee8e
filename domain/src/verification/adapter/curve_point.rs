//! Checks that a public key is a point that can belong to a key pair.

use curve25519_dalek::edwards::CompressedEdwardsY;
use p256::PublicKey;

/// The length of an Ed25519 key, and of one coordinate of P-256, in bytes.
pub(super) const CURVE_BYTES: usize = 32;

/// Checks that these bytes are the canonical form of a point of Ed25519 (RFC 8032, 5.1.2), and that the order
/// of the point is not small: a key of small order verifies forged signatures.
///
/// # Errors
/// The fault and what is allowed.
pub(super) fn check_ed25519(x: &[u8; CURVE_BYTES]) -> Result<(), &'static str> {
    const NO_POINT: &str = "its `x` is not a point of Ed25519; allowed: a public key in the form of RFC 8032";
    let point = CompressedEdwardsY(*x).decompress().ok_or(NO_POINT)?;
    // `decompress` also accepts a `y` that is not reduced, which differs in its first byte; the sign of `x`
    // is in the last one
    if point.compress().0.first() != x.first() {
        return Err(NO_POINT);
    }
    if point.is_small_order() {
        return Err(
            "its `x` is a point of small order, which verifies forged signatures; allowed: the public key of a \
                    key pair",
        );
    }
    Ok(())
}

/// Checks that `point`, in the uncompressed form of SEC 1, is a point of P-256.
///
/// # Errors
/// The fault and what is allowed.
pub(super) fn check_p256(point: &[u8]) -> Result<(), &'static str> {
    let fault = |_| "its `x` and `y` are not a point of P-256; allowed: the coordinates of a public key";
    PublicKey::from_sec1_bytes(point).map(drop).map_err(fault)
}
