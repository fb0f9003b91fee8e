//! `oraclectl`: the administrators' command line, one file a verb.

pub mod actors;
pub mod adapter;
pub mod calibrate;
pub mod crosscheck;
pub mod divergence;
mod document;
pub mod drain;
mod error;
pub mod explain;
mod fit;
pub mod freshness;
pub mod get;
mod given;
pub mod health;
pub mod ingest;
pub(crate) mod lines;
pub mod log;
pub mod log_level;
pub(crate) mod look;
pub mod ontology;
pub mod outbox;
pub(crate) mod output;
pub mod pipeline;
pub mod provenance;
pub mod purge;
pub mod query;
pub mod register;
pub mod rejects;
pub mod reload;
pub mod review;
pub mod rules;
pub mod session;
pub mod source;
pub mod status;
pub mod submit;
pub mod verify;
pub mod workflow;
pub(crate) use crate::client::{Answer, AnswerLines, Client, ClientError};
use crate::platform::config::Directories;
use bytes::Bytes;
use calibrate::Calibrate;
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
pub use error::CtlError;
use hyper::body::Incoming;
use hyper::{Method, Response};
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Exit codes:
  0  done; for crosscheck: the verdict is approved; for rules check: the text comes to PASS;
     for rules eval: all cases went as wanted; for ingest run: the records are visible;
     for verify: the values are verified
  1  refused: the verdict is not approved, the session is not known, the request is not allowed,
     the probe failed, the text does not come to PASS, a case did not go as wanted, a run came
     to nothing, a decision comes out otherwise when it is taken again
  2  the command line is not understood
  3  the daemon does not answer
  4  the daemon answers that it cannot for now
  5  a file cannot be read or written, or is not what it must be, if only in some lines
  6  for verify: the question is answered, and no values are verified
  7  for ingest: the run is held and waits for approve or discard
  130  interrupted; a run goes on";

/// Steers oracled, and asks it.
#[derive(Debug, Parser)]
#[command(name = "oraclectl", version, after_help = EXIT_CODES, max_term_width = 100)]
struct Ctl {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    verb: Verb,
}

/// What every verb takes.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The routes' socket [env: ORACLED_SOCKET]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The administrators' socket [env: ORACLED_CONTROL_SOCKET]
    #[arg(long, global = true, value_name = "PATH")]
    control_socket: Option<PathBuf>,
    /// Print JSON, for programs
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// How the daemon is doing
    Status,
    /// How each actor is doing
    Actors,
    /// Judges a verdict through the daemon; it is logged, and not delivered
    Crosscheck(crosscheck::Crosscheck),
    /// Hands a verdict in for delivery, or has the model make it
    Submit(submit::Submit),
    /// Tells of a session what a later read will need to have its verdict made again
    Register(register::Register),
    /// Shows the delivered verdict of a session; one that is lost is made anew
    Get(get::Get),
    Health(health::Health),
    Outbox(outbox::Outbox),
    /// Shows the audit log
    Log(log::Log),
    /// How often which verdict was regenerated as which
    Divergence(divergence::Divergence),
    /// Removes the cached verdict of a session
    Purge(purge::Purge),
    Session(session::Session),
    /// Reject new work before a stop, and begin no scheduled pull
    Drain(drain::Drain),
    /// Opens oracle_log.jsonl anew and puts the configured log level in force
    Reload,
    /// Shows or sets what the service's own log tells
    LogLevel(log_level::LogLevel),
    Calibrate(Calibrate),
    Rules(rules::Rules),
    Ontology(ontology::Ontology),
    Source(source::Source),
    Freshness(freshness::Freshness),
    Pipeline(pipeline::Pipeline),
    Adapter(adapter::Adapter),
    Workflow(workflow::Workflow),
    Ingest(ingest::Ingest),
    Rejects(rejects::Rejects),
    Query(query::Query),
    Provenance(provenance::Provenance),
    Verify(verify::Verify),
    Explain(explain::Explain),
    Review(review::Review),
    /// Prints completions for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Prints the man page
    Man,
}

