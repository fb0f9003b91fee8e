//! `oraclectl ingest run`: sends a payload to the daemon.

use crate::base::error::CtlError;
use crate::base::input_lines;
use crate::base::options::{GlobalOptions, encode_segment, problem_error};
use crate::base::output::print_json;
use crate::ground::parquet::{is_parquet, open_payload};
use domain_base::moment::Moment;
use domain_ground::id::PipelineId;
use domain_ground::pipeline::PipelineDefinition;
use hyper::Method;
use oracled_api::base::client::{ClientError, DaemonClient, DaemonResponse, PATIENCE};
use oracled_api::base::streamed_body::{StreamedBody, StreamedBodySender};
use oracled_api::documents::DocumentReport;
use oracled_api::ground::UploadResponse;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::{mem, thread};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// Size of the pieces in which a payload is read and sent, in bytes.
const PIECE_BYTES: usize = 256 * 1024;

/// Upload a payload and show the progress of its run; Ctrl-C does not stop the run
#[derive(Debug, clap::Args)]
pub(crate) struct IngestRunArgs {
    /// The pipeline
    #[arg(value_name = "PIPELINE")]
    pipeline_id: PipelineId,
    /// The payload; `-` reads standard input. A Parquet file is sent as lines of JSON
    file: PathBuf,
    /// The source's name for this version
    #[arg(long, value_name = "VERSION")]
    version: String,
    /// Release date of the version: a day such as 2026-11-20, or a time
    #[arg(long, value_name = "DATE")]
    released_at: Moment,
    /// Replace the records of this version, even if the payload or the release time differs
    #[arg(long)]
    replace: bool,
    /// Do not wait for the end of the run
    #[arg(long)]
    detach: bool,
}

impl IngestRunArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let ingested = self.upload(options).await.map_err(lost_error)?;
        if ingested.unchanged || self.detach {
            if options.json {
                print_json(out, &ingested)?;
                return super::check_state(&ingested.run);
            }
            let UploadResponse { unchanged, run } = ingested;
            super::check_state(&run)?;
            let how =
                if unchanged { "has brought these records before; nothing changes" } else { "continues" };
            return Ok(writeln!(out, "run {} {how}", run.run_id)?);
        }
        super::show_ended(options, out, &super::wait_for_end(options, &ingested.run.run_id).await?)
    }

    /// The definition of the pipeline.
    async fn read_definition(&self, options: &GlobalOptions) -> Result<PipelineDefinition, CtlError> {
        let path = format!("/v1/documents/pipeline/{}", self.pipeline_id);
        let report: DocumentReport = options.call_control(Method::GET, &path, None).await?.json()?;
        let unreadable = |error: serde_json::Error| ClientError::Unreadable(error.to_string());
        Ok(serde_json::from_value(report.document).map_err(unreadable)?)
    }

    /// Sends the payload, and waits for the daemon's answer.
    async fn upload(&self, options: &GlobalOptions) -> Result<UploadResponse, CtlError> {
        let unreadable = |cause| CtlError::Read { file: input_lines::display_name(&self.file), cause };
        let is_parquet = is_parquet(&self.file).map_err(unreadable)?;
        let definition = if is_parquet { Some(self.read_definition(options).await?) } else { None };
        let retrieval = definition.as_ref().map(|definition| &definition.pipeline.retrieval);
        let (payload, bar) = open_payload(&self.file, "sent", retrieval).map_err(unreadable)?;
        let Self { pipeline_id, version, released_at: Moment(released_at), replace, .. } = self;
        let (version, released_at) = (encode_segment(version), encode_segment(&released_at.to_string()));
        let path = format!(
            "/v1/pipelines/{pipeline_id}/runs?version={version}&released_at={released_at}&replace={replace}"
        );
        let mut client = DaemonClient::connect(&options.control_path()?).await?;
        let (pieces, body) = StreamedBody::new(1);
        let requested = Arc::new(Notify::new());
        let sent = send(payload, bar.length(), pieces, Arc::clone(&requested)).map_err(unreadable)?;
        let mut uploading = pin!(client.upload(&path, body, bar.length(), requested));
        let response = tokio::select! {
            // a payload that cannot be read also breaks the connection; the read error is the cause to report
            biased;
            sent = sent => {
                sent.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(unreadable)?;
                timeout(PATIENCE, uploading).await.map_err(|_| ClientError::Silent(PATIENCE))??
            }
            response = &mut uploading => response?,
        };
        bar.finish_and_clear();
        let answer = DaemonResponse::read_whole(response).await?;
        if answer.status.is_success() { Ok(answer.json()?) } else { Err(problem_error(&answer)) }
    }
}

