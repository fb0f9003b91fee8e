//! Mail to customers: by HTTP and SMTP over real sockets, and from a delivery through the outbox.

use crate::wording::stable;
use actors_platform::clock::Clock;
use actors_upstream::RequestFailureKind;
use actors_upstream::mail::{
    HttpMailService, MailHeading, MailService, SmtpMailService, SmtpSettings, SmtpTls,
};
use actors_upstream::oracle_health::OracleProbe;
use domain_base::payload::VerdictPayload;
use domain_base::upstream_text::UpstreamText;
use domain_upstream::health::CircuitCallOutcome;
use domain_verdict::crosscheck::judge;
use domain_verdict::delivery::{RegenNotes, VerdictDelivery};
use domain_verdict::divergence::{DISCLAIMER, NoteLanguage, OriginalLabel};
use domain_verdict::label::{ProductTier, VerdictLabel};
use domain_verdict::mail::{MailFailureCause, MailKind, MailSendFailure, OutboxMail};
use domain_verdict::query::CustomerQuery;
use hyper::Method;
use oracled_tests::console::ConsoleProcess;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, at, call, document, eventually, get, log, post, problem, submission,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs};
use tokio::net::TcpListener;

const PATIENCE: Duration = Duration::from_secs(5);

fn mail_to(to: &str, kind: MailKind) -> OutboxMail {
    let original = OriginalLabel(Some(VerdictLabel::Red));
    let delivery = VerdictDelivery {
        session_id: "cs_1".parse().expect("an id"),
        query: CustomerQuery::new("Sell \"honey\"?\r\nBcc: x@y.org".into()),
        approved: judge(ProductTier::Quick, VerdictPayload::raw(GOOD))
            .outcome
            .expect("the verdict is coherent"),
        cached_at: "2026-11-20T10:00:00Z".parse().expect("a time"),
        regen: (kind == MailKind::DivergenceNotice).then_some(RegenNotes {
            original,
            prompt_changed: false,
            settings_changed: false,
            reasked: false,
            language: NoteLanguage::En,
        }),
        evaluation_sha256: None,
    };
    OutboxMail::queued(kind, Arc::new(delivery), to.to_owned().try_into().expect("an address"))
}

fn mail(kind: MailKind) -> OutboxMail {
    mail_to("a@example.org", kind)
}

fn by_http(base: &str, hard_timeout: Duration) -> HttpMailService {
    HttpMailService::new(base, hard_timeout, Clock::system()).expect("a service")
}

#[tokio::test]
async fn mail_is_posted_with_its_fields_and_an_idempotency_key() {
    let server = ModelServer::start().await;
    let service = by_http(&format!("{}/base/", server.url()), PATIENCE);
    assert_eq!(service.oracle_id().as_str(), "mail");
    for kind in [MailKind::Verdict, MailKind::DivergenceNotice] {
        service.send(&mail(kind), None).await.expect("the request is accepted");
    }
    let [verdict, notice] = &server.requests()[..] else { panic!("two mails") };
    for (seen, mail_id) in [(verdict, "verdict:cs_1"), (notice, "divergence:cs_1:1795168800000000")] {
        assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/base/send-verdict-email"));
        assert_eq!(seen.header("idempotency-key"), Some(mail_id));
        assert_eq!(seen.header("content-type"), Some("application/json"));
    }
    let mut body = json!({
        "to": "a@example.org",
        "session_id": "cs_1",
        "tier": "quick",
        "query": "Sell \"honey\"?\r\nBcc: x@y.org",
        "verdict": {"verdict": "GREEN", "summary": "A sound and simple plan."},
        "kind": "verdict",
        "mail_id": "verdict:cs_1",
    });
    assert_eq!(verdict.body, body);
    body["kind"] = json!("divergence_notice");
    body["mail_id"] = json!("divergence:cs_1:1795168800000000");
    body["disclaimer"] = json!(DISCLAIMER);
    body["original_verdict"] = json!("RED");
    assert_eq!(notice.body, body);
}

