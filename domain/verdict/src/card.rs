//! The verdict card: one HTML file with a delivered verdict, its entries of the log, and their proof, which verifies itself in a
//! browser.
//!
//! Each part of the page has its data as JSON in one form, and shows the rows that `layout.json` derives from them. The rest of
//! the page is the frame, whose digest is published for each version. So every byte of a card is checked in one way: the frame by
//! its digest, the shown text by deriving it again, and the data by their proof. `checks.mjs` does the same in the browser and in
//! the client for Node, and `card.py` in the client for Python: `tests/tests/card_forgeries.rs` compares them. Each check is linear in
//! the size of the card.

mod check;
mod leaves;

use crate::card::leaves::{JsonLeaf, LeafIndex, flatten};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::wire::{LogBundle, ProvedEntry};
use domain_base::digest::Sha256Hex;
use domain_base::event::event_in;
use domain_rules::FactSet;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

const LAYOUT: &str = include_str!("card/layout.json");
const STYLE: &str = include_str!("card/style.css");
/// The checks of the page. The client for Node has a link to the file.
const CHECKS: &str = include_str!("card/checks.mjs");
const PAGE: &str = include_str!("card/page.js");
/// The SHA-256 of the frame of each version, by its number. Cards of all versions can be verified.
pub const FRAMES: &str = include_str!("card/frames.json");
/// The SHA-256 of the first frame, whose cards could be forged. It was never released.
pub const WITHDRAWN_FRAME: &str = "6659664fb052db29819557251b5a779deacfa45bf8ae9afef3d54b3ba2c96200";
/// The maximum size of a card, in bytes.
pub const CARD_BYTES_MAX: usize = 16 * 1024 * 1024;

const LAYOUT_START: &str = "<script type=\"application/json\" id=\"layout\">";
const SHOWN_START: &str = "<dl>";
const DATA_START: &str = "</dl>\n<script type=\"application/json\">";
const DATA_END: &str = "</script>";

/// The most facts of a check without sources that a card lists, and their total size in bytes.
const FACTS_MAX: usize = 100;
const FACTS_BYTES_MAX: usize = 32 * 1024;
/// The maximum number of values that a part shows of its entries and its document. A text with more values than remain is shown as it is.
const SHOWN_VALUES: usize = 10_000;

/// The data of a part of a card.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardPart {
    /// The entries of the log that the part is about.
    pub entries: Vec<ProvedEntry>,
    /// The verdict; the facts; in the proof, the checkpoint and the key of the log.
    pub texts: Vec<String>,
    /// The raw records of the facts; in the proof, the keys of the witnesses that have cosigned the checkpoint.
    pub more: Vec<String>,
}

/// A verdict card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictCard {
    layout: CardLayout,
    /// The parts, in the order of the layout.
    parts: Vec<CardPart>,
}

/// A card whose bytes are all consistent with the key of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedCard {
    /// The session with its application; `None` if its id was erased.
    pub session_id: Option<String>,
    /// The delivered text; `None` if it was erased.
    pub verdict: Option<String>,
    pub key: String,
    /// The signed checkpoint.
    pub checkpoint: String,
    /// The number of entries of the log.
    pub size: u64,
    /// The keys of the witnesses that have cosigned the checkpoint.
    pub witnesses: Vec<String>,
    /// Whether it has what only operators see.
    pub is_internal: bool,
    /// Whether its verdict is one of a daemon in test mode.
    pub is_test: bool,
}

/// Why a card is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    #[error("the file has more than {CARD_BYTES_MAX} bytes; a verdict card has fewer")]
    TooLong,
    #[error("the file is no verdict card of a version that this program knows, or its page was changed")]
    Frame,
    #[error(
        "the card is of version 1, whose cards can be forged; ask the sender for a card of version 2 (`oraclectl card`)"
    )]
    Withdrawn,
    #[error("the card is of the log key {0}, which is not the expected one")]
    Key(String),
    #[error("the part `{part}` was changed: {fault}")]
    Part { part: String, fault: &'static str },
}

