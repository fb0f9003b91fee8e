//! Mail templates: registration, the language of a mail, and mails whose template cannot be rendered.

use crate::wording::is_logged;
use domain_verdict::divergence::{CustomerNote, NoteLanguage};
use hyper::Method;
use oracled_tests::ground::put_document;
use oracled_tests::model::{ModelServer, ReceivedRequest};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, at, call, document, eventually, get, log, post, problem,
};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const PATH: &str = "/v1/documents/mail_template";

fn config(base_url: &str) -> String {
    format!(
        "contact = \"help@example.org\"\n[mail]\ntransport = \"http\"\nbase_url = \"{base_url}\"\n\
         templates = [\"shop-en\", \"shop-de@1\"]\n"
    )
}

/// A template of verdict mails with this plain text.
fn template(language: &str, version: u32, text: &str) -> Value {
    let parts = json!({"subject": format!("{language}: {{{{ query }}}}"), "text": text});
    let template_id = format!("shop-{language}");
    json!({"template_id": template_id, "version": version, "language": language, "mails": {"verdict": parts}})
}

async fn register(daemon: &DaemonProcess<'_>, template: &Value) {
    let id = template["template_id"].as_str().expect("an id");
    let path = format!("{PATH}/{id}@{}", template["version"]);
    let answer = put_document(&mut daemon.control().await, &path, template).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

async fn register_prompt_template(daemon: &DaemonProcess<'_>, language: &str) {
    let template = json!({
        "template_id": format!("house-{language}"), "version": 1, "language": language,
        "tiers": {"quick": "Judge {{query}}."},
    });
    let path = format!("/v1/documents/prompt_template/house-{language}@1");
    assert_eq!(put_document(&mut daemon.control().await, &path, &template).await.status, 200);
}

/// Delivers a verdict with a mail. `prompt` is the prompt template of the verdict.
async fn deliver(daemon: &DaemonProcess<'_>, session: &str, prompt: Option<&str>) {
    let mut body = json!({
        "tier": "quick", "query": "Sell\r\n<script>honey</script>?", "raw": GOOD, "customer_email": "a@example.org",
    });
    if let Some(prompt) = prompt {
        body["prompt"] = json!({"template": prompt});
    }
    let answer = post(&mut daemon.routes().await, &format!("/v1/verdicts/{session}"), &body).await;
    assert_eq!(answer.status, 201, "{}", document(&answer));
}

async fn mails(daemon: &DaemonProcess<'_>) -> Vec<Value> {
    let answer = get(&mut daemon.control().await, "/v1/outbox").await;
    at(&answer, "/items").as_array().cloned().expect("a list")
}

fn mail_of<'r>(requests: &'r [ReceivedRequest], session: &str) -> &'r Value {
    let mail = requests.iter().find(|request| request.body["session_id"] == session);
    &mail.expect("the mail was sent").body
}

#[tokio::test]
async fn mail_has_the_template_of_the_language_of_its_prompt_after_a_kill() {
    let server = ModelServer::start().await;
    let mut world = DaemonWorld::with_config(&config("http://127.0.0.1:9"));
    let daemon = world.serve().await;
    for language in ["en", "de"] {
        register_prompt_template(&daemon, language).await;
    }
    let mut english = template("en", 1, "Question: {{ query }}");
    english["mails"]["verdict"]["html"] = json!("<p>{{ query }}</p>");
    register(&daemon, &english).await;
    register(&daemon, &template("de", 1, "Frage: {{ query }}")).await;
    register(&daemon, &template("de", 2, "Die Konfiguration nennt Version 1.")).await;
    for (session, prompt) in
        [("cs_en", Some("house-en@1")), ("cs_de", Some("house-de@1")), ("cs_unknown", None)]
    {
        deliver(&daemon, session, prompt).await;
    }
    daemon.kill();

    world.config = config(&server.url());
    let daemon = world.serve().await;
    eventually("all mails are sent", async || mails(&daemon).await.is_empty()).await;
    let requests = server.requests();
    for session in ["cs_en", "cs_unknown"] {
        let mail = mail_of(&requests, session);
        assert_eq!(mail["language"], "en");
        assert_eq!(mail["subject"], "en: Sell <script>honey</script>?");
        assert_eq!(mail["text"], "Question: Sell\n<script>honey</script>?");
        assert_eq!(mail["html"], "<p>Sell\n&lt;script&gt;honey&lt;&#x2f;script&gt;?</p>");
        assert_eq!(mail["verdict"]["verdict"], "GREEN");
    }
    let mail = mail_of(&requests, "cs_de");
    assert_eq!((&mail["language"], &mail["html"]), (&json!("de"), &Value::Null));
    assert_eq!(mail["text"], "Frage: Sell\n<script>honey</script>?");
}