/// Does what the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let Ctl { options, verb } = Ctl::parse();
    let json = options.json;
    let out = &mut io::stdout().lock();
    let done = run(verb, &options, out);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error, json, out);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Says why a verb came to nothing, unless that was printed already.
fn complain(error: &CtlError, json: bool, out: &mut dyn Write) {
    if let (true, CtlError::Problem { document, .. }) = (json, error) {
        drop(writeln!(out, "{}", output::harmless(&document.to_string())));
    }
    let was_printed = matches!(
        error,
        CtlError::NotApproved
            | CtlError::NotVerified
            | CtlError::ProbeFailed
            | CtlError::CameToNothing
            | CtlError::Printed(_)
            | CtlError::Verb { was_printed: true, .. }
    );
    if !was_printed {
        drop(writeln!(io::stderr(), "oraclectl: {}", output::on_one_line(&error.to_string())));
    }
}

fn run(verb: Verb, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
    match verb {
        Verb::Status => ask(status::run(options, out)),
        Verb::Actors => ask(actors::run(options, out)),
        Verb::Crosscheck(verb) => ask(verb.run(options, out)),
        Verb::Submit(verb) => ask(verb.run(options, out)),
        Verb::Register(verb) => ask(verb.run(options, out)),
        Verb::Divergence(verb) => ask(verb.run(options, out)),
        Verb::Get(verb) => ask(verb.run(options, out)),
        Verb::Health(verb) => ask(verb.run(options, out)),
        Verb::Outbox(verb) => ask(verb.run(options, out)),
        Verb::Log(verb) => ask(verb.run(options, out)),
        Verb::Purge(verb) => ask(verb.run(options, out)),
        Verb::Session(verb) => ask(verb.run(options, out)),
        Verb::Drain(verb) => ask(verb.run(options, out)),
        Verb::Reload => ask(reload::run(options, out)),
        Verb::LogLevel(verb) => ask(verb.run(options, out)),
        Verb::Calibrate(verb) => Ok(verb.run(out, options.json)?),
        Verb::Rules(verb) => ask(verb.run(options, out)),
        Verb::Ontology(verb) => ask(verb.run(options, out)),
        Verb::Source(verb) => ask(verb.run(options, out)),
        Verb::Freshness(verb) => ask(verb.run(options, out)),
        Verb::Pipeline(verb) => ask(verb.run(options, out)),
        Verb::Adapter(verb) => ask(verb.run(options, out)),
        Verb::Workflow(verb) => ask(verb.run(options, out)),
        Verb::Ingest(verb) => ask(verb.run(options, out)),
        Verb::Rejects(verb) => ask(verb.run(options, out)),
        Verb::Query(verb) => ask(verb.run(options, out)),
        Verb::Provenance(verb) => ask(verb.run(options, out)),
        Verb::Verify(verb) => ask(verb.run(options, out)),
        Verb::Explain(verb) => ask(verb.run(options, out)),
        Verb::Review(verb) => ask(verb.run(options, out)),
        Verb::Completions { shell } => {
            // clap_complete panics where it cannot write
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Ctl::command(), "oraclectl", &mut script);
            Ok(out.write_all(&script)?)
        }
        Verb::Man => man(out),
    }
}

/// One page for all verbs: each with the help that it prints.
fn man(out: &mut dyn Write) -> Result<(), CtlError> {
    let mut command = Ctl::command();
    command.build();
    let page = clap_mangen::Man::new(command.clone());
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    for verb in command.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
        let help = verb.render_long_help().to_string().replace('\\', "\\e").replace("\n.", "\n\\&.");
        write!(out, ".SH {}\n.nf\n{help}\n.fi\n", verb.get_name().to_uppercase())?;
    }
    let (_, codes) = EXIT_CODES.split_once('\n').unwrap_or_default();
    Ok(write!(out, ".SH EXIT STATUS\n.nf\n{codes}\n.fi\n")?)
}

