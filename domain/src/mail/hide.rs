//! A customer's address in the words of a mail service: servers quote it in what they answer.

/// What stands in its place.
const HIDDEN: &str = "[address]";
/// Where a text was cut in the middle of an address, so many of its characters are enough to know it by.
const CUT_MIN_CHARS: usize = 3;

/// `text` with [`HIDDEN`] wherever `address` stands in it: in upper or lower case, plain or percent-encoded, whole or
/// cut short by the text's end.
pub(super) fn hide(address: &str, text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        // an address may hold what looks like a code, and stand there as it is
        let found = behind(rest, address, plain).or_else(|| behind(rest, address, encoded));
        if let Some(behind) = found {
            shown.push_str(HIDDEN);
            rest = behind;
        } else {
            shown.push(next);
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
        }
    }
    shown
}

/// What stands behind the address that `text` begins with, if it does; each character is read by `read`.
fn behind<'t>(text: &'t str, address: &str, read: fn(&'t str, char) -> Option<&'t str>) -> Option<&'t str> {
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

/// What stands behind `character` in upper or lower case, if `text` begins with it.
fn plain(text: &str, character: char) -> Option<&str> {
    let mut rest = text.chars();
    let same = rest.next()?.to_lowercase().eq(character.to_lowercase());
    same.then_some(rest.as_str())
}

/// The same, and its bytes may be percent-encoded.
fn encoded(text: &str, character: char) -> Option<&str> {
    percent(text, character).or_else(|| plain(text, character))
}

fn percent(text: &str, character: char) -> Option<&str> {
    let mut rest = text;
    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
        let (code, behind) = rest.strip_prefix('%')?.split_at_checked(2)?;
        let decoded = u8::from_str_radix(code, 16).ok()?;
        if !decoded.eq_ignore_ascii_case(&byte) {
            return None;
        }
        rest = behind;
    }
    Some(rest)
}
