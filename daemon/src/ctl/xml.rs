//! A tiny writer of XML: elements nest as calls nest, so what comes out is well-formed.

use std::fmt::{self, Display, Write};

/// An XML document, or a part of it, being written.
#[derive(Debug, Default)]
pub(super) struct Xml {
    text: String,
}

/// An element's attributes: names of ours, values escaped when written.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a dyn Display)];

impl Xml {
    /// An element with whatever `inside` writes.
    pub(super) fn element(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Self),
    ) {
        self.open(name, attributes);
        self.text.push_str(">\n");
        inside(self);
        self.close(name);
    }

    /// An element without content.
    pub(super) fn leaf(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.open(name, attributes);
        self.text.push_str("/>\n");
    }

    /// An element that holds `words` alone.
    pub(super) fn words(&mut self, name: &'static str, attributes: Attributes<'_>, words: impl Display) {
        self.open(name, attributes);
        self.text.push('>');
        self.escaped(&words);
        self.close(name);
    }

    /// The document.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn open(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.text.push('<');
        self.text.push_str(name);
        for (key, value) in attributes {
            self.text.push(' ');
            self.text.push_str(key);
            self.text.push_str("=\"");
            self.escaped(value);
            self.text.push('"');
        }
    }

    fn close(&mut self, name: &'static str) {
        self.text.push_str("</");
        self.text.push_str(name);
        self.text.push_str(">\n");
    }

    fn escaped(&mut self, words: &dyn Display) {
        write!(Escaped(&mut self.text), "{words}").expect("writing into a string does not fail");
    }
}

/// Takes text and keeps it as XML character data.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, words: &str) -> fmt::Result {
        for character in words.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                // XML 1.0 has no way to write these, escaped or not
                '\u{fffe}' | '\u{ffff}' => self.0.push('\u{fffd}'),
                other if other.is_control() && other != '\n' => self.0.push('\u{fffd}'),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_attributes_are_escaped() {
        let mut xml = Xml::default();
        xml.element("g", &[("id", &"a\"<b>")], |xml| xml.words("text", &[], "1 < 2 & \u{1b}[0m"));
        assert_eq!(
            xml.into_text(),
            "<g id=\"a&quot;&lt;b&gt;\">\n<text>1 &lt; 2 &amp; \u{fffd}[0m</text>\n</g>\n"
        );
    }
}
