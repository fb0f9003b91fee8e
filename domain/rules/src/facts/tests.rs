use super::super::normalization::normalize;
use super::*;
use proptest::prelude::*;

fn compiled(facts: &[String]) -> SearchableFacts {
    SearchableFacts::of(NormalizedLines::normalized(facts), Sha256Hex::of_json(&facts))
}

fn indexed(set: &SearchableFacts, claims: &[&str]) -> Vec<Option<FactSupport>> {
    let index = FactIndex::of(&set.lines).expect("the facts are not too long");
    claims.iter().map(|claim| index.support(&set.lines, claim)).collect()
}

/// The support for `claims` by the rule's definition: every claim is compared with every fact.
fn looped(facts: &[String], claims: &[&str]) -> Vec<Option<FactSupport>> {
    let facts: Vec<String> = facts.iter().map(|fact| normalize(fact)).collect();
    let mut supports = Vec::new();
    for claim in claims {
        let mut first = None;
        for (number, fact) in (0..).zip(&facts) {
            let direction = if fact.is_empty() {
                None
            } else if fact.contains(claim) {
                Some(SupportDirection::ClaimInFact)
            } else if claim.contains(fact.as_str()) {
                Some(SupportDirection::FactInClaim)
            } else {
                None
            };
            first = first.or(direction.map(|direction| FactSupport { fact: number, direction }));
        }
        supports.push(first);
    }
    supports
}

fn borrowed(claims: &[String]) -> Vec<&str> {
    claims.iter().map(String::as_str).filter(|claim| !claim.is_empty()).collect()
}

/// Facts that are nested, overlapping, equal, or blank, in letters of one to four bytes.
fn facts() -> impl Strategy<Value = Vec<String>> {
    let fact =
        prop_oneof!["[ab]{0,5}", "[ab ]{0,12}", "[aé😀ß\u{1}]{0,6}", "[a-d]{1,3}", "a{0,40}", "[ab]{20,60}",];
    prop::collection::vec(fact, 0..40)
}

fn claims() -> impl Strategy<Value = Vec<String>> {
    let claim =
        prop_oneof!["[ab]{1,4}", "[ab]{5,90}", "[aé😀ß\u{1}]{1,9}", "[a-e]{1,12}", "a{1,60}", "[ab ]{1,12}"];
    prop::collection::vec(claim.prop_map(|claim| normalize(&claim)), 1..20)
}

#[test]
fn frequently_used_facts_create_index_with_same_results() {
    let facts: Vec<String> = (0..50).map(|at| format!("fact {at} of many")).collect();
    let set = compiled(&facts);
    let claims = ["fact 4", "what fact 31 of many says", "nothing of the kind", "of"];
    let expected = looped(&facts, &claims);
    assert_eq!(set.supports(&claims), expected);
    assert!(set.index.get().is_none(), "a few claims are cheaper without it");
    for _ in 0..1_000 {
        assert_eq!(set.supports(&claims), expected);
    }
    assert!(set.index.get().is_some_and(Option::is_some), "a thousand times are not");
}

#[test]
fn search_without_index_ends_when_budget_is_spent() {
    let facts = NormalizedLines::normalized(&vec!["b".to_owned(); 1_000]);
    let claim = "a".repeat(10_000);
    let mut left = 1_000_000;
    assert!(scan(&facts, &claim, &mut left).is_err(), "ten million bytes would be compared");
    assert_eq!(left, 0);
    let mut left = 20_000_000;
    assert!(matches!(scan(&facts, &claim, &mut left), Ok(None)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1_000 } else { 50_000 }))]

    #[test]
    fn index_finds_same_support_as_linear_search(facts in facts(), claims in claims()) {
        let (set, claims) = (compiled(&facts), borrowed(&claims));
        let expected = looped(&facts, &claims);
        prop_assert_eq!(&indexed(&set, &claims), &expected);
        prop_assert_eq!(&set.supports(&claims), &expected);
    }

    #[test]
    fn part_of_a_fact_is_found_in_first_matching_fact(
        facts in prop::collection::vec("[abé]{0,30}", 1..30),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..30_usize, 1..30_usize), 1..20),
    ) {
        let piece = |(fact, from, length): &(prop::sample::Index, usize, usize)| -> String {
            fact.get(&facts).chars().skip(*from).take(*length).collect()
        };
        let claims: Vec<String> = cuts.iter().map(piece).collect();
        let claims = borrowed(&claims);
        prop_assert_eq!(indexed(&compiled(&facts), &claims), looped(&facts, &claims));
    }
}

#[test]
fn suffixes_use_at_most_their_declared_memory() {
    for size in [0, 1, SUFFIX_BLOCK, SUFFIX_BLOCK + 1, SUFFIX_BLOCK * SUFFIX_BLOCK + 1, 1_000_000] {
        let text = "ab".repeat(size / 2);
        let suffixes = SuffixArray::of(&text).expect("the text is short");
        let places: usize = suffixes.lows.iter().chain([&suffixes.order]).map(Vec::len).sum();
        assert!(
            (places * size_of::<i32>()) as u64 <= SuffixArray::weight_bytes(&text),
            "{places} for {size}"
        );
    }
}