/// Runs a verb that talks to the daemon.
fn ask(verb: impl Future<Output = Result<(), CtlError>>) -> Result<(), CtlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CtlError::Output)?.block_on(verb)
}

impl Options {
    fn routes_path(&self) -> PathBuf {
        socket(self.socket.as_ref(), "ORACLED_SOCKET", "oracled.sock")
    }

    fn control_path(&self) -> PathBuf {
        socket(self.control_socket.as_ref(), "ORACLED_CONTROL_SOCKET", "control.sock")
    }

    async fn on_routes(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Answer, CtlError> {
        call(&self.routes_path(), method, path, body).await
    }

    /// Has something done on the administrators' socket that takes the time that it takes.
    async fn done_on_control(&self, path: &str, order: &impl serde::Serialize) -> Result<Answer, CtlError> {
        let body = serde_json::to_vec(order).map_err(io::Error::from)?;
        let mut client = Client::connect(&self.control_path()).await?;
        let answer = client.call_however_long(Method::POST, path, body.into()).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(problem(&answer)) }
    }

    async fn on_control(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Answer, CtlError> {
        call(&self.control_path(), method, path, body).await
    }
}

/// A socket: as given, else as a variable says, else systemd's if it is there, else the user's own. clap, told of the variable,
/// would show the flag in every usage as one that has to be given.
fn socket(given: Option<&PathBuf>, variable: &str, name: &str) -> PathBuf {
    let set = || std::env::var_os(variable).map(PathBuf::from);
    given.cloned().or_else(set).unwrap_or_else(|| Directories::socket(name))
}

async fn call(socket: &Path, method: Method, path: &str, body: Option<Bytes>) -> Result<Answer, CtlError> {
    let answer = Client::connect(socket).await?.call(method, path, body).await?;
    if answer.status.is_success() { Ok(answer) } else { Err(problem(&answer)) }
}

/// The lines of an answer, where it is one of success.
async fn answer_lines(response: Response<Incoming>) -> Result<AnswerLines, CtlError> {
    if response.status().is_success() {
        return Ok(AnswerLines::of(response.into_body()));
    }
    Err(problem(&Answer::whole(response).await?))
}

/// The error in an answer that is none of success.
fn problem(answer: &Answer) -> CtlError {
    let status = answer.status.as_u16();
    let Ok(document) = answer.json::<serde_json::Value>() else {
        let text = format!("status {status} without a problem document");
        return ClientError::Unreadable(text).into();
    };
    let text =
        |name: &str| document.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    CtlError::Problem { detail: text("detail"), code: text("code"), status, document }
}

/// The text of a file, or of standard input where it is called `-`.
fn read_text(file: &Path) -> Result<String, CtlError> {
    let read =
        if file == Path::new("-") { io::read_to_string(io::stdin()) } else { std::fs::read_to_string(file) };
    read.map_err(|cause| CtlError::Read { file: file.display().to_string(), cause })
}

/// The facts in a file, one a line; blank lines are none.
fn facts(file: &Path) -> Result<Vec<String>, CtlError> {
    let text = read_text(file)?;
    Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

/// Who is asked for facts, as a file says: the list of a request's `facts_from`.
fn facts_from(file: &Path) -> Result<serde_json::Value, CtlError> {
    let text = read_text(file)?;
    serde_json::from_str(&text).map_err(|error| CtlError::Read {
        file: file.display().to_string(),
        cause: io::Error::other(format!("it is no JSON: {error}")),
    })
}

/// Takes a file by its name: what `-` means elsewhere would be in the way of the rest of the command line.
fn regular_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|file| {
        if file == Path::new("-") { Err("a file is named here; `-` is not taken") } else { Ok(file) }
    })
}

/// One segment of a path, with everything escaped that could end it.
fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
