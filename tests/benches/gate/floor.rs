//! The floor of a durable submission: one program of one file. It serves HTTP over a Unix socket, parses a request once, and
//! hashes its verdict. It writes the same two lines of the log with salts and leaves, the Merkle tree, the file of the log and one
//! synced record for each group. It has no policy, mail, metrics, erasure and no index on the disk.

use bytes::Bytes;
use domain_audit::log_tree::LogTree;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use ring::digest::{Context, SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use tokio::net::UnixListener;
use tokio::runtime;
use tokio::sync::oneshot;

/// The highest number of submissions in a group, as in the logger.
const GROUP_MAX: usize = 512;
/// The bytes by which the synced file grows, so that most groups overwrite.
const GROWTH_BYTES: usize = 8 << 20;
/// The head of a group: its length and its checksum.
const HEAD_BYTES: usize = 12;
const CALLER: &str = r#"{"uid":0,"gid":0,"pid":25977,"application":"default","request_id":"6384-2"}"#;

/// A request of a submission.
#[derive(Deserialize)]
struct FloorRequest<'a> {
    tier: Cow<'a, str>,
    query: Cow<'a, str>,
    raw: Cow<'a, str>,
}

/// A submission for the writing thread.
#[derive(Serialize)]
struct FloorRecord {
    session_id: String,
    tier: String,
    query: String,
    raw: String,
    #[serde(skip)]
    verdict_sha256: String,
    #[serde(skip)]
    reply: Option<oneshot::Sender<u64>>,
}

/// The places of the records in the synced file, by session.
type Places = Arc<Mutex<HashMap<String, (u64, usize)>>>;

/// Serves submissions at `socket`, and stores them in `dir`, until the process is killed.
pub(crate) fn serve(socket: &Path, dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut writer = FloorWriter {
        records: File::create(dir.join("records"))?,
        mirror: File::create(dir.join("mirror.jsonl"))?,
        places: Places::default(),
        room: 0,
        end: 0,
        seq: 0,
        tree: LogTree::default(),
    };
    let (sender, receiver) = mpsc::channel();
    let places = Arc::clone(&writer.places);
    thread::spawn(move || {
        while let Ok(first) = receiver.recv() {
            let group = std::iter::once(first).chain(receiver.try_iter()).take(GROUP_MAX).collect();
            writer.write(group).expect("the disk takes the group");
        }
    });
    runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = UnixListener::bind(socket)?;
        loop {
            let (stream, _) = listener.accept().await?;
            let (sender, places) = (sender.clone(), Arc::clone(&places));
            let service = service_fn(move |request| answer(request, sender.clone(), Arc::clone(&places)));
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    })
}

async fn answer(
    request: Request<Incoming>,
    sender: mpsc::Sender<FloorRecord>,
    places: Places,
) -> hyper::Result<Response<Full<Bytes>>> {
    let session_id = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let (status, text) = match submit(&session_id, &body, &sender, &places).await {
        Some(text) => (StatusCode::CREATED, text),
        None => (StatusCode::BAD_REQUEST, String::new()),
    };
    let response = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    Ok(response.body(Full::new(text.into())).expect("the response is valid"))
}

async fn submit(
    session_id: &str,
    body: &[u8],
    sender: &mpsc::Sender<FloorRecord>,
    places: &Places,
) -> Option<String> {
    let request: FloorRequest<'_> = serde_json::from_slice(body).ok()?;
    let verdict: Value = serde_json::from_str(&request.raw).ok()?;
    verdict.get("verdict")?;
    if places.lock().ok()?.contains_key(session_id) {
        return None;
    }
    let verdict_sha256 = hex(digest(&SHA256, request.raw.as_bytes()).as_ref());
    let (reply, durable) = oneshot::channel();
    let record = FloorRecord {
        session_id: session_id.to_owned(),
        tier: request.tier.clone().into_owned(),
        query: request.query.clone().into_owned(),
        raw: request.raw.clone().into_owned(),
        verdict_sha256: verdict_sha256.clone(),
        reply: Some(reply),
    };
    sender.send(record).ok()?;
    let seq = durable.await.ok()?;
    let query = serde_json::to_string(&request.query).ok()?;
    Some(format!(
        r#"{{"outcome":"stored","session_id":"{session_id}","tier":"{}","seq":{seq},"verdict_sha256":"{verdict_sha256}","query":{query},"verdict":{}}}"#,
        request.tier, request.raw
    ))
}

