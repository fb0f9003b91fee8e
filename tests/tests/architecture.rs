//! Architecture rules that a program can check, each with its reason.

use oracled_tests::program;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests are a folder of the workspace")
        .to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("the file exists")
}

/// The Rust files in a folder and all folders below it.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// All source files of a crate, by path relative to the root.
fn sources(folder: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for path in rust_files(&root().join(folder).join("src")) {
        let name = path.strip_prefix(root()).expect("the path is below the root").display().to_string();
        found.insert(name, read(&path));
    }
    assert!(!found.is_empty(), "{folder} has sources");
    found
}

/// Lines of a source without comments and without its inline tests.
fn code(source: &str) -> String {
    let source = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| [line, "\n"]).collect()
}

fn is_test(name: &str) -> bool {
    name.ends_with("tests.rs") || name.contains("/tests/") || name.ends_with("testing.rs")
}

/// Each crate with the crates that it may depend on.
const DEPENDENCIES: [(&str, &[&str]); 18] = [
    ("domain/base", &[]),
    ("domain/audit", &["domain-base"]),
    ("domain/upstream", &["domain-base"]),
    ("domain/ground", &["domain-base"]),
    ("domain/verification", &["domain-base", "domain-audit", "domain-upstream", "domain-ground"]),
    ("domain/rules", &["domain-base", "domain-ground", "domain-verification"]),
    (
        "domain/verdict",
        &[
            "domain-base",
            "domain-audit",
            "domain-upstream",
            "domain-ground",
            "domain-verification",
            "domain-rules",
        ],
    ),
    (
        "domain",
        &[
            "domain-base",
            "domain-audit",
            "domain-upstream",
            "domain-ground",
            "domain-verification",
            "domain-rules",
            "domain-verdict",
        ],
    ),
    ("api", &["domain"]),
    ("store/base", &[]),
    ("store/facts", &["domain-base", "domain-ground", "store-base"]),
    ("store/log", &["domain", "store-base"]),
    ("store", &["domain", "store-base", "store-facts", "store-log"]),
    // the crates of the domain, and `store`, are those of their tests
    ("store/objects", &["domain-base", "store-facts"]),
    ("store/postgres", &["domain-audit", "domain-base", "domain-verdict", "store", "store-log"]),
    ("daemon", &["domain", "api", "store", "actors", "ctl"]),
    ("ctl", &["domain", "api", "store"]),
    ("tools", &["domain", "api", "ctl"]),
];

/// The crates of the actors. Each may depend on those before it, on the domain and on the store.
const ACTORS: [&str; 9] = [
    "actors/testing",
    "actors/platform",
    "actors/audit",
    "actors/upstream",
    "actors/ground",
    "actors/verification",
    "actors/rules",
    "actors/verdict",
    "actors",
];

/// Folders of all crates except the tests.
pub(crate) fn crates() -> impl Iterator<Item = &'static str> {
    DEPENDENCIES.into_iter().map(|(folder, _)| folder).chain(ACTORS)
}

/// The crates of the workspace that the crate in `folder` names as dependencies.
fn dependencies(folder: &str) -> Vec<String> {
    let manifest = read(&root().join(folder).join("Cargo.toml"));
    let named = manifest.lines().filter_map(|line| line.strip_prefix("oracled")?.split_once(['.', ' ']));
    named.map(|(named, _)| named.strip_prefix('-').unwrap_or("daemon").to_owned()).collect()
}

/// A decision must not depend on how it is stored or sent. `oraclectl` uses the daemon only by its API; it reads the store only
/// where no daemon is needed: for a backup or a state directory.
#[test]
fn crate_dependencies_point_one_way() {
    for (folder, allowed) in DEPENDENCIES {
        for named in dependencies(folder) {
            // a crate that may depend on a folder may depend on all crates in it
            let is_in_folder =
                |whole: &&str| ["domain", "store", "actors"].contains(whole) && named.starts_with(*whole);
            let is_allowed = allowed.contains(&&*named) || allowed.iter().any(is_in_folder);
            assert!(is_allowed, "{folder} depends on {named}");
        }
    }
    for (index, folder) in ACTORS.iter().enumerate() {
        for named in dependencies(folder) {
            let lower = ACTORS.iter().take(index).any(|lower| lower.replace('/', "-") == named);
            let is_below = named.starts_with("domain") || named.starts_with("store");
            assert!(lower || is_below, "{folder} depends on {named}");
        }
    }
}

