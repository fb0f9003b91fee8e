//! `facts_from`: text about population and nutrition is checked against registered sources. Each supported claim
//! leads back to the bytes of its source.

use domain_base::digest::Sha256Hex;
use oracled_api::client::DaemonClient;
use oracled_tests::generation::{generation_request, purge_verdict, read_verdict, register_session, x_cache};
use oracled_tests::ground::{
    approve, example_documents, ingest, office_documents, put_document, register, register_all, started_run,
    wait_for_run,
};
use oracled_tests::load::field;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::stream::StreamedRequest;
use oracled_tests::verification::{self, workflow};
use oracled_tests::{DaemonProcess, DaemonWorld, at, document, get, log, post, problem};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

const SOURCE: &str = "world-bank-population";
/// This rule compares numbers by their values.
const RULES: [&str; 1] = ["RULE-PREC-013"];
/// Values of Moldova and Aruba in the last release of the source.
const TRUE_TEXT: &str = "The population of Moldova without Transnistria in 2015 was 2,835,978. \
                         The population of Aruba in 2015 was 107906.";
/// The value of Moldova in an earlier release.
const FALSE_TEXT: &str = "The population of Moldova without Transnistria in 2015 was 3,554,108.";

fn data(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/ground-truth/data").join(name);
    fs::read(path).expect("the file exists")
}

/// Registers an example source and ingests one of its releases.
async fn with_source(control: &mut DaemonClient, source: &str, version: &str, file: &str) {
    register(control, source).await;
    release(control, source, version, file).await;
    approve(control, source).await;
}

async fn release(control: &mut DaemonClient, source: &str, version: &str, file: &str) {
    let run =
        started_run(&ingest(control, source, version, version, data(&format!("{source}/{file}"))).await);
    assert_eq!(field(&wait_for_run(control, &run).await, "state"), "completed");
}

async fn with_population(daemon: &DaemonProcess<'_>) {
    with_source(&mut daemon.control().await, SOURCE, "2026-03-06", "2026-03-06.csv").await;
}

/// Query for all areas in 2015.
fn of_2015() -> Value {
    json!({"query": {"oracle_id": SOURCE, "request": {
        "axes_requested": ["area_name", "population"],
        "filters": [{"axis": "year", "operator": "eq", "value": 2015}]}}})
}

fn evaluation_request(text: &str) -> Value {
    json!({"candidate_output": text, "facts_from": [of_2015()], "rules": RULES})
}

async fn evaluated(routes: &mut DaemonClient, body: &Value) -> Value {
    let answer = post(routes, "/v1/rules/evaluate", body).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    document(&answer)
}

fn list<'v>(of: &'v Value, place: &str) -> &'v [Value] {
    of.pointer(place).and_then(Value::as_array).expect("an array")
}

/// Origins of all facts, each with its facts.
fn origins(evaluation: &Value) -> impl Iterator<Item = &Value> {
    list(evaluation, "/facts_from").iter().flat_map(|source| list(source, "/origins"))
}

/// Sets a freshness policy by which the source is stale.
async fn too_old(control: &mut DaemonClient) {
    let policy = json!({"oracle_id": SOURCE, "axis_freshness": {}, "default_max_age_seconds": 60,
        "default_stale_behavior": "fail_closed", "invalidation_triggers": []});
    let set = put_document(control, &format!("/v1/documents/freshness_policy/{SOURCE}"), &policy).await;
    assert_eq!(set.status, 200, "{}", document(&set));
}

