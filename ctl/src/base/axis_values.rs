//! Values of axes, given on the command line as `AXIS=VALUE`.

use crate::base::error::CtlError;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A value of an axis. The axis decides its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AxisValueArg {
    pub(crate) axis: String,
    pub(crate) value: String,
}

/// Parses `AXIS=VALUE`. The value is all text after the first `=`.
pub(crate) fn parse_axis_value(text: &str) -> Result<AxisValueArg, String> {
    let (axis, value) =
        text.split_once('=').ok_or("the value has no `=`; write AXIS=VALUE, such as area=ABW")?;
    Ok(AxisValueArg { axis: axis.trim().to_owned(), value: value.trim().to_owned() })
}

/// The values by their axes.
pub(crate) fn collect_by_axis(given: &[AxisValueArg]) -> Result<BTreeMap<String, Json>, CtlError> {
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
