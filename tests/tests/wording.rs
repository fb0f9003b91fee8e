//! Texts of the programs for snapshots, and words that user pages do not have.

use crate::links::pages;
use jiff::Timestamp;
use oracled_tests::DaemonWorld;
use std::fs;
use std::path::Path;

/// A text in which the folder of the world is `DIR`, and a time is `TIME`.
pub(crate) fn stable(world: &DaemonWorld, text: &str) -> String {
    let text = text.replace(&world.path("").display().to_string(), "DIR/");
    let words = text.split_inclusive([' ', '\n']).map(|word| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        if bare.parse::<Timestamp>().is_ok() { word.replace(bare, "TIME") } else { word.to_owned() }
    });
    words.collect()
}

/// A text with `N` instead of each number.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut parts = text.split(|c: char| c.is_ascii_digit());
    let first = parts.next().unwrap_or_default().to_owned();
    // an empty part is between two digits of a number
    let rest = parts.map(|part| if part.is_empty() { String::new() } else { format!("N{part}") });
    first + &rest.collect::<String>()
}

/// Whether the service log has a line of this level with all of these values.
pub(crate) fn is_logged(world: &DaemonWorld, level: &str, values: &[&str]) -> bool {
    let has_all = |line: &str| values.iter().all(|value| line.contains(value));
    world.service_log().lines().any(|line| line.contains(level) && has_all(line))
}

/// Whether a text refers to a specification as "the seed" or "the RFC". A number, as in "RFC 8259", is a reference to a standard.
fn refers_to_a_seed(text: &str) -> bool {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let has_number =
        |rest: &str| rest.strip_prefix(' ').is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
    let is_seed = ["the seed", "The seed", "(seed"].iter().any(|words| text.contains(words));
    is_seed || text.split("RFC").skip(1).any(|rest| !has_number(rest))
}

#[test]
fn user_pages_do_not_refer_to_the_seeds() {
    assert!(refers_to_a_seed("the\nseed's words") && refers_to_a_seed("declared (RFC, \"Tiers\")"));
    assert!(!refers_to_a_seed("canonical (RFC\n8785), with `--seed seed.sh`"));
    let mut found = Vec::new();
    pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs"), &mut found);
    found.retain(|page| {
        let text = fs::read_to_string(page).expect("the page can be read");
        !page.ends_with("design-notes.md") && refers_to_a_seed(&text)
    });
    assert!(found.is_empty(), "{found:#?}");
}
