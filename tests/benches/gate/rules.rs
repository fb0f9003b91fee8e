//! Oracle-A alone: from a text and its facts to the evaluation with its evidence and digests.

use crate::BenchEffort;
use crate::table::{BenchRow, BenchTable, at_most, median};
use domain_base::digest::Sha256Hex;
use domain_rules::{CandidateCheck, CandidateText, FactSet, RuleId, RuleSettings, RulesEvaluation, evaluate};
use fastrand::Rng;
use std::collections::HashMap;
use std::hint::black_box;
use std::io;
use std::time::Instant;

/// The time limit for evaluating 5 sentences against 20 uncached facts, in nanoseconds.
const TYPICAL_AIM_NS: f64 = 20e3;
/// The time limit for evaluating 200 sentences against 10,000 cached facts, in nanoseconds.
const LARGE_AIM_NS: f64 = 5e6;
/// Evaluations of one timed batch: of a typical request, and of a large one.
const BATCH: u32 = 500;
const LARGE_BATCH: u32 = 5;
/// Batches of typical requests in a round.
const BATCHES: usize = 7;
/// The number of sentences after which the index of a set of facts is built.
const SENTENCES: usize = 2_000;
/// The highest number of comparisons in the double loop, which does ten million in a second.
const LOOP_MAX: usize = 2_000_000;

/// A check and its text, as in a request.
struct RulesBenchCase {
    check: CandidateCheck,
    text: String,
}

impl RulesBenchCase {
    /// Facts of nine words, and sentences of three kinds: a third are parts of facts, a third contain a fact,
    /// and a third have no support.
    fn new(facts: usize, sentences: usize) -> Self {
        let mut random = Rng::with_seed(17);
        let words: Vec<String> =
            (0..5_000).map(|_| (0..random.usize(2..9)).map(|_| random.lowercase()).collect()).collect();
        let mut some = |count: usize| -> String {
            let chosen: Vec<&str> =
                (0..count).filter_map(|_| random.choice(&words)).map(String::as_str).collect();
            chosen.join(" ")
        };
        let facts: Vec<String> = (0..facts).map(|_| format!("The {}", some(9))).collect();
        let mut random = Rng::with_seed(18);
        let text = (0..sentences)
            .map(|sentence| {
                let fact = random.choice(&facts).map_or("", String::as_str);
                match sentence % 3 {
                    1 => format!("{}. ", fact.split_at(fact.len() / 2).1.to_uppercase()),
                    2 => format!("It is known: {fact}, as {} said. ", some(2)),
                    _ => format!("{}. ", some(11)),
                }
            })
            .collect();
        Self { check: CandidateCheck { facts, ..CandidateCheck::default() }, text }
    }

    /// Facts with a name, a number and a year, and sentences for RULE-PREC-013: a third state a fact in another order, a third
    /// with another number, and a third have no fact.
    fn statements(facts: usize, sentences: usize) -> Self {
        let mut random = Rng::with_seed(19);
        let names: Vec<String> = (0..facts).map(|_| (0..12).map(|_| random.lowercase()).collect()).collect();
        let stated = |name: &str, number: usize| format!("In 2020, the {name} sold {number} red lamps");
        let text = (0..sentences)
            .map(|sentence| {
                let at = random.usize(..facts);
                let name = names.get(at).map_or("", String::as_str);
                match sentence % 3 {
                    0 => format!("The {name} sold {at} red lamps in 2020. "),
                    1 => format!("{}. ", stated(name, at + 1)),
                    _ => format!("{}. ", stated(&format!("{name}x"), at)),
                }
            })
            .collect();
        let facts = names.iter().enumerate().map(|(number, name)| stated(name, number)).collect();
        Self {
            check: CandidateCheck { facts, rules: Some(vec![RuleId::Prec013]), ..CandidateCheck::default() },
            text,
        }
    }

    /// The same request with the published rules.
    fn with_published_rules(&self) -> Self {
        Self { check: CandidateCheck { rules: None, ..self.check.clone() }, text: self.text.clone() }
    }

    fn evaluated(&self, facts: &FactSet) -> RulesEvaluation {
        evaluate(&CandidateText::text(black_box(&self.text)), &self.check, facts, &RuleSettings::default())
    }

    /// Evaluates a request with uncached facts.
    fn evaluate_uncached(&self) -> RulesEvaluation {
        self.evaluated(&FactSet::compile(black_box(&self.check.facts)))
    }

    /// Evaluates a request with cached facts, which are found by the digest of the submitted facts.
    fn cached(&self, cache: &HashMap<Sha256Hex, FactSet>) -> RulesEvaluation {
        let digest = FactSet::sha256_of(black_box(&self.check.facts));
        self.evaluated(cache.get(&digest).expect("the verdicts are in the cache"))
    }