/// How a page shows the data of a card.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct CardLayout {
    /// The text in front of the digest of a value that was erased or withheld.
    withheld: String,
    /// The first and the last character of each range of characters that hide something.
    hiding: Vec<(u32, u32)>,
    parts: Vec<PartLayout>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct PartLayout {
    id: String,
    title: String,
    /// The events of its entries; each has one entry.
    events: Vec<String>,
    /// Whether its entries are those of all events that no part declares.
    #[serde(default)]
    others: bool,
    /// The check of its texts.
    #[serde(default)]
    check: TextCheck,
    /// The values of members of the delivery with which it must have an entry.
    #[serde(default)]
    needed: BTreeMap<String, String>,
    /// Whether its first text is a JSON document whose members are shown.
    #[serde(default)]
    document: bool,
    rows: Vec<RowLayout>,
}

/// How the texts of a part are checked. A text is one with a digest in the entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TextCheck {
    /// It has none.
    #[default]
    None,
    /// The delivered text.
    Verdict,
    /// The facts of an evaluation and their raw records.
    Facts,
    /// Texts whose digests are anywhere in the entry.
    Digests,
    /// It has no entries, but the checkpoint and the keys.
    Proof,
}

/// Rows of a part: a text, all values at or under a path, or rows for each element of a list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct RowLayout {
    #[serde(default)]
    label: String,
    #[serde(default)]
    text: Option<String>,
    /// `#` is the number of the element.
    #[serde(default)]
    path: String,
    /// Other words for values.
    #[serde(default)]
    words: BTreeMap<String, String>,
    /// Whether the row is only shown for a value that was erased or withheld.
    #[serde(default)]
    hidden: bool,
    /// The path of the list.
    #[serde(default)]
    each: Option<String>,
    #[serde(default)]
    rows: Vec<RowLayout>,
    /// The paths of which none may have a value.
    #[serde(default)]
    unless: Vec<String>,
}

static PRESENT: LazyLock<CardLayout> =
    LazyLock::new(|| serde_json::from_str(LAYOUT).expect("the layout is valid"));

/// The page without data and shown text.
static FRAME: LazyLock<String> = LazyLock::new(|| {
    let script = format!("\n{CHECKS}{PAGE}");
    let base64_of = |text: &str| BASE64_STANDARD.encode(Sha256Hex::of(text.as_bytes()).to_bytes());
    let part = |PartLayout { id, title, .. }: &PartLayout| {
        format!(
            "<section id=\"{id}\">\n<h2>{title}</h2>\n<p class=\"state\">not checked: the checks of this page did not run; they need JavaScript, and a script that nobody has changed</p>\n\
             {SHOWN_START}{DATA_START}{DATA_END}\n</section>\n"
        )
    };
    include_str!("card/frame.html")
        .replace("@SCRIPT_SHA256@", &base64_of(&script))
        .replace("@STYLE_SHA256@", &base64_of(STYLE))
        .replace("@STYLE@", STYLE)
        .replace("@PARTS@", &PRESENT.parts.iter().map(part).collect::<String>())
        .replace("@LAYOUT@", LAYOUT.trim_end())
        .replace("@SCRIPT@", &script)
});

impl VerdictCard {
    /// The card of a delivery. `verdict` is its text, unless it was erased. `witnesses` are the keys that have cosigned the
    /// checkpoint.
    #[must_use]
    pub fn new(bundle: LogBundle, key: String, witnesses: Vec<String>, verdict: Option<String>) -> Self {
        let layout = PRESENT.clone();
        let parts = vec![CardPart::default(); layout.parts.len()];
        let mut card = Self { layout, parts };
        if let Some(part) = card.part_mut("verdict") {
            part.texts.extend(verdict);
        }
        if let Some(part) = card.part_mut("proof") {
            *part = CardPart { texts: vec![bundle.checkpoint, key], more: witnesses, ..CardPart::default() };
        }
        bundle.entries.into_iter().for_each(|entry| card.add(entry));
        card
    }

    /// Adds an entry to the part that shows its event.
    pub fn add(&mut self, entry: ProvedEntry) {
        let event = event_of(&entry.line);
        let declares = |part: &PartLayout| part.events.contains(&event);
        let parts = &self.layout.parts;
        let at = parts.iter().position(declares).or_else(|| parts.iter().position(|part| part.others));
        if let Some(part) = at.and_then(|at| self.parts.get_mut(at)) {
            part.entries.push(entry);
        }
    }