#[tokio::test]
async fn population_text_is_checked_end_to_end_and_traced_to_its_source() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    with_population(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let passed = evaluated(routes, &evaluation_request(TRUE_TEXT)).await;
    assert_eq!(passed["verdict"], "PASS", "{passed}");
    let payload = data("world-bank-population/2026-03-06.csv");
    let mut traced = Vec::new();
    for step in list(&passed, "/rules/0/evidence") {
        let supporting = &step["output"]["fact"];
        let names = |origin: &&Value| list(origin, "/facts").iter().any(|fact| fact["fact"] == *supporting);
        let origin = origins(&passed).find(names).expect("the fact has an origin");
        let record_id = origin["record"]["record_id"].as_str().expect("the origin is a record");
        let chain = document(&get(routes, &format!("/v1/records/{record_id}/provenance")).await);
        for (member, same) in
            [("raw_hash", "raw_hash"), ("source_version", "source_version"), ("oracle_id", "oracle_id")]
        {
            assert_eq!(chain[member], origin["record"][same], "{chain}");
        }
        assert_eq!(chain["raw"]["raw_sha256"], Sha256Hex::of(&payload).as_str());
        let place = |name: &str| usize::try_from(chain["raw"][name].as_u64().unwrap()).unwrap();
        let raw = &payload[place("offset")..place("offset") + place("len")];
        assert_eq!(chain["raw_hash"], Sha256Hex::of(raw).as_str());
        traced.push(String::from_utf8_lossy(raw).trim().to_owned());
    }
    assert_eq!(traced, ["Moldova,MDA,2015,2835978", "Aruba,ABW,2015,107906"]);

    let failed = evaluated(routes, &evaluation_request(FALSE_TEXT)).await;
    assert_eq!(failed["verdict"], "FAIL", "{failed}");
    assert_eq!(failed["rules"][0]["violations"][0]["text"], FALSE_TEXT.trim_end_matches('.'));
    // the same number for another territory is not supported
    let unnamed = evaluation_request("The population of Moldova in 2015 was 2,835,978.");
    assert_eq!(evaluated(routes, &unnamed).await["verdict"], "FAIL");
    let rounded =
        evaluation_request("The population of Moldova without Transnistria in 2015 was 2.8 million.");
    assert_eq!(evaluated(routes, &rounded).await["verdict"], "PASS");

    let entries = log(control, "event=rules_evaluated").await;
    let logged_sources = &entries[0]["facts_from"];
    let named: Vec<_> = list(logged_sources, "/origins").iter().map(|origin| &origin["record"]).collect();
    assert_eq!(named, origins(&passed).map(|origin| &origin["record"]).collect::<Vec<_>>());
    assert_eq!((&logged_sources["origins_omitted"], &logged_sources["facts"]), (&json!(0), &json!(21)));
    let sources = Sha256Hex::of(passed["facts_from"].to_string().as_bytes());
    assert_eq!(logged_sources["sha256"], sources.as_str());
    assert!(!entries[0].to_string().contains("Moldova"));
}

/// A text of the values of one release: the next release supports only those that it does not change.
#[tokio::test]
async fn text_of_one_release_is_checked_against_the_next_one() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    with_source(control, SOURCE, "2020-04-14", "2020-04-14.csv").await;
    let first = evaluated(routes, &evaluation_request("There is no claim.")).await;
    let facts: Vec<&str> =
        origins(&first).filter_map(|origin| list(origin, "/facts").first()?["text"].as_str()).collect();
    assert!(facts.len() >= 7, "{first}");
    let request = evaluation_request(&format!("{}.", facts.join(". ")));
    let supported_by = |evaluation: &Value| -> Vec<Value> {
        let steps = list(evaluation, "/rules/0/evidence").iter().map(|step| &step["output"]);
        let supported = steps.filter(|output| output["finding"] == "supported");
        let version = |output: &Value| {
            let names =
                |origin: &&Value| list(origin, "/facts").iter().any(|fact| fact["fact"] == output["fact"]);
            origins(evaluation).find(names).expect("the fact has an origin")["record"]["source_version"]
                .clone()
        };
        supported.map(version).collect()
    };
    let passed = evaluated(routes, &request).await;
    assert_eq!(passed["verdict"], "PASS", "{passed}");
    assert_eq!(supported_by(&passed), vec![json!("2020-04-14"); facts.len()]);
    release(control, SOURCE, "2026-03-06", "2026-03-06.csv").await;
    let changed = evaluated(routes, &request).await;
    assert_eq!(changed["verdict"], "FAIL", "{changed}");
    // the populations of France and of Serbia are the same in both, and their records are those of the first
    assert_eq!(supported_by(&changed), vec![json!("2020-04-14"); 2]);
    let is_new = |origin: &&Value| origin["record"]["source_version"] == "2026-03-06";
    assert_eq!(origins(&changed).filter(is_new).count(), facts.len() - 2);
    assert_eq!(list(&changed, "/rules/0/violations").len(), facts.len() - 2);
}

