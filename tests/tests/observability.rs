//! The alerts, the dashboard and the table of metrics: they name only metrics that a daemon serves, or all of them.

use crate::cluster::start_cluster;
use domain_verdict::label::{ProductTier, VerdictLabel};
use oracled_tests::generation::{coherent_answer, purge_verdict};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::witness::ScriptedWitness;
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, eventually, get, ground, post, submission};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Names of all samples, each with the names of its labels.
type ServedSamples = BTreeMap<String, BTreeSet<String>>;

/// Prefixes of the names of metrics.
const PREFIXES: [&str; 2] = ["oracled_", "process_"];
/// Labels that Prometheus adds to each sample.
const TARGET_LABELS: [&str; 2] = ["instance", "job"];
/// Suffixes of a sample's name after the name of its family.
const SUFFIXES: [&str; 5] = ["", "_total", "_bucket", "_sum", "_count"];

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd").join(name);
    fs::read_to_string(path).expect("the file exists")
}

/// The list with that name in a document; empty if there is none.
fn list(document: &Value, name: &str) -> Vec<Value> {
    document.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn rules() -> Vec<Value> {
    let document = serde_saphyr::from_str(&file("prometheus-rules.yml")).expect("valid YAML");
    list(&document, "groups").iter().flat_map(|group| list(group, "rules")).collect()
}

fn monitor_page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/monitor.md");
    fs::read_to_string(page).expect("the page exists")
}

fn dashboard() -> Value {
    serde_json::from_str(&file("grafana-dashboard.json")).expect("valid JSON")
}

/// The expressions of all panels.
fn panel_expressions() -> Vec<String> {
    let targets = list(&dashboard(), "panels").into_iter().flat_map(|panel| list(&panel, "targets"));
    let expression = |target: &Value| target.get("expr").and_then(Value::as_str).map(str::to_owned);
    targets.map(|target| expression(&target).expect("a target has an expression")).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Label names in a list, `{…}` or `by (…)`.
fn labels(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter_map(|label| words(label).next())
}

/// Metrics in an expression, each with the text in the braces after it.
fn metrics_in(expression: &str) -> impl Iterator<Item = (String, &str)> {
    PREFIXES.into_iter().flat_map(move |prefix| {
        expression.split(prefix).skip(1).map(move |rest| {
            let name = words(rest).next().expect("a name follows the prefix");
            let selector = rest.strip_prefix(name).and_then(|rest| rest.strip_prefix('{'));
            (format!("{prefix}{name}"), selector.and_then(|rest| rest.split('}').next()).unwrap_or_default())
        })
    })
}

/// Checks that all metrics and labels in `expression` are served.
fn check(expression: &str, served: &ServedSamples) {
    let mut known = BTreeSet::new();
    let has_cluster = served.contains_key("oracled_cluster_hosts");
    for (metric, selector) in metrics_in(expression) {
        if metric.starts_with("oracled_cluster") && !has_cluster {
            return;
        }
        assert!(served.contains_key(&metric), "{metric} is not served: {expression}");
        let has = served.get(&metric).expect("the socket is served");
        for label in labels(selector) {
            let is_known = has.contains(label) || TARGET_LABELS.contains(&label);
            assert!(is_known, "{metric} has no label {label}: {expression}");
        }
        known.extend(has);
    }
    assert!(metrics_in(expression).next().is_some(), "the expression has no metric: {expression}");
    for group in expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next()) {
        for label in labels(group) {
            let is_known = known.iter().any(|has| *has == label) || TARGET_LABELS.contains(&label);
            assert!(is_known, "no label {label}: {expression}");
        }
    }
}

fn world_of(model: &ModelServer) -> DaemonWorld {
    let mut world = DaemonWorld::with_config(&format!(
        "[model]\nbase_url = \"{}\"\ncalls_per_minute = 1000\ninput_price = 0.3\noutput_price = 2.5\n\
         [costs]\ndaily_budget = 1000.0\n[mail]\ntransport = \"http\"\nbase_url = \"http://127.0.0.1:1\"\n\
         [traces]\nbase_url = \"http://127.0.0.1:1\"\n",
        model.url()
    ));
    world.variables.push(("GEMINI_API_KEY".into(), "none".into()));
    world
}

