//! Hides a customer's address in the replies of mail servers, which quote it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The replacement for the address.
const HIDDEN: &str = "[address]";
/// The minimum number of characters by which an address is recognized at the end of a text that was cut.
const CUT_MIN_CHARS: usize = 3;

/// The number of times that a text is decoded, because codes may be encoded again.
const DECODINGS: usize = 3;

/// Replaces `address` in `text` with [`HIDDEN`]: in any case, plain or percent-encoded, complete or cut by the end of
/// the text. If the address still occurs in another form, only the status codes of `text` are kept.
pub(super) fn hide(address: &str, text: &str) -> String {
    let shown = remove_address(address, text);
    if !has_traces(address, &shown) {
        return shown;
    }
    let local = identifying_characters(address);
    let is_code = |word: &&str| {
        let groups: Vec<_> = word.split('.').collect();
        let digits =
            |group: &&str| (1..=3).contains(&group.len()) && group.bytes().all(|b| b.is_ascii_digit());
        matches!(groups.len(), 1 | 3) && groups.iter().all(digits) && letters(word) != local
    };
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, ':' | ',' | ';' | '-'));
    let mut codes: Vec<_> = words.filter(is_code).take(2).collect();
    codes.push("[text with the address]");
    codes.join(" ")
}

/// Whether the local part of `address` occurs in `text`, encoded or with other characters in between.
fn has_traces(address: &str, text: &str) -> bool {
    let local = identifying_characters(address);
    if local.chars().count() < CUT_MIN_CHARS {
        return false;
    }
    let mut form = text.replace(HIDDEN, " ");
    for _ in 0..DECODINGS {
        let in_base64 = form.split(|c: char| !c.is_ascii_alphanumeric() && !"+/-_".contains(c)).any(|word| {
            let bytes = STANDARD_NO_PAD.decode(word).or_else(|_| URL_SAFE_NO_PAD.decode(word));
            bytes.is_ok_and(|bytes| letters(&String::from_utf8_lossy(&bytes)).contains(&local))
        });
        if in_base64 || letters(&form).contains(&local) {
            return true;
        }
        form = decoded(&form);
    }
    false
}

/// The letters and digits that identify an address: those of its local part, or all if the local part has few.
fn identifying_characters(address: &str) -> String {
    let local = letters(address.rsplit_once('@').map_or(address, |(local, _)| local));
    if local.chars().count() < CUT_MIN_CHARS { letters(address) } else { local }
}

/// The letters and digits of `text`, in lower case.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Decodes `%40`, `=40`, `\x40`, `\u0040`, `&#64;` and `&#x40;` in `text`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (character, tail) = code(rest).unwrap_or_else(|| {
            let mut utf8 = [0; 4];
            (next.encode_utf8(&mut utf8).as_bytes().to_vec(), rest.get(next.len_utf8()..).unwrap_or_default())
        });
        bytes.extend(character);
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The bytes of the code at the beginning of `text`, and the rest.
fn code(text: &str) -> Option<(Vec<u8>, &str)> {
    let of_point = |digits: &str, radix| {
        let character = char::from_u32(u32::from_str_radix(digits, radix).ok()?)?;
        Some(character.to_string().into_bytes())
    };
    if let Some(entity) = text.strip_prefix("&#") {
        let (digits, rest) = entity.split_once(';')?;
        let of_hex = digits.strip_prefix(['x', 'X']).map(|digits| of_point(digits, 16));
        return Some((of_hex.unwrap_or_else(|| of_point(digits, 10))?, rest));
    }
    if let Some(unicode) = text.strip_prefix("\\u") {
        let (digits, rest) = unicode.split_at_checked(4)?;
        return Some((of_point(digits, 16)?, rest));
    }
    let byte = text.strip_prefix(['%', '=']).or_else(|| text.strip_prefix("\\x"))?;
    let (digits, rest) = byte.split_at_checked(2)?;
    Some((vec![u8::from_str_radix(digits, 16).ok()?], rest))
}

fn remove_address(address: &str, text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        // an address may itself contain a text that looks like a code
        let found = strip_address(rest, address, plain).or_else(|| strip_address(rest, address, encoded));
        if let Some(tail) = found {
            shown.push_str(HIDDEN);
            rest = tail;
        } else {
            shown.push(next);
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
        }
    }
    shown
}

/// The rest of `text` after the address at its beginning; `None` if it does not begin with the address. `read` reads
/// one character.
fn strip_address<'t>(
    text: &'t str,
    address: &str,
    read: fn(&'t str, char) -> Option<&'t str>,
) -> Option<&'t str> {
    let mut rest = text;
    for (known, character) in address.chars().enumerate() {
        let Some(next) = read(rest, character) else {
            let cut = rest.is_empty() || (rest.starts_with('%') && rest.len() < "%40".len());
            return (cut && known >= CUT_MIN_CHARS).then_some("");
        };
        rest = next;
    }
    Some(rest)
}

/// The rest of `text` after `character`, in any case; `None` if it begins with another character.
fn plain(text: &str, character: char) -> Option<&str> {
    let mut rest = text.chars();
    let same = rest.next()?.to_lowercase().eq(character.to_lowercase());
    same.then_some(rest.as_str())
}

/// As [`plain`], but the bytes of the character may be percent-encoded.
fn encoded(text: &str, character: char) -> Option<&str> {
    percent(text, character).or_else(|| plain(text, character))
}

fn percent(text: &str, character: char) -> Option<&str> {
    let mut rest = text;
    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
        let (code, tail) = rest.strip_prefix('%')?.split_at_checked(2)?;
        let decoded = u8::from_str_radix(code, 16).ok()?;
        if !decoded.eq_ignore_ascii_case(&byte) {
            return None;
        }
        rest = tail;
    }
    Some(rest)
}