/// Ten countries: name, code, population in 2015 and surface area in km².
const COUNTRIES: [(&str, &str, u64, u64); 10] = [
    ("Aruba", "ABW", 104_341, 180),
    ("Austria", "AUT", 8_642_699, 83_879),
    ("Belgium", "BEL", 11_274_196, 30_530),
    ("Chile", "CHL", 17_969_353, 756_700),
    ("Denmark", "DNK", 5_683_483, 42_920),
    ("Estonia", "EST", 1_315_407, 45_340),
    ("Finland", "FIN", 5_479_531, 338_460),
    ("Ghana", "GHA", 27_849_205, 238_540),
    ("Hungary", "HUN", 9_843_028, 93_030),
    ("Iceland", "ISL", 330_815, 103_000),
];

/// Registers a source of the surface areas of countries.
async fn register_surfaces(control: &mut DaemonClient) {
    let (mut ontology, source, pipeline) = example_documents("surfaces");
    ontology["axes"][1]["unit"] = json!("km2");
    ontology["fact_templates"] =
        json!([{"template_id": "surface", "template": "The surface area of {name} is {size} km²"}]);
    register_all(control, &ontology, &source, &pipeline).await;
}

/// Ingests a release of the populations and of the surface areas of `countries`.
async fn release_countries(control: &mut DaemonClient, version: &str, countries: &[(&str, &str, u64, u64)]) {
    let (mut people, mut surfaces) = ("Country Name,Country Code,Year,Value\n".to_owned(), String::new());
    for (number, (name, code, population, surface)) in countries.iter().enumerate() {
        people += &format!("{name},{code},2015,{population}\n");
        surfaces += &format!("{}\n", json!({"number": number, "name": name, "size": surface}));
    }
    for (source, payload) in [(SOURCE, people), ("surfaces", surfaces)] {
        let run = started_run(&ingest(control, source, version, version, payload.into_bytes()).await);
        assert_eq!(field(&wait_for_run(control, &run).await, "state"), "completed");
    }
}

#[tokio::test]
async fn text_about_ten_countries_names_the_release_of_each_fact() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register(control, SOURCE).await;
    register_surfaces(control).await;
    release_countries(control, "2024-01-01", &COUNTRIES).await;
    approve(control, SOURCE).await;
    approve(control, "surfaces").await;
    let request = |countries: &[(&str, &str, u64, u64)]| {
        let sentence = |(name, _, population, surface): &(&str, &str, u64, u64)| {
            format!(
                "The population of {name} in 2015 was {population}. The surface area of {name} is {surface} km². "
            )
        };
        let surfaces = json!({"query": {"oracle_id": "surfaces",
            "request": {"axes_requested": ["name", "size"]}}});
        json!({"candidate_output": countries.iter().map(sentence).collect::<String>(),
            "facts_from": [of_2015(), surfaces], "rules": RULES})
    };
    // the releases of the facts that support the claims, in the order of the claims
    let releases = |evaluation: &Value| -> Vec<String> {
        let steps = list(evaluation, "/rules/0/evidence").iter().map(|step| &step["output"]);
        let version = |output: &Value| {
            let names =
                |origin: &&Value| list(origin, "/facts").iter().any(|fact| fact["fact"] == output["fact"]);
            let origin = origins(evaluation).find(names).expect("the fact has an origin");
            origin["record"]["source_version"].as_str().expect("a version").to_owned()
        };
        steps.filter(|output| output["finding"] == "supported").map(version).collect()
    };
    let old = request(&COUNTRIES);
    let passed = evaluated(routes, &old).await;
    assert_eq!(passed["verdict"], "PASS", "{passed}");
    assert_eq!(releases(&passed), vec!["2024-01-01"; 20]);

    // the population of Belgium and the surface area of Iceland are corrected
    let mut corrected = COUNTRIES;
    corrected[2].2 += 1_000;
    corrected[9].3 -= 170;
    release_countries(control, "2025-01-01", &corrected).await;
    let failed = evaluated(routes, &old).await;
    assert_eq!(failed["verdict"], "FAIL", "{failed}");
    let violations: Vec<&Value> =
        list(&failed, "/rules/0/violations").iter().map(|fault| &fault["text"]).collect();
    assert_eq!(
        violations,
        ["The population of Belgium in 2015 was 11274196", "The surface area of Iceland is 103000 km²"]
    );
    let new = evaluated(routes, &request(&corrected)).await;
    assert_eq!(new["verdict"], "PASS", "{new}");
    let mut expected = vec!["2024-01-01"; 20];
    (expected[4], expected[19]) = ("2025-01-01", "2025-01-01");
    assert_eq!(releases(&new), expected);
    // the number of another country, or of the other property, supports nothing
    let mut swapped = corrected;
    (swapped[0].2, swapped[0].3, swapped[3].3) = (180, 104_341, swapped[4].3);
    let swapped = evaluated(routes, &request(&swapped)).await;
    assert_eq!(list(&swapped, "/rules/0/violations").len(), 3, "{swapped}");
}

