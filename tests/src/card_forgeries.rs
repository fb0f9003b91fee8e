//! Forged verdict cards with the answer that each reader must give, and random cards on which all readers must agree.
//!
//! The forger has the key of the log, so the tests include cards that only the owner of a log can create. Rust derives the shown text of each
//! card. A reader that derives another text refuses the card.

#![expect(clippy::indexing_slicing, reason = "the log has the entries that a forger names")]
#![expect(clippy::too_many_lines, reason = "most functions are lists of forgeries")]

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::LogSigner;
use domain_audit::leaf::SALTS;
use domain_audit::log_proof::prove_inclusion;
use domain_audit::log_tiles::Subtree;
use domain_audit::log_tree::{TreeHash, leaf_hash, node_hash};
use domain_audit::wire::{LogBundle, LogProof, ProvedEntry};
use domain_base::digest::Sha256Hex;
use domain_verdict::card::VerdictCard;
use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;

const SALT: &str = "0123456789abcdef0123456789abcdef";
const QUESTION: &str = r#"Never do this: "Stop taking your insulin today."#;
const DATA_START: &str = "</dl>\n<script type=\"application/json\">";
const DATA_END: &str = "</script>";
const SHOWN_START: &str = "<dl>";

/// A card, and whether each reader must accept it.
#[derive(Debug, Clone)]
pub struct ForgedCard {
    /// The kind of the forgery, and its number.
    pub name: String,
    pub page: Vec<u8>,
    /// `None` if the readers must only agree.
    pub is_accepted: Option<bool>,
    /// Whether the reader accepts cards of a daemon in test mode.
    pub allows_test_mode: bool,
}

/// The key that each reader expects.
#[must_use]
pub fn expected_key() -> String {
    signer().key().to_string()
}

fn signer() -> LogSigner {
    LogSigner::new("oracled/forged", &[7; 32])
}

/// An entry: its line, and its leaf in the tree.
#[derive(Debug, Clone)]
struct ForgedEntry {
    members: Vec<(String, String)>,
    /// The names of the members with a salt, and their salts.
    salts: Vec<(String, String)>,
    /// The numbers of the entries that it names.
    names: Vec<usize>,
    /// The line, if it is not the one of these members.
    line: Option<String>,
}

impl ForgedEntry {
    fn new(seq: usize, event: &str, members: &Value, salted: &[&str]) -> Self {
        let mut all =
            vec![("seq".to_owned(), seq.to_string()), ("event".to_owned(), json!(event).to_string())];
        all.extend(
            members.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.to_string())),
        );
        let is_salted = |name: &str| salted.contains(&name);
        let names = all.iter().filter(|(name, _)| is_salted(name));
        let salts = names.map(|(name, _)| (name.clone(), SALT.to_owned())).collect();
        Self { members: all, salts, names: Vec::new(), line: None }
    }

    fn event(&self) -> &str {
        self.members[1].1.trim_matches('"')
    }

    fn seq(&self) -> String {
        self.members[0].1.clone()
    }

    /// The line that the log writes, with other salts.
    fn line_with(&self, members: &[(String, String)], salts: &[(String, String)]) -> String {
        let pair = |(name, value): &(String, String)| format!("{}:{value}", json!(name));
        let mut pairs: Vec<_> = members.iter().map(pair).collect();
        if !salts.is_empty() {
            let salts = salts.iter().map(|(name, salt)| format!("{}:{}", json!(name), json!(salt)));
            pairs.push(format!("\"{SALTS}\":{{{}}}", salts.collect::<Vec<_>>().join(",")));
        }
        format!("{{{}}}", pairs.join(","))
    }

    fn line(&self) -> String {
        self.line.clone().unwrap_or_else(|| self.line_with(&self.members, &self.salts))
    }

    fn leaf(&self) -> String {
        self.line_with(&self.hidden(|_| true), &[])
    }

    /// The members with hashes in place of the values with a salt that `is_hidden` selects.
    fn hidden(&self, is_hidden: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let hide = |(name, value): &(String, String)| {
            let salt = self.salts.iter().find(|(salted, _)| salted == name && is_hidden(name));
            let hash = |(_, salt): &(String, String)| {
                json!({"sha256": Sha256Hex::of(format!("{salt}{value}").as_bytes())}).to_string()
            };
            (name.clone(), salt.map_or_else(|| value.clone(), hash))
        };
        self.members.iter().map(hide).collect()
    }

    /// The entry with these values withheld.
    fn withhold(&self, names: &[&str]) -> Self {
        let is_hidden = |name: &str| names.contains(&name);
        let open: Vec<_> = self.salts.iter().filter(|(name, _)| !is_hidden(name)).cloned().collect();
        let line = self.line_with(&self.hidden(is_hidden), &open);
        Self { line: Some(line), ..self.clone() }
    }

    fn with_line(&self, line: String) -> Self {
        Self { line: Some(line), ..self.clone() }
    }

    /// The entry, in the form in which another entry names it.
    fn link(&self) -> String {
        let leaf = Sha256Hex::from_bytes(&leaf_hash(self.leaf().as_bytes()));
        format!(r#"{{"seq":{},"leaf_sha256":"{leaf}"}}"#, self.seq())
    }
}

/// A log, and the deliveries in it.
#[derive(Debug, Clone)]
pub struct ForgedLog {
    entries: Vec<ForgedEntry>,
    deliveries: Vec<ForgedDelivery>,
}

/// The entries of a delivery, by their numbers, and its texts.
#[derive(Debug, Clone)]
struct ForgedDelivery {
    entries: Vec<usize>,
    verdict: String,
    facts: Vec<String>,
    raw: BTreeMap<String, String>,
}

/// The deliveries of a log.
const ORDERED: usize = 0;
const SUBMITTED: usize = 1;
const REGENERATED: usize = 2;
const RELEASED: usize = 3;
const TESTED: usize = 4;
const OLD: usize = 5;

