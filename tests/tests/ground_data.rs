//! Releases of real sources, ingested by the example pipelines: the records of each release, and since when they were
//! known.

use bytes::Bytes;
use domain_base::decimal::Decimal;
use domain_base::digest::Sha256Hex;
use oracled_store::Store;
use oracled_tests::ground::{
    approve, example, export, files, ingest, named, open_store, query_all, register, register_gated,
    started_run, view, wait_for_run, without_known_times,
};
use oracled_tests::{DaemonWorld, at, document, post, read_whole_log};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs};

const WORLD_BANK: &str = "world-bank-population";
/// Orders in which the releases of one source are ingested.
const ORDERS: [[usize; 4]; 3] = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]];

/// One release of a source.
struct TestRelease {
    source: &'static str,
    version: &'static str,
    released_at: &'static str,
    payload: Bytes,
}

/// The gates of a pipeline.
#[derive(Debug, Clone, Copy)]
enum TestGates {
    /// The gates of the example pipelines, which real releases pass.
    OfGallery,
    /// Gates that let every run pass, because a release of a few records changes a large share of them.
    Open,
}

impl TestGates {
    async fn register(self, control: &mut oracled_api::client::DaemonClient, source: &str) {
        match self {
            Self::OfGallery => register_gated(control, source).await,
            Self::Open => register(control, source).await,
        }
    }
}

const fn release(
    source: &'static str,
    version: &'static str,
    released_at: &'static str,
    payload: Bytes,
) -> TestRelease {
    TestRelease { source, version, released_at, payload }
}

/// Folder of the real data.
fn folder() -> PathBuf {
    env::var_os("ORACLED_GROUND_DATA").map(PathBuf::from).expect("ORACLED_GROUND_DATA names the folder")
}

/// The releases in `folder`.
fn releases_in(folder: &Path) -> Vec<TestRelease> {
    let places = [
        ("iso-3166", "4.15.0", "2023-05-30", "iso-codes/4.15.0/iso_3166-1.json"),
        ("iso-3166", "4.18.0", "2025-06-03", "iso-codes/4.18.0/iso_3166-1.json"),
        ("iso-3166", "4.20.1", "2026-02-10", "iso-codes/4.20.1/iso_3166-1.json"),
        ("iso-4217", "4.15.0", "2023-05-30", "iso-codes/4.15.0/iso_4217.json"),
        ("iso-4217", "4.18.0", "2025-06-03", "iso-codes/4.18.0/iso_4217.json"),
        ("iso-4217", "4.20.1", "2026-02-10", "iso-codes/4.20.1/iso_4217.json"),
        ("un-wpp-population", "2019", "2019-06-17", "population/un-wpp2019.tsv"),
        (WORLD_BANK, "2017", "2017-10-26", "population/worldbank-2017-10-26.csv"),
        (WORLD_BANK, "2020", "2020-04-14", "population/worldbank-2020-04-14.csv"),
        (WORLD_BANK, "2023", "2023-05-04", "population/worldbank-2023-05-04.csv"),
        (WORLD_BANK, "2026", "2026-03-06", "population/worldbank-2026-03-06.csv"),
        ("usda-sr", "older", "2011-10-01", "nutrition/usda-sr-older.ndjson"),
        ("usda-sr", "newer", "2018-04-01", "nutrition/usda-sr.ndjson"),
        ("cnf", "2015", "2015-08-01", "nutrition/cnf.ndjson"),
    ];
    let read = |path: &str| fs::read(folder.join(path)).expect(path);
    places.map(|(source, version, at, path)| release(source, version, at, read(path).into())).into()
}