/// The program is one, and its two command lines know nothing of each other.
#[test]
fn ctl_is_named_only_by_the_main_function_of_the_program() {
    for (name, source) in sources("daemon") {
        let is_main = name.ends_with("bin/oracled.rs");
        assert_eq!(source.contains("oracled_ctl"), is_main, "{name} names ctl");
    }
}

/// A route is declared once, with its description, by `routes!`.
#[test]
fn routes_are_declared_with_their_descriptions() {
    for (name, source) in sources("daemon").into_iter().filter(|(name, _)| !name.contains("/dev/")) {
        let undescribed = source.matches(".route(").count();
        // the place where `routes!` does so, and the route that tests use, which exists only with debug assertions
        let is_expected = name.ends_with("src/platform/routes.rs") || name.ends_with("src/control.rs");
        assert_eq!(undescribed, usize::from(is_expected), "{name}");
    }
}

/// The storage engine can be replaced, and its peculiarities stay in one crate.
#[test]
fn sled_is_named_only_by_the_crate_of_the_log() {
    for folder in crates().filter(|folder| *folder != "store/log") {
        for (name, source) in sources(folder) {
            assert!(!source.contains("sled::"), "{name} names sled");
        }
        assert!(!read(&root().join(folder).join("Cargo.toml")).contains("sled"), "{folder} depends on sled");
    }
}

/// The random numbers of a store come from the operating system only. The unit tests of the log have a generator with a seed, and check
/// that a program with it has this text.
#[test]
fn daemon_has_no_generator_with_a_seed() {
    let daemon = fs::read(program("oracled")).expect("the program was built");
    let text = b"the random numbers of a store come from a seed";
    assert!(memchr::memmem::find(&daemon, text).is_none());
}

/// Decisions are the same in the daemon, offline and in a test, because they have no side effects.
#[test]
fn domain_has_no_io_clock_or_async() {
    let banned = [
        "std::fs",
        "std::net",
        "std::env",
        "std::process",
        "std::thread",
        "std::io",
        "async ",
        ".await",
        "Timestamp::now",
    ];
    for folder in crates().filter(|folder| folder.starts_with("domain")) {
        for (name, source) in sources(folder).into_iter().filter(|(name, _)| !is_test(name)) {
            // serde's formatter writes to memory by the trait `Write`
            let is_formatter = name.ends_with("sorted_json.rs");
            for word in banned.iter().filter(|word| !is_formatter || **word != "std::io") {
                assert!(!code(&source).contains(word), "{name} holds {word}");
            }
        }
    }
}

/// jiff reads second 60 as 59, and years of one digit: `moment.rs` and `time_format.rs` do not. `failure.rs` reads only
/// `Retry-After`, and `columns.rs` times that the daemon wrote.
#[test]
fn times_are_parsed_only_by_the_strict_readers() {
    let readers = [
        "domain/base/src/moment.rs",
        "domain/base/src/time_format.rs",
        "actors/upstream/src/failure.rs",
        "tools/src/parquet/columns.rs",
    ];
    for folder in crates() {
        for (name, source) in sources(folder) {
            if readers.contains(&name.as_str()) || is_test(&name) {
                continue;
            }
            for call in [
                "parse::<Timestamp>",
                "parse::<jiff::",
                "strtime::parse",
                "BrokenDownTime::parse",
                "rfc2822",
                "strptime",
            ] {
                assert!(!code(&source).contains(call), "{name} calls {call}");
            }
        }
    }
}

/// Time is an argument, so that tests can set it.
#[test]
fn clock_is_read_only_in_clock_rs() {
    for folder in crates().filter(|folder| !["ctl", "tools"].contains(folder)) {
        for (name, source) in sources(folder) {
            if name == "actors/platform/src/clock.rs" || is_test(&name) {
                continue;
            }
            for call in ["SystemTime::now", "Instant::now", "Timestamp::now", "Zoned::now"] {
                assert!(!code(&source).contains(call), "{name} calls {call}");
            }
        }
    }
}

