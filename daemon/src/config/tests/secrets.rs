//! No output shows a misplaced secret: every key is set to values with a secret, in the file and by variable.

use super::*;
use crate::cli;
use crate::upstreams::UpstreamClients;
use actors_platform::clock::Clock;
use std::collections::BTreeSet;
use std::thread;

const SECRET: &str = "s3cret";

/// Values that contain the secret, as TOML.
const VALUES: [&str; 13] = [
    "'s3cret'",
    "'/s3cret'",
    "'Bearer s3cret'",
    "'u:s3cret@a.org'",
    "'a.org/s3cret'",
    "'http://a.org/s3cret'",
    "'https://a.org/t/s3cret?key=s3cret'",
    "'https://a.org/t#s3cret'",
    "'https://u:s3cret@a.org/t'",
    "'ftp://a.org/s3cret'",
    "['s3cret']",
    "{ a = 's3cret' }",
    "\"\"\"s3cret\ntwo lines\"\"\"",
];

/// Keys without secrets: errors may quote their values.
const QUOTED: [&str; 18] = [
    "cluster.host",
    "cluster.durability",
    "checkpoints.dir",
    "state_dir",
    "socket",
    "control_socket",
    "review_socket",
    "socket_mode",
    "prompt_template",
    "mail.templates",
    "control_socket_mode",
    "socket_group",
    "control_socket_group",
    "review_socket_mode",
    "review_socket_group",
    "log_level",
    "webhooks.events",
    "webhooks.operator_events",
];

/// Keys without secrets: `check-config` may print their values.
const PRINTED: [&str; 15] = [
    "cluster.host",
    "checkpoints.dir",
    "state_dir",
    "socket",
    "control_socket",
    "review_socket",
    "contact",
    "prompt_template",
    "model.name",
    "model.version",
    "mail.smtp_host",
    "mail.smtp_user",
    "mail.from",
    "mail.subject",
    "mail.templates",
];

/// Keys of credentials without secrets: `check-config` may print their values.
const PRINTED_OF_CREDENTIALS: [&str; 3] = ["header", "client_id", "scope"];

/// Settings of the model and of mail that each use other keys.
const SETTINGS: [&str; 6] = [
    "model.provider = 'none'",
    "model.provider = 'gemini'",
    "model.provider = 'openai'\nmodel.name = 'x'\nmodel.base_url = 'https://a.org'",
    "mail.transport = 'http'\nmodel.provider = 'none'",
    "mail.transport = 'smtp'\nmail.smtp_host = 'a.org'\nmail.from = 'a@b.org'\nmail.smtp_user = 'u'\nmodel.provider = 'none'",
    "mail.transport = 'smtp'\nmail.smtp_host = 'a.org'\nmail.from = 'a@b.org'\nmodel.provider = 'none'",
];

/// Credentials of each kind; `FILE` is a file with a key.
const CREDENTIALS: [&str; 6] = [
    "header = 'X-Key'\nkey_file = 'FILE'",
    "header = 'X-Key'\nkey_env = 'PATH'",
    "token_file = 'FILE'",
    "token_env = 'PATH'",
    "token_url = 'https://a.org/t'\nclient_id = 'me'\nclient_secret_file = 'FILE'\nscope = 'read'",
    "certificate_file = 'FILE'\nkey_file = 'FILE'",
];

fn set_key(settings: &str, key: &str, value: &str) -> String {
    let others = settings.lines().filter(|line| line.split(" = ").next() != Some(key));
    others.map(|line| format!("{line}\n")).collect::<String>() + &format!("{key} = {value}\n")
}

/// The configuration's error, or else its warnings and printed form.
fn load_and_print(file: &str, variables: &[(&str, &str)]) -> Result<String, String> {
    let config = load(file, variables, &DaemonFlags::default())?;
    let flags = DaemonFlags { allow_cleartext: true, ..DaemonFlags::default() };
    let upstreams =
        UpstreamClients::from_config(&config, &Clock::system(), &flags).map_err(|error| error.to_string())?;
    let mut out: String = upstreams.cleartext.iter().map(ToString::to_string).collect();
    for as_json in [false, true] {
        let mut printed = Vec::new();
        cli::print_config(&mut printed, &config, as_json).expect("a write to memory succeeds");
        out.push_str(&String::from_utf8_lossy(&printed));
    }
    Ok(out)
}

/// Where a secret is shown.
#[derive(Debug, Default)]
struct ShownKeys {
    /// Keys whose value an error quotes.
    quoted: BTreeSet<String>,
    /// Keys whose value is printed.
    printed: BTreeSet<String>,
}