impl ForgedLog {
    /// A log with an order whose first attempt failed, a submission, a regeneration, a verdict that was held, one of test mode, and one
    /// from before entries named each other. `covers_ids`: the ids of sessions can be withheld.
    #[must_use]
    pub fn new(covers_ids: bool) -> Self {
        let mut log = Self { entries: Vec::new(), deliveries: Vec::new() };
        let text = |summary: &str| json!({"verdict": "GREEN", "summary": summary}).to_string();
        let sha256 = |text: &str| Sha256Hex::of(text.as_bytes());
        let attempt = |number: u32, prompt: &str| json!({"attempt": number, "generation": {"prompt_sha256": sha256(prompt), "settings": {"model": "m", "temperature": 0.0}}});
        let decision = |text: &str, question: &str| json!({"query_preview": question, "approved": true, "coherence_score": 1.0, "flags": [], "verdict_sha256": sha256(text)});
        let ids = if covers_ids { &["session_id", "links"][..] } else { &[] };
        let mut add = |session: &str, event: &str, members: Value, salted: &[&str], links: &[usize]| {
            let mut members = members;
            members["session_id"] = json!(session);
            members["timestamp"] = json!("2026-11-29T10:00:00Z");
            if !links.is_empty() {
                members["links"] = json!([]);
            }
            let seq = log.entries.len() + 1;
            let entry = ForgedEntry::new(seq, event, &members, &[salted, ids].concat());
            log.entries.push(ForgedEntry { names: links.to_vec(), ..entry });
            seq
        };
        let mut deliveries = Vec::new();

        let (rejected, ordered) = (text("no"), text("Aruba had 101001 people. <b>&"));
        add("cs_1", "order_attempted", attempt(1, "one"), &["generation"], &[]);
        add("cs_1", "tmm_crosscheck", decision(&rejected, QUESTION), &["query_preview", "flags"], &[]);
        let attempted = add("cs_1", "order_attempted", attempt(2, "two"), &["generation"], &[]);
        let decided =
            add("cs_1", "tmm_crosscheck", decision(&ordered, QUESTION), &["query_preview", "flags"], &[]);
        let (fact, raw) = ("Aruba had 101001 people", "Aruba,101001");
        let evaluated = json!({"verdict": "PASS", "rules": [{"rule": "RULE-PREC-013"}], "evaluation_sha256": "e1", "facts_sha256": sha256("f"),
            "facts_from": {"facts": 1, "relied_on": [{"oracle_id": "office", "source_version": "1", "record_id": "r1", "axes": ["people"], "fact_sha256": sha256(fact)}],
                "origins": [{"record": {"record_id": "r1", "raw_hash": sha256(raw)}}]}});
        let evaluated = add("cs_1", "rules_evaluated", evaluated, &["facts_from"], &[]);
        let cached = json!({"tier": "quick", "verdict_label": "GREEN", "verdict_sha256": sha256(&ordered), "path": "generate", "evaluation_sha256": "e1"});
        let delivered =
            add("cs_1", "verdict_cached", cached, &["evaluation_sha256"], &[attempted, decided, evaluated]);
        let ended =
            add("cs_1", "order_delivered", json!({"path": "generate", "attempts": 2}), &[], &[delivered]);
        deliveries.push(ForgedDelivery {
            entries: vec![attempted, decided, evaluated, delivered, ended],
            verdict: ordered,
            facts: vec![fact.to_owned()],
            raw: BTreeMap::from([("r1".to_owned(), raw.to_owned())]),
        });

        let submitted = text("A sound and simple plan.");
        let facts = vec!["Ice floats.".to_owned(), "It is \u{202e}cold.\u{2028}".to_owned()];
        let decided = add(
            "cs_2",
            "tmm_crosscheck",
            decision(&submitted, "Does ice float?"),
            &["query_preview", "flags"],
            &[],
        );
        let evaluated = json!({"verdict": "PASS", "rules": [{"rule": "RULE-PREC-004"}], "evaluation_sha256": "e2", "facts_sha256": Sha256Hex::of(json!(facts).to_string().as_bytes())});
        let evaluated = add("cs_2", "rules_evaluated", evaluated, &[], &[]);
        let cached = json!({"tier": "quick", "verdict_label": "GREEN", "verdict_sha256": sha256(&submitted), "path": "submit", "evaluation_sha256": "e2"});
        let delivered = add("cs_2", "verdict_cached", cached, &[], &[decided, evaluated]);
        deliveries.push(ForgedDelivery {
            entries: vec![decided, evaluated, delivered],
            verdict: submitted,
            facts,
            raw: BTreeMap::new(),
        });

        let again = text("Made again.");
        let attempted = add(
            "cs_1",
            "regen_attempted",
            json!({"tier": "quick", "generation": {"prompt_sha256": sha256("two")}}),
            &["generation"],
            &[],
        );
        let decided =
            add("cs_1", "tmm_crosscheck", decision(&again, QUESTION), &["query_preview", "flags"], &[]);
        let cached = json!({"tier": "quick", "verdict_label": "GREEN", "verdict_sha256": sha256(&again), "path": "regen"});
        let delivered = add("cs_1", "verdict_cached", cached, &[], &[attempted, decided]);
        let compared = add(
            "cs_1",
            "regen_divergence_check",
            json!({"original_verdict": "RED", "regen_verdict": "GREEN", "divergence_level": "significant"}),
            &[],
            &[delivered],
        );
        let plain = |entries: Vec<usize>, verdict: String| ForgedDelivery {
            entries,
            verdict,
            facts: Vec::new(),
            raw: BTreeMap::new(),
        };
        deliveries.push(plain(vec![attempted, decided, delivered, compared], again));

        let held = text("Held for a person.");
        let decided =
            add("cs_3", "tmm_crosscheck", decision(&held, "Hold?"), &["query_preview", "flags"], &[]);
        let policy = add(
            "cs_3",
            "policy_applied",
            json!({"action": "hold", "causes": ["verdict_conflict"], "verdict_sha256": sha256(&held)}),
            &["causes"],
            &[],
        );
        let released = add(
            "cs_3",
            "order_released",
            json!({"reason": "fine", "user_name": "ada", "peer": {"uid": 7}}),
            &["reason", "user_name"],
            &[],
        );
        let cached = json!({"tier": "quick", "verdict_label": "GREEN", "verdict_sha256": sha256(&held), "path": "submit"});
        let delivered = add("cs_3", "verdict_cached", cached, &[], &[decided, policy, released]);
        deliveries.push(plain(vec![decided, policy, delivered], held));

        let tested = text("Only a test.");
        let with = |mut members: Value, name: &str, value: Value| {
            members[name] = value;
            members
        };
        let decided = add(
            "cs_4",
            "tmm_crosscheck",
            with(decision(&tested, "Test?"), "test_mode", json!(true)),
            &["query_preview"],
            &[],
        );
        let cached = json!({"tier": "quick", "verdict_label": "GREEN", "verdict_sha256": sha256(&tested), "path": "submit", "test_mode": true});
        let delivered = add("cs_4", "verdict_cached", cached, &[], &[decided]);
        deliveries.push(plain(vec![decided, delivered], tested));

        let old = text("From an older log.");
        let decided = add("cs_5", "tmm_crosscheck", decision(&old, "Old?"), &["query_preview"], &[]);
        let cached = json!({"tier": "quick", "verdict_label": "GREEN", "verdict_sha256": sha256(&old), "path": "submit"});
        let delivered = add("cs_5", "verdict_cached", cached, &[], &[]);
        deliveries.push(plain(vec![decided, delivered], old));
        log.deliveries = deliveries;
        log.relink();
        log
    }

