//! The checks of the data of a card: its proof, its entries and its texts.

use super::leaves::{depth_step, text_of, tokens};
use super::{CardError, CardPart, PartLayout, TextCheck, VerdictCard, is_digest};
use domain_audit::checkpoint::{Checkpoint, LogKey, WitnessKey};
use domain_audit::leaf::{LINKS, SALTS, leaf_of};
use domain_audit::log_proof::is_included;
use domain_audit::log_tree::leaf_hash;
use domain_audit::wire::ProvedEntry;
use domain_base::digest::Sha256Hex;
use domain_rules::FactSet;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The maximum numbers of levels and of members of an entry. The log writes fewer.
const ENTRY_DEPTH: usize = 32;
const ENTRY_MEMBERS: usize = 256;
/// The numbers of entries are smaller, so that each reader reads them exactly.
const SEQ_END: u64 = 1_000_000_000_000_000;
/// The maximum number of witnesses of a checkpoint.
const WITNESSES_MAX: usize = 100;

const NO_TEXTS: &str = "a text belongs to no entry";
const UNWRITTEN: &str = "the line is not one that the log writes";
const OTHER_SALTS: &str = "the salts of an entry are not those of its members";
const OTHER_FACTS: &str = "the facts are not those of the entry";

type Fault = &'static str;

/// The results of the checks of all parts.
#[derive(Default)]
pub(super) struct CheckedCard {
    checkpoint: Option<Checkpoint>,
    /// The entry of the delivery.
    delivery: Option<CardEntry>,
    /// The numbers of the entries.
    numbers: BTreeSet<u64>,
    pub(super) is_test: bool,
    pub(super) is_internal: bool,
}

/// An entry whose line has the form that the log writes, so it can be parsed in only one way.
struct CardEntry {
    seq: u64,
    event: String,
    /// This entry, in the form in which another entry names it.
    itself: String,
    /// The entries that it names; `None` if it names none, or if the value was erased or withheld.
    links: Option<HashSet<String>>,
    line: String,
    members: Value,
}

impl VerdictCard {
    /// Checks the parts: the proof first, since the others need its checkpoint, then the verdict, which names the entries of the
    /// others.
    pub(super) fn check(&self) -> Result<CheckedCard, CardError> {
        let mut parts: Vec<_> = self.layout.parts.iter().zip(&self.parts).collect();
        parts.sort_by_key(|(layout, _)| match layout.check {
            TextCheck::Proof => 0,
            TextCheck::Verdict => 1,
            _ => 2,
        });
        let mut checked = CheckedCard::default();
        for (layout, part) in parts {
            let check = self.check_part(layout, part, &mut checked);
            check.map_err(|fault| CardError::Part { part: layout.id.clone(), fault })?;
        }
        Ok(checked)
    }

    fn check_part(
        &self,
        layout: &PartLayout,
        part: &CardPart,
        checked: &mut CheckedCard,
    ) -> Result<(), Fault> {
        if layout.check == TextCheck::Proof {
            checked.checkpoint = Some(check_proof(part)?);
            return Ok(());
        }
        let entries = self.check_entries(layout, part, checked)?;
        check_texts(layout.check, entries.first(), part)?;
        checked.is_test |=
            entries.iter().any(|entry| entry.members.get("test_mode") == Some(&Value::Bool(true)));
        checked.is_internal |= entries.iter().any(CardEntry::is_internal);
        if layout.check == TextCheck::Verdict {
            checked.delivery = entries.into_iter().next();
            return Ok(());
        }
        let delivery = checked.delivery.as_ref().ok_or("the card has no delivery")?;
        entries.iter().try_for_each(|entry| entry.check_named(delivery))?;
        let is_value = |(name, value): (&String, &String)| delivery.text(name) == Some(value);
        let is_missing = entries.is_empty() && layout.needed.iter().any(is_value);
        require(!is_missing, "the card must have an entry here, and has none")
    }

