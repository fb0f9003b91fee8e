//! Unsigned integers in LEB128: base 128, lowest digit first, with the high bit set if another byte follows.

/// The maximum number of bytes of a `u64`.
const DIGITS_MAX: u32 = 10;

/// Appends `number`.
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Removes a number from the start of `bytes`; `None` if it is incomplete or too long.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for digit in 0..DIGITS_MAX {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << (7 * digit);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Appends the length of `part`, then `part`.
pub fn put_part(bytes: &mut Vec<u8>, part: &[u8]) {
    put(bytes, part.len() as u64);
    bytes.extend_from_slice(part);
}

/// Removes a length and that number of bytes from the start of `bytes`; `None` if there are fewer.
#[inline]
pub fn take_part<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = usize::try_from(take(bytes)?).ok()?;
    bytes.split_off(..len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_round_trips_at_every_length() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert_eq!(take(&mut bytes.as_slice()), Some(number));
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(take(&mut [0x80; 11].as_slice()), None);
    }
}