#[tokio::test]
async fn evaluation_contains_all_inputs_of_its_digests() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    with_population(&daemon).await;
    let routes = &mut daemon.routes().await;
    let mut body = evaluation_request(TRUE_TEXT);
    body["facts"] = json!(["Ice melts"]);
    let nothing = json!({"query": {"oracle_id": SOURCE, "request": {
        "axes_requested": ["area_name", "population"],
        "filters": [{"axis": "area", "operator": "eq", "value": "NUL"}]}}});
    body["facts_from"].as_array_mut().unwrap().insert(0, nothing);
    let answer = post(routes, "/v1/rules/evaluate", &body).await;
    let mut evaluation = document(&answer);
    assert_eq!(String::from_utf8_lossy(&answer.body), evaluation.to_string(), "it is canonical");
    assert_eq!(
        evaluation["facts_from"][0],
        json!({"facts": 0, "origins": [], "query": SOURCE,
        "ontology": {"ontology_id": "population", "version": "1"}})
    );
    let texts =
        origins(&evaluation).flat_map(|origin| list(origin, "/facts")).map(|fact| fact["text"].clone());
    let facts: Vec<_> = [json!("Ice melts")].into_iter().chain(texts).collect();
    let digest = |value: &Value| json!(Sha256Hex::of(value.to_string().as_bytes()));
    assert_eq!(evaluation["facts_sha256"], digest(&json!(facts)));
    let input = json!({
        "candidate_sha256": evaluation["candidate_sha256"], "facts_sha256": evaluation["facts_sha256"],
        "facts_from": evaluation["facts_from"], "fields": null, "rules": RULES, "constraints": [], "context": null,
        "expected": {"contradiction_ids": [], "contradiction_pairs": [], "max_unsupported_claims": null,
            "must_find": [], "must_not_find": []},
        "unsupported_max": 0,
    });
    assert_eq!(evaluation["input_sha256"], digest(&input));
    let sha256 = evaluation.as_object_mut().unwrap().remove("sha256").unwrap();
    assert_eq!(sha256, digest(&evaluation));
    // the same request returns the same bytes
    assert_eq!(post(routes, "/v1/rules/evaluate", &body).await.body, answer.body);
}

#[tokio::test]
async fn log_entry_names_at_most_100_origins_and_counts_the_rest() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    with_population(&daemon).await;
    let all =
        json!({"query": {"oracle_id": SOURCE, "request": {"axes_requested": ["area_name", "population"]}}});
    let body = json!({"candidate_output": "?", "facts_from": [all, all]});
    let evaluation = evaluated(&mut daemon.routes().await, &body).await;
    assert_eq!(origins(&evaluation).count(), 126);
    let entries = log(&mut daemon.control().await, "event=rules_evaluated").await;
    let logged_sources = &entries[0]["facts_from"];
    assert_eq!(
        (list(logged_sources, "/origins").len(), &logged_sources["origins_omitted"]),
        (100, &json!(26))
    );
}

