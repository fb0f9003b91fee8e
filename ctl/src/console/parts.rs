//! Parts that several pages have: icons, badges, cards, tables, messages, times.
//!
//! No part has an inline style: the stylesheet knows their classes.

use crate::base::options::encode_segment;
use crate::base::output::format_user;
use domain_base::moment::{Moment, format_span};
use domain_ground::run::RunState;
use domain_upstream::health::OracleHealthLevel;
use domain_verdict::label::VerdictLabel;
use domain_verdict::order::OrderState;
use jiff::Timestamp;
use maud::{Markup, Render, html};
use nix::unistd::{Uid, User};

/// The meaning of a color. Each has an icon of the same name, and is always shown with a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum Tone {
    /// It works, is delivered, supported or fresh.
    Ok,
    /// It waits.
    Waiting,
    /// It needs a person.
    Held,
    /// It is refused or has failed.
    Refused,
    /// Two answers differ.
    Diverged,
    /// It is too old, or lost.
    Stale,
    Info,
    /// It is off, unchanged or ended.
    Neutral,
}

impl Tone {
    pub(crate) const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// A symbol of `assets/icons.svg`.
pub(crate) fn icon(name: &str) -> Markup {
    html! { svg.icon aria-hidden="true" { use href=(format!("#i-{name}")) {} } }
}

/// A state: its tone, its icon, and its word.
pub(crate) fn badge(tone: Tone, text: impl Render) -> Markup {
    html! { span.badge.(tone.name()) { (icon(tone.name())) (text) } }
}

pub(crate) fn order_badge(state: OrderState) -> Markup {
    let tone = match state {
        OrderState::Queued | OrderState::Generating => Tone::Waiting,
        OrderState::Held => Tone::Held,
        OrderState::Delivered => Tone::Ok,
        OrderState::Failed => Tone::Refused,
        OrderState::Cancelled => Tone::Neutral,
    };
    badge(tone, state.into_str())
}

/// The tone of a state of a run.
pub(crate) const fn run_tone(state: RunState) -> Tone {
    match state {
        RunState::Running => Tone::Waiting,
        RunState::Completed => Tone::Ok,
        RunState::Failed => Tone::Refused,
        RunState::Held => Tone::Held,
        RunState::Cancelled | RunState::Discarded => Tone::Neutral,
    }
}

pub(crate) fn health_badge(level: OracleHealthLevel) -> Markup {
    let (tone, word) = match level {
        OracleHealthLevel::Healthy => (Tone::Ok, "works"),
        OracleHealthLevel::Degraded => (Tone::Waiting, "failed recently"),
        OracleHealthLevel::Unhealthy => (Tone::Refused, "fails"),
        OracleHealthLevel::CircuitOpen => (Tone::Refused, "circuit open"),
        OracleHealthLevel::Refusing => (Tone::Refused, "refuses calls"),
    };
    badge(tone, word)
}

/// Whether a value is stale, with its age and the age that is allowed. A value can be many years old and within its limit: that is
/// not called fresh.
pub(crate) fn freshness_badge(is_stale: bool, age_s: Option<u64>, limit_s: u64) -> Markup {
    const YEAR_S: u64 = 365 * 86_400;
    let old = age_s.map_or_else(
        || "no release".to_owned(),
        |age_s| format!("{} old", group_in_text(&format_span(age_s))),
    );
    if is_stale {
        return badge(Tone::Stale, format!("stale, {old}"));
    }
    if age_s.is_some_and(|age_s| age_s <= YEAR_S) {
        return badge(Tone::Ok, format!("fresh, {old}"));
    }
    badge(Tone::Neutral, format!("{old}, allowed {}", group_in_text(&format_span(limit_s))))
}

/// The label of a verdict with its shape, so that color is not the only difference.
pub(crate) fn verdict_label(label: &str, class: &str) -> Markup {
    let known = label.parse::<VerdictLabel>().ok();
    let tone = match known {
        Some(VerdictLabel::Green) => Tone::Ok,
        Some(VerdictLabel::Amber) => Tone::Waiting,
        Some(VerdictLabel::Red) => Tone::Refused,
        Some(VerdictLabel::Null) | None => Tone::Neutral,
    };
    html! {
        span.vlabel.(tone.name()).(class) {
            svg viewBox="0 0 10 10" aria-hidden="true" {
                @match known {
                    Some(VerdictLabel::Green) => circle cx="5" cy="5" r="4.5" {},
                    Some(VerdictLabel::Amber) => path d="M5 .8L9.6 9.2H.4z" {},
                    Some(VerdictLabel::Red) => rect x=".8" y=".8" width="8.4" height="8.4" {},
                    Some(VerdictLabel::Null) | None => circle cx="5" cy="5" r="3.6" fill="none" stroke-width="1.8" {},
                }
            }
            (label)
        }
    }
}

/// A card with a heading; `beside` stands at its right.
pub(crate) fn card(title: &str, beside: &Markup, body: &Markup) -> Markup {
    html! {
        section.card {
            header { h2 { (title) } span.right.chips { (beside) } }
            (body)
        }
    }
}

/// A table with the head and the body in `parts`. A narrow screen scrolls it.
pub(crate) fn scrolled(caption: &str, parts: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(caption) tabindex="0" { table { caption.sr { (caption) } (parts) } }
    }
}

