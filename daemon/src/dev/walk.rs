//! The walk: it sends the requests of a chapter, checks their responses, and prints the chapter.

use super::DevUpstreams;
use actors_platform::clock::monotonic;
use anyhow::{Context, bail};
use domain_base::visible::visible_line;
use hyper::{Method, StatusCode};
use oracled_api::client::{ClientError, DaemonClient, DaemonResponse};
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Time limit for a change that happens without a further request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of characters of a line: with its indent, it fits 100 columns.
const LINE_CHARS: usize = 96;
/// Maximum number of characters shown of a body.
const BODY_CHARS: usize = 4000;

pub(super) type ChapterLines = Vec<String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DevSocket {
    Routes,
    Control,
}

/// A walk in progress.
#[derive(Debug)]
pub(super) struct DevWalk<'w> {
    pub(super) outside: &'w DevUpstreams,
    /// The record and the decision that the commands to try show.
    pub(super) record_id: String,
    pub(super) execution_id: String,
    /// Number of chapters, by result.
    pub(super) passed: usize,
    pub(super) unchecked: usize,
    pub(super) failed: usize,
    socket: PathBuf,
    routes: DaemonClient,
    control: DaemonClient,
    /// The number of the last log entry before the walk. Ids contain it, so that several walks can use one
    /// store.
    before: u64,
    is_verbose: bool,
    is_colored: bool,
    /// Whether the responses of the current chapter are known in advance.
    is_checked: bool,
    /// The last request.
    request: String,
    /// The requests and responses of the current chapter.
    detail: String,
}

impl<'w> DevWalk<'w> {
    /// Connects to a daemon.
    pub(super) async fn start(
        outside: &'w DevUpstreams,
        socket: &Path,
        control_socket: &Path,
        is_verbose: bool,
    ) -> anyhow::Result<Self> {
        let mut walk = Self {
            outside,
            record_id: String::new(),
            execution_id: String::new(),
            passed: 0,
            unchecked: 0,
            failed: 0,
            socket: socket.to_owned(),
            routes: DaemonClient::connect(socket).await?,
            control: DaemonClient::connect(control_socket).await?,
            before: 0,
            is_verbose,
            is_colored: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            is_checked: true,
            request: String::new(),
            detail: String::new(),
        };
        let status = walk.control(Method::GET, "/v1/status", "", StatusCode::OK).await?;
        walk.before = status.get("entries").and_then(Value::as_u64).context("the status has no `entries`")?;
        Ok(walk)
    }

    /// The id of a session, document or source of this walk.
    pub(super) fn id(&self, name: &str) -> String {
        format!("dev-{}-{name}", self.before)
    }

    /// Runs a chapter and prints its lines. A chapter ends at its first unexpected response, which is a failure only if
    /// the chapter is checked. Returns whether the chapter reached its end.
    pub(super) async fn chapter(
        &mut self,
        title: &str,
        is_checked: bool,
        run: impl AsyncFnOnce(&mut Self) -> anyhow::Result<ChapterLines>,
    ) -> io::Result<bool> {
        self.detail.clear();
        self.is_checked = is_checked;
        let ran = run(self).await;
        let (mark, code, count) = match (is_checked, &ran) {
            (false, _) => ("·", 33, &mut self.unchecked),
            (true, Ok(_)) => ("✓", 32, &mut self.passed),
            (true, Err(_)) => ("✗", 31, &mut self.failed),
        };
        *count += 1;
        let mark = self.colored(mark, code);
        let mut out = io::stdout().lock();
        let is_ok = ran.is_ok();
        match ran {
            Ok(lines) => {
                writeln!(out, "{mark} {title}")?;
                for line in lines {
                    writeln!(out, "    {}", shortened(&line, LINE_CHARS))?;
                }
            }
            Err(fault) => {
                let fault = format!("{}: {fault:#}", self.request);
                writeln!(out, "{mark} {title}: {}", shortened(&fault, BODY_CHARS))?;
            }
        }
        let detail = if self.is_verbose || !is_ok { self.detail.as_str() } else { "" };
        out.write_all(detail.as_bytes())?;
        Ok(is_ok)
    }

    /// Prints the title of a chapter that cannot run, and counts the chapter as not checked.
    pub(super) fn skip(&mut self, title: &str, reason: &str) -> io::Result<()> {
        self.unchecked += 1;
        writeln!(io::stdout(), "{} {title}: skipped, because {reason}", self.colored("·", 33))
    }

    fn colored(&self, mark: &str, code: u8) -> String {
        if self.is_colored { format!("\x1b[{code}m{mark}\x1b[0m") } else { mark.to_owned() }
    }

