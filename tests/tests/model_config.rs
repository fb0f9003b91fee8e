//! Configuration of the model: sources of the key, and values that prevent a start.

use crate::wording::is_logged;
use oracled_tests::generation::{register_session, request_verdict};
use oracled_tests::model::ModelServer;
use oracled_tests::{DaemonWorld, error_line, run_to_end};
use std::fs;

/// A `[model]` section for tests that never call the model.
const UNASKED: &str = "[model]\nbase_url = \"http://127.0.0.1:9\"\n";

fn write(world: &DaemonWorld, name: &str, text: &str) -> String {
    fs::write(world.path(name), text).expect("the write succeeds");
    world.path(name).to_str().expect("valid UTF-8").to_owned()
}

/// Starts a daemon that must refuse to start, and returns its error.
fn start_error(config: &str) -> String {
    error_line(DaemonWorld::with_config(config).command())
}

#[tokio::test]
async fn credential_overrides_key_file_and_key_file_overrides_variable() {
    for (provider, header, variable, credential) in [
        ("gemini", "x-goog-api-key", "GEMINI_API_KEY", "oracled_gemini-api-key"),
        ("openai", "authorization", "OPENAI_API_KEY", "oracled_openai-api-key"),
        ("anthropic", "x-api-key", "ANTHROPIC_API_KEY", "oracled_anthropic-api-key"),
    ] {
        let model = ModelServer::start().await;
        let mut world = DaemonWorld::default();
        world.config =
            format!("[model]\nprovider = \"{provider}\"\nname = \"x\"\nbase_url = \"{}\"\n", model.url());
        world.variables.push((variable.into(), "of-the-variable".into()));
        let request_with = async |world: &DaemonWorld, session: &str| {
            let daemon = world.serve().await;
            assert_eq!(request_verdict(&mut daemon.routes().await, session).await.status, 201);
            assert!(daemon.stop().success());
            let request = model.requests().pop().expect("the model was called");
            request.header(header).map(|key| key.trim_start_matches("Bearer ").to_owned())
        };
        assert_eq!(request_with(&world, "cs_1").await.as_deref(), Some("of-the-variable"));

        let file = write(&world, "key", "of-the-file\r\n");
        world.config.push_str(&format!("api_key_file = \"{file}\"\n"));
        assert_eq!(request_with(&world, "cs_2").await.as_deref(), Some("of-the-file"));

        // the credentials directory exists, but does not have this key
        fs::create_dir(world.path("credentials")).unwrap();
        let credentials = world.path("credentials").to_str().unwrap().to_owned();
        world.variables.push(("CREDENTIALS_DIRECTORY".into(), credentials));
        assert_eq!(request_with(&world, "cs_3").await.as_deref(), Some("of-the-file"));
        write(&world, &format!("credentials/{credential}"), "of-systemd\n");
        assert_eq!(request_with(&world, "cs_4").await.as_deref(), Some("of-systemd"));

        let printed = world.oracled(&["check-config", "--config"]).arg(world.config_file()).output().unwrap();
        let log_text = world.service_log() + &world.mirror() + &String::from_utf8_lossy(&printed.stdout);
        assert!(log_text.contains("api_key_file"), "{log_text}");
        assert!(
            !["of-the-variable", "of-the-file", "of-systemd"].iter().any(|key| log_text.contains(key)),
            "{log_text}"
        );
    }
}