async fn metrics(daemon: &DaemonProcess<'_>) -> String {
    let answer = get(&mut daemon.routes().await, "/metrics").await;
    String::from_utf8(answer.body.into()).expect("valid UTF-8")
}

/// Ingests a release of a source, checks the source, and queries it.
async fn ingest_and_query(daemon: &DaemonProcess<'_>) {
    let control = &mut daemon.control().await;
    ground::register(control, "iso-4217").await;
    ground::approve(control, "iso-4217").await;
    let payload = ground::example("data/iso-4217/4.20.1.json").to_string();
    let run =
        ground::started_run(&ground::ingest(control, "iso-4217", "4.20.1", "2026-02-01", payload).await);
    let run = ground::wait_for_run(control, &run).await;
    assert_eq!(run.get("state").and_then(Value::as_str), Some("completed"));
    assert_eq!(post(control, "/v1/sources/iso-4217/verify", &json!({})).await.status, 200);
    let query = json!({"oracle_id": "iso-4217", "request": {"axes_requested": ["name"]}});
    assert_eq!(post(&mut daemon.routes().await, "/v1/query", &query).await.status, 200);
}

/// Has sources disagree in a workflow, and resolves a review.
async fn dispute_and_resolve(daemon: &DaemonProcess<'_>) {
    let control = &mut daemon.control().await;
    for (source, population) in [("office-a", 54208), ("office-b", 54608)] {
        let (ontology, registration, pipeline) = ground::office_documents(source);
        ground::register_all(control, &ontology, &registration, &pipeline).await;
        ground::approve(control, source).await;
        let rows = [1960, 1961].map(|year| format!("Aruba,ABW,{year},{population}\n")).concat();
        let payload = format!("Country Name,Country Code,Year,Value\n{rows}");
        let run = ground::started_run(&ground::ingest(control, source, "2020", "2020-04-14", payload).await);
        ground::wait_for_run(control, &run).await;
    }
    let workflow = ground::workflow("census", &["office-a", "office-b"], &json!({}));
    assert_eq!(ground::put_document(control, "/v1/documents/workflow/census", &workflow).await.status, 200);
    let mut review_id = String::new();
    for year in [1961, 1960] {
        let identity = json!({"area": "ABW", "year": year});
        let question = json!({"workflow": "census", "where": identity, "axes": ["population"]});
        let answer = post(&mut daemon.routes().await, "/v1/verify", &question).await;
        oracled_tests::at(&answer, "/review_id")
            .as_str()
            .expect("a review is open")
            .clone_into(&mut review_id);
    }
    let metrics = metrics(daemon).await;
    assert!(metrics.contains("oracled_reviews_open 2\n"), "{metrics}");
    let resolution = json!({"values": {"population": 54300}, "own_value": true, "reason": "the census", "valid_for_seconds": 60});
    let resolved = post(control, &format!("/v1/reviews/{review_id}/resolve"), &resolution).await;
    assert_eq!(resolved.status, 200, "{}", oracled_tests::document(&resolved));
}