/// A table of cells. A heading that begins with `#` is that of numbers, which stand at the right.
pub(crate) fn table(caption: &str, heading: &[&str], rows: &[Vec<Markup>]) -> Markup {
    let class = |column: usize| heading.get(column).is_some_and(|name| name.starts_with('#')).then_some("n");
    // a narrow screen shows it beside the cell
    let label = |column: usize| heading.get(column).map(|name| name.trim_start_matches('#'));
    let parts = html! {
        thead { tr {
            @for (column, name) in heading.iter().enumerate() { th scope="col" class=[class(column)] { (name.trim_start_matches('#')) } }
        } }
        tbody {
            @for row in rows {
                tr { @for (column, cell) in row.iter().enumerate() { td class=[class(column)] data-label=[label(column)] { (cell) } } }
            }
            @if rows.is_empty() { tr { td.muted colspan=(heading.len()) { "none" } } }
        }
    };
    scrolled(caption, &parts)
}

/// A table as a card with its heading.
pub(crate) fn table_card(title: &str, heading: &[&str], rows: &[Vec<Markup>]) -> Markup {
    cut_table_card(title, heading, rows, false)
}

/// The same for a list that may have more than these rows.
pub(crate) fn cut_table_card(title: &str, heading: &[&str], rows: &[Vec<Markup>], has_more: bool) -> Markup {
    let number = group_digits(&rows.len().to_string());
    let count = html! { span.count.neutral { @if has_more { "more than " } (number) } };
    card(title, &count, &table(title, heading, rows))
}

/// Names with their values.
pub(crate) fn pairs<'n>(rows: impl IntoIterator<Item = (&'n str, Markup)>) -> Markup {
    html! { dl.dl { @for (name, value) in rows { dt { (name) } dd { (value) } } } }
}

/// A fact that the reader must see, with its remedy.
pub(crate) fn message(tone: Tone, text: &Markup) -> Markup {
    html! { div.msg.(tone.name()) { (icon(tone.name())) div { (text) } } }
}

/// A text of the daemon, with the names between backquotes as code.
pub(crate) fn with_code(text: &str) -> Markup {
    let parts = || text.split('`').enumerate();
    if parts().count() % 2 == 0 {
        // a backquote of its own
        return html! { (text) };
    }
    html! { @for (number, part) in parts() { @if number % 2 == 1 { code { (part) } } @else { (part) } } }
}

/// A number with a comma after each three digits.
pub(crate) fn group_digits(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("−", digits));
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    if whole.is_empty() || !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return number.to_owned();
    }
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}