    fn check_entries(
        &self,
        layout: &PartLayout,
        part: &CardPart,
        checked: &mut CheckedCard,
    ) -> Result<Vec<CardEntry>, Fault> {
        let checkpoint = checked.checkpoint.as_ref().ok_or("the card has no proof")?;
        let is_declared = |event: &String| self.layout.parts.iter().any(|part| part.events.contains(event));
        let (mut entries, mut events) = (Vec::<CardEntry>::new(), BTreeSet::new());
        for proved in &part.entries {
            let entry = CardEntry::read(proved, checkpoint)?;
            let is_own =
                if layout.others { !is_declared(&entry.event) } else { layout.events.contains(&entry.event) };
            // each event occurs once: further entries belong to other deliveries
            let is_first = events.insert(entry.event.clone()) || layout.others;
            require(is_own && is_first, "an entry belongs to another part")?;
            let is_after = entries.last().is_none_or(|last| last.seq < entry.seq);
            require(
                is_after && checked.numbers.insert(entry.seq),
                "an entry is repeated, or not in its place",
            )?;
            entries.push(entry);
        }
        Ok(entries)
    }
}

impl CheckedCard {
    /// The session in the entry of the delivery; `None` if its id was erased.
    pub(super) fn session_id(&self) -> Option<String> {
        self.delivery.as_ref().and_then(|delivery| delivery.text("session_id")).map(str::to_owned)
    }

    /// The number of entries of the log.
    pub(super) fn size(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.size)
    }
}

impl CardEntry {
    /// Reads an entry, and checks that it is in the log.
    fn read(ProvedEntry { line, proof }: &ProvedEntry, checkpoint: &Checkpoint) -> Result<Self, Fault> {
        let members = members(line)?;
        let [(first, number), (second, event), ..] = members.as_slice() else { return Err(UNWRITTEN) };
        let seq = read_seq(number).filter(|_| first == "seq").ok_or("an entry has no number")?;
        let is_event = |event: &&str| {
            !event.is_empty() && event.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        let event = event.strip_prefix('"').and_then(|event| event.strip_suffix('"')).filter(is_event);
        let event = event.filter(|_| second == "event").ok_or("an entry has no event")?.to_owned();
        check_salts(&members)?;
        let leaf = leaf_of(line).map_err(|_| OTHER_SALTS)?;
        let hash = leaf_hash(leaf.as_bytes());
        let proof = proof.read().ok_or("a hash of the proof is not one")?;
        let is_in = is_included(hash, seq - 1, checkpoint.size, &proof, &checkpoint.root);
        require(is_in, "an entry is not in the log")?;
        let itself = link(seq, Sha256Hex::from_bytes(&hash).as_str());
        let links = members.iter().find(|(name, _)| name == LINKS).and_then(|(_, value)| read_links(value));
        let members = serde_json::from_str(line).map_err(|_| UNWRITTEN)?;
        Ok(Self { seq, event, itself, links, line: line.clone(), members })
    }

    /// Checks that the delivery names the entry, or that the entry names the delivery.
    fn check_named(&self, delivery: &Self) -> Result<(), Fault> {
        let names = |one: &Self, other: &Self| one.links.as_ref().map(|links| links.contains(&other.itself));
        let (named, naming) = (names(delivery, self), names(self, delivery));
        if named == Some(true) || naming == Some(true) {
            return Ok(());
        }
        let is_other = if self.seq < delivery.seq { named } else { naming }.is_some();
        Err(if is_other {
            "an entry is not of this delivery"
        } else {
            "it cannot be checked: the log does not say that an entry is of this delivery"
        })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.members.get(name).and_then(Value::as_str)
    }

    /// Whether it has what only operators see.
    fn is_internal(&self) -> bool {
        self.members.pointer("/caller/uid").is_some() || self.members.get("peer").is_some()
    }
}

fn require(holds: bool, fault: Fault) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(fault) }
}

