//! Columns and fields that the definition names and the payload lacks, and the other way round.

use super::*;
use crate::testing::ground::register_pipeline;
use domain_ground::ontology::Ontology;
use domain_ground::pipeline::PipelineDefinition;
use domain_ground::run::{AxisCoverage, IngestionRun, RunWarning};
use domain_ground::source::SourceRegistration;
use serde_json::{Value as Json, json};

/// The shape of the ECB's `eurofxref-hist.csv`: each line ends in a delimiter.
const RATES: &str = "Date,USD,JPY,CYP,\n2026-01-02,1.17,183.4,N/A,\n2025-12-31,1.175,,N/A,\n";

/// Registers daily reference rates of the euro, with `usd` at the path `usd_from` and `jpy` at `jpy_from`.
pub(super) async fn rates(system: &ActorSystem, format: &Json, usd_from: &str, jpy_from: &str) -> PipelineId {
    let rate = |axis: &str, unit: &str| json!({"axis": axis, "type": "number", "unit": unit, "class": "measured", "description": "For one euro"});
    let day = json!({"axis": "day", "type": "date", "identity": true, "class": "measured", "description": "Its day"});
    let axes = json!([day, rate("usd", "{USD}/{EUR}"), rate("jpy", "{JPY}/{EUR}")]);
    let ontology = json!({"ontology_id": "rates", "version": "1", "axes": axes});
    let ontology: Ontology = serde_json::from_value(ontology).expect("an ontology");
    system.registry.register(ontology, PEER).await.expect("the registration succeeds");
    let registration = json!({
        "oracle_id": "ecb-rates", "oracle_name": "Euro reference rates", "upstream_authority": "ECB",
        "upstream_url": "https://ecb.example", "data_license": "free", "domain": "finance", "query_contract": "rates",
        "oracle_tier": "primary", "ontology": {"ontology_id": "rates", "version": "1"},
        "axes_provided": ["day", "usd", "jpy"], "update_frequency": "daily", "adapter_id": "store",
    });
    let registration: SourceRegistration = serde_json::from_value(registration).expect("a source");
    let registered = system.registry.register(registration, PEER).await;
    registered.expect("the registration succeeds");
    register_pipeline(system, Box::new(rates_definition(format, usd_from, jpy_from))).await
}

pub(super) fn rates_definition(format: &Json, usd_from: &str, jpy_from: &str) -> PipelineDefinition {
    let mapping = |field: &str, axis: &str| json!({"source_field": field, "target_axis": axis, "cardinality": "one_to_one", "required": axis == "day"});
    let definition = json!({
        "pipeline": {
            "pipeline_id": "ecb-rates", "oracle_id": "ecb-rates",
            "retrieval": {"method": "manual_upload", "format": format},
            "validation": {"reject_on_schema_fail": true},
            "transformation": {"normalizer_id": "rates", "output_schema_id": "rates@1"},
            "storage": {"destination": "store", "retention_days": 1},
            "audit": {"log_raw_input": true, "log_transformations": true, "provenance_chain": true},
        },
        "normalization": {
            "normalizer_id": "rates", "source_schema_id": "rates", "target_ontology_id": "rates",
            "axis_mappings": [mapping("Date", "day"), mapping(usd_from, "usd"), mapping(jpy_from, "jpy")],
        },
    });
    serde_json::from_value(definition).expect("a pipeline")
}

/// The number of records that filled each axis, and their share.
fn filled(run: &IngestionRun) -> Vec<String> {
    let summarize = |(axis, AxisCoverage { records, share }): (&String, &AxisCoverage)| {
        format!("{axis} {records} {share}")
    };
    run.counts.axes.iter().map(summarize).collect()
}

#[test]
fn run_ignores_unnamed_column_and_reports_it() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = rates(&system, &json!({"csv": {}}), "USD", "JPY").await;
        let run = ingest_version(&system, &pipeline_id, RATES, "2026-01-03").await;
        assert_eq!(
            (run.state, run.counts.records, run.counts.rejected),
            (RunState::Completed, 2, 0),
            "{run:?}"
        );
        assert_eq!(run.counts.warnings, [RunWarning::UnnamedColumns { columns: vec![5] }]);
        assert_eq!(filled(&run), ["day 2 1", "jpy 1 0.5", "usd 2 1"]);
    });
}

#[test]
fn run_fails_if_the_header_lacks_a_mapped_column() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let renamed = NEW.replace("Country Name", "Country.Name");
        let run = ingest_version(&system, &pipeline_id, &renamed, "2023-05-04").await;
        assert_eq!((run.state, run.counts.records), (RunState::Failed, 0), "{run:?}");
        let cause = run.cause.expect("a run that failed has one");
        for named in ["axis `area_name`", "column `Country Name`", "`Country.Name`", "`Year`"] {
            assert!(cause.contains(named), "{named}: {cause}");
        }
        assert_eq!(valid(&system, "2026-01-01"), ["ABW/1960=54208", "ABW/1961=55434", "XKX/1960=947000"]);
    });
}

