mod yaml;

use super::*;
use domain_ground::freshness::FreshnessPolicy;
use serde::Deserialize;
use std::fs;
use tempfile::TempDir;

const POLICY: &str = "oracle_id: un-wpp\naxis_freshness: {}\ndefault_max_age_seconds: 60\n\
                      default_stale_behavior: fail_closed\ninvalidation_triggers: []\n";

fn read(text: &str) -> (Vec<FileDocument>, Vec<FileFault>) {
    let (mut documents, mut faults) = (Vec::new(), Vec::new());
    read_file("f", text, &mut documents, &mut faults);
    (documents, faults)
}

#[test]
fn documents_are_read_from_yaml_and_json_in_one_file() {
    let json = serde_json::json!({
        "$schema": "x", "kind": "freshness_policy", "oracle_id": "other", "axis_freshness": {},
        "default_max_age_seconds": 60, "default_stale_behavior": "fail_closed", "invalidation_triggers": [],
    });
    let json = serde_json::to_string_pretty(&json).expect("plain data");
    let (documents, faults) = read(&format!("# sources\n---\n\n{POLICY}---\n{json}\n---\n"));
    assert_eq!(faults, []);
    let places: Vec<_> = documents.iter().map(|read| (read.line, read.document.document_id())).collect();
    assert_eq!(places, [(4, "un-wpp".to_owned()), (10, "other".to_owned())]);
    assert!(documents.iter().all(|read| read.document.get::<FreshnessPolicy>().is_some()));
    let (documents, faults) = read(&format!("%YAML 1.2\n# a policy\n---\n{POLICY}"));
    let lines: Vec<_> = documents.iter().map(|read| read.line).collect();
    assert_eq!((lines, faults), (vec![4], Vec::new()));
}

#[test]
fn every_fault_is_reported_with_its_line() {
    let misspelled = POLICY.replace("axis_freshness", "axis_fresh");
    let repeated = POLICY.replace("{}", "{}\naxis_freshness: {}");
    let no_kind = "oracle_id: un-wpp\n";
    let broken = "a: [1\n";
    let json = "{\n  \"kind\": \"source\",\n  \"a\": 1, \"a\": 2\n}\n";
    let files = [POLICY, &misspelled, &repeated, no_kind, broken, json];
    let (documents, faults) = read(&files.join("---\n"));
    assert_eq!(documents.len(), 1);
    let places: Vec<_> = faults.iter().map(|fault| (fault.line, fault.column)).collect();
    let at = |line, column| (Some(line), Some(column));
    assert_eq!(places, [at(8, 1), at(15, 1), (Some(20), None), at(22, 4), at(26, 13)], "{faults:#?}");
}

fn only_fault(text: &str) -> String {
    let (_, faults) = read(text);
    let [fault] = faults.as_slice() else { panic!("one fault: {faults:?}") };
    fault.detail.clone()
}

#[test]
fn document_that_expands_beyond_the_limits_is_rejected_in_plain_words() {
    let mut bomb = format!("{POLICY}a: &a [{}]\n", ["x"; 10].join(","));
    for (name, before) in ["b", "c", "d", "e", "f", "g"].iter().zip(["a", "b", "c", "d", "e", "f"]) {
        bomb += &format!("{name}: &{name} [{}]\n", [format!("*{before}").as_str(); 10].join(","));
    }
    let many = format!("{POLICY}a: &a x\nb: [{}]\n", ["*a"; 200].join(","));
    for text in [bomb, many] {
        let fault = only_fault(&text);
        insta::assert_snapshot!("fault_of_a_document_with_too_many_values", fault);
    }
    let deep = format!("{POLICY}a: {}{}\n", "[".repeat(100), "]".repeat(100));
    insta::assert_snapshot!("fault_of_a_document_that_is_nested_too_deeply", only_fault(&deep));
}

#[test]
fn repeated_name_that_begins_a_document_suggests_a_separator() {
    let kind = "kind: freshness_policy\n";
    for text in [format!("{kind}{POLICY}{kind}{POLICY}"), format!("# one\n{POLICY}{POLICY}")] {
        assert!(only_fault(&text).ends_with(SEPARATE), "{text}");
    }
    let other = only_fault(&POLICY.replace("60", "60\ndefault_max_age_seconds: 60"));
    assert_eq!(other, "the name `default_max_age_seconds` occurs twice in one object");
    let number = POLICY.replace("{}", "{1: {}, 1: {}}");
    assert!(only_fault(&number).contains("`1`"));
    assert!(only_fault("{\"kind\": \"source\"}\n{}\n").ends_with(SEPARATE));
}

