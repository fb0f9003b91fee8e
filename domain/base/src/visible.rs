//! Foreign text that a person reads: queries, verdicts, names, raw records, causes.
//!
//! Such text can have characters that a terminal obeys, that reorder the text around them, or that show nothing. The
//! functions here write these characters as escapes. Everything that shows foreign text uses them: the command line, the
//! console, mails, and the service log. Data for programs keeps its characters, or has them as JSON's escapes.

use regex::Regex;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

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