#[tokio::test]
async fn food_text_is_checked_by_quantities_in_any_unit() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    with_source(&mut daemon.control().await, "usda-sr", "2018-04-01", "newer-and-three-faults.ndjson").await;
    let routes = &mut daemon.routes().await;
    let verdict = async |routes: &mut DaemonClient, text: &str| {
        let query = json!({"query": {"oracle_id": "usda-sr", "request": {
            "axes_requested": ["food_name", "energy", "nutrients.*.amount"],
            "filters": [{"axis": "food_id", "operator": "eq", "value": 1001}]}}});
        let body = json!({"candidate_output": text, "facts_from": [query], "rules": ["RULE-PREC-013"]});
        evaluated(routes, &body).await["verdict"].clone()
    };
    for (text, expected) in [
        ("100 g of Butter, salted contain 643 mg of sodium.", "PASS"),
        ("100 g of butter, salted contain 0.643 g of sodium, ", "PASS"),
        ("100 g of butter, salted contain 6.43 g of sodium.", "FAIL"),
        ("100 g of butter, salted have 717 kcal.", "PASS"),
        ("100 g of butter, salted have 771 kcal.", "FAIL"),
    ] {
        assert_eq!(verdict(routes, text).await, expected, "{text}");
    }
}

#[tokio::test]
async fn evaluation_is_refused_if_any_requested_fact_is_unavailable() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    with_population(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let with = |member: &str, value: Value| {
        let mut body = evaluation_request(TRUE_TEXT);
        body["facts_from"][0]["query"]["request"][member] = value;
        body
    };
    let mut unknown = evaluation_request(TRUE_TEXT);
    unknown["facts_from"].as_array_mut().unwrap().push(json!({"query": {"oracle_id": "unknown",
        "request": {"axes_requested": ["population"]}}}));
    let mut verified = evaluation_request(TRUE_TEXT);
    verified["facts_from"][0] =
        json!({"verify": {"workflow": "people", "where": {}, "axes": ["population"]}});
    let entry = |entries: Value| json!({"candidate_output": "?", "facts": [], "facts_from": entries});
    for (body, status, code, words) in [
        (
            with("max_results", json!(2)),
            400,
            "invalid_request",
            "facts_from[0]: the query finds more than one page of 2",
        ),
        (with("cursor", json!("x")), 400, "invalid_request", "facts_from[0]: `cursor` is not allowed"),
        (
            with("axes_requested", json!(["population"])),
            400,
            "invalid_request",
            "no template of population@1",
        ),
        (
            with("axes_requested", json!(["people", "area_name", "population"])),
            400,
            "invalid_query",
            "facts_from[0]: `people` is not an axis",
        ),
        (unknown, 404, "source_unknown", "facts_from[1]: no source unknown"),
        (verified, 404, "workflow_unknown", "facts_from[0]: no workflow people is registered"),
        (entry(json!([])), 400, "invalid_request", "`facts_from` has 0 entries; 1 to 16"),
        (entry(json!(vec![of_2015(); 17])), 400, "invalid_request", "`facts_from` has 17 entries; 1 to 16"),
        (entry(json!(null)), 400, "invalid_request", "invalid type: null"),
        (entry(json!([{}])), 400, "invalid_request", "has either `query` or `verify`"),
        (entry(json!([{"ask": 1}])), 400, "invalid_request", "unknown field `ask`"),
        (json!({"candidate_output": "?"}), 400, "invalid_request", "missing field `facts`, or `facts_from`"),
    ] {
        let answer = post(routes, "/v1/rules/evaluate", &body).await;
        let rejection = problem(&answer, status, code);
        assert!(rejection["detail"].as_str().is_some_and(|detail| detail.contains(words)), "{rejection}");
    }
    too_old(control).await;
    problem(&post(routes, "/v1/rules/evaluate", &evaluation_request(TRUE_TEXT)).await, 503, "source_stale");
    assert!(log(control, "event=rules_evaluated").await.is_empty());
}

