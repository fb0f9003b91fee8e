//! A stretch of a text with some of what stands around it, and how it is marked.

use crate::base::output::{on_one_line, shortened};
use oracled_domain::rules::Span;

/// So many characters are shown before the offending words, and behind them.
const AROUND_CHARS: usize = 30;
/// Of the offending words, so many are kept; what shows them may show fewer.
const WORDS_MAX_CHARS: usize = 1_000;
/// Stands before offending words until it is known how they are marked. No text of others keeps it.
const BEGIN: char = '\u{e000}';
/// Stands behind them.
const END: char = '\u{e001}';
/// Bold red, and back.
const COLOUR: [&str; 2] = ["\u{1b}[1;31m", "\u{1b}[0m"];

/// Words with what stands around them, for a text of one line in which they are marked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Marked(Vec<Stretch>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stretch {
    /// What stands before the words, safe to be shown.
    before: String,
    /// The words as they came.
    words: String,
    /// What stands behind them, safe to be shown.
    behind: String,
}

impl Marked {
    /// What stands in `text` at `spans`, each with what stands around it; none where there is no such stretch.
    pub(crate) fn of(text: &str, spans: &[&Span]) -> Option<Self> {
        let stretches: Option<Vec<Stretch>> = spans.iter().map(|span| stretch(text, span)).collect();
        stretches.filter(|stretches| !stretches.is_empty()).map(Self)
    }

    /// The words alone.
    pub(crate) fn words(text: &str) -> Self {
        Self(vec![Stretch { words: kept(text), ..Stretch::default() }])
    }

    /// The whole text with marks that [`coloured`] or [`plain`] takes.
    pub(crate) fn whole(&self) -> String {
        self.within(WORDS_MAX_CHARS)
    }

    /// The same with so many characters of each stretch's words.
    pub(crate) fn within(&self, chars_max: usize) -> String {
        let marked = |Stretch { before, words, behind }: &Stretch| {
            format!("{before}{BEGIN}{}{END}{behind}", without_marks(&shortened(words, chars_max)))
        };
        self.0.iter().map(marked).collect::<Vec<_>>().join(" / ")
    }
}

/// As much of offending words as is kept, and one more, which shows that there are more.
fn kept(words: &str) -> String {
    words.chars().take(WORDS_MAX_CHARS + 1).collect()
}

/// `text` of others, safe to be shown beside what is marked.
pub(crate) fn without_marks(text: &str) -> String {
    text.replace([BEGIN, END], "\u{fffd}")
}

/// The marks of `text` as »«.
pub(crate) fn plain(text: &str) -> String {
    text.replace(BEGIN, "»").replace(END, "«")
}

/// What is marked in `text` in colour, which ends with each line and goes on with the next one.
pub(crate) fn coloured(text: &str) -> String {
    let [on, off] = COLOUR;
    let mut shown = String::with_capacity(text.len());
    let mut within = false;
    for character in text.chars() {
        match character {
            BEGIN => {
                within = true;
                shown.push_str(on);
            }
            END => {
                within = false;
                shown.push_str(off);
            }
            '\n' if within => shown.extend([off, "\n", on]),
            other => shown.push(other),
        }
    }
    shown
}

fn stretch(text: &str, span: &Span) -> Option<Stretch> {
    let (before, words, behind) =
        (text.get(..span.start)?, text.get(span.start..span.end)?, text.get(span.end..)?);
    let from = before.char_indices().rev().nth(AROUND_CHARS - 1).map_or(0, |(at, _)| at);
    let dots = if from > 0 { "…" } else { "" };
    Some(Stretch {
        before: format!("{dots}{}", without_marks(&on_one_line(before.get(from..)?))),
        words: kept(words),
        behind: without_marks(&shortened(behind, AROUND_CHARS)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str, spans: &[(usize, usize)]) -> Option<String> {
        let spans: Vec<Span> = spans.iter().map(|&(start, end)| Span { start, end, field: None }).collect();
        Marked::of(text, &spans.iter().collect::<Vec<_>>()).map(|marked| plain(&marked.whole()))
    }

    #[test]
    fn words_are_marked_where_they_stand() {
        assert_eq!(marked("It is always on.", &[(6, 12)]).unwrap(), "It is »always« on.");
        assert_eq!(marked("é", &[(0, 2)]).unwrap(), "»é«");
        assert_eq!(marked("a b", &[(0, 1), (2, 3)]).unwrap(), "»a« b / a »b«");
        let long = format!("{}bad{}", "ä".repeat(100), "ö".repeat(100));
        let around = format!("…{}»bad«{}…", "ä".repeat(30), "ö".repeat(30));
        assert_eq!(marked(&long, &[(200, 203)]).unwrap(), around);
        let words = |chars| format!("»{}…«", "x".repeat(chars));
        assert_eq!(marked(&"x".repeat(1_500), &[(0, 1_500)]).unwrap(), words(1_000));
        assert_eq!(plain(&Marked::words(&"x".repeat(500)).within(120)), words(120));
        assert_eq!(plain(&Marked::words(&"x".repeat(1_000)).whole()), format!("»{}«", "x".repeat(1_000)));
    }

    #[test]
    fn a_stretch_that_is_not_there_is_not_shown() {
        for span in [(0, 1), (1, 2), (0, 3), (2, 0), (7, 9), (0, usize::MAX)] {
            assert_eq!(marked("é", &[span]), None, "{span:?}");
        }
        assert_eq!(marked("a", &[]), None);
    }

    #[test]
    fn nothing_of_others_steers_the_terminal_or_feigns_a_mark() {
        let text = "a\u{e001}\u{1b}[0m\nb\u{e000}bad\u{e001}\u{1b}[2J";
        let at = text.find("bad").unwrap();
        let shown = marked(text, &[(at, at + 3)]).unwrap();
        assert_eq!(shown, "a\u{fffd}\\u001b[0m\\nb\u{fffd}»bad«\u{fffd}\\u001b[2J");
    }

    #[test]
    fn colour_ends_with_the_line() {
        let marked = format!("a {BEGIN}b\nc{END} d");
        assert_eq!(coloured(&marked), "a \u{1b}[1;31mb\u{1b}[0m\n\u{1b}[1;31mc\u{1b}[0m d");
    }
}
