//! What is published stays as it is: a pin on every rule's definition, and on what it says of a fixed set of cases.
//!
//! **Do not update a digest here to make a test pass.** A caller keeps a rule's id with its verdicts, and reads them by it
//! for years; under one id a rule must say the same for ever. What is to be better is a new rule with a new id, and a new
//! line here. A digest may be added, and none may change. Only the wording of evidence is not part of the pin: it says how a
//! rule came to its verdict, not what that is.

use super::*;

/// By id: the SHA-256 of the definition, and that of the verdicts and violations on all cases.
const PINS: [(&str, &str, &str); RuleId::ALL.len()] = [
    (
        "RULE-PREC-001",
        "ff81686b19f131b6ba30f80a55b7060b90fd341a41b150f596e13afd0e16214b",
        "d3cf24e005de709de191cb9d9bcf272cfe9b14488e31009de2e12012ab535428",
    ),
    (
        "RULE-PREC-002",
        "da12491bbbee55c5f73c2c5018967bc9bfc8d7d7e606a0eec5b43cbaee6db9fd",
        "f82dd003b9f8e6c416a5a77701628983db975b7abf967552e6631064c8673249",
    ),
    (
        "RULE-PREC-003",
        "ae8f53bfc0ee4631e68878fcae55df2c46fcb0ac9ff2b5141aec0a86b57d4f31",
        "08fce04954164ca41539d8d6b1922f4b0766a46331274dfde83e1908c7392926",
    ),
    (
        "RULE-PREC-004",
        "ea6a2138eee68d2f4c1920c005b636659ae26e7c9da3265aecfdce6f20b168dc",
        "d3cf24e005de709de191cb9d9bcf272cfe9b14488e31009de2e12012ab535428",
    ),
    (
        "RULE-PREC-005",
        "d720c5064ce383675995abb6086975849fd88a1b5bb0a3fe3c5a4269f25ae155",
        "96ca8cd51dc976af5d1d41f87e8c9f317b6dda5c3fdb97fdef9eba7b5af5c4a3",
    ),
    (
        "RULE-PREC-006",
        "c216647580b73245d1ce302fd7d8d3a041a34ff4acb1902305db79f0e06fa9eb",
        "8045439000feb147f1a9191e28935915d5b8033a1d85a60057359847c8701816",
    ),
    (
        "RULE-PREC-007",
        "486b2960254019692a718a0df37c4c3310bfb8db5a232689b511bd1b5557eefe",
        "132d55334f8195a0407daf49760f666be232208de8a7526e0c35f5e144c5cd2d",
    ),
    (
        "RULE-PREC-008",
        "5f7f9e9216d722254bd83be7e1ace2a2f245607faa13529ab6f9e65a49ef409b",
        "50f21a916e99fab422e72d004906e42755abc91d237888e0646acb4c8796ea9d",
    ),
    (
        "RULE-CONT-001",
        "7d4a7acf2622297495430a437505191160a6dc8da6f0bfefbf4025ad585614f4",
        "38339e095fad4c188f14f3a9c782dd3d224fb3ecfab14152df720d12a9cefd59",
    ),
    (
        "RULE-CONT-002",
        "3737f592f9ce1efb3d470c5e835881f2add76fede1ceaf22c716e2dd29a5e951",
        "d0a86ec577942bd254eddbdea3cca22487203273d66f75c3177240e3680e4bea",
    ),
    (
        "RULE-CONT-003",
        "f2a59ce29db4464a844dce2ff89e5bf945a07f0bac7982612daf55d1ea8ee566",
        "412b4dba5f24a715f586d3c258d3d9bb8d30c403b787dda4770727e0dc25460d",
    ),
    (
        "RULE-CONT-004",
        "e5f999333bb3390a24a66f80a8d63d925558176f8ba2cfb68572b38de85daba1",
        "dfd8d521a4e47f70c88c79c6825c2ecd293a40d7740c904af4fb72df26ad18ce",
    ),
];

/// The cases: checks with the texts that are held against them.
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
    ["load < 5 and 7 < limit", {"facts": [], "constraints": ["limit < load", "a > b", "b > a"]}]
]"#;

#[test]
fn no_rule_is_another_than_the_one_that_was_published() {
    let cases: Vec<(String, Check)> = serde_json::from_str(CASES).expect("the cases can be read");
    let now = RuleId::ALL.map(|rule| {
        let results: Vec<_> = cases
            .iter()
            .map(|(text, check)| {
                check.validate(&Settings::default()).expect("the check can be made");
                let result = applied(rule, text, check);
                (result.verdict, result.violations)
            })
            .collect();
        (rule.as_str(), rule.rule().sha256().to_string(), Sha256Hex::of_json(&results).to_string())
    });
    let pinned = PINS.map(|(rule, definition, cases)| (rule, definition.to_owned(), cases.to_owned()));
    assert_eq!(now, pinned, "what is published does not change: see the head of this file");
}
