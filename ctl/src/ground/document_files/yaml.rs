//! Documents in YAML, read as strictly as those in JSON.

use super::{FilePartFault, SEPARATE, YAML_VERSION, is_blank};
use domain_base::document::AnyDocument;
use domain_base::wording::reword_serde_error;
use oracled_domain::documents::{DocumentKind, DocumentKindHint};
use serde_json::{Number, Value as Json};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};
use serde_saphyr::{
    Error as YamlError, Options, from_str_with_options, with_deserializer_from_str_with_options,
};

/// Texts of the YAML parser that name its options or Rust types, each with its replacement in plain words.
const YAML_WORDS: [(&str, &str); 7] = [
    (
        "cannot deserialize null into string; use Option<String>",
        "null is not a text; write the text, or \"\"",
    ),
    ("expected mapping start", "an object is expected"),
    ("expected sequence start", "a list is expected"),
    ("expected string scalar", "a text is expected; quote one that begins with `{` or `[`"),
    ("externally tagged enum expected scalar or mapping", "a word or an object is expected"),
    (
        "expected end of mapping after enum variant value",
        "the object has several members; only one is allowed",
    ),
    ("unexpected value for unit enum variant", "this word cannot have members; write the word alone"),
];

/// The document of the part `text`.
pub(super) fn read(text: &str) -> Result<AnyDocument, FilePartFault> {
    reject_directive(text)?;
    let fault = |error: YamlError| FilePartFault::from_yaml(&error, text);
    let DocumentKindHint(kind) = from_str_with_options(text, options()).map_err(fault)?;
    // a fault that this reading finds has a position
    with_deserializer_from_str_with_options(text, options(), |yaml| kind.read(yaml)).map_err(fault)?;
    reject_number_of_yaml(text)?;
    // a typed reading takes `"10"` for a number, which JSON does not
    let json = from_str_with_options(text, options()).map_err(fault)?;
    kind.read_json(json).map_err(|detail| FilePartFault { position: None, detail })
}

/// Text that looks like a number or a boolean must be quoted: otherwise `1` and `"1"` are two names of one member.
fn options() -> Options {
    serde_saphyr::options! { strict_booleans: true, no_schema: true, with_snippet: false }
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

/// Whether `error` at the top level of `text` probably means that a second document begins without a separator: the first
/// name occurs twice, or `text` has members that only documents of different kinds have.
fn is_second_document(error: &YamlError, text: &str) -> bool {
    let mut names = top_level_names(text);
    match error {
        YamlError::DuplicateMappingKey { key: Some(name), .. } => {
            name == "kind" || names.next() == Some(name.as_str())
        }
        YamlError::SerdeUnknownField { .. } => {
            let names: Vec<_> = names.collect();
            let has_member = |kind: &DocumentKind| names.contains(&kind.distinguishing_member);
            DocumentKind::all().filter(has_member).count() > 1
        }
        _ => false,
    }
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
            let words = YAML_WORDS.iter().find(|(original, _)| text == *original);
            words.map_or_else(|| reword_serde_error(text), |(_, replacement)| (*replacement).to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "oracle_id: un-wpp\naxis_freshness: {}\ndefault_max_age_seconds: 60\n\
                          default_stale_behavior: fail_closed\ninvalidation_triggers: []\n";

    fn fault(text: &str) -> FilePartFault {
        match read(text) {
            Ok(document) => panic!("{document:?} is accepted"),
            Err(fault) => fault,
        }
    }

    #[test]
    fn number_is_accepted_only_in_a_form_that_json_has() {
        for number in ["60", "0", "6e1", "60.0"] {
            let json = serde_json::from_str::<u64>(number).is_ok();
            assert_eq!(read(&POLICY.replace("60", number)).is_ok(), json, "{number}");
        }
        for number in ["1_0", "0x1F", "0o17", "0b11", "+60", "060", "\"60\"", "'60'", "|\n  60"] {
            assert!(read(&POLICY.replace("60", number)).is_err(), "{number}");
        }
        assert_eq!(fault(&POLICY.replace("60", "1_0")).position, Some((3, 26)));
        let quoted = fault(&POLICY.replace("60", "\"60\"")).detail;
        assert!(quoted.starts_with("`default_max_age_seconds`: ") && quoted.contains("\"60\""), "{quoted}");
    }

    #[test]
    fn boolean_in_quotes_is_rejected() {
        let source = "oracle_id: people\noracle_name: n\nupstream_authority: a\nupstream_url: u\ndata_license: l\n\
                      domain: d\noracle_tier: primary\nontology: {ontology_id: people, version: \"1\"}\n\
                      axes_provided: [a]\nupdate_frequency: annual\nadapter_id: store\nsnapshot: true\n";
        assert!(read(source).is_ok());
        for quoted in ["\"true\"", "'false'", "yes"] {
            assert!(read(&source.replace("true", quoted)).is_err(), "{quoted}");
        }
    }

    #[test]
    fn unknown_field_of_another_kind_suggests_a_separator() {
        let workflow = "workflow_id: census\ndomain: people\n";
        for text in [format!("{POLICY}{workflow}"), format!("{POLICY}kind: workflow\n{workflow}")] {
            let FilePartFault { detail, .. } = fault(&text);
            assert!(detail.contains("unknown field") && detail.ends_with(SEPARATE), "{detail}");
        }
        for text in [POLICY.replace("axis_freshness", "axis_fresh"), format!("kind: source\n{POLICY}")] {
            let FilePartFault { detail, .. } = fault(&text);
            assert!(detail.contains("unknown field") && !detail.contains(SEPARATE), "{detail}");
        }
    }

    #[test]
    fn directive_of_another_version_is_rejected_at_its_line() {
        for directive in ["%YAML 1.1", "%TAG ! tag:example.org,2026:"] {
            let FilePartFault { position, detail } = fault(&format!("# a policy\n{directive}\n"));
            assert_eq!(position, Some((2, 1)), "{detail}");
            assert!(detail.contains(directive) && detail.contains(YAML_VERSION), "{detail}");
        }
    }
}