/// Everything that is unpacked has a limit in bytes: a bomb of 1 KB can hold gigabytes.
#[test]
fn nothing_is_unpacked_without_a_limit() {
    for folder in crates() {
        for (name, source) in sources(folder).into_iter().filter(|(name, _)| !is_test(name)) {
            for call in ["decode_all(", "copy_decode("] {
                assert!(!code(&source).contains(call), "{name} calls {call}");
            }
        }
    }
}

/// TMM's constants are defined in one file (seed: "Constants drifted").
#[test]
fn tmm_constants_are_written_only_in_tmm_rs() {
    for folder in crates() {
        for (name, source) in sources(folder) {
            if name == "domain/verdict/src/tmm.rs" || is_test(&name) {
                continue;
            }
            for digits in ["0.042", "1.618", "0.974"] {
                assert!(!code(&source).contains(digits), "{name} holds {digits}");
            }
        }
    }
}

/// A bare unwrap does not state why the value exists.
#[test]
fn unwrap_is_never_used_without_a_reason() {
    for folder in crates() {
        for (name, source) in sources(folder) {
            if !is_test(&name) {
                let source = code(&source);
                for word in [".unwrap()", "todo!(", "unimplemented!(", ".expect(\"\")"] {
                    assert!(!source.contains(word), "{name} holds {word}");
                }
            }
        }
    }
}

/// A file is one subject. A longer one has more than one.
#[test]
fn source_files_have_at_most_800_lines() {
    for folder in crates() {
        for (name, source) in sources(folder) {
            let lines = code(&source).lines().filter(|line| !line.trim().is_empty()).count();
            assert!(is_test(&name) || lines <= 800, "{name} has {lines} lines of code");
        }
    }
}

/// The model and the mail service of the test mode must not be used in production: only the module that checks the mode
/// creates them.
#[test]
fn test_mode_clients_are_created_only_where_the_mode_is_checked() {
    for (name, source) in &sources("daemon") {
        if name == "daemon/src/upstreams.rs" {
            assert!(source.contains("test_mode_fault"), "{name} checks the mode");
            continue;
        }
        let is_named = ["CannedModel", "FileMailService"].iter().any(|client| source.contains(client));
        assert!(!is_named, "{name} names a client of the test mode");
        let named: Vec<_> = source.match_indices("dev::").filter_map(|(at, _)| source.get(at..)).collect();
        let is_the_command = |rest: &&str| name == "daemon/src/cli.rs" && rest.starts_with("dev::dev(");
        let is_dev = name.starts_with("daemon/src/dev");
        assert!(is_dev || named.iter().all(is_the_command), "{name} uses dev: {named:?}");
    }
}

/// Each actor and service with its file and the type by which others hold it. Calls go only to later entries.
const NODES: [(&str, &str, &str); 20] = [
    ("erasure", "verdict/erasure", "ErasureService"),
    ("recall", "verdict/recall", "RecallService"),
    ("what_if", "verdict/what_if", "WhatIfService"),
    ("orders", "verdict/orders", "ActorHandle<OrdersActor>"),
    ("regen", "verdict/regen", "ActorHandle<RegenActor>"),
    ("lookup", "verdict/lookup", "LookupService"),
    ("generation", "verdict/generation", "Arc<GenerationRunner>"),
    ("crosscheck", "verdict/crosscheck", "ActorHandle<CrosscheckActor>"),
    ("cache", "verdict/cache", "ActorHandle<VerdictCache>"),
    ("fact_sources", "rules/fact_sources", "FactCollector"),
    ("rules", "rules", "RuleService"),
    ("rate_limiter", "verdict/rate_limiter", "ActorHandle<RateLimiter>"),
    ("notifier", "verdict/notifier", "ActorHandle<Notifier>"),
    ("verification_upkeep", "verification/upkeep", "ActorHandle<VerificationUpkeep>"),
    ("verification", "verification", "VerificationService"),
    ("oracle_health", "upstream/oracle_health", "ActorHandle<OracleHealth>"),
    ("queries", "ground/queries", "QueryService"),
    ("ingestion", "ground/ingestion", "ActorHandle<IngestionActor>"),
    ("registry", "ground/registry", "DocumentRegistry"),
    ("logger", "audit/logger", "LoggerHandle"),
];

