//! Tables of words that are the records of another source.

use oracled_api::client::DaemonClient;
use oracled_tests::ground::{
    approve, example, example_documents, ingest, open_pipeline, put_document, query_all, register_all,
    started_run, wait_for_run,
};
use oracled_tests::{DaemonWorld, at, document, get, post, problem};
use serde_json::{Value, json};

const CODES: &str = "codes";
const SOURCE: &str = "world-bank-population";

/// The pipeline of the population, which translates its areas by `table`.
fn population_pipeline(table: &Value) -> Value {
    let mut pipeline = open_pipeline(SOURCE);
    pipeline["tables"]["areas"] = table.clone();
    let step = json!({"axis": "area", "normalizer_type": "enum_mapping", "config": {"table": "areas"}});
    let steps = &mut pipeline["normalization"]["value_normalizers"];
    let mut all = steps.as_array().cloned().unwrap_or_default();
    all.push(step);
    *steps = json!(all);
    pipeline
}

fn words_from(changes: &Value) -> Value {
    let mut source = json!({"oracle_id": CODES, "key": "number", "value": "name"});
    source.as_object_mut().expect("an object").extend(changes.as_object().expect("changes").clone());
    json!({"words_from": source})
}

async fn put_pipeline(control: &mut DaemonClient, table: &Value) -> oracled_api::client::DaemonResponse {
    let path = format!("/v1/documents/pipeline/{SOURCE}");
    put_document(control, &path, &population_pipeline(table)).await
}

/// Registers both sources; the second one translates its areas by the first one.
async fn register(control: &mut DaemonClient) {
    let (ontology, mut source, pipeline) = example_documents(CODES);
    source["oracle_id"] = json!(CODES);
    register_all(control, &ontology, &source, &pipeline).await;
    let source = example("sources/world-bank-population.json");
    let ontology = example("ontologies/population.json");
    register_all(control, &ontology, &source, &population_pipeline(&words_from(&json!({})))).await;
    approve(control, SOURCE).await;
}

/// Ingests a release of the codes.
async fn release_codes(control: &mut DaemonClient, version: &str, codes: &[(u32, &str)]) {
    let line =
        |(number, name): &(u32, &str)| format!("{}\n", json!({"number": number, "size": 1, "name": name}));
    let payload: String = codes.iter().map(line).collect();
    let run = started_run(&ingest(control, CODES, version, version, payload).await);
    let run = wait_for_run(control, &run).await;
    assert_eq!(run["state"], "completed", "{run}");
}

fn payload(value: u32) -> String {
    format!("Country Name,Country Code,Year,Value\nAruba,7,1960,{value}\n")
}

/// The areas and their populations, as the source has them now.
async fn areas(world: &DaemonWorld) -> Vec<(Value, Value)> {
    let mut routes = DaemonClient::connect(&world.socket()).await.expect("the socket is served");
    let records = query_all(&mut routes, SOURCE, &json!({"axes_requested": ["population"]})).await;
    let axes = |record: &Value| (record["axes"]["area"].clone(), record["axes"]["population"].clone());
    records.iter().map(|(record, _)| axes(record)).collect()
}