    /// The same card with other entries: each with its values that only operators see, and further ones.
    #[must_use]
    pub fn with_entries(mut self, entries: Vec<ProvedEntry>) -> Self {
        self.parts.iter_mut().for_each(|part| part.entries.clear());
        entries.into_iter().for_each(|entry| self.add(entry));
        self
    }

    /// Adds the facts of the evaluation among the entries: for each statement of a source on which it relied, the text of the fact
    /// and its raw record, or else the given facts. Texts that are not those of the entry are left out, and so are too many facts.
    pub fn add_facts(
        &mut self,
        given: &[String],
        find_fact: impl Fn(&str) -> Option<String>,
        raw_records: &BTreeMap<String, String>,
    ) {
        let Some(part) = self.part_mut("facts") else { return };
        let Some(entry) = part.entries.first().map(|entry| entry_of(&entry.line)) else { return };
        let Some(origins) = entry.get("facts_from") else {
            let bytes: usize = given.iter().map(String::len).sum();
            let is_short = given.len() <= FACTS_MAX && bytes <= FACTS_BYTES_MAX;
            if is_short && is_digest(&entry, "facts_sha256", &FactSet::sha256_of(given)) {
                part.texts = given.to_vec();
            }
            return;
        };
        for statement in list(origins, "relied_on") {
            let fact = statement.get("fact_sha256").and_then(Value::as_str).and_then(&find_fact);
            let raw = statement.get("record_id").and_then(Value::as_str).and_then(|id| raw_records.get(id));
            let raw = raw.filter(|raw| is_raw_record(origins, statement, raw)).cloned();
            part.texts.push(fact.unwrap_or_default());
            part.more.push(raw.unwrap_or_default());
        }
    }

    /// The records of sources on which the evaluation relied, whose raw records are in the log as digests.
    #[must_use]
    pub fn relied_on(&self) -> Vec<String> {
        let entry =
            self.part("facts").and_then(|part| part.entries.first()).map(|entry| entry_of(&entry.line));
        let origins = entry.as_ref().and_then(|entry| entry.get("facts_from")).unwrap_or(&Value::Null);
        let ids = list(origins, "relied_on").filter_map(|statement| statement.get("record_id")?.as_str());
        ids.map(str::to_owned).collect()
    }

    /// The page.
    #[must_use]
    pub fn render(&self) -> String {
        let mut page = String::new();
        let mut frame = FRAME.as_str();
        for (layout, part) in self.layout.parts.iter().zip(&self.parts) {
            let Some((before, after)) = split_slot(frame) else { break };
            page.push_str(before);
            page.push_str(&self.shown(layout, part));
            page.push_str(DATA_START);
            page.push_str(&data_of(part));
            frame = after;
        }
        page.push_str(frame);
        page
    }

    /// Reads a card. Its frame must be a published one, and its data in their form. Nothing else is verified.
    ///
    /// # Errors
    /// The file is no card, or was changed there.
    pub fn read(page: &str) -> Result<Self, CardError> {
        Self::read_shown(page).map(|(card, _)| card)
    }

    /// Reads a card, and the shown text of each part.
    fn read_shown(page: &str) -> Result<(Self, Vec<&str>), CardError> {
        if page.len() > CARD_BYTES_MAX {
            return Err(CardError::TooLong);
        }
        let (mut frame, mut rest, mut found) = (String::new(), page, Vec::new());
        while let Some((before, after)) = rest.split_once(SHOWN_START) {
            let (shown, after) = after.split_once(DATA_START).ok_or(CardError::Frame)?;
            let (data, after) = after.split_once(DATA_END).ok_or(CardError::Frame)?;
            frame.extend([before, SHOWN_START, DATA_START, DATA_END]);
            found.push((shown, data));
            rest = after;
        }
        frame.push_str(rest);
        let published: BTreeMap<String, Sha256Hex> =
            serde_json::from_str(FRAMES).map_err(|_| CardError::Frame)?;
        let sha256 = Sha256Hex::of(frame.as_bytes());
        if sha256.as_str() == WITHDRAWN_FRAME {
            return Err(CardError::Withdrawn);
        }
        if !published.values().any(|known| *known == sha256) {
            return Err(CardError::Frame);
        }
        let layout = rest.split_once(LAYOUT_START).and_then(|(_, after)| after.split_once(DATA_END));
        let layout: CardLayout =
            layout.and_then(|(layout, _)| serde_json::from_str(layout).ok()).ok_or(CardError::Frame)?;
        let mut card = Self { parts: Vec::new(), layout };
        for (part, (_, data)) in card.layout.parts.iter().zip(&found) {
            let changed = |fault| CardError::Part { part: part.id.clone(), fault };
            let own: CardPart = serde_json::from_str(data).map_err(|_| changed("the data cannot be read"))?;
            if data_of(&own) != *data {
                return Err(changed("the data are not in their form"));
            }
            card.parts.push(own);
        }
        Ok((card, found.into_iter().map(|(shown, _)| shown).collect()))
    }