/// Causes every kind of event, and regenerates enough different verdicts to set the variance.
async fn cause_all_events(daemon: &DaemonProcess<'_>, model: &ModelServer) {
    ingest_and_query(daemon).await;
    dispute_and_resolve(daemon).await;
    let routes = &mut daemon.routes().await;
    post(routes, "/v1/verdicts/handed-in", &submission(GOOD)).await;
    let text = json!({"candidate_output": "Ice melts", "facts": []});
    assert_eq!(post(routes, "/v1/rules/evaluate", &text).await.status, 200);
    for number in 0..20 {
        let order = json!({"tier": "quick", "query": "Sell honey?", "customer_email": "a@example.org"});
        model.next([ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, VerdictLabel::Red))]);
        let session = format!("cs_{number}");
        assert_eq!(post(routes, &format!("/v1/verdicts/{session}"), &order).await.status, 201);
        purge_verdict(&mut daemon.control().await, &session).await;
        assert_eq!(get(routes, &format!("/v1/verdicts/cs_{number}")).await.status, 200);
    }
    eventually("a mail was tried and the variance is set", async || {
        let text = metrics(daemon).await;
        let is_tried =
            |(sample, tried): (&String, &f64)| sample.starts_with("oracled_mails_total") && *tried > 0.0;
        counters(&text).iter().any(is_tried) && text.contains("oracled_infrastructure_variance 1\n")
    })
    .await;
}

/// Samples and families of a daemon after every counted event has occurred.
async fn served_samples() -> (ServedSamples, BTreeSet<String>) {
    let model = ModelServer::start().await;
    let mut world = world_of(&model);
    // its failures are counted before the first request
    world.config += &ScriptedWitness::start().config();
    let daemon = world.serve().await;
    assert!(metrics(&daemon).await.contains("oracled_infrastructure_variance 0\n"));
    cause_all_events(&daemon, &model).await;
    let mut text = metrics(&daemon).await;
    // the metrics of a cluster, if PostgreSQL is installed
    if let Some(cluster) = start_cluster() {
        let host = DaemonWorld::with_config(&cluster.config("a"));
        text += &metrics(&cluster.init(&host).await).await;
    }
    let (mut served, mut families) = (ServedSamples::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ").and_then(|rest| words(rest).next()) {
            families.insert(family.to_owned());
        } else if let Some((sample, _)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) {
            let (name, selector) = metrics_in(sample).next().expect("a sample has a name");
            served.entry(name).or_default().extend(labels(selector).map(str::to_owned));
        }
    }
    (served, families)
}

#[tokio::test]
async fn alerts_panels_and_page_match_served_metrics() {
    let (served, families) = served_samples().await;
    for rule in rules() {
        check(rule["expr"].as_str().expect("a rule has an expression"), &served);
    }
    let shown = panel_expressions();
    for expression in &shown {
        check(expression, &served);
        for (metric, selector) in metrics_in(expression) {
            assert!(
                selector.starts_with("instance=~\"$instance\""),
                "{metric} of all instances: {expression}"
            );
        }
    }
    let shown: BTreeSet<_> = shown.iter().flat_map(|expression| metrics_in(expression)).collect();
    let page = monitor_page();
    for family in families {
        assert!(page.contains(&format!("`{family}")), "docs/monitor.md does not name {family}");
        let of_it = |name: &str| name.strip_prefix(&family).is_some_and(|rest| SUFFIXES.contains(&rest));
        assert!(shown.iter().any(|(name, _)| of_it(name)), "no panel shows {family}");
    }
}

/// Samples of all counters, with their values.
fn counters(metrics: &str) -> BTreeMap<String, f64> {
    let mut counters = BTreeMap::new();
    let mut is_counter = false;
    for line in metrics.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            is_counter = kind.ends_with(" counter");
        } else if let Some((sample, value)) =
            line.rsplit_once(' ').filter(|_| is_counter && !line.starts_with('#'))
        {
            counters.insert(sample.to_owned(), value.parse().expect("a value is a number"));
        }
    }
    counters
}