#[tokio::test]
async fn blocked_verification_stops_evaluation_and_delivery() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    with_population(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let axes = json!(["area_name", "population"]);
    verification::register(control, &workflow("people", &[SOURCE], json!({"axes": axes}))).await;
    let verify =
        json!([{"verify": {"workflow": "people", "where": {"area": "ABW", "year": 2015}, "axes": axes}}]);
    let text = "The population of Aruba in 2015 was 107906.";
    let (mut check, mut delivery) = (evaluation_request(text), submitted(text));
    (check["facts_from"], delivery["facts_from"]) = (verify.clone(), verify);
    assert_eq!(evaluated(routes, &check).await["verdict"], "PASS");
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &delivery).await.status, 201);
    let before = log(control, "event=rules_evaluated").await;
    too_old(control).await;
    for (path, body) in [("/v1/rules/evaluate", &check), ("/v1/verdicts/cs_2", &delivery)] {
        let rejection = problem(&post(routes, path, body).await, 409, "facts_unavailable");
        let detail = rejection["detail"].as_str().expect("the problem has a detail");
        assert!(detail.starts_with("facts_from[0]: ") && detail.contains("blocked"), "{detail}");
    }
    assert_eq!(log(control, "event=rules_evaluated").await, before);
    problem(&get(routes, "/v1/verdicts/cs_2").await, 404, "session_unknown");
}

#[tokio::test]
async fn record_without_a_matching_template_is_reported_as_unavailable() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let (mut ontology, source, pipeline) = office_documents(SOURCE);
    let has_definition = |template: &Value| template.to_string().contains(":definition}");
    ontology["fact_templates"].as_array_mut().unwrap().retain(|template| !has_definition(template));
    register_all(control, &ontology, &source, &pipeline).await;
    release(control, SOURCE, "2026-03-06", "2026-03-06.csv").await;
    approve(control, SOURCE).await;
    let over = workflow("people", &[SOURCE], json!({"axes": ["area_name", "population"]}));
    verification::register(control, &over).await;
    let verify = |area: &str| {
        let request = json!({"workflow": "people", "where": {"area": area, "year": 2015}, "axes": ["area_name", "population"]});
        json!({"verify": request})
    };
    let query = |area: &str| {
        let mut query = of_2015();
        let filters = query["query"]["request"]["filters"].as_array_mut().unwrap();
        filters.push(json!({"axis": "area", "operator": "eq", "value": area}));
        query
    };
    for (entry, of) in [(query("MDA"), "record "), (verify("MDA"), "the decision v-")] {
        let body = json!({"candidate_output": "?", "facts_from": [query("ABW"), entry]});
        let answer = post(routes, "/v1/rules/evaluate", &body).await;
        let result = problem(&answer, 409, "facts_unavailable");
        let detail = result["detail"].as_str().unwrap();
        let asked = format!("`population` of {of}");
        let named = [
            asked.as_str(),
            "population@1",
            "(population, population-grouped, population-millions)",
            "`without Transnistria`",
            "`{population:definition}`",
        ];
        assert!(detail.starts_with("facts_from[1]: "), "{detail}");
        assert!(named.iter().all(|name| detail.contains(name)), "{detail}");
    }
    assert!(log(control, "event=rules_evaluated").await.is_empty());
    for entry in [query("ABW"), verify("ABW")] {
        let result = evaluated(routes, &json!({"candidate_output": "?", "facts_from": [entry]})).await;
        assert_eq!(result["facts_from"][0]["facts"], 3, "{result}");
    }
}

#[tokio::test]
async fn batch_line_has_its_own_sources_and_its_own_problem() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    with_population(&daemon).await;
    let mut lines = [
        evaluation_request(TRUE_TEXT),
        evaluation_request(FALSE_TEXT),
        evaluation_request(TRUE_TEXT),
        evaluation_request(TRUE_TEXT),
    ];
    lines[2]["facts_from"][0]["query"]["oracle_id"] = json!("unknown");
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut stream = StreamedRequest::begin(&world.socket(), "/v1/rules/evaluate:batch").await;
    stream.send(body).await.expect("the server listens");
    stream.finish().await.expect("the server listens");
    let answers = stream.rest().await;
    let outcomes: Vec<_> = answers
        .iter()
        .map(|answer| answer.pointer("/evaluation/verdict").or(answer.pointer("/problem/code")).unwrap())
        .collect();
    assert_eq!(outcomes, ["PASS", "FAIL", "source_unknown", "PASS"]);
}