#[tokio::test]
async fn unusable_key_file_is_refused_without_fallback() {
    for (text, why) in [
        (Some(""), "`model.api_key_file`: "),
        (Some("\n\r\n"), "`model.api_key_file`: "),
        (Some("q7x\ny8z"), "the model's key"),
        (None, "No such file"),
    ] {
        let mut world = DaemonWorld::with_config(UNASKED);
        let file = world.path("key").to_str().unwrap().to_owned();
        if let Some(text) = text {
            write(&world, "key", text);
        }
        world.config.push_str(&format!("api_key_file = \"{file}\"\n"));
        // another key exists, which must not be used instead
        world.variables.push(("GEMINI_API_KEY".into(), "of-the-variable".into()));
        let error = error_line(world.command());
        assert!(error.contains(why) && !error.contains("q7x") && !error.contains("y8z"), "{text:?}: {error}");
        assert!(!world.state().join("oracle_log.jsonl").exists(), "no log was created");
    }
    let mut world = DaemonWorld::with_config(UNASKED);
    fs::create_dir(world.path("credentials")).unwrap();
    write(&world, "credentials/oracled_gemini-api-key", "");
    world.variables = vec![
        ("CREDENTIALS_DIRECTORY".into(), world.path("credentials").to_str().unwrap().into()),
        ("GEMINI_API_KEY".into(), "of-the-variable".into()),
    ];
    insta::assert_snapshot!(error_line(world.command()));
}

#[tokio::test]
async fn invalid_base_url_is_refused_with_its_key() {
    for url in ["", "localhost:8080", "ftp://models", "http://", "unix:///run/model.sock", "http://a b"] {
        let mut world = DaemonWorld::with_config(&format!("[model]\nbase_url = \"{url}\""));
        world.variables.push(("GEMINI_API_KEY".into(), "k".into()));
        let error = error_line(world.command());
        assert!(error.contains("`model.base_url`"), "{url}: {error}");
    }
}

#[tokio::test]
async fn invalid_model_setting_is_refused_with_the_allowed_values() {
    for (config, named) in [
        ("[model]\nprovider = \"grok\"", &["`model.provider`", "none, gemini, openai, anthropic"][..]),
        ("[model]\nprovider = \"openai\"", &["`model.name`"]),
        ("[model]\nprovider = \"anthropic\"", &["`model.name`"]),
        ("[model]\nname = \" \"", &["`model.name`", "1 to 200"]),
        ("[model]\ndeadline_ms = 29001", &["`model.deadline_ms`", "29001", "100 to 29000"]),
        (
            "[limits]\nrequest_s = 10\n[ingestion]\nrefresh_s = 5",
            &["`model.deadline_ms`", "28000", "100 to 9000"],
        ),
        ("[model]\nhard_timeout_ms = 99", &["`model.hard_timeout_ms`", " 99", "100 to 600000"]),
        ("[model]\nsoft_timeout_ms = 20001", &["`model.soft_timeout_ms`", "20001", "1 to 20000"]),
        ("[model]\noriginal_temperature = 2.1", &["`model.original_temperature`", "2.1", "0 to 2"]),
        ("[model]\noriginal_temperature = nan", &["`model.original_temperature`", "0 to 2"]),
        ("[model]\noriginal_top_p = 1.1", &["`model.original_top_p`", "1.1", "0 to 1"]),
        ("[model]\noriginal_top_k = 0", &["`model.original_top_k`", " 0", "1 to 1000"]),
        ("[model]\nmax_retries = 11", &["`model.max_retries`", "11", "0 to 10"]),
        ("[model]\ncalls_per_minute = 0", &["`model.calls_per_minute`", " 0", "1 to 1000000"]),
        ("[model]\ninput_price = 0.3", &["`model.output_price`"]),
        ("[model]\ninput_price = -1", &["`model.input_price`", "-1", "0 to "]),
        (
            "[applications.shop]\nuids = [1]\ndaily_budget = 20",
            &["`model.input_price`", "`applications.shop.daily_budget`"],
        ),
        ("[costs]\ndaily_budget = 20", &["`model.input_price`"]),
        (
            "prompt_template = \"oracled-default@9\"",
            &["`prompt_template`", "oracled-default@9", "`oracled-default`"],
        ),
        ("[costs]\ncurrency = \"dollars\"", &["`costs.currency`"]),
        ("[model]\ncalls_at_once = 0", &["`model.calls_at_once`", " 0", "1 to 10000"]),
        ("[model]\napi_key = \"k\"", &["`model.api_key`"]),
        ("[health]\nfailure_threshold = 0", &["health.failure_threshold"]),
    ] {
        let error = start_error(config);
        assert!(named.iter().all(|name| error.contains(name)), "{config}: {error}");
    }
}

