//! A substitute for a mail service: a server on the loopback that accepts mails like the mail service, and
//! stores each in a file.

use crate::verdict::config::mail::{MailSection, MailTransport};
use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Json, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hyper::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

/// The header with the idempotency key. All attempts to send one mail have the same key.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Maximum size of a mail, in bytes.
const BODY_MAX_BYTES: usize = 8 << 20;
/// Maximum length of a key, in characters; a key is a file name.
const KEY_MAX_CHARS: usize = 200;
/// Maximum number of stored mails.
const MAILS_MAX: usize = 1000;

/// The server. It stops when it is dropped; the stored mails stay.
#[derive(Debug)]
pub(super) struct Mailbox {
    address: SocketAddr,
    dir: PathBuf,
    serving: AbortHandle,
}

/// The state of the server's handler: the directory of the mails, and their number.
#[derive(Debug)]
struct MailboxState {
    dir: PathBuf,
    count: Mutex<usize>,
}

/// The stored fields of a posted mail.
#[derive(Debug, Deserialize)]
struct PostedMail {
    to: String,
    query: String,
    verdict: Value,
    disclaimer: Option<String>,
}

#[derive(Debug)]
pub(super) struct StoredMail {
    pub(super) file: PathBuf,
    /// The content of the file.
    pub(super) text: String,
}

impl Mailbox {
    /// Starts a mailbox that stores its mails in `dir`, and creates the directory.
    pub(super) async fn start(dir: PathBuf) -> io::Result<Self> {
        fs::create_dir(&dir)?;
        let state = Arc::new(MailboxState { dir: dir.clone(), count: Mutex::new(0) });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .route("/send-verdict-email", post(receive_mail))
            .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
            .with_state(state);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await }).abort_handle();
        Ok(Self { address, dir, serving })
    }

    /// Configures this mailbox as the mail service.
    pub(super) fn configure(&self, config: &mut MailSection) {
        config.transport = MailTransport::Http;
        config.base_url = format!("http://{}", self.address);
    }

    /// The directory of the mails.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A mail whose idempotency key begins with `id`, if one has arrived.
    pub(super) fn find_mail(&self, id: &str) -> io::Result<Option<StoredMail>> {
        for entry in fs::read_dir(&self.dir)? {
            let file = entry?.path();
            let name = file.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with(id)) {
                return Ok(Some(StoredMail { text: fs::read_to_string(&file)?, file }));
            }
        }
        Ok(None)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn receive_mail(
    State(state): State<Arc<MailboxState>>,
    headers: HeaderMap,
    posted: Result<Json<PostedMail>, JsonRejection>,
) -> Response {
    let posted = match posted {
        Ok(Json(posted)) => posted,
        Err(error) => return error.into_response(),
    };
    let key = headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok()).filter(|key| is_file_name(key));
    match key {
        Some(key) => state.store_mail(key, &posted).await,
        None => {
            (StatusCode::BAD_REQUEST, "the idempotency key is missing or is not a file name").into_response()
        }
    }
}

/// Whether the key can be a file name.
fn is_file_name(key: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=KEY_MAX_CHARS).contains(&key.len()) && key.bytes().all(is_allowed)
}