#[tokio::test]
async fn mail_status_decides_between_sent_retry_and_dead() {
    let server = ModelServer::start().await;
    let service = by_http(&server.url(), PATIENCE);
    for status in [200, 201, 202, 204] {
        server.next([ScriptedReply::bytes(status, if status == 204 { "" } else { "ok" })]);
        assert_eq!(service.send(&mail(MailKind::Verdict), None).await, Ok(()), "{status}");
    }
    for (status, permanent) in [
        (400, true),
        (410, true),
        (413, true),
        (422, true),
        (301, false),
        (401, false),
        (403, false),
        (404, false),
        (408, false),
        (429, false),
        (500, false),
        (502, false),
        (503, false),
        (504, false),
    ] {
        server.next([
            ScriptedReply::bytes(status, "no\u{7} such\nuser").header("location", "http://127.0.0.1:9/")
        ]);
        let failed = service.send(&mail(MailKind::Verdict), None).await.expect_err("an error");
        let cause = format!("HTTP status {status}: no\\u{{7}} such\\nuser");
        let fault = match status {
            _ if permanent => MailFailureCause::MailForGood,
            429 => MailFailureCause::Mail,
            _ => MailFailureCause::Service,
        };
        let (kind, cause) = (RequestFailureKind::Status(status), UpstreamText::new(cause));
        assert_eq!(failed, MailSendFailure { kind, cause, fault, retry_after: None });
    }
    assert_eq!(server.request_count(), 18, "the client neither retries nor follows redirects");
    for (header, wait_s) in [("7", Some(7)), ("999999999", Some(999_999_999)), ("soon", None)] {
        server.next([ScriptedReply::bytes(503, "").header("retry-after", header)]);
        let failed = service.send(&mail(MailKind::Verdict), None).await.expect_err("an error");
        assert_eq!(failed.retry_after.map(|wait| wait.as_secs()), wait_s, "{header}");
    }
}

#[tokio::test]
async fn mail_with_an_accepting_status_is_sent_for_any_answer_body() {
    let server = ModelServer::start().await;
    let service = by_http(&server.url(), Duration::from_millis(500));
    for reply in [
        ScriptedReply::bytes(200, vec![b'x'; 64 * 1024 + 1]),
        ScriptedReply::bytes(202, vec![b'x'; 1000]).cut_after(10),
    ] {
        server.next([reply.clone()]);
        assert_eq!(service.send(&mail(MailKind::Verdict), None).await, Ok(()), "{reply:?}");
    }
    // a permanent refusal by status stays permanent
    server.next([ScriptedReply::bytes(422, vec![b'x'; 1000]).cut_after(10)]);
    let failed = service.send(&mail(MailKind::Verdict), None).await.expect_err("an error");
    assert!(failed.is_permanent() && failed.cause.reveal().starts_with("HTTP status 422: "), "{failed:?}");
}

#[tokio::test]
async fn mail_is_retried_if_the_service_is_unreachable_or_silent() {
    let server = ModelServer::start().await;
    let service = by_http(&server.url(), Duration::from_millis(500));
    for (reply, cause) in [
        (ScriptedReply::hang_up(), RequestFailureKind::Broken.to_string()),
        (ScriptedReply::silence(), RequestFailureKind::Timeout.to_string()),
        (
            ScriptedReply::bytes(503, vec![b'x'; 64 * 1024 + 1]),
            format!("{}: {}", RequestFailureKind::Status(503), RequestFailureKind::TooLarge),
        ),
    ] {
        server.next([reply]);
        let began = Instant::now();
        let failed = service.send(&mail(MailKind::Verdict), None).await.expect_err("an error");
        assert!(failed.cause.reveal().starts_with(&cause), "{failed:?}");
        assert!(!failed.is_permanent() && began.elapsed() < PATIENCE, "{failed:?}");
    }
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let unreachable = by_http(&format!("http://{free}"), PATIENCE);
    let failed = unreachable.send(&mail(MailKind::Verdict), None).await.expect_err("no server listens");
    let cause = RequestFailureKind::Connect.to_string();
    assert!(failed.cause.reveal().starts_with(&cause) && !failed.is_permanent(), "{failed:?}");
    assert!(matches!(unreachable.probe().await, CircuitCallOutcome::Failure(_)), "no server listens");
}

