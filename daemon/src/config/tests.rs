use super::*;
use serde_json::Value;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;

mod secrets;

fn load(file: &str, variables: &[(&str, &str)], flags: &DaemonFlags) -> Result<DaemonConfig, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("oracled.toml");
    fs::write(&path, file).expect("the file is written");
    let flags = DaemonFlags { config: Some(path), ..flags.clone() };
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let folder = dir.path().display().to_string();
    config::load::<DaemonConfig>(&flags, variables).map_err(|error| error.to_string().replace(&folder, "DIR"))
}

fn load_error(file: &str, variables: &[(&str, &str)]) -> String {
    load(file, variables, &DaemonFlags::default()).expect_err("the configuration is invalid")
}

#[test]
fn sender_and_subject_without_smtp_are_reported() {
    let unused = |transport: &str| {
        let file = format!(
            "[mail]\n{transport}\nfrom = \"a@b.example\"\nsubject = \"Your verdict\"\n[applications.shop]\nuids = [1]\n\
             mail_subject = \"Shop\""
        );
        let config = load(&file, &[], &DaemonFlags::default()).expect("a valid configuration");
        let warnings = config.warnings();
        let keys = warnings.iter().map(|warning| warning.split('`').nth(1).expect("a key").to_owned());
        keys.collect::<Vec<_>>()
    };
    assert_eq!(unused("transport = \"http\""), ["mail.from", "applications.shop.mail_subject"]);
    assert!(unused("transport = \"smtp\"\nsmtp_host = \"127.0.0.1\"").is_empty());
}

#[test]
fn retention_of_logs_under_six_months_is_reported() {
    let warnings = |days: u32| {
        let file = format!(
            "[retention]\nverdicts_days = {days}\nlog_days = {days}\nlog_values_days = 184\nverifications_days = 183"
        );
        load(&file, &[], &DaemonFlags::default()).expect("a valid configuration").warnings().len()
    };
    assert_eq!((warnings(183), warnings(184)), (3, 1));
}

#[test]
fn every_table_is_listed_once_as_a_section() {
    let config = DaemonConfig::default();
    let defaults = serde_json::to_value(&config).expect("plain data");
    let tables = defaults.as_object().expect("an object").iter().filter(|(_, value)| value.is_object());
    let mut tables: Vec<_> =
        tables.map(|(key, _)| key.as_str()).chain(["contact", "prompt_template", "recall"]).collect();
    let mut listed: Vec<_> = config.sections().iter().map(|section| section.key()).collect();
    tables.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, tables);
}

#[test]
fn empty_file_gives_the_defaults() {
    assert_eq!(load("", &[], &DaemonFlags::default()), Ok(DaemonConfig::default()));
}

#[test]
fn flags_override_variables_and_variables_override_the_file() {
    let file = "socket = '/file/s'\nstate_dir = '/file'\ncontact = 'file@x'\n[limits]\nbody_bytes = 2000\nidle_s = 7";
    let variables = [
        ("ORACLED_SOCKET", "/variable/s"),
        ("ORACLED_STATE_DIR", "/variable"),
        ("ORACLED_LIMITS__BODY_BYTES", "3000"),
        ("ORACLED_CONFIG", "/not/a/key"),
        ("ORACLE_HOME", "none of ours"),
    ];
    let flags = DaemonFlags { socket: Some("/flag/s".into()), ..DaemonFlags::default() };
    let config = load(file, &variables, &flags).expect("a valid configuration");
    assert_eq!(config.socket, Path::new("/flag/s"));
    assert_eq!(config.state_dir, Path::new("/variable"));
    assert_eq!(config.contact.0.as_deref(), Some("file@x"));
    assert_eq!((config.limits.body_bytes, config.limits.idle_s), (3000, 7));
}

#[test]
fn list_of_numbers_is_read_from_a_variable_and_checked() {
    let uids = |text| load("", &[("ORACLED_APPLICATIONS__SHOP__UIDS", text)], &DaemonFlags::default());
    let config = uids("1001, 1002").expect("user ids");
    let shop = config.applications.values().next().expect("an application");
    assert_eq!(shop.uids, [1001, 1002]);
    for bad in ["1001,shop", "-1", "1.5"] {
        let fault = uids(bad).expect_err("no user ids").to_string();
        assert!(fault.contains("applications.shop.uids") && fault.contains("integers"), "{fault}");
    }
}

