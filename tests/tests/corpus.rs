//! Real model outputs, judged by a daemon, offline by `oraclectl calibrate`, and by `domain` itself. All three must
//! make the same decision for each.

use domain_base::payload::VerdictPayload;
use domain_verdict::crosscheck::{CrosscheckJudgment, judge};
use domain_verdict::flag::Flag;
use domain_verdict::label::ProductTier;
use oracled_tests::load::{field, read_log};
use oracled_tests::{DaemonWorld, document, post};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Twelve lines of the corpus with each tier, each reason, and most flags.
const EXCERPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/corpus-excerpt.ndjson");
/// The whole corpus, if it exists next to the repository.
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus/verdicts.ndjson");

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    field(value, name).as_str().expect("the file exists and is UTF-8")
}

/// Expected log entry of a judgment.
fn entry_of(judgment: &CrosscheckJudgment) -> Value {
    let (decision, inspection) = (&judgment.decision, &judgment.inspection);
    json!({
        "tier": judgment.tier,
        "verdict_label": decision.verdict_label,
        "coherence_score": decision.coherence_score,
        "threshold": decision.threshold,
        "approved": decision.approved,
        "flags": decision.flags,
        "crosscheck_reason": decision.crosscheck_reason,
        "v_t": inspection.v_t,
        "v_r": inspection.v_r,
        "e_d": inspection.e_d,
        "path": "check",
        "verdict_sha256": judgment.sha256,
    })
}

/// Counts for all verdicts and for each tier.
#[derive(Default, PartialEq, Debug)]
struct CorpusCounts(BTreeMap<String, u64>);

impl CorpusCounts {
    fn add(&mut self, tier: ProductTier) {
        for name in ["all", tier.into_str()] {
            *self.0.entry(name.into()).or_default() += 1;
        }
    }

    /// Reads the counts from the report of `calibrate`.
    fn read(value: &Value) -> Self {
        let counts = value.as_object().expect("counts by tier").iter();
        let counts = counts.map(|(name, count)| (name.clone(), count.as_u64().expect("a count")));
        Self(counts.filter(|(_, count)| *count > 0).collect())
    }
}

/// Expected report of `calibrate` for these judgments: counts by reason, by flag, and of approvals.
fn totals(
    judgments: &[CrosscheckJudgment],
) -> (BTreeMap<String, CorpusCounts>, BTreeMap<String, CorpusCounts>, CorpusCounts) {
    let (mut reasons, mut flags, mut approved) =
        (BTreeMap::<_, CorpusCounts>::new(), BTreeMap::<_, CorpusCounts>::new(), CorpusCounts::default());
    for CrosscheckJudgment { tier, decision, .. } in judgments {
        reasons.entry(decision.crosscheck_reason.into_str().to_owned()).or_default().add(*tier);
        let mut names: Vec<_> = decision.flags.iter().map(Flag::into_str).collect();
        names.dedup();
        for name in names {
            flags.entry(name.to_owned()).or_default().add(*tier);
        }
        if decision.approved {
            approved.add(*tier);
        }
    }
    (reasons, flags, approved)
}

fn check_calibration(world: &DaemonWorld, file: &str, judgments: &[CrosscheckJudgment]) {
    let calibrated = world.ctl(&["calibrate", file, "--json"]);
    assert!(calibrated.status.success(), "{calibrated:?}");
    let report: Value = serde_json::from_slice(&calibrated.stdout).expect("valid JSON");
    let by_name = |list: &str, name: &str| -> BTreeMap<String, CorpusCounts> {
        let list = field(&report, list).as_array().expect("an array").iter();
        list.map(|counted| (text(counted, name).to_owned(), CorpusCounts::read(field(counted, "verdicts"))))
            .collect()
    };
    let approval = |what: &str| {
        let tiers = field(&report, "approval").as_object().expect("by tier").iter();
        CorpusCounts::read(
            &tiers.map(|(tier, approval)| (tier.clone(), field(approval, what).clone())).collect(),
        )
    };
    let (reasons, flags, approved) = totals(judgments);
    assert_eq!(by_name("reasons", "reason"), reasons);
    assert_eq!(by_name("flags", "flag"), flags);
    assert_eq!(approval("approved"), approved);
    let mut all = CorpusCounts::default();
    for judgment in judgments {
        all.add(judgment.tier);
    }
    assert_eq!(approval("verdicts"), all);
}

async fn check(file: &str) {
    let content = fs::read_to_string(file).expect("the corpus is read");
    let lines: Vec<Value> =
        content.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let mut judgments = Vec::new();
    for line in &lines {
        let tier: ProductTier = text(line, "tier").parse().expect("a tier");
        let judgment = judge(tier, VerdictPayload::raw(text(line, "raw")));
        let body = json!({
            "session_id": format!("corpus-{}", field(line, "id")),
            "tier": field(line, "tier"),
            "query": field(line, "query"),
            "raw": field(line, "raw"),
        });
        let answer = post(routes, "/v1/crosscheck", &body).await;
        assert_eq!((answer.status.as_u16(), document(&answer)), (200, json!(judgment.decision)), "{line}");
        judgments.push(judgment);
    }

    let log = read_log(&mut daemon.control().await).await;
    let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let entries: Vec<_> = entries.filter(|entry| field(entry, "event") == "tmm_crosscheck").collect();
    assert_eq!(entries.len(), lines.len());
    for ((line, judgment), mut entry) in lines.iter().zip(&judgments).zip(entries) {
        assert_eq!(text(&entry, "session_id"), format!("corpus-{}", field(line, "id")));
        let query = text(line, "query");
        assert_eq!(text(&entry, "query_preview"), query.chars().take(80).collect::<String>());
        let members = entry.as_object_mut().expect("an entry is an object");
        for other in ["seq", "salts", "event", "session_id", "query_preview", "phi", "timestamp", "caller"] {
            assert!(members.remove(other).is_some(), "{other}: {members:?}");
        }
        assert_eq!(entry, entry_of(judgment));
    }
    assert!(!log.contains(r#""event":"verdict_cached""#), "a check delivers nothing");
    check_calibration(&world, file, &judgments);
    let approved = judgments.iter().filter(|judgment| judgment.decision.approved).count();
    println!("{}: {} verdicts, {approved} approved, the same by all three", file, lines.len());
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn corpus_excerpt_is_judged_the_same_by_daemon_ctl_and_domain() {
    check(EXCERPT).await;
}

#[tokio::test]
async fn full_corpus_is_judged_the_same_by_daemon_ctl_and_domain() {
    if !Path::new(CORPUS).exists() {
        println!("skipped: there is no corpus at {CORPUS}");
        return;
    }
    check(CORPUS).await;
}