#[test]
fn word_in_place_of_an_object_is_reported_in_plain_words() {
    let pipeline = include_str!("../../../../examples/ground-truth/pipelines/iso-3166.json");
    let mut pipeline: serde_json::Value = serde_json::from_str(pipeline).expect("valid JSON");
    *pipeline.pointer_mut("/pipeline/retrieval/format").expect("a pipeline has a format") = "csv".into();
    let members = pipeline.as_object().expect("an object").iter();
    let yaml: String = members.map(|(name, value)| format!("{name}: {value}\n")).collect();
    insta::assert_snapshot!(
        "fault_of_a_text_for_an_object",
        [pipeline.to_string(), yaml].map(|text| only_fault(&text)).join("\n")
    );
}

#[test]
fn file_that_does_not_exist_is_reported_without_a_line() {
    let (_, faults) = read_all(&[PathBuf::from("/nowhere")]).expect("a missing file is only a fault");
    let places: Vec<_> = faults.iter().map(|fault| (fault.line, fault.column)).collect();
    assert_eq!(places, [(None, None)], "{faults:?}");
    assert!(faults[0].to_string().starts_with("/nowhere: "), "{faults:?}");
}

#[test]
fn yaml_text_that_looks_like_another_type_must_be_quoted() {
    let policy = |id: &str| read(&POLICY.replace("un-wpp", id));
    assert_eq!(policy("\"12\"").0.len(), 1);
    assert_eq!(policy("12").1.len(), 1);
    let names = |second: &str| read(&POLICY.replace("{}", &format!("{{\"1\": {{}}, {second}: {{}}}}"))).1;
    assert_eq!(names("1").len(), 1, "`1` and `\"1\"` are one name");
    assert_eq!(read(&POLICY.replace("60", "yes")).1.len(), 1);
}

#[test]
fn every_example_reads_back_equal_from_what_get_prints() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ground-truth");
    let folders = ["ontologies", "sources", "pipelines", "workflows", "live"].map(|name| examples.join(name));
    let (documents, faults) = read_all(&folders).expect("the folders are readable");
    assert_eq!((documents.len() > 15, faults), (true, Vec::new()));
    let odd = serde_json::json!({
        "oracle_id": "odd", "axis_freshness": {}, "default_max_age_seconds": 60, "default_stale_behavior": "fail_closed",
        "invalidation_triggers": [
            {"trigger_type": "upstream_signal", "config": {"webhook": "a\u{202e}\tb\n\tc", "secret_file": "1"}},
            {"trigger_type": "upstream_signal", "config": {"webhook": "no", "secret_file": "0x10"}},
        ],
    });
    let odd = AnyDocument::from(FreshnessPolicy::deserialize(odd).expect("a valid policy"));
    for document in documents.into_iter().map(|read| read.document).chain([odd]) {
        let printed = crate::ground::documents::to_yaml(document.document_type().into(), &document.to_json())
            .expect("the file is written");
        let (again, faults) = read(&printed);
        assert_eq!(faults, [], "{printed}");
        assert_eq!(again.into_iter().map(|read| read.document).collect::<Vec<_>>(), [document]);
    }
}

#[test]
fn folder_read_skips_subfolders_and_repeated_document_is_a_fault() {
    let folder = TempDir::new().expect("a folder");
    for name in ["b.yml", "a.yaml", "notes.txt"] {
        fs::write(folder.path().join(name), POLICY).expect("the file is written");
    }
    fs::create_dir(folder.path().join("c.json")).expect("the folder is created");
    let (documents, faults) = read_all(&[folder.path().to_owned()]).expect("the folders are readable");
    let path = |name: &str| folder.path().join(name).display().to_string();
    assert_eq!(documents.iter().map(|read| read.file.as_str()).collect::<Vec<_>>(), [path("a.yaml")]);
    assert_eq!(
        faults.iter().map(|fault| (&*fault.file, fault.line)).collect::<Vec<_>>(),
        [(&*path("b.yml"), Some(1))]
    );
    let empty = TempDir::new().expect("a folder");
    let error = read_all(&[empty.path().to_owned()]).expect_err("the folder is empty");
    let name = empty.path().display().to_string();
    assert_eq!((error.to_string().contains(&name), error.exit_code()), (true, 5), "{error}");
}
