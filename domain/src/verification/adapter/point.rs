//! Whether a public key is a point by which somebody can have signed. A point of small order all but vanishes from the equation
//! that verifies (RFC 8032, 5.1.7), so that signatures hold by it that nobody has made; by what is no point none ever holds.

use num_bigint::BigInt;
use num_bigint::Sign::Plus;
use num_integer::Integer as _;
use num_traits::{One as _, Zero as _};

/// The bytes of a key of Ed25519, and of one coordinate of P-256.
pub(super) const CURVE_BYTES: usize = 32;
/// A point of Ed25519 is written as its `y`, the lowest byte first, and in the highest bit the sign of its `x` (RFC 8032, 5.1.2).
const SIGN_BIT: u8 = 0x80;
/// Ed25519 is -x² + y² = 1 + d x² y²; this is -d as a fraction (RFC 8032, 5.1).
const MINUS_D: (u32, u32) = (121_665, 121_666);
/// P-256 is y² = x³ - 3x + b; this is b, the highest byte first (SP 800-186, 3.2.1.3).
const P256_B: [u8; CURVE_BYTES] = [
    0x5a, 0xc6, 0x35, 0xd8, 0xaa, 0x3a, 0x93, 0xe7, 0xb3, 0xeb, 0xbd, 0x55, 0x76, 0x98, 0x86, 0xbc, 0x65,
    0x1d, 0x06, 0xb0, 0xcc, 0x53, 0xb0, 0xf6, 0x3b, 0xce, 0x3c, 0x3e, 0x27, 0xd2, 0x60, 0x4b,
];

/// That these bytes write a point of Ed25519, and none of small order.
///
/// # Errors
/// What they are instead, and what is allowed.
pub(super) fn check_ed25519(x: &[u8; CURVE_BYTES]) -> Result<(), &'static str> {
    const NO_POINT: &str = "its `x` is no point of Ed25519; allowed: a public key as RFC 8032 writes it";
    const SMALL: &str = "its `x` is a point of small order, by which signatures hold that nobody has made; allowed: the \
                         public key of a pair";
    let mut bytes = *x;
    bytes[CURVE_BYTES - 1] &= !SIGN_BIT;
    let (y, p) = (BigInt::from_bytes_le(Plus, &bytes), (BigInt::one() << 255) - 19);
    if y >= p {
        return Err(NO_POINT);
    }
    let (above, below) = MINUS_D;
    let (above, below, y2) = (BigInt::from(above), BigInt::from(below), &y * &y);
    // the neutral point and that of order 2 have y² = 1, those of order 4 y = 0; twice one of order 8 is one of order 4,
    // which has x² + y² above its fraction bar: it is 0, hence d y⁴ + 2 y² - 1, too
    let order_8: BigInt = &below * (2 * &y2 - 1) - &above * &y2 * &y2;
    let order: BigInt = &y * (&y2 - 1) * order_8;
    if order.mod_floor(&p).is_zero() {
        return Err(SMALL);
    }
    // x² = (y² - 1) / (d y² + 1): a quotient is a square where the product is, and that by Euler's criterion
    let x2: BigInt = &below * (&y2 - 1) * (&below - &above * &y2);
    if x2.modpow(&(&p >> 1), &p).is_one() { Ok(()) } else { Err(NO_POINT) }
}

/// That these are the coordinates of a point of P-256.
///
/// # Errors
/// What they are instead, and what is allowed.
pub(super) fn check_p256(x: &[u8; CURVE_BYTES], y: &[u8; CURVE_BYTES]) -> Result<(), &'static str> {
    let power = |exponent: u32| BigInt::one() << exponent;
    let p = power(256) - power(224) + power(192) + power(96) - 1;
    let (x, y) = (BigInt::from_bytes_be(Plus, x), BigInt::from_bytes_be(Plus, y));
    let off: BigInt = &y * &y - &x * &x * &x + 3 * &x - BigInt::from_bytes_be(Plus, &P256_B);
    if x < p && y < p && off.mod_floor(&p).is_zero() {
        Ok(())
    } else {
        Err("its `x` and `y` are no point of P-256; allowed: the coordinates of a public key")
    }
}
