mod mail_text;

use super::*;
use actors_testing::{GOOD, mail_of};
use domain_verdict::label::ProductTier;
use domain_verdict::mail::{MailFailureCause, MailKind};
use proptest::prelude::*;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

fn settings() -> SmtpSettings {
    SmtpSettings {
        host: "127.0.0.1".into(),
        port: 1,
        tls: SmtpTls::None,
        login: Some(("oracle".into(), "s3cret".into())),
        heading: MailHeading {
            from: "The Oracle <oracle@example.org>".into(),
            subject: "Your verdict: ünïcode".into(),
        },
        headings: BTreeMap::new(),
        hard_timeout: Duration::from_secs(5),
    }
}

fn written(mail: &OutboxMail) -> String {
    written_with(mail, None)
}

fn written_with(mail: &OutboxMail, content: Option<&MailContent>) -> String {
    let message = SmtpMailService::new(settings())
        .expect("the settings are valid")
        .message(mail, content)
        .expect("the write succeeds");
    String::from_utf8(message.formatted()).expect("ASCII text")
}

#[test]
fn message_is_the_same_at_each_attempt_and_has_its_own_id() {
    let mail = mail_of(MailKind::Verdict, ProductTier::Quick, GOOD, None);
    let first = written(&mail);
    let mut later = mail.clone();
    later.state.tries.attempts = 3;
    assert_eq!(written(&later), first);
    let id = Sha256Hex::of(b"verdict:cs_1");
    for line in [
        "From: \"The Oracle\" <oracle@example.org>",
        "To: a@example.org",
        &format!("Message-ID: <{id}@example.org>"),
        "Date: Fri, 20 Nov 2026 10:00:00 +0000",
        "Content-Type: text/plain; charset=utf-8",
        "Verdict: GREEN",
        "A sound and simple plan.",
    ] {
        assert!(first.lines().any(|written| written == line), "{line} in {first}");
    }
    assert!(first.contains("Subject: Your verdict: =?utf-8?"), "{first}");
}

#[test]
fn message_with_content_has_its_subject_language_and_parts() {
    let mail = mail_of(MailKind::Verdict, ProductTier::Quick, GOOD, None);
    let content = |html: Option<&str>| MailContent {
        subject: "Ihr Urteil".into(),
        text: "Das Urteil.".into(),
        html: html.map(str::to_owned),
        language: "de-AT".to_owned().try_into().expect("a tag"),
    };
    let plain = written_with(&mail, Some(&content(None)));
    for line in [
        "Subject: Ihr Urteil",
        "Content-Language: de-AT",
        "Content-Type: text/plain; charset=utf-8",
        "Das Urteil.",
    ] {
        assert!(plain.lines().any(|written| written == line), "{line} in {plain}");
    }
    let both = content(Some("<p>Das Urteil.</p>"));
    let message = written_with(&mail, Some(&both));
    assert_eq!(written_with(&mail, Some(&both)), message, "it is the same at each attempt");
    let (head, body) = message.split_once("\r\n\r\n").expect("a mail has a head");
    assert!(head.contains("Content-Type: multipart/alternative;"), "{head}");
    let (text, html) = (body.find("text/plain").expect("a text"), body.find("text/html").expect("HTML"));
    assert!(text < html && body.contains("<p>Das Urteil.</p>"), "{body}");
}

#[test]
fn verdict_and_settings_cannot_inject_headers_or_commands() {
    let verdict = r#"{"verdict":"GREEN","summary":"Sound.\r\n.\r\nMAIL FROM:<x@y>\r\nBcc: x@y"}"#;
    let text = written(&mail_of(MailKind::Verdict, ProductTier::Quick, verdict, None));
    let (head, body) = text.split_once("\r\n\r\n").expect("a mail has a head");
    assert!(!head.contains("Bcc") && body.contains("Bcc: x@y"), "{text}");
    for (from, subject) in
        [("a@b.org\r\nBcc: x@y.org", "s"), ("a@b.org", "s\r\nBcc: x@y.org"), ("a b", "s"), ("", "s")]
    {
        MailHeading { from: from.into(), subject: subject.into() }
            .check()
            .expect_err("it would be two headers, or none");
    }
}

