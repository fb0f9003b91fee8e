//! `oraclectl provenance`.

use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser};
use crate::base::output::{NO_END, format_pairs, print_json, shorten_line};
use domain_ground::query::RecordAnswer;
use domain_ground::record::RecordVerificationStatus;
use domain_ground::wire::ProvenanceReport;
use hyper::Method;
use std::io::Write;

/// Maximum length of a raw record, in characters.
const RAW_MAX_CHARS: usize = 1000;

/// Show the origin of a record, down to the bytes of its source
#[derive(Debug, clap::Args)]
pub(crate) struct ProvenanceArgs {
    /// The id of the record, as a query returns it
    #[arg(value_parser = id_parser())]
    record_id: String,
}

impl ProvenanceArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = format!("/v1/records/{}", encode_segment(&self.record_id));
        let report: ProvenanceReport =
            options.call_control(Method::GET, &format!("{path}/provenance"), None).await?.json()?;
        if options.json {
            return print_json(out, &report);
        }
        // a source that cannot be queried returns no record, but its provenance is still available
        let record: Option<RecordAnswer> =
            options.call_routes(Method::GET, &path, None).await.ok().and_then(|answer| answer.json().ok());
        Ok(out.write_all(format_pairs(&format_provenance(&report, record.as_ref())).as_bytes())?)
    }
}

fn format_provenance(
    report: &ProvenanceReport,
    record: Option<&RecordAnswer>,
) -> Vec<(&'static str, String)> {
    let ProvenanceReport { provenance: chain, raw_text, raw_fault } = report;
    let mut shown = vec![
        ("record", format!("{}, which the source calls {}", chain.record_id, chain.source_record_id)),
        ("source", format!("{}, version {}", chain.oracle_id, chain.source_version)),
    ];
    if let Some(record) = record {
        let values = record.record.values().into_iter().map(|(path, value)| {
            let unit = record.record.units.get(&path).map(|unit| format!(" {unit}")).unwrap_or_default();
            format!("{path} {value}{unit}")
        });
        let standing =
            serde_json::to_value(record.standing).ok().and_then(|word| word.as_str().map(str::to_owned));
        if !chain.pruned {
            shown.push(("values", values.collect::<Vec<_>>().join(", ")));
        }
        shown.push(("standing", standing.unwrap_or_default()));
        shown.extend(record.warnings.iter().map(|warning| ("warning", warning.clone())));
    }
    if chain.pruned {
        shown.push(("values", "pruned; only the hashes and times are kept".into()));
    }
    let until = chain.valid_until.map_or_else(|| format!(", {NO_END}"), |until| format!(" until {until}"));
    shown.push(("valid", format!("from {}{until}", chain.valid_from)));
    shown.extend(chain.superseded_by.clone().map(|by| ("superseded by", by)));
    shown.extend([
        ("known since", chain.ingested_at.to_string()),
        ("pipeline", chain.ingestion_pipeline_id.to_string()),
        ("run", chain.ingestion_run_id.to_string()),
    ]);
    shown.extend(chain.source_url.clone().map(|url| ("pulled from", url)));
    let status = match chain.verification_status {
        RecordVerificationStatus::Unverified => "unverified: ingestion noted a warning",
        RecordVerificationStatus::AutoVerified => "by the schema and checks of its pipeline",
    };
    let raw = &chain.raw;
    shown.extend([
        ("verified", status.to_owned()),
        ("transformations", chain.transformations_applied.join(", ")),
        ("raw hash", chain.raw_hash.to_string()),
        ("raw location", format!("{} bytes from byte {} of {}", raw.len, raw.offset, raw.raw_sha256)),
    ]);
    shown.extend(raw_text.as_ref().map(|text| ("raw record", shorten_line(text, RAW_MAX_CHARS))));
    shown.extend(raw_fault.as_ref().map(|fault| ("raw record", format!("cannot be read: {fault}"))));
    shown.extend(chain.normalized_hash.as_ref().map(|hash| ("normalized hash", hash.to_string())));
    shown
}