    /// Verifies every byte of a card. `is_expected` decides on the key of the log, before anything else is verified.
    ///
    /// # Errors
    /// The file is no card, is of another log, or was changed.
    pub fn verify(page: &str, is_expected: impl FnOnce(&str) -> bool) -> Result<VerifiedCard, CardError> {
        let (card, shown) = Self::read_shown(page)?;
        let (key, witnesses) = card.keys();
        let key = key.unwrap_or_default().to_owned();
        if !is_expected(&key) {
            return Err(CardError::Key(key));
        }
        let checked = card.check()?;
        for ((layout, part), shown) in card.layout.parts.iter().zip(&card.parts).zip(shown) {
            if card.shown(layout, part) != shown {
                let fault = "the shown text is not that of its data";
                return Err(CardError::Part { part: layout.id.clone(), fault });
            }
        }
        Ok(VerifiedCard {
            session_id: checked.session_id(),
            verdict: card.part("verdict").and_then(|part| part.texts.first().cloned()),
            witnesses: witnesses.to_vec(),
            checkpoint: card.bundle().checkpoint,
            size: checked.size(),
            key,
            is_internal: checked.is_internal,
            is_test: checked.is_test,
        })
    }

    /// The entries of all parts with the checkpoint, as a document of `oraclectl log prove`.
    #[must_use]
    pub fn bundle(&self) -> LogBundle {
        let checkpoint = self.part("proof").and_then(|part| part.texts.first().cloned());
        let entries = self.parts.iter().flat_map(|part| part.entries.clone()).collect();
        LogBundle { checkpoint: checkpoint.unwrap_or_default(), entries, continuation: None }
    }

    /// The key of the log and the keys of the witnesses in the card.
    #[must_use]
    pub fn keys(&self) -> (Option<&str>, &[String]) {
        let proof = self.part("proof");
        (
            proof.and_then(|part| part.texts.get(1)).map(String::as_str),
            proof.map_or(&[], |part| part.more.as_slice()),
        )
    }

    fn part(&self, id: &str) -> Option<&CardPart> {
        let at = self.layout.parts.iter().position(|part| part.id == id)?;
        self.parts.get(at)
    }

    fn part_mut(&mut self, id: &str) -> Option<&mut CardPart> {
        let at = self.layout.parts.iter().position(|part| part.id == id)?;
        self.parts.get_mut(at)
    }

    /// The rows of a part as HTML.
    fn shown(&self, layout: &PartLayout, part: &CardPart) -> String {
        let numbered = |name, texts: &[String]| {
            let leaf = move |(index, text): (usize, &String)| (format!("{name}.{index}"), text.clone());
            texts.iter().enumerate().map(leaf).collect::<Vec<JsonLeaf>>().into_iter()
        };
        let document = part.texts.first().filter(|_| layout.document);
        let entries = part.entries.iter().map(|entry| (&entry.line, event_of(&entry.line)));
        let mut leaves = Vec::new();
        for (text, prefix) in entries.chain(document.map(|text| (text, "document".to_owned()))) {
            let values = flatten(text, &prefix, SHOWN_VALUES.saturating_sub(leaves.len()));
            leaves.extend(values);
        }
        leaves.extend(numbered("texts", &part.texts).chain(numbered("more", &part.more)));
        let mut html = String::new();
        for (label, text) in self.layout.rows(&layout.rows, &LeafIndex::of(&leaves), "") {
            let (label, text) = (self.layout.to_html(&label), self.layout.to_html(&text));
            write!(html, "<dt>{label}</dt><dd>{text}</dd>").expect("a text can be extended");
        }
        html
    }
}

