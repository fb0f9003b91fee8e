//! The values of a JSON text with their paths.

use std::collections::HashMap;

/// The path of a value, and its text. A number keeps its digits.
pub(super) type JsonLeaf = (String, String);

/// The maximum numbers of levels, and of characters of a path, of a text that is shown by its values. Any other text is shown as it is.
const SHOWN_DEPTH: usize = 32;
const SHOWN_PATH: usize = 256;
/// The maximum number of names of a path in a layout.
const LAYOUT_NAMES: usize = 6;

/// An object or a list that is being read.
enum Level {
    /// Whether the name of a member comes next.
    Object { is_name: bool },
    /// The number of the element.
    List(u64),
}

/// The path of the value that is being read.
struct LeafPath {
    names: Vec<String>,
    /// The characters of the names after the first, each with its separator.
    chars: usize,
}

impl LeafPath {
    fn push(&mut self, name: &str) {
        self.chars += name.chars().count() + 1;
        self.names.push(name.to_owned());
    }

    fn pop(&mut self) {
        if self.names.len() > 1 {
            let name = self.names.pop().unwrap_or_default();
            self.chars -= name.chars().count() + 1;
        }
    }

    /// Replaces the last name.
    fn rename(&mut self, name: &str) {
        self.pop();
        self.push(name);
    }
}

/// The values of a JSON text in their order; null is left out. The first name of each path is `prefix`. A text with too many levels, more
/// than `most` values or a too long path is one value.
pub(super) fn flatten(text: &str, prefix: &str, most: usize) -> Vec<JsonLeaf> {
    let (mut leaves, mut levels) = (Vec::new(), Vec::new());
    let mut path = LeafPath { names: vec![prefix.to_owned()], chars: 0 };
    for (_, token) in tokens(text) {
        match (token, levels.last_mut()) {
            ("{", _) => {
                levels.push(Level::Object { is_name: true });
                path.push("");
            }
            ("[", _) => {
                levels.push(Level::List(0));
                path.push("0");
            }
            ("}" | "]", _) => {
                levels.pop();
                path.pop();
            }
            (",", Some(Level::Object { is_name })) => *is_name = true,
            (",", Some(Level::List(index))) => {
                *index += 1;
                path.rename(&index.to_string());
            }
            (",", None) | (":" | "null", Some(Level::List(_) | Level::Object { is_name: false }) | None) => {}
            (name, Some(Level::Object { is_name: is_name @ true })) => {
                *is_name = false;
                path.rename(&decode(name));
            }
            (value, _) => leaves.push((path.names.join("."), decode(value))),
        }
        if levels.len() > SHOWN_DEPTH || leaves.len() > most || path.chars > SHOWN_PATH {
            return vec![(prefix.to_owned(), text.to_owned())];
        }
    }
    leaves
}

/// Leaves by each path at or above them, as far as a layout has paths.
pub(super) struct LeafIndex<'l>(HashMap<&'l str, Vec<&'l JsonLeaf>>);

impl<'l> LeafIndex<'l> {
    pub(super) fn of(leaves: &'l [JsonLeaf]) -> Self {
        let mut found: HashMap<&str, Vec<&JsonLeaf>> = HashMap::new();
        for leaf in leaves {
            let (path, _) = leaf;
            let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
            let paths = ends.take(LAYOUT_NAMES).filter_map(|end| path.get(..end));
            [""].into_iter().chain(paths).for_each(|path| found.entry(path).or_default().push(leaf));
        }
        Self(found)
    }

    /// The leaves at or under a path, in their order.
    pub(super) fn under(&self, path: &str) -> &[&'l JsonLeaf] {
        self.0.get(path).map_or(&[], Vec::as_slice)
    }
}

/// The text that a token quotes; `None` if it is no text of Unicode.
pub(super) fn text_of(token: &str) -> Option<String> {
    if token.starts_with('"') { serde_json::from_str(token).ok() } else { None }
}

/// The text of a token. A token that is no text of Unicode stays as it is.
fn decode(token: &str) -> String {
    text_of(token).unwrap_or_else(|| token.to_owned())
}

/// The change of the depth by a token.
pub(super) fn depth_step(token: &str) -> isize {
    match token {
        "{" | "[" => 1,
        "}" | "]" => -1,
        _ => 0,
    }
}

/// The tokens of a JSON text, each with its place. Any text has them.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    const MARKS: [char; 6] = ['{', '}', '[', ']', ',', ':'];
    const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(SPACE);
        let first = rest.chars().next()?;
        let len = if MARKS.contains(&first) {
            1
        } else if first == '"' {
            end_of_text(rest)
        } else {
            rest.find(|character| {
                MARKS.contains(&character) || SPACE.contains(&character) || character == '"'
            })
            .unwrap_or(rest.len())
        };
        let at = text.len() - rest.len();
        let (token, after) = rest.split_at(len);
        rest = after;
        Some((at, token))
    })
}

/// The length of the text at the start of `rest`, with its quotation marks.
fn end_of_text(rest: &str) -> usize {
    let mut is_escaped = true;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'"' if !is_escaped => return at + 1,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    rest.len()
}
