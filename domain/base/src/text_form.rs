//! The form of texts in Unicode: one form for equal texts, words that mix letters of several scripts, and foreign text
//! that a person reads: queries, verdicts, names, raw records, causes.
//!
//! Foreign text can have characters that a terminal obeys, that reorder the text around them, or that show nothing. The
//! functions with `visible` in their names write these characters as escapes. Everything that shows foreign text uses
//! them: the command line, the console, mails, and the service log. Data for programs keeps its characters, or has them
//! as JSON's escapes.

use regex::Regex;
use std::borrow::Cow;
use std::fmt::Write as _;
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

/// The hiding characters, by Unicode's properties.
///
/// - control characters except tab and line feed, and the separators of lines and paragraphs
/// - `Bidi_Control`
/// - `Default_Ignorable_Code_Point`: zero-width and other characters that show nothing, such as tags and fillers; U+2800,
///   which shows nothing either; and the marks of annotations
///
/// U+200C, U+200D and variation selectors stay: Persian, the scripts of India and emoji need them, and the prompt keeps them
/// too. They change neither the order of the text nor what is around them.
static HIDING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"[[[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\x{2800}\x{fff9}-\x{fffb}]--[\t\n\x{200c}\x{200d}]]--\p{Variation_Selector}]",
    )
    .expect("the pattern is valid")
});

/// Whether a person does not see `character`, or it changes how other text is shown.
#[must_use]
pub fn is_hiding(character: char) -> bool {
    !matches!(character, ' '..='~' | '\t' | '\n') && HIDING.is_match(character.encode_utf8(&mut [0; 4]))
}

/// A text as a segment of the path of a URL.
#[must_use]
pub fn encode_segment(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// `text` with each hiding character as `\u{202e}`. Tabs and line breaks stay; CRLF becomes a line feed.
#[must_use]
pub fn visible_text(text: &str) -> Cow<'_, str> {
    let escape = |character: char, shown: &mut String| shown.extend(character.escape_unicode());
    if text.contains("\r\n") {
        return Cow::Owned(replace_hiding(&text.replace("\r\n", "\n"), escape).into_owned());
    }
    replace_hiding(text, escape)
}

/// Like [`visible_text`], on one line, so that foreign text cannot imitate a line of output: line feeds become `\n`, and tabs
/// `\t`.
#[must_use]
pub fn visible_line(text: &str) -> Cow<'_, str> {
    let shown = visible_text(text);
    if shown.contains(['\n', '\t']) {
        return Cow::Owned(shown.replace('\n', "\\n").replace('\t', "\\t"));
    }
    shown
}

/// Output of this program with each hiding character as an escape. The program's own colors (`ESC [ 32 m`) stay.
#[must_use]
pub fn visible_colored_text(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find("\u{1b}[") {
        let (before, sequence) = rest.split_at(start);
        shown.push_str(&visible_text(before));
        let is_parameter = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
        let end = 2 + sequence.bytes().skip(2).take_while(is_parameter).count();
        let is_color = sequence.as_bytes().get(end) == Some(&b'm');
        let (kept, after) = sequence.split_at(if is_color { end + 1 } else { 1 });
        shown.push_str(&if is_color { Cow::Borrowed(kept) } else { visible_text(kept) });
        rest = after;
    }
    shown.push_str(&visible_text(rest));
    shown
}

/// A JSON document with each hiding character of its texts as JSON's escape. It has the same meaning.
#[must_use]
pub fn visible_json(document: &str) -> Cow<'_, str> {
    replace_hiding(document, |character, shown| {
        // between the texts of a document, a carriage return is white space
        if character == '\r' {
            return;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(shown, "\\u{unit:04x}").expect("a write to a string does not fail");
        }
    })
}

/// A TOML value with each hiding character as TOML's escape. It has the same meaning.
#[must_use]
pub fn visible_toml(value: &str) -> Cow<'_, str> {
    replace_hiding(value, |character, shown| {
        write!(shown, "\\U{:08x}", u32::from(character)).expect("a write to a string does not fail");
    })
}

fn replace_hiding(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    // fast path: printable ASCII, as most texts are
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n')) {
        return Cow::Borrowed(text);
    }
    HIDING.replace_all(text, |found: &regex::Captures<'_>| {
        let mut shown = String::new();
        for character in found[0].chars() {
            escape(character, &mut shown);
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn hiding_characters_become_escapes() {
        for (text, shown) in [
            ("a\u{1b}]0;x\u{7}\u{9b}2J\r", r"a\u{1b}]0;x\u{7}\u{9b}2J\u{d}"),
            ("GREEN\u{202e}DER\u{2069}\u{61c}", r"GREEN\u{202e}DER\u{2069}\u{61c}"),
            ("no\u{200b}t\u{2060}\u{feff}\u{ad}\u{2800}", r"no\u{200b}t\u{2060}\u{feff}\u{ad}\u{2800}"),
            ("\u{e0001}\u{e0041}\u{3164}\u{fff9}", r"\u{e0001}\u{e0041}\u{3164}\u{fff9}"),
            ("a\u{2028}b\u{2029}c\u{85}", r"a\u{2028}b\u{2029}c\u{85}"),
            ("a\tb\r\nc\n", "a\tb\nc\n"),
            (
                "می\u{200c}خواهم 👩\u{200d}🌾 ❤\u{fe0f} 葛\u{e0100}",
                "می\u{200c}خواهم 👩\u{200d}🌾 ❤\u{fe0f} 葛\u{e0100}",
            ),
        ] {
            assert_eq!(visible_text(text), shown);
        }
        assert_eq!(visible_line("reason\ndecision\tapproved"), r"reason\ndecision\tapproved");
    }

    #[test]
    fn colors_of_the_program_stay() {
        let text = "\u{1b}[32mok\u{1b}[0m\u{1b}[38;5;9mx\u{1b}[2J\u{1b}\u{202e}\u{1b}[";
        let shown = "\u{1b}[32mok\u{1b}[0m\u{1b}[38;5;9mx\\u{1b}[2J\\u{1b}\\u{202e}\\u{1b}[";
        assert_eq!(visible_colored_text(text), shown);
    }

    #[test]
    fn visible_json_is_the_same_json() {
        let text = serde_json::to_string("\u{9b}2J \u{202e} \u{e0041} \u{85}").expect("plain data");
        let shown = visible_json(&text);
        assert!(shown.is_ascii());
        assert_eq!(
            serde_json::from_str::<String>(&shown).expect("valid JSON"),
            "\u{9b}2J \u{202e} \u{e0041} \u{85}"
        );
        assert_eq!(visible_json("{\r\n}"), "{\n}");
    }

    proptest! {
        #[test]
        fn visible_text_has_no_hiding_character(text in "(?s).*|[\u{0}-\u{a0}\u{2000}-\u{2070}\u{fe00}-\u{ffff}\u{e0000}-\u{e01ff}]*") {
            prop_assert!(!visible_text(&text).contains(is_hiding));
            prop_assert!(!visible_line(&text).contains(is_hiding));
            prop_assert!(!visible_line(&text).contains('\n'));
        }
    }
}