#[tokio::test]
async fn setting_that_the_model_does_not_take_is_refused() {
    let haiku = "[model]\nprovider = \"anthropic\"\nname = \"claude-haiku-4-5\"\n";
    let opus = "[model]\nprovider = \"anthropic\"\nname = \"claude-opus-4-7\"\n";
    for (section, keys, named) in [
        (haiku, "takes_top_p = true", &["`model.takes_top_p`", "true", "false"][..]),
        (haiku, "original_temperature = 1.5", &["`model.original_temperature`", "1.5", "0 to 1"]),
        (
            haiku,
            "[orders]\nfurther_temperatures = [0.5, 1.5]",
            &["`orders.further_temperatures`", "1.5", "0 to 1"],
        ),
        (haiku, "original_top_p = 0.5", &["`model.original_top_p`", " 1"]),
        (haiku, "thinking_budget = 1023", &["`model.thinking_budget`", "1023", "1024"]),
        (haiku, "thinking_budget = 8192", &["`max_output_tokens`", "8192"]),
        (haiku, "thinking_budget = 1024", &["`model.takes_temperature`", "true", "false"]),
        (
            haiku,
            "thinking_budget = 1024\ntakes_temperature = false",
            &["`model.takes_top_k`", "true", "false"],
        ),
        (opus, "original_temperature = 0.5", &["`model.original_temperature`"]),
        (
            "[model]\nprovider = \"openai\"\nname = \"x\"\n",
            "thinking_budget = 0",
            &["`model.thinking_budget`"],
        ),
        ("[model]\nname = \"gemini-2.5-pro\"\n", "thinking_budget = 0", &["128 to 32768"]),
        ("[model]\n", "thinking_budget = 24577", &["`model.thinking_budget`", "24577", "0 to 24576"]),
    ] {
        let error = start_error(&format!("{section}{keys}"));
        assert!(named.iter().all(|name| error.contains(name)), "{section}{keys}: {error}");
    }
}

#[tokio::test]
async fn fallbacks_that_cannot_work_are_refused() {
    let backup = "[models.backup]\nprovider = \"openai\"\nname = \"x\"\n";
    for (config, named) in [
        ("[model]\nfallbacks = [\"backup\"]".to_owned(), &["`model.fallbacks`"][..]),
        (format!("[model]\nfallbacks = [\"backup\", \"backup\"]\n{backup}"), &["`model.fallbacks`"]),
        (format!("[model]\nprovider = \"none\"\n{backup}"), &["`model.provider`", "none"]),
        (format!("{backup}fallbacks = [\"x\"]"), &["`models.backup.fallbacks`"]),
        (format!("{backup}deadline_ms = 29001"), &["`models.backup.deadline_ms`", "29001", "100 to 29000"]),
        (format!("{backup}nmae = \"x\""), &["models.backup"]),
        ("[models.mail]\nname = \"x\"".to_owned(), &["`models`"]),
        ("[models.lookup]\nname = \"x\"".to_owned(), &["`models`"]),
        ("[models.gemini]\nname = \"x\"".to_owned(), &["`models`"]),
        ("[models.backup]\nprovider = \"openai\"".to_owned(), &["`models.backup.name`"]),
    ] {
        let error = start_error(&config);
        assert!(named.iter().all(|name| error.contains(name)), "{config}: {error}");
    }
}

