//! Parsers of arguments that several verbs have.

use super::error::CtlError;
use clap::builder::{NonEmptyStringValueParser, RangedU64ValueParser};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Parses an id. Rejects an empty one, because the path of the request would then be another one.
pub fn id_parser() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// Parses the option `-n`: a number of rows from 1 to `max`.
pub fn limit_parser(max: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=max as u64)
}

/// A value of an axis. The axis decides its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisValueArg {
    pub axis: String,
    pub value: String,
}

/// Parses `AXIS=VALUE`. The value is all text after the first `=`.
pub fn parse_axis_value(text: &str) -> Result<AxisValueArg, String> {
    let (axis, value) =
        text.split_once('=').ok_or("the value has no `=`; write AXIS=VALUE, such as area=ABW")?;
    Ok(AxisValueArg { axis: axis.trim().to_owned(), value: value.trim().to_owned() })
}

/// The values by their axes.
pub fn collect_by_axis(given: &[AxisValueArg]) -> Result<BTreeMap<String, Json>, CtlError> {
    let mut values = BTreeMap::new();
    for AxisValueArg { axis, value } in given {
        if values.insert(axis.clone(), Json::String(value.clone())).is_some() {
            return Err(CtlError::Usage(format!("`{axis}` is given twice; give each axis once")));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exit code of a command line that is rejected.
    fn exit_code(line: &[&str]) -> Option<i32> {
        let given = [&["oraclectl"], line].concat();
        crate::command().try_get_matches_from(given).err().map(|error| error.exit_code())
    }

    #[test]
    fn empty_id_is_a_usage_error_of_every_verb() {
        for line in [
            &["crosscheck", "-", "--tier=full", "--session"][..],
            &["submit", "--tier=full", "--query=q"],
            &["register", "--tier=full", "--query=q"],
            &["verdict"],
            &["purge"],
            &["session"],
            &["session", "correct", "--customer-email=a@b"],
            &["session", "remove"],
            &["health", "open"],
            &["health", "close"],
            &["health", "probe"],
            &["orders", "--after"],
            &["order", "show"],
            &["order", "retry", "--reason=r"],
            &["order", "fail", "--reason=r"],
            &["order", "cancel", "--reason=r"],
            &["outbox", "--after"],
            &["outbox", "requeue"],
            &["outbox", "drop"],
            &["webhook", "list", "--after"],
            &["webhook", "requeue"],
            &["webhook", "drop"],
            &["log", "--session"],
            &["log", "--execution"],
            &["log", "--request"],
            &["get", "source"],
            &["describe", "source"],
            &["source", "approve"],
            &["source", "deprecate", "--on=2999-01-01"],
            &["source", "invalidate", "--reason=r"],
            &["source", "confirm", "--reason=r"],
            &["source", "verify"],
            &["source", "prune"],
            &["source", "rebuild"],
            &["source", "export"],
            &["ingest", "run", "--version=1", "--released-at=2026-01-01", "--replace"],
            &["ingest", "pull"],
            &["ingest", "list"],
            &["ingest", "show"],
            &["ingest", "cancel"],
            &["ingest", "approve", "--reason=r"],
            &["ingest", "discard", "--reason=r"],
            &["ingest", "undo", "--reason=r"],
            &["rejects"],
            &["query"],
            &["provenance"],
            &["verify", "--axes=a"],
            &["explain"],
            &["review", "list", "--workflow"],
            &["review", "show"],
            &["review", "revoke", "--reason=r"],
            &["review", "dismiss", "--reason=r"],
        ] {
            assert_eq!(exit_code(&[line, &[""]].concat()), Some(2), "{line:?}");
        }
        let resolve = ["review", "resolve", "", "a=1", "--reason=r", "--valid-for=90d"];
        assert_eq!(exit_code(&resolve), Some(2));
        assert_eq!(exit_code(&["review", "dismiss", "v-1", "", "--reason=r"]), Some(2));
    }

    #[test]
    fn limit_of_zero_rows_is_a_usage_error_of_every_verb() {
        for line in [
            &["log"][..],
            &["orders"],
            &["outbox"],
            &["webhook", "list"],
            &["ingest", "list"],
            &["review", "list"],
            &["query", "people"],
            &["rejects", "12345678"],
        ] {
            let with = |limit| exit_code(&[line, &["-n", limit]].concat());
            assert_eq!((with("1"), with("0"), with("many")), (None, Some(2), Some(2)), "{line:?}");
        }
    }

    #[test]
    fn value_extends_to_the_end_and_repeated_axis_is_rejected() {
        let read = |text: &str| parse_axis_value(text).expect("a valid value");
        let values = collect_by_axis(&[read("area = ABW"), read("note=a=b")]).expect("each axis occurs once");
        assert_eq!(
            values,
            [("area".to_owned(), Json::from("ABW")), ("note".to_owned(), Json::from("a=b"))].into()
        );
        assert!(parse_axis_value("area").is_err());
        let twice =
            collect_by_axis(&[read("area=ABW"), read("area=ABW")]).expect_err("the axis occurs twice");
        assert_eq!(
            (twice.to_string().as_str(), twice.exit_code()),
            ("`area` is given twice; give each axis once", 2)
        );
    }
}
