//! What the walk shows of ground truth: a source is registered, two of its releases are ingested, and it is asked what was
//! known when, what has changed, and where a value comes from.

use super::step::{Step, is, session};
use anyhow::Context;
use hyper::StatusCode;
use jiff::Timestamp;
use oracled_domain::Sha256Hex;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::pipeline::Definition;
use oracled_domain::ground::run::{RunInput, record_id};
use oracled_domain::ground::source::Registration;
use serde_json::{Value, json};

const ONTOLOGY: &str = include_str!("../../../examples/ground-truth/ontologies/population.json");
const SOURCE: &str = include_str!("../../../examples/ground-truth/sources/world-bank-population.json");
const PIPELINE: &str = include_str!("../../../examples/ground-truth/pipelines/world-bank-population.json");
/// Two releases, each with the day on which it came out; that is what it is called, too.
pub(super) const FIRST: Release = Release {
    day: "2017-10-26",
    payload: include_str!("../../../examples/ground-truth/data/world-bank-population/2017-10-26.csv"),
};
const SECOND: Release = Release {
    day: "2026-03-06",
    payload: include_str!("../../../examples/ground-truth/data/world-bank-population/2026-03-06.csv"),
};
/// A country-year that the two tell differently, as its line begins.
const LINE: &str = "Moldova,MDA,2015,";
/// By which definition both count.
const DEFINITION: &str = "without Transnistria";
/// A day between the two.
const BETWEEN: &str = "2018-01-01T00:00:00Z";
/// Where the feed tells of the second release, behind each record of the first.
const BEHIND_THE_FIRST: &str = "/changes/35/kind";

/// A release, and its payload.
pub(super) struct Release {
    day: &'static str,
    payload: &'static str,
}

/// The documents, under names that are this walk's own.
pub(super) struct Documents {
    pub(super) ontology: Ontology,
    pub(super) source: Registration,
    definition: Definition,
}

/// Steps that ask nobody outside.
///
/// # Errors
/// Where the documents are not what they were when this was compiled.
pub(super) fn steps(before: u64) -> anyhow::Result<Vec<Step>> {
    let documents = Documents::of(&session(before, "population"))?;
    let ontology = &documents.ontology;
    let mut steps = vec![put(
        "an ontology says what can be said of a country",
        format!("/v1/ontologies/{}/{}", ontology.ontology_id, ontology.version),
        &json!(ontology),
        "ontology_registered",
    )];
    steps.extend(documents.registered("a source, with who is behind it and how far it is trusted"));
    steps.extend([
        documents.ingest("a release is ingested: all of it becomes visible at once", &FIRST)?,
        documents
            .ask("a source that nobody has approved says nothing", None)
            .coming(StatusCode::CONFLICT)
            .expecting(vec![("/code", is("source_silent"))]),
        Step::order("it is approved", documents.source_path("/review"), &json!({"approve": {}}))
            .logging(&["source_changed"])
            .expecting(vec![("/review_status", is("approved"))]),
        documents.ingest("a later release revises it", &SECOND)?,
    ]);
    steps.extend(asked(&documents)?);
    Ok(steps)
}

/// Has an administrator register a document that is new.
fn put(title: &str, path: String, document: &Value, event: &'static str) -> Step {
    Step::put(title, path, document).logging(&[event]).expecting(vec![("/unchanged", is(false))])
}

/// What was known when, what has changed, and where it comes from.
fn asked(documents: &Documents) -> anyhow::Result<Vec<Step>> {
    let (old, new) = (FIRST.line()?, SECOND.line()?);
    let answers = |step: Step, release: &Release, line: &str| {
        step.expecting(vec![
            ("/response/records/0/axes/population", is(line.trim_start_matches(LINE))),
            ("/response/records/0/definitions/population", is(DEFINITION)),
            ("/response/query_metadata/data_version", is(release.day)),
        ])
    };
    Ok(vec![
        answers(documents.ask("what is known of the people in Moldova in 2015", None), &SECOND, new),
        answers(
            documents.ask("and what was known of them on the first day of 2018", Some(BETWEEN)),
            &FIRST,
            old,
        ),
        Step::see(
            "what has changed, in the order in which it became known",
            format!("/v1/changes?oracle_id={}", documents.source.oracle_id),
        )
        .logging(&["source_queried"])
        .expecting(vec![
            ("/changes/0/kind", is("became_valid")),
            (BEHIND_THE_FIRST, is("superseded")),
            ("/more", is(false)),
        ]),
        Step::see(
            "where that value comes from, down to its bytes in the payload",
            format!("/v1/records/{}/provenance", documents.record_id(&SECOND)?),
        )
        .logging(&["source_queried"])
        .expecting(vec![
            ("/raw_hash", is(Sha256Hex::of(new.as_bytes()).as_str())),
            ("/raw/raw_sha256", is(Sha256Hex::of(SECOND.payload.as_bytes()).as_str())),
            ("/source_version", is(SECOND.day)),
        ]),
        Step::order(
            "and every raw record in the archive is what its hash says",
            documents.source_path("/verify"),
            &json!({}),
        )
        .expecting(vec![
            ("/runs/0/fault_count", is(0)),
            ("/runs/1/fault_count", is(0)),
            ("/runs/1/records", is(SECOND.lines().count())),
        ]),
    ])
}