/// Adds the next command to an error of a connection that broke. Other errors stay as they are.
fn lost_error(error: CtlError) -> CtlError {
    match error {
        CtlError::Client(cause) if !matches!(cause, ClientError::NotThere { .. }) => {
            let next = "the run may have started; `oraclectl ingest list` shows it, and the same command waits for it";
            CtlError::RunLost { cause, next: next.to_owned() }
        }
        other => other,
    }
}

/// Starts a thread that sends the payload once the daemon requests it. A payload that cannot be read to its
/// end, or whose length is no longer `length_bytes`, is an error, and the upload is cut off. No one joins the
/// thread, since a read from a terminal or a pipe may never return.
fn send(
    payload: impl Read + Send + 'static,
    length_bytes: Option<u64>,
    mut pieces: StreamedBodySender,
    requested: Arc<Notify>,
) -> io::Result<oneshot::Receiver<io::Result<()>>> {
    let (done, sent) = oneshot::channel();
    let runtime = Handle::current();
    let send = move || {
        let ended = runtime.block_on(async {
            requested.notified().await;
            send_all(payload, length_bytes, &mut pieces).await
        });
        let is_whole = ended.is_ok();
        // the receiver is gone if the daemon has already answered
        drop(done.send(ended));
        if is_whole {
            pieces.finish();
        }
    };
    thread::Builder::new().name("payload".into()).spawn(send)?;
    Ok(sent)
}

/// Sends until the end of the payload, or until the daemon has answered.
async fn send_all(
    mut payload: impl Read,
    length_bytes: Option<u64>,
    pieces: &mut StreamedBodySender,
) -> io::Result<()> {
    let (mut read_bytes, mut held) = (0, Vec::new());
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        read_bytes += payload.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)? as u64;
        let is_last = piece.is_empty();
        let differs = |length: &u64| if is_last { read_bytes < *length } else { read_bytes > *length };
        if let Some(length) = length_bytes.filter(differs) {
            let how = if is_last { "shortened" } else { "extended" };
            let message = format!("the file had {length} bytes and was {how} while it was read");
            return Err(io::Error::other(message));
        }
        // one piece is held back: with `length_bytes` sent, the daemon would take the payload as complete,
        // but the file may be longer
        let held = mem::replace(&mut held, piece);
        if !held.is_empty() && pieces.send(held.into()).await.is_err() || is_last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::path::Path;
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    #[tokio::test]
    async fn file_that_changes_while_it_is_read_is_not_sent_as_complete() {
        let length = PIECE_BYTES as u64 + 1;
        let content = vec![b'x'; PIECE_BYTES + 1];
        for (length_bytes, is_whole) in
            [(None, true), (Some(length), true), (Some(length + 1), false), (Some(length - 1), false)]
        {
            let (mut pieces, body) = StreamedBody::new(2);
            let ended = send_all(&content[..], length_bytes, &mut pieces).await;
            assert_eq!(ended.is_ok(), is_whole, "{length_bytes:?}: {ended:?}");
            pieces.finish();
            let sent_bytes = body.collect().await.unwrap().to_bytes().len() as u64;
            if is_whole {
                assert_eq!(sent_bytes, length);
            } else {
                // otherwise the daemon would have received the announced length
                assert!(length_bytes > Some(sent_bytes), "{length_bytes:?}: {sent_bytes}");
            }
        }
    }

    /// The head of the upload request for `file`, as a daemon receives it that rejects the upload.
    async fn read_upload_head(dir: &Path, file: &Path) -> String {
        let socket = dir.join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let run = IngestRunArgs {
            pipeline_id: "people".parse().unwrap(),
            file: file.to_owned(),
            version: "1".into(),
            released_at: Moment("2026-11-20T00:00:00Z".parse().unwrap()),
            replace: false,
            detach: true,
        };
        let options = GlobalOptions { socket: None, control_socket: Some(socket.clone()), json: false };
        let received = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            String::from_utf8(head).unwrap()
        });
        run.upload(&options).await.expect_err("the daemon is busy");
        std::fs::remove_file(socket).unwrap();
        received.await.unwrap()
    }

    #[tokio::test]
    async fn upload_has_content_length_only_for_files_with_a_length() {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("payload");
        std::fs::write(&file, "abc").unwrap();
        let head = read_upload_head(dir.path(), &file).await;
        assert!(head.contains("content-length: 3\r\n") && !head.contains("transfer-encoding"), "{head}");
        for endless in ["/dev/null", "/proc/self/stat"] {
            let head = read_upload_head(dir.path(), Path::new(endless)).await;
            assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
        }
    }
}