#[tokio::test]
async fn disclaimer_and_notice_have_the_language_of_the_mail_and_of_the_prompt() {
    let server = ModelServer::start().await;
    let world = DaemonWorld::with_config(&config(&server.url()));
    let daemon = world.serve().await;
    for language in ["en", "de"] {
        register_prompt_template(&daemon, language).await;
        register(&daemon, &template(language, 1, "{{ disclaimer }}")).await;
    }
    let routes = &mut daemon.routes().await;
    let english = CustomerNote::Disclaimer.text(NoteLanguage::En);
    let german = CustomerNote::Disclaimer.text(NoteLanguage::De);
    for (session, prompt, disclaimer, note_language) in [
        ("cs_en", json!({"template": "house-en@1"}), english, Value::Null),
        ("cs_de", json!({"template": "house-de@1"}), german, json!("de")),
        ("cs_unknown", Value::Null, english, Value::Null),
    ] {
        // the customer has a verdict that was delivered without oracled, and gets another one
        let mut body = json!({
            "tier": "quick", "query": "Sell honey?", "customer_email": "a@example.org", "original_verdict": "RED",
        });
        if !prompt.is_null() {
            body["prompt"] = prompt;
        }
        let registered =
            call(routes, Method::PUT, &format!("/v1/sessions/{session}"), Some(body.to_string().into()))
                .await;
        assert_eq!(registered.status, 201, "{}", document(&registered));
        body.as_object_mut().expect("an object").remove("original_verdict");
        body["raw"] = json!(GOOD);
        let answer = post(routes, &format!("/v1/verdicts/{session}"), &body).await;
        assert_eq!(answer.status, 201, "{}", document(&answer));
        assert_eq!(at(&answer, "/disclaimer"), disclaimer);
        assert_eq!(at(&answer, "/note_language"), note_language);
        let cached = get(routes, &format!("/v1/verdicts/{session}")).await;
        assert_eq!(
            (at(&cached, "/disclaimer"), at(&cached, "/note_language")),
            (json!(disclaimer), note_language)
        );
    }
    eventually("all mails are sent", async || mails(&daemon).await.is_empty()).await;
    let requests = server.requests();
    for (session, disclaimer) in [("cs_en", english), ("cs_de", german), ("cs_unknown", english)] {
        let mail = mail_of(&requests, session);
        assert_eq!(
            (&mail["text"], &mail["disclaimer"]),
            (&json!(disclaimer), &json!(disclaimer)),
            "{session}"
        );
    }
}

