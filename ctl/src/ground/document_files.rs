//! Files with documents in YAML or JSON.

use crate::base::error::CtlError;
use crate::base::input::{display_name, json_error_text, read_text};
use domain_base::document::AnyDocument;
use domain_base::payload::DuplicateKeyCheck;
use domain_base::wording::reword_serde_error;
use oracled_domain::documents::{DocumentKind, DocumentKindHint};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value as Json};
use serde_path_to_error::Segment;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};
use serde_saphyr::{Error as YamlError, Options, from_str_with_options};
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
    read(text)
}

/// The document of the part `text`.
fn read(text: &str) -> Result<AnyDocument, FilePartFault> {
    reject_directive(text)?;
    let fault = |error: YamlError| FilePartFault::from_yaml(&error, text);
    let json: Json = from_str_with_options(text, options()).map_err(fault)?;
    reject_number_of_yaml(text)?;
    let DocumentKindHint(kind) = DocumentKindHint::deserialize(&json)?;
    kind.read_json(json).map_err(|fault| {
        // serde often names the object of an unknown member, not the member
        let unknown = fault.fault.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        let is_unknown =
            |last: &Segment| matches!(last, Segment::Map { key } if Some(key.as_str()) == unknown);
        let is_named = fault.path.iter().next_back().is_some_and(is_unknown);
        let unknown = unknown.map(|name| Segment::Map { key: name.to_owned() });
        let path: Vec<_> = fault.path.iter().chain(unknown.iter().filter(|_| !is_named)).collect();
        let mut detail = fault.to_string();
        if unknown.is_some() && path.len() == 1 && has_members_of_several_kinds(text) {
            detail += &format!("; {SEPARATE}");
        }
        let position = position_of(text, &path, unknown.is_some());
        FilePartFault { position, detail }
    })
}

/// The line and the column of the member at `path` in a YAML document: of its name with `of_name`, otherwise of its value. `None`
/// for the whole document.
fn position_of(text: &str, path: &[&Segment], of_name: bool) -> Option<(usize, usize)> {
    let mut events = Parser::new_from_str(text).map_while(Result::ok);
    let first = events.find(|(event, _)| !matches!(event, Event::StreamStart | Event::DocumentStart(..)))?;
    find_member(&mut events, &first.0, path, of_name)
}

/// The position of the member at `path` in the value that begins with `first`. `events` come after `first`.
fn find_member<'t>(
    events: &mut impl Iterator<Item = (Event<'t>, Span)>,
    first: &Event<'t>,
    path: &[&Segment],
    of_name: bool,
) -> Option<(usize, usize)> {
    let position = |span: &Span| Some((span.start.line(), span.start.col() + 1));
    let (segment, rest) = path.split_first()?;
    match (first, segment) {
        (Event::MappingStart(..), Segment::Map { key: name } | Segment::Enum { variant: name }) => loop {
            let (key, span) = events.next()?;
            if matches!(key, Event::MappingEnd) {
                return None;
            }
            skip_value(events, &key);
            let (value, value_span) = events.next()?;
            if matches!(&key, Event::Scalar(key, ..) if key == name) {
                let own = if of_name { span } else { value_span };
                return find_member(events, &value, rest, of_name).or_else(|| position(&own));
            }
            skip_value(events, &value);
        },
        (Event::SequenceStart(..), Segment::Seq { index }) => {
            for _ in 0..*index {
                let (item, _) = events.next()?;
                skip_value(events, &item);
            }
            let (item, span) = events.next()?;
            find_member(events, &item, rest, of_name).or_else(|| position(&span))
        }
        _ => None,
    }
}

/// Skips the rest of the value that begins with `first`.
fn skip_value<'t>(events: &mut impl Iterator<Item = (Event<'t>, Span)>, first: &Event<'t>) {
    let depth = |event: &Event<'t>| match event {
        Event::MappingStart(..) | Event::SequenceStart(..) => 1,
        Event::MappingEnd | Event::SequenceEnd => -1,
        _ => 0,
    };
    let mut open = depth(first);
    while open > 0
        && let Some((event, _)) = events.next()
    {
        open += depth(&event);
    }
}

/// Text that looks like a number or a boolean must be quoted: otherwise `1` and `"1"` are two names of one member.
fn options() -> Options {
    serde_saphyr::options! { strict_booleans: true, no_schema: true, with_snippet: false }
}