#[tokio::test]
async fn probe_fails_on_no_answer_or_500_and_is_neutral_on_404() {
    let server = ModelServer::start().await;
    let service = by_http(&server.url(), Duration::from_millis(500));
    let success = CircuitCallOutcome::Success { latency_ms: None };
    for (reply, probed) in [
        (ScriptedReply::bytes(200, "hello"), success),
        (ScriptedReply::bytes(200, vec![b'x'; 70_000]), success),
        (ScriptedReply::bytes(404, ""), CircuitCallOutcome::Neutral),
        (ScriptedReply::bytes(405, vec![b'x'; 70_000]), CircuitCallOutcome::Neutral),
        (ScriptedReply::bytes(302, ""), CircuitCallOutcome::Neutral),
        (ScriptedReply::bytes(500, "no"), CircuitCallOutcome::Failure(RequestFailureKind::Status(500))),
        (ScriptedReply::bytes(503, "later"), CircuitCallOutcome::Failure(RequestFailureKind::Status(503))),
        (ScriptedReply::silence(), CircuitCallOutcome::Failure(RequestFailureKind::Timeout)),
    ] {
        server.set_probe_reply(reply);
        assert_eq!(service.probe().await, probed);
    }
    assert!(server.probes().iter().all(|seen| seen.method == "GET" && seen.path == "/"));
    assert_eq!(server.request_count(), 0, "a probe sends no mail");
}

fn config(base_url: &str) -> String {
    format!("[mail]\ntransport = \"http\"\nbase_url = \"{base_url}\"\n")
}

/// Delivers a verdict to a session with an address.
async fn deliver(daemon: &DaemonProcess<'_>, session: &str) {
    let body =
        json!({"tier": "quick", "query": "Sell honey?", "raw": GOOD, "customer_email": "a@example.org"});
    let answer = post(&mut daemon.routes().await, &format!("/v1/verdicts/{session}"), &body).await;
    assert_eq!(answer.status, 201, "{}", document(&answer));
}

async fn outbox(daemon: &DaemonProcess<'_>, question: &str) -> Value {
    let answer = get(&mut daemon.control().await, &format!("/v1/outbox?{question}")).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    document(&answer)
}

#[tokio::test]
async fn mail_of_a_delivery_survives_a_kill_and_is_sent_once() {
    let server = ModelServer::start().await;
    let mut world = DaemonWorld::with_config(&config("http://127.0.0.1:9"));
    let daemon = world.serve().await;
    for _ in 0..2 {
        let mut body = submission(GOOD);
        body["customer_email"] = json!("a@example.org");
        post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &body).await;
    }
    let mails = outbox(&daemon, "").await["items"].clone();
    assert_eq!(mails.as_array().map(Vec::len), Some(1), "{mails}");
    assert_eq!((&mails[0]["mail_id"], &mails[0]["to"]), (&json!("verdict:cs_1"), &json!("a@example.org")));
    daemon.kill();

    world.config = config(&server.url());
    let daemon = world.serve().await;
    eventually("it is sent", async || outbox(&daemon, "").await["items"] == json!([])).await;
    assert_eq!(server.request_count(), 1);
    assert_eq!(server.requests()[0].header("idempotency-key"), Some("verdict:cs_1"));
    let control = &mut daemon.control().await;
    eventually("the log has the entry", async || log(control, "event=message_sent").await.len() == 1).await;
    assert_eq!(log(control, "event=message_queued").await.len(), 1);
    let oracles = document(&get(control, "/v1/health/oracles").await);
    assert!(oracles.as_array().unwrap().iter().any(|oracle| oracle["oracle_id"] == "mail"), "{oracles}");
    for line in [
        "oracled_mails_total{kind=\"verdict\",outcome=\"sent\"} 1\n",
        "oracled_outbox_depth{state=\"queued\"} 0\n",
        "oracled_outbox_depth{state=\"dead\"} 0\n",
        "oracled_outbox_oldest_age_seconds 0\n",
    ] {
        eventually(line, async || {
            let metrics = get(&mut daemon.routes().await, "/metrics").await;
            String::from_utf8_lossy(&metrics.body).contains(line)
        })
        .await;
    }
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn mail_double_dot_is_sent_quoted_and_impossible_addresses_are_refused_at_every_door() {
    let server = ModelServer::start().await;
    let world = DaemonWorld::with_config(&config(&server.url()));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let mut body = submission(GOOD);
    for (n, address) in
        ["aaa..bbb@carrier.example", ".aaa@carrier.example", "aaa.@carrier.example"].iter().enumerate()
    {
        body["customer_email"] = json!(address);
        assert_eq!(post(routes, &format!("/v1/verdicts/cs_{n}"), &body).await.status, 201, "{address}");
    }
    eventually("the mails are sent", async || server.request_count() == 3).await;
    let mut sent: Vec<_> = server.requests().iter().map(|mail| mail.body["to"].clone()).collect();
    sent.sort_unstable_by_key(ToString::to_string);
    let quoted = ["\".aaa\"@carrier.example", "\"aaa..bbb\"@carrier.example", "\"aaa.\"@carrier.example"];
    assert_eq!(sent, quoted.map(Value::from));
    assert_eq!(at(&get(control, "/v1/sessions/cs_0").await, "/customer_email"), "aaa..bbb@carrier.example");

    let long = format!("{}@carrier.example", "a".repeat(65));
    for address in ["a@example..org", "a@.example.org", "a@example.org.", "a@-example.org", "\"a\"@b", &long]
    {
        let given = json!({"tier": "quick", "query": "Sell honey?", "customer_email": address});
        let mut submitted = given.clone();
        submitted["raw"] = json!(GOOD);
        // an order, a submission, a registration
        problem(&post(routes, "/v1/verdicts/cs_x", &given).await, 400, "invalid_request");
        problem(&post(routes, "/v1/verdicts/cs_x", &submitted).await, 400, "invalid_request");
        let registered = call(routes, Method::PUT, "/v1/sessions/cs_x", Some(given.to_string().into())).await;
        problem(&registered, 400, "invalid_request");
        let correction = json!({"customer_email": address}).to_string();
        let corrected = call(control, Method::PATCH, "/v1/sessions/cs_0", Some(correction.into())).await;
        problem(&corrected, 400, "invalid_request");
    }
    assert_eq!(outbox(&daemon, "").await["items"], json!([]));
}

