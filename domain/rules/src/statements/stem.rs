//! Stems: removes inflection endings. Verbs are compared by their stems; other words are found by their stems, but compared by their
//! noun form, since singular and plural differ.

/// The singular of an English noun in lower case.
fn english_noun(word: &str) -> String {
    // words that have another meaning in the plural
    const PLURALS: [&str; 24] = [
        "clothes",
        "goods",
        "customs",
        "news",
        "glasses",
        "arms",
        "means",
        "damages",
        "grounds",
        "spirits",
        "contents",
        "premises",
        "savings",
        "earnings",
        "proceeds",
        "manners",
        "hundreds",
        "thousands",
        "millions",
        "billions",
        "works",
        "papers",
        "funds",
        "terms",
    ];
    match word {
        _ if PLURALS.contains(&word) || word.len() <= 3 || !word.is_ascii() => word.to_owned(),
        _ if word.ends_with("ies") && word.len() > 4 => format!("{}y", &word[..word.len() - 3]),
        _ if ["sses", "xes", "zes", "ches", "shes"].iter().any(|end| word.ends_with(end)) => {
            word[..word.len() - 2].to_owned()
        }
        _ if word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) => {
            word[..word.len() - 1].to_owned()
        }
        _ => word.to_owned(),
    }
}

/// The stem of an English word in lower case.
pub(super) fn english(word: &str) -> String {
    let has_vowel = |text: &str| text.contains(['a', 'e', 'i', 'o', 'u', 'y']);
    if word.len() <= 3 || !word.is_ascii() {
        return word.to_owned();
    }
    let stem = english_noun(word);
    let stem = match stem.strip_suffix("ied") {
        Some(rest) if rest.len() >= 3 => format!("{rest}y"),
        _ => stem,
    };
    let stem = match stem.strip_suffix("ed") {
        Some(rest) if rest.len() >= 3 && has_vowel(rest) && !rest.ends_with('e') => {
            if lost_an_e(rest) {
                format!("{rest}e")
            } else {
                rest.to_owned()
            }
        }
        _ => stem,
    };
    // short words would merge: "car" and "care"
    let stem = if stem.len() > 5 { stem.strip_suffix('e').unwrap_or(&stem).to_owned() } else { stem };
    let mut last = stem.bytes().rev();
    let is_double = last.next().is_some_and(|end| end.is_ascii_alphabetic() && last.next() == Some(end));
    if is_double && stem.len() > 3 { stem[..stem.len() - 1].to_owned() } else { stem }
}

/// Whether `rest`, a short verb without "ed", ended with an "e": "bak" of "baked". Other short verbs double their last
/// letter: "planned".
fn lost_an_e(rest: &str) -> bool {
    let is_vowel = |letter: u8| b"aeiouy".contains(&letter);
    let letters = rest.as_bytes();
    let vowels = letters.iter().filter(|letter| is_vowel(**letter)).count();
    let is_single = matches!(letters, [.., before, vowel, last] if !is_vowel(*before) && is_vowel(*vowel) && !is_vowel(*last) && !b"wx".contains(last));
    let is_soft = ["c", "v", "z", "u"].iter().any(|end| rest.ends_with(end))
        || rest.ends_with('s') && !rest.ends_with("ss") && !rest.ends_with("us")
        || rest.ends_with('g') && !rest.ends_with("ng");
    rest.len() <= 4 && (is_single && vowels == 1 || is_soft || rest.ends_with("aus"))
}

/// The stem of a German word in lower case.
pub(super) fn german(word: &str) -> String {
    let is_long = |rest: &str| rest.chars().count() >= 4;
    // "er" may be a comparative
    let endings = ["en", "es", "em", "e", "n", "s"];
    let rest = endings.iter().find_map(|ending| word.strip_suffix(ending).filter(|rest| is_long(rest)));
    rest.unwrap_or(word).to_owned()
}

/// The nominative of a German noun in lower case.
pub(super) fn german_noun(word: &str) -> String {
    // "Besuchern"
    if let Some(rest) = word.strip_suffix('n').filter(|rest| rest.len() > 6 && rest.ends_with("er")) {
        return rest.to_owned();
    }
    let rest = ["es", "s"].iter().find_map(|ending| {
        word.strip_suffix(ending).filter(|rest| rest.chars().count() >= 4 && !rest.ends_with('s'))
    });
    rest.unwrap_or(word).to_owned()
}