#[tokio::test]
async fn mail_waits_for_its_template_and_is_sent_after_a_corrected_version() {
    let server = ModelServer::start().await;
    let world = DaemonWorld::with_config(&config(&server.url()));
    let daemon = world.serve().await;
    assert!(is_logged(&world, "WARN", &["shop-en"]), "{}", world.service_log());
    register(&daemon, &template("de", 1, "Das Urteil.")).await;
    deliver(&daemon, "cs_1", None).await;
    let error_contains = async |daemon: &DaemonProcess<'_>, parts: &[&str]| {
        let mails = mails(daemon).await;
        let error = mails.first().map_or_else(String::new, |mail| mail["last_error"].to_string());
        parts.iter().all(|part| error.contains(part))
    };
    let unknown = [" shop-en ", "oraclectl apply"];
    eventually("the first attempt fails", async || error_contains(&daemon, &unknown).await).await;

    // no sample verdict has this query, so the template is registered
    let broken = "Hello\n{% if query != 'Sell honey & jam?' %}{{ verdict.total }}{% endif %}";
    register(&daemon, &template("en", 1, broken)).await;
    let render = [" shop-en@1", "`mails.verdict.text`, line 2", "`verdict.total`"];
    eventually("the next attempt fails", async || error_contains(&daemon, &render).await).await;
    let control = &mut daemon.control().await;
    let oracles = document(&get(control, "/v1/health/oracles").await);
    let mail = oracles.as_array().expect("a list").iter().find(|oracle| oracle["oracle_id"] == "mail");
    assert_ne!(mail.expect("the mail service")["status"], "failing", "{oracles}");
    assert!(daemon.stop().success());

    let daemon = world.serve().await;
    assert_eq!(server.request_count(), 0);
    register(&daemon, &template("en", 2, "{{ verdict.summary }} {{ contact }}")).await;
    eventually("the mail is sent", async || mails(&daemon).await.is_empty()).await;
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(mail_of(&requests, "cs_1")["text"], "A sound and simple plan. help@example.org");
    let control = &mut daemon.control().await;
    assert!(log(control, "event=message_failed").await.len() >= 2);
    assert_eq!(log(control, "event=message_sent").await.len(), 1);
}

#[tokio::test]
async fn mail_template_is_checked_and_immutable_under_its_version() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let path = &format!("{PATH}/shop-en@1");
    for (text, faults) in [
        ("Hello\n{{ customer }}", ["`mails.verdict.text`, line 2", "`customer`", "verdict_label"]),
        (&("{% for c in session_id %}".repeat(7) + &"{% endfor %}".repeat(7)), ["steps", "text", "loops"]),
    ] {
        let refused = put_document(control, path, &template("en", 1, text)).await;
        let detail = problem(&refused, 400, "invalid_document")["detail"].to_string();
        assert!(faults.iter().all(|fault| detail.contains(fault)), "{detail}");
    }
    let first = put_document(control, path, &template("en", 1, "{{ query }}")).await;
    assert_eq!(at(&first, "/change"), "created");
    let again = put_document(control, path, &template("en", 1, "{{ query }}")).await;
    assert_eq!(at(&again, "/change"), "unchanged");
    problem(&put_document(control, path, &template("en", 1, "{{ tier }}")).await, 409, "document_fixed");
    let listed = at(&get(control, PATH).await, "/items/0/document_id");
    assert_eq!(listed, "shop-en@1");

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let example = root.join("examples/mail/shop-en.yaml");
    let text = fs::read_to_string(&example).expect("the read succeeds");
    let page = fs::read_to_string(root.join("docs/delivery.md")).expect("the read succeeds");
    let document = text.get(text.find("kind:").expect("a document")..).expect("a document");
    assert!(page.contains(document), "docs/delivery.md has another example than {}", example.display());
    fs::write(world.path("shop.yaml"), text.replace("version: 1", "version: 3")).expect("the write succeeds");
    let file = world.path("shop.yaml").display().to_string();
    let applied = world.ctl_in_thread(&["apply", "-f", &file]).await;
    assert!(applied.status.success(), "{applied:?}");
    let newest = world.ctl_in_thread(&["get", "mail_template", "shop-en"]).await;
    let newest = String::from_utf8(newest.stdout).expect("UTF-8");
    assert!(newest.lines().any(|line| line == "version: 3"), "{newest}");
}
