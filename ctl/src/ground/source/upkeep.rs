//! `oraclectl source verify`, `prune`, `rebuild` and `export`.

use super::source_path;
use crate::base::error::CtlError;
use crate::base::input_lines;
use crate::base::options::GlobalOptions;
use crate::base::output::{format_count, print_json, short_run_id};
use domain_base::moment::Moment;
use domain_base::visible::visible_line;
use domain_ground::id::SourceId;
use domain_ground::upkeep::{
    PruneOutcome, RebuildOutcome, RunCheckReport, SourceCheckProgress, SourceCheckReport,
};
use hyper::Method;
use oracled_api::base::client::DaemonResponse;
use oracled_api::ground::{PruneRequest, SourceReport, VerifyFilesRequest};
use std::io::Write;
use std::pin::pin;
use std::time::Duration;
use tokio::time::sleep;

/// Interval at which the progress of a check is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// # Errors
/// `RunFailed` if there is a fault; it was printed.
pub(crate) async fn verify(
    options: &GlobalOptions,
    out: &mut dyn Write,
    oracle_id: &SourceId,
) -> Result<(), CtlError> {
    let order = VerifyFilesRequest::default();
    let verify = source_path(oracle_id, "/verify");
    let verified: SourceCheckReport =
        with_progress(options, oracle_id, options.run_on_control(&verify, &order)).await?.json()?;
    if options.json {
        print_json(out, &verified)?;
    } else {
        show(out, &verified)?;
    }
    let is_whole = verified.file_fault.is_none() && verified.runs.iter().all(|run| run.fault_count == 0);
    if is_whole { Ok(()) } else { Err(CtlError::RunFailed) }
}

/// Shows the progress of the check until `answered` completes. An interrupt ends oraclectl and with it the check.
async fn with_progress(
    options: &GlobalOptions,
    oracle_id: &SourceId,
    answered: impl Future<Output = Result<DaemonResponse, CtlError>>,
) -> Result<DaemonResponse, CtlError> {
    let bar = input_lines::progress_bar(Some(0), "checking");
    let mut answered = pin!(answered);
    loop {
        tokio::select! {
            answer = &mut answered => {
                bar.finish_and_clear();
                return answer;
            }
            () = sleep(LOOK_EVERY), if !bar.is_hidden() => {}
        }
        let seen = options.call_control(Method::GET, &source_path(oracle_id, ""), None).await;
        // the bar is not essential: the check continues if this request fails
        let seen = seen.ok().and_then(|answer| answer.json::<SourceReport>().ok());
        if let Some(SourceCheckProgress { bytes_read, bytes }) = seen.and_then(|seen| seen.checking) {
            bar.set_length(bytes);
            bar.set_position(bytes_read);
        }
    }
}

fn show(out: &mut dyn Write, verified: &SourceCheckReport) -> Result<(), CtlError> {
    match &verified.file_fault {
        None => writeln!(
            out,
            "{} rows in the files of {} are intact (a row is a version of a record, a change or a reject)",
            verified.rows, verified.oracle_id
        )?,
        Some(fault) => writeln!(out, "a file of {} is damaged: {}", verified.oracle_id, visible_line(fault))?,
    }
    for RunCheckReport {
        run_id, version, records, payload_bytes, has_payload, fault_count, faults, ..
    } in &verified.runs
    {
        // several runs may have the same version
        let version = format!("{}, run {}", visible_line(version), short_run_id(run_id));
        if !has_payload {
            writeln!(out, "{version}: the payload is not archived")?;
            continue;
        }
        let summary = match fault_count {
            0 => "no faults".to_owned(),
            number => format_count(*number, "fault", "faults"),
        };
        writeln!(out, "{version}: {records} raw records in {payload_bytes} bytes, {summary}")?;
        for fault in faults {
            writeln!(out, "  {}", visible_line(fault))?;
        }
    }
    Ok(())
}

pub(crate) async fn prune(
    options: &GlobalOptions,
    out: &mut dyn Write,
    oracle_id: &SourceId,
    before: Option<Moment>,
) -> Result<(), CtlError> {
    let order = PruneRequest { before };
    let pruned: PruneOutcome =
        options.run_on_control(&source_path(oracle_id, "/prune"), &order).await?.json()?;
    if options.json {
        return print_json(out, &pruned);
    }
    let PruneOutcome { before, versions, payloads, freed_bytes } = pruned;
    let versions = format_count(versions, "version", "versions");
    let payloads = format_count(payloads.len() as u64, "payload", "payloads");
    Ok(writeln!(
        out,
        "pruned {versions} that ended before {before}, removed {payloads}, freed {freed_bytes} bytes"
    )?)
}

pub(crate) async fn rebuild(
    options: &GlobalOptions,
    out: &mut dyn Write,
    oracle_id: &SourceId,
) -> Result<(), CtlError> {
    let order = serde_json::json!({});
    let rebuilt: RebuildOutcome =
        options.run_on_control(&source_path(oracle_id, "/rebuild"), &order).await?.json()?;
    if options.json {
        return print_json(out, &rebuilt);
    }
    let RebuildOutcome { oracle_id, runs, prunings, files } = rebuilt;
    if files.is_empty() {
        return Ok(writeln!(out, "the files of {oracle_id} have no faults; no file was rebuilt")?);
    }
    let (files, runs) =
        (format_count(files.len() as u64, "file", "files"), format_count(runs, "run", "runs"));
    let pruned = match prunings {
        0 => "",
        _ => "; pruned content stays pruned",
    };
    Ok(writeln!(out, "{files} of {oracle_id} rebuilt from the payloads of {runs}{pruned}")?)
}
