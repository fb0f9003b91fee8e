//! Published rules never change: these tests pin the definition of every rule and its results for a fixed set of cases.
//! RULE-PREC-013 gets its line with the first release.
//!
//! **Do not update a digest here to make a test pass.** Callers store the id of a rule with their verdicts and rely on
//! it for years; a rule must give the same results for its id forever. An improvement is a new rule with a new id, and
//! a new line here. Digests may be added, but must never change. Only the wording of evidence is not pinned: it
//! explains a verdict, but is not part of it.

use super::*;

/// By id: the SHA-256 of the definition, and of the verdicts and violations for all cases.
const PINS: [(&str, &str, &str); RuleId::PUBLISHED.len()] = [
    (
        "RULE-PREC-001",
        "ff81686b19f131b6ba30f80a55b7060b90fd341a41b150f596e13afd0e16214b",
        "39284834e275638f264ee8acf1a84e342eb53ed5faadc20ae7eb6ae168ce1319",
    ),
    (
        "RULE-PREC-002",
        "da12491bbbee55c5f73c2c5018967bc9bfc8d7d7e606a0eec5b43cbaee6db9fd",
        "1d5b77080173d4965217c8e892c188c8fcc4b82dcf38473d5e798566feeb9ec8",
    ),
    (
        "RULE-PREC-003",
        "ae8f53bfc0ee4631e68878fcae55df2c46fcb0ac9ff2b5141aec0a86b57d4f31",
        "bbfef74b43f3cb8dfb56fabe76e078394d4220ee9286c1e4f829555e13971333",
    ),
    (
        "RULE-PREC-004",
        "ea6a2138eee68d2f4c1920c005b636659ae26e7c9da3265aecfdce6f20b168dc",
        "39284834e275638f264ee8acf1a84e342eb53ed5faadc20ae7eb6ae168ce1319",
    ),
    (
        "RULE-CONT-001",
        "7d4a7acf2622297495430a437505191160a6dc8da6f0bfefbf4025ad585614f4",
        "b722dca51aaf4697e90a377a6255402997a5413dcd0c3f705044ce326de1b499",
    ),
    (
        "RULE-CONT-002",
        "3737f592f9ce1efb3d470c5e835881f2add76fede1ceaf22c716e2dd29a5e951",
        "b200b3c7cc1751b9d756b043fa29d619fc70eb155bcc4939d0ab00c3c4bef18e",
    ),
    (
        "RULE-CONT-003",
        "f2a59ce29db4464a844dce2ff89e5bf945a07f0bac7982612daf55d1ea8ee566",
        "df393f00600269434731f52e643139c67ab946a9d1c7c644b359a52dc02988f4",
    ),
];

/// The cases: checks with the texts to which they are applied.
const CASES: &str = r#"[
    ["Water boils at 100 C. ICE MELTS\r\n at 0 C!", {"facts": ["Water boils at 100 C at sea level.", "Ice melts"]}],
    ["Water boils at 100 C! The moon is cheese. Is it?", {"facts": ["water boils at 100 c"]}],
    ["One. Two. Three.", {"facts": ["", "two"], "expected": {"max_unsupported_claims": 2}}],
    ["One. Two. Three.", {"facts": ["two", " "], "expected": {"max_unsupported_claims": 1}}],
    ["The probe flies at 7.8 km/s, e.g. Here and there.", {"facts": ["The probe flies at 7.8 km/s, e.g. Here."]}],
    ["It is black and white, and ice melts, with salt.", {"facts": ["Black and white", "Ice melts."]}],
    ["It takes 14C and 1,000 m. It takes 4 °C.", {"facts": ["It takes 14 °C and 1 km."]}],
    ["L'été À ΟΔΟΣ\u00a0«fin». 日本語。", {"facts": ["à οδος «FIN»", "日本"],
        "expected": {"must_find": ["ÉTÉ", "fehlt"], "must_not_find": ["οδος", "nicht"]}}],
    ["Blank patterns", {"facts": [], "expected": {"must_find": [" "], "must_not_find": ["\n"]}}],
    ["It is always true. It is invalid. It was never false, and disabled, though enabled it increases.", {"facts": [],
        "expected": {"contradiction_ids": ["true-false", "NEVER", "valid", "enabled", "decrease-increase", "unknown"]}}],
    ["The output decreased after increasing. A hotel is hot, and not hot.", {"facts": [],
        "expected": {"contradiction_ids": ["increase"], "contradiction_pairs": [["hot", "not hot"], ["Out", "After"]]}}],
    ["x > y and Y >= z, but z > X. Load < 5, load > 7.5.", {"facts": [], "constraints": ["y > x"]}],
    ["load < 5 and 7 < limit", {"facts": [], "constraints": ["limit < load", "a > b", "b > a"]}],
    ["a -> b, b -> a, <b>b</b>, <x>y</x>, <y>x</y>, Vec<t> u, u < t, p => q, q => p, r << s << r", {"facts": []}],
    ["(n>-1) and [n<\u22122]. 0 > +1. z > 5%, z < 3 %, z < 4%. -7 > y, y >\n-6,000.50; $5 < w < $4 < v < €3", {"facts": []}],
    ["ninechars > q1, q1 > ninechars, a23456789b23456789c23456789d23456789e23456789f23456789g23456789h > q2 > a23456789b23456789c23456789d23456789e23456789f23456789g23456789h, a23456789b23456789c23456789d23456789e23456789f23456789g23456789h2 > q3 > a23456789b23456789c23456789d23456789e23456789f23456789g23456789h2", {"facts": []}],
    ["a > b+c, b > a. x < 1/2, x > 1/4. i > j - 1; j > i. g(k) > l, l > k. m > 500 ms, m < 2 s. The new o > o. it's > s. e > h[1], h > e", {"facts": []}],
    ["- a > b\n* b > a\n> c\n> d\n> c\n1,5 > x > 1,500 > x, x > 1.500,5", {"facts": []}],
    ["x > 5, y > 3, z > 2", {"facts": [], "constraints": ["x <= 3 and y \u2264 2", "0 <= y <= 2, x < 9 and z > 1", "always z < 1"]}],
    ["See Fig. 3 Shows. Ask Dr. Who. It is No. 5 (fig. 7). No. It is not.", {"facts": ["See Fig", "Ask Dr. Who", "It is No. 5"]}],
    ["It is never so, and always so; it decreases and increases.", {"facts": [],
        "expected": {"contradiction_ids": ["always-never"], "contradiction_pairs": [["NEVER", "always"], ["decrease", "increase"]]}}]
]"#;

#[test]
fn published_rules_never_change() {
    let cases: Vec<(String, CandidateCheck)> = serde_json::from_str(CASES).expect("the cases can be read");
    let now = RuleId::PUBLISHED.iter().map(|rule| {
        let results: Vec<_> = cases
            .iter()
            .map(|(text, check)| {
                check.validate(&RuleSettings::default()).expect("the check can be made");
                let result = applied(*rule, text, check);
                (result.verdict, result.violations)
            })
            .collect();
        (rule.into_str(), rule.rule().sha256().to_string(), Sha256Hex::of_json(&results).to_string())
    });
    let pinned = PINS.map(|(rule, definition, cases)| (rule, definition.to_owned(), cases.to_owned()));
    assert_eq!(
        now.collect::<Vec<_>>(),
        pinned,
        "what is published does not change: see the head of this file"
    );
}