/// A few records of each source. Between the four releases of the World Bank, some are revised, added or removed.
fn excerpts() -> Vec<TestRelease> {
    let world_bank = |rows: &str| Bytes::from(format!("Country Name,Country Code,Year,Value\n{rows}"));
    let country = |code: &str, short: &str, name: &str, number: &str| json!({"alpha_2": short, "alpha_3": code, "flag": "\u{1f1e6}\u{1f1fc}", "name": name, "numeric": number});
    let countries = |list: &[Value]| Bytes::from(json!({"3166-1": list}).to_string());
    let aruba = country("ABW", "AW", "Aruba", "533");
    let turkey = |name: &str| country("TUR", "TR", name, "792");
    let food = json!({"ndbNumber": 1001, "description": "Butter,  salted", "foodCategory": "Dairy and Egg Products",
        "foodNutrients": [{"nutrient": {"name": "Water", "unitName": "G"}, "amount": 15.87},
            {"nutrient": {"name": "Energy", "unitName": "KCAL"}, "amount": 717.0},
            {"nutrient": {"name": "Calcium, Ca", "unitName": "MG"}, "amount": 24.0}]});
    let canadian = json!({"food_code": 2, "food_description": "Cheese souffle",
        "nutrients": {"Water": {"value": 67.17, "unit": "g"}, "Energy": {"value": 204.0, "unit": "kcal"}}});
    vec![
        release("iso-3166", "1", "2023-05-30", countries(&[aruba.clone(), turkey("Turkey")])),
        release("iso-3166", "2", "2025-06-03", countries(&[turkey("Türkiye"), aruba])),
        release(
            "iso-4217",
            "1",
            "2023-05-30",
            r#"{"4217": [{"alpha_3": "ALL", "name": "Lek", "numeric": "008"}]}"#.into(),
        ),
        release(
            "un-wpp-population",
            "2019",
            "2019-06-17",
            "country_code\tname\tyear\tpopulation_thousands\n4\tAfghanistan\t1950\t7752.117\n".into(),
        ),
        release(
            WORLD_BANK,
            "2017",
            "2017-10-26",
            world_bank(
                "Arab World,ARB,1960,92490932\nAruba,ABW,1960,54208\nDividend,EAR,2002,2560644470.88287\n",
            ),
        ),
        release(
            WORLD_BANK,
            "2020",
            "2020-04-14",
            world_bank(
                "Arab World,ARB,1960,92197753\nAruba,ABW,1960,54211\n\"Korea, Rep.\",KOR,1960,25012374\n",
            ),
        ),
        release(
            WORLD_BANK,
            "2023",
            "2023-05-04",
            world_bank("Aruba,ABW,1960,54608\nAruba,ABW,1961,no number\n\"Korea, Rep.\",KOR,1960,25012374\n"),
        ),
        release(
            WORLD_BANK,
            "2026",
            "2026-03-06",
            world_bank("Aruba,ABW,1960,54608\nArab World,ARB,1960,92197753\nSerbia,SRB,2020,6.899126E6\n"),
        ),
        release("usda-sr", "newer", "2018-04-01", (food.to_string() + "\n").into()),
        release("cnf", "2015", "2015-08-01", (canadian.to_string() + "\n").into()),
    ]
}

/// The excerpts without the release that has a rejected record.
fn excerpts_without_rejects() -> Vec<TestRelease> {
    excerpts().into_iter().filter(|release| release.version != "2023").collect()
}

/// Area, year, name and population of each valid row.
type PopulationRows = BTreeSet<[String; 4]>;

/// Expected rows of a World Bank file.
fn rows_of(payload: &[u8]) -> PopulationRows {
    let mut rows = csv::Reader::from_reader(payload);
    let row = |row: csv::StringRecord| {
        let population: Decimal = row[3].parse().ok()?;
        Some([row[1].to_owned(), row[2].to_owned(), row[0].to_owned(), population.to_string()])
    };
    rows.records().filter_map(|record| row(record.expect("valid CSV"))).collect()
}

/// Rows in the answers of the World Bank source.
fn rows_in(answers: &[(Value, Value)]) -> PopulationRows {
    let text = |record: &Value, axis: &str| match &record["axes"][axis] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let axes = ["area", "year", "area_name", "population"];
    let rows: PopulationRows =
        answers.iter().map(|(record, _)| axes.map(|axis| text(record, axis))).collect();
    assert_eq!(rows.len(), answers.len(), "no row is returned twice");
    rows
}