#[test]
fn every_key_can_be_set_by_variable() {
    let given: HashMap<&str, &str> = [
        ("socket_mode", "0600"),
        ("control_socket_mode", "600"),
        ("review_socket_mode", "600"),
        ("socket_group", "root"),
        ("control_socket_group", "root"),
        ("review_socket_group", "root"),
        ("review_socket", "/run/oracled/review.sock"),
        ("model__base_url", "https://a.org"),
        ("model__takes_temperature", "true"),
        ("model__takes_top_p", "true"),
        ("model__takes_top_k", "true"),
        ("model__takes_schema", "true"),
        ("model__thinking_budget", "0"),
        ("model__max_output_tokens", "8192"),
        ("model__input_price", "0.3"),
        ("model__output_price", "2.5"),
        ("costs__daily_budget", "20"),
        ("cluster__host", "app-1"),
        ("cluster__objects", "/shared/facts"),
        ("checkpoints__dir", "/checkpoints"),
        ("retention__verdicts_days", "365"),
        ("retention__log_values_days", "90"),
        ("retention__verifications_days", "365"),
        ("retention__log_days", "730"),
        ("retention__payloads_days", "365"),
        ("gate__coherence_min", "0.98"),
        ("gate__rules", "RULE-CONT-002"),
        ("lookup__preset", "stripe"),
        ("metrics__listen", "127.0.0.1:9464"),
        ("traces__base_url", "http://127.0.0.1:4318"),
        ("lookup__session_url", "https://pay.example/{session_id}"),
        ("webhooks__events", "order.held"),
        ("webhooks__operator_events", "run.held"),
    ]
    .into();
    let config = serde_json::to_value(DaemonConfig::default()).expect("a configuration is plain data");
    let mut variables = Vec::new();
    for (key, value) in config.as_object().expect("an object") {
        let section = value.as_object().into_iter().flatten();
        let below: Vec<_> = section.map(|(name, value)| (format!("{key}__{name}"), value.clone())).collect();
        let flat = if value.is_object() { below } else { vec![(key.clone(), value.clone())] };
        for (name, value) in flat {
            let list =
                |words: &Vec<Value>| words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
            let value = match (given.get(name.as_str()), &value) {
                (Some(given), _) => (*given).to_owned(),
                (None, Value::String(text)) => text.clone(),
                (None, Value::Array(words)) => list(words),
                (None, other) => other.to_string(),
            };
            variables.push((format!("ORACLED_{}", name.to_uppercase()), value));
        }
    }
    assert!(variables.len() > 20, "{variables:?}");
    let load_some = |is_given: fn(&str) -> bool| {
        let given = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        load("", &given.filter(|(name, _)| is_given(name)).collect::<Vec<_>>(), &DaemonFlags::default())
    };
    // a build without clusters has no host of a cluster, and such a host without objects removes no payloads
    let all = load_some(|_| true);
    assert_eq!(all.is_ok(), cfg!(all(feature = "cluster", feature = "otel")), "{all:?}");
    let without_cluster = load_some(|name| !name.starts_with("ORACLED_CLUSTER__"));
    assert_eq!(without_cluster.is_ok(), cfg!(feature = "otel"), "{without_cluster:?}");
    assert!(load_some(|name| !name.ends_with("__OBJECTS")).is_err());
    let is_always_there =
        |name: &str| !["CLUSTER", "TRACES"].iter().any(|section| name.contains(&format!("_{section}__")));
    let loaded = load_some(is_always_there).expect("each variable is a key");
    assert_eq!((loaded.socket_mode.as_str(), loaded.limits), ("0600", DaemonConfig::default().limits));
    assert_eq!(loaded.rules, DaemonConfig::default().rules);
}

#[test]
fn unknown_key_is_rejected_with_its_position_and_the_keys_it_may_mean() {
    insta::assert_snapshot!(load_errors(&[
        "contact = 'a@b'\nsokcet = '/x'",
        "[models.b]\nname = 'x'\nnmae = 'x'",
        "[applications.a]\nuids = [1]\n[applications.a.gate.quick]\nhodl = []",
        "[ingestion.credentials.wb]\norigin = 'https://a'\ntokn_env = 'T'",
        "sokcet = '/x'",
        "[limits]\nbody = 1",
        "[limit]\nidle_s = 1",
        "body_bytes = 2000",
        "[limits]\ncontact = 'a@b'",
        "[ingestion.credential.wb]\norigin = 'x'",
        "storage = 1",
        // the constants of the crosscheck are not keys
        "phi = 0.1",
    ]));
}

