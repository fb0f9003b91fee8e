//! `oraclectl rules eval` against simulated daemons, each with a given behavior.

mod tally;

use super::*;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use oracled_api::streamed_body::{StreamedBody, StreamedBodySender};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::UnixListener;

type SimulatedBody = Either<Full<Bytes>, StreamedBody>;

/// How a simulated daemon answers.
#[derive(Clone)]
struct SimulatedAnswers {
    /// Number of lines that are sent together.
    at_once: usize,
    /// The line for each request; `None` ends the answer there.
    line: Arc<dyn Fn(u64, Value) -> Option<String> + Send + Sync>,
    /// Text after the last line.
    last: &'static str,
}

impl SimulatedAnswers {
    /// Answers like the real daemon. The verdict is the request's `context`.
    fn plain() -> Self {
        let line = |line, request: Value| {
            let verdict = request["context"].as_str().unwrap_or("PASS").to_owned();
            Some(answer(line, &request, &verdict, &[]))
        };
        Self { at_once: 1, line: Arc::new(line), last: "" }
    }

    fn of(line: impl Fn(u64, Value) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { line: Arc::new(line), ..Self::plain() }
    }
}

/// A line of an answer, with these violations of RULE-PREC-003.
fn answer(line: u64, request: &Value, verdict: &str, violations: &[Value]) -> String {
    let rule = |id: &str, verdict: &str, violations: &[Value]| {
        json!({
            "rule": id, "verdict": verdict, "violations": violations, "violations_omitted": 0,
            "cause": (verdict == "ERROR").then_some("it is broken"), "evidence": [], "evidence_omitted": 0,
            "invariant": "Q-INV-01",
        })
    };
    let rules = [rule("RULE-PREC-001", "PASS", &[]), rule("RULE-PREC-003", verdict, violations)];
    let mut answer = json!({"line": line, "evaluation": {"verdict": verdict, "rules": rules}});
    if let Some(id) = request.get("id") {
        answer["id"] = id.clone();
    }
    answer.to_string()
}

/// Answers each line of a body while the body is still arriving.
async fn answer_lines(
    manner: SimulatedAnswers,
    mut body: Incoming,
    lines: &mut StreamedBodySender,
) -> Option<()> {
    let (mut pending, mut ready, mut number) = (Vec::new(), String::new(), 0);
    while let Some(frame) = body.frame().await {
        pending.extend_from_slice(frame.ok()?.data_ref()?);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            number += 1;
            let request = serde_json::from_slice(&line).expect("a request is JSON");
            writeln!(ready, "{}", (manner.line)(number, request)?).expect("a write to a string succeeds");
            if ready.lines().count() == manner.at_once {
                // in two pieces, neither of which is a full line
                let half = ready.split_off(ready.len() / 2);
                lines.send(std::mem::replace(&mut ready, half).into()).await.ok()?;
                lines.send(std::mem::take(&mut ready).into()).await.ok()?;
            }
        }
    }
    lines.send((ready + manner.last).into()).await.ok()
}

async fn respond(
    manner: SimulatedAnswers,
    request: Request<Incoming>,
) -> Result<Response<SimulatedBody>, Infallible> {
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/v1/rules/evaluate:batch"));
    assert_eq!(request.headers()["content-type"], "application/x-ndjson");
    let (mut lines, body) = StreamedBody::new(1);
    tokio::spawn(async move {
        answer_lines(manner, request.into_body(), &mut lines).await;
        lines.finish();
    });
    Ok(Response::new(Either::Right(body)))
}

/// A directory with a daemon's socket.
struct EvalWorld(TempDir);

impl EvalWorld {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn serving<A>(manner: SimulatedAnswers, answer: fn(SimulatedAnswers, Request<Incoming>) -> A) -> Self
    where
        A: Future<Output = Result<Response<SimulatedBody>, Infallible>> + Send + 'static,
    {
        let world = Self::new();
        let listener = UnixListener::bind(world.path("socket")).unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let manner = manner.clone();
                let service = service_fn(move |request| answer(manner.clone(), request));
                let served = hyper::server::conn::http1::Builder::new();
                tokio::spawn(served.serve_connection(TokioIo::new(stream), service));
            }
        });
        world
    }

    fn with(manner: SimulatedAnswers) -> Self {
        Self::serving(manner, respond)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn cases(&self, text: &str) -> PathBuf {
        std::fs::write(self.path("cases.ndjson"), text).unwrap();
        self.path("cases.ndjson")
    }

    /// Evaluates a file. Returns the output and the result.
    async fn eval(&self, file: &Path, json: bool) -> (String, Result<(), CtlError>) {
        let options = GlobalOptions { socket: Some(self.path("socket")), control_socket: None, json };
        let eval = RulesEvalArgs { file: file.to_owned() };
        let mut out = Vec::new();
        let patient = Duration::from_secs(60);
        let ended = timeout(patient, Evaluation(&eval).run(&options, &mut out))
            .await
            .expect("the evaluation ends in time");
        (String::from_utf8(out).unwrap(), ended)
    }

    async fn eval_text(&self, text: &str, json: bool) -> (String, Result<(), CtlError>) {
        self.eval(&self.cases(text), json).await
    }
}