/// A text with separators in its long numbers. Years, dates and ids stay as they are.
pub(crate) fn group_in_text(text: &str) -> String {
    let word = |word: &str| {
        let core = word.trim_end_matches([',', ';', ':', '.', ')']);
        let is_long = core.split('.').next().is_some_and(|whole| whole.trim_start_matches('-').len() >= 5);
        let rest = word.get(core.len()..).unwrap_or_default();
        if is_long { format!("{}{rest}", group_digits(core)) } else { word.to_owned() }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A text of `oraclectl` with its times in the form of the pages.
pub(crate) fn times_in_text(text: &str) -> String {
    let word = |word: &str| {
        let core = word.trim_end_matches([',', ';', ':', '.', ')']);
        let rest = word.get(core.len()..).unwrap_or_default();
        match core.parse() {
            // a day stays as it is
            Ok(Moment(at)) if core.contains('T') => format!("{}{rest}", at.strftime("%Y-%m-%d %H:%M:%S UTC")),
            _ => word.to_owned(),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A unit in words: an annotation of UCUM such as `{person}` is a word of its own.
fn unit_word(unit: &str) -> String {
    let word = unit.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match word {
        Some(word) if !word.contains(['{', '}']) => word.to_owned(),
        _ => unit.to_owned(),
    }
}

/// The unit of a number in words; that of several if the number is empty, as in a heading. An annotation is a noun, which has a plural:
/// `278 persons`.
pub(crate) fn unit_of(number: &str, unit: &str) -> String {
    let word = unit_word(unit);
    if word == unit
        || number == "1"
        || word.ends_with('s')
        || !word.bytes().all(|byte| byte.is_ascii_lowercase())
    {
        return word;
    }
    let takes_es = ["x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end));
    match word.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u'])) {
        Some(stem) => format!("{stem}ies"),
        None if takes_es => format!("{word}es"),
        None => format!("{word}s"),
    }
}

/// A text as a sentence, which ends in a mark.
pub(crate) fn sentence(text: &str) -> String {
    if text.ends_with(['.', '?', '!', '…']) { text.to_owned() } else { format!("{text}.") }
}

/// The entered reason of an action that was not done, on a page that has no form for it.
pub(crate) fn kept_reason(reason: &str) -> Markup {
    entered_reason("Your reason, which is not stored", reason)
}

/// The entered reason of an action, under a label with what is known about it.
pub(crate) fn entered_reason(label: &str, reason: &str) -> Markup {
    html! {
        @if !reason.is_empty() {
            label.f { (label) textarea readonly rows="3" { (reason) } }
        }
    }
}

/// An identifier in words: `world_bank` is `world bank`.
pub(crate) fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// The name of an axis, with a capital letter: the first word of a title.
pub(crate) fn capitalized(name: &str) -> String {
    let text = words(name);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// `text`, cut at `most` characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}

/// A moment as UTC with its age.
pub(crate) fn moment(at: Timestamp) -> Markup {
    html! { time.nowrap datetime=(at) { (at.strftime("%Y-%m-%d %H:%M:%S UTC")) } " " span.nowrap { "(" (age_text(at, Timestamp::now())) ")" } }
}

/// A moment as UTC, or `none`.
pub(crate) fn moment_or_none(at: Option<Timestamp>) -> Markup {
    html! { @if let Some(at) = at { (moment(at)) } @else { "none" } }
}

/// A moment in a table: its minute, and its age under it.
pub(crate) fn short_moment(at: Timestamp) -> Markup {
    html! {
        time.nowrap datetime=(at) title=(at.strftime("%Y-%m-%d %H:%M:%S UTC")) { (at.strftime("%-d %b %Y, %H:%M UTC")) } " "
        span.muted.nowrap { (age_text(at, Timestamp::now())) }
    }
}

/// When the next attempt is: `due` after its time.
pub(crate) fn due(at: Option<Timestamp>) -> Markup {
    match at {
        Some(at) if at <= Timestamp::now() => html! { "due" },
        Some(at) => short_moment(at),
        None => html! { "none" },
    }
}

/// The day of a moment.
pub(crate) fn day(at: Timestamp) -> Markup {
    html! { time.nowrap datetime=(at) title=(at.strftime("%Y-%m-%d %H:%M:%S UTC")) { (at.strftime("%Y-%m-%d")) } }
}

/// A moment to the second, on a line with other words.
pub(crate) fn second(at: Timestamp) -> Markup {
    html! { time.nowrap datetime=(at) { (at.strftime("%Y-%m-%d %H:%M:%S UTC")) } }
}

/// A moment to the minute, on a line with other words.
pub(crate) fn minute(at: Timestamp) -> Markup {
    html! { time datetime=(at) title=(at.strftime("%Y-%m-%d %H:%M:%S UTC")) { (at.strftime("%Y-%m-%d %H:%M UTC")) } }
}

/// The age of a moment. The script renders it again while the page is open.
pub(crate) fn age(at: Timestamp) -> Markup {
    let seconds = Timestamp::now().duration_since(at).as_secs().unsigned_abs();
    html! { time data-age datetime=(at) title=(at.strftime("%Y-%m-%d %H:%M:%S UTC")) { (format_span(seconds)) } }
}

/// How long ago `at` was, or how far in the future it is.
fn age_text(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs();
    let span = format_span(seconds.unsigned_abs());
    if seconds < 0 { format!("in {span}") } else { format!("{span} ago") }
}

/// A user with a name and a numeric user id. Without a name in the log, it is that of the user on this machine.
pub(crate) fn user(uid: &str, name: Option<&str>) -> String {
    if name.is_some() {
        return format_user(uid, name);
    }
    let known = uid.parse::<u32>().ok().and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok().flatten());
    format_user(uid, known.as_ref().map(|user| user.name.as_str()))
}

/// The most characters of an id that are shown, and those at its end after a cut.
const ID_CHARS: usize = 28;
const ID_END: usize = 8;

/// An id, cut in the middle if it is long. What shows it has the whole id as its title.
pub(crate) fn short_id(id: &str) -> String {
    let length = id.chars().count();
    if length <= ID_CHARS {
        return id.to_owned();
    }
    let start = id.chars().take(ID_CHARS - ID_END - 1);
    start.chain(['…']).chain(id.chars().skip(length - ID_END)).collect()
}

/// A link to the page of a session.
pub(crate) fn session_link(session_id: &str) -> Markup {
    html! { a href=(format!("/sessions/{}", encode_segment(session_id))) title=(session_id) { (short_id(session_id)) } }
}

/// The same with the whole id, where ids that differ in the middle only must not look the same.
pub(crate) fn whole_session_link(session_id: &str) -> Markup {
    html! { span.free { a href=(format!("/sessions/{}", encode_segment(session_id))) { (session_id) } } }
}

/// The reason of an order with the code before its colon in words: `generations_used_up: the model …`. The causes of the policy are
/// codes, too.
pub(crate) fn reason_in_words(reason: &str) -> String {
    let (code, rest) = reason.split_once(": ").unwrap_or((reason, ""));
    if !code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
        return reason.to_owned();
    }
    match (code, rest) {
        (_, "") => words(code),
        ("policy", causes) => format!("{code}: {}", words(causes)),
        _ => format!("{}: {rest}", words(code)),
    }
}

/// The reason of an order in a table, with its codes as the title.
pub(crate) fn order_reason(reason: Option<String>) -> Markup {
    html! {
        @match reason {
            Some(reason) => span.free title=(reason) { (reason_in_words(&reason)) },
            None => "none",
        }
    }
}

/// A text of any length in a table. Its column stays wide enough to read, and a long word is broken.
pub(crate) fn free_text(text: &str) -> Markup {
    html! { span.free { (text) } }
}

/// A link to the next page of a list: the page at `path` with the parameter `after`.
pub(crate) fn next_link(path: &str, next: Option<&str>) -> Markup {
    let separator = if path.contains('?') { '&' } else { '?' };
    html! {
        @if let Some(next) = next {
            div.pager { span.right {
                a.btn.slim rel="next" data-key="ArrowRight" href=(format!("{path}{separator}after={}", encode_segment(next))) { "Next page" }
            } }
        }
    }
}

/// The decision of another person, while the page of the item is open: the script then disables the form.
pub(crate) fn decided(text: &Markup) -> Markup {
    html! { div role="status" data-decided { (message(Tone::Info, text)) } }
}

/// Parts of a page that the script replaces whenever the events at `path` bring new ones.
pub(crate) fn live(path: &str, parts: &Markup) -> Markup {
    html! { div #live.section data-events=(path) { (parts) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_id_is_cut_in_the_middle_and_its_link_has_all_of_it() {
        assert_eq!(short_id("shop/cs_1"), "shop/cs_1");
        let id = format!("cs_live_{}Qe", "a1Kd93é".repeat(28));
        let shown = short_id(&id);
        assert_eq!(shown.chars().count(), ID_CHARS);
        assert!(shown.starts_with("cs_live_a1Kd93é") && shown.ends_with("Kd93éQe"), "{shown}");
        assert!(whole_session_link(&id).into_string().contains(&format!(">{id}</a>")));
        let link = session_link(&id).into_string();
        assert!(
            link.contains(&format!("title=\"{id}\"")) && link.contains(&format!(">{shown}</a>")),
            "{link}"
        );
    }

    #[test]
    fn code_of_a_reason_is_in_words() {
        for (reason, expected) in [
            ("generations_used_up: low_coherence of a_b", "generations used up: low_coherence of a_b"),
            ("policy: short_summary", "policy: short summary"),
            ("interrupted", "interrupted"),
            ("HTTP status 503: a_b", "HTTP status 503: a_b"),
        ] {
            assert_eq!(reason_in_words(reason), expected);
        }
    }

    #[test]
    fn numbers_are_grouped_and_other_texts_stay() {
        for (number, expected) in [
            ("90588", "90,588"),
            ("-1234567.125", "−1,234,567.125"),
            ("100", "100"),
            ("0.5", "0.5"),
            ("inf", "inf"),
            ("", ""),
            ("12a", "12a"),
        ] {
            assert_eq!(group_digits(number), expected);
        }
    }

    #[test]
    fn long_numbers_in_a_text_have_separators() {
        let text = "office-a 54208, office-b -1054611.5: 2000 of 2026-11-20 (12345)";
        assert_eq!(group_in_text(text), "office-a 54,208, office-b −1,054,611.5: 2000 of 2026-11-20 (12345)");
    }

    #[test]
    fn value_of_many_years_within_its_limit_is_not_called_fresh() {
        let day = 86_400;
        let badges = [(false, Some(3 * day)), (false, Some(7_637 * day)), (true, None)];
        let badges = badges.map(|(is_stale, age)| freshness_badge(is_stale, age, 9_000 * day).into_string());
        for (badge, class) in badges.iter().zip(["ok", "neutral", "stale"]) {
            assert!(badge.contains(&format!("class=\"badge {class}\"")), "{badge}");
        }
        let texts = badges.each_ref().map(|badge| badge.rsplit("</svg>").next().expect("a text"));
        insta::assert_snapshot!("badges_of_ages", texts.join("\n"));
    }

    #[test]
    fn times_in_a_text_have_the_form_of_the_pages() {
        let text =
            "resolved at 2026-11-20T10:00:00.123456Z by ann, revoked at 2026-11-21T10:00:00Z, of 2026-11-20";
        let shown =
            "resolved at 2026-11-20 10:00:00 UTC by ann, revoked at 2026-11-21 10:00:00 UTC, of 2026-11-20";
        assert_eq!(times_in_text(text), shown);
    }

    #[test]
    fn names_between_backquotes_are_code() {
        for (text, expected) in [
            ("`a_b` is <1>", "<code>a_b</code> is &lt;1&gt;"),
            ("no name", "no name"),
            ("one ` only", "one ` only"),
        ] {
            assert_eq!(with_code(text).into_string(), expected);
        }
    }

    #[test]
    fn sentence_ends_in_one_mark() {
        for (text, expected) in [("it failed", "it failed."), ("with this path?", "with this path?")] {
            assert_eq!(sentence(text), expected);
        }
    }

    #[test]
    fn unit_of_several_is_a_plural() {
        for (number, unit, expected) in [
            ("278", "{person}", "persons"),
            ("1", "{person}", "person"),
            ("", "{person}", "persons"),
            ("2", "{city}", "cities"),
            ("2", "{box}", "boxes"),
            ("2", "km2", "km2"),
            ("2", "{a}/{b}", "{a}/{b}"),
            ("2", "{persons}", "persons"),
        ] {
            assert_eq!(unit_of(number, unit), expected);
        }
    }

    #[test]
    fn unit_of_one_annotation_is_a_word() {
        for (unit, expected) in [("{person}", "person"), ("km2", "km2"), ("{a}/{b}", "{a}/{b}"), ("", "")] {
            assert_eq!(unit_word(unit), expected);
        }
        assert_eq!(
            (capitalized("total_population"), cut("abcdef", 3)),
            ("Total population".into(), "abc…".into())
        );
    }
}
