//! Blank text: text without a visible character.
//!
//! Besides white space, characters with Unicode's `Default_Ignorable_Code_Point` property (zero-width spaces and
//! joiners, soft hyphen, byte order mark, fillers), the blank Braille pattern U+2800 and control characters are invisible.

use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

static INVISIBLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[\p{Default_Ignorable_Code_Point}\x{2800}[\p{Cc}--\s]]").expect("the pattern is valid")
});

/// `text` without invisible characters. White space stays, because it separates words.
#[must_use]
pub fn without_invisible(text: &str) -> Cow<'_, str> {
    // fast path: printable ASCII, as most texts are
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r')) {
        return Cow::Borrowed(text);
    }
    INVISIBLE.replace_all(text, "")
}

/// Whether `text` has no visible character.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    // fast path: most texts contain a visible ASCII character
    !text.bytes().any(|byte| byte.is_ascii_graphic()) && without_invisible(text).trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_visible_characters_is_blank() {
        for blank in [
            "",
            " \t\r\n\u{a0}\u{2028}",
            "\u{200b}\u{200d}\u{ad}\u{feff}",
            "\u{3164}\u{115f}",
            "\u{e0041}",
            "\u{2800}\u{2800} \u{2800}",
            "\u{fe0f}\u{34f}\u{2064}\u{206f}\u{180e}\u{1d173}\u{e0fff}",
            "\0\u{1} \u{7f}",
        ] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for visible in ["a", "\u{200b}.", "0", "👩\u{200d}🌾", "\u{301}", "\u{2801}"] {
            assert!(!is_blank(visible), "{visible:?}");
        }
    }

    #[test]
    fn invisible_characters_are_removed_and_white_space_stays() {
        assert_eq!(without_invisible("so\u{ad}und\u{200b} \tplan\n\u{1}"), "sound \tplan\n");
    }
}