/// Whether a file of `actors` belongs to the node at `path`, and not to another node below it.
fn belongs_to(name: &str, path: &str) -> bool {
    // `actors/rules/src/lib.rs` is the file of the node `rules`, `actors/rules/src/documents.rs` is below it
    let Some((feature, file)) = name.strip_prefix("actors/").and_then(|name| name.split_once("/src/")) else {
        return false;
    };
    let name = if file == "lib.rs" { format!("{feature}.rs") } else { format!("{feature}/{file}") };
    let is_in = |path: &str| {
        let rest = name.strip_prefix(path);
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    let is_below = |below: &str| below.starts_with(&format!("{path}/"));
    is_in(path) && !NODES.iter().any(|(_, below, _)| is_below(below) && is_in(below))
}

/// The calls between nodes in the code: the files of an actor name the handles that it holds.
fn arrows_in_code() -> BTreeSet<(String, String)> {
    let all: BTreeMap<_, _> = ACTORS.into_iter().flat_map(sources).collect();
    let mut arrows = BTreeSet::new();
    for (from, path, _) in NODES {
        let own = all.iter().filter(|(name, _)| belongs_to(name, path) && !is_test(name));
        let lines: Vec<_> = own.flat_map(|(_, source)| source.lines()).collect();
        assert!(!lines.is_empty(), "{from} has a file");
        for (to, _, kind) in NODES {
            let field = format!(": {kind},");
            let optional = format!(": Option<{kind}>,");
            let is_field = |line: &&str| line.ends_with(&field) || line.ends_with(&optional);
            if from != to && lines.iter().any(is_field) {
                arrows.insert((from.to_owned(), to.to_owned()));
            }
        }
    }
    arrows
}

/// The graph in `docs/actors.md` equals the wiring in the code, and the wiring has no cycle.
#[test]
fn documented_graph_equals_actor_wiring() {
    let page = read(&root().join("docs/actors.md"));
    let picture = page.split("```mermaid").nth(1).and_then(|rest| rest.split("```").next());
    let order = |name: &str| NODES.iter().position(|(node, ..)| *node == name);
    let mut drawn = BTreeSet::new();
    for line in picture.expect("the page has a graph").lines() {
        let Some((from, to)) = line.split_once("-->") else { continue };
        let to = to.rsplit('|').next().unwrap_or(to).trim();
        let (from, to) = (from.trim().to_owned(), to.split(['[', '(']).next().unwrap_or(to).to_owned());
        if order(&from).is_some() && order(&to).is_some() {
            drawn.insert((from, to));
        }
    }
    assert_eq!(drawn, arrows_in_code());
    assert!(drawn.iter().all(|(from, to)| order(from) < order(to)), "an arrow points back: {drawn:?}");
}

/// The reference explains each field of ground truth documents, and each value that a program may read.
#[test]
fn ground_truth_reference_names_every_document_field() {
    for (page, files) in [
        ("documents", &["axis", "ontology", "ontology/template", "source", "freshness"][..]),
        ("pipelines", &["pipeline"]),
        ("ground-truth", &["query/filter", "rejection"]),
    ] {
        check_reference_names(page, files.iter().map(|file| format!("domain/ground/src/{file}.rs")));
    }
    check_reference_names("live-sources", ["domain/verification/src/adapter.rs".to_owned()]);
}

/// The same for verification: requests, envelopes and reviews.
#[test]
fn verification_reference_names_every_field_and_enum_value() {
    let files = [
        "workflow",
        "request",
        "envelope",
        "axis_settlement",
        "verification_record",
        "conflict",
        "review",
        "reason",
    ];
    check_reference_names("verification", files.map(|file| format!("domain/verification/src/{file}.rs")));
}

/// Checks that the pages together name every field of the documents in these files, and every value of their enums.
fn check_reference_names(page: &str, files: impl IntoIterator<Item = String>) {
    let text = read(&root().join(format!("docs/{page}.md")));
    let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let explained: BTreeSet<_> = text.split(|letter| !is_of_word(letter)).collect();
    for file in files {
        let source = read(&root().join(&file));
        let mut named = BTreeSet::new();
        // fields of documents only, not of stored rows and of types that are computed from documents
        let documents = source.split("#[derive(").filter(|part| {
            let (derived, rest) = part.split_once(")]\n").unwrap_or_default();
            let mut attributes = rest.lines().take_while(|line| line.starts_with("#["));
            let is_document = derived.contains("Deserialize") && derived.contains("ToSchema");
            is_document && attributes.any(|line| line.contains("deny_unknown_fields"))
        });
        for line in documents.flat_map(str::lines) {
            let field = line.strip_prefix("    pub ").filter(|rest| !rest.starts_with("fn "));
            let field = field.and_then(|rest| rest.split_once(": "));
            // these fields have another name in a document
            let field = field.map(|(field, _)| field).filter(|field| !["kind", "subject"].contains(field));
            named.extend(field.map(str::to_owned));
        }
        let words = source.split("=> \"").skip(1).filter_map(|rest| rest.split('"').next());
        named.extend(words.filter(|word| word.chars().all(is_of_word)).map(str::to_owned));
        named.extend(serde_names(&source));
        assert!(!named.is_empty(), "{file} has fields or words");
        for name in named {
            assert!(explained.contains(&*name), "docs/{page}.md does not name {name}, of {file}");
        }
    }
}

/// The names that serde gives to enum variants without values.
fn serde_names(source: &str) -> impl Iterator<Item = String> {
    let enums = source.split("rename_all = \"").skip(1).filter_map(|rest| rest.split_once("\")]\n"));
    let variants = enums.flat_map(|(style, rest)| {
        let lines = rest.split("\n}").next().unwrap_or_default().lines();
        lines.filter_map(move |line| Some((style, line.strip_prefix("    ")?.strip_suffix(',')?)))
    });
    let words = variants.filter(|(_, name)| name.chars().all(|letter| letter.is_ascii_alphanumeric()));
    words.map(|(style, name)| {
        let mut word = String::new();
        for letter in name.chars() {
            if letter.is_ascii_uppercase() && !word.is_empty() {
                word.push('_');
            }
            word.push(letter.to_ascii_lowercase());
        }
        if style.starts_with("SCREAMING") { word.to_uppercase() } else { word }
    })
}

/// The names of the tests in a source that every run of all tests runs.
fn names_of_tests(source: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let (mut is_test, mut is_ignored) = (false, false);
    for line in source.lines().map(str::trim) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        is_ignored |= line.starts_with("#[ignore");
        if let Some((_, rest)) = line.split_once("fn ") {
            let name = rest.split_once('(').map(|(name, _)| name);
            found.extend(name.filter(|_| is_test && !is_ignored));
            (is_test, is_ignored) = (false, false);
        }
    }
    found
}