    /// Names the entries as they are now.
    fn relink(&mut self) {
        for index in 0..self.entries.len() {
            let links: Vec<_> =
                self.entries[index].names.iter().map(|seq| self.entries[seq - 1].link()).collect();
            let own = self.entries[index].members.iter_mut().filter(|(name, _)| name == "links");
            own.for_each(|(_, value)| *value = format!("[{}]", links.join(",")));
        }
    }

    fn hash(&self, Subtree { height, index }: Subtree) -> TreeHash {
        if height == 0 {
            return leaf_hash(self.entries[index as usize].leaf().as_bytes());
        }
        let half = |index| self.hash(Subtree { height: height - 1, index });
        node_hash(&half(2 * index), &half(2 * index + 1))
    }

    /// The card of a delivery with these entries, whose lines may be forged.
    fn page_with(&self, delivery: &ForgedDelivery, entries: &[ForgedEntry], signer: &LogSigner) -> String {
        let size = self.entries.len() as u64;
        let mut subtree = |tree| Ok::<_, Infallible>(self.hash(tree));
        let root = domain_audit::log_proof::root(size, &mut subtree).unwrap_or_else(|never| match never {});
        let mut prove = |entry: &ForgedEntry| {
            let index = entry.seq().parse::<u64>().map_or(0, |seq| seq.saturating_sub(1));
            let hashes = prove_inclusion(index, size, &mut subtree).unwrap_or_else(|never| match never {});
            ProvedEntry { line: entry.line(), proof: LogProof::of(&hashes) }
        };
        let entries = entries.iter().map(&mut prove).collect();
        let bundle = LogBundle { checkpoint: signer.sign(size, root), entries, continuation: None };
        let mut card =
            VerdictCard::new(bundle, signer.key().to_string(), Vec::new(), Some(delivery.verdict.clone()));
        let find = |sha256: &str| {
            delivery.facts.iter().find(|fact| Sha256Hex::of(fact.as_bytes()).as_str() == sha256).cloned()
        };
        card.add_facts(&delivery.facts, find, &delivery.raw);
        card.render()
    }

    fn entries_of(&self, delivery: usize) -> Vec<ForgedEntry> {
        self.deliveries[delivery].entries.iter().map(|seq| self.entries[seq - 1].clone()).collect()
    }

    fn page(&self, delivery: usize) -> String {
        self.page_with(&self.deliveries[delivery], &self.entries_of(delivery), &signer())
    }

    /// The card of a delivery whose entry with this event is changed.
    fn page_where(
        &self,
        delivery: usize,
        event: &str,
        change: impl Fn(&ForgedEntry) -> ForgedEntry,
    ) -> String {
        let is_it = |entry: &ForgedEntry| entry.event() == event;
        let entries = self
            .entries_of(delivery)
            .into_iter()
            .map(|entry| if is_it(&entry) { change(&entry) } else { entry });
        self.page_with(&self.deliveries[delivery], &entries.collect::<Vec<_>>(), &signer())
    }

    /// The card of one delivery with the entry of `event` of another one.
    fn page_mixed(&self, delivery: usize, event: &str, other: usize, withheld: &[&str]) -> String {
        let is_it = |entry: &ForgedEntry| entry.event() == event;
        let mut entries = self.entries_of(delivery);
        entries.retain(|entry| !is_it(entry));
        entries.push(self.entries[other - 1].clone());
        entries.sort_by_key(|entry| entry.seq().parse::<u64>().unwrap_or_default());
        let entries: Vec<_> = entries.iter().map(|entry| entry.withhold(withheld)).collect();
        self.page_with(&self.deliveries[delivery], &entries, &signer())
    }
}

/// The card of a submission of this text.
fn page_of_verdict(verdict: String) -> String {
    let mut log = ForgedLog::new(false);
    let sha256 = json!(Sha256Hex::of(verdict.as_bytes())).to_string();
    let delivery = &mut log.deliveries[SUBMITTED];
    delivery.verdict = verdict;
    for seq in delivery.entries.clone() {
        let digests = log.entries[seq - 1].members.iter_mut().filter(|(name, _)| name == "verdict_sha256");
        digests.for_each(|(_, value)| value.clone_from(&sha256));
    }
    log.relink();
    log.page(SUBMITTED)
}

/// JSON texts, and texts that are nearly JSON.
const ODD: &[&str] = &[
    "null",
    "true",
    "0",
    "-0.0",
    "1.50",
    "1e999",
    "123456789012345678901234567890",
    "NaN",
    "-Infinity",
    "01",
    "[]",
    "{}",
    "[[]]",
    "[1,",
    "{\"a\":1,\"a\":2}",
    "{\"a\"}",
    "{\"\":{\"\":0}}",
    "{\"a.b\":[{\"c\":null,\"0\":\"x\"}]}",
    r#""""#,
    r#""\ud800""#,
    r#""\ud83d\ude00""#,
    r#""\u0000\u202e\u2028""#,
    r#""\q""#,
    "\"\u{feff}\u{ad}\u{7f}\r\n\r\"",
    "\"",
    "\"\\",
    "\\",
    "\"<b>&amp;</script>\"",
    "\"\u{1d173}\u{e0001}é漢\"",
    "\t[ 1 , 2 ]\r\n",
    "x\"y\"z",
    "{\"sha256\":\"0\"}",
    r#"{"sha256":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}"#,
    "}",
    "]]]",
    ",,",
    "::",
    "\u{85}\u{a0}",
];

