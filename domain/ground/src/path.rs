//! Paths into a raw record: the part of JSONPath (RFC 9535) that selects one value, or one value in each element of a
//! group.
//!
//! `$.nutrients.water`, `$['Country Code']`, `$.names[0]`, `$.foodNutrients[?@.nutrient.name=='Water'].amount`,
//! `$.foodNutrients[*].amount`, `$.nutrients.*.value`. The `$.` before a name and the `$` before a `[` are optional. A
//! name with dots, brackets or spaces is written in brackets: `['a.b']`.

use domain_base::raw::SourceValue;
use domain_base::text_form::{is_blank, to_nfc};
use domain_base::wording::excerpt;

/// The longest path, in bytes.
const PATH_MAX_BYTES: usize = 512;
/// The maximum number of steps in a path.
const STEPS_MAX: usize = 16;

/// A path into a raw record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawFieldPath {
    text: String,
    /// The steps to the value, or to the group that contains it.
    steps: Vec<RawPathStep>,
    /// The steps within each element of the group, if there is one.
    within: Option<Vec<RawPathStep>>,
    /// The length of the part of the text that selects the group's elements, in bytes.
    group_bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RawPathStep {
    Member(String),
    Element(usize),
    /// The first element of a list that has this text at these members.
    Where(Vec<String>, String),
}

/// Why a text is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is not a path: {fault}")]
pub struct RawFieldPathError {
    path: String,
    fault: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub struct GroupElement<'r> {
    /// The name of the member, if the group is an object.
    pub name: Option<&'r str>,
    pub raw: &'r SourceValue,
}

impl RawFieldPath {
    /// Parses a path. Its names become Unicode NFC, as those of raw records are.
    ///
    /// # Errors
    /// The text is not a path.
    pub fn parse(text: &str) -> Result<Self, RawFieldPathError> {
        let bad = |fault| RawFieldPathError { path: excerpt(text), fault };
        if text.len() > PATH_MAX_BYTES {
            return Err(bad("it is longer than 512 bytes"));
        }
        let text = &*to_nfc(text);
        let (mut steps, mut within, mut group_bytes) = (Vec::new(), None::<Vec<RawPathStep>>, 0);
        let mut rest = match text.strip_prefix('$') {
            Some(rest) => rest,
            None if text.starts_with('[') => text,
            None => {
                let (name, rest) =
                    name(text).ok_or_else(|| bad("begin it with a name, with `$` or with `[`"))?;
                steps.push(RawPathStep::Member(name.to_owned()));
                rest
            }
        };
        while !rest.is_empty() {
            let (found, tail) = next(rest).map_err(bad)?;
            rest = tail;
            match found {
                RawPathToken::Step(step) => within.as_mut().unwrap_or(&mut steps).push(step),
                RawPathToken::Each if within.is_some() => return Err(bad("it has more than one `*`")),
                RawPathToken::Each => {
                    within = Some(Vec::new());
                    group_bytes = text.len() - rest.len();
                }
            }
        }
        if steps.len() + within.as_ref().map_or(0, Vec::len) > STEPS_MAX {
            return Err(bad("it has more than 16 steps"));
        }
        Ok(Self { text: text.to_owned(), steps, within, group_bytes })
    }

    /// The path as written, in NFC.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the path selects a value in each element of a group.
    #[must_use]
    pub const fn is_group(&self) -> bool {
        self.within.is_some()
    }

    /// Whether both paths select from the same group, or neither selects from a group.
    #[must_use]
    pub fn is_same_group(&self, other: &Self) -> bool {
        self.is_group() == other.is_group() && (!self.is_group() || self.steps == other.steps)
    }

    /// A description of the paths that go with this one.
    #[must_use]
    pub fn describe_group(&self) -> String {
        match self.text.get(..self.group_bytes).filter(|_| self.is_group()) {
            Some(group) => format!("a path that begins with `{group}`"),
            None => "a path without a `*`".into(),
        }
    }

