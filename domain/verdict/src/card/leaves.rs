//! The values of a JSON text with their paths.

/// The path of a value, and its text. A number keeps its digits.
pub(super) type JsonLeaf = (String, String);

/// An object or a list that is being read.
enum Level {
    /// Whether the name of a member comes next.
    Object { is_name: bool },
    /// The number of the element.
    List(u64),
}

/// The values of a JSON text in their order; null is left out. The first name of each path is `prefix`.
pub(super) fn flatten(text: &str, prefix: &str) -> Vec<JsonLeaf> {
    let (mut leaves, mut path, mut levels) = (Vec::new(), vec![prefix.to_owned()], Vec::new());
    for token in tokens(text) {
        match (token, levels.last_mut()) {
            ("{", _) => {
                levels.push(Level::Object { is_name: true });
                path.push(String::new());
            }
            ("[", _) => {
                levels.push(Level::List(0));
                path.push("0".to_owned());
            }
            ("}" | "]", _) => {
                levels.pop();
                if path.len() > 1 {
                    path.pop();
                }
            }
            (",", Some(Level::Object { is_name })) => *is_name = true,
            (",", Some(Level::List(index))) => {
                *index += 1;
                if let Some(last) = path.last_mut() {
                    *last = index.to_string();
                }
            }
            (",", None) | (":" | "null", Some(Level::List(_) | Level::Object { is_name: false }) | None) => {}
            (name, Some(Level::Object { is_name: is_name @ true })) => {
                *is_name = false;
                if let Some(last) = path.last_mut() {
                    *last = decode(name);
                }
            }
            (value, _) => leaves.push((path.join("."), decode(value))),
        }
    }
    leaves
}

/// The text of a token. A token that is no text of Unicode stays as it is.
fn decode(token: &str) -> String {
    let text = if token.starts_with('"') { serde_json::from_str(token).ok() } else { None };
    text.unwrap_or_else(|| token.to_owned())
}

/// The tokens of a JSON text.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
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
        let (token, after) = rest.split_at(len);
        rest = after;
        Some(token)
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