#[test]
fn unknown_key_in_a_free_table_names_its_variable() {
    let error = load_error("[models.b]\nname = 'x'", &[("ORACLED_MODELS__B__NMAE", "x")]);
    let named = "`models.b.nmae` in the variable `ORACLED_MODELS__B__NMAE` is not a key; remove it, or use `models.b.name`";
    assert!(error.contains(named), "{error}");
}

#[test]
fn all_faults_of_keys_and_values_are_reported() {
    let faults = |file: &str, variables: &[(&str, &str)]| load_error(file, variables).lines().count();
    let file = "state_dir = 'state'\nsocket = ''\nlog_level = 'loud=very'\n[mail]\nbase_url = 'example.org'\n\
                [limits]\nidle_s = 0\nheaders = 1";
    let error = load_error(file, &[]);
    for key in ["state_dir", "socket", "log_level", "mail.base_url", "limits.idle_s", "limits.headers"] {
        assert!(error.contains(&format!("configuration: `{key}` ")), "{key}: {error}");
    }
    assert_eq!(error.lines().count(), 6, "{error}");
    let variables = [("ORACLED_SOKCET", "/x"), ("ORACLED_CONTCAT", "a@b"), ("ORACLED_LIMITS__IDLE_S", "0")];
    assert_eq!(faults("sokcet = '/x'\nphi = 1", &variables), 5);
    // a value whose limits depend on a value out of range is not checked
    assert_eq!(faults("limits.request_s = 0", &[]), 1);
    let file = "contact = 5\nsokcet = '/x'\nlog_level = 'loud=very'\nmail.transport = 'pigeon'\n\
                [limits]\nidle_s = true\nheaders = 1.5";
    let error = load_error(file, &[]);
    for key in ["contact", "sokcet", "log_level", "mail.transport", "limits.idle_s", "limits.headers"] {
        assert!(error.contains(&format!("configuration: `{key}` ")), "{key}: {error}");
    }
    assert_eq!(error.lines().count(), 6, "{error}");
}

#[test]
fn file_that_is_not_utf8_is_refused_with_the_position() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("oracled.toml");
    fs::write(&path, b"contact = 'caf\xe9'").expect("the file is written");
    let flags = DaemonFlags { config: Some(path), ..DaemonFlags::default() };
    let error = config::load::<DaemonConfig>(&flags, []).expect_err("the file is not UTF-8").to_string();
    assert!(error.contains("oracled.toml") && error.contains("14"), "{error}");
}

#[test]
fn variable_is_converted_to_the_type_of_its_key() {
    let variables = [
        ("ORACLED_LIMITS__IDLE_S", "7"),
        ("ORACLED_MODEL__TAKES_TOP_K", "false"),
        ("ORACLED_MODEL__ORIGINAL_TEMPERATURE", "1"),
        ("ORACLED_CONTACT", "5"),
    ];
    let config = load("", &variables, &DaemonFlags::default()).expect("a valid configuration");
    assert_eq!((config.limits.idle_s, config.contact.0.as_deref()), (7, Some("5")));
    assert_eq!((config.model.takes_top_k, config.model.original_temperature), (Some(false), 1.0));
    for (name, value, allowed) in [
        ("ORACLED_LIMITS__IDLE_S", "yes", "1 to 3600"),
        ("ORACLED_LIMITS__IDLE_S", "1.5", "1 to 3600"),
        ("ORACLED_LIMITS__IDLE_S", "", "1 to 3600"),
        ("ORACLED_MODEL__TAKES_TOP_K", "1", "true, false"),
    ] {
        let error = load_error("", &[(name, value)]);
        assert!(error.contains(&format!("(variable `{name}`)")) && error.contains(allowed), "{error}");
    }
}