    /// The value at the path; for a group, the list or object with its elements.
    #[must_use]
    pub fn find<'r>(&self, root: &'r SourceValue) -> Option<&'r SourceValue> {
        walk(root, &self.steps)
    }

    pub fn elements<'r>(&self, root: &'r SourceValue) -> impl Iterator<Item = GroupElement<'r>> + use<'r> {
        let (list, members): (&[SourceValue], &[(String, SourceValue)]) = match self.find(root) {
            Some(SourceValue::List(list)) => (list, &[]),
            Some(SourceValue::Object(members)) => (&[], members),
            _ => (&[], &[]),
        };
        let named = members.iter().map(|(name, raw)| GroupElement { name: Some(name), raw });
        list.iter().map(|raw| GroupElement { name: None, raw }).chain(named)
    }

    /// Whether the path matches a value in `root`; for a group, in any of its elements.
    #[must_use]
    pub fn matches(&self, root: &SourceValue) -> bool {
        if self.is_group() {
            self.elements(root).any(|element| self.find_within(element.raw).is_some())
        } else {
            self.find(root).is_some()
        }
    }

    /// The name of the column that the path reads from a delimited payload, if the path is a single name.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        match (self.steps.as_slice(), &self.within) {
            ([RawPathStep::Member(name)], None) => Some(name),
            _ => None,
        }
    }

    /// Whether the path is `$.*`, which reads every column of a delimited payload.
    #[must_use]
    pub fn is_every_column(&self) -> bool {
        self.steps.is_empty() && self.within.as_ref().is_some_and(Vec::is_empty)
    }

    /// The value at the path within an element of the group.
    #[must_use]
    pub fn find_within<'r>(&self, element: &'r SourceValue) -> Option<&'r SourceValue> {
        walk(element, self.within.as_deref().unwrap_or_default())
    }
}

fn walk<'r>(root: &'r SourceValue, steps: &[RawPathStep]) -> Option<&'r SourceValue> {
    steps.iter().try_fold(root, |raw, step| match (step, raw) {
        (RawPathStep::Member(name), SourceValue::Object(_)) => raw.get(name),
        (RawPathStep::Element(index), SourceValue::List(list)) => list.get(*index),
        (RawPathStep::Where(members, text), SourceValue::List(list)) => list.iter().find(|element| {
            let found = members.iter().try_fold(*element, |raw, name| raw.get(name));
            matches!(found, Some(SourceValue::Text(found)) if to_nfc(found) == **text)
        }),
        _ => None,
    })
}

enum RawPathToken {
    Step(RawPathStep),
    Each,
}

/// A name at the beginning of `text`, and the rest of the text.
fn name(text: &str) -> Option<(&str, &str)> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    (!is_blank(name) && name != "*").then_some((name, rest))
}

/// The first step of `text`, and the rest of the text.
fn next(text: &str) -> Result<(RawPathToken, &str), &'static str> {
    if let Some(rest) = text.strip_prefix(".*").or_else(|| text.strip_prefix("[*]")) {
        return Ok((RawPathToken::Each, rest));
    }
    if let Some(rest) = text.strip_prefix('.') {
        let (name, rest) = name(rest).ok_or("a name is missing after `.`")?;
        return Ok((RawPathToken::Step(RawPathStep::Member(name.to_owned())), rest));
    }
    let rest = text.strip_prefix('[').ok_or("after a step, `.` or `[` is required")?;
    if let Some(rest) = rest.strip_prefix("?@") {
        let (members, rest) = members(rest)?;
        let (expected, rest) = quoted(rest.trim_start())?;
        return Ok((RawPathToken::Step(RawPathStep::Where(members, expected)), closed(rest)?));
    }
    if rest.starts_with(['\'', '"']) {
        let (name, rest) = quoted(rest)?;
        return Ok((RawPathToken::Step(RawPathStep::Member(name)), closed(rest)?));
    }
    let (number, rest) = rest.split_once(']').ok_or("a `[` is not closed")?;
    let index =
        number.parse().map_err(|_| "`[]` requires a whole number, `*`, a quoted name, or a filter")?;
    Ok((RawPathToken::Step(RawPathStep::Element(index)), rest))
}

/// The names at the beginning of a filter, and the text after its `==`.
fn members(text: &str) -> Result<(Vec<String>, &str), &'static str> {
    const WRITTEN: &str = "a filter must have the form `[?@.name=='text']`";
    let (mut members, mut rest) = (Vec::new(), text);
    loop {
        if let Some(expected) = rest.trim_start().strip_prefix("==").filter(|_| !members.is_empty()) {
            return Ok((members, expected));
        }
        if members.len() == STEPS_MAX {
            return Err(WRITTEN);
        }
        if let Some(bracketed) = rest.strip_prefix('[') {
            let (name, after) = quoted(bracketed)?;
            members.push(name);
            rest = closed(after)?;
            continue;
        }
        let dotted = rest.strip_prefix('.').ok_or(WRITTEN)?;
        let end = [dotted.find(['.', '[']), dotted.find("==")].into_iter().flatten().min();
        let (name, after) = dotted.split_at(end.ok_or(WRITTEN)?);
        if is_blank(name) {
            return Err(WRITTEN);
        }
        members.push(name.trim().to_owned());
        rest = after;
    }
}

fn closed(text: &str) -> Result<&str, &'static str> {
    text.trim_start().strip_prefix(']').ok_or("a `[` is not closed")
}