impl Release {
    /// The records' lines.
    fn lines(&self) -> impl Iterator<Item = &'static str> {
        self.payload.lines().skip(1)
    }

    /// The line of the country-year that is looked at.
    fn line(&self) -> anyhow::Result<&'static str> {
        self.lines().find(|line| line.starts_with(LINE)).context("a release lacks the country-year")
    }

    fn released_at(&self) -> anyhow::Result<Timestamp> {
        Ok(format!("{}T00:00:00Z", self.day).parse()?)
    }
}

impl Documents {
    /// They, with `name` for the ontology, the source and the pipeline.
    pub(super) fn of(name: &str) -> anyhow::Result<Self> {
        let mut ontology: Ontology = serde_json::from_str(ONTOLOGY)?;
        let mut source: Registration = serde_json::from_str(SOURCE)?;
        let mut definition: Definition = serde_json::from_str(PIPELINE)?;
        ontology.ontology_id = name.parse()?;
        source.oracle_id = name.parse()?;
        source.ontology = ontology.reference();
        definition.pipeline.pipeline_id = name.parse()?;
        definition.pipeline.oracle_id = source.oracle_id.clone();
        definition.pipeline.transformation.output_schema_id = ontology.reference().to_string();
        definition.normalization.target_ontology_id = ontology.ontology_id.clone();
        Ok(Self { ontology, source, definition })
    }

    /// Those of another source in the same words, with `name` for the source and the pipeline.
    pub(super) fn beside(&self, name: &str) -> anyhow::Result<Self> {
        let (mut source, mut definition) = (self.source.clone(), self.definition.clone());
        source.oracle_id = name.parse()?;
        definition.pipeline.pipeline_id = name.parse()?;
        definition.pipeline.oracle_id = source.oracle_id.clone();
        Ok(Self { ontology: self.ontology.clone(), source, definition })
    }

    /// Has the source registered, and its pipeline.
    pub(super) fn registered(&self, title: &str) -> Vec<Step> {
        let pipeline = format!("/v1/pipelines/{}", self.definition.pipeline.pipeline_id);
        vec![
            put(title, self.source_path(""), &json!(self.source), "source_changed"),
            put(
                "a pipeline, which makes records of its payloads",
                pipeline,
                &json!(self.definition),
                "pipeline_registered",
            ),
        ]
    }

    pub(super) fn source_path(&self, rest: &str) -> String {
        format!("/v1/sources/{}{rest}", self.source.oracle_id)
    }

    /// What the run over a release is called: that follows from all that goes into it.
    fn run_id(&self, release: &Release) -> anyhow::Result<Sha256Hex> {
        let input = RunInput {
            ontology: self.ontology.reference(),
            pipeline_sha256: self.definition.digest(),
            raw_sha256: Sha256Hex::of(release.payload.as_bytes()),
            released_at: release.released_at()?,
            version: release.day.to_owned(),
        };
        Ok(input.run_id())
    }

    /// What the record of the country-year is called.
    fn record_id(&self, release: &Release) -> anyhow::Result<String> {
        let position = (0..).zip(release.lines()).find(|(_, line)| line.starts_with(LINE));
        let (position, _) = position.context("a release lacks the country-year")?;
        Ok(record_id(&self.run_id(release)?, position))
    }

    /// Hands a release in.
    pub(super) fn ingest(&self, title: &str, release: &Release) -> anyhow::Result<Step> {
        let (pipeline_id, Release { day, payload }) = (&self.definition.pipeline.pipeline_id, release);
        let path = format!("/v1/pipelines/{pipeline_id}/runs?version={day}&released_at={day}");
        Ok(Step::ingest(title, &path, payload)
            .coming(StatusCode::ACCEPTED)
            .logging(&["ingestion_started", "ingestion_ended"])
            .expecting(vec![("/run/run_id", is(self.run_id(release)?.as_str()))]))
    }

    /// Asks for the country-year, as of a day or now.
    fn ask(&self, title: &str, point_in_time: Option<&str>) -> Step {
        let filter = |axis: &str, value: Value| json!({"axis": axis, "operator": "eq", "value": value});
        let mut request = json!({
            "axes_requested": ["population"],
            "filters": [filter("area", "MDA".into()), filter("year", 2015.into())],
        });
        if let (Some(members), Some(time)) = (request.as_object_mut(), point_in_time) {
            members.insert("point_in_time".into(), time.into());
        }
        Step::query(title, &json!({"oracle_id": self.source.oracle_id, "request": request}))
    }
}
