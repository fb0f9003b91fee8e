use super::*;
use crate::ground::testing::*;
use domain_ground::record::ContentRow;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// Countries in two regions over some years, in files of different ages.
fn world() -> TestStore {
    let mut world = TestStore::new();
    let countries = ["ABW", "AFG", "FRA", "ZMB", "ZWE"];
    let all = countries
        .iter()
        .flat_map(|country| (1..=20).map(|year| test_statement(country, year, u64::from(year) * 7)));
    world.ingest(&test_run("1", 100, false, all.collect()));
    let moved = |year| TestStatement { region: "south".into(), ..test_statement("ABW", year, 1000) };
    world.ingest(&test_run("2", 200, false, (1..=3).map(moved).collect()));
    assert_eq!(world.view().file_count(), 2);
    world
}

fn ask(world: &TestStore, second: i64, filters: &[(&str, &str, Json)]) -> QueryResultPage {
    let ontology = ontology();
    world.view().query(&query(&ontology, filters), at(second), None, None, ScanBudget::UNLIMITED).unwrap()
}

fn summarize_page(answered: &QueryResultPage) -> Vec<(String, u32, u64)> {
    answered.found.iter().map(|hit| summarize_content(&hit.content)).collect()
}

#[test]
fn query_uses_the_identity_or_its_prefix_for_access() {
    let world = world();
    let one = ask(&world, 150, &[("year", "eq", json!(2)), ("country", "eq", json!("ABW"))]);
    assert_eq!((summarize_page(&one), one.scanned), (vec![("ABW".into(), 2, 14)], 1));
    assert_eq!((one.access.to_string().as_str(), one.more), ("identity", None));
    let some = ask(&world, 250, &[("country", "eq", json!("FRA")), ("people", "gte", json!(133))]);
    assert_eq!(
        (summarize_page(&some), some.scanned),
        (vec![("FRA".into(), 19, 133), ("FRA".into(), 20, 140)], 20)
    );
    assert_eq!(some.access.to_string(), "identity_prefix");
    let none = ask(&world, 250, &[("country", "eq", json!("FR"))]);
    assert_eq!((none.found.len(), none.scanned), (0, 0));
}

#[test]
fn query_by_index_returns_only_records_with_the_current_value() {
    let world = world();
    let north = |second| ask(&world, second, &[("region", "eq", json!("north")), ("year", "lt", json!(4))]);
    let (before, after) = (north(150), north(250));
    assert_eq!((before.access.to_string().as_str(), before.scanned), ("index:region", 60));
    assert_eq!((before.found.len(), after.found.len(), after.scanned), (9, 6, 60));
    assert!(summarize_page(&after).iter().all(|(country, ..)| country != "ABW"));
    let south = ask(&world, 250, &[("region", "eq", json!("south"))]);
    assert_eq!((south.found.len(), south.scanned), (43, 43));
    // an identity prefix with few records is preferred to the index
    let both = ask(&world, 250, &[("region", "eq", json!("south")), ("country", "eq", json!("ABW"))]);
    assert_eq!((both.access, both.found.len()), (QueryAccessPath::IdentityPrefix, 3));
}

#[test]
fn query_uses_the_index_if_it_has_fewer_records_than_the_prefix() {
    let mut world = TestStore::new();
    let mut all: Vec<_> = (0..20_000).map(|year| test_statement("ABW", year, 1)).collect();
    all[777].region = "east".into();
    world.ingest(&test_run("1", 100, false, all));
    let east = ask(&world, 100, &[("region", "eq", json!("east")), ("country", "eq", json!("ABW"))]);
    assert_eq!((&east.access, east.scanned), (&QueryAccessPath::Index("region".into()), 1));
    assert_eq!(summarize_page(&east), [("ABW".into(), 777, 1)]);
    let none = ask(&world, 100, &[("region", "eq", json!("east")), ("country", "eq", json!("FRA"))]);
    assert_eq!(none.found, []);
}