#[test]
fn path_must_be_absolute_unless_a_flag_sets_it() {
    for key in ["state_dir", "socket", "control_socket", "review_socket"] {
        for (value, given) in [("", "empty"), ("./x", "`./x`, which is relative")] {
            let error = load_error(&format!("{key} = '{value}'"), &[]);
            assert!(error.contains(&format!("`{key}` is {given}; ")), "{error}");
            let variable = format!("ORACLED_{}", key.to_uppercase());
            let error = load_error("", &[(&variable, value)]);
            assert!(error.contains(&format!("`{key}` (variable `{variable}`) is {given}; ")), "{error}");
        }
    }
    let flags = DaemonFlags { state_dir: Some("./x".into()), ..DaemonFlags::default() };
    let config = load("state_dir = 'y'", &[], &flags).expect("the flag overrides the file");
    assert_eq!(config.state_dir, env::current_dir().expect("a current directory").join("x"));
    let flags = DaemonFlags { socket: Some("".into()), ..DaemonFlags::default() };
    let error = load("", &[("ORACLED_SOCKET", "/x")], &flags).expect_err("an empty path");
    assert!(
        error.contains("`socket`") && !error.contains("ORACLED_SOCKET"),
        "the flag has the fault, not the variable: {error}"
    );
}

#[test]
fn number_that_does_not_fit_its_type_is_rejected_with_its_key() {
    for value in ["70000", "5000000000", "-1"] {
        let message = format!("is {value}; allowed: 1 to 65535");
        let error = load_error(&format!("mail.smtp_port = {value}"), &[]);
        assert!(error.contains(&format!("`mail.smtp_port` {message}")), "{error}");
        let error = load_error("", &[("ORACLED_MAIL__SMTP_PORT", value)]);
        assert!(
            error.contains(&format!("`mail.smtp_port` (variable `ORACLED_MAIL__SMTP_PORT`) {message}")),
            "{error}"
        );
    }
    insta::assert_snapshot!(load_error("limits.idle_s = 99_999_999_999_999_999_999", &[]));
}

#[test]
fn variables_of_container_platforms_are_ignored() {
    let tables = ["", "_MODEL", "_MAIL", "_HEALTH", "_RULES", "_STORAGE", "_LIMITS"];
    let set_for_a_service = [
        "PORT",
        "SERVICE_HOST",
        "SERVICE_PORT",
        "SERVICE_PORT_HTTP",
        "PORT_8080_TCP",
        "PORT_8080_TCP_ADDR",
        "PORT_8080_TCP_PORT",
        "PORT_8080_TCP_PROTO",
        "NAME_SPACE",
        "ENV_PATH",
        "HOST",
    ];
    for table in tables {
        for suffix in set_for_a_service {
            let name = format!("ORACLED{table}_{suffix}");
            assert_eq!(
                load("", &[(&name, "x")], &DaemonFlags::default()),
                Ok(DaemonConfig::default()),
                "{name}"
            );
        }
    }
}

#[cfg(unix)]
#[test]
fn variable_that_is_not_text_is_refused_only_if_it_is_a_key() {
    use std::os::unix::ffi::OsStringExt;
    let set = |name: &str| [(name.into(), OsString::from_vec(vec![0xff]))];
    let flags = DaemonFlags::default();
    assert!(config::load::<DaemonConfig>(&flags, set("ORACLED_PORT")).is_ok());
    let error = config::load::<DaemonConfig>(&flags, set("ORACLED_CONTACT"))
        .expect_err("the variable is not UTF-8")
        .to_string();
    assert!(error.contains("`ORACLED_CONTACT`"), "{error}");
}

#[test]
fn misspelled_variable_is_refused_with_the_variables_that_are_allowed() {
    for (name, allowed) in [
        ("ORACLED_SOKCET", "`ORACLED_SOCKET`"),
        ("ORACLED_STATEDIR", "`ORACLED_STATE_DIR`"),
        ("ORACLED_MODEL_NAME", "`ORACLED_MODEL__NAME`"),
        ("ORACLED_LIMITS_BODY_BYTE", "`ORACLED_LIMITS__BODY_BYTES`"),
        ("ORACLED_LIMIT__IDLE_S", "`ORACLED_LIMITS__IDLE_S`"),
        ("ORACLED_STORAGE__SIZE", "`ORACLED_STORAGE__CACHE_BYTES`"),
        ("ORACLED_STORAGE", "`ORACLED_STORAGE__HOT_BYTES`"),
        ("ORACLED_STORAGE__HOT_BYTES__MAX", "`ORACLED_STORAGE__HOT_BYTES`"),
        ("ORACLED_SOCKET__PATH", "`ORACLED_SOCKET`"),
    ] {
        let error = load_error("", &[(name, "1")]);
        assert!(error.contains(&format!("`{name}`")) && error.contains(allowed), "{error}");
    }
}