fn case(more: Value) -> String {
    let mut case = json!({"candidate_output": "It is always on.", "facts": []});
    case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("{case}\n")
}

fn exit_code(ended: &Result<(), CtlError>) -> u8 {
    ended.as_ref().map_or_else(CtlError::exit_code, |()| 0)
}

fn violation(start: usize, end: usize) -> Value {
    json!({
        "invariant": "Q-INV-01", "message": "`always` must not be found, and is there", "text": "always",
        "span": {"start": start, "end": end},
    })
}

#[tokio::test]
async fn cases_with_expected_results_are_a_success() {
    let world = EvalWorld::with(SimulatedAnswers::plain());
    let text = [
        case(json!({})),
        "\n".into(),
        case(json!({"id": "b", "context": "FAIL", "want": {"verdict": "FAIL"}})),
        case(json!({"id": "c", "context": "FAIL", "want": {"verdict": "FAIL", "failed": ["RULE-PREC-003"]}})),
        case(json!({"id": "d", "context": "ERROR", "want": {"verdict": "ERROR"}})),
    ];
    let (shown, ended) = world.eval_text(&text.concat(), false).await;
    assert_eq!(exit_code(&ended), 0, "{ended:?}");
    assert!(shown.starts_with("4 cases: 4 agree (100.0 %), 0 "), "{shown}");
    assert_eq!(shown.lines().count(), 1, "{shown}");
}

#[tokio::test]
async fn each_unexpected_result_is_listed_with_its_offending_words() {
    let world = EvalWorld::with(SimulatedAnswers::of(|line, request| {
        Some(match request["context"].as_str() {
            Some("problem") => {
                let problem = json!({"code": "invalid_request", "detail": "`facts` is \u{1b}[2J at line 1 column 12", "status": 400});
                json!({"line": line, "problem": problem}).to_string()
            }
            Some(verdict) => answer(line, &request, verdict, &[violation(6, 12)]),
            None => answer(line, &request, "PASS", &[]),
        })
    }));
    let text = [
        case(json!({"id": "fails", "category": "a", "note": "seen on page\n7", "context": "FAIL"})),
        case(json!({"id": "passes", "category": "a", "want": {"verdict": "FAIL"}})),
        case(
            json!({"id": "another", "context": "FAIL", "want": {"verdict": "FAIL", "failed": ["RULE-PREC-001"]}}),
        ),
        case(json!({"id": "broken", "note": "", "context": "ERROR"})),
    ];
    let (shown, ended) = world.eval_text(&text.concat(), false).await;
    assert_eq!(exit_code(&ended), 1, "{ended:?}");
    insta::assert_snapshot!("failed_cases_with_their_violations", without_rate(&shown));
    assert_eq!(shown.matches("note: ").count(), 1, "a blank note is none: {shown}");
    // an expected failure is not listed as a violation
    assert_eq!(shown.matches("»always«").count(), 2, "{shown}");

    let (shown, ended) =
        world.eval_text(&(text.concat() + &case(json!({"context": "problem"}))), false).await;
    assert_eq!(exit_code(&ended), 5, "{ended:?}");
    let problem = shown.lines().find(|line| line.contains("\\u{1b}[2J")).expect("the problem, escaped");
    insta::assert_snapshot!("line_that_is_not_a_case", problem);
}