/// Whether a text without quotes is read as this text, and not as another value such as `null`.
pub(super) fn is_plain_text(text: &str) -> bool {
    matches!(from_str_with_options(text, options()), Ok(Json::String(read)) if read == text)
}

/// Rejects a directive before the document: only [`YAML_VERSION`] is supported.
fn reject_directive(text: &str) -> Result<(), FilePartFault> {
    let first = text.lines().enumerate().find(|(_, line)| !is_blank(line));
    let Some((index, directive)) = first.filter(|(_, line)| line.starts_with('%')) else { return Ok(()) };
    let detail = format!("`{directive}` is not supported; remove the line, or write `{YAML_VERSION}`");
    Err(FilePartFault { position: Some((index + 1, 1)), detail })
}

/// Rejects a number in a form that YAML has and JSON lacks, such as `1_000` or `0x1F`.
fn reject_number_of_yaml(text: &str) -> Result<(), FilePartFault> {
    let is_of_yaml = |value: &str| {
        value.starts_with(|first: char| "+-.".contains(first) || first.is_ascii_digit())
            && serde_json::from_str::<Number>(value).is_err()
            && serde_saphyr::from_str::<Json>(value).is_ok_and(|json| json.is_number())
    };
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        if let Event::Scalar(value, ScalarStyle::Plain, ..) = event
            && is_of_yaml(&value)
        {
            let detail = format!(
                "`{value}` is a number in YAML and not in JSON; write it in decimal digits, or in quotes if it is a text"
            );
            return Err(FilePartFault { position: Some((span.start.line(), span.start.col() + 1)), detail });
        }
    }
    Ok(())
}

impl FilePartFault {
    /// Describes `error`, which the parser returned for the part `text`.
    fn from_yaml(error: &YamlError, text: &str) -> Self {
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let position = error.location().map(|location| (index(location.line()), index(location.column())));
        let mut detail = describe_yaml_error(error);
        if position.is_some_and(|(_, column)| column == 1) && is_second_document(error, text) {
            detail += &format!("; {SEPARATE}");
        }
        Self { position, detail }
    }
}

/// Whether a second document probably begins at `error` without a separator: the first name occurs twice.
fn is_second_document(error: &YamlError, text: &str) -> bool {
    let is_first = |name: &String| name == "kind" || top_level_names(text).next() == Some(name);
    matches!(error, YamlError::DuplicateMappingKey { key: Some(name), .. } if is_first(name))
}

/// Whether `text` has members that only documents of different kinds have.
fn has_members_of_several_kinds(text: &str) -> bool {
    let names: Vec<_> = top_level_names(text).collect();
    let has_member = |kind: &DocumentKind| names.contains(&kind.distinguishing_member);
    DocumentKind::all().filter(has_member).count() > 1
}

/// The names of the members of a document in YAML.
fn top_level_names(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !is_blank(line) && !line.starts_with([' ', '-']));
    lines.filter_map(|line| Some(line.split_once(':')?.0.trim().trim_matches(['"', '\''])))
}

/// A fault of a YAML document in plain words, without its position.
fn describe_yaml_error(error: &YamlError) -> String {
    match error {
        YamlError::WithSnippet { error, .. } | YamlError::AliasError { error, .. } => {
            describe_yaml_error(error)
        }
        YamlError::Budget { breach: BudgetBreach::Depth { depth }, .. } => {
            format!("objects and lists are nested too deeply ({depth} levels)")
        }
        YamlError::Budget { .. }
        | YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasReplayStackDepthExceeded { .. } => {
            "the document has too many values or aliases (`*name`); use fewer aliases, or split the document"
                .to_owned()
        }
        YamlError::DuplicateMappingKey { key, .. } => {
            let name = key.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
            format!("the name{name} occurs twice in one object")
        }
        YamlError::QuotingRequired { value, .. } => {
            format!("`{value}` is not a text; put it in quotes to make it one")
        }
        YamlError::MultipleDocuments { .. } => {
            format!("there is text after the end of the document; {SEPARATE}")
        }
        other => {
            let text = other.to_string();
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
            reword_serde_error(text)
        }
    }
}

#[cfg(test)]
mod tests;