/// The errors of these files, for a snapshot.
fn load_errors(files: &[&str]) -> String {
    files.iter().map(|file| load_error(file, &[])).collect::<Vec<_>>().join("\n")
}

#[test]
fn value_of_a_wrong_type_is_rejected_with_its_key() {
    insta::assert_snapshot!(load_errors(&[
        "limits.idle_s = '7'",
        "limits.idle_s = 7.0",
        "limits.idle_s = 2026-11-22",
        "limits.idle_s = {a = 1}",
        "limits.connections = false",
        "health.failure_threshold = 5_000_000_000",
        "health.circuit_breaker_enabled = 1",
        "contact = 5",
        "contact = true",
        "contact = nan",
        "socket_mode = 660",
        "model.original_temperature = '1'",
        "model.takes_top_k = 'yes'",
        "gate.unexpected_fields = 'keep'",
        "rules.profile = 'RULE-PREC-001'",
        "rules.profile = [1]",
        "ingestion.allow_local = 5",
        "ingestion.credentials.wb = 's3cret'",
        "ingestion.credentials.wb.origin = 5",
    ]));
}

#[test]
fn value_that_is_not_allowed_is_rejected_with_its_key() {
    insta::assert_snapshot!(load_errors(&[
        "limits.body_bytes = 'big'",
        "limits.body_bytes = 3",
        "limits.session_id_chars = 256",
        "limits.idle_s = 0",
        "limits.idle_s = -1",
        "limit = {}",
        "state_dir = \"/a\\u0000b\"",
        "socket_group = 'no-such-group'",
        "log_format = 'xml'",
        "log_level = 'loud=very'",
        "socket_mode = '0999'",
        "socket_mode = '1'",
        "socket_mode = '+660'",
        "socket = '/x'\ncontrol_socket = '/x'",
        "control_socket = '/x'\nreview_socket = '/x'",
        "socket = '/x'\nreview_socket = '/x'",
        "review_socket_mode = '0666'",
        "state_dir = [1]",
        "mail.transport = 'pigeon'",
        "mail.smtp_tls = 'maybe'",
        "mail.base_url = 'example.org'",
        "mail.smtp_port = 0",
        "mail.hard_timeout_ms = 1",
        "mail.max_age_s = 1",
        "mail.transport = 'smtp'",
        "mail = {transport = 'smtp', smtp_host = 'h.org:25'}",
        "mail = {transport = 'smtp', smtp_host = 'h'}",
        "mail = {transport = 'smtp', smtp_host = 'h', from = 'me'}",
        "mail = {transport = 'smtp', smtp_host = 'h', from = 'a@b.org', subject = \"a\\nb\"}",
        "checkpoints.every_s = 0",
        "state_dir = '/s'\ncheckpoints.dir = '/s/checkpoints'",
        "ingestion.max_payload_bytes = 0",
        "ingestion.connect_s = 0",
        "ingestion.idle_s = 0",
        "ingestion.pull_s = 90000",
        "ingestion.runs_at_once = 65",
        "ingestion.refresh_s = 30",
        "limits.request_s = 5\nmodel.provider = 'none'",
        "ingestion.allow = 1",
    ]));
    assert!(load_error("= nonsense", &[]).contains("oracled.toml"));
    let long = format!("socket = '/{}'", "x".repeat(107));
    let error = load_error(&long, &[]);
    assert!(error.contains("108") && error.contains("107"), "{error}");
    let error = load_error("", &[("ORACLED_LIMITS__IDLE_S", "soon")]);
    assert!(error.contains("limits.idle_s"), "{error}");
}

#[test]
fn missing_configuration_file_is_an_error() {
    let flags = DaemonFlags { config: Some("/no/such/file.toml".into()), ..DaemonFlags::default() };
    let error = config::load::<DaemonConfig>(&flags, []).expect_err("the file is missing").to_string();
    assert!(error.contains("/no/such/file.toml"), "{error}");
}

