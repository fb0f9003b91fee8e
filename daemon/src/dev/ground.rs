//! The walk's chapters about ground truth: a source is registered, two of its releases are ingested and queried.

use super::step::{Chapter, Expected, Socket, Step, is, session};
use hyper::StatusCode;
use oracled_domain::Sha256Hex;
use oracled_domain::documents::Document;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::pipeline::Definition;
use oracled_domain::ground::source::Registration;
use serde_json::{Value, json};
use std::time::Duration;

const ONTOLOGY: &str = include_str!("../../../examples/ground-truth/ontologies/population.json");
const SOURCE: &str = include_str!("../../../examples/ground-truth/sources/world-bank-population.json");
const PIPELINE: &str = include_str!("../../../examples/ground-truth/pipelines/world-bank-population.json");
/// Two releases, each with its date, which is also its version.
pub(super) const FIRST: Release = Release {
    day: "2017-10-26",
    payload: include_str!("../../../examples/ground-truth/data/world-bank-population/2017-10-26.csv"),
};
const SECOND: Release = Release {
    day: "2026-03-06",
    payload: include_str!("../../../examples/ground-truth/data/world-bank-population/2026-03-06.csv"),
};
/// The beginning of a line with two values for one country and year: its first three columns.
const LINE: &str = "Moldova,MDA,2015,";
/// The definition of both values.
const DEFINITION: &str = "without Transnistria";
/// A day between the two releases.
const BETWEEN: &str = "2018-01-01T00:00:00Z";
/// Pointer to the first change of the second release; each record of the first release is a change before it.
const FIRST_REVISION: &str = "/changes/35/kind";
/// Time limit of an ingestion.
const PATIENCE: Duration = Duration::from_secs(10);

/// A release and its payload.
pub(super) struct Release {
    day: &'static str,
    payload: &'static str,
}

/// The documents, with ids of this walk.
pub(super) struct Documents {
    pub(super) ontology: Ontology,
    pub(super) source: Registration,
    definition: Definition,
}

/// # Errors
/// If the documents of the example cannot be parsed.
pub(super) fn chapters(before: u64) -> anyhow::Result<Vec<Chapter>> {
    let documents = Documents::of(&session(before, "population"))?;
    let ontology_path = format!("/v1/documents/ontology/{}", documents.ontology.document_id());
    let mut ingested = vec![Step::put(ontology_path, &json!(documents.ontology))];
    ingested.extend(documents.registered());
    ingested.extend(documents.ingest(&FIRST));
    ingested.extend([
        documents.query(None).returning(StatusCode::CONFLICT).expecting(vec![("/code", is("source_silent"))]),
        documents.approve(),
    ]);
    ingested.extend(documents.ingest(&SECOND));
    let answers = |point_in_time: Option<&str>, release: &Release| {
        documents.query(point_in_time).expecting(vec![
            ("/response/records/0/axes/population", is(release.line().trim_start_matches(LINE))),
            ("/response/records/0/definitions/population", is(DEFINITION)),
            ("/response/query_metadata/data_version", is(release.day)),
        ])
    };
    let changes = format!("/v1/changes?oracle_id={}", documents.source.oracle_id);
    Ok(vec![
        Chapter::new("a source is registered, ingested and approved", ingested),
        Chapter::new(
            "a query returns what is known now, what was known in 2018, and what changed",
            vec![
                answers(Some(BETWEEN), &FIRST),
                Step::get(Socket::Routes, changes).expecting(vec![
                    ("/changes/0/kind", is("became_valid")),
                    (FIRST_REVISION, is("superseded")),
                    ("/more", is(false)),
                ]),
                answers(None, &SECOND),
            ],
        ),
        Chapter::new(
            "a value leads back to its bytes in the payload",
            vec![
                documents.query(None),
                Step::get(Socket::Routes, "/v1/records/{/response/records/0/record_id}/provenance".into())
                    .expecting(vec![
                        ("/raw_hash", is(Sha256Hex::of(SECOND.line().as_bytes()).as_str())),
                        ("/raw/raw_sha256", is(Sha256Hex::of(SECOND.payload.as_bytes()).as_str())),
                        ("/source_version", is(SECOND.day)),
                    ]),
                Step::post(Socket::Control, documents.source_path("/verify"), &json!({})).expecting(vec![
                    ("/runs/0/fault_count", is(0)),
                    ("/runs/1/fault_count", is(0)),
                    ("/runs/1/records", is(SECOND.payload.lines().skip(1).count())),
                ]),
            ],
        ),
    ])
}