fn message_to(address: &str) -> Option<Result<Message, MailSendFailure>> {
    let mut mail = mail_of(MailKind::Verdict, ProductTier::Quick, GOOD, None);
    mail.state.to = address.to_owned().try_into().ok()?;
    Some(SmtpMailService::new(settings()).expect("the settings are valid").message(&mail, None))
}

#[test]
fn mail_double_dot_has_a_quoted_local_part_in_header_and_envelope() {
    for local in ["aaa..bbb", ".aaa", "aaa."] {
        let message = message_to(&format!("{local}@carrier.example")).expect("an address");
        let message = message.expect("the message is built");
        let quoted = format!("\"{local}\"@carrier.example");
        let recipients: Vec<_> = message.envelope().to().iter().map(ToString::to_string).collect();
        assert_eq!(recipients, [quoted.as_str()]);
        let text = String::from_utf8(message.formatted()).expect("ASCII text");
        assert!(text.lines().any(|line| line == format!("To: {quoted}")), "{text}");
    }
}

proptest! {
    #[test]
    fn every_accepted_address_makes_a_message(
        address in "[a-c.é!#$%&'*+/=?^_`{|}~-]{1,4}(a{58,66})?[a.]?@[a-c.é0-9-]{1,5}(\\.?[b-]{60,64}){0,4}"
    ) {
        if let Some(message) = message_to(&address) {
            prop_assert!(message.is_ok(), "{}: {:?}", address, message.err());
        }
    }
}

#[test]
fn password_is_never_shown() {
    let shown =
        format!("{:?} {:?}", settings(), SmtpMailService::new(settings()).expect("the settings are valid"));
    assert!(!shown.contains("s3cret"), "{shown}");
}

/// The failure of a mail when the server answers `command` with `reply`. An empty `command` means the greeting.
async fn answered(command: &str, reply: &str) -> MailSendFailure {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("the listener has an address").port();
    let settings = SmtpSettings { port, login: None, ..settings() };
    let service = SmtpMailService::new(settings).expect("the settings are valid");
    let mail = mail_of(MailKind::Verdict, ProductTier::Quick, GOOD, None);
    let server = async {
        let (socket, _) = listener.accept().await.expect("the client connects");
        let (reader, mut writer) = socket.into_split();
        let mut lines = BufReader::new(reader).lines();
        let mut request = String::new();
        loop {
            let response = if request.starts_with(command) && (request.is_empty() || !command.is_empty()) {
                reply
            } else if request.is_empty() {
                "220 here"
            } else {
                "250 yes"
            };
            // the client may have closed the connection already
            drop(writer.write_all(format!("{response}\r\n").as_bytes()).await);
            let Ok(Some(line)) = lines.next_line().await else { return };
            request = line;
        }
    };
    let (sent, ()) = tokio::join!(service.send(&mail, None), server);
    sent.expect_err("the write fails")
}

#[tokio::test]
async fn only_replies_about_the_mail_itself_are_permanent_failures() {
    for code in [501, 550, 551, 552, 553, 555, 556] {
        let failed = answered("RCPT", &format!("{code} no <a@example.org>")).await;
        assert!(failed.is_permanent() && failed.cause.reveal().contains(&code.to_string()), "{failed:?}");
    }
    for code in [421, 451, 500, 502, 503, 504, 521, 530, 534, 535, 538, 554] {
        let failed = answered("RCPT", &format!("{code} no")).await;
        assert!(!failed.is_permanent() && failed.cause.reveal().contains(&code.to_string()), "{failed:?}");
    }
    for (code, fault) in
        [(450, MailFailureCause::Mail), (452, MailFailureCause::Mail), (421, MailFailureCause::Service)]
    {
        assert_eq!(answered("RCPT", &format!("{code} later")).await.fault, fault, "{code}");
    }
    for (command, reply) in
        [("", "554 not you"), ("", "421 later"), ("EHLO", "502 what"), ("MAIL", "503 when")]
    {
        let failed = answered(command, reply).await;
        assert!(!failed.is_permanent(), "{failed:?}");
    }
}
