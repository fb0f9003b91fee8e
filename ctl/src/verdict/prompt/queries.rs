//! The file of queries for trials.

use crate::base::error::CtlError;
use crate::base::lines::{InputLine, InputLineReader, display_name, json_error_text, open};
use oracled_domain::base::blank::is_blank;
use oracled_domain::base::wording::reword_serde_error;
use oracled_domain::{ProductTier, PromptTemplate};
use serde::Deserialize;
use std::path::Path;

/// Maximum number of queries of a trial. Each is sent to the model four times.
pub(super) const QUERIES_MAX: usize = 500;

/// A query to try.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrialQuery {
    pub(super) tier: ProductTier,
    pub(super) query: String,
}

/// The queries of a file, all of which `template` has a text for.
pub(super) fn read_queries(file: &Path, template: &PromptTemplate) -> Result<Vec<TrialQuery>, CtlError> {
    let name = display_name(file);
    let unreadable = |cause| CtlError::Read { file: name.clone(), cause };
    let invalid = |fault: String| CtlError::Verb {
        message: format!("{name}{fault}"),
        exit_code: 5,
        was_printed: false,
    };
    let (input, bar) = open(file, "reading").map_err(unreadable)?;
    let (mut lines, mut queries) = (InputLineReader::new(input), Vec::new());
    while let Some(InputLine { number, text }) = lines.next_line().map_err(unreadable)? {
        let read = text.map_err(|error| error.to_string()).and_then(|text| parse_query(text, template));
        queries.push(read.map_err(|fault| invalid(format!(":{number}: {fault}")))?);
        if queries.len() > QUERIES_MAX {
            let fault = format!(" has more than {QUERIES_MAX} queries (at most {QUERIES_MAX} allowed)");
            return Err(invalid(format!("{fault}; try them in several files")));
        }
    }
    bar.finish_and_clear();
    if queries.is_empty() {
        return Err(invalid(r#" has no queries; write one {"tier", "query"} object per line"#.to_owned()));
    }
    Ok(queries)
}

fn parse_query(text: &[u8], template: &PromptTemplate) -> Result<TrialQuery, String> {
    const FORM: &str = r#"a line is one {"tier": "quick", "query": "…"} object"#;
    if !text.starts_with(b"{") {
        return Err(format!("not a JSON object; {FORM}"));
    }
    let query: TrialQuery = serde_json::from_slice(text).map_err(|error| {
        format!("{}, column {}; {FORM}", reword_serde_error(&json_error_text(&error)), error.column())
    })?;
    if is_blank(&query.query) {
        return Err(format!("`query` is empty; {FORM}"));
    }
    if template.tiers.get(query.tier).is_none() {
        let (tier, reference) = (query.tier, template.reference());
        return Err(format!(
            "prompt template {reference} has no text for the tier {tier}; add one to `tiers`"
        ));
    }
    Ok(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_one_object_of_a_tier_with_a_text() {
        let mut template = PromptTemplate::built_in().clone();
        template.tiers.full = None;
        let parse = |text: &str| parse_query(text.as_bytes(), &template);
        let quick = TrialQuery { tier: ProductTier::Quick, query: "Sell honey?".into() };
        assert_eq!(parse(r#"{"tier":"quick","query":"Sell honey?"}"#), Ok(quick));
        for line in [
            "quick",
            r#"["quick","Sell honey?"]"#,
            r#"{"tier":"quick"}"#,
            r#"{"tier":"gold","query":"Sell honey?"}"#,
            r#"{"tier":"quick","query":" "}"#,
            r#"{"tier":"quick","query":"Sell honey?","id":1}"#,
            r#"{"tier":"full","query":"Sell honey?"}"#,
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