/// A random JSON text, or a text that is nearly JSON.
fn random_json(random: &mut Rng, depth: u32) -> String {
    let inner = |random: &mut Rng| random_json(random, depth.saturating_sub(1));
    match random.u8(..if depth == 0 { 8 } else { 12 }) {
        8 | 9 => {
            let items: Vec<_> = (0..random.usize(..4)).map(|_| inner(random)).collect();
            format!("[{}]", items.join(","))
        }
        10 | 11 => {
            let name = |random: &mut Rng| match random.u8(..6) {
                0 => "\"x\"".to_owned(),
                1 => "\"0\"".to_owned(),
                2 => "\"sha256\"".to_owned(),
                3 => json!("n".repeat(random.usize(..300))).to_string(),
                _ => json!(format!("m{}", random.u8(..5))).to_string(),
            };
            let members: Vec<_> =
                (0..random.usize(..4)).map(|_| format!("{}:{}", name(random), inner(random))).collect();
            format!("{{{}}}", members.join(","))
        }
        7 => {
            let levels = random.usize(..40);
            format!("{}{}{}", "[".repeat(levels), random.u8(..), "]".repeat(levels))
        }
        6 => json!(random.u64(..).to_string().repeat(random.usize(..4))).to_string(),
        _ => ODD[random.usize(..ODD.len())].to_owned(),
    }
}

/// A random card of the log's owner, whose entries and texts can have any content, or a changed one. The readers must agree on it.
#[must_use]
pub fn random_card(random: &mut Rng, number: usize) -> ForgedCard {
    let mut log = ForgedLog::new(random.bool());
    let at = random.usize(..log.deliveries.len());
    for _ in 0..random.usize(..3) {
        let numbers = &log.deliveries[at].entries;
        let seq = numbers[random.usize(..numbers.len())];
        let entry = &mut log.entries[seq - 1];
        let member = random.usize(2..entry.members.len());
        let value = random_json(random, 4);
        match random.u8(..8) {
            0 => entry.members.insert(member, (format!("m{}", random.u8(..3)), value)),
            1 => drop(entry.members.remove(member)),
            2 => entry.members.swap(member, member - usize::from(member > 2)),
            3 => entry.salts.clear(),
            4 => entry.members.push((value.chars().take(20).collect(), "1".to_owned())),
            _ => entry.members[member].1 = value,
        }
        let names: Vec<_> = entry.members.iter().map(|(name, _)| name.clone()).collect();
        entry.salts.retain(|(name, _)| names.contains(name));
    }
    let delivery = &mut log.deliveries[at];
    if random.u8(..3) > 0 {
        delivery.verdict = random_json(random, 5);
    }
    if random.u8(..3) == 0 {
        delivery.facts = (0..random.usize(..3)).map(|_| random_json(random, 2)).collect();
    }
    let (verdict, facts) = (
        json!(Sha256Hex::of(delivery.verdict.as_bytes())),
        json!(Sha256Hex::of(json!(delivery.facts).to_string().as_bytes())),
    );
    for seq in delivery.entries.clone() {
        for (name, value) in &mut log.entries[seq - 1].members {
            match name.as_str() {
                "verdict_sha256" => *value = verdict.to_string(),
                "facts_sha256" => *value = facts.to_string(),
                _ => {}
            }
        }
    }
    log.relink();
    let mut page = log.page(at);
    if random.u8(..4) == 0 {
        let part = random.usize(..7);
        let (start, end) = data_at(&page, part);
        let mut data: Vec<char> = page[start..end].chars().collect();
        let place = random.usize(..data.len());
        match random.u8(..3) {
            0 => drop(data.remove(place)),
            1 => data.insert(
                place,
                random.choice(['"', '\\', '{', '[', ',', '0', 'a', ' ', '\u{feff}']).expect("one"),
            ),
            _ => data.swap(place, place.saturating_sub(1)),
        }
        page = with_data(&page, part, |_| data.iter().collect());
    }
    ForgedCard {
        name: format!("random {number}"),
        page: page.into_bytes(),
        is_accepted: None,
        allows_test_mode: random.bool(),
    }
}