#[test]
fn column_with_a_dot_in_its_name_is_mapped_only_in_brackets() {
    let payload = RATES.replace("USD", "USD.mid").replace("JPY", "JPY [100]");
    for (usd, is_read) in [("USD.mid", false), ("['USD.mid']", true), ("[\"USD.mid\"]", true)] {
        let payload = payload.clone();
        with_system(move |TestSystem { system, .. }| async move {
            let pipeline_id = rates(&system, &json!({"csv": {}}), usd, "$['JPY [100]']").await;
            let run = ingest_version(&system, &pipeline_id, &payload, "2026-01-03").await;
            let cause = run.cause.clone().unwrap_or_default();
            assert_eq!(
                (run.state == RunState::Completed, cause.contains("`['USD.mid']`")),
                (is_read, !is_read),
                "{run:?}"
            );
            assert_eq!(run.counts.axes.get("usd").map(|fill| fill.records), is_read.then_some(2));
        });
    }
}

#[test]
fn run_warns_of_paths_that_match_no_record() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = rates(&system, &json!("ndjson"), "usd.mid", "jpy").await;
        let payload = "{\"Date\":\"2026-01-02\",\"usd.mid\":1.17}\n{\"Date\":\"2025-12-31\",\"jpy\":null}\n";
        let run = ingest_version(&system, &pipeline_id, payload, "2026-01-03").await;
        assert_eq!((run.state, run.counts.records), (RunState::Completed, 2), "{run:?}");
        let unmatched = RunWarning::UnmatchedPath {
            path: "usd.mid".into(),
            field: "mapping".into(),
            axis: Some("usd".into()),
        };
        assert_eq!(run.counts.warnings, [unmatched]);
        assert_eq!(filled(&run), ["day 2 1", "jpy 0 0", "usd 0 0"]);
    });
}

#[test]
fn run_reports_columns_that_appear_or_disappear() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = rates(&system, &json!({"csv": {}}), "USD", "JPY").await;
        ingest_version(&system, &pipeline_id, RATES, "2026-01-03").await;
        let payload = format!("Date,JPY,USD,CHF,{}\n2026-01-05,183.1,1.18,0.94,\n", " ".repeat(900));
        let run = ingest_version(&system, &pipeline_id, &payload, "2026-01-06").await;
        let version = || "2026-01-03".to_owned();
        let expected = [
            RunWarning::UnnamedColumns { columns: vec![5] },
            RunWarning::ColumnsAppeared { names: vec!["CHF".into()], version: version() },
            RunWarning::ColumnsDisappeared { names: vec!["CYP".into()], version: version() },
        ];
        assert_eq!((run.state, &run.counts.warnings[..]), (RunState::Completed, &expected[..]), "{run:?}");
        assert_eq!(run.counts.header, ["Date", "JPY", "USD", "CHF", ""], "in the order of the fields");
        let again =
            ingest_version(&system, &pipeline_id, &payload.replace("1.18", "1.19"), "2026-01-07").await;
        assert_eq!(again.counts.warnings, expected[..1]);
    });
}

#[test]
fn run_has_no_header_with_too_many_columns() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = rates(&system, &json!({"csv": {}}), "USD", "JPY").await;
        for (unnamed, columns, version) in [(1_021, 1_024, "2026-01-06"), (1_022, 0, "2026-01-07")] {
            let rest = ",".repeat(unnamed);
            let payload = format!("Date,USD,JPY{rest}\n2026-01-05,1.18,183.1{rest}\n");
            let run = ingest_version(&system, &pipeline_id, &payload, version).await;
            assert_eq!(run.state, RunState::Completed, "{run:?}");
            assert_eq!(run.counts.columns, ["Date", "JPY", "USD"]);
            assert_eq!(run.counts.header.len(), columns);
        }
    });
}

#[test]
fn run_reports_members_that_appear_or_disappear_at_any_depth() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = rates(&system, &json!("ndjson"), "rates.usd", "rates.jpy").await;
        let record = |members: &str| format!("{{\"Date\":\"2026-01-02\",\"rates\":{{{members}}}}}\n");
        ingest_version(
            &system,
            &pipeline_id,
            &record("\"usd\":1.17,\"jpy\":183,\"list\":[{\"a\":1}]"),
            "2026-01-03",
        )
        .await;
        let renamed = record("\"usd\":1.17,\"JPY\":183,\"list\":[{\"b\":1}]");
        let run = ingest_version(&system, &pipeline_id, &renamed, "2026-01-04").await;
        let version = || "2026-01-03".to_owned();
        let expected = [
            RunWarning::UnmatchedPath {
                path: "rates.jpy".into(),
                field: "mapping".into(),
                axis: Some("jpy".into()),
            },
            RunWarning::ColumnsAppeared { names: vec!["rates.JPY".into()], version: version() },
            RunWarning::ColumnsDisappeared { names: vec!["rates.jpy".into()], version: version() },
        ];
        assert_eq!(run.counts.warnings, expected);
        // records with too many members are not compared
        let many: Vec<_> = (0..2000).map(|number| format!("\"m{number}\":1")).collect();
        let run = ingest_version(&system, &pipeline_id, &record(&many.join(",")), "2026-01-05").await;
        assert_eq!(
            (run.counts.columns.len(), run.counts.warnings.len()),
            (0, 2),
            "{:?}",
            run.counts.warnings
        );
    });
}