    /// A cache with the facts. They were evaluated often enough to have an index.
    fn cache(&self, sentences: usize) -> HashMap<Sha256Hex, FactSet> {
        let facts = FactSet::compile(&self.check.facts);
        for _ in 0..=SENTENCES / sentences {
            drop(self.evaluated(&facts));
        }
        HashMap::from([(facts.sha256().clone(), facts)])
    }
}

/// The normalized texts for the double loop.
struct NormalizedTexts {
    facts: Vec<String>,
    sentences: Vec<String>,
}

impl NormalizedTexts {
    fn of(case: &RulesBenchCase) -> Self {
        let normal = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let sentences = case.text.split(['.', '!', '?']).map(normal).filter(|sentence| !sentence.is_empty());
        Self {
            facts: case.check.facts.iter().map(|fact| normal(fact)).collect(),
            sentences: sentences.collect(),
        }
    }

    /// The number of sentences that no fact supports, by comparing each sentence with each fact.
    fn unsupported(&self) -> u64 {
        let supported = |sentence: &&String| {
            self.facts.iter().any(|fact| fact.contains(*sentence) || sentence.contains(fact))
        };
        self.sentences.iter().filter(|sentence| !supported(sentence)).count() as u64
    }
}

/// Measures a typical evaluation, large ones, the growth with size, and the compilation of facts.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    table.group(
        "Oracle-A, on one core; the baseline compares each sentence with each fact, without evidence and digests",
    );
    table.row(typical(effort));
    for (facts, sentences) in [(10_000, 200), (100_000, 1)] {
        let large = large(effort, facts, sentences);
        let aim =
            if sentences == 200 { at_most(large.evaluated, LARGE_AIM_NS, ": 5 ms") } else { String::new() };
        let ratio = large.looped.map_or(f64::NAN, |looped| large.evaluated / looped);
        table.row(large.row(format!("{ratio:.4}{aim}")));
        table.row(BenchRow {
            what: "    of it the digest of the facts".into(),
            measured: shown(large.digest),
            ..BenchRow::default()
        });
    }
    table.group("Oracle-A with ten times the size; ratio: how many times as long it takes");
    for (what, sizes) in [
        ("facts", [(1_000, 20), (10_000, 20), (100_000, 20)]),
        ("sentences", [(10_000, 20), (10_000, 200), (10_000, 2_000)]),
        ("facts and sentences", [(1_000, 20), (10_000, 200), (100_000, 2_000)]),
    ] {
        let mut smaller: Option<EvaluationTimes> = None;
        for (facts, sentences) in sizes {
            let large = large(effort, facts, sentences);
            let grown = smaller.map(|smaller| {
                format!("{:.1} for ten times the {what}", large.evaluated / smaller.evaluated)
            });
            table.row(large.row(grown.unwrap_or_default()));
            smaller = Some(large);
        }
    }
    table.group("RULE-PREC-013 with cached facts, on one core; the baseline is the published rules for the same request");
    for (facts, sentences) in [(1_000, 20), (10_000, 200), (100_000, 200), (10_000, 2_000)] {
        table.row(supported(effort, facts, sentences));
    }
    table.group(
        "sets of facts, on one core; ratio: bytes of memory for each byte of the facts, with the index",
    );
    for facts in [1_000, 10_000, 100_000] {
        table.row(compiled(effort, facts));
    }
    Ok(())
}

/// A typical request, with uncached facts.
fn typical(effort: BenchEffort) -> BenchRow {
    let case = RulesBenchCase::new(20, 5);
    assert_eq!(case.evaluate_uncached().metrics.unsupported_claims, NormalizedTexts::of(&case).unsupported());
    let rounds: Vec<[f64; 2]> = (0..effort.rounds * BATCHES)
        .map(|_| {
            [
                time(BATCH, || case.evaluate_uncached()),
                time(BATCH, || NormalizedTexts::of(black_box(&case)).unsupported()),
            ]
        })
        .collect();
    let evaluated = median(rounds.iter().map(|[evaluated, _]| *evaluated));
    let looped = median(rounds.iter().map(|[_, looped]| *looped));
    BenchRow {
        what: "20 facts, 5 sentences, nothing cached".into(),
        measured: shown(evaluated),
        baseline: "normalize, then the double loop".into(),
        baseline_measured: shown(looped),
        verdict: format!("{:.2}{}", evaluated / looped, at_most(evaluated, TYPICAL_AIM_NS, ": 20 µs")),
        ..BenchRow::default()
    }
}

