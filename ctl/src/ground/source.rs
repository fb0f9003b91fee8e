//! `oraclectl source`.

mod upkeep;

use crate::base::document::{Document, how};
use crate::base::error::CtlError;
use crate::base::options::{Options, segment};
use crate::base::output::{by_whom, count, json, pairs, table};
use hyper::Method;
use oracled_api::base::service::RegisteredDocument;
use oracled_api::ground::{CheckedSource, ReasonRequest, SourceReviewRequest};
use oracled_domain::base::moment::Moment;
use oracled_domain::ground::check::SourceCheck;
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::source::{AdapterId, ReviewStatus, SourceRegistryEntry, VersionRecord};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Sources: who may be asked, how far to trust them, and where that stands.
#[derive(Debug, clap::Args)]
pub(crate) struct Source {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Registers one, or describes it otherwise; it answers once it is approved
    Register {
        /// The document; `-` reads standard input
        file: PathBuf,
    },
    /// Shows which there are
    List,
    /// Shows one with its versions
    Show {
        /// Which one
        oracle_id: SourceId,
    },
    /// Lets one answer; takes a deprecation back
    Approve {
        /// Which one
        oracle_id: SourceId,
    },
    /// Tells when one will cease to answer
    Deprecate {
        /// Which one
        oracle_id: SourceId,
        /// When: a day such as 2027-03-01, or a time; at least 90 days ahead
        #[arg(long, value_name = "DATE")]
        on: Moment,
    },
    /// Declares all that one has said stale, until its next version is ingested or what it has said is confirmed
    Invalidate {
        /// Which one
        oracle_id: SourceId,
        /// Why; it stands in the log
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Takes back that all that one has said counts as stale: it holds after all
    Confirm {
        /// Which one
        oracle_id: SourceId,
        /// Why; it stands in the log
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Compare the files, payloads and raw records of one with their digests
    Verify {
        /// Which one
        oracle_id: SourceId,
    },
    /// Takes the content of what had ceased to hold out of one, and payloads that nothing needs then; provenance stays
    Prune {
        /// Which one
        oracle_id: SourceId,
        /// What had ceased to hold before then: a day or a time; as long ago as the pipelines keep it without this
        #[arg(long, value_name = "DATE")]
        before: Option<Moment>,
    },
    /// Makes files of one anew that are damaged or gone, out of its archived payloads; what it says stays the same
    Rebuild {
        /// Which one
        oracle_id: SourceId,
    },
    /// Prints every version of every record with its provenance, one line of JSON each
    Export {
        /// Which one
        oracle_id: SourceId,
    },
}

impl Source {
    pub(crate) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        match &self.action {
            Action::Register { file } => {
                let document = Document::read(file, "a source")?;
                let path = format!("/v1/sources/{}", segment(document.text_at("oracle_id")?));
                let registered: RegisteredDocument<SourceRegistryEntry> =
                    document.put(options, &path).await?;
                if options.json {
                    return json(out, &registered);
                }
                let (entry, how) = (&registered.document, how(registered.unchanged));
                Ok(writeln!(out, "source {} {how}; it is {}", entry.oracle_id(), status(entry))?)
            }
            Action::List => {
                let listed: Vec<_> = options.on_control(Method::GET, "/v1/sources", None).await?.json()?;
                if options.json { json(out, &listed) } else { Ok(writeln!(out, "{}", page(&listed))?) }
            }
            Action::Show { oracle_id } => {
                let path = path(oracle_id, "");
                let entry = options.on_control(Method::GET, &path, None).await?.json()?;
                if options.json { json(out, &entry) } else { show(out, &entry) }
            }
            Action::Approve { oracle_id } => {
                let entry =
                    post(options, &path(oracle_id, "/review"), &SourceReviewRequest::Approve {}).await?;
                say(options, out, &entry, &format!("is {}", status(&entry)))
            }
            Action::Deprecate { oracle_id, on } => {
                let entry =
                    post(options, &path(oracle_id, "/review"), &SourceReviewRequest::Deprecate(*on)).await?;
                say(options, out, &entry, &format!("is {}", status(&entry)))
            }
            Action::Invalidate { oracle_id, reason } => {
                let reason = ReasonRequest { reason: reason.clone() };
                let entry = post(options, &path(oracle_id, "/invalidate"), &reason).await?;
                say(options, out, &entry, "counts as stale until its next version, or a confirmation")
            }
            Action::Confirm { oracle_id, reason } => {
                let reason = ReasonRequest { reason: reason.clone() };
                let entry = post(options, &path(oracle_id, "/confirm"), &reason).await?;
                say(options, out, &entry, "is as fresh as its release again")
            }
            Action::Verify { oracle_id } => upkeep::verify(options, out, oracle_id).await,
            Action::Prune { oracle_id, before } => upkeep::prune(options, out, oracle_id, *before).await,
            Action::Rebuild { oracle_id } => upkeep::rebuild(options, out, oracle_id).await,
            Action::Export { oracle_id } => upkeep::export(options, out, oracle_id).await,
        }
    }
}

fn path(oracle_id: &SourceId, rest: &str) -> String {
    format!("/v1/sources/{oracle_id}{rest}")
}

async fn post(options: &Options, path: &str, body: &impl Serialize) -> Result<SourceRegistryEntry, CtlError> {
    let body = serde_json::to_vec(body).map_err(std::io::Error::from)?;
    Ok(options.on_control(Method::POST, path, Some(body.into())).await?.json()?)
}

fn say(
    options: &Options,
    out: &mut dyn Write,
    entry: &SourceRegistryEntry,
    what: &str,
) -> Result<(), CtlError> {
    if options.json { json(out, entry) } else { Ok(writeln!(out, "source {} {what}", entry.oracle_id())?) }
}

/// Whether a source is asked anew each time, and not ingested.
fn is_live(entry: &SourceRegistryEntry) -> bool {
    entry.registration.adapter_id == AdapterId::Http
}

/// Where a source stands, in words.
fn status(entry: &SourceRegistryEntry) -> String {
    match (entry.review_status, entry.deprecation_date) {
        (ReviewStatus::Pending, _) if is_live(entry) => "pending: it is not asked".into(),
        (ReviewStatus::Pending, _) => "pending: it can be ingested, and does not answer".into(),
        (ReviewStatus::Deprecated, Some(date)) => format!("deprecated: it answers until {date}"),
        (status, _) => status.into_str().to_owned(),
    }
}

fn checked(SourceCheck { checked_at, fault_count }: &SourceCheck) -> String {
    match fault_count {
        0 => format!("{checked_at}: no faults"),
        number => {
            format!("{checked_at}: {}; see `oraclectl source verify`", count(*number, "fault", "faults"))
        }
    }
}

fn page(sources: &[SourceRegistryEntry]) -> String {
    if sources.is_empty() {
        return "no sources: `oraclectl source register FILE`".into();
    }
    let row = |entry: &SourceRegistryEntry| {
        let registration = &entry.registration;
        [
            registration.oracle_id.to_string(),
            registration.oracle_tier.into_str().to_owned(),
            entry.review_status.into_str().to_owned(),
            entry.current_version.clone(),
            registration.ontology.to_string(),
            registration.oracle_name.clone(),
        ]
    };
    let heading = ["source", "tier", "status", "version", "ontology", "name"];
    table(heading, sources.iter().map(row).collect())
}

fn show(out: &mut dyn Write, source: &CheckedSource) -> Result<(), CtlError> {
    let CheckedSource { entry, last_check, .. } = source;
    let registration = &entry.registration;
    let holds = match (is_live(entry), registration.snapshot) {
        (true, _) => "nothing: it is live",
        (false, true) => "all records",
        (false, false) => "what changed",
    };
    let shown = [
        ("source", format!("{}: {}", registration.oracle_id, registration.oracle_name)),
        ("tier", registration.oracle_tier.into_str().to_owned()),
        ("status", status(entry)),
        ("authority", registration.upstream_authority.clone()),
        ("published at", registration.upstream_url.clone()),
        ("licence", registration.data_license.clone()),
        ("domain", registration.domain.clone()),
        ("scope", registration.geographic_scope.clone().unwrap_or_else(|| "not said".into())),
        ("ontology", registration.ontology.to_string()),
        ("axes", registration.axes_provided.join(", ")),
        ("a release holds", holds.into()),
        ("registered", format!("{} by {}", entry.registered_at, by_whom(&entry.registered_by))),
        ("last check", last_check.as_ref().map_or_else(|| "never".into(), checked)),
    ];
    out.write_all(pairs(&shown).as_bytes())?;
    if is_live(entry) {
        let oracle_id = &registration.oracle_id;
        let how = format!("`oraclectl adapter show {oracle_id}` says how, `oraclectl verify` asks it");
        return Ok(writeln!(out, "\nlive, asked anew for each verification: {how}")?);
    }
    if entry.version_history.is_empty() {
        return Ok(writeln!(out, "\nno versions: `oraclectl ingest run`")?);
    }
    let row = |version: &VersionRecord| {
        [
            version.version.clone(),
            version.released_at.to_string(),
            version.ingested_at.to_string(),
            version.record_count.map(|count| count.to_string()).unwrap_or_default(),
        ]
    };
    let rows = entry.version_history.iter().map(row).collect();
    Ok(writeln!(out, "\n{}", table(["version", "released at", "ingested at", "records"], rows))?)
}