impl CardLayout {
    /// The rows as pairs of a label and a text.
    fn rows(&self, rows: &[RowLayout], leaves: &LeafIndex<'_>, index: &str) -> Vec<(String, String)> {
        let has = |path: &str| !leaves.under(path).is_empty();
        let mut shown = Vec::new();
        for row in rows {
            if row.unless.iter().any(|path| has(&path.replace('#', index))) {
                continue;
            }
            if let Some(text) = &row.text {
                shown.push((row.label.clone(), text.clone()));
            } else if let Some(each) = &row.each {
                let elements = (0usize..).take_while(|number| has(&format!("{each}.{number}")));
                shown.extend(elements.flat_map(|number| self.rows(&row.rows, leaves, &number.to_string())));
            } else {
                shown.extend(self.values(row, leaves, &row.path.replace('#', index)));
            }
        }
        shown
    }

    /// The rows of the values at or under a path.
    fn values(&self, row: &RowLayout, leaves: &LeafIndex<'_>, path: &str) -> Vec<(String, String)> {
        let found = leaves.under(path).iter().filter(|(_, text)| !text.is_empty());
        let found: Vec<_> =
            found.map(|(leaf, text)| (leaf.get(path.len()..).unwrap_or_default(), text)).collect();
        if let [(".sha256", sha256)] = found.as_slice() {
            return vec![(row.label.clone(), format!("{}{sha256}", self.withheld))];
        }
        if row.hidden {
            return Vec::new();
        }
        let value = |(rest, text): (&str, &String)| {
            let is_number = |name: &&str| name.bytes().all(|byte| byte.is_ascii_digit());
            let names = rest.split('.').filter(|name| !is_number(name));
            let label: Vec<_> =
                [row.label.as_str()].into_iter().filter(|label| !label.is_empty()).chain(names).collect();
            (label.join(" › "), row.words.get(text).unwrap_or(text).clone())
        };
        found.into_iter().map(value).collect()
    }

    /// A text as HTML. Characters that hide something are shown as escapes, as everywhere; old cards keep their ranges.
    fn to_html(&self, text: &str) -> String {
        let mut html = String::with_capacity(text.len());
        for character in text.replace("\r\n", "\n").chars() {
            let code = u32::from(character);
            match character {
                '&' => html.push_str("&amp;"),
                '<' => html.push_str("&lt;"),
                '>' => html.push_str("&gt;"),
                _ if self.hiding.iter().any(|(first, last)| (*first..=*last).contains(&code)) => {
                    html.extend(character.escape_unicode());
                }
                _ => html.push(character),
            }
        }
        html
    }
}

/// The frame up to the next place for shown text, and from the end of its data on.
fn split_slot(frame: &str) -> Option<(&str, &str)> {
    let at = frame.find(SHOWN_START)? + SHOWN_START.len();
    let (before, after) = frame.split_at(at);
    Some((before, after.strip_prefix(DATA_START)?))
}

/// The data as the page has them.
fn data_of(part: &CardPart) -> String {
    let json = serde_json::to_string(part).expect("the data are plain data with string keys");
    json.replace('<', "\\u003c")
}

fn entry_of(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_default()
}

fn event_of(line: &str) -> String {
    event_in(line).unwrap_or_default().to_owned()
}

fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn is_digest(entry: &Value, name: &str, sha256: &Sha256Hex) -> bool {
    entry.get(name).and_then(Value::as_str) == Some(sha256.as_str())
}

/// Whether a text is the raw record of a statement, by the origins in the entry of an evaluation.
fn is_raw_record(origins: &Value, statement: &Value, raw: &str) -> bool {
    let mut records = list(origins, "origins").filter_map(|origin| origin.get("record"));
    let record = records.find(|record| record.get("record_id") == statement.get("record_id"));
    record.is_some_and(|record| is_digest(record, "raw_hash", &Sha256Hex::of(raw.as_bytes())))
}

#[cfg(test)]
mod tests;