fn verdict_with_summary(text: &str) -> String {
    json!({"verdict": "GREEN", "summary": text}).to_string()
}

fn submitted(text: &str) -> Value {
    let mut body = oracled_tests::submission(&verdict_with_summary(text));
    let members = body.as_object_mut().expect("an object");
    members.extend([("facts_from".into(), json!([of_2015()])), ("rules".into(), json!(RULES))]);
    body
}

#[tokio::test]
async fn supported_verdict_is_delivered_and_stays_when_sources_change() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    with_population(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let refused =
        problem(&post(routes, "/v1/verdicts/cs_1", &submitted(FALSE_TEXT)).await, 422, "rules_rejected");
    assert!(origins(&refused["evaluation"]).count() > 0, "{refused}");
    let delivered = post(routes, "/v1/verdicts/cs_1", &submitted(TRUE_TEXT)).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
    // a rule that needs no threshold is enough
    let mut patterns = submitted(FALSE_TEXT);
    (patterns["rules"], patterns["expected"]) =
        (json!(["RULE-PREC-002"]), json!({"must_find": ["population"]}));
    let delivered = post(routes, "/v1/verdicts/cs_3", &patterns).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
    too_old(control).await;
    // a repeated submission gets the delivered verdict although the source no longer answers
    let again = post(routes, "/v1/verdicts/cs_1", &submitted(TRUE_TEXT)).await;
    assert_eq!((again.status.as_u16(), at(&again, "/replayed")), (200, json!(true)));
    let mut other = submitted(TRUE_TEXT);
    other["query"] = json!("Else?");
    problem(&post(routes, "/v1/verdicts/cs_1", &other).await, 409, "session_mismatch");
    // another session gets none
    problem(&post(routes, "/v1/verdicts/cs_2", &submitted(TRUE_TEXT)).await, 503, "source_stale");
    purge_verdict(control, "cs_1").await;
    problem(&post(routes, "/v1/verdicts/cs_1", &submitted(TRUE_TEXT)).await, 503, "source_stale");
}

#[tokio::test]
async fn verdict_regenerated_for_a_reader_is_not_delivered_without_its_facts() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    with_population(&daemon).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    model.set_default(ScriptedReply::with_text(&verdict_with_summary(FALSE_TEXT)));
    register_session(routes, "cs_1", None).await;
    assert_eq!(read_verdict(routes, "cs_1").await.status, 200);
    let answer =
        problem(&post(routes, "/v1/verdicts/cs_1", &submitted(TRUE_TEXT)).await, 409, "session_mismatch");
    assert_eq!(field(&answer, "mismatch"), "facts", "{answer}");
    too_old(control).await;
    problem(&post(routes, "/v1/verdicts/cs_1", &submitted(TRUE_TEXT)).await, 503, "source_stale");
}

#[tokio::test]
async fn regenerated_verdict_is_judged_by_the_facts_of_the_first_one() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    with_source(control, SOURCE, "2017-10-26", "2017-10-26.csv").await;
    model.set_default(ScriptedReply::with_text(&verdict_with_summary(FALSE_TEXT)));
    let mut ordered = generation_request(domain_verdict::label::ProductTier::Quick);
    ordered["facts_from"] = json!([of_2015()]);
    ordered["rules"] = json!(RULES);
    let routes = &mut daemon.routes().await;
    for session in ["kept", "changed"] {
        let created = post(routes, &format!("/v1/verdicts/{session}"), &ordered).await;
        assert_eq!(created.status, 201, "the first release supports it: {}", document(&created));
        purge_verdict(control, session).await;
    }
    // the source has another value by now
    release(control, SOURCE, "2026-03-06", "2026-03-06.csv").await;
    let failed = problem(&post(routes, "/v1/verdicts/new", &ordered).await, 422, "order_failed");
    let order = document(&get(routes, "/v1/orders/new").await);
    assert_eq!(order["last_attempts"][0]["outcome"], "refused_by_rules", "{failed} {order}");
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let kept = read_verdict(routes, "kept").await;
    assert_eq!((kept.status.as_u16(), x_cache(&kept)), (200, Some("MISS")), "{}", document(&kept));
    model.set_default(ScriptedReply::with_text(&verdict_with_summary(TRUE_TEXT)));
    let changed = problem(&read_verdict(routes, "changed").await, 422, "rules_rejected");
    let versions: Vec<_> =
        origins(&changed["evaluation"]).map(|origin| &origin["record"]["source_version"]).collect();
    assert!(!versions.is_empty() && versions.iter().all(|version| **version == "2017-10-26"), "{versions:?}");
    let entries = log(&mut daemon.control().await, "session=kept&event=rules_evaluated").await;
    assert_eq!(entries[0]["facts_from"], entries[1]["facts_from"]);
}