impl MailboxState {
    /// Stores a mail, once per key.
    async fn store_mail(&self, key: &str, posted: &PostedMail) -> Response {
        let mut count = self.count.lock().await;
        let file = self.dir.join(format!("{key}.txt"));
        if file.exists() {
            return StatusCode::OK.into_response();
        }
        if *count >= MAILS_MAX {
            return (StatusCode::INSUFFICIENT_STORAGE, "the mailbox is full").into_response();
        }
        // `find_mail` ignores this name, so it never returns a partly written mail
        let temporary = self.dir.join(format!(".{key}"));
        match fs::write(&temporary, posted.format_text(key)).and_then(|()| fs::rename(&temporary, &file)) {
            Ok(()) => {
                *count += 1;
                StatusCode::OK.into_response()
            }
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}

impl PostedMail {
    fn format_text(&self, key: &str) -> String {
        let Self { to, query, verdict, disclaimer } = self;
        let member = |name: &str| verdict.get(name).and_then(Value::as_str).unwrap_or_default();
        let label = member("verdict");
        let subject = match disclaimer {
            Some(_) => format!("Your results page now shows {label}"),
            None => format!("Your verdict: {label}"),
        };
        let mut text = format!("To: {to}\nSubject: {subject}\nMessage-ID: {key}\n\n");
        for paragraph in disclaimer.iter().map(String::as_str).chain([member("summary"), query]) {
            text.push_str(&format!("{paragraph}\n\n"));
        }
        text.push_str(&format!("{verdict:#}\n"));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actors_platform::clock::Clock;
    use actors_upstream::mail::{HttpMailService, MailService};
    use domain_base::payload::VerdictPayload;
    use domain_verdict::crosscheck::judge;
    use domain_verdict::delivery::VerdictDelivery;
    use domain_verdict::label::ProductTier;
    use domain_verdict::mail::{MailKind, MailSendFailure, OutboxMail};
    use domain_verdict::query::CustomerQuery;
    use std::time::Duration;

    const GOOD: &str = r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#;

    fn mail_about(session_id: &str) -> OutboxMail {
        let delivery = VerdictDelivery {
            session_id: session_id.parse().expect("an id"),
            query: CustomerQuery::new("Sell honey?".into()),
            approved: judge(ProductTier::Quick, VerdictPayload::raw(GOOD))
                .outcome
                .expect("the verdict is coherent"),
            cached_at: "2026-11-20T10:00:00Z".parse().expect("a time"),
            regen: None,
            evaluation_sha256: None,
        };
        let to = "a@example.org".to_owned().try_into().expect("an address");
        OutboxMail::queued(MailKind::Verdict, Arc::new(delivery), to)
    }

    async fn send_mail(mailbox: &Mailbox, mail: &OutboxMail) -> Result<(), MailSendFailure> {
        let url = format!("http://{}", mailbox.address);
        let service = HttpMailService::new(&url, Duration::from_secs(10), Clock::system());
        service.expect("a service").send(mail, None).await
    }

    #[tokio::test]
    async fn mail_with_the_same_key_is_stored_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let mailbox = Mailbox::start(dir.path().join("mail")).await.expect("the mailbox starts");
        assert!(mailbox.find_mail("verdict:cs_1").expect("the file is readable").is_none());
        send_mail(&mailbox, &mail_about("cs_1")).await.expect("the mail is accepted");
        let mail =
            mailbox.find_mail("verdict:cs_1").expect("the file is readable").expect("the mail has arrived");
        let head = "To: a@example.org\nSubject: Your verdict: GREEN\nMessage-ID: verdict:cs_1\n\n\
            A sound and simple plan.\n\nSell honey?\n";
        assert!(mail.text.starts_with(head), "{}", mail.text);
        fs::write(&mail.file, "read").expect("the file is written");
        send_mail(&mailbox, &mail_about("cs_1")).await.expect("the mail is accepted");
        assert_eq!(
            fs::read_to_string(&mail.file).expect("the file is readable"),
            "read",
            "the second attempt does not write the file again"
        );
        send_mail(&mailbox, &mail_about("cs_2")).await.expect("the mail is accepted");
        assert_eq!(fs::read_dir(mailbox.dir()).expect("the directory is readable").count(), 2);
    }

    #[tokio::test]
    async fn key_that_cannot_be_a_file_name_is_rejected() {
        let dir = tempfile::tempdir().expect("a directory");
        let mailbox = Mailbox::start(dir.path().join("mail")).await.expect("the mailbox starts");
        let refused =
            send_mail(&mailbox, &mail_about(&"s".repeat(250))).await.expect_err("the key is too long");
        assert!(refused.is_permanent() && refused.cause.contains("idempotency key"), "{refused:?}");
        assert_eq!(fs::read_dir(mailbox.dir()).expect("the directory is readable").count(), 0);
        for bad in ["", "a/b", "..\\a", "a b", "é"] {
            assert!(!is_file_name(bad), "{bad}");
        }
    }

    #[tokio::test]
    async fn full_mailbox_rejects_further_mails() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = MailboxState { dir: dir.path().to_owned(), count: Mutex::new(MAILS_MAX) };
        let posted = PostedMail {
            to: "a@example.org".into(),
            query: "Sell honey?".into(),
            verdict: Value::Null,
            disclaimer: None,
        };
        assert_eq!(
            state.store_mail("verdict:cs_1", &posted).await.status(),
            StatusCode::INSUFFICIENT_STORAGE
        );
        assert_eq!(fs::read_dir(dir.path()).expect("the directory is readable").count(), 0);
    }
}