#[test]
fn unusable_keys_endpoints_and_secrets_are_reported_together() {
    let config = "[models.backup]\nprovider = \"openai\"\nname = \"x\"\n[webhooks]\nurl = \"https://a.example\"\n\
                  operator_secret_file = \"/no/such\"\n[mail]\ntransport = \"smtp\"\nsmtp_host = \"127.0.0.1\"\n\
                  from = \"a@b.example\"\nsmtp_user = \"u\"\n";
    let output = run_to_end(DaemonWorld::with_config(config).command());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let keys = [
        "`model.api_key_file`",
        "`models.backup.api_key_file`",
        "`mail.password_file`",
        "`webhooks.secret_file`",
        "`webhooks.operator_url`",
    ];
    assert!(keys.iter().all(|key| stderr.contains(key)), "{stderr}");
    assert_eq!(stderr.lines().count(), keys.len(), "{stderr}");
}

#[tokio::test]
async fn daemon_without_a_key_serves_and_logs_that_it_generates_nothing() {
    let world = DaemonWorld::with_config(UNASKED);
    let daemon = world.serve().await;
    register_session(&mut daemon.routes().await, "cs_1", None).await;
    assert!(daemon.stop().success());
    assert!(is_logged(&world, "WARN", &["`model.api_key_file`"]), "{}", world.service_log());
}

#[tokio::test]
async fn secret_in_clear_text_is_refused_unless_it_is_allowed() {
    let smtp = |tls: &str, host: &str| {
        format!(
            "[mail]\ntransport = \"smtp\"\nsmtp_host = \"{host}\"\nfrom = \"a@b.org\"\nsmtp_user = \"u\"\nsmtp_tls = \"{tls}\""
        )
    };
    let openai = |url: &str| format!("[model]\nprovider = \"openai\"\nname = \"x\"\nbase_url = \"{url}\"");
    let by_http = |url: &str| format!("[mail]\ntransport = \"http\"\nbase_url = \"{url}\"");
    let token = |table: &str, origin: &str| {
        format!("[{table}.credentials.office]\norigin = \"{origin}\"\ntoken_env = \"SMTP_PASSWORD\"\n")
    };
    let client = |url: &str| {
        format!(
            "[ingestion.credentials.office]\norigin = \"https://a.org\"\ntoken_url = \"{url}\"\nclient_id = \"c\"\n\
             client_secret_env = \"SMTP_PASSWORD\""
        )
    };
    for (config, key) in [
        ("[model]\nbase_url = \"http://models.example.org\"".to_owned(), Some("`model.base_url`")),
        (openai("HTTP://192.0.2.7:8000/v1"), Some("`model.base_url`")),
        (openai("http://127.0.0.1.example.org/v1"), Some("`model.base_url`")),
        (by_http("http://mail.example.org"), Some("`mail.base_url`")),
        (smtp("none", "mail.example.org"), Some("`mail.smtp_tls`")),
        (smtp("none", "mail.example.org").replace("smtp_user = \"u\"\n", ""), Some("`mail.smtp_tls`")),
        (openai("http://localhost:8000/v1"), None),
        (openai("http://[::1]:8000/v1"), None),
        (openai("https://models.example.org/v1"), None),
        (by_http("http://127.0.0.1:8006"), None),
        (smtp("none", "127.0.0.1"), None),
        (smtp("auto", "mail.example.org"), None),
        (token("ingestion", "http://api.example.org"), Some("`ingestion.credentials.office.origin`")),
        (token("verification", "http://192.0.2.7"), Some("`verification.credentials.office.origin`")),
        (token("ingestion", "http://127.0.0.1:8000"), None),
        (token("verification", "https://api.example.org"), None),
        (token("ingestion", "http://10.1.2.3") + "[ingestion]\nallow_local = [\"10.0.0.0/8\"]", None),
        (client("http://login.example.org/t"), Some("`ingestion.credentials.office.token_url`")),
        (client("http://b\u{fc}cher.example/t"), Some("`ingestion.credentials.office.token_url`")),
        (client("https://login.example.org/t"), None),
    ] {
        let mut world = DaemonWorld::with_config(&config);
        for variable in ["GEMINI_API_KEY", "OPENAI_API_KEY", "SMTP_PASSWORD"] {
            world.variables.push((variable.into(), "s3cret".into()));
        }
        let check = |flags: &[&str]| {
            let mut command = world.oracled(&["check-config", "--config"]);
            let checked = command.arg(world.config_file()).args(flags).output().expect("oracled starts");
            (checked.status.success(), String::from_utf8_lossy(&checked.stderr).into_owned())
        };
        let (allowed, text) = check(&[]);
        assert_eq!(allowed, key.is_none(), "{config}: {text}");
        assert!(text.contains(key.unwrap_or_default()) && !text.contains("s3cret"), "{config}: {text}");
        let (allowed, text) = check(&["--allow-cleartext"]);
        assert!(allowed && text.contains(key.unwrap_or_default()), "{config}: {text}");
        if key.is_some() {
            assert!(error_line(world.command()).contains(key.unwrap_or_default()), "{config}");
        }
    }
    let mut world = DaemonWorld::with_config(&openai("http://models.example.org/v1"));
    world.config.push_str("\napi_key_file = \"/no/such\"");
    assert!(error_line(world.command()).contains("`model.api_key_file`"), "an unreadable key is an error");
    let world = DaemonWorld::with_config(&openai("http://models.example.org/v1"));
    let checked = world.oracled(&["check-config", "--config"]).arg(world.config_file()).output();
    assert!(checked.expect("oracled starts").status.success(), "without a key, clear text is permitted");
}

