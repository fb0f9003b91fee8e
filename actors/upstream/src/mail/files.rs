//! The mail service of the test mode: each mail is a file.

use super::MailService;
use super::smtp::format_mail;
use crate::BoxFuture;
use crate::oracle_health::OracleProbe;
use domain_base::digest::Sha256Hex;
use domain_base::upstream_text::UpstreamText;
use domain_upstream::failure::RequestFailureKind;
use domain_upstream::health::CircuitCallOutcome;
use domain_verdict::mail::{MailFailureCause, MailKind, MailSendFailure, OutboxMail};
use domain_verdict::mail_template::MailContent;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

/// Maximum number of files in the folder.
const FILES_MAX: usize = 10_000;
/// Maximum length of a mail's id that is a file name, in characters.
const NAME_MAX_CHARS: usize = 200;

/// A folder for mails. It is created with the first one.
#[derive(Debug)]
pub struct FileMailService {
    dir: PathBuf,
    /// Held while a mail is written.
    writing: Mutex<()>,
}

impl FileMailService {
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, writing: Mutex::default() }
    }

    async fn write_mail(
        &self,
        mail: &OutboxMail,
        content: Option<&MailContent>,
    ) -> Result<(), MailSendFailure> {
        let name = file_name(mail);
        let html = content.and_then(|content| content.html.clone());
        let parts = [("txt", Some(format_text(mail, content))), ("html", html)];
        let dir = self.dir.clone();
        let _writing = self.writing.lock().await;
        let written = spawn_blocking(move || {
            let parts = parts.into_iter().filter_map(|(extension, text)| Some((extension, text?)));
            parts.into_iter().try_for_each(|(extension, text)| write_file(&dir, &name, extension, &text))
        });
        let cause = match written.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let cause = format!("cannot write the mail into {}: {cause}", self.dir.display());
        let (kind, cause) = (RequestFailureKind::Unusable("folder"), UpstreamText::new(cause));
        Err(MailSendFailure { kind, cause, fault: MailFailureCause::Service, retry_after: None })
    }
}

/// Writes a file under another name first, so that a reader never finds a part of it.
fn write_file(dir: &Path, name: &str, extension: &str, text: &str) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let file = dir.join(format!("{name}.{extension}"));
    if !file.exists() && std::fs::read_dir(dir)?.count() >= FILES_MAX {
        return Err(io::Error::other(format!("it has {FILES_MAX} files; remove some")));
    }
    let temporary = dir.join(format!(".{name}"));
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, &file)
}

/// The id of the mail if it can be a file name, else its SHA-256.
fn file_name(mail: &OutboxMail) -> String {
    let id = mail.state.mail_id.as_str();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if id.len() <= NAME_MAX_CHARS && id.bytes().all(is_allowed) {
        return id.to_owned();
    }
    Sha256Hex::of(id.as_bytes()).to_string()
}

fn format_text(mail: &OutboxMail, content: Option<&MailContent>) -> String {
    let label = mail.delivery.approved.label();
    let subject = match (content, mail.state.kind) {
        (Some(content), _) => content.subject.clone(),
        // a recall notice has the subject of its template
        (None, MailKind::Verdict | MailKind::RecallNotice) => format!("Your verdict: {label}"),
        (None, MailKind::DivergenceNotice) => format!("Your results page now shows {label}"),
    };
    let text = content.map_or_else(|| format_mail(mail), |content| content.text.clone());
    let (to, id) = (mail.state.to.mailbox(), mail.state.mail_id.as_str());
    format!("To: {to}\nSubject: [test mode] {subject}\nMessage-ID: {id}\n\n{text}")
}

impl OracleProbe for FileMailService {
    fn probe(&self) -> BoxFuture<'_, CircuitCallOutcome> {
        Box::pin(async { CircuitCallOutcome::Success { latency_ms: None } })
    }
}

impl MailService for FileMailService {
    fn send<'a>(
        &'a self,
        mail: &'a OutboxMail,
        content: Option<&'a MailContent>,
    ) -> BoxFuture<'a, Result<(), MailSendFailure>> {
        Box::pin(self.write_mail(mail, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actors_testing::mail_of;
    use domain_verdict::label::ProductTier;
    use std::fs;

    #[tokio::test]
    async fn mail_is_a_file_whose_subject_names_the_test_mode() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().join("mail");
        let service = FileMailService::new(dir.clone());
        let mail = mail_of(MailKind::Verdict, ProductTier::Quick, actors_testing::GOOD, None);
        for _ in 0..2 {
            service.send(&mail, None).await.expect("the mail is written");
        }
        let files: Vec<_> =
            fs::read_dir(&dir).expect("it exists").map(|file| file.expect("a file").path()).collect();
        let [file] = &files[..] else { panic!("{files:?}") };
        assert_eq!(*file, dir.join(format!("{}.txt", mail.state.mail_id.as_str())));
        let text = fs::read_to_string(file).expect("a text");
        assert!(text.contains("\nSubject: [test mode] Your verdict: GREEN\n"), "{text}");
        assert!(text.contains("A sound and simple plan."), "{text}");
    }

    #[tokio::test]
    async fn template_of_a_mail_gives_the_subject_and_a_second_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let service = FileMailService::new(dir.path().to_owned());
        let mail = mail_of(MailKind::Verdict, ProductTier::Quick, actors_testing::GOOD, None);
        let content = MailContent {
            subject: "Ready".to_owned(),
            text: "Done.".to_owned(),
            html: Some("<p>Done.</p>".to_owned()),
            language: "en".to_owned().try_into().expect("a language"),
        };
        service.send(&mail, Some(&content)).await.expect("the mail is written");
        let read = |extension| {
            let name = format!("{}.{extension}", mail.state.mail_id.as_str());
            fs::read_to_string(dir.path().join(name)).expect("a text")
        };
        assert!(read("txt").ends_with("\n\nDone.") && read("txt").contains("Subject: [test mode] Ready\n"));
        assert_eq!(read("html"), "<p>Done.</p>");
    }
}