/// A genuine card of about `bytes` bytes, then hostile cards for which a reader needs much time or memory if its work is not linear. The owner of
/// the log creates them.
#[must_use]
pub fn hostile_cards(bytes: usize) -> Vec<ForgedCard> {
    let mut cards = Vec::new();
    let mut add = |name: &str, page: String| {
        cards.push(ForgedCard {
            name: name.to_owned(),
            page: page.into_bytes(),
            is_accepted: None,
            allows_test_mode: false,
        });
    };
    // the text is in the card twice
    let half = bytes / 2;
    let text = |summary: &str| json!({"verdict": "GREEN", "summary": summary}).to_string();
    add("genuine", page_of_verdict(text(&"A sound plan. ".repeat(half / 14))));
    let nested =
        |open: &str, close: &str, levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
    add("nested lists in the verdict", page_of_verdict(nested("[", "]", half / 2)));
    add("nested objects in the verdict", page_of_verdict(nested("{\"a\":", "}", half / 6)));
    add("many values", page_of_verdict(format!("[{}1]", "1,".repeat(half / 2))));
    let member = |number: usize| format!("\"{number:0>200}\":1");
    add(
        "many shown values with long names",
        page_of_verdict(format!("{{{}}}", (0..half / 410).map(member).collect::<Vec<_>>().join(","))),
    );
    add("short values, as many as are shown", page_of_verdict(format!("[{}1]", "1,".repeat(9_500))));
    add(
        "a long name",
        page_of_verdict(format!("{{\"{}\":[{}1]}}", "n".repeat(half / 2), "1,".repeat(half / 4))),
    );
    add("escapes", page_of_verdict(format!("\"{}\"", "\\\"".repeat(half / 6))));
    add("escapes without an end", page_of_verdict(format!("\"{}", "\\\"".repeat(half / 6))));
    add("quotation marks", page_of_verdict("\"".repeat(half / 2 - 1)));
    add("characters that hide", page_of_verdict(text(&"\u{202e}".repeat(half / 11))));
    add("characters of HTML", page_of_verdict(text(&"<&>".repeat(half / 12))));
    let page = ForgedLog::new(false).page(SUBMITTED);
    for part in [VERDICT, FACTS, FURTHER, PROOF] {
        let list = |item: &str| format!("[{}{item}]", format!("{item},").repeat(bytes / (item.len() + 1)));
        let data = |entries: &str, texts: &str, more: &str| {
            format!("{{\"entries\":{entries},\"texts\":{texts},\"more\":{more}}}")
        };
        add("nested data", with_data(&page, part, |_| nested("[", "]", half)));
        add("many texts", with_data(&page, part, |_| data("[]", &list("\"\""), "[]")));
        add("many further texts", with_data(&page, part, |_| data("[]", "[]", &list("\"\""))));
        add(
            "many entries",
            with_data(&page, part, |_| {
                data(&list("{\"line\":\"{}\",\"proof\":{\"hashes\":[]}}"), "[]", "[]")
            }),
        );
    }
    add(
        "many hashes",
        with_json(&page, DECISION, |data| {
            data["entries"][0]["proof"]["hashes"] =
                json!(vec!["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="; bytes / 47]);
        }),
    );
    add(
        "many witnesses",
        with_json(&page, PROOF, |data| data["more"] = json!(vec![crate::witness::witness_key(); bytes / 90])),
    );
    add(
        "many signatures",
        with_json(&page, PROOF, |data| {
            let note = data["texts"][0].as_str().expect("a text").to_owned();
            let (_, signature) = note.rsplit_once("\n\n").expect("a signature");
            data["texts"][0] = json!(format!("{note}{}", signature.repeat(bytes / signature.len())));
        }),
    );
    add("open parts of the page", format!("{page}{}", "<dl>".repeat(bytes / 4)));
    add(
        "parts of the page",
        format!("{page}{}", "<dl></dl>\n<script type=\"application/json\"></script>".repeat(bytes / 50)),
    );
    // entries of the log's owner
    let mut log = ForgedLog::new(false);
    let statements: Vec<_> = (0..half / 300).map(|number| json!({"oracle_id": "o", "record_id": format!("r{number}"), "fact_sha256": Sha256Hex::of(b"f")})).collect();
    let origins: Vec<_> = (0..half / 300)
        .rev()
        .map(|number| json!({"record": {"record_id": format!("r{number}"), "raw_hash": Sha256Hex::of(b"r")}}))
        .collect();
    log.deliveries[ORDERED].raw =
        (0..half / 300).map(|number| (format!("r{number}"), "r".to_owned())).collect();
    log.deliveries[ORDERED].facts = vec!["f".to_owned()];
    let evaluated = log.entries[4].members.iter_mut().filter(|(name, _)| name == "facts_from");
    evaluated
        .for_each(|(_, value)| *value = json!({"relied_on": statements, "origins": origins}).to_string());
    log.relink();
    add("many statements", log.page(ORDERED));
    let mut log = ForgedLog::new(false);
    for number in 0..bytes / 2_000 {
        let seq = log.entries.len() + 1;
        let entry = ForgedEntry::new(seq, "seen_later", &json!({"number": number, "links": []}), &[]);
        log.entries.push(ForgedEntry { names: vec![10], ..entry });
        log.deliveries[SUBMITTED].entries.push(seq);
    }
    log.relink();
    add("many entries of later versions", log.page(SUBMITTED));
    let mut log = ForgedLog::new(false);
    let values = format!("{{\"{}\":[{}1]}}", "n".repeat(220), "1,".repeat(9_000));
    for _ in 0..bytes / 2 / values.len() {
        let seq = log.entries.len() + 1;
        let mut entry = ForgedEntry::new(seq, "seen_later", &json!({"many": 0, "links": []}), &[]);
        let many = entry.members.iter_mut().filter(|(name, _)| name == "many");
        many.for_each(|(_, value)| value.clone_from(&values));
        log.entries.push(ForgedEntry { names: vec![10], ..entry });
        log.deliveries[SUBMITTED].entries.push(seq);
    }
    log.relink();
    add("many values under a long name in each of many entries", log.page(SUBMITTED));
    let mut log = ForgedLog::new(false);
    log.entries[9].members.extend((0..half / 20).map(|number| (format!("member{number}"), "1".to_owned())));
    log.relink();
    add("many members", log.page(SUBMITTED));
    cards
}

/// The parts of a page that are not the same in all cards: the shown text and the data of each part. `None` for another page.
fn slots_of(page: &[u8], frame: &str) -> Option<Value> {
    let page = str::from_utf8(page).ok()?;
    let (mut own, mut slots, mut rest) = (String::new(), Vec::new(), page);
    while let Some((before, after)) = rest.split_once(SHOWN_START) {
        let (shown, after) = after.split_once(DATA_START)?;
        let (data, after) = after.split_once(DATA_END)?;
        own.extend([before, SHOWN_START, DATA_START, DATA_END]);
        slots.push(json!([shown, data]));
        rest = after;
    }
    own.push_str(rest);
    (own == frame).then(|| json!(slots))
}

/// The cards as readers in other languages get them: a line with the frame and the key, then a line for each card.
#[must_use]
pub fn lines_of(cards: &[ForgedCard]) -> String {
    let page = ForgedLog::new(false).page(ORDERED);
    let mut frame = page;
    for part in 0..7 {
        let (start, end) = data_at(&frame, part);
        frame.replace_range(start..end, "");
        let (at, _) = frame.match_indices(SHOWN_START).nth(part).expect("a part");
        let end = at + frame[at..].find(DATA_START).expect("its data");
        frame.replace_range(at + SHOWN_START.len()..end, "");
    }
    let line = |card: &ForgedCard| {
        let mut line = json!({"name": card.name, "allow_test_mode": card.allows_test_mode});
        match slots_of(&card.page, &frame) {
            Some(slots) => line["slots"] = slots,
            None => line["page"] = json!(BASE64_STANDARD.encode(&card.page)),
        }
        line.to_string() + "\n"
    };
    let first = json!({"frame": frame, "key": expected_key()}).to_string() + "\n";
    first + &cards.iter().map(line).collect::<String>()
}

/// The answer of the reader in Rust.
#[must_use]
pub fn is_accepted(card: &ForgedCard) -> bool {
    let key = expected_key();
    let verified = str::from_utf8(&card.page).ok().map(|page| VerdictCard::verify(page, |own| own == key));
    verified.is_some_and(|verified| verified.is_ok_and(|verified| !verified.is_test || card.allows_test_mode))
}

