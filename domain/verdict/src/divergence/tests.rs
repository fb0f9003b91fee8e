use super::*;
use crate::generation::GenerationSettings;
use domain_base::digest::Sha256Hex;

type SampleGeneration = (VerdictPrompt, GenerationSettings);

fn sample_generation(prompt: &str, model: &str) -> SampleGeneration {
    let prompt = VerdictPrompt { sha256: Sha256Hex::of(prompt.as_bytes()), template: None, text: None };
    (prompt, GenerationSettings::locked(model.into()))
}

fn check(original: Option<&OriginalVerdict>, label: VerdictLabel) -> DivergenceCheck {
    let (prompt, settings) = sample_generation("prompt", "model");
    let (prompt, settings) = (Some(&prompt), Some(&settings));
    let (tier, path) = (ProductTier::Full, GatePath::Regen);
    DivergenceCheck::of(original, &RegeneratedVerdict { tier, label, path, prompt, settings })
}

fn original(label: VerdictLabel, generation: Option<SampleGeneration>) -> OriginalVerdict {
    let (prompt, settings) = generation.unzip();
    OriginalVerdict { prompt, settings, ..OriginalVerdict::reported(label) }
}

#[test]
fn neighboring_colors_are_minor_and_others_significant() {
    use VerdictLabel::{Amber, Green, Null, Red};
    for (one, other, level) in [
        (Green, Amber, DivergenceLevel::Minor),
        (Amber, Red, DivergenceLevel::Minor),
        (Green, Red, DivergenceLevel::Significant),
        (Green, Null, DivergenceLevel::Significant),
        (Amber, Null, DivergenceLevel::Significant),
        (Red, Null, DivergenceLevel::Significant),
    ] {
        assert_eq!(DivergenceLevel::between(one, other), level, "{one} {other}");
        assert_eq!(DivergenceLevel::between(other, one), level, "{other} {one}");
    }
    for label in VerdictLabel::ALL {
        assert_eq!(DivergenceLevel::between(label, label), DivergenceLevel::None);
    }
}

#[test]
fn divergence_entry_has_fields_and_names_of_the_seed() {
    let known = original(VerdictLabel::Green, Some(sample_generation("prompt", "model")));
    let entry = serde_json::to_string(&check(Some(&known), VerdictLabel::Red)).expect("the value serializes");
    assert_eq!(
        entry,
        concat!(
            r#"{"tier":"full","original_verdict":"GREEN","regen_verdict":"RED","#,
            r#""top_level_match":false,"divergence_level":"significant","skipped":false,"path":"regen","#,
            r#""prompt_changed":false,"settings_changed":false}"#
        )
    );
    let back: DivergenceCheck = serde_json::from_str(&entry).expect("valid JSON");
    assert_eq!(back, check(Some(&known), VerdictLabel::Red));
}