/// An output without the time it took, which ends its last line.
fn without_rate(shown: &str) -> String {
    let lines = shown.trim_end().lines().map(|line| match line.split_once(" cases: ") {
        Some(_) => line.rsplit_once("; ").map_or(line, |(counts, _)| counts),
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn json_lines_are_the_daemon_answers_with_ok_and_want() {
    let world = EvalWorld::with(SimulatedAnswers::of(|line, request| {
        Some(format!(
            "{{\"line\":{line},\"evaluation\":{{\"verdict\":\"FAIL\", \"rules\":[],\"x\":1.50}},\"id\":{}}}",
            request["id"]
        ))
    }));
    let text =
        format!("\nnonsense\n{}", case(json!({"id": "a", "category": "c", "want": {"verdict": "FAIL"}})));
    let (shown, ended) = world.eval_text(&(text + &case(json!({"id": "b"}))), true).await;
    assert_eq!(exit_code(&ended), 5);
    let lines: Vec<_> = shown.lines().collect();
    let problem: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!((&problem["line"], &problem["ok"]), (&json!(2), &json!(false)));
    assert_eq!(problem["problem"]["code"], "invalid_json");
    assert_eq!(problem["problem"]["detail"], "the body is not JSON: expected ident, column 2");
    let evaluation = r#"{"verdict":"FAIL", "rules":[],"x":1.50}"#;
    assert_eq!(
        lines[1..],
        [
            format!(
                r#"{{"line":3,"id":"a","evaluation":{evaluation},"ok":true,"want":{{"verdict":"FAIL"}}}}"#
            ),
            format!(
                r#"{{"line":4,"id":"b","evaluation":{evaluation},"ok":false,"want":{{"verdict":"PASS"}}}}"#
            ),
        ]
    );
}

#[tokio::test]
async fn invalid_line_is_reported_and_the_others_are_evaluated() {
    let world = EvalWorld::with(SimulatedAnswers::plain());
    let long = "x".repeat(input::LINE_MAX_BYTES + 1);
    let text = format!("{}[]\n{long}\n{}{{\"facts\":[]}}\n", case(json!({})), case(json!({})));
    let (shown, ended) = world.eval_text(&text, false).await;
    assert_eq!(exit_code(&ended), 5);
    let error = ended.unwrap_err().to_string();
    let error = &error[error.find("cases.ndjson").expect("the name of the file")..];
    insta::assert_snapshot!("lines_that_are_not_cases", format!("{}\n{error}", without_rate(&shown)));
    // the exit status is the same if no line is a case
    let (_, ended) = world.eval_text(&"nonsense\n".repeat(1000), false).await;
    assert_eq!(exit_code(&ended), 5);
    for empty in ["", "\n \n"] {
        let (shown, ended) = world.eval_text(empty, false).await;
        assert!(shown.is_empty() && exit_code(&ended) == 5, "{shown}");
        assert!(ended.unwrap_err().to_string().contains("cases.ndjson"));
    }
}

#[tokio::test]
async fn late_answers_in_groups_beyond_the_cases_in_flight_are_accepted() {
    for at_once in [1, 7, 200, usize::MAX] {
        let world = EvalWorld::with(SimulatedAnswers { at_once, ..SimulatedAnswers::plain() });
        let cases = if at_once == usize::MAX { 200 } else { 3000 };
        let (shown, ended) = world.eval_text(&case(json!({})).repeat(cases), false).await;
        assert_eq!(exit_code(&ended), 0, "{ended:?}");
        assert!(shown.starts_with(&format!("{cases} cases: {cases} agree")), "{shown}");
    }
}

#[tokio::test]
async fn long_cases_wait_for_one_another() {
    let world = EvalWorld::with(SimulatedAnswers::plain());
    let text = case(json!({"candidate_output": "x".repeat(3_000_000)}));
    let (shown, ended) = world.eval_text(&text.repeat(20), false).await;
    assert_eq!(exit_code(&ended), 0, "{ended:?}");
    assert!(shown.starts_with("20 cases: 20 agree"), "{shown}");
}

#[tokio::test]
async fn invalid_answer_ends_the_run_and_is_never_a_pass() {
    let plain = |line, request: &Value| Some(answer(line, request, "PASS", &[]));
    let manners = [
        ("ends before all cases", SimulatedAnswers::of(move |line, r| (line < 3).then(|| plain(line, &r))?)),
        ("line 9 instead of line 3", SimulatedAnswers::of(move |l, r| plain(if l == 3 { 9 } else { l }, &r))),
        ("another id", SimulatedAnswers::of(|line, _| Some(answer(line, &json!({"id": "x"}), "PASS", &[])))),
        (
            "either `evaluation` or `problem`",
            SimulatedAnswers::of(|line, _| Some(json!({"line": line}).to_string())),
        ),
        ("expected", SimulatedAnswers::of(|_, _| Some("nonsense".into()))),
        ("unknown variant `MAYBE`", SimulatedAnswers::of(|line, r| Some(answer(line, &r, "MAYBE", &[])))),
        ("continues after the last case", SimulatedAnswers { last: "{}\n", ..SimulatedAnswers::plain() }),
        ("ends within a line", SimulatedAnswers { last: "{", ..SimulatedAnswers::plain() }),
    ];
    for (message, manner) in manners {
        let world = EvalWorld::with(manner);
        let (_, ended) = world.eval_text(&case(json!({})).repeat(20), false).await;
        assert_eq!(exit_code(&ended), 3, "{message}: {ended:?}");
        // while cases are still being written, the client sees a daemon that closes as a broken connection
        let error = ended.unwrap_err().to_string();
        assert!(
            error.contains(message) || error.starts_with("the connection to oracled broke"),
            "{message}: {error}"
        );
    }
}

#[tokio::test]
async fn missing_or_refusing_daemon_gives_the_usual_exit_codes() {
    let (shown, ended) = EvalWorld::new().eval_text(&case(json!({})), false).await;
    assert!(shown.is_empty() && exit_code(&ended) == 3, "{ended:?}");
    for (status, code) in [(StatusCode::NOT_FOUND, 1), (StatusCode::SERVICE_UNAVAILABLE, 4)] {
        let world = if code == 1 {
            EvalWorld::serving(SimulatedAnswers::plain(), |_, _| refused(StatusCode::NOT_FOUND))
        } else {
            EvalWorld::serving(SimulatedAnswers::plain(), |_, _| refused(StatusCode::SERVICE_UNAVAILABLE))
        };
        let (_, ended) = world.eval_text(&case(json!({})).repeat(2000), false).await;
        assert_eq!(exit_code(&ended), code, "{status}: {ended:?}");
    }
    let world = EvalWorld::with(SimulatedAnswers::of(|line, _| {
        let problem = json!({"code": "internal_error", "detail": "the handler panicked", "status": 500});
        Some(json!({"line": line, "problem": problem}).to_string())
    }));
    let (_, ended) = world.eval_text(&(case(json!({})) + "nonsense\n"), false).await;
    assert_eq!(exit_code(&ended), 4, "{ended:?}");
}

async fn refused(status: StatusCode) -> Result<Response<SimulatedBody>, Infallible> {
    let document = json!({"code": "refused", "detail": "not now", "status": status.as_u16()}).to_string();
    let mut response = Response::new(Either::Left(Full::new(document.into())));
    *response.status_mut() = status;
    Ok(response)
}

#[tokio::test]
async fn unreadable_file_is_an_error_with_its_cause() {
    let world = EvalWorld::with(SimulatedAnswers::plain());
    for (file, message) in [(world.path("absent"), "No such file"), (world.path(""), "directory")] {
        let (_, ended) = world.eval(&file, false).await;
        assert_eq!(exit_code(&ended), 5);
        assert!(ended.unwrap_err().to_string().contains(message));
    }
}

#[tokio::test]
async fn failed_output_is_not_a_success() {
    struct ClosedOutput;
    impl Write for ClosedOutput {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let world = EvalWorld::with(SimulatedAnswers::plain());
    let file = world.cases(&case(json!({"context": "FAIL"})));
    let eval = RulesEvalArgs { file };
    for (json, code) in [(true, 5), (false, 1)] {
        let options = GlobalOptions { socket: Some(world.path("socket")), control_socket: None, json };
        let ended = Evaluation(&eval).run(&options, &mut ClosedOutput).await;
        assert_eq!(exit_code(&ended), code, "{ended:?}");
        assert!(!ended.unwrap_err().is_broken_pipe());
    }
}

#[tokio::test]
async fn table_is_harmless_for_any_input() {
    let world = EvalWorld::with(SimulatedAnswers::of(|line, request| {
        let verdict = request["context"].as_str().unwrap_or("PASS").to_owned();
        let mut violation = violation(0, 3);
        violation["message"] = json!("]]> & <b> \"'\u{0}\u{1b}\u{ffff}\u{e000}\n é");
        Some(answer(line, &request, &verdict, &[violation]))
    }));
    let hostile = "\u{0}\u{1b}[2J<&>\"'\n\u{ffff}\u{d7ff}";
    let text = [
        case(json!({"id": "one", "category": "a"})),
        case(json!({"id": hostile, "category": "b", "context": "FAIL", "candidate_output": hostile})),
        case(json!({"id": "two", "category": "a", "note": "<page 7>", "context": "ERROR"})),
        case(json!({"category": hostile})),
        "nonsense".into(),
    ];
    let (shown, ended) = world.eval_text(&text.concat(), false).await;
    assert_eq!(exit_code(&ended), 5);
    assert!(!shown.contains(['\0', '\u{1b}']), "{shown}");
}

#[tokio::test]
async fn listed_cases_and_categories_are_bounded() {
    let world = EvalWorld::with(SimulatedAnswers::plain());
    let text: String =
        (0..1500).map(|n| case(json!({"category": format!("c{n}"), "context": "FAIL"}))).collect();
    let (shown, ended) = world.eval_text(&text, false).await;
    assert_eq!(exit_code(&ended), 1);
    assert!(shown.lines().count() < 1200, "{shown}");
    let counts = without_rate(&shown);
    let is_left_out = |line: &&str| line.starts_with("500 ") || line.starts_with("other ");
    let left_out: Vec<_> = counts.lines().map(str::trim).filter(is_left_out).collect();
    insta::assert_snapshot!("cases_and_categories_that_are_left_out", left_out.join("\n"));
}