impl Release {
    /// The line of the country and year.
    fn line(&self) -> &'static str {
        self.payload.lines().find(|line| line.starts_with(LINE)).unwrap_or_default()
    }
}

impl Documents {
    /// The example's documents, with `name` as the id of the ontology, the source and the pipeline.
    pub(super) fn of(name: &str) -> anyhow::Result<Self> {
        let mut ontology: Ontology = serde_json::from_str(ONTOLOGY)?;
        let mut source: Registration = serde_json::from_str(SOURCE)?;
        let mut definition: Definition = serde_json::from_str(PIPELINE)?;
        ontology.ontology_id = name.parse()?;
        source.ontology = ontology.reference();
        definition.pipeline.transformation.output_schema_id = Some(ontology.reference().to_string());
        definition.normalization.target_ontology_id = Some(ontology.ontology_id.clone());
        Self { ontology, source, definition }.beside(name)
    }

    /// The documents of another source, with `name` as the id of the source and the pipeline.
    pub(super) fn beside(&self, name: &str) -> anyhow::Result<Self> {
        let (mut source, mut definition) = (self.source.clone(), self.definition.clone());
        source.oracle_id = name.parse()?;
        definition.pipeline.pipeline_id = name.parse()?;
        definition.pipeline.oracle_id = source.oracle_id.clone();
        Ok(Self { ontology: self.ontology.clone(), source, definition })
    }

    /// Registers the source and its pipeline.
    pub(super) fn registered(&self) -> Vec<Step> {
        vec![
            Step::put(format!("/v1/documents/source/{}", self.source.document_id()), &json!(self.source)),
            Step::put(
                format!("/v1/documents/pipeline/{}", self.definition.document_id()),
                &json!(self.definition),
            ),
        ]
    }

    /// Submits a release and waits until it is ingested.
    pub(super) fn ingest(&self, release: &Release) -> [Step; 2] {
        let (pipeline_id, Release { day, payload }) = (&self.definition.pipeline.pipeline_id, release);
        let path = format!("/v1/pipelines/{pipeline_id}/runs?version={day}&released_at={day}");
        [
            Step::ingest(path, payload).expecting(vec![("/run/run_id", Expected::Present)]),
            Step::get(Socket::Control, "/v1/runs/{/run/run_id}".into())
                .within(PATIENCE)
                .expecting(vec![("/run/state", is("completed"))]),
        ]
    }

    pub(super) fn approve(&self) -> Step {
        Step::post(Socket::Control, self.source_path("/review"), &json!({"approve": {}}))
            .expecting(vec![("/review_status", is("approved"))])
    }

    fn source_path(&self, rest: &str) -> String {
        format!("/v1/sources/{}{rest}", self.source.oracle_id)
    }

    /// Queries the country and year, as of a time or now.
    fn query(&self, point_in_time: Option<&str>) -> Step {
        let filter = |axis: &str, value: Value| json!({"axis": axis, "operator": "eq", "value": value});
        let mut request = json!({
            "axes_requested": ["population"],
            "filters": [filter("area", "MDA".into()), filter("year", 2015.into())],
        });
        if let (Some(members), Some(time)) = (request.as_object_mut(), point_in_time) {
            members.insert("point_in_time".into(), time.into());
        }
        Step::post(
            Socket::Routes,
            "/v1/query",
            &json!({"oracle_id": self.source.oracle_id, "request": request}),
        )
    }
}