/// An entry, in the form in which another entry names it.
fn link(seq: impl std::fmt::Display, leaf: &str) -> String {
    format!("{{\"seq\":{seq},\"leaf_sha256\":\"{leaf}\"}}")
}

/// The number of an entry; `None` for any other form of it.
fn read_seq(text: &str) -> Option<u64> {
    let seq = text.parse().ok().filter(|seq| (1..SEQ_END).contains(seq))?;
    (seq.to_string() == text).then_some(seq)
}

/// The entries that an entry names; `None` if the text is not a list of them as the log writes it.
fn read_links(text: &str) -> Option<HashSet<String>> {
    let links = text.strip_prefix('[')?.strip_suffix(']')?;
    let read = |text: &str| {
        let (seq, rest) = text.strip_prefix("{\"seq\":")?.split_once(",\"leaf_sha256\":\"")?;
        read_seq(seq)?;
        let sha256: Sha256Hex = rest.strip_suffix("\"}")?.parse().ok()?;
        Some(link(seq, sha256.as_str()))
    };
    // each ends with the first brace
    let found = links.split_inclusive('}').map(|text| read(text.strip_prefix(',').unwrap_or(text)));
    let found: Vec<String> = found.collect::<Option<_>>()?;
    (!found.is_empty() && found.join(",") == links).then(|| found.into_iter().collect())
}

/// The members of a JSON object with the texts of their values. The object has no space around them, each name once, and each text in it
/// is one of Unicode.
fn members(json: &str) -> Result<Vec<(String, &str)>, Fault> {
    let (mut found, mut names) = (Vec::new(), HashSet::new());
    let (mut depth, mut name, mut start, mut end) = (0_usize, None::<String>, 0, 0);
    for (at, token) in tokens(json) {
        require(
            !token.starts_with('"') || text_of(token).is_some(),
            "a text of an entry is not one of Unicode",
        )?;
        match (depth, token) {
            (1, "," | "}") => {
                if let Some(name) = name.take() {
                    require(names.insert(name.clone()), UNWRITTEN)?;
                    found.push((name, json.get(start..end).ok_or(UNWRITTEN)?));
                }
            }
            (1, _) if name.is_none() => name = Some(text_of(token).unwrap_or_else(|| token.to_owned())),
            (1, ":") => start = at + 1,
            _ => {}
        }
        depth = depth.saturating_add_signed(depth_step(token));
        end = at + token.len();
        let is_small = depth <= ENTRY_DEPTH && found.len() <= ENTRY_MEMBERS;
        require(is_small, "an entry has too many levels or members")?;
    }
    let written = found.iter().map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())));
    let is_own = format!("{{{}}}", written.collect::<Vec<_>>().join(",")) == json;
    require(is_own, UNWRITTEN).map(|()| found)
}

/// Checks that the salts of an entry are its last member, and belong to members of the entry, each once and in their order. `leaf_of`
/// requires 32 digits for each salt. With another length, part of a value could be moved into its salt.
fn check_salts(entry: &[(String, &str)]) -> Result<(), Fault> {
    let Some(at) = entry.iter().position(|(name, _)| name == SALTS) else { return Ok(()) };
    let Some(((_, salts), own)) = entry.split_last().filter(|_| at + 1 == entry.len()) else {
        return Err(OTHER_SALTS);
    };
    let (salts, mut own) = (members(salts)?, own.iter());
    let is_in_order = salts.iter().all(|(salt, _)| own.any(|(name, _)| name == salt));
    require(!salts.is_empty() && is_in_order, OTHER_SALTS)
}

