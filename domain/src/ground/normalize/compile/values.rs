//! Values, date formats and words in a definition.

use super::PipelineDefinitionError;
use crate::base::blank::is_blank;
use crate::base::period::PeriodLength;
use crate::ground::axis::Axis;
use crate::ground::normalize::steps::DateFormats;
use crate::ground::pipeline::tables::WordTable;
use crate::ground::value::TypedValue;
use serde_json::Value as Json;

/// Parses a value of `axis` in a definition.
pub(super) fn typed(
    value: &Json,
    axis: &Axis,
    location: &str,
) -> Result<TypedValue, PipelineDefinitionError> {
    let bad = |fault: String| PipelineDefinitionError::new(location, fault);
    let typed = match value {
        Json::Bool(value) => TypedValue::from_bool(*value, axis),
        Json::String(text) if is_blank(text) => return Err(bad("a blank text is not a value".into())),
        Json::String(text) => TypedValue::from_text(text, axis),
        // the JSON reader has converted this number to binary, so its exact digits are lost
        Json::Number(number) if number.is_f64() => {
            let fault = "write a number with a fraction or an exponent, or of more than 64 bits, as a text, like \"0.5\"";
            return Err(bad(fault.into()));
        }
        Json::Number(number) => TypedValue::from_text(&number.to_string(), axis),
        Json::Null | Json::Array(_) | Json::Object(_) => {
            return Err(bad(format!("a value of type {} is required", axis.kind.into_str())));
        }
    };
    typed.map_err(|error| bad(error.to_string()))
}

/// Validates date formats in `strftime` syntax; each must name a day or a time.
pub(super) fn dates(formats: Vec<String>, location: &str) -> Result<DateFormats, PipelineDefinitionError> {
    let probe = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
    for format in &formats {
        let bad = |fault: &dyn std::fmt::Display| {
            PipelineDefinitionError::new(location, format!("`{format}`: {fault}"))
        };
        let written = jiff::fmt::strtime::format(format, &probe).map_err(|error| bad(&error))?;
        let one = DateFormats { formats: vec![format.clone()] };
        one.date(&written).ok_or_else(|| bad(&"it names neither a day nor a time"))?;
        // the offset of a named zone changes over the years, and the payload does not contain it
        let parts = jiff::fmt::strtime::parse(format, &written);
        if parts.is_ok_and(|parts| parts.iana_time_zone().is_some()) {
            return Err(bad(
                &"names of time zones (`%Q`, `%:Q`) are not supported; use an offset (`%z`, `%:z`)",
            ));
        }
    }
    Ok(DateFormats { formats })
}

/// Validates formats of months, quarters or years in `strftime` syntax; each must name a whole period.
pub(super) fn check_period_formats(
    length: PeriodLength,
    formats: &[String],
    location: &str,
) -> Result<(), PipelineDefinitionError> {
    // the fourth month is in the second quarter
    let probe = jiff::civil::date(2024, 4, 1);
    for format in formats {
        let bad = |fault: &dyn std::fmt::Display| {
            PipelineDefinitionError::new(location, format!("`{format}`: {fault}"))
        };
        let written = jiff::fmt::strtime::format(format, probe).map_err(|error| bad(&error))?;
        let expected = format!("it does not name {}", length.example());
        length.parse(format, &written).ok_or_else(|| bad(&expected))?;
    }
    Ok(())
}

/// Checks that no translation is a blank text, which would be a value without content.
pub(super) fn check_translations(words: &WordTable, location: &str) -> Result<(), PipelineDefinitionError> {
    let is_empty = |called: &Option<String>| called.as_deref().is_some_and(is_blank);
    match words.entries.iter().find(|(_, called)| is_empty(called)) {
        Some((word, _)) => {
            let fault = format!("the translation of `{word}` is blank; use null to ignore the word");
            Err(PipelineDefinitionError::new(location, fault))
        }
        None => Ok(()),
    }
}