#[test]
fn rules_profile_is_a_list_of_distinct_known_rules() {
    let config = load("[rules]\nprofile = ['RULE-CONT-001', 'RULE-PREC-002']", &[], &DaemonFlags::default());
    let profile = config.expect("a valid configuration").rules.to_config().settings.profile;
    assert_eq!(
        profile.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["RULE-CONT-001", "RULE-PREC-002"]
    );
    let unknown = load_error("[rules]\nprofile = ['RULE-PREC-1']", &[]);
    let unknown = unknown.split_once("RULE-PREC-001, ").expect("the allowed rules are listed").0;
    let none = load_error("[rules]\nprofile = []", &[]);
    let twice = load_error("", &[("ORACLED_RULES__PROFILE", "RULE-PREC-001,RULE-PREC-001")]);
    insta::assert_snapshot!([unknown, &none, &twice].join("\n"));
}

#[test]
fn allow_local_is_a_list_of_networks() {
    let ranges = |config: DaemonConfig| config.ingestion.to_pull_settings(false).allow_local;
    let config = load("[ingestion]\nallow_local = ['10.0.0.0/8', 'fd00::/8']", &[], &DaemonFlags::default());
    let listed = ranges(config.expect("a valid configuration"));
    let variables = [("ORACLED_INGESTION__ALLOW_LOCAL", "10.0.0.0/8, fd00::/8")];
    assert_eq!(ranges(load("", &variables, &DaemonFlags::default()).expect("a valid configuration")), listed);
    assert_eq!(listed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.0/8", "fd00::/8"]);
    assert!(ranges(DaemonConfig::default()).is_empty());
    let bad = ["['10.0.0.1']", "['10.0.0.0/33']", "['intranet']", "['']"];
    let bad = bad.map(|list| format!("ingestion.allow_local = {list}"));
    insta::assert_snapshot!(load_errors(&bad.each_ref().map(String::as_str)));
}

#[test]
fn keys_of_a_credential_decide_its_kind() {
    const HEAD: &str = "[ingestion.credentials.wb-1]\n";
    let of = |keys: &str| {
        load(&format!("{HEAD}origin = 'https://example.org'\n{keys}"), &[], &DaemonFlags::default())
    };
    for keys in [
        "header = 'X-Key'\nkey_file = '/k'",
        "header = 'X-Key'\nkey_env = 'K'",
        "token_file = '/t'",
        "token_env = 'T'",
        "token_url = 'https://a/t'\nclient_id = 'me'\nclient_secret_file = '/s'",
        "token_url = 'https://a/t'\nclient_id = 'me'\nclient_secret_env = 'S'\nscope = 'read'",
        "certificate_file = '/c'\nkey_file = '/k'",
    ] {
        let config = of(keys).expect("a valid credential");
        assert_eq!(config.ingestion.credentials.len(), 1);
        // the printed form can be read back
        let printed = serde_json::to_value(&config).expect("plain data");
        assert_eq!(serde_json::from_value::<DaemonConfig>(printed).expect("a valid configuration"), config);
    }
    let unclear = of("header = 'X-Key'").expect_err("a header without its key");
    for keys in [
        "header = 'X-Key'\nkey_file = '/k'\nkey_env = 'K'",
        "header = 'X-Key'\nkey_file = '/k'\ntoken_env = 'T'",
        "key_file = '/k'",
        "token_file = '/t'\ntoken_env = 'T'",
        "token_url = 'https://a/t'\nclient_id = 'me'",
        "token_url = 'https://a/t'\nclient_secret_env = 'S'",
        "token_env = 'T'\nscope = 'read'",
        "certificate_file = '/c'",
        "certificate_file = '/c'\nkey_file = '/k'\nheader = 'X-Key'",
        "",
    ] {
        let error = of(keys).expect_err("an invalid credential");
        assert_eq!(error, unclear, "{keys}");
    }
    let mut errors = unclear;
    for keys in [
        "",
        "origin = 'example.org'\n",
        "origin = 'https://u:s3cret@example.org'\n",
        "origin = 'https://example.org/data'\n",
    ] {
        errors = errors + "\n" + &load_error(&format!("{HEAD}{keys}token_env = 'T'"), &[]);
    }
    let unknown = of("password = 's3cret'").expect_err("an unknown key");
    let no_id = load_error("[ingestion.credentials.WB]\norigin = 'https://a'\ntoken_env = 'T'", &[]);
    let errors = [errors, unknown, no_id].join("\n");
    assert!(!errors.contains("s3cret"), "{errors}");
    insta::assert_snapshot!(errors);
}
