//! The example sources: the results that their README describes.

use domain_verification::Envelope;
use oracled_tests::DaemonWorld;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the examples' script against the daemon of this world with the environment variable `name`.
async fn run(world: &DaemonWorld, (name, value): (&str, OsString)) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ground-truth/run.sh");
    let mut command = Command::new(script);
    command.env_remove("ORACLECTL").env(name, value);
    command.env("ORACLED_SOCKET", world.socket()).env("ORACLED_CONTROL_SOCKET", world.control_socket());
    let ended = tokio::task::spawn_blocking(move || command.output()).await.expect("the task does not panic");
    let Output { status, stdout, stderr } = ended.expect("bash is installed");
    let output = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{output}\n{}", String::from_utf8_lossy(&stderr));
    output
}

/// A search path that begins with a folder with `oraclectl`.
fn path(world: &DaemonWorld) -> OsString {
    let folder = world.path("bin");
    std::fs::create_dir(&folder).expect("the world is empty");
    symlink(oracled_tests::program("oraclectl"), folder.join("oraclectl")).expect("the link is created");
    let mut path = OsString::from(folder);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

/// The answers to all questions except the last, without lines that contain an age.
fn answers(text: &str) -> Vec<&str> {
    let (_, answers) = text.split_once("\n== population of Moldova").expect("the output has queries");
    let (answers, _) = answers.split_once("\n== freshness").expect("the output has the last query");
    answers.lines().filter(|line| !line.contains(" days old") && !line.starts_with("warning: ")).collect()
}

#[tokio::test]
async fn gallery_script_ingests_and_a_second_run_changes_nothing() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let output = run(&world, ("PATH", path(&world))).await;
    let mut rest = output.as_str();
    for message in [
        "source world-bank-population is approved",
        "rejected      3: enum_mapping 1, duplicate_key 2",
        "changes       0\n",
        "withdrawn 6\n",
        "rejected      3: required_field 1, unit_conversion 1, check 1",
        "2835978",
        "(without Transnistria)",
        "3554108",
        "4070705",
        "(with Transnistria)",
        "ANG BGN CUC HRK SLL ZWL\n",
        "raw hash         bfb92ef454bb78fcc816b29ea58939388ef24f9480e5821c4b9dd6e9a9765f11",
        "2017-10-26, run 9a9f263c7a29: 35 raw records in 959 bytes, no faults",
        "0.643",
        "0.0000006",
        "superseded 15, withdrawn 1",
        "unit_conversion  nutrients.vitamin_c.amount",
        "-1 is below 0",
        "PASS: 1 rule passes",
        "source  world-bank-population, primary, version 2023-05-04",
        "fact    The population of France with the overseas departments in 2015 was 66.5 million",
        "FAIL: 1 rule fails",
        "was 3,554,108",
        "PASS: 1 rule passes",
        "The population of Aruba in 2015 was 107,906",
        "population: 108727 {person}\n  one source has this value",
        "the values of the sources have different definitions (definition_mismatch)",
        "(primary) 104339 against world-bank-population (primary) 107906, 3567 apart: left to a reviewer",
        "next: oraclectl review resolve v-",
        "is resolved\n",
        "population: 107906 {person}\n  a reviewer decided this value",
    ] {
        let at = rest.find(message).unwrap_or_else(|| panic!("{message} is not in\n{rest}"));
        rest = &rest[at + message.len()..];
    }
    let again = run(&world, ("ORACLECTL", oracled_tests::program("oraclectl").into())).await;
    assert_eq!(again.matches("has brought these records before; nothing changes").count(), 12);
    assert_eq!(answers(&again), answers(&output));
}

#[test]
fn envelope_in_the_reference_is_intact() {
    let reference = include_str!("../../docs/verification.md");
    let (_, shown) = reference.split_once("```json\n").expect("the reference has an envelope");
    let (shown, _) = shown.split_once("\n```").expect("the process ends");
    let envelope: Envelope = serde_json::from_str(shown).expect("valid JSON");
    assert!(envelope.is_intact());
}