/// Checks that the answered rows are the expected ones.
fn check_rows(actual: &PopulationRows, expected: &PopulationRows, what: &str) {
    let shown = |rows: &PopulationRows, others: &PopulationRows| {
        format!("{:?}", rows.difference(others).take(5).collect::<Vec<_>>())
    };
    assert!(
        actual == expected,
        "{what}: unexpected {}, missing {}",
        shown(actual, expected),
        shown(expected, actual)
    );
}

/// Ingests `release`. Returns its run, and the duration in seconds.
async fn run(control: &mut oracled_api::client::DaemonClient, release: &TestRelease) -> (Value, f64) {
    let began = Instant::now();
    let TestRelease { source, version, released_at, payload } = release;
    let run_id = started_run(&ingest(control, source, version, released_at, payload.clone()).await);
    let mut run = wait_for_run(control, &run_id).await;
    // An operator confirms unusual releases. The ISO lists are the same in several releases, and the newer Standard
    // Reference has a fifth fewer foods.
    let is_unusual = match *source {
        "iso-3166" | "iso-4217" => run["breaches"][0]["gate"] == "same_payload",
        "usda-sr" => run["breaches"][0]["gate"] == "max_withdrawn_ratio",
        _ => false,
    };
    if is_unusual {
        let reason = json!({"reason": "compared with the publisher's notes"});
        let answer = post(control, &format!("/v1/runs/{run_id}/approve"), &reason).await;
        assert_eq!(answer.status, 202, "{}", document(&answer));
        run = wait_for_run(control, &run_id).await;
    }
    assert_eq!(run["state"], "completed", "{run}");
    (run, began.elapsed().as_secs_f64())
}

/// Checks that every release of the World Bank is returned as of its date and by the time of its ingestion, for this
/// order of ingestion.
async fn check_releases_by_date(releases: &[TestRelease], order: [usize; 4], gates: TestGates) {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    gates.register(control, WORLD_BANK).await;
    approve(control, WORLD_BANK).await;
    let mut known = Vec::new();
    for (number, place) in order.into_iter().enumerate() {
        let (run, _) = run(control, &releases[place]).await;
        let rows = rows_of(&releases[place].payload);
        assert_eq!(run["counts"]["records"], rows.len(), "{run}");
        known.push((run["ended_at"].clone(), order[..=number].to_vec(), rows));
    }
    let build_query = |time: &str, known_at: &Value, include_provenance: bool| {
        json!({"axes_requested": ["area_name", "population"], "point_in_time": time, "known_at": known_at,
            "include_provenance": include_provenance})
    };
    let mut results = Vec::new();
    // a new connection, because an idle one would have been closed
    let routes = &mut daemon.routes().await;
    for time in releases.iter().map(|release| release.released_at).chain(["2000-01-01", "2021-11-20"]) {
        let at = format!("{time}T00:00:00Z");
        let all = query_all(routes, WORLD_BANK, &build_query(&at, &Value::Null, true)).await;
        for (known_at, ingested, _) in &known {
            let held = ingested.iter().filter(|place| releases[**place].released_at <= time).max();
            let held = held.map(|place| rows_of(&releases[*place].payload)).unwrap_or_default();
            let answer = query_all(routes, WORLD_BANK, &build_query(&at, known_at, false)).await;
            check_rows(&rows_in(&answer), &held, &format!("{order:?}, as of {time}, known at {known_at}"));
            if ingested.len() == order.len() {
                check_rows(&rows_in(&all), &held, &format!("{order:?}, as of {time}"));
            }
        }
        results.extend(all);
    }
    let control = &mut daemon.control().await;
    let before = (changes_in(read_whole_log(control).await), files(&world.state()));
    for place in order {
        let TestRelease { source, version, released_at, payload } = &releases[place];
        let again = ingest(control, source, version, released_at, payload.clone()).await;
        assert_eq!((again.status.as_u16(), at(&again, "/unchanged")), (200, json!(true)));
    }
    assert_eq!(
        (changes_in(read_whole_log(control).await), files(&world.state())),
        before,
        "repeated payloads change nothing"
    );
    assert!(daemon.stop().success());
    let (_journal, store) = open_store(&world.state());
    for (record, provenance) in &results {
        let raw = slice(&store, provenance);
        let raw = [&b"Country Name,Country Code,Year,Value\n"[..], &raw].concat();
        assert_eq!(rows_of(&raw), rows_in(&[(record.clone(), Value::Null)]), "{provenance}");
    }
    println!("order {order:?}: {} answers lead to their raw records", results.len());
}