/// Replaces the data of a part of a page, and the shown text by the text of the new data, if the data can be read.
fn with_data(page: &str, part: usize, change: impl FnOnce(&str) -> String) -> String {
    let (start, end) = data_at(page, part);
    let changed = format!("{}{}{}", &page[..start], change(&page[start..end]), &page[end..]);
    VerdictCard::read(&changed).map_or(changed, |card| card.render())
}

/// The range of the data of a part.
fn data_at(page: &str, part: usize) -> (usize, usize) {
    let (at, _) = page.match_indices(DATA_START).nth(part).expect("the card has the part");
    let start = at + DATA_START.len();
    (start, start + page[start..].find(DATA_END).expect("it ends"))
}

fn with_json(page: &str, part: usize, change: impl FnOnce(&mut Value)) -> String {
    with_data(page, part, |data| {
        let mut value: Value = serde_json::from_str(data).expect("JSON");
        change(&mut value);
        // the members in their order
        let list = |name: &str| value[name].to_string();
        format!(
            r#"{{"entries":{},"texts":{},"more":{}}}"#,
            entries_json(&value["entries"]),
            list("texts"),
            list("more")
        )
        .replace('<', "\\u003c")
    })
}

fn entries_json(entries: &Value) -> String {
    let entry = |entry: &Value| {
        format!(r#"{{"line":{},"proof":{{"hashes":{}}}}}"#, entry["line"], entry["proof"]["hashes"])
    };
    let entries: Vec<_> = entries.as_array().into_iter().flatten().map(entry).collect();
    format!("[{}]", entries.join(","))
}

/// The parts of the layout, in their order.
const VERDICT: usize = 0;
const DECISION: usize = 1;
const FACTS: usize = 2;
const ORIGIN: usize = 3;
const DIVERGENCE: usize = 4;
const FURTHER: usize = 5;
const PROOF: usize = 6;

/// All forged cards, and genuine ones. `flips` is the number of changed bytes of each genuine one.
#[must_use]
pub fn forged_cards(flips: usize) -> Vec<ForgedCard> {
    let mut cards: Vec<ForgedCard> = Vec::new();
    let mut add = |kind: &str, page: String, is_accepted: bool| {
        let name = format!("{kind} {}", cards.len());
        cards.push(ForgedCard {
            name,
            page: page.into_bytes(),
            is_accepted: Some(is_accepted),
            allows_test_mode: false,
        });
    };
    for covers_ids in [false, true] {
        let log = ForgedLog::new(covers_ids);
        for delivery in [ORDERED, SUBMITTED, REGENERATED, RELEASED] {
            add("genuine", log.page(delivery), true);
        }
        add(
            "genuine, erased values",
            log.page_where(ORDERED, "tmm_crosscheck", |entry| entry.withhold(&["query_preview", "flags"])),
            true,
        );
        add(
            "genuine, without its text",
            with_json(&log.page(SUBMITTED), VERDICT, |data| data["texts"] = json!([])),
            true,
        );
        add(
            "genuine, without its facts",
            with_json(&log.page(SUBMITTED), FACTS, |data| data["texts"] = json!([])),
            true,
        );
        add(
            "genuine, without an optional part",
            with_json(&log.page(SUBMITTED), DECISION, |data| data["entries"] = json!([])),
            true,
        );
        add("test mode", log.page(TESTED), false);
        add("old", log.page(OLD), false);
        forge_salts(&log, &mut add);
        forge_mixtures(&log, covers_ids, &mut add);
        forge_forms(&log, &mut add);
        forge_proofs(&log, &mut add);
    }
    // about as many values as a part shows, with those of the entry before them
    for values in [9_970, 9_990, 10_000] {
        add("genuine, with many values", page_of_verdict(format!("[{}1]", "1,".repeat(values - 1))), true);
    }
    let log = ForgedLog::new(false);
    cards.push(ForgedCard {
        name: "genuine, test mode that is allowed".to_owned(),
        page: log.page(TESTED).into_bytes(),
        is_accepted: Some(true),
        allows_test_mode: true,
    });
    let mut random = Rng::with_seed(76);
    for number in 0..flips {
        let mut page = log.page([ORDERED, SUBMITTED, REGENERATED, RELEASED][number % 4]).into_bytes();
        let at = random.usize(..page.len());
        page[at] ^= 1 << random.u8(..8);
        let name = format!("bytes {number}: {at}");
        cards.push(ForgedCard { name, page, is_accepted: Some(false), allows_test_mode: false });
    }
    cards
}

type AddCard<'a> = dyn FnMut(&str, String, bool) + 'a;

/// The salts of an entry whose leaf stays the same.
fn forge_salts(log: &ForgedLog, add: &mut AddCard<'_>) {
    let forge = |change: &dyn Fn(&ForgedEntry) -> String| {
        log.page_where(ORDERED, "tmm_crosscheck", |entry| entry.with_line(change(entry)))
    };
    let set = |entry: &ForgedEntry, name: &str, value: &str, salt: &str| {
        let mut entry = entry.clone();
        let replace = |pairs: &mut Vec<(String, String)>, value: &str| {
            pairs.iter_mut().filter(|(own, _)| own == name).for_each(|(_, own)| value.clone_into(own));
        };
        replace(&mut entry.members, value);
        replace(&mut entry.salts, salt);
        entry.line()
    };
    // the beginning of the text moves into the salt
    let question = json!(QUESTION).to_string();
    let cut = question.find("\\\"Stop").expect("the quotation") + 1;
    add(
        "salts: a moved border",
        forge(&|entry| {
            set(
                entry,
                "query_preview",
                &format!("{}\"", &question[cut..question.len() - 1]),
                &format!("{SALT}{}", &question[..cut]),
            )
        }),
        false,
    );
    add(
        "salts: a moved border",
        forge(&|entry| set(entry, "query_preview", &question[cut..], &format!("{SALT}{}", &question[..cut]))),
        false,
    );
    for (kind, salt) in [
        ("short", &SALT[1..]),
        ("empty", ""),
        ("upper case", "0123456789ABCDEF0123456789ABCDEF"),
        ("long", "0123456789abcdef0123456789abcdef0"),
    ] {
        add(&format!("salts: {kind}"), forge(&|entry| set(entry, "query_preview", &question, salt)), false);
    }
    let salts = |change: fn(&mut Vec<(String, String)>)| {
        forge(&|entry| {
            let mut salts = entry.salts.clone();
            change(&mut salts);
            entry.line_with(&entry.members, &salts)
        })
    };
    add("salts: a further member", salts(|salts| salts.push(("nothing".to_owned(), SALT.to_owned()))), false);
    add("salts: repeated", salts(|salts| salts.push(salts[0].clone())), false);
    add("salts: reordered", salts(|salts| salts.reverse()), false);
    add("salts: of the salts", salts(|salts| salts.push((SALTS.to_owned(), SALT.to_owned()))), false);
    add("salts: one is missing", salts(|salts| drop(salts.pop())), false);
    for (kind, from, to) in [
        ("white space", "\"salts\":{", "\"salts\": {"),
        ("not last", "\"salts\":{", "\"zzz\":1,\"salts\":{"),
        ("repeated member", "\"salts\":{", "\"salts\":{},\"salts\":{"),
    ] {
        add(&format!("salts: {kind}"), forge(&|entry| entry.line().replacen(from, to, 1)), false);
    }
    add(
        "salts: a second list before",
        forge(&|entry| entry.line().replacen("\"seq\":", "\"salts\":{},\"seq\":", 1)),
        false,
    );
}

/// Entries of other deliveries.
fn forge_mixtures(log: &ForgedLog, covers_ids: bool, add: &mut AddCard<'_>) {
    let ids = ["session_id"];
    let all = ["session_id", "links", "evaluation_sha256"];
    for withheld in [&[][..], &ids, &all] {
        // the attempt that failed, and its decision, in place of those that delivered
        add("mixed: the failed attempt", log.page_mixed(ORDERED, "order_attempted", 1, withheld), false);
        add("mixed: the rejected decision", log.page_mixed(ORDERED, "tmm_crosscheck", 2, withheld), false);
        add(
            "mixed: the decision of another session",
            log.page_mixed(ORDERED, "tmm_crosscheck", 8, withheld),
            false,
        );
        add(
            "mixed: the facts of another session",
            log.page_mixed(SUBMITTED, "rules_evaluated", 5, withheld),
            false,
        );
        add(
            "mixed: facts where there were none",
            log.page_mixed(RELEASED, "rules_evaluated", 9, withheld),
            false,
        );
        add(
            "mixed: the prompt of another session",
            log.page_mixed(SUBMITTED, "order_attempted", 3, withheld),
            false,
        );
        add(
            "mixed: a comparison of another session",
            log.page_mixed(SUBMITTED, "regen_divergence_check", 14, withheld),
            false,
        );
        add(
            "mixed: the end of another order",
            log.page_mixed(SUBMITTED, "order_delivered", 7, withheld),
            false,
        );
    }
    if covers_ids {
        add(
            "withheld: the links",
            log.page_where(ORDERED, "verdict_cached", |entry| entry.withhold(&["links"])),
            false,
        );
        add(
            "genuine, the withheld id",
            log.page_where(ORDERED, "verdict_cached", |entry| entry.withhold(&["session_id"])),
            true,
        );
    }
    let page = log.page(RELEASED);
    let entry = |part: usize, index: usize| {
        let (start, end) = data_at(&page, part);
        serde_json::from_str::<Value>(&page[start..end]).expect("JSON")["entries"][index].clone()
    };
    let (decided, policy, delivered) = (entry(DECISION, 0), entry(DECISION, 1), entry(VERDICT, 0));
    add(
        "repeated: an entry",
        with_json(&page, DECISION, |data| data["entries"] = json!([decided, decided, policy])),
        false,
    );
    add(
        "repeated: an entry at the end",
        with_json(&page, DECISION, |data| data["entries"] = json!([decided, policy, policy])),
        false,
    );
    add(
        "repeated: the delivery",
        with_json(&page, VERDICT, |data| data["entries"] = json!([delivered, delivered])),
        false,
    );
    add(
        "reordered: the entries",
        with_json(&page, DECISION, |data| data["entries"] = json!([policy, decided])),
        false,
    );
    for part in [FACTS, ORIGIN, DIVERGENCE, FURTHER, PROOF, VERDICT] {
        add("another part", with_json(&page, part, |data| data["entries"] = json!([policy])), false);
    }
    add(
        "cut: the comparison",
        with_json(&log.page(REGENERATED), DIVERGENCE, |data| data["entries"] = json!([])),
        false,
    );
    add("cut: the delivery", with_json(&page, VERDICT, |data| data["entries"] = json!([])), false);
}

/// Other forms of the same data, and other texts.
fn forge_forms(log: &ForgedLog, add: &mut AddCard<'_>) {
    let page = log.page(ORDERED);
    for part in [VERDICT, DECISION, FACTS, ORIGIN, DIVERGENCE, FURTHER, PROOF] {
        for text in [
            "",
            "{}",
            "null",
            "[]",
            "{\"entries\":[],\"texts\":[],\"more\":[]}",
            "{\"entries\":[],\"texts\":[\"x\"],\"more\":[]}",
            "{\"entries\":[],\"texts\":[],\"more\":[\"x\"]}",
            "{\"entries\":[],\"texts\":[],\"more\":[],\"more\":[]}",
            "{\"entries\":[],\"more\":[],\"texts\":[]}",
            "{\"entries\":[null],\"texts\":[],\"more\":[]}",
            "{\"entries\":[],\"texts\":[\"\\ud800\"],\"more\":[]}",
            "{\"entries\":[],\"texts\":[1],\"more\":[]}",
            "{\"entries\":{},\"texts\":[],\"more\":[]}",
        ] {
            let is_empty =
                matches!(part, DIVERGENCE | FURTHER) && text == "{\"entries\":[],\"texts\":[],\"more\":[]}";
            // an optional part may be missing
            let is_optional = matches!(part, DECISION | FACTS | ORIGIN)
                && text == "{\"entries\":[],\"texts\":[],\"more\":[]}";
            add(
                &format!("form of part {part}"),
                with_data(&page, part, |_| text.to_owned()),
                is_empty || is_optional,
            );
        }
        add(&format!("white space in part {part}"), with_data(&page, part, |data| format!(" {data}")), false);
        add(
            &format!("cut: part {part}"),
            with_data(&page, part, |data| data[..data.len() - 1].to_owned()),
            false,
        );
    }
    for (from, to) in [
        ("{\"seq\":", "{ \"seq\":"),
        ("\"seq\":4", "\"seq\":4.0"),
        ("\"seq\":4", "\"seq\":04"),
        ("\"seq\":4", "\"seq\":\"4\""),
        ("\"seq\":4", "\"seq\":4e0"),
        ("\"event\":", "\"Event\":"),
        ("{\"seq\":4,", "{"),
    ] {
        add(
            "form of a line",
            log.page_where(ORDERED, "tmm_crosscheck", |entry| {
                entry.with_line(entry.line().replacen(from, to, 1))
            }),
            false,
        );
    }
    let submitted = log.page(SUBMITTED);
    add(
        "text: another verdict",
        with_json(&submitted, VERDICT, |data| data["texts"] = json!(["{\"verdict\":\"RED\"}"])),
        false,
    );
    add(
        "text: two verdicts",
        with_json(&submitted, VERDICT, |data| data["texts"] = json!([data["texts"][0], data["texts"][0]])),
        false,
    );
    add(
        "text: another fact",
        with_json(&submitted, FACTS, |data| data["texts"][0] = json!("Ice sinks.")),
        false,
    );
    add(
        "text: reordered facts",
        with_json(&submitted, FACTS, |data| data["texts"].as_array_mut().expect("a list").reverse()),
        false,
    );
    add(
        "text: one fact",
        with_json(&submitted, FACTS, |data| data["texts"].as_array_mut().expect("a list").truncate(1)),
        false,
    );
    add("text: another raw record", with_json(&page, FACTS, |data| data["more"] = json!(["Aruba,1"])), false);
    add("text: the fact is left out", with_json(&page, FACTS, |data| data["texts"] = json!([""])), true);
    add("text: too many", with_json(&page, FACTS, |data| data["texts"] = json!(["", ""])), false);
    let decision = "coherence_score\\\":1.0";
    assert!(page.contains(decision), "the page has the score");
    add("text: another score", page.replace(decision, "coherence_score\\\":0.1"), false);
    // the page
    add(
        "text: a surrogate alone in place of U+FFFD",
        {
            let verdict =
                "{\"verdict\":\"GREEN\",\"summary\":\"A sound and simple plan.\",\"\u{fffd}x\":null}";
            let page = page_of_verdict(verdict.to_owned());
            assert!(page.contains("\u{fffd}x"), "the page has the character");
            page.replace("\u{fffd}x", "\\ud800x")
        },
        false,
    );
    add("frame: the first version", include_str!("../stored/card-1.html").to_owned(), false);
    add("frame: another word", page.replacen("Verdict card", "Verdict Card", 1), false);
    add(
        "frame: another layout",
        page.replacen("\"label\": \"Session\"", "\"label\": \"Customer\"", 1),
        false,
    );
    add("frame: further text", page.replacen("<main>", "<main><p>This verdict is true.</p>", 1), false);
    add("frame: another script", page.replacen("// The checks", "// the checks", 1), false);
    add("frame: none", "<html>".to_owned(), false);
    add(
        "frame: a further part",
        page.replacen("<main>\n", "<main>\n<dl></dl>\n<script type=\"application/json\"></script>", 1),
        false,
    );
    add("frame: an open part", page.replacen("<main>", "<main><dl>", 1), false);
    add("frame: a mark at the start", format!("\u{feff}{page}"), false);
    add("frame: other line ends", page.replace('\n', "\r\n"), false);
    add("frame: empty", String::new(), false);
    add("shown: another text", page.replacen("<dd>GREEN</dd>", "<dd>RED</dd>", 1), false);
    add("shown: nothing", page.replacen("<dt>Verdict</dt><dd>GREEN</dd>", "", 1), false);
    for at in [1, page.len() / 2, page.len() - 1] {
        add("cut: the page", page[..at].to_owned(), false);
    }
}

/// Other proofs and keys.
fn forge_proofs(log: &ForgedLog, add: &mut AddCard<'_>) {
    let page = log.page(ORDERED);
    let other = LogSigner::new("oracled/forged", &[8; 32]);
    let entries = log.entries_of(ORDERED);
    add("key: another one", log.page_with(&log.deliveries[ORDERED], &entries, &other), false);
    add(
        "key: only its name",
        with_json(&page, PROOF, |data| data["texts"][1] = json!(other.key().to_string())),
        false,
    );
    let forged = log.page_with(&log.deliveries[ORDERED], &entries, &other);
    let (start, end) = data_at(&forged, PROOF);
    let foreign: Value = serde_json::from_str(&forged[start..end]).expect("JSON");
    add(
        "key: the checkpoint of another one",
        with_json(&page, PROOF, |data| data["texts"][0] = foreign["texts"][0].clone()),
        false,
    );
    add(
        "key: a witness that has not signed",
        with_json(&page, PROOF, |data| data["more"] = json!([crate::witness::witness_key()])),
        false,
    );
    add(
        "checkpoint: another size",
        with_json(&page, PROOF, |data| {
            let size = log.entries.len();
            data["texts"][0] = json!(data["texts"][0].as_str().expect("a text").replacen(
                &format!("\n{size}\n"),
                &format!("\n{}\n", size + 1),
                1
            ));
        }),
        false,
    );
    add(
        "checkpoint: a repeated signature",
        with_json(&page, PROOF, |data| {
            let note = data["texts"][0].as_str().expect("a text").to_owned();
            let (_, signature) = note.rsplit_once("\n\n").expect("a signature");
            data["texts"][0] = json!(format!("{note}{signature}"));
        }),
        false,
    );
    for (kind, change) in [
        ("cut", (|hashes: &mut Vec<Value>| drop(hashes.pop())) as fn(&mut Vec<Value>)),
        ("empty", Vec::clear),
        ("reordered", |hashes| hashes.reverse()),
        ("repeated", |hashes| hashes.push(hashes[0].clone())),
        ("not Base64", |hashes| hashes[0] = json!("?")),
        ("short", |hashes| hashes[0] = json!("AAAA")),
        ("another form of Base64", |hashes| {
            hashes[0] = json!(hashes[0].as_str().expect("a text").trim_end_matches('='));
        }),
    ] {
        add(
            &format!("proof: {kind}"),
            with_json(&page, DECISION, |data| {
                change(data["entries"][0]["proof"]["hashes"].as_array_mut().expect("a list"));
            }),
            false,
        );
    }
}
