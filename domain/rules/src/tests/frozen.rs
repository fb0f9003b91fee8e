//! Published rules never change: these tests pin the definition of every rule and its results for a fixed set of cases.
//!
//! **Do not update a digest here to make a test pass.** Callers store the id of a rule with their verdicts and rely on
//! it for years; a rule must give the same results for its id forever. An improvement is a new rule with a new id, and
//! a new line here. Digests may be added, but must never change. Only the wording of evidence is not pinned: it
//! explains a verdict, but is not part of it.

use super::*;
use strum::VariantArray;

/// By id: the SHA-256 of the definition, and of the verdicts and violations for all cases.
const PINS: [(&str, &str, &str); RuleId::VARIANTS.len()] = [
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
        "RULE-PREC-005",
        "88abc7e37accf3bd6632f1996acccb9e666656be05d4b72ee45fa964e84c8445",
        "be7a88486811e46693eb76f30b7fc1304075815ff8593129d60fe5e2e29f9c8b",
    ),
    (
        "RULE-PREC-006",
        "14a6970cffc79886178815645b5fe1717417f6d15f8b413624e42e7338e668ff",
        "e5b7d523b4a2b10895a7f0b8d923eef6d6b1dbcb56f4d0a0e861f36e5d2f05d7",
    ),
    (
        "RULE-PREC-007",
        "ae3444a3476dbcde3e4397550f2d5f131141cc6998853e4c762c9adde64c7d67",
        "0c2712879414db286e64c79b23d1d17f319493933110e323f25b79b2e3c5e166",
    ),
    (
        "RULE-PREC-008",
        "6099d93ccc56fefd5eef37d26ab044eda55a6a29dd51cf4643df4f6c50ef3a43",
        "84959feb51780bce932db375b80ba8491948757f3e8ba44480fcdaa3d1bb0f3c",
    ),
    (
        "RULE-PREC-009",
        "038872b139db661df8931f9de123c6ae2a0d06cdb510e7a6be4225621eec4657",
        "8bb959b3aef393acf51f66062cb70fd2426b6be26c3aef8b92ea303948fb9f10",
    ),
    (
        "RULE-PREC-010",
        "a9e8159e74716e737b4e25ade7d60754014e791aea612ac37ce285aa585805ed",
        "4018757fb785f823c091e6d125b2b3092d93fb2648426b6bb40c9a86dad788ca",
    ),
    (
        "RULE-PREC-011",
        "871bfba698ebe3cc104cdc5c92aff0dbfa8a3204e49e486a4a497425d020c048",
        "adb02af7eb9b089251dd723cf54e9cbbb3053907bf55c3b058e579447cb38f66",
    ),
    (
        "RULE-PREC-012",
        "09c211dcb86d645d34c6dc9c894bb9e479c645f1a168bc0d048789d378440f96",
        "cfb1fb690efe50efa835e0f5ee648c71b5a006a47b98130aa53bc7041ea30ee1",
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
    (
        "RULE-CONT-004",
        "e5f999333bb3390a24a66f80a8d63d925558176f8ba2cfb68572b38de85daba1",
        "f75dc84ddaca9afa0fc48e48693918b9c2d5c05116ddb4155b7464d1cd4a687b",
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

/// More cases, for the rules added after those above.
const LATER_CASES: &str = r#"[
    ["No maintenance is scheduled. Maintenance is scheduled. Refunds are possible within 30 days.",
        {"facts": ["No maintenance scheduled", "Refunds possible within 30 days"]}],
    ["Doors are open, lights are off. The bank is charged 5 \u20ac. Is the lamp red? No maintenance was scheduled.",
        {"facts": ["Doors open, lights off", "The bank charged 5 \u20ac", "The lamp red", "No maintenance scheduled"]}],
    ["It serves 1000 req/min and 7 msg/s. It serves 1,000 requests. It shows 60 FPS.",
        {"facts": ["It serves 1,000 requests per minute", "7 messages per second", "It shows 60 frames per second"]}],
    ["Name: A\r\nAge: 7\r\n", {"facts": [],
        "expected": {"must_find": ["a\nage", "A\r\nAGE", "name: a age"], "must_not_find": ["\r\n", "\r", "\n\n"]}}],
    ["Name: A\nAge: 7\n", {"facts": [], "expected": {"must_find": ["a\nage", "\n"], "must_not_find": ["\r", "7\n"]}}]
]"#;

/// The rules that are pinned with both lists of cases.
const LATER: [RuleId; 4] = [RuleId::Prec009, RuleId::Prec010, RuleId::Prec011, RuleId::Prec012];

#[test]
fn published_rules_never_change() {
    let [cases, later] = [CASES, LATER_CASES].map(|cases| {
        serde_json::from_str::<Vec<(String, CandidateCheck)>>(cases).expect("the cases can be read")
    });
    let now = RuleId::VARIANTS.iter().map(|rule| {
        let results: Vec<_> = cases
            .iter()
            .chain(later.iter().filter(|_| LATER.contains(rule)))
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