/// A quoted text at the beginning of `text`, and the rest. A backslash escapes the next character.
fn quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut letters = text.char_indices();
    let Some((_, quote @ ('\'' | '"'))) = letters.next() else { return Err("a quoted text is missing") };
    let mut content = String::new();
    while let Some((at, letter)) = letters.next() {
        if letter == quote {
            return Ok((content, text.get(at + 1..).unwrap_or_default()));
        }
        let letter =
            if letter == '\\' { letters.next().map_or('\\', |(_, escaped)| escaped) } else { letter };
        content.push(letter);
    }
    Err("a quoted text is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'r>(raw: &'r SourceValue, path: &str) -> Option<&'r SourceValue> {
        RawFieldPath::parse(path).expect("a valid path").find(raw)
    }

    #[test]
    fn path_finds_value_at_its_steps() {
        let json =
            br#"{"a b":1,"c":{"d":[10,{"e":"x","f":{"g":"one"},"n":2},{"f":{"g":"two"},"n":3}]},"q'\"":4}"#;
        let raw = SourceValue::parse(json).expect("valid JSON");
        for (path, number) in [
            ("a b", "1"),
            ("$['a b']", "1"),
            ("c.d[0]", "10"),
            ("$.c.d[1].n", "2"),
            ("$.c['d'][?@.f.g=='two'].n", "3"),
            ("$.c.d[?@.f.g == \"one\"].n", "2"),
            ("$['q\\'\"']", "4"),
            ("['a b']", "1"),
            ("[\"a b\"]", "1"),
            ("['c']['d'][0]", "10"),
        ] {
            assert_eq!(at(&raw, path), Some(&SourceValue::Number(number.into())), "{path}");
        }
        for path in ["x", "$.c.e", "$.c.d[9]", "$.c.d.e", "$.c.d[?@.f.g=='three'].n", "$['a b'].c"] {
            assert_eq!(at(&raw, path), None, "{path}");
        }
    }

    #[test]
    fn path_in_brackets_reads_name_with_dots_and_brackets() {
        let raw = SourceValue::parse(
            br#"{"a.b":1,"a":{"b":2},"c[0]":3,"x":{"d.e":4}," f ":5,"*":6,
            "l":[{"g.h":"x","n":7},{"i":{"j.k":"y"},"n":8}]}"#,
        )
        .expect("valid JSON");
        for (path, number) in [
            ("['a.b']", "1"),
            ("$[\"a.b\"]", "1"),
            ("a.b", "2"),
            ("[\"c[0]\"]", "3"),
            ("x['d.e']", "4"),
            ("$.x[\"d.e\"]", "4"),
            ("[' f ']", "5"),
            ("['*']", "6"),
            ("l[?@['g.h']=='x'].n", "7"),
            ("$.l[?@.i[\"j.k\"] == 'y'].n", "8"),
        ] {
            assert_eq!(at(&raw, path), Some(&SourceValue::Number(number.into())), "{path}");
        }
    }

    #[test]
    fn group_has_elements_of_lists_and_members_of_objects() {
        let raw = SourceValue::parse(br#"{"l":[{"v":1},{"v":2},{}],"o":{"x":{"v":3},"y":{"v":4}}}"#)
            .expect("valid JSON");
        let found = |path: &str| {
            let path = RawFieldPath::parse(path).expect("a valid path");
            let found = path.elements(&raw).map(|element| {
                let name = element.name.map(str::to_owned);
                (name, path.find_within(element.raw).cloned())
            });
            found.collect::<Vec<_>>()
        };
        let number = |text: &str| Some(SourceValue::Number(text.into()));
        assert_eq!(found("$.l[*].v"), [(None, number("1")), (None, number("2")), (None, None)]);
        assert_eq!(found("o.*.v"), [(Some("x".into()), number("3")), (Some("y".into()), number("4"))]);
        assert!(found("$.nothing[*].v").is_empty());
    }

    #[test]
    fn path_rejects_invalid_text() {
        let long = "x".repeat(PATH_MAX_BYTES + 1);
        let deep = format!("$.a{}", ".b".repeat(STEPS_MAX));
        for text in [
            "",
            "*",
            ".a",
            "a..b",
            "a[",
            "a[x]",
            "a['b",
            "a['b'",
            "a[*].b[*]",
            "a[?@.b]",
            "a[?@=='x']",
            "a[?@.=='x']",
            "a[?@..b=='x']",
            "a[?@['b'=='x']",
            "$a",
            "a[-1]",
            &long,
            &deep,
        ] {
            assert!(RawFieldPath::parse(text).is_err(), "{text}");
        }
    }
}
