//! `oraclectl source export`: every version of every record, as lines or as Parquet.

use super::source_path;
use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, response_lines};
use crate::base::output_stream::Output;
use crate::ground::parquet::{check_end, start};
use domain_ground::id::SourceId;
use domain_ground::ontology::Ontology;
use hyper::Method;
use oracled_api::base::client::{ClientError, DaemonClient, ResponseLines};
use oracled_api::documents::DocumentReport;
use oracled_api::ground::SourceReport;
use serde::{Deserialize, Serialize};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::process::{ChildStdin, Stdio};

/// The first line for the program that writes the Parquet file; the lines of the export follow.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExportHead {
    pub oracle_id: SourceId,
    pub ontology: Ontology,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportEnd {
    /// The number of lines before it, without the first one.
    pub records: u64,
}

pub(super) async fn print_lines(
    options: &GlobalOptions,
    out: &mut dyn Output,
    oracle_id: &SourceId,
) -> Result<(), CtlError> {
    let mut lines = open(options, oracle_id).await?;
    while let Some(line) = lines.next_line().await? {
        out.exact().write_all(&line)?;
    }
    Ok(())
}

async fn open(options: &GlobalOptions, oracle_id: &SourceId) -> Result<ResponseLines, CtlError> {
    let mut client = DaemonClient::connect(&options.control_path()?).await?;
    response_lines(client.open(Method::GET, &source_path(oracle_id, "/export"), None).await?).await
}

/// Sends the lines to the program that writes the file to standard output after the last one.
pub(super) async fn print_parquet(options: &GlobalOptions, oracle_id: &SourceId) -> Result<(), CtlError> {
    if io::stdout().is_terminal() {
        let message = "Parquet is binary; redirect the output to a file, for example > source.parquet";
        return Err(CtlError::Usage(message.to_owned()));
    }
    let failed = |error: io::Error| CtlError::Verb {
        message: format!("cannot write Parquet: {error}"),
        exit_code: 5,
        was_printed: false,
    };
    let mut writer = start("write", Stdio::piped(), Stdio::inherit()).map_err(failed)?;
    let input = writer.stdin.take().ok_or_else(|| failed(ErrorKind::BrokenPipe.into()))?;
    match send_export(options, oracle_id, BufWriter::new(input)).await {
        // the program has ended, and its error is the cause
        Err(CtlError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {}
        sent => sent?,
    }
    check_end(&mut writer).map_err(failed)
}

/// Sends the export. Without its last line, nothing is written.
async fn send_export(
    options: &GlobalOptions,
    oracle_id: &SourceId,
    mut input: BufWriter<ChildStdin>,
) -> Result<(), CtlError> {
    let ontology = read_ontology(options, oracle_id).await?;
    let reference = ontology.reference();
    write_line(&mut input, &ExportHead { oracle_id: oracle_id.clone(), ontology })?;
    let mut lines = open(options, oracle_id).await?;
    let mut records = 0;
    while let Some(line) = lines.next_line().await? {
        input.write_all(&line)?;
        records += 1;
    }
    if read_ontology(options, oracle_id).await?.reference() != reference {
        let message = "the source got another ontology during the export; repeat the command".to_owned();
        return Err(CtlError::Verb { message, exit_code: 4, was_printed: false });
    }
    write_line(&mut input, &ExportEnd { records })?;
    Ok(input.flush()?)
}

fn write_line(input: &mut impl Write, line: &impl Serialize) -> Result<(), CtlError> {
    serde_json::to_writer(&mut *input, line).map_err(io::Error::from)?;
    Ok(input.write_all(b"\n")?)
}

async fn read_ontology(options: &GlobalOptions, oracle_id: &SourceId) -> Result<Ontology, CtlError> {
    let path = source_path(oracle_id, "");
    let source: SourceReport = options.call_control(Method::GET, &path, None).await?.json()?;
    let reference = source.entry.registration.ontology.to_string();
    let path = format!("/v1/documents/ontology/{}", encode_segment(&reference));
    let report: DocumentReport = options.call_control(Method::GET, &path, None).await?.json()?;
    let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
    Ok(serde_json::from_value(report.document).map_err(unreadable)?)
}