#[tokio::test]
async fn configuration_error_does_not_quote_a_secret() {
    for config in [
        "[model]\napi_key = s3cret",
        "[model]\napi_key = \"s3cret",
        "[model]\nbase_url = \"http://models.example.org?key=s3cret\"",
        "[mail]\ntransport = \"http\"\nbase_url = \"http://mail.example.org?key=s3cret\"",
        "[model]\nbase_url = \"https://u:s3cret@models.example.org\"",
        "[mail]\ntransport = \"http\"\nbase_url = \"http://u:s3cret@mail.example.org\"",
        "[mail]\nbase_url = \"ftp://u:s3cret@mail.example.org\"",
        "[ingestion.credentials.office]\norigin = \"https://a.org\"\ntoken_url = \"https://u:s3cret@a.org/t\"\nclient_id = \"c\"\nclient_secret_env = \"S\"",
    ] {
        let mut world = DaemonWorld::with_config(config);
        world.variables = vec![("GEMINI_API_KEY".into(), "k".into()), ("S".into(), "s".into())];
        let mut command = world.oracled(&["check-config", "--config"]);
        let checked = command.arg(world.config_file()).output().expect("oracled starts");
        let stderr_text = String::from_utf8_lossy(&checked.stderr) + String::from_utf8_lossy(&checked.stdout);
        assert!(!checked.status.success() && !stderr_text.contains("s3cret"), "{config}: {stderr_text}");
    }
}

#[tokio::test]
async fn check_config_prints_only_the_origin_of_token_url() {
    let mut world = DaemonWorld::with_config(
        "[ingestion.credentials.office]\norigin = \"https://a.org\"\n\
         token_url = \"https://a.org/t?tenant=7&api_key=s3cret\"\nclient_id = \"c\"\nclient_secret_env = \"S\"",
    );
    world.variables = vec![("GEMINI_API_KEY".into(), "k".into()), ("S".into(), "s".into())];
    for form in [&[][..], &["--json"]] {
        let mut command = world.oracled(&["check-config", "--config"]);
        let checked = command.arg(world.config_file()).args(form).output().expect("oracled starts");
        let printed = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        assert!(printed.contains("\"https://a.org/…\"") && !printed.contains("s3cret"), "{printed}");
    }
}
