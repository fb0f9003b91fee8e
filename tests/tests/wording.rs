//! Texts of the programs for snapshots.

use jiff::Timestamp;
use oracled_tests::DaemonWorld;

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