struct FloorWriter {
    records: File,
    mirror: File,
    places: Places,
    /// The length of the file of records, and the end of its last group.
    room: u64,
    end: u64,
    seq: u64,
    tree: LogTree,
}

impl FloorWriter {
    /// Writes a group, syncs it, and answers its submissions.
    fn write(&mut self, group: Vec<FloorRecord>) -> io::Result<()> {
        let (mut bytes, mut lines) = (vec![0; HEAD_BYTES], String::new());
        let mut placed = Vec::new();
        for record in &group {
            let FloorRecord { session_id, tier, query, verdict_sha256, .. } = record;
            let preview = serde_json::to_string(&query.chars().take(80).collect::<String>())?;
            let first = format!(
                r#""event":"tmm_crosscheck","tier":"{tier}","verdict_label":"GREEN","coherence_score":1.0,"threshold":0.9740425724725061,"phi":0.042,"approved":true,"crosscheck_reason":"pass","v_t":7.0,"v_r":0.0,"e_d":0.0,"path":"submit","verdict_sha256":"{verdict_sha256}","session_id":"{session_id}""#
            );
            self.log(&first, &[("query_preview", &preview), ("flags", "[]"), ("caller", CALLER)], &mut lines);
            let second = format!(
                r#""event":"verdict_cached","tier":"{tier}","verdict_label":"GREEN","verdict_sha256":"{verdict_sha256}","path":"submit","session_id":"{session_id}""#
            );
            self.log(&second, &[("caller", CALLER)], &mut lines);
            let start = bytes.len();
            serde_json::to_writer(&mut bytes, record)?;
            placed.push((self.end + start as u64, bytes.len() - start));
        }
        bytes.extend_from_slice(lines.as_bytes());
        let checksum = crc32fast::hash(bytes.get(HEAD_BYTES..).unwrap_or_default());
        let head = [&(bytes.len() as u64).to_be_bytes()[..], &checksum.to_be_bytes()].concat();
        bytes.splice(..HEAD_BYTES, head);
        let end = self.end + bytes.len() as u64;
        while end > self.room {
            self.records.write_all_at(&vec![0; GROWTH_BYTES], self.room)?;
            self.room += GROWTH_BYTES as u64;
            self.records.sync_all()?;
        }
        self.records.write_all_at(&bytes, self.end)?;
        self.records.sync_data()?;
        self.end = end;
        self.mirror.write_all(lines.as_bytes())?;
        let mut places = self.places.lock().map_err(|_| io::Error::other("the index is poisoned"))?;
        for (record, place) in group.into_iter().zip(placed) {
            places.insert(record.session_id, place);
            if let Some(reply) = record.reply {
                reply.send(self.seq).map_err(|_| io::Error::other("the submission has gone"))?;
            }
        }
        Ok(())
    }

    /// Adds an entry with `members` and salted `personal` ones to `lines`, and its leaf to the tree.
    fn log(&mut self, members: &str, personal: &[(&str, &str)], lines: &mut String) {
        self.seq += 1;
        let start = format!(r#"{{"seq":{},{members}"#, self.seq);
        let (mut line, mut leaf, mut salts) = (start.clone(), start, String::new());
        for (name, value) in personal {
            let mut context = Context::new(&SHA256);
            context.update(b"sixteen bytes...");
            context.update(&self.seq.to_be_bytes());
            context.update(name.as_bytes());
            let secret = context.finish();
            let salt = secret.as_ref().get(..16).unwrap_or_default();
            let mut context = Context::new(&SHA256);
            context.update(salt);
            context.update(value.as_bytes());
            leaf.push_str(&format!(r#","{name}":{{"sha256":"{}"}}"#, hex(context.finish().as_ref())));
            line.push_str(&format!(r#","{name}":{value}"#));
            let comma = if salts.is_empty() { "" } else { "," };
            salts.push_str(&format!(r#"{comma}"{name}":"{}""#, hex(salt)));
        }
        leaf.push('}');
        self.tree.append(leaf.as_bytes());
        lines.push_str(&format!("{line},\"salts\":{{{salts}}}}}\n"));
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).expect("four bits are a digit");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
