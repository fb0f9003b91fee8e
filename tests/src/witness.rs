//! A scripted witness on the loopback interface (C2SP `tlog-witness`). It shares no code with the daemon: others wrote the
//! crates that verify notes and proofs.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use signed_note::{Note, StandardVerifier, VerifierList, key_id};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, thread};
use tlog_tiles::{Checkpoint, Hash, TreeProof, check_tree};

/// The name of the witness's key.
const NAME: &str = "witness.example/w1";
/// The secrets of its key, and of a key that is not configured.
const SECRET: [u8; 32] = [3; 32];
const OTHER_SECRET: [u8; 32] = [4; 32];

/// A fault of a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WitnessFault {
    /// It closes the connection without an answer.
    HangUp,
    /// It sends no answer for 3 s.
    Silence,
    /// It answers with this status.
    Status(u16),
    /// It answers with a text that is no signature.
    Garbage,
    /// It answers with 1 MiB.
    Huge,
    /// It signs with another key, under the id of its own.
    Forged,
    /// It signs another text.
    OtherText,
    /// It answers only with the signature of an unknown key.
    Unknown,
    /// It cosigns without a time.
    Timeless,
    /// It reports a size in the form of a text.
    SizeAsText,
    /// It reports another size each time.
    Unsteady,
    /// It reports a size that no log has.
    Longer,
}

#[derive(Default)]
struct WitnessState {
    log_key: Option<String>,
    held: Option<(u64, Hash)>,
    fault: Option<WitnessFault>,
    /// The old size in each request, and the status of the answer; 0 without one.
    requests: Vec<(u64, u16)>,
    is_over: bool,
}

/// The witness.
pub struct ScriptedWitness {
    port: u16,
    state: Arc<Mutex<WitnessState>>,
}

impl fmt::Debug for ScriptedWitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedWitness").field("port", &self.port).finish_non_exhaustive()
    }
}

fn pair(secret: &[u8; 32]) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(secret).expect("a secret")
}

/// The type of the key, and the key.
fn typed_key() -> Vec<u8> {
    [&[4], pair(&SECRET).public_key().as_ref()].concat()
}

/// The public key of the witness.
#[must_use]
pub fn witness_key() -> String {
    format!("{NAME}+{:08x}+{}", key_id(NAME, &typed_key()), BASE64_STANDARD.encode(typed_key()))
}

/// Whether the witness has cosigned the checkpoint in `note`.
///
/// # Panics
/// Panics if `note` is not a signed note.
#[must_use]
pub fn is_cosigned(note: &str) -> bool {
    let (text, signatures) = note.rsplit_once("\n\n").expect("a signed note");
    let line = signatures.lines().find_map(|line| line.strip_prefix("\u{2014} ")?.strip_prefix(NAME));
    let Some(signature) = line.and_then(|line| BASE64_STANDARD.decode(line.trim()).ok()) else {
        return false;
    };
    let (id, rest) = signature.split_at(4);
    let (time, signature) = rest.split_at(8);
    let seconds = u64::from_be_bytes(time.try_into().expect("8 bytes"));
    let public = UnparsedPublicKey::new(&ED25519, pair(&SECRET).public_key().as_ref().to_vec());
    let message = format!("cosignature/v1\ntime {seconds}\n{text}\n");
    id == key_id(NAME, &typed_key()).to_be_bytes() && public.verify(message.as_bytes(), signature).is_ok()
}

impl ScriptedWitness {
    /// Starts a witness that knows no log.
    ///
    /// # Panics
    /// Panics if the loopback interface has no free port.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("the system reports it").port();
        let state: Arc<Mutex<WitnessState>> = Arc::default();
        let shared = Arc::clone(&state);
        // threads of its own: a test blocks its runtime while it waits for a process
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                if shared.lock().expect("the lock is not poisoned").is_over {
                    return;
                }
                let shared = Arc::clone(&shared);
                thread::spawn(move || answer(&socket, &shared));
            }
        });
        Self { port, state }
    }

    fn state(&self) -> MutexGuard<'_, WitnessState> {
        self.state.lock().expect("the lock is not poisoned")
    }

    /// The configuration of a daemon with this witness, which hands out checkpoints every second.
    #[must_use]
    pub fn config(&self) -> String {
        format!(
            "[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n[checkpoints]\nevery_s = 1\nwitness_timeout_ms = 2000\n\
             [checkpoints.witnesses.w1]\nkey = \"{}\"\nurl = \"http://127.0.0.1:{}/prefix/\"\n",
            witness_key(),
            self.port
        )
    }

    /// Makes the witness accept the log with this key.
    pub fn trust(&self, log_key: &str) {
        self.state().log_key = Some(log_key.trim().to_owned());
    }

    /// Sets what the witness does wrong.
    pub fn set_fault(&self, fault: Option<WitnessFault>) {
        self.state().fault = fault;
    }

    /// Removes the record of the log.
    pub fn forget(&self) {
        self.state().held = None;
    }

    /// The number of entries that the witness has cosigned.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.state().held.map_or(0, |(size, _)| size)
    }

    /// The old size in each request since the last call, and the status of the answer; 0 without one.
    #[must_use]
    pub fn take_requests(&self) -> Vec<(u64, u16)> {
        std::mem::take(&mut self.state().requests)
    }
}

