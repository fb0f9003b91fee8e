mod corpus;

use super::report::ApprovalCounts;
use super::*;
use serde_json::{Value, json};
use std::path::PathBuf;

const SOUND: &str = "A sound plan with clear aims.";

fn breakdown(verdict: &str) -> Value {
    let dimension = json!({"verdict": verdict, "analysis": "As it says."});
    domain_verdict::label::VerdictDimension::ALL
        .iter()
        .map(|d| (d.to_string(), dimension.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Six outputs. Every number below was calculated by hand:
///
/// | tier | what | V_t | V_r | E_D | C | reason |
/// | --- | --- | --- | --- | --- | --- | --- |
/// | quick | nothing wrong | 2 | 0 | 0 | 1 | pass |
/// | quick | empty summary | 1 | 1 | 0 | 0.958 | low_coherence |
/// | full | GREEN over five RED | 7 | 2 | 0 | 0.988 | pass |
/// | full | no verdict, no breakdown | 1 | 0 | 1 | 0 | field_missing |
/// | strategy | in a Markdown fence | 1 | 0 | 2 | -1 | degenerate_manifold |
/// | strategy | no strategy | 7 | 2 | 0.5 | 0.91657 | field_missing |
fn corpus() -> String {
    let verdicts = [
        ("quick", json!({"verdict": "GREEN", "summary": SOUND}).to_string()),
        ("quick", json!({"verdict": "RED", "summary": ""}).to_string()),
        ("full", json!({"verdict": "GREEN", "summary": SOUND, "breakdown": breakdown("RED")}).to_string()),
        ("full", json!({"summary": SOUND}).to_string()),
        ("strategy", "```json\n{}\n```".to_owned()),
        (
            "strategy",
            json!({"verdict": "RED", "summary": SOUND, "breakdown": breakdown("RED"), "mood": "low"})
                .to_string(),
        ),
    ];
    let line = |(id, (tier, raw)): (usize, &(&str, String))| {
        format!("{}\n", json!({"id": id, "tier": tier, "mode": "json", "raw": raw}))
    };
    verdicts.iter().enumerate().map(line).collect()
}

fn report() -> CalibrationReport {
    judge_all("verdicts.ndjson".into(), corpus().as_bytes()).unwrap()
}

fn print_report(json: bool, look: OutputStyle) -> String {
    let mut out = Vec::new();
    print(&mut out, &report(), json, look).unwrap();
    String::from_utf8(out).unwrap()
}

/// A temporary directory for a test, removed at the end.
struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("oracled-calibrate-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn small_corpus_gives_the_values_calculated_by_hand() {
    let report = report();
    let of = |approval: &ApprovalCounts| {
        (approval.verdicts, approval.approved, approval.refused, approval.approval_rate)
    };
    assert_eq!(of(&report.approval.all), (6, 2, 4, Some(2.0 / 6.0)));
    assert_eq!(of(&report.approval.quick), (2, 1, 1, Some(0.5)));
    assert_eq!(of(&report.approval.full), (2, 1, 1, Some(0.5)));
    assert_eq!(of(&report.approval.strategy), (2, 0, 2, Some(0.0)));
    assert_eq!(
        (report.highest_refused, report.lowest_approved),
        (Some(1.0 - 0.042), Some(1.0 - 0.084 / 7.0))
    );
    let reasons = report.reasons.iter().map(|count| (count.reason.into_str(), count.verdicts.all));
    assert_eq!(
        reasons.collect::<Vec<_>>(),
        [("pass", 2), ("field_missing", 2), ("degenerate_manifold", 1), ("low_coherence", 1)]
    );
    let filled = report.histogram.bins().iter().filter(|bin| bin.verdicts.all > 0);
    assert_eq!(
        filled.map(|bin| (bin.label(), bin.verdicts.all)).collect::<Vec<_>>(),
        [("at most -1.0", 1), ("0.0 to 0.1", 1), ("0.9 to Ω", 2), ("0.985 to 0.99", 1), ("1.0", 1)]
            .map(|(label, count)| (label.to_owned(), count))
    );
    let flips = &report.flips;
    // the empty summary, the missing strategy, and by definition the fence; not the two missing fields
    assert_eq!((flips.to_approval.refused.all, flips.to_approval.by_one_flag.all), (4, 3));
    assert_eq!((flips.to_refusal.approved.all, flips.to_refusal.by_one_v_r_flag.all), (2, 0));
}

#[test]
fn json_report_is_one_line_and_equals_the_stored_one() {
    let line = print_report(true, OutputStyle::new(80, false));
    assert_eq!(line.find('\n'), Some(line.len() - 1), "one object, one line");
    let expected: String = include_str!("tests/report.json").lines().map(str::trim_start).collect();
    assert_eq!(line.trim_end(), expected);
    assert_eq!(line, print_report(true, OutputStyle::new(100, true)), "the same whatever the terminal");
}

#[test]
fn decisions_equal_those_of_the_gate() {
    let report = report();
    let mut approved = 0;
    for line in corpus().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let tier = line["tier"].as_str().unwrap().parse().unwrap();
        let judgment =
            domain_verdict::crosscheck::judge(tier, VerdictPayload::raw(line["raw"].as_str().unwrap()));
        approved += u64::from(judgment.outcome.is_ok());
    }
    assert_eq!(report.approval.all.approved, approved);
}

#[test]
fn tables_fit_the_width_and_are_plain_text_by_default() {
    for width in [60, 80, 100] {
        let text = print_report(false, OutputStyle::new(width, false));
        assert!(!text.contains('\u{1b}'), "no escape sequences");
        for line in text.lines() {
            assert!(line.chars().count() <= usize::from(width), "{} > {width}: {line}", line.chars().count());
        }
    }
    assert!(print_report(false, OutputStyle::new(100, true)).contains('\u{1b}'));
}

#[test]
fn omega_row_is_between_rejected_and_approved_bins() {
    let text = print_report(false, OutputStyle::new(80, false));
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let omega = lines.iter().position(|line| line.starts_with("Ω  ╌╌╌")).unwrap();
    assert!(lines[omega - 1].starts_with("0.9 to Ω  ███"), "{}", lines[omega - 1]);
    assert!(lines[omega + 1].starts_with("Ω to 0.98"), "{}", lines[omega + 1]);
}

#[test]
fn field_names_from_a_model_are_escaped_on_the_terminal() {
    let raw = json!({"verdict": "GREEN", "summary": SOUND, "\u{1b}[2J\u{202e}\n": 1}).to_string();
    let line = json!({"tier": "quick", "raw": raw}).to_string();
    let report = judge_all("-".into(), line.as_bytes()).unwrap();
    let mut out = Vec::new();
    print(&mut out, &report, false, OutputStyle::new(100, false)).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("unexpected_field:\\u{1b}[2J\\u{202e}\\n "), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']));
}

#[test]
fn number_of_stored_flag_places_is_bounded() {
    let mut report = CalibrationReport::new("-".into());
    for n in 0..300 {
        let raw = json!({"verdict": "GREEN", "summary": SOUND, format!("field{n}"): 1}).to_string();
        report.add(&domain_verdict::crosscheck::judge(ProductTier::Quick, VerdictPayload::raw(&raw)));
    }
    let counts = &report.flags.names()[0].counts;
    assert_eq!((counts.verdicts.all, counts.places.places.len(), counts.places.other_places), (300, 256, 44));
}

#[test]
fn empty_corpus_is_an_error() {
    for text in ["", "\n \n"] {
        let error = judge_all("verdicts.ndjson".into(), text.as_bytes()).unwrap_err().to_string();
        insta::assert_snapshot!("corpus_without_a_verdict", error);
    }
}

#[test]
fn invalid_line_stops_the_calibration_without_output() {
    let scratch = ScratchDirectory::new("bad-line");
    let file = scratch.0.join("verdicts.ndjson");
    std::fs::write(&file, corpus() + "{\"tier\":\"quick\"}\n").unwrap();
    let mut out = Vec::new();
    let error = calibrate(&CalibrateArgs { file }, true, &mut out).unwrap_err().to_string();
    assert!(error.contains("verdicts.ndjson, line 7: `raw` "), "{error}");
    assert!(out.is_empty());
}

#[test]
fn unreadable_corpus_is_an_error_with_its_name() {
    let scratch = ScratchDirectory::new("unreadable");
    for (file, message) in [("absent.ndjson", "No such file"), ("", "directory")] {
        let file = scratch.0.join(file);
        let error =
            calibrate(&CalibrateArgs { file: file.clone() }, false, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains(&format!(" {}: ", file.display())), "{error}");
        assert!(error.contains(message), "{error}");
    }
}