impl ShownKeys {
    /// Asserts that the secret at `key` is shown only in an error that may quote it, or if its key is in `printed`.
    fn check(&mut self, key: &str, printed: &[&str], output: Result<String, String>, file: &str) {
        let (text, allowed, shown) = match &output {
            Ok(text) => (text, printed, &mut self.printed),
            Err(text) => (text, &QUOTED[..], &mut self.quoted),
        };
        if text.contains(SECRET) {
            assert!(allowed.contains(&key), "{file}\n{output:?}");
            shown.insert(key.to_owned());
        }
    }
}

fn config_keys() -> Vec<String> {
    let defaults = serde_json::to_value(DaemonConfig::default()).expect("plain data");
    let mut keys = Vec::new();
    for (name, value) in defaults.as_object().expect("an object") {
        match value.as_object() {
            Some(table) => keys.extend(table.keys().map(|key| format!("{name}.{key}"))),
            None => keys.push(name.clone()),
        }
    }
    keys
}

#[test]
fn configuration_key_does_not_show_misplaced_secret() {
    let keys = config_keys();
    let (some, others) = keys.split_at(keys.len() / 2);
    let [mut shown, of_others] = thread::scope(|threads| {
        [some, others]
            .map(|keys| threads.spawn(|| check_keys(keys)))
            .map(|checked| checked.join().expect("no secret is shown"))
    });
    shown.quoted.extend(of_others.quoted);
    shown.printed.extend(of_others.printed);
    let sorted = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(shown.quoted, sorted(&QUOTED));
    assert_eq!(shown.printed, sorted(&PRINTED));
}

fn check_keys(keys: &[String]) -> ShownKeys {
    let mut shown = ShownKeys::default();
    for key in keys {
        let of_upstreams = key.starts_with("model.") || key.starts_with("mail.");
        for settings in SETTINGS.into_iter().take(if of_upstreams { SETTINGS.len() } else { 1 }) {
            for value in VALUES {
                let file = set_key(settings, key, value);
                shown.check(key, &PRINTED, load_and_print(&file, &[]), &file);
                if let Some(text) = value.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
                    let variable = format!("ORACLED_{}", key.replace('.', "__").to_uppercase());
                    shown.check(key, &PRINTED, load_and_print(settings, &[(&variable, text)]), &file);
                }
            }
        }
    }
    shown
}

#[test]
fn credential_key_does_not_show_misplaced_secret() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("key");
    fs::write(&path, "of-the-file").expect("the file is written");
    let names = CREDENTIALS.iter().flat_map(|keys| keys.lines()).filter_map(|line| line.split(" = ").next());
    let names: BTreeSet<_> = names.chain(["origin", "client_secret_env"]).collect();
    assert_eq!(names.len(), 12, "{names:?}");
    let mut shown = ShownKeys::default();
    for table in ["ingestion.credentials.ab", "verification.credentials.ab"] {
        for keys in CREDENTIALS {
            let keys = keys.replace("FILE", &path.display().to_string());
            let keys = format!("origin = 'https://a.org'\n{keys}");
            let right = load_and_print(&format!("[{table}]\n{keys}"), &[]);
            assert!(right.is_ok() || keys.contains("certificate_file"), "{right:?}");
            for key in &names {
                for value in VALUES {
                    let file = format!("[{table}]\n{}", set_key(&keys, key, value));
                    shown.check(key, &PRINTED_OF_CREDENTIALS, load_and_print(&file, &[]), &file);
                }
            }
        }
    }
}

#[test]
fn invalid_configuration_file_is_refused_without_showing_its_secret() {
    for file in [
        "[model]\napi_key_file = s3cret",
        "[model]\napi_key_file = 's3cret",
        "[model]\napi_key_file = 's3cret' s3cret",
        "[model]\napi_key_file = \"s3cret\\q\"",
        "[model]\napi_key_file = 'x'\napi_key_file = 's3cret'",
        "s3cret",
        "= 's3cret'",
        "[model\napi_key_file = 's3cret'",
        "model = 's3cret'\n",
        "model = ['s3cret']\n",
        "model.name = 2024-13-45 # s3cret",
        "model.name = 1s3cret",
        "model.api_key = 's3cret'",
        "ingestion.credentials = 's3cret'",
        "ingestion.credentials.a = 's3cret'",
    ] {
        let error = load_error(file, &[]);
        assert!(!error.contains(SECRET), "{file}: {error}");
    }
}