/// Checks that the checkpoint has valid signatures of the key of the log and of each witness, and no other signatures.
fn check_proof(CardPart { entries, texts, more }: &CardPart) -> Result<Checkpoint, Fault> {
    require(entries.is_empty(), "the proof has no entries")?;
    let [note, key] = texts.as_slice() else { return Err("the checkpoint or the key is missing") };
    let signatures = note.rsplit_once("\n\n").map_or(0, |(_, signatures)| signatures.lines().count());
    let is_distinct = more.iter().collect::<BTreeSet<_>>().len() == more.len();
    let is_counted = more.len() <= WITNESSES_MAX && is_distinct && signatures == more.len() + 1;
    require(is_counted, "a key or a signature is missing or repeated, or there are too many")?;
    let checkpoint = key.parse().ok().and_then(|key: LogKey| key.verify(note).ok());
    let checkpoint = checkpoint.ok_or("the checkpoint is not signed with the key of the card")?;
    require((1..SEQ_END).contains(&checkpoint.size), "the checkpoint is not that of a log")?;
    let is_of = |witness: &String| witness.parse().is_ok_and(|key: WitnessKey| key.verify(note).is_ok());
    require(more.iter().all(is_of), "a witness has not cosigned the checkpoint")?;
    Ok(checkpoint)
}

fn check_texts(
    check: TextCheck,
    entry: Option<&CardEntry>,
    CardPart { texts, more, .. }: &CardPart,
) -> Result<(), Fault> {
    let digest = |text: &String| Sha256Hex::of(text.as_bytes());
    match check {
        TextCheck::Verdict => {
            let entry = entry.ok_or("the entry of the delivery is missing")?;
            require(texts.len() <= 1 && more.is_empty(), NO_TEXTS)?;
            let is_own = |text| is_digest(&entry.members, "verdict_sha256", &digest(text));
            require(texts.iter().all(is_own), "the text is not the delivered one")
        }
        TextCheck::Facts => check_facts(entry.map_or(&Value::Null, |entry| &entry.members), texts, more),
        TextCheck::Digests => {
            let line = entry.map_or("", |entry| entry.line.as_str());
            let digests: HashSet<&str> = line.split('"').filter(|text| text.len() == 64).collect();
            let is_own = |text| digests.contains(digest(text).as_str());
            require(more.is_empty() && texts.iter().all(is_own), NO_TEXTS)
        }
        TextCheck::None | TextCheck::Proof => require(texts.is_empty() && more.is_empty(), NO_TEXTS),
    }
}

/// Checks the facts of an evaluation and their raw records. An empty text is one that the card leaves out.
fn check_facts(entry: &Value, texts: &[String], more: &[String]) -> Result<(), Fault> {
    let Some(sources) = entry.get("facts_from") else {
        let is_own = texts.is_empty() || is_digest(entry, "facts_sha256", &FactSet::sha256_of(texts));
        return require(is_own && more.is_empty(), OTHER_FACTS);
    };
    require(sources.is_object(), OTHER_FACTS)?;
    let statements = objects(sources, "relied_on")?;
    require([texts.len(), more.len()] == [statements.len(); 2], OTHER_FACTS)?;
    let mut records = HashMap::new();
    for record in objects(sources, "origins")?.iter().filter_map(|origin| origin.get("record")) {
        if let Some(id) = record.get("record_id").and_then(Value::as_str) {
            records.entry(id).or_insert(record);
        }
    }
    for ((statement, fact), raw) in statements.iter().zip(texts).zip(more) {
        let is_fact = fact.is_empty() || is_digest(statement, "fact_sha256", &Sha256Hex::of(fact.as_bytes()));
        require(is_fact, "a fact is not that of the entry")?;
        let record = statement.get("record_id").and_then(Value::as_str).and_then(|id| records.get(id));
        let is_raw = |record: &&Value| is_digest(record, "raw_hash", &Sha256Hex::of(raw.as_bytes()));
        require(raw.is_empty() || record.is_some_and(is_raw), "a raw record is not that of the entry")?;
    }
    Ok(())
}

/// A list of objects in an entry; empty if there is none.
fn objects<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], Fault> {
    let Some(list) = value.get(name) else { return Ok(&[]) };
    let list = list.as_array().filter(|list| list.iter().all(Value::is_object));
    list.map(Vec::as_slice).ok_or("an entry has no list where the log writes one")
}