/// The words in backticks that have the form of a test's name.
fn named_tests(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        word.contains('_')
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    text.split('`').skip(1).step_by(2).filter(is_name)
}

/// The names on the security page that are not among `tests`, and the claims in its table without a name.
fn faults_of_security_page(page: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let unknown = named_tests(page).filter(|name| !tests.contains(*name)).map(str::to_owned);
    let rows = page.lines().filter(|line| line.starts_with("| **"));
    let protections = rows.map(|row| row.split('|').nth(3).unwrap_or_default());
    let claims = protections
        .flat_map(|cell| cell.trim().split(". "))
        .filter(|claim| named_tests(claim).next().is_none());
    unknown.chain(claims.map(str::to_owned)).collect()
}

/// Without a test, a claim about security would stay on the page when it is no longer true.
#[test]
fn security_page_names_an_existing_test_for_each_claim() {
    let mut tests = BTreeSet::new();
    for folder in crates().chain(["tests"]) {
        for path in rust_files(&root().join(folder)) {
            tests.extend(names_of_tests(&read(&path)).into_iter().map(str::to_owned));
        }
    }
    let page = read(&root().join("SECURITY.md"));
    assert!(
        page.lines().filter(|line| line.starts_with("| **")).count() >= 15,
        "it has a row for each party"
    );
    assert_eq!(faults_of_security_page(&page, &tests), Vec::<String>::new());

    let row = |claims: &str| format!("| **An operator** | all | {claims} | nothing |");
    let known = "A (`security_page_names_an_existing_test_for_each_claim`)";
    assert!(faults_of_security_page(&row(&format!("{known}.")), &tests).is_empty());
    for made_up in
        ["no_test_has_this_made_up_name", "names_of_tests", "three_hundred_forged_backups_are_refused"]
    {
        assert_eq!(faults_of_security_page(&row(&format!("{known}, B (`{made_up}`).")), &tests), [made_up]);
    }
    assert_eq!(faults_of_security_page(&row(&format!("{known}. B.")), &tests).len(), 1);
}