/// Measures RULE-PREC-013.
fn supported(effort: BenchEffort, facts: usize, sentences: usize) -> BenchRow {
    let case = RulesBenchCase::statements(facts, sentences);
    let published = case.with_published_rules();
    let (cache, published_cache) = (case.cache(sentences), published.cache(sentences));
    let unsupported = case.cached(&cache).metrics.unsupported_claims;
    assert_eq!(unsupported, (sentences - sentences.div_ceil(3)) as u64, "a third is supported");
    let rounds: Vec<[f64; 2]> = (0..effort.rounds)
        .map(|_| [time(1, || case.cached(&cache)), time(1, || published.cached(&published_cache))])
        .collect();
    let evaluated = median(rounds.iter().map(|[evaluated, _]| *evaluated));
    let baseline = median(rounds.iter().map(|[_, baseline]| *baseline));
    BenchRow {
        what: format!("{facts} facts, {sentences} sentences"),
        measured: shown(evaluated),
        baseline: "the published rules".into(),
        baseline_measured: shown(baseline),
        verdict: format!("{:.2}", evaluated / baseline),
        ..BenchRow::default()
    }
}

/// The times of an evaluation with cached facts, in nanoseconds. The double loop is measured only if it is
/// short enough.
struct EvaluationTimes {
    facts: usize,
    sentences: usize,
    evaluated: f64,
    /// The part for the digest of the submitted facts.
    digest: f64,
    looped: Option<f64>,
}

/// Measures a request with cached facts: from the digest of the submitted facts to the evaluation.
fn large(effort: BenchEffort, facts: usize, sentences: usize) -> EvaluationTimes {
    let case = RulesBenchCase::new(facts, sentences);
    let (cache, plain) = (case.cache(sentences), NormalizedTexts::of(&case));
    let comparable = facts * sentences <= LOOP_MAX;
    if comparable {
        assert_eq!(case.cached(&cache).metrics.unsupported_claims, plain.unsupported());
    }
    let rounds: Vec<[f64; 3]> = (0..effort.rounds)
        .map(|_| {
            [
                time(LARGE_BATCH, || case.cached(&cache)),
                time(LARGE_BATCH, || FactSet::sha256_of(black_box(&case.check.facts))),
                if comparable { time(1, || black_box(&plain).unsupported()) } else { f64::NAN },
            ]
        })
        .collect();
    let evaluated = median(rounds.iter().map(|[evaluated, _, _]| *evaluated));
    let digest = median(rounds.iter().map(|[_, digest, _]| *digest));
    let looped = comparable.then(|| median(rounds.iter().map(|[_, _, looped]| *looped)));
    EvaluationTimes { facts, sentences, evaluated, digest, looped }
}

impl EvaluationTimes {
    fn row(&self, verdict: String) -> BenchRow {
        BenchRow {
            what: format!("{} facts, {} sentences, facts cached", self.facts, self.sentences),
            measured: shown(self.evaluated),
            baseline: if self.looped.is_some() { "the double loop, normalized before" } else { "" }.into(),
            baseline_measured: self.looped.map(shown).unwrap_or_default(),
            verdict,
            ..BenchRow::default()
        }
    }
}

/// Measures the compilation of a set, and the building of its index, which is part of the first of two equal
/// evaluations.
fn compiled(effort: BenchEffort, facts: usize) -> BenchRow {
    let case = RulesBenchCase::new(facts, SENTENCES);
    let bytes: usize = case.check.facts.iter().map(String::len).sum();
    let mut weight = 0;
    let rounds: Vec<[f64; 2]> = (0..effort.rounds)
        .map(|_| {
            let began = Instant::now();
            let set = FactSet::compile(black_box(&case.check.facts));
            let compiled = began.elapsed().as_secs_f64() * 1e9;
            let [first, again] = [(); 2].map(|()| time(1, || case.evaluated(&set)));
            weight = set.weight_bytes();
            [compiled, first - again]
        })
        .collect();
    BenchRow {
        what: format!("{facts} facts, {:.2} MB: compile", bytes as f64 / 1e6),
        measured: shown(median(rounds.iter().map(|[compiled, _]| *compiled))),
        baseline: "make the index".into(),
        baseline_measured: shown(median(rounds.iter().map(|[_, index]| *index))),
        verdict: format!("{:.1}", weight as f64 / bytes as f64),
        ..BenchRow::default()
    }
}

/// Nanoseconds of one call, from a batch of them.
fn time<T>(batch: u32, mut call: impl FnMut() -> T) -> f64 {
    let began = Instant::now();
    for _ in 0..batch {
        drop(black_box(call()));
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(batch)
}

fn shown(ns: f64) -> String {
    if ns < 1e6 { format!("{:.1} µs", ns / 1e3) } else { format!("{:.2} ms", ns / 1e6) }
}
