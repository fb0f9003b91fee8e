//! The part of Jinja that mail templates can use. No value can become larger than those of the mail, so that a rendering
//! needs little time and memory: there is no assignment, no concatenation, no list, no function and no slice.

use minijinja::{Environment, filters, tests};

/// The maximum length of a tag, in bytes. The parser needs a stack for nested operators.
const TAG_MAX_BYTES: usize = 500;
/// Words that can begin a block.
const BLOCKS: [&str; 8] = ["if", "elif", "else", "endif", "for", "endfor", "raw", "endraw"];
/// Characters that are not allowed in a tag, outside of texts in quotation marks.
const REFUSED: [char; 6] = ['~', '*', '+', '[', ']', '{'];

/// Adds the filters and tests of mail templates.
pub(super) fn add_filters_and_tests(environment: &mut Environment<'_>) {
    environment.add_filter("abs", filters::abs);
    environment.add_filter("capitalize", filters::capitalize);
    environment.add_filter("default", filters::default);
    environment.add_filter("dictsort", filters::dictsort);
    environment.add_filter("first", filters::first);
    environment.add_filter("items", filters::items);
    environment.add_filter("last", filters::last);
    environment.add_filter("length", filters::length);
    environment.add_filter("lower", filters::lower);
    environment.add_filter("reverse", filters::reverse);
    environment.add_filter("round", filters::round);
    environment.add_filter("sort", filters::sort);
    environment.add_filter("title", filters::title);
    environment.add_filter("trim", filters::trim);
    environment.add_filter("upper", filters::upper);
    environment.add_test("defined", tests::is_defined);
    environment.add_test("endingwith", tests::is_endingwith);
    environment.add_test("mapping", tests::is_mapping);
    environment.add_test("none", tests::is_none);
    environment.add_test("number", tests::is_number);
    environment.add_test("sequence", tests::is_sequence);
    environment.add_test("startingwith", tests::is_startingwith);
    environment.add_test("string", tests::is_string);
    environment.add_test("undefined", tests::is_undefined);
}

/// Checks that a template has only permitted tags. A template that is cut off is left to the parser.
///
/// # Errors
/// The line, from 1, and the fault.
pub(super) fn check_syntax(source: &str) -> Result<(), (usize, String)> {
    let mut rest = source;
    while let Some((start, kind)) = next_tag(rest) {
        let line = source.len().saturating_sub(rest.len()) + start;
        let line = source.get(..line).unwrap_or_default().matches('\n').count() + 1;
        let Some(after) = rest.get(start + kind.len()..) else { break };
        let Some(end) = (match kind {
            "{#" => after.find("#}"),
            "{%" => find_end(after, "%}"),
            _ => find_end(after, "}}"),
        }) else {
            break;
        };
        let (tag, following) = after.split_at(end);
        rest = following.get(2..).unwrap_or_default();
        if kind == "{#" {
            continue;
        }
        check_tag(tag, kind == "{%").map_err(|fault| (line, fault))?;
        if kind == "{%" && first_word(tag) == "raw" {
            rest = rest.split_once("endraw").map_or("", |(_, after)| after);
        }
    }
    Ok(())
}

/// The first tag or comment: its position and its first two characters.
fn next_tag(text: &str) -> Option<(usize, &str)> {
    let starts = ["{{", "{%", "{#"].into_iter().filter_map(|kind| Some((text.find(kind)?, kind)));
    starts.min()
}

/// The end of a tag, outside of texts in quotation marks.
fn find_end(tag: &str, end: &str) -> Option<usize> {
    unquoted(tag).find(|(at, _)| tag.get(*at..).is_some_and(|rest| rest.starts_with(end))).map(|(at, _)| at)
}

/// The characters outside of texts in quotation marks, with their positions.
fn unquoted(tag: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut quote, mut is_escaped) = (None, false);
    tag.char_indices().filter(move |(_, character)| {
        if is_escaped {
            is_escaped = false;
            return false;
        }
        match (quote, character) {
            (Some(_), '\\') => is_escaped = true,
            (Some(open), character) if open == *character => quote = None,
            (None, '"' | '\'') => quote = Some(*character),
            (None, _) => return true,
            (Some(_), _) => {}
        }
        false
    })
}

fn first_word(tag: &str) -> &str {
    tag.trim_start_matches(['-', '+']).split_whitespace().next().unwrap_or_default()
}

fn check_tag(tag: &str, is_block: bool) -> Result<(), String> {
    if tag.len() > TAG_MAX_BYTES {
        return Err(format!(
            "a tag has {} bytes (at most {TAG_MAX_BYTES} allowed); write a shorter one",
            tag.len()
        ));
    }
    let content = tag.strip_prefix(['-', '+']).unwrap_or(tag);
    let content = content.strip_suffix(['-', '+']).unwrap_or(content);
    if let Some((_, character)) = unquoted(content).find(|(_, character)| REFUSED.contains(character)) {
        return Err(format!(
            "a tag has `{character}`; lists, slices, maps, concatenation, sums and products are not supported"
        ));
    }
    let word = first_word(tag).trim_end_matches('-');
    if is_block && !BLOCKS.contains(&word) {
        let word = crate::base::wording::excerpt(word);
        return Err(format!("the block `{word}` is not supported (one of {})", BLOCKS.join(", ")));
    }
    if is_block && content.split_whitespace().any(|word| word == "recursive") {
        return Err("a recursive loop is not supported; write one loop for each level".to_owned());
    }
    Ok(())
}