#[test]
fn query_page_ends_at_its_limits_and_names_the_next_key() {
    let (world, ontology) = (world(), ontology());
    let view = world.view();
    for filters in [
        vec![("people", "gt", json!(70))],
        vec![("region", "eq", json!("south")), ("people", "gt", json!(70))],
        vec![("country", "eq", json!("FRA"))],
        vec![],
    ] {
        let mut query = query(&ontology, &filters);
        let whole = view.query(&query, at(250), None, None, ScanBudget::UNLIMITED).unwrap();
        assert_eq!(whole.more, None);
        for (max_results, scanned_max) in [(10_000, 1), (10_000, 7), (10_000, 0), (1, u64::MAX), (3, 5)] {
            query.max_results = max_results;
            let (mut found, mut scanned, mut after) = (Vec::new(), 0, None::<Vec<u8>>);
            loop {
                let page = view
                    .query(
                        &query,
                        at(250),
                        None,
                        after.as_deref(),
                        ScanBudget { records: scanned_max, ..ScanBudget::UNLIMITED },
                    )
                    .unwrap();
                assert!(page.found.len() <= max_results && page.scanned <= scanned_max.max(1));
                found.extend(page.found);
                scanned += page.scanned;
                let Some(more) = page.more else { break };
                assert!(after.is_none_or(|after| after < more), "the position advances");
                after = Some(more);
            }
            assert_eq!((found, scanned), (whole.found.clone(), whole.scanned), "{filters:?}");
        }
    }
}

#[test]
fn query_page_ends_at_its_size_limit_after_at_least_one_record() {
    let (mut world, ontology) = (TestStore::new(), ontology());
    // each letter has six bytes in the content, and one in the index
    let wordy = |year| TestStatement { region: "\u{1}".repeat(7000), ..test_statement("ABW", year, 1) };
    world.ingest(&test_run("1", 100, false, (0..5).map(wordy).collect()));
    let mut query = query(&ontology, &[]);
    for (max_results, pages) in [(1, vec![1, 1, 1, 1, 1]), (3, vec![2, 2, 1]), (10_000, vec![5])] {
        query.max_results = max_results;
        let (mut found, mut after) = (Vec::new(), None::<Vec<u8>>);
        loop {
            let page =
                world.view().query(&query, at(100), None, after.as_deref(), ScanBudget::UNLIMITED).unwrap();
            assert!(page.bytes > page.found.len() * 40_000, "{}", page.bytes);
            found.push(page.found.len());
            let Some(more) = page.more else { break };
            after = Some(more);
        }
        assert_eq!(found, pages, "{max_results}");
    }
}

#[test]
fn query_after_a_foreign_key_returns_only_matching_records() {
    let (world, ontology) = (world(), ontology());
    let query = query(&ontology, &[("country", "eq", json!("FRA"))]);
    for (position, found) in [
        (test_statement("ABW", 1, 1), 20),
        (test_statement("ZWE", 20, 1), 0),
        (test_statement("FRA", 18, 1), 2),
    ] {
        let page =
            world.view().query(&query, at(250), None, Some(&position.key()), ScanBudget::UNLIMITED).unwrap();
        assert_eq!((page.found.len(), page.scanned), (found, found as u64), "{position:?}");
    }
}