impl Drop for ScriptedWitness {
    fn drop(&mut self) {
        self.state().is_over = true;
        // wakes the thread that accepts
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn answer(mut socket: &TcpStream, state: &Mutex<WitnessState>) {
    let Some((path, body)) = read_request(socket) else { return };
    let lock = || state.lock().expect("the lock is not poisoned");
    let fault = lock().fault;
    let (status, kind, body) = match fault {
        Some(fault @ (WitnessFault::HangUp | WitnessFault::Silence)) => {
            lock().requests.push((0, 0));
            if fault == WitnessFault::Silence {
                thread::sleep(Duration::from_secs(3));
            }
            return;
        }
        _ if path != "/prefix/add-checkpoint" => (404, "", String::new()),
        _ => add_checkpoint(&body, &mut lock()).unwrap_or((400, "", String::new())),
    };
    let head = format!(
        "HTTP/1.1 {status} Whatever\r\ncontent-length: {}\r\nconnection: close\r\ncontent-type: {kind}\r\n\r\n",
        body.len()
    );
    // the client may have closed the connection
    drop(socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body.as_bytes())));
}

/// Reads a POST request. Returns its path and its body.
fn read_request(socket: &TcpStream) -> Option<(String, String)> {
    let mut input = BufReader::new(socket);
    let (mut path, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|size| *size > 0)?;
        let line = line.trim_end().to_lowercase();
        match (line.strip_prefix("post "), line.strip_prefix("content-length: ")) {
            _ if line.is_empty() => break,
            (Some(target), _) => path = target.split(' ').next()?.to_owned(),
            (_, Some(digits)) => length = digits.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some((path, String::from_utf8(body).ok()?))
}

/// The status, the media type and the body of the answer to a request; `None` if the request has another form.
fn add_checkpoint(body: &str, state: &mut WitnessState) -> Option<(u16, &'static str, String)> {
    let (head, note) = body.split_once("\n\n")?;
    let mut lines = head.split('\n');
    let old = lines.next()?.strip_prefix("old ")?;
    let old: u64 = old.parse().ok().filter(|size: &u64| size.to_string() == old)?;
    let hash = |line: &str| Some(Hash(BASE64_STANDARD.decode(line).ok()?.try_into().ok()?));
    let proof = lines.map(hash).collect::<Option<Vec<_>>>()?;
    let parsed = Note::from_bytes(note.as_bytes()).ok()?;
    let checkpoint = Checkpoint::from_bytes(parsed.text()).ok()?;
    let (status, kind, body) = judge(old, &proof, &parsed, &checkpoint, state);
    let (status, kind, body) = match (status, state.fault) {
        (200, None) => {
            state.held = Some((checkpoint.size(), *checkpoint.hash()));
            (status, kind, cosign(parsed.text(), &SECRET, now_s(), NAME))
        }
        (_, Some(WitnessFault::Status(status))) => (status, "", String::new()),
        (_, Some(WitnessFault::SizeAsText)) => (409, "text/plain", "9\n".to_owned()),
        (_, Some(WitnessFault::Unsteady)) => {
            (409, "text/x.tlog.size", format!("{}\n", if old == 0 { 1 } else { 0 }))
        }
        (_, Some(WitnessFault::Longer)) => (409, "text/x.tlog.size", format!("{}\n", 1_u64 << 40)),
        (200, Some(fault)) => (status, kind, faulty_answer(fault, parsed.text())),
        _ => (status, kind, body),
    };
    state.requests.push((old, status));
    Some((status, kind, body))
}

/// The answer by the rules of the protocol; that of status 200 is still without a cosignature.
fn judge(
    old: u64,
    proof: &TreeProof,
    note: &Note,
    checkpoint: &Checkpoint,
    state: &WitnessState,
) -> (u16, &'static str, String) {
    let refused = |status| (status, "", String::new());
    let Some(key) = state.log_key.as_ref().filter(|key| key.split('+').next() == Some(checkpoint.origin()))
    else {
        return refused(404);
    };
    let verifier = StandardVerifier::new(key).expect("a key");
    if note.verify(&VerifierList::new(vec![Box::new(verifier)])).is_err() {
        return refused(403);
    }
    let (size, root) = (checkpoint.size(), *checkpoint.hash());
    let (held, held_root) = state.held.unwrap_or((0, root));
    if old > size {
        return refused(400);
    }
    if old != held {
        return (409, "text/x.tlog.size", format!("{held}\n"));
    }
    let is_consistent = match old {
        0 => proof.is_empty(),
        _ if old == size => proof.is_empty() && root == held_root,
        _ => check_tree(proof, size, root, old, held_root).is_ok(),
    };
    if is_consistent { (200, "text/plain", String::new()) } else { refused(422) }
}

fn faulty_answer(fault: WitnessFault, text: &[u8]) -> String {
    match fault {
        WitnessFault::Garbage => "<html>It works!</html>\n".to_owned(),
        WitnessFault::Huge => cosign(text, &SECRET, now_s(), NAME).repeat(8000),
        WitnessFault::Forged => cosign(text, &OTHER_SECRET, now_s(), NAME),
        WitnessFault::OtherText => cosign(b"oracled/1\n1\nAAAA\n", &SECRET, now_s(), NAME),
        WitnessFault::Unknown => cosign(text, &OTHER_SECRET, now_s(), "witness.example/unknown"),
        WitnessFault::Timeless => cosign(text, &SECRET, 0, NAME),
        _ => String::new(),
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set").as_secs()
}

/// The line of a cosignature, under the id of the witness's key.
fn cosign(text: &[u8], secret: &[u8; 32], seconds: u64, name: &str) -> String {
    let message = [format!("cosignature/v1\ntime {seconds}\n").as_bytes(), text].concat();
    let signature = pair(secret).sign(&message);
    let id = key_id(name, &typed_key()).to_be_bytes();
    let bytes = [&id, &seconds.to_be_bytes()[..], signature.as_ref()].concat();
    format!("\u{2014} {name} {}\n", BASE64_STANDARD.encode(bytes))
}