/// Removes the entries of queries, which are logged with a delay.
fn changes_in(mut entries: Vec<Value>) -> Vec<Value> {
    entries.retain(|entry| entry["event"] != "source_queried");
    entries
}

/// The raw record to which the provenance refers, compared with its digest.
fn slice(store: &Store, provenance: &Value) -> Vec<u8> {
    let raw = &provenance["raw"];
    let digest: Sha256Hex = raw["raw_sha256"].as_str().expect("valid UTF-8").parse().expect("a string");
    let oracle_id = provenance["oracle_id"].as_str().expect("valid UTF-8").parse().expect("a valid id");
    let archive = store.files().archive(&oracle_id, &digest).expect("the payload exists");
    let number = |name: &str| raw[name].as_u64().expect("a number");
    let slice = archive.slice(number("offset"), number("len")).expect("the slice is readable");
    assert_eq!(provenance["raw_hash"], Sha256Hex::of(&slice).as_str(), "{provenance}");
    slice
}

/// Prints a line of the table: a release and the results of its run.
fn print_line(release: &TestRelease, run: &Value, seconds: f64, bytes: u64) {
    let counts = &run["counts"];
    let (read, records) = (counts["read"].as_f64().unwrap_or_default(), &counts["records"]);
    println!(
        "{:22} {:7} {read:7} {records:7} {:6.2} s {:8.0}/s {:9} bytes in, {bytes:9} on disk; rejects {}; effect {}",
        release.source,
        release.version,
        seconds,
        read / seconds,
        release.payload.len(),
        counts["rejected_by_rule"],
        counts["effect"],
    );
}

/// Format of each source's payload, and the column or member with its main value.
const LAYOUTS: [(&str, PayloadLayout, &str); 6] = [
    ("iso-3166", PayloadLayout::Json("3166-1"), "numeric"),
    ("iso-4217", PayloadLayout::Json("4217"), "numeric"),
    ("un-wpp-population", PayloadLayout::Delimited('\t'), "population_thousands"),
    (WORLD_BANK, PayloadLayout::Delimited(','), "Value"),
    ("usda-sr", PayloadLayout::Lines, "amount"),
    ("cnf", PayloadLayout::Lines, "value"),
];