/// `increase()` of a series whose first value is 1 is 0, so an alert would miss the first event.
#[tokio::test]
async fn counters_with_known_labels_exist_at_0_from_the_start() {
    let model = ModelServer::start().await;
    let world = world_of(&model);
    let daemon = world.serve().await;
    let fresh = counters(&metrics(&daemon).await);
    cause_all_events(&daemon, &model).await;
    let busy = counters(&metrics(&daemon).await);
    assert!(daemon.stop().success());
    let restarted = counters(&metrics(&world.serve().await).await);

    assert!(busy.len() > 50, "{busy:#?}");
    let is_of_a_document = |sample: &String| sample.contains("oracle=") || sample.contains("workflow=");
    // any status can occur on any route
    let is_of_a_route = |sample: &String| sample.contains("route=");
    let busy: BTreeMap<_, _> = busy.into_iter().filter(|(sample, _)| !is_of_a_route(sample)).collect();
    let late: Vec<_> =
        busy.keys().filter(|sample| !is_of_a_document(sample) && !fresh.contains_key(*sample)).collect();
    assert!(late.is_empty(), "missing at the first start: {late:#?}");
    let late: Vec<_> = busy.keys().filter(|sample| !restarted.contains_key(*sample)).collect();
    assert!(late.is_empty(), "missing after a restart: {late:#?}");
    let labeled = fresh
        .iter()
        .filter(|(sample, _)| sample.contains('{') && !sample.contains("actor=") && !is_of_a_route(sample));
    let counted: Vec<_> = labeled.filter(|(_, value)| **value != 0.0).collect();
    assert!(counted.is_empty(), "{counted:#?}");
}

#[test]
fn each_alert_has_description_severity_and_delay() {
    let rules = rules();
    assert!(rules.len() > 10, "{rules:?}");
    let mut names = BTreeSet::new();
    for rule in &rules {
        let name = rule["alert"].as_str().expect("an alert has a name");
        assert!(name.starts_with("Oracled") && names.insert(name), "{name}");
        for field in ["summary", "description"] {
            let text = rule["annotations"][field].as_str().unwrap_or_default();
            assert!(!text.trim().is_empty(), "{name} has no {field}");
        }
        assert_eq!(rule["annotations"]["runbook_url"], format!("monitor.md#{name}"));
        let severity = rule["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("critical" | "warning")), "{name}: {severity:?}");
        let expression = rule["expr"].as_str().expect("an alert has an expression");
        let over_a_range = expression.contains("increase(");
        assert!(over_a_range || rule["for"].is_string(), "{name} does not wait");
    }
}

#[test]
fn every_alert_has_an_anchor_in_the_page_and_no_other_exists() {
    let page = monitor_page();
    let anchors: BTreeSet<_> =
        page.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let rules = rules();
    let alerts: BTreeSet<_> = rules.iter().filter_map(|rule| rule["alert"].as_str()).collect();
    assert_eq!(anchors, alerts);
}

#[test]
fn every_alert_has_a_case_that_fires_and_one_that_does_not() {
    let document: Value = serde_saphyr::from_str(&file("prometheus-rules-test.yml")).expect("valid YAML");
    let mut cases: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for case in list(&document, "tests").iter().flat_map(|test| list(test, "promql_expr_test")) {
        let expression = case["expr"].as_str().expect("a case has an expression");
        let name = expression.split('"').nth(1).expect("the expression names an alert");
        assert_eq!(expression, format!("count(ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}})"));
        cases.entry(name.to_owned()).or_default().push(!list(&case, "exp_samples").is_empty());
    }
    for rule in rules() {
        let name = rule["alert"].as_str().expect("an alert has a name");
        let cases = cases.remove(name).unwrap_or_default();
        assert!(cases.contains(&true) && cases.contains(&false), "{name}: {cases:?}");
    }
    assert!(cases.is_empty(), "cases of unknown alerts: {cases:?}");
}

#[test]
fn dashboard_uses_the_chosen_data_source_and_panels_do_not_overlap() {
    let dashboard = dashboard();
    assert_eq!(dashboard["templating"]["list"][0]["name"], "datasource");
    assert_eq!(dashboard["templating"]["list"][1]["name"], "instance");
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in list(&dashboard, "panels") {
        let title = panel["title"].as_str().expect("a panel has a title");
        assert!(ids.insert(panel["id"].as_u64()), "{title}");
        let place = |side: &str| panel["gridPos"][side].as_u64().expect("a panel has its place");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(x < 24 && taken.insert((x, y)), "{title}");
            }
        }
        for target in list(&panel, "targets") {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}
