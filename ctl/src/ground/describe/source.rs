//! `oraclectl describe source`.

use crate::base::error::CtlError;
use crate::base::output::{format_count, format_pairs, format_requester, format_table};
use crate::ground::source::{format_status, is_live};
use oracled_api::ground::SourceReport;
use oracled_domain::ground::check::SourceCheck;
use oracled_domain::ground::source::VersionRecord;
use std::io::Write;

pub(super) fn show(out: &mut dyn Write, source: &SourceReport) -> Result<(), CtlError> {
    let SourceReport { entry, last_check, .. } = source;
    let registration = &entry.registration;
    let holds = match (is_live(entry), registration.snapshot) {
        (true, _) => "none: the source is live",
        (false, true) => "all records",
        (false, false) => "changed records",
    };
    let shown = [
        ("source", format!("{}: {}", registration.oracle_id, registration.oracle_name)),
        ("tier", registration.oracle_tier.into_str().to_owned()),
        ("status", format_status(entry)),
        ("authority", registration.upstream_authority.clone()),
        ("published at", registration.upstream_url.clone()),
        ("license", registration.data_license.clone()),
        ("domain", registration.domain.clone()),
        ("scope", registration.geographic_scope.clone().unwrap_or_else(|| "not specified".into())),
        ("ontology", registration.ontology.to_string()),
        ("axes", registration.axes_provided.join(", ")),
        ("release content", holds.into()),
        ("registered", format!("{} by {}", entry.registered_at, format_requester(&entry.registered_by))),
        ("last check", last_check.as_ref().map_or_else(|| "never".into(), format_check)),
    ];
    out.write_all(format_pairs(&shown).as_bytes())?;
    if is_live(entry) {
        let oracle_id = &registration.oracle_id;
        let how =
            format!("`oraclectl get adapter {oracle_id}` shows the requests, `oraclectl verify` sends them");
        return Ok(writeln!(out, "\nlive, queried for each verification: {how}")?);
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
    Ok(writeln!(out, "\n{}", format_table(["version", "released at", "ingested at", "records"], rows))?)
}

fn format_check(SourceCheck { checked_at, fault_count }: &SourceCheck) -> String {
    match fault_count {
        0 => format!("{checked_at}: no faults"),
        number => {
            format!(
                "{checked_at}: {}; see `oraclectl source verify`",
                format_count(*number, "fault", "faults")
            )
        }
    }
}
