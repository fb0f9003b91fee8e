//! The Unicode form of texts: one form for equal texts, and words that mix letters of several scripts.

use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};
use unicode_security::MixedScript;

/// `text` in Unicode NFC. Texts that look the same and differ only in how accents are written have the same NFC.
#[must_use]
pub fn to_nfc(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfc().collect())
}

/// As [`to_nfc`], for a text that is not needed otherwise.
#[must_use]
pub fn into_nfc(text: String) -> String {
    match to_nfc(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(normalized) => normalized,
    }
}

/// `text` without accents and other marks, and with the ordinary form of variants such as full-width letters (Unicode NFKD).
#[must_use]
pub fn without_marks(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfkd().filter(|character| !is_combining_mark(*character)).collect())
}

/// The first word of `text` with letters of scripts that are not written together, such as a Cyrillic `а` in a Latin word
/// (Unicode Technical Standard 39, "Mixed-Script Detection").
#[must_use]
pub fn find_mixed_script_word(text: &str) -> Option<&str> {
    if text.is_ascii() {
        return None;
    }
    let is_part = |character: char| character.is_alphanumeric() || matches!(character, '\u{300}'..='\u{36f}');
    text.split(|character| !is_part(character)).find(|word| !word.is_single_script())
}

// Blank text: text without a visible character.
//
// Besides white space, characters with Unicode's `Default_Ignorable_Code_Point` property (zero-width spaces and
// joiners, soft hyphen, byte order mark, fillers), the blank Braille pattern U+2800 and control characters are invisible.

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
    fn marks_are_removed_from_both_unicode_forms() {
        for (text, expected) in [
            ("Gr\u{f6}\u{df}e", "Gro\u{df}e"),
            ("Gro\u{308}\u{df}e", "Gro\u{df}e"),
            ("R\u{e9}gion", "Region"),
            ("\u{ff21}\u{ff11}", "A1"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_marks(text), expected);
        }
    }

    #[test]
    fn equal_texts_have_one_form() {
        for (text, expected) in [
            ("Co\u{302}te d'Or", "C\u{f4}te d'Or"),
            ("C\u{f4}te d'Or", "C\u{f4}te d'Or"),
            ("A\u{30a}land", "\u{c5}land"),
            ("\u{212b}land", "\u{c5}land"),
            ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
            ("e\u{323}\u{302}", "\u{1ec7}"),
            ("e\u{302}\u{323}", "\u{1ec7}"),
            ("plain", "plain"),
            ("\u{fb01}", "\u{fb01}"),
            ("", ""),
        ] {
            assert_eq!(to_nfc(text), expected);
            assert_eq!(to_nfc(&to_nfc(text)), expected, "its form is stable");
        }
    }

    #[test]
    fn word_with_letters_of_two_scripts_is_found() {
        for (text, expected) in [
            ("P\u{430}ris", Some("P\u{430}ris")),
            ("Nord-P\u{430}s de Calais", Some("P\u{430}s")),
            ("\u{3b1}bc", Some("\u{3b1}bc")),
            ("Paris", None),
            ("C\u{f4}te d'Or", None),
            ("Co\u{302}te d'Or", None),
            ("\u{41c}\u{43e}\u{441}\u{43a}\u{432}\u{430} (Moscow)", None),
            ("\u{3b1}-Tocopherol", None),
            ("\u{6771}\u{4eac}\u{30bf}\u{30ef}\u{30fc}", None),
            ("\u{6771}\u{4eac} Tokyo 2", None),
            ("\u{c5}land 7", None),
        ] {
            assert_eq!(find_mixed_script_word(text), expected, "{text}");
        }
    }

    mod blank {
        use crate::text_form::*;

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
}