    /// Reads from the routes' socket.
    pub(super) async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        let answer = self.call(DevSocket::Routes, Method::GET, path, "", StatusCode::OK).await?;
        Ok(answer.json()?)
    }

    /// Posts to the routes' socket.
    pub(super) async fn post(
        &mut self,
        path: &str,
        body: &Value,
        status: StatusCode,
    ) -> anyhow::Result<Value> {
        let answer = self.call(DevSocket::Routes, Method::POST, path, &body.to_string(), status).await?;
        Ok(answer.json()?)
    }

    /// Orders a verdict, and waits for it until the first attempt fails: the daemon would try again for a day.
    pub(super) async fn order(&mut self, session: &str, request: &Value) -> anyhow::Result<Value> {
        let waiting = self.post_in_background(&format!("/v1/verdicts/{session}"), request).await?;
        let before = self.detail.len();
        while !waiting.is_finished() {
            self.detail.truncate(before);
            let orders = self.control(Method::GET, "/v1/orders?limit=1", "", StatusCode::OK).await?;
            let order = |name: &str| text(&orders, &format!("/items/0/{name}"));
            if order("session_id") == session && order("state") == "queued" && order("attempts") != "0" {
                bail!("{}", order("last_attempts/0/cause"));
            }
            sleep(PAUSE).await;
        }
        self.detail.truncate(before);
        let answer = waiting.await??;
        self.detail.push_str(&format!("      {}\n", answer.status));
        let response = String::from_utf8_lossy(&answer.body);
        self.detail.push_str(&format!("      {}\n", shortened(&response, BODY_CHARS)));
        if answer.status != StatusCode::CREATED {
            bail!("expected status 201 Created, got {}: {}", answer.status, shortened(&response, LINE_CHARS));
        }
        Ok(answer.json()?)
    }

    /// Posts to the routes' socket on a connection of its own, so that other requests can be sent while it waits.
    pub(super) async fn post_in_background(
        &mut self,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<JoinHandle<Result<DaemonResponse, ClientError>>> {
        let (mut client, path, body) =
            (DaemonClient::connect(&self.socket).await?, path.to_owned(), body.to_string());
        self.describe(&format!("POST {path}"), &body);
        Ok(tokio::spawn(async move { client.call(Method::POST, &path, Some(body.into())).await }))
    }

    /// Sends a request to the control socket.
    pub(super) async fn control(
        &mut self,
        method: Method,
        path: &str,
        body: &str,
        status: StatusCode,
    ) -> anyhow::Result<Value> {
        Ok(self.call(DevSocket::Control, method, path, body, status).await?.json()?)
    }

    /// The names of the logged events of a session, in their order.
    pub(super) async fn events(&mut self, session: &str) -> anyhow::Result<Vec<String>> {
        let path = format!("/v1/log?session={session}");
        let answer = self.call(DevSocket::Control, Method::GET, &path, "", StatusCode::OK).await?;
        let entries = serde_json::Deserializer::from_slice(&answer.body).into_iter::<Value>();
        entries.map(|entry| Ok(text(&entry?, "/event"))).collect()
    }

    /// Reads from the control socket until the value at a JSON pointer is as expected.
    pub(super) async fn wait_for(
        &mut self,
        path: &str,
        pointer: &str,
        expected: &str,
    ) -> anyhow::Result<Value> {
        let began = monotonic();
        let before = self.detail.len();
        loop {
            // the detail has only the last attempt
            self.detail.truncate(before);
            let found = self.control(Method::GET, path, "", StatusCode::OK).await?;
            if text(&found, pointer) == expected || began.elapsed() >= PATIENCE {
                self.check(&found, pointer, expected)?;
                return Ok(found);
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits for the mail whose id begins with `id`, if mails go into files. Returns its recipient and its subject.
    pub(super) async fn mail(&mut self, id: &str) -> anyhow::Result<Option<String>> {
        let Some(mailbox) = self.outside.mailbox.as_ref().filter(|_| self.is_checked) else {
            return Ok(None);
        };
        let began = monotonic();
        while began.elapsed() < PATIENCE {
            if let Some(mail) = mailbox.find_mail(id)? {
                self.describe(&format!("mail {}", mail.file.display()), &mail.text);
                let head = mail.text.lines().take(2).collect::<Vec<_>>();
                return Ok(Some(format!("mail {}", head.join(", "))));
            }
            sleep(PAUSE).await;
        }
        bail!("mail {id} did not arrive within {PATIENCE:?}")
    }

    /// Fails if the value at a JSON pointer of a response is not as expected.
    pub(super) fn check(
        &self,
        response: &Value,
        pointer: &str,
        expected: impl Into<Value>,
    ) -> anyhow::Result<()> {
        let (found, expected) = (response.pointer(pointer), expected.into());
        if self.is_checked && found != Some(&expected) {
            bail!("expected {expected} at {pointer}, got {}", found.unwrap_or(&Value::Null));
        }
        Ok(())
    }

    async fn call(
        &mut self,
        socket: DevSocket,
        method: Method,
        path: &str,
        body: &str,
        status: StatusCode,
    ) -> anyhow::Result<DaemonResponse> {
        let client = if socket == DevSocket::Routes { &mut self.routes } else { &mut self.control };
        self.request = format!("{method} {path}");
        let sent = (!body.is_empty()).then(|| body.to_owned().into());
        let answer = client.call(method, path, sent).await?;
        let suffix = if socket == DevSocket::Routes { "" } else { " (control socket)" };
        self.describe(&format!("{}{suffix}", self.request), body);
        self.detail.push_str(&format!("      {}\n", answer.status));
        let response = String::from_utf8_lossy(&answer.body);
        self.detail.push_str(&format!("      {}\n", shortened(&response, BODY_CHARS)));
        if answer.status != status {
            let problem: Value = answer.json().unwrap_or_default();
            bail!("expected status {status}, got {}: {}", answer.status, text(&problem, "/detail"));
        }
        Ok(answer)
    }

    fn describe(&mut self, title: &str, body: &str) {
        self.detail.push_str(&format!("    {title}\n"));
        if !body.is_empty() {
            self.detail.push_str(&format!("      {}\n", shortened(body, BODY_CHARS)));
        }
    }
}

/// The value at a JSON pointer: a text without its quotes, any other value as JSON.
pub(super) fn text(document: &Value, pointer: &str) -> String {
    match document.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        found => found.unwrap_or(&Value::Null).to_string(),
    }
}

/// `text` on one visible line, and shortened.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let count = line.chars().count();
    let cut: String =
        line.chars().take(if count > chars { chars.saturating_sub(1) } else { count }).collect();
    visible_line(&cut).into_owned() + if count > chars { "…" } else { "" }
}
