use super::*;
use domain_audit::checkpoint::LogSigner;
use domain_audit::leaf::leaf_of;
use domain_audit::log_proof::prove_inclusion;
use domain_audit::log_tiles::Subtree;
use domain_audit::log_tree::{TreeHash, leaf_hash, node_hash};
use domain_audit::wire::LogProof;
use domain_base::text_form::is_hiding;
use proptest::prelude::*;
use std::convert::Infallible;

const TEXT: &str = r#"{"verdict":"GREEN","summary":"A <b>sound</b> plan & more.","n":1.50}"#;

fn root_of(lines: &[String], Subtree { height, index }: Subtree) -> TreeHash {
    if height == 0 {
        let leaf = leaf_of(&lines[index as usize]).expect("a line of the log").into_owned();
        return leaf_hash(leaf.as_bytes());
    }
    let half = |index| root_of(lines, Subtree { height: height - 1, index });
    node_hash(&half(2 * index), &half(2 * index + 1))
}

fn lines() -> Vec<String> {
    let sha256 = Sha256Hex::of(TEXT.as_bytes());
    let facts = ["Ice floats.".to_owned()];
    let facts_sha256 = FactSet::sha256_of(&facts);
    let salt = "0123456789abcdef0123456789abcdef";
    let before = [
        format!(
            r#"{{"seq":1,"event":"tmm_crosscheck","query_preview":"Does ice float?\u202e","approved":true,"coherence_score":1.0,"flags":[],"verdict_sha256":"{sha256}","session_id":"cs_1","timestamp":"2026-11-29T10:00:00Z","salts":{{"query_preview":"{salt}"}}}}"#
        ),
        format!(
            r#"{{"seq":2,"event":"rules_evaluated","verdict":"PASS","facts_sha256":"{facts_sha256}","evaluation_sha256":"e1","session_id":"cs_1","timestamp":"2026-11-29T10:00:00Z"}}"#
        ),
    ];
    let link = |(index, line): (usize, &String)| {
        let leaf = leaf_hash(leaf_of(line).expect("a line of the log").as_bytes());
        format!(r#"{{"seq":{},"leaf_sha256":"{}"}}"#, index + 1, Sha256Hex::from_bytes(&leaf))
    };
    let links = before.iter().enumerate().map(link).collect::<Vec<_>>().join(",");
    let [decided, evaluated] = before;
    let delivered = format!(
        r#"{{"seq":3,"event":"verdict_cached","verdict_label":"GREEN","path":"submit","verdict_sha256":"{sha256}","evaluation_sha256":"e1","session_id":"cs_1","timestamp":"2026-11-29T10:00:00Z","links":[{links}]}}"#
    );
    let stopped = r#"{"seq":4,"event":"service_stopped","timestamp":"2026-11-29T10:00:00Z"}"#;
    vec![decided, evaluated, delivered, stopped.to_owned()]
}

fn card() -> VerdictCard {
    let lines = lines();
    let mut subtree = |tree| Ok::<_, Infallible>(root_of(&lines, tree));
    let root = root_of(&lines, Subtree { height: 2, index: 0 });
    let signer = LogSigner::new("oracled/test", &[7; 32]);
    let entries = (0..3).map(|index| {
        let hashes = prove_inclusion(index, 4, &mut subtree).unwrap_or_else(|never| match never {});
        ProvedEntry { line: lines[index as usize].clone(), proof: LogProof::of(&hashes) }
    });
    let bundle =
        LogBundle { checkpoint: signer.sign(4, root), entries: entries.collect(), continuation: None };
    let mut card = VerdictCard::new(bundle, signer.key().to_string(), Vec::new(), Some(TEXT.to_owned()));
    card.add_facts(&["Ice floats.".to_owned()], |_| None, &BTreeMap::new());
    card
}

/// Whether `oraclectl card verify` would accept the page.
fn is_accepted(page: &[u8]) -> bool {
    let key = LogSigner::new("oracled/test", &[7; 32]).key().to_string();
    str::from_utf8(page).is_ok_and(|page| VerdictCard::verify(page, |own| own == key).is_ok())
}

#[test]
fn present_frame_is_published() {
    let frames: BTreeMap<String, Sha256Hex> = serde_json::from_str(FRAMES).expect("digests by version");
    let sha256 = Sha256Hex::of(FRAME.as_bytes());
    assert!(frames.values().any(|known| *known == sha256), "add a version with {sha256} to frames.json");
}

#[test]
fn layout_escapes_the_characters_that_hide_something() {
    let ranges = &PRESENT.hiding;
    for character in '\0'..=char::MAX {
        let code = u32::from(character);
        let is_in = ranges.iter().any(|(first, last)| (*first..=*last).contains(&code));
        assert_eq!(is_in, is_hiding(character), "{code:x}");
    }
}

#[test]
fn card_is_read_as_it_was_rendered_and_foreign_text_is_escaped() {
    let page = card().render();
    assert!(is_accepted(page.as_bytes()));
    assert_eq!(VerdictCard::read(&page), Ok(card()));
    let key = |_: &str| true;
    let verified = VerdictCard::verify(&page, key).expect("it is verified");
    assert_eq!((verified.session_id.as_deref(), verified.verdict.as_deref()), (Some("cs_1"), Some(TEXT)));
    assert!(!verified.is_test && !verified.is_internal);
    for shown in [
        "<dt>Text › summary</dt><dd>A &lt;b&gt;sound&lt;/b&gt; plan &amp; more.</dd>",
        "<dt>Text › n</dt><dd>1.50</dd>",
        "<dd>Does ice float?\\u{202e}</dd>",
        "<dt>Coherence</dt><dd>1.0</dd>",
        "<dt>Fact</dt><dd>Ice floats.</dd>",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(!page.contains("<b>"));
}

#[test]
fn texts_of_another_entry_are_left_out_and_refused() {
    let mut other = card();
    other.part_mut("facts").expect("a part").texts.clear();
    other.add_facts(&["Ice sinks.".to_owned()], |_| None, &BTreeMap::new());
    assert!(other.part("facts").expect("a part").texts.is_empty());
    for (part, text) in [
        ("verdict", TEXT.replace("sound", "solid")),
        ("facts", "Ice sinks.".to_owned()),
        ("origin", "x".to_owned()),
    ] {
        let mut changed = card();
        changed.part_mut(part).expect("a part").texts = vec![text];
        let fault = VerdictCard::verify(&changed.render(), |_| true).expect_err("it is refused");
        assert!(matches!(&fault, CardError::Part { part: found, .. } if found == part), "{fault}");
    }
}

#[test]
fn changed_removed_and_added_bytes_of_a_card_are_detected() {
    let page = card().render().into_bytes();
    for at in (0..page.len()).step_by(7) {
        let mut changed = page.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(!is_accepted(&changed), "{at}");
    }
    for at in (0..page.len()).step_by(97) {
        assert!(!is_accepted(&[&page[..at], &page[at + 1..]].concat()), "{at}");
        assert!(!is_accepted(&[&page[..at], b" ", &page[at..]].concat()), "{at}");
    }
}

proptest! {
    #[test]
    fn leaves_are_the_values_of_the_document(document in json()) {
        let mut expected = Vec::new();
        collect("x".to_owned(), &document, &mut expected);
        prop_assert_eq!(flatten(&document.to_string(), "x", usize::MAX), expected.clone());
        prop_assert_eq!(flatten(&format!("{document:#}"), "x", usize::MAX), expected);
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "(?s).{0,8}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let name = r#"[a-c"\\{}\[\],: ]{0,3}"#;
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn collect(path: String, value: &Value, leaves: &mut Vec<JsonLeaf>) {
    match value {
        Value::Null => {}
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| collect(format!("{path}.{index}"), item, leaves));
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, item)| collect(format!("{path}.{name}"), item, leaves));
        }
        Value::String(text) => leaves.push((path, text.clone())),
        other => leaves.push((path, other.to_string())),
    }
}
