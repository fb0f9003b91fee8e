//! Files with documents in YAML or JSON.

mod yaml;

use crate::base::error::CtlError;
use crate::base::input::read_text;
use crate::base::input_lines::{display_name, json_error_text};
use domain_base::document::AnyDocument;
use domain_base::duplicate_keys::DuplicateKeyCheck;
use domain_base::wording::reword_serde_error;
use oracled_domain::documents::DocumentKindHint;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// Extensions of the files that are read in a folder.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The directive of YAML files of the version that is read.
const YAML_VERSION: &str = "%YAML 1.2";

/// The remedy for two documents without a separator between them.
const SEPARATE: &str = "separate documents with a line `---`";

/// A document and its position in a file.
#[derive(Debug)]
pub(super) struct FileDocument {
    pub(super) file: String,
    /// The line on which the document begins, from 1.
    pub(super) line: usize,
    pub(super) document: AnyDocument,
}

/// A fault in a file, with its position.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct FileFault {
    file: String,
    /// The line, from 1; null for a file that cannot be read.
    line: Option<usize>,
    /// The column, from 1; null for a fault of the whole document.
    column: Option<usize>,
    detail: String,
}

impl FileFault {
    pub(super) fn from_document(document: &FileDocument, detail: &str) -> Self {
        let detail =
            format!("{} {}: {detail}", document.document.document_type(), document.document.document_id());
        Self { file: document.file.clone(), line: Some(document.line), column: None, detail }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        for number in self.line.into_iter().chain(self.column) {
            write!(f, "{number}:")?;
        }
        write!(f, " {}", self.detail)
    }
}

/// All documents of these files and folders, and the faults of those that cannot be read.
pub(super) fn read_all(given: &[PathBuf]) -> Result<(Vec<FileDocument>, Vec<FileFault>), CtlError> {
    let mut files = Vec::new();
    for path in given {
        if path.is_dir() { files.extend(files_in(path)?) } else { files.push(path.clone()) }
    }
    let (mut documents, mut faults) = (Vec::new(), Vec::new());
    for file in files {
        match read_text(&file) {
            Ok(text) => read_file(&display_name(&file), &text, &mut documents, &mut faults),
            Err(error) => {
                let detail = match error {
                    CtlError::Read { cause, .. } => format!("the file cannot be read: {cause}"),
                    error => error.to_string(),
                };
                faults.push(FileFault { file: display_name(&file), line: None, column: None, detail });
            }
        }
    }
    let mut known: BTreeMap<(&str, String), String> = BTreeMap::new();
    documents.retain(|read: &FileDocument| {
        match known.entry((read.document.document_type().name, read.document.document_id())) {
            Entry::Vacant(vacant) => {
                vacant.insert(format!("{}:{}", read.file, read.line));
                true
            }
            Entry::Occupied(first) => {
                let detail = format!("the same document is at {}, too; remove one", first.get());
                faults.push(FileFault::from_document(read, &detail));
                false
            }
        }
    });
    if documents.is_empty() && faults.is_empty() {
        let given: Vec<_> = given.iter().map(|path| display_name(path)).collect();
        let message = format!(
            "no documents in {}; a folder is read without its subfolders, and only its .yaml, .yml and .json files",
            given.join(", ")
        );
        return Err(CtlError::Verb { message, exit_code: 5, was_printed: false });
    }
    Ok((documents, faults))
}

/// The files of a folder with an extension of YAML or JSON, sorted by path.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>, CtlError> {
    let unreadable = |cause| CtlError::Read { file: folder.display().to_string(), cause };
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        if path.is_file() && ENDINGS.contains(&ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Appends the documents and the faults of a file.
fn read_file(file: &str, text: &str, documents: &mut Vec<FileDocument>, faults: &mut Vec<FileFault>) {
    for (first_line, part) in split_parts(text) {
        if part.lines().all(is_blank) {
            continue;
        }
        let line = first_line + part.lines().take_while(|line| is_blank(line)).count();
        match read_part(part) {
            Ok(document) => documents.push(FileDocument { file: file.to_owned(), line, document }),
            Err(FilePartFault { position, detail }) => {
                let line = position.map_or(line, |(line, _)| first_line + line - 1);
                let column = position.map(|(_, column)| column);
                faults.push(FileFault { file: file.to_owned(), line: Some(line), column, detail });
            }
        }
    }
}

/// Whether a line is blank, only a comment, or the directive of the YAML version that is read.
fn is_blank(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#') || line.trim_end() == YAML_VERSION
}

/// The parts of a file between its `---` lines, each with the number of its first line.
fn split_parts(text: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut start, mut first_line, mut position) = (Vec::new(), 0, 1, 0);
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let separated = line.strip_prefix("---").map(str::trim);
        if separated.is_some_and(|rest| rest.is_empty() || rest.starts_with('#')) {
            parts.push((first_line, &text[start..position]));
            (start, first_line) = (position + line.len(), number + 1);
        }
        position += line.len();
    }
    parts.push((first_line, &text[start..]));
    parts
}

/// A fault in one part of a file.
struct FilePartFault {
    /// Its line and column in the part, from 1; `None` for a fault of the whole document.
    position: Option<(usize, usize)>,
    detail: String,
}

impl From<serde_json::Error> for FilePartFault {
    fn from(error: serde_json::Error) -> Self {
        let position = Some((error.line(), error.column())).filter(|(line, _)| *line > 0);
        let detail = match json_error_text(&error).as_str() {
            "trailing characters" => format!("there is text after the end of the document; {SEPARATE}"),
            text => reword_serde_error(text),
        };
        Self { position, detail }
    }
}

/// The document of one part.
fn read_part(text: &str) -> Result<AnyDocument, FilePartFault> {
    if text.trim_start().starts_with(['{', '[']) {
        let DuplicateKeyCheck = serde_json::from_str(text)?;
        let DocumentKindHint(kind) = serde_json::from_str(text)?;
        let mut json = serde_json::Deserializer::from_str(text);
        let document = kind.read(&mut json)?;
        json.end()?;
        return Ok(document);
    }
    yaml::read(text)
}

#[cfg(test)]
mod tests {
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
            assert!(fault.contains("too many values or aliases") && !fault.contains(" at line "), "{fault}");
        }
        let deep = format!("{POLICY}a: {}{}\n", "[".repeat(100), "]".repeat(100));
        assert!(only_fault(&deep).contains("nested too deeply"));
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
        assert_eq!(only_fault(&number), "the name `1` occurs twice in one object");
        assert!(only_fault("{\"kind\": \"source\"}\n{}\n").ends_with(SEPARATE));
    }

    #[test]
    fn word_in_place_of_an_object_is_reported_in_plain_words() {
        let pipeline = include_str!("../../../examples/ground-truth/pipelines/iso-3166.json");
        let mut pipeline: serde_json::Value = serde_json::from_str(pipeline).expect("valid JSON");
        *pipeline.pointer_mut("/pipeline/retrieval/format").expect("a pipeline has a format") = "csv".into();
        let members = pipeline.as_object().expect("an object").iter();
        let yaml: String = members.map(|(name, value)| format!("{name}: {value}\n")).collect();
        for text in [pipeline.to_string(), yaml] {
            let fault = only_fault(&text);
            assert!(fault.contains("an object") && !fault.contains("variant"), "{fault}");
        }
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
        let folders =
            ["ontologies", "sources", "pipelines", "workflows", "live"].map(|name| examples.join(name));
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
            let printed =
                crate::ground::documents::to_yaml(document.document_type().into(), &document.to_json())
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
}