#[tokio::test]
async fn run_translates_by_the_codes_of_its_beginning_and_keeps_them() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    let early = ingest(control, SOURCE, "2020-01-01", "2020-01-01", payload(1)).await;
    let detail = problem(&early, 400, "invalid_document")["detail"].as_str().expect("text").to_owned();
    assert!(detail.contains("tables.areas") && detail.contains(CODES), "{detail}");
    release_codes(control, "2019-01-01", &[(7, "ABW"), (8, "MDA")]).await;
    // the source of the codes does not answer before its approval
    let early = ingest(control, SOURCE, "2020-01-01", "2020-01-01", payload(1)).await;
    problem(&early, 400, "invalid_document");
    approve(control, CODES).await;
    let first = started_run(&ingest(control, SOURCE, "2020-01-01", "2020-01-01", payload(1)).await);
    assert_eq!(wait_for_run(control, &first).await["counts"]["records"], 1);
    assert_eq!(areas(&world).await, [(json!("ABW"), json!("1"))]);

    // a later release of the codes changes no earlier run, also not one that is read again
    release_codes(control, "2019-02-01", &[(7, "XYZ"), (8, "MDA")]).await;
    assert_eq!(areas(&world).await, [(json!("ABW"), json!("1"))]);
    let export = get(control, &format!("/v1/sources/{SOURCE}/export")).await.body;
    assert_eq!(post(control, &format!("/v1/sources/{SOURCE}/rebuild"), &json!({})).await.status, 200);
    daemon.kill();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    assert_eq!(get(control, &format!("/v1/sources/{SOURCE}/export")).await.body, export);

    // the next run uses them
    let second = started_run(&ingest(control, SOURCE, "2020-02-01", "2020-02-01", payload(2)).await);
    let second = wait_for_run(control, &second).await;
    assert_eq!(areas(&world).await, [(json!("XYZ"), json!("2"))]);
    // the same payload is not read twice while the codes are the same
    let again = ingest(control, SOURCE, "2020-02-01", "2020-02-01", payload(2)).await;
    assert_eq!(
        (at(&again, "/unchanged"), at(&again, "/run/run_id")),
        (json!(true), second["run_id"].clone())
    );
    let registered = document(&get(control, &format!("/v1/documents/pipeline/{SOURCE}")).await);
    assert_eq!(registered["document"]["tables"]["areas"]["words_from"]["oracle_id"], CODES);
    assert_ne!(registered["sha256"], second["pipeline_sha256"]);
}

#[tokio::test]
async fn word_without_a_record_is_rejected_and_ambiguous_codes_refuse_the_run() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    release_codes(control, "2019-01-01", &[(7, "ABW"), (8, "ABW")]).await;
    approve(control, CODES).await;
    let rows = format!("{}Nowhere,9,1960,5\n", payload(1));
    let run = started_run(&ingest(control, SOURCE, "2020-01-01", "2020-01-01", rows).await);
    let run = wait_for_run(control, &run).await;
    assert_eq!((&run["counts"]["records"], &run["counts"]["rejected"]), (&json!(1), &json!(1)), "{run}");
    // by their names, the codes are no translation: `ABW` is 7 and 8
    let by_name = words_from(&json!({"key": "name", "value": "number"}));
    assert_eq!(put_pipeline(control, &by_name).await.status, 200);
    let refused = ingest(control, SOURCE, "2020-02-01", "2020-02-01", payload(2)).await;
    let detail = problem(&refused, 400, "invalid_document")["detail"].as_str().expect("text").to_owned();
    assert!(detail.contains("ABW") && detail.contains('7') && detail.contains('8'), "{detail}");
    assert_eq!(areas(&world).await, [(json!("ABW"), json!("1"))]);
}

#[tokio::test]
async fn invalid_source_of_words_is_refused_at_registration() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control).await;
    for (table, code, named) in [
        (words_from(&json!({"oracle_id": "nowhere"})), "source_unknown", "nowhere"),
        (words_from(&json!({"oracle_id": SOURCE})), "invalid_document", "another ingested source"),
        (words_from(&json!({"key": "colour"})), "invalid_document", "colour"),
        (words_from(&json!({"value": "colour"})), "invalid_document", "number, size, name"),
        (words_from(&json!({"column": "x"})), "invalid_document", "column"),
        (
            json!({"words": {"entries": {"7": "ABW"}, "from": {"oracle_id": CODES, "key": "number", "value": "name"}}}),
            "invalid_document",
            "words_from",
        ),
    ] {
        let answer = put_pipeline(control, &table).await;
        let status = answer.status.as_u16();
        let detail = problem(&answer, status, code)["detail"].as_str().expect("text").to_owned();
        assert!(detail.contains(named), "{table}: {detail}");
    }
}
