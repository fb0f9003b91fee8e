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
        self.start(name, attributes);
        inside(self);
        self.end(name);
    }

    /// The declaration that a document may begin with.
    pub(super) fn declare(&mut self) {
        self.text.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    }

    /// The start of an element whose content is not all at hand; the caller ends it.
    pub(super) fn start(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.open(name, attributes);
        self.text.push_str(">\n");
    }

    /// Its end.
    pub(super) fn end(&mut self, name: &'static str) {
        self.text.push_str("</");
        self.text.push_str(name);
        self.text.push_str(">\n");
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
        self.end(name);
    }

    /// What is written so far; more may follow behind it.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
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

/// Every tag closed in its order, every attribute quoted, every `&` an entity: by eye of a small machine.
#[cfg(test)]
pub(super) fn assert_well_formed(xml: &str) {
    let mut open = Vec::new();
    let mut rest = xml;
    while let Some((before, after)) = rest.split_once('<') {
        for entity in before.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|name| entity.starts_with(name)), "{entity}");
        }
        let (tag, behind) = after.split_once('>').expect("a tag ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap_or(tag));
        }
        rest = behind;
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_attributes_are_escaped() {
        let mut xml = Xml::default();
        xml.element("g", &[("id", &"a\"<b>")], |xml| xml.words("text", &[], "1 < 2 & \u{1b}[0m"));
        assert_eq!(
            xml.take(),
            "<g id=\"a&quot;&lt;b&gt;\">\n<text>1 &lt; 2 &amp; \u{fffd}[0m</text>\n</g>\n"
        );
    }
}