/// Output of a run with this exit code.
fn printed(output: &Output, code: i32) -> String {
    let stderr_text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr_text}");
    format!("{}{stderr_text}", String::from_utf8_lossy(&output.stdout))
}

#[tokio::test]
async fn console_acts_on_a_dead_letter_only_after_a_second_press() {
    let server = ModelServer::start().await;
    server.set_default(ScriptedReply::bytes(422, "no such user"));
    let world = DaemonWorld::with_config(&config(&server.url()));
    let daemon = world.serve().await;
    for session in ["cs_1", "cs_2"] {
        deliver(&daemon, session).await;
    }
    let dead = async || outbox(&daemon, "dead=true").await["items"].as_array().map(Vec::len);
    eventually("all are dead", async || dead().await == Some(2)).await;
    let mut console = ConsoleProcess::start(&world);
    console.log_in().await;
    let path = "/dead/outbox/verdict%3Acs_1";
    let asked = console.post(path, &[("action", "drop")]).await;
    assert_eq!(asked.status, 200);
    assert!(asked.text.contains(r#"name="confirmed" value="drop""#), "{}", asked.text);
    // another action was confirmed
    let asked = console.post(path, &[("action", "requeue"), ("confirmed", "drop")]).await;
    assert_eq!(asked.status, 200);
    assert!(asked.text.contains(r#"name="confirmed" value="requeue""#), "{}", asked.text);
    assert_eq!(dead().await, Some(2));
    let next = "/dead/outbox/verdict%3Acs_2";
    let removed = console.post(path, &[("action", "drop"), ("confirmed", "drop"), ("next", next)]).await;
    assert!(removed.location().starts_with(next), "{}", removed.location());
    let next = console.get(removed.location()).await.text;
    // the note names the message, and leads to it
    let (_, note) = next.split_once("role=\"status\" data-after-action").expect("a note");
    let (_, note) = note.split_once("<strong>").expect("its text");
    let (note, _) = note.split_once("</a>").expect("its link");
    insta::assert_snapshot!("note_on_a_removed_message", note);
    assert_eq!(dead().await, Some(1));
    let gone = console.get(path).await;
    assert!(gone.status == 200 && !gone.text.contains("name=\"action\""), "{}", gone.text);
    assert!(gone.text.contains("href=\"/sessions/cs_1\""), "{}", gone.text);
}

#[tokio::test]
async fn dead_letters_can_be_listed_requeued_and_dropped() {
    let server = ModelServer::start().await;
    server.set_default(ScriptedReply::bytes(422, "no such \u{1b}[2Juser"));
    let world = DaemonWorld::with_config(&config(&server.url()));
    let daemon = world.serve().await;
    for session in ["cs_1", "cs_2", "cs_3"] {
        deliver(&daemon, session).await;
    }
    let dead = async || outbox(&daemon, "dead=true").await["items"].as_array().map(Vec::len);
    eventually("all are dead", async || dead().await == Some(3)).await;

    let shown = printed(&world.ctl(&["outbox", "--dead"]), 0);
    for message in ["verdict:cs_1", "a@example.org", "dead", "422"] {
        assert!(shown.contains(message), "{message} in {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");
    let inbox = printed(&world.ctl(&["inbox", "--kind", "dead_mail"]), 0);
    assert!(inbox.contains("3 dead_mail") && inbox.contains("cs_1"), "{inbox}");
    let page = printed(&world.ctl(&["outbox", "-n", "2", "--json"]), 0);
    let page: Value = serde_json::from_str(&page).expect("valid JSON");
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next"]), (2, &json!("verdict:cs_2")));
    let shown = printed(&world.ctl(&["outbox", "--after", "verdict:cs_2"]), 0);
    assert!(shown.contains("cs_3") && !shown.contains("cs_1"), "{shown}");

    let dropped = printed(&world.ctl(&["outbox", "drop", "verdict:cs_2"]), 0);
    assert!(printed(&world.ctl(&["outbox", "drop", "verdict:cs_2"]), 1).contains("(mail_unknown)"));
    let invalid = printed(&world.ctl(&["outbox", "requeue", "a b"]), 2);
    printed(&world.ctl(&["outbox", "requeue"]), 2);
    assert!(printed(&world.ctl(&["outbox", "requeue", "verdict:cs_9"]), 1).contains("(mail_unknown)"));
    printed(&world.ctl(&["outbox", "requeue", "verdict:cs_1"]), 0);
    eventually("it is dead again", async || server.request_count() == 4 && dead().await == Some(2)).await;

    server.set_default(ScriptedReply::bytes(200, ""));
    let requeued = printed(&world.ctl(&["outbox", "requeue", "--all-dead"]), 0);
    insta::assert_snapshot!("answers_of_oraclectl_outbox", [dropped, invalid, requeued].join("\n"));
    eventually("they are sent", async || outbox(&daemon, "").await["items"] == json!([])).await;
    let control = &mut daemon.control().await;
    for (event, times) in [("message_requeued", 3), ("message_dropped", 1)] {
        let entries = log(control, &format!("event={event}")).await;
        assert_eq!(entries.len(), times, "{entries:?}");
        assert!(entries.iter().all(|entry| entry["peer"]["uid"].is_u64()), "{entries:?}");
    }
    let last = log(control, "event=message_failed").await.pop().expect("an entry");
    assert_eq!(last.get("next_attempt_at"), Some(&Value::Null), "{last}");
}

#[tokio::test]
async fn invalid_outbox_request_is_refused() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for question in ["limit=0", "limit=1001", "limit=x", "dead=maybe", "after=%20", "x=1"] {
        problem(&get(control, &format!("/v1/outbox?{question}")).await, 400, "invalid_request");
    }
    problem(&post(control, "/v1/outbox/a%20b", &json!({"action": "requeue"})).await, 400, "invalid_request");
    problem(&post(control, "/v1/outbox/m", &json!({"action": "send"})).await, 400, "invalid_request");
    problem(&post(control, "/v1/outbox/m", &json!({"action": "requeue"})).await, 404, "mail_unknown");
    let answer = control.call(Method::DELETE, "/v1/outbox/m", None).await.expect("the server answers");
    problem(&answer, 404, "mail_unknown");
    // without a transport no mail is queued
    deliver(&daemon, "cs_1").await;
    assert_eq!(outbox(&daemon, "").await, json!({"items": [], "next": null}));
}

#[tokio::test]
async fn missing_or_empty_password_error_names_its_key() {
    let config =
        "[mail]\ntransport = 'smtp'\nsmtp_host = 'localhost'\nsmtp_user = 'u'\nfrom = 'a@example.org'\n";
    let mut world = DaemonWorld::with_config(config);
    let mut errors = oracled_tests::error_line(world.command());
    let file = world.path("password");
    world.config = format!("{config}password_file = '{}'\n", file.display());
    errors += &oracled_tests::error_line(world.command());
    fs::write(&file, "\n").expect("the write succeeds");
    errors += &oracled_tests::error_line(world.command());
    insta::assert_snapshot!(stable(&world, &errors));
    fs::write(&file, "s3cret\n").expect("the write succeeds");
    let daemon = world.serve().await;
    let checked = world.oracled(&["check-config", "--config"]).arg(world.config_file()).output().unwrap();
    let checked = printed(&checked, 0);
    assert!(checked.contains("smtp_user") && !checked.contains("s3cret"), "{checked}");
    assert!(!world.service_log().contains("s3cret"));
    drop(daemon);
}

fn by_smtp(port: u16, tls: SmtpTls, login: Option<(&str, &str)>) -> SmtpMailService {
    SmtpMailService::new(SmtpSettings {
        host: "127.0.0.1".into(),
        port,
        tls,
        login: login.map(|(user, password)| (user.into(), password.into())),
        heading: MailHeading {
            from: "The Oracle <oracle@example.org>".into(),
            subject: "Your verdict: ünïcode".into(),
        },
        headings: BTreeMap::new(),
        hard_timeout: PATIENCE,
    })
    .expect("a server")
}

/// Mails that the server has accepted, in order of arrival.
fn accepted_mails(dir: &Path) -> Vec<String> {
    let mut files: Vec<_> =
        fs::read_dir(dir).expect("the read succeeds").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).expect("the read succeeds")).collect()
}

/// Tests against aiosmtpd, a third-party mail server, which `tests/aiosmtpd.sh` starts.
#[tokio::test]
#[ignore = "needs a running aiosmtpd: run tests/aiosmtpd.sh"]
async fn aiosmtpd_accepts_mail_and_its_refusals_are_classified() {
    let port = |name: &str| env::var(name).expect("tests/aiosmtpd.sh sets it").parse().expect("a port");
    let (plain, tls) = (port("ORACLED_TEST_SMTP_PORT"), port("ORACLED_TEST_SMTPS_PORT"));
    let dir = env::var("ORACLED_TEST_SMTP_DIR").expect("tests/aiosmtpd.sh sets it");
    let login = Some(("oracle", "s3cret"));
    let server = by_smtp(plain, SmtpTls::None, login);
    assert!(matches!(server.probe().await, CircuitCallOutcome::Success { .. }), "it exists");
    for _ in 0..2 {
        server.send(&mail(MailKind::Verdict), None).await.expect("the request is accepted");
    }
    server.send(&mail(MailKind::DivergenceNotice), None).await.expect("the request is accepted");
    let [first, again, notice] = &accepted_mails(dir.as_ref())[..] else { panic!("three mails") };
    assert_eq!(first, again, "all attempts are equal, with the same Message-ID");
    let (head, body) = first.split_once("\n\n").expect("a mail has a head");
    for part in ["From: \"The Oracle\" <oracle@example.org>", "To: a@example.org", "@example.org>"] {
        assert!(head.contains(part), "{part} in {head}");
    }
    assert!(!head.contains("Bcc") && body.contains("Bcc: x@y.org"), "{first}");
    assert!(body.contains("Verdict: GREEN") && body.contains("A sound and simple plan."), "{body}");
    let (mark, _) = DISCLAIMER.split_once(' ').expect("words");
    assert!(notice.contains(mark) && notice.contains(": RED"), "{notice}");

    let send =
        async |server: &SmtpMailService, to: &str| server.send(&mail_to(to, MailKind::Verdict), None).await;
    let failed = send(&server, "refused@example.org").await.expect_err("550");
    assert!(failed.is_permanent() && failed.cause.reveal().contains("550"), "{failed:?}");
    let failed = send(&server, "busy@example.org").await.expect_err("451");
    assert!(!failed.is_permanent() && failed.cause.reveal().contains("451"), "{failed:?}");
    let failed = send(&by_smtp(plain, SmtpTls::None, Some(("oracle", "wrong"))), "a@b.org").await;
    let failed = failed.expect_err("535");
    assert!(!failed.is_permanent(), "the mail is not the cause: {failed:?}");
    assert!(failed.cause.reveal().contains("535") && !failed.cause.reveal().contains("wrong"), "{failed:?}");
    // the server offers no STARTTLS, and its certificate for TLS is not trusted
    for (server, cause, kind) in [
        (by_smtp(plain, SmtpTls::Starttls, login), "STARTTLS", RequestFailureKind::Unusable("message")),
        (by_smtp(tls, SmtpTls::Implicit, login), "certificate", RequestFailureKind::Broken),
    ] {
        let failed = send(&server, "a@b.org").await.expect_err("the connection is not encrypted");
        assert!(!failed.is_permanent() && failed.cause.reveal().contains(cause), "{failed:?}");
        assert_eq!(server.probe().await, CircuitCallOutcome::Failure(kind), "it is not safe");
    }
    assert_eq!(accepted_mails(dir.as_ref()).len(), 3);
}