#[test]
fn check_without_original_is_marked_skipped() {
    let entry = check(None, VerdictLabel::Red);
    assert_eq!(entry.original_verdict.as_str(), "UNKNOWN");
    assert_eq!((entry.top_level_match, entry.divergence_level, entry.skipped), (None, None, true));
    let text = serde_json::to_string(&entry).expect("the value serializes");
    assert!(text.contains(r#""original_verdict":"UNKNOWN""#), "{text}");
    assert!(text.contains(r#""top_level_match":null,"divergence_level":null,"skipped":true"#), "{text}");
    assert!(serde_json::from_str::<OriginalLabel>("\"PURPLE\"").is_err());
}

#[test]
fn changed_prompt_or_settings_are_flagged_if_known() {
    let changed = |generation| {
        let entry = check(Some(&original(VerdictLabel::Red, generation)), VerdictLabel::Red);
        (entry.prompt_changed, entry.settings_changed)
    };
    // an unknown prompt counts as changed
    assert_eq!(changed(None), (Some(true), None));
    assert_eq!(changed(Some(sample_generation("another", "model"))), (Some(true), Some(false)));
    assert_eq!(changed(Some(sample_generation("prompt", "another"))), (Some(false), Some(true)));
}

#[test]
fn rate_above_5_percent_escalates_once_until_it_recovers() {
    let green = original(VerdictLabel::Green, Some(sample_generation("prompt", "model")));
    let noted = |label| check(Some(&green), label);
    let mut watch = RegenVarianceWindow::default();
    for _ in 0..19 {
        assert_eq!(watch.note(&noted(VerdictLabel::Green)), None);
    }
    assert_eq!(watch.note(&noted(VerdictLabel::Amber)), None, "one in twenty is not more than one in twenty");
    assert_eq!(watch.note(&check(None, VerdictLabel::Red)), None, "nothing was compared");
    assert_eq!(watch.variance().regens, 20);
    let escalated = watch.note(&noted(VerdictLabel::Red)).expect("two in twenty-one are");
    assert_eq!((escalated.regens, escalated.diverged, escalated.escalated), (21, 2, true));
    assert_eq!(watch.note(&noted(VerdictLabel::Amber)), None, "reported already");
    for _ in 0..VARIANCE_WINDOW {
        assert_eq!(watch.note(&noted(VerdictLabel::Green)), None);
    }
    assert_eq!(watch.variance(), RegenVariance { regens: 100, diverged: 0, rate: 0.0, escalated: false });
    assert!(watch.is_full());
    let escalations = (0..10).filter_map(|_| watch.note(&noted(VerdictLabel::Amber))).count();
    assert_eq!((escalations, watch.variance().diverged), (1, 10));
}

#[test]
fn few_regenerations_do_not_escalate() {
    let green = original(VerdictLabel::Green, Some(sample_generation("prompt", "model")));
    let mut watch = RegenVarianceWindow::default();
    for _ in 0..19 {
        assert_eq!(watch.note(&check(Some(&green), VerdictLabel::Red)), None);
    }
    assert!(watch.note(&check(Some(&green), VerdictLabel::Red)).is_some());
}

#[test]
fn changed_prompt_sampling_or_submitted_verdict_is_not_variance() {
    let mut watch = RegenVarianceWindow::default();
    for first in
        [Some(sample_generation("another", "model")), Some(sample_generation("prompt", "another")), None]
    {
        watch.note(&check(Some(&original(VerdictLabel::Green, first)), VerdictLabel::Red));
    }
    let handed_in = DivergenceCheck {
        path: GatePath::CacheWrite,
        ..check(Some(&original(VerdictLabel::Green, None)), VerdictLabel::Red)
    };
    watch.note(&handed_in);
    let same = original(VerdictLabel::Green, Some(sample_generation("prompt", "model")));
    watch.note(&DivergenceCheck { sampled: true, ..check(Some(&same), VerdictLabel::Red) });
    let reasked = OriginalVerdict { reasked: true, ..same.clone() };
    watch.note(&check(Some(&reasked), VerdictLabel::Red));
    // the settings of a submitted verdict are not known, even if its prompt is
    let submitted = OriginalVerdict {
        settings: None,
        ..original(VerdictLabel::Green, Some(sample_generation("prompt", "model")))
    };
    let compared = check(Some(&submitted), VerdictLabel::Red);
    assert_eq!((compared.prompt_changed, compared.settings_changed), (Some(false), None));
    watch.note(&compared);
    assert_eq!(watch.variance().regens, 0);
    watch.note(&check(
        Some(&original(VerdictLabel::Green, Some(sample_generation("prompt", "model")))),
        VerdictLabel::Red,
    ));
    assert_eq!(watch.variance().diverged, 1);
}

#[test]
fn table_counts_each_pair_of_verdicts() {
    let mut table = DivergenceTable::default();
    assert_eq!(table.cells.len(), 20);
    let (green, amber) = (original(VerdictLabel::Green, None), original(VerdictLabel::Amber, None));
    for (first, label) in [
        (Some(&green), VerdictLabel::Green),
        (Some(&green), VerdictLabel::Red),
        (Some(&green), VerdictLabel::Red),
        (Some(&amber), VerdictLabel::Red),
        (None, VerdictLabel::Null),
    ] {
        table.count(&check(first, label));
    }
    let counted: Vec<_> = table.cells.iter().filter(|cell| cell.count > 0).collect();
    let pairs: Vec<_> =
        counted.iter().map(|c| (c.original_verdict.as_str(), c.regen_verdict.into_str(), c.count)).collect();
    assert_eq!(
        pairs,
        [("GREEN", "GREEN", 1), ("GREEN", "RED", 2), ("AMBER", "RED", 1), ("UNKNOWN", "NULL", 1)]
    );
    use DivergenceLevel::{Minor, None as Same, Significant};
    assert_eq!([Some(Same), Some(Minor), Some(Significant), None].map(|level| table.at(level)), [1, 1, 2, 1]);
}