#[tokio::test]
async fn oraclectl_shows_fact_source_and_record_of_each_claim() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    with_population(&daemon).await;
    let file = |name: &str, text: &str| {
        fs::write(world.path(name), text).expect("the write succeeds");
        world.path(name).display().to_string()
    };
    let sources = file("sources.json", &json!([of_2015()]).to_string());
    let check = |name: &str, text: &str, more: &[&str]| {
        let text = file(name, text);
        let arguments =
            [&["rules", "check", &text, "--facts-from", &sources, "--rules", RULES[0]], more].concat();
        let output = world.ctl(&arguments);
        (output.status.code(), String::from_utf8(output.stdout).expect("valid UTF-8"))
    };
    let (status, shown) = check("true.txt", TRUE_TEXT, &[]);
    assert_eq!(status, Some(0), "{shown}");
    let routes = &mut daemon.routes().await;
    let evaluation = evaluated(routes, &evaluation_request(TRUE_TEXT)).await;
    let of_moldova = |origin: &&Value| origin.to_string().contains("Moldova");
    let record_id =
        origins(&evaluation).find(of_moldova).expect("the origin exists")["record"]["record_id"].clone();
    let expected = format!(
        "claim   The population of Moldova without Transnistria in 2015 was 2,835,978.\n\
         fact    The population of Moldova without Transnistria in 2015 was 2,835,978\n\
         source  world-bank-population, primary, version 2026-03-06\n\
         record  {}\n",
        record_id.as_str().expect("an id")
    );
    assert!(shown.starts_with("PASS: 1 ") && shown.contains(&expected), "{shown}");
    let source = shown.lines().last().expect("the line of the source");
    assert!(
        source.starts_with("facts_from[0]: 21 ") && source.ends_with(" world-bank-population"),
        "{shown}"
    );
    let (status, shown) = check("false.txt", FALSE_TEXT, &[]);
    let compared = |line: &str| line.contains("`2835978`") && line.contains("`3,554,108`");
    assert!(status == Some(1) && shown.lines().any(compared), "{shown}");
    let more = file("facts.txt", FALSE_TEXT);
    let (status, shown) = check("both.txt", FALSE_TEXT, &["--facts", &more]);
    assert!(status == Some(0) && !shown.contains("record  "), "a fact of the request has no record: {shown}");
    let (_, json) = check("json.txt", TRUE_TEXT, &["--json"]);
    assert_eq!(json.trim_end(), evaluation.to_string());
    let refusal = |arguments: &[&str]| String::from_utf8_lossy(&world.ctl(arguments).stderr).into_owned();
    let text = file("text.txt", TRUE_TEXT);
    let error = refusal(&["rules", "check", &text, "--facts-from", &text]);
    assert!(error.contains("text.txt") && error.contains("invalid JSON"), "{error}");
    assert!(refusal(&["rules", "check", &text]).contains("--facts <FILE>"));

    let shown =
        String::from_utf8(world.ctl(&["describe", "ontology", "population"]).stdout).expect("valid UTF-8");
    assert!(shown.contains("The population of {area_name} in {year} was {population:grouped}\n"), "{shown}");

    let verdict = file("verdict.json", &verdict_with_summary(FALSE_TEXT));
    let output =
        world.ctl(&["submit", "cs_1", &verdict, "--tier", "quick", "--query", "?", "--facts-from", &sources]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && shown.contains("facts_from[0]: 21 facts"), "{shown}");
}