#[derive(Debug, Clone, Copy)]
enum PayloadLayout {
    /// One document, with its records under this member.
    Json(&'static str),
    /// A header and rows, with the main value last.
    Delimited(char),
    /// One JSON document in each line.
    Lines,
}

/// The same document, with each value under `field` as a string with a decimal comma.
fn with_commas(mut value: Value, field: &str) -> Value {
    match &mut value {
        Value::Array(list) => list.iter_mut().for_each(|value| *value = with_commas(value.take(), field)),
        Value::Object(members) => {
            for (name, value) in members {
                *value = match value {
                    Value::String(_) | Value::Number(_) if name == field => {
                        json!(value.to_string().trim_matches('"').replace('.', ",") + ",0")
                    }
                    _ => with_commas(value.take(), field),
                };
            }
        }
        _ => {}
    }
    value
}

/// Damaged variants of a release.
fn damages(layout: PayloadLayout, field: &str, payload: &[u8]) -> Vec<(&'static str, Bytes)> {
    let text = str::from_utf8(payload).expect("valid UTF-8");
    let parsed = |line: &str| serde_json::from_str::<Value>(line).expect("valid JSON");
    // the second record of each pair, because the first of a single record would leave none
    let half = |place: usize| place % 2 == 1;
    let (commas, halved): (String, String) = match layout {
        PayloadLayout::Json(records) => {
            let document = parsed(text);
            let mut halved = document.clone();
            let mut place = 0..;
            halved[records].as_array_mut().expect("an array").retain(|_| place.next().is_some_and(half));
            (with_commas(document, field).to_string(), halved.to_string())
        }
        PayloadLayout::Delimited(separator) => {
            let (header, rows) = text.split_once('\n').expect("a header");
            let comma = |row: &str| {
                let (before, value) = row.rsplit_once(separator).expect("at least one column");
                format!("{before}{separator}\"{},0\"\n", value.replace('.', ","))
            };
            let commas: String = rows.lines().map(comma).collect();
            let rows = rows.lines().enumerate().filter(|(place, _)| half(*place));
            let rows: String = rows.map(|(_, row)| format!("{row}\n")).collect();
            (format!("{header}\n{commas}"), format!("{header}\n{rows}"))
        }
        PayloadLayout::Lines => {
            let commas = text.lines().map(|line| format!("{}\n", with_commas(parsed(line), field)));
            let lines = text.lines().enumerate().filter(|(place, _)| half(*place));
            (commas.collect(), lines.map(|(_, line)| format!("{line}\n")).collect())
        }
    };
    vec![
        ("a renamed column", text.replacen(field, "renamed", usize::MAX).into()),
        ("a decimal comma", commas.into()),
        ("half of the rows missing", halved.into()),
        ("an empty file", Bytes::new()),
        ("the file of the version before", Bytes::copy_from_slice(payload)),
    ]
}

/// Submits damaged releases after a good one of each source. Each must be held or fail, and change no answer.
async fn damaged_releases_change_nothing(releases: Vec<TestRelease>) {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for (source, layout, field) in LAYOUTS {
        let control = &mut daemon.control().await;
        register_gated(control, source).await;
        approve(control, source).await;
        let good = releases.iter().filter(|release| release.source == source);
        let good = good.max_by_key(|release| release.released_at).expect("at least one");
        run(control, good).await;
        let axes: Vec<_> = example(&format!("sources/{source}.json"))["axes_provided"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let request = json!({"axes_requested": axes, "include_provenance": true});
        let before = query_all(&mut daemon.routes().await, source, &request).await;
        assert!(!before.is_empty(), "{source}");
        let mut damages = damages(layout, field, &good.payload);
        if source == "usda-sr" {
            let text = str::from_utf8(&good.payload).expect("valid UTF-8");
            let renamed = text.replace("\"foodCategory\"", "\"category\"");
            damages.push(("a renamed member of an axis that may be empty", renamed.into()));
        }
        for (number, (damage, payload)) in damages.into_iter().enumerate() {
            let control = &mut daemon.control().await;
            let released_at = format!("2026-10-0{}", number + 1);
            let answer = ingest(control, source, &format!("damaged-{number}"), &released_at, payload).await;
            let run = wait_for_run(control, &started_run(&answer)).await;
            let state = run["state"].as_str().expect("a string");
            println!("{source}: {damage}: {state}: {} {}", run["cause"], run["counts"]["effect"]);
            assert!(["held", "failed"].contains(&state), "{source}: {damage}: {run}");
            let after = query_all(&mut daemon.routes().await, source, &request).await;
            assert!(after == before, "{source}: {damage}: an answer has changed");
        }
    }
    assert!(daemon.stop().success());
}

/// Ingests all releases in a daemon of its own. Returns the export of each source.
async fn exports(releases: &[TestRelease], gates: TestGates, print: bool) -> BTreeMap<&'static str, Vec<u8>> {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let sources: BTreeSet<_> = releases.iter().map(|release| release.source).collect();
    for source in &sources {
        gates.register(control, source).await;
    }
    let mut bytes = 0;
    for release in releases {
        let (run, seconds) = run(control, release).await;
        let now = files(&world.state()).values().sum::<u64>();
        if print {
            print_line(release, &run, seconds, now.saturating_sub(bytes));
        }
        bytes = now;
    }
    assert!(daemon.stop().success());
    let (_journal, store) = open_store(&world.state());
    let there: Vec<_> = files(&world.state()).into_keys().collect();
    assert_eq!(there, named(&store), "files on disk equal the files that the store names");
    sources.into_iter().map(|source| (source, verified_export(&store, source))).collect()
}

/// The export of a source, after each line was compared with its digests and with the payload.
fn verified_export(store: &Store, source: &str) -> Vec<u8> {
    let exported = export(store, source);
    for line in exported.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let value: Value = serde_json::from_slice(line).expect("each line is JSON");
        slice(store, &value["provenance"]);
        let text = str::from_utf8(line).expect("JSON is UTF-8");
        let (_, record) = text.split_once(r#","record":"#).expect("a record");
        let record = record.strip_suffix('}').expect("a line is an object");
        assert_eq!(value["provenance"]["normalized_hash"], Sha256Hex::of(record.as_bytes()).as_str());
    }
    let view = view(store, source);
    view.verify_files(&mut view.meter(&BTreeSet::new(), &mut |_| true))
        .expect("the files are what was committed");
    for completed in &view.state.completed {
        let verified = view
            .verify_run(completed.release.run, |_| true)
            .expect("the read succeeds")
            .expect("the run exists");
        assert_eq!((verified.fault_count, verified.no_payload), (0, false), "{:?}", verified.faults);
    }
    exported
}

async fn check_releases_in_all_orders(releases: Vec<TestRelease>, gates: TestGates) {
    let releases: Vec<_> = releases.into_iter().filter(|release| release.source == WORLD_BANK).collect();
    for order in ORDERS {
        check_releases_by_date(&releases, order, gates).await;
    }
}

async fn check_two_daemons_agree(releases: &[TestRelease], gates: TestGates) {
    let first = exports(releases, gates, true).await;
    let second = exports(releases, gates, false).await;
    for (source, exported) in &first {
        assert!(!exported.is_empty(), "{source}");
        let other = second.get(source).expect("both have the source");
        assert!(without_known_times(other) == without_known_times(exported), "{source}");
        println!("{source}: {} bytes exported, {}", exported.len(), Sha256Hex::of(exported));
    }
}

#[tokio::test]
async fn each_release_is_returned_as_of_its_date_in_any_order() {
    check_releases_in_all_orders(excerpts(), TestGates::Open).await;
}

#[tokio::test]
#[ignore = "needs real data: ORACLED_GROUND_DATA names the folder"]
async fn each_real_release_is_returned_as_of_its_date_in_any_order() {
    check_releases_in_all_orders(releases_in(&folder()), TestGates::OfGallery).await;
}

#[tokio::test]
async fn two_daemons_with_the_same_data_agree_and_values_trace_to_raw_records() {
    check_two_daemons_agree(&excerpts(), TestGates::Open).await;
}

#[tokio::test]
#[ignore = "needs real data: ORACLED_GROUND_DATA names the folder"]
async fn two_daemons_with_all_real_data_agree_and_values_trace_to_raw_records() {
    check_two_daemons_agree(&releases_in(&folder()), TestGates::OfGallery).await;
}

#[tokio::test]
async fn damaged_releases_are_held_or_fail_and_change_no_answer() {
    damaged_releases_change_nothing(excerpts_without_rejects()).await;
}

#[tokio::test]
#[ignore = "needs real data: ORACLED_GROUND_DATA names the folder"]
async fn damaged_releases_of_real_sources_change_no_answer() {
    damaged_releases_change_nothing(releases_in(&folder())).await;
}