fn filter() -> impl Strategy<Value = (&'static str, &'static str, Json)> {
    let text = prop_oneof!["[ab\"\\\\\u{0}\u{1}é/]{0,3}", Just("ABW".to_owned())];
    let number = -1_i64..12;
    let texts = (prop_oneof![Just("country"), Just("region")], text).prop_flat_map(|(axis, text)| {
        let one = prop_oneof![Just("eq"), Just("ne"), Just("contains")];
        let quoted = text.replace('\\', "\\\\");
        prop_oneof![
            (Just(axis), one, Just(json!(text))),
            (Just(axis), Just("in"), Just(json!([text, "b"]))),
            (Just(axis), Just("regex"), Just(json!(quoted))),
        ]
    });
    let operators = vec!["eq", "ne", "gt", "gte", "lt", "lte"];
    let numbers = (prop_oneof![Just("year"), Just("people")], proptest::sample::select(operators), number);
    prop_oneof![texts, numbers.prop_map(|(axis, operator, number)| (axis, operator, json!(number)))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn query_finds_the_same_records_as_a_plain_filter(
        records in proptest::collection::vec(("[ab\"\\\\\u{0}\u{1}é/]{0,3}", 0_u32..9, 0_u64..9), 0..40),
        questions in proptest::collection::vec(proptest::collection::vec(filter(), 0..3), 1..30),
    ) {
        let mut world = TestStore::new();
        let mut all: Vec<_> = records
            .into_iter()
            .map(|(text, year, people)| TestStatement { region: text.clone(), ..test_statement(&text, year, people) })
            .collect();
        all.sort_by_key(TestStatement::key);
        all.dedup_by_key(|stated| stated.key());
        world.ingest(&test_run("1", 100, true, all.clone()));
        let ontology = ontology();
        for filters in questions {
            let validated = query(&ontology, &filters);
            let holds = |content: &RecordContent| {
                let row = content.to_row(0, &ontology).expect("a row");
                validated.is_match(&ContentRow::read(&row).expect("a row"))
            };
            let expected = all.iter().map(TestStatement::content).filter(holds);
            prop_assert_eq!(
                summarize_page(&ask(&world, 100, &filters)),
                expected.map(|content| summarize_content(&content)).collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn query_fails_above_its_work_budget() {
    let world = world();
    let ontology = ontology();
    let filters = vec![("region", "regex", json!("^n.*h$")); 31];
    let (costly, cheap) = (query(&ontology, &filters), query(&ontology, &[("people", "gte", json!(1))]));
    let budget = ScanBudget { work: 2000, ..ScanBudget::UNLIMITED };
    let run = |query: &ValidatedQuery| world.view().query(query, at(250), None, None, budget);
    assert!(matches!(run(&costly), Err(ScanError::TooCostly)));
    assert_eq!(run(&cheap).unwrap().found.len(), 100);
}

#[test]
fn query_stops_after_its_callback_returns_false() {
    let world = world();
    let filters = vec![("region", "regex", json!("^n.*h$")); 31];
    let steps = std::cell::Cell::new(0);
    let proceed = || {
        steps.set(steps.get() + 1);
        steps.get() < 3
    };
    let budget = ScanBudget { proceed: &proceed, ..ScanBudget::UNLIMITED };
    let stopped = world.view().query(&query(&ontology(), &filters), at(250), None, None, budget);
    assert!(matches!(stopped, Err(ScanError::Stopped)));
    assert_eq!(steps.get(), 3);
}

/// The latest record of each country, page by page.
fn latest(
    world: &TestStore,
    filters: &[(&str, &str, Json)],
    max_results: usize,
    records: u64,
) -> Vec<(String, u32, u64)> {
    let ontology = ontology();
    let query = ValidatedQuery { latest: true, max_results, ..query(&ontology, filters) };
    let (mut found, mut after) = (Vec::new(), None::<Vec<u8>>);
    loop {
        let budget = ScanBudget { records, ..ScanBudget::UNLIMITED };
        let page = world.view().query(&query, at(250), None, after.as_deref(), budget).unwrap();
        assert!(page.found.len() <= max_results);
        found.extend(page.found.iter().map(|hit| summarize_content(&hit.content)));
        let Some(more) = page.more else { return found };
        assert!(after.is_none_or(|after| after < more), "the position advances");
        after = Some(more);
    }
}

#[test]
fn latest_query_returns_the_last_record_of_each_subject() {
    let world = world();
    for (filters, expected) in [
        (vec![], vec![("ABW", 20), ("AFG", 20), ("FRA", 20), ("ZMB", 20), ("ZWE", 20)]),
        (
            vec![("year", "lte", json!(7)), ("country", "in", json!(["FRA", "ZWE"]))],
            vec![("FRA", 7), ("ZWE", 7)],
        ),
        (vec![("country", "eq", json!("ABW")), ("year", "lt", json!(4))], vec![("ABW", 3)]),
        (
            vec![("region", "eq", json!("south")), ("year", "lt", json!(3))],
            vec![("ABW", 2), ("ZMB", 2), ("ZWE", 2)],
        ),
        (vec![("year", "gt", json!(20))], vec![]),
    ] {
        let expected: Vec<_> =
            expected.into_iter().map(|(country, year)| (country.to_owned(), year)).collect();
        for (max_results, records) in [(10_000, u64::MAX), (1, u64::MAX), (2, 30), (10_000, 21)] {
            let found = latest(&world, &filters, max_results, records);
            let found: Vec<_> = found.into_iter().map(|(country, year, _)| (country, year)).collect();
            assert_eq!(found, expected, "{filters:?}, {max_results} a page, {records} read");
        }
    }
}

#[test]
fn latest_query_fails_if_a_page_cannot_read_one_subject() {
    let (world, ontology) = (world(), ontology());
    let query = ValidatedQuery { latest: true, ..query(&ontology, &[]) };
    let budget = ScanBudget { records: 10, ..ScanBudget::UNLIMITED };
    assert!(matches!(world.view().query(&query, at(250), None, None, budget), Err(ScanError::TooCostly)));
}

/// One hit of a subject in 2001, and many in 2000.
#[test]
fn latest_query_holds_no_more_hits_of_a_subject_than_a_page() {
    let mut world = TestStore::new();
    let many =
        (0..14_000).map(|n| TestStatement { id: Some(n.to_string()), ..test_statement("BBB", 2000, n) });
    let single = |country, year| test_statement(country, year, 1);
    let mut all: Vec<_> = many.chain([single("AAA", 1999), single("CCC", 1998)]).collect();
    all.sort_by_key(TestStatement::key);
    world.ingest(&test_run("1", 100, true, all));
    let query = ValidatedQuery { latest: true, max_results: 2, ..query(&ontology(), &[]) };
    let page = |after: Option<&[u8]>| world.view().query(&query, at(250), None, after, ScanBudget::UNLIMITED);
    // the page ends before the subject, which no page can hold
    let first = page(None).unwrap();
    assert_eq!(first.found.len(), 1);
    assert!(matches!(page(first.more.as_deref()), Err(ScanError::SubjectTooLarge)));
    // the many are no longer the latest
    let later = TestStatement { id: Some("later".into()), ..single("BBB", 2001) };
    world.ingest(&test_run("2", 200, false, vec![later]));
    let found = latest(&world, &[], 2, u64::MAX);
    assert_eq!(found, [("AAA".into(), 1999, 1), ("BBB".into(), 2001, 1), ("CCC".into(), 1998, 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn latest_query_equals_a_plain_selection(
        records in proptest::collection::vec(("[ab]{0,2}", 0_u32..30, 0_u64..9), 0..60),
        filters in proptest::collection::vec(filter(), 0..3), max_results in 1..5_usize,
    ) {
        let mut world = TestStore::new();
        let mut all: Vec<_> = records.into_iter().map(|(text, year, people)| test_statement(&text, year, people)).collect();
        all.sort_by_key(TestStatement::key);
        all.dedup_by_key(|stated| stated.key());
        world.ingest(&test_run("1", 100, true, all));
        let mut expected = Vec::new();
        for (country, year, people) in summarize_page(&ask(&world, 250, &filters)) {
            if expected.last().is_some_and(|(last, ..): &(String, u32, u64)| *last == country) {
                expected.pop();
            }
            expected.push((country, year, people));
        }
        prop_assert_eq!(latest(&world, &filters, max_results, u64::MAX), expected);
    }
}
