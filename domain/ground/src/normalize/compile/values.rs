//! Values, date formats and words in a definition.

use super::PipelineDefinitionError;
use crate::axis::Axis;
use crate::normalize::steps::DateFormats;
use crate::pipeline::tables::WordTable;
use crate::value::TypedValue;
use domain_base::blank::is_blank;
use domain_base::period::{PeriodFormat, PeriodLength};
use domain_base::text_form::to_nfc;
use domain_base::time_format::TimeFormat;
use domain_base::time_zone::{AmbiguousTimeHandling, LocalTimeZone};
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use serde_json::Value as Json;
use std::collections::BTreeSet;

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

/// Compiles formats of dates, each of which must name a day or a time, and the zone of times without an offset.
/// `of_days` is whether the zone has a meaning for days, too.
pub(super) fn dates(
    formats: &[String],
    (timezone, ambiguous): (Option<&str>, Option<AmbiguousTimeHandling>),
    of_days: bool,
    location: &str,
) -> Result<DateFormats, PipelineDefinitionError> {
    let bad = |fault: String| PipelineDefinitionError::new(location, fault);
    let probe = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
    let compile = |given: &String| {
        let bad = |fault: String| bad(format!("`{given}`: {fault}"));
        let format = TimeFormat::new(given).map_err(bad)?;
        let written = strtime::format(given, &probe).map_err(|error| bad(error.to_string()))?;
        format.parse(&written).ok_or_else(|| bad("it names neither a day nor a time".to_owned()))?;
        Ok(format)
    };
    let formats = formats.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
    let zone = timezone.map(|name| LocalTimeZone::new(name, ambiguous)).transpose().map_err(bad)?;
    match (formats.iter().find(|format| format.is_local()), &zone) {
        (Some(local), None) => Err(bad(format!(
            "`{}` reads times without an offset; `timezone` is required, such as `UTC` or `Europe/Vienna`",
            local.as_str()
        ))),
        (None, Some(_)) if !of_days => {
            Err(bad("`timezone` has no effect, since every format has an offset or reads days; remove it"
                .to_owned()))
        }
        (None, None) if ambiguous.is_some() => {
            Err(bad("`ambiguous` has no effect without `timezone`; remove it".to_owned()))
        }
        _ => Ok(DateFormats { formats, zone }),
    }
}

/// Compiles formats of months, quarters or years, each of which must name a whole period.
pub(super) fn periods(
    length: PeriodLength,
    formats: &[String],
    location: &str,
) -> Result<Vec<PeriodFormat>, PipelineDefinitionError> {
    let compile = |given: &String| {
        PeriodFormat::new(length, given)
            .map_err(|fault| PipelineDefinitionError::new(location, format!("`{given}`: {fault}")))
    };
    formats.iter().map(compile).collect()
}

/// Checks that no word is listed twice, in two Unicode forms, and that no translation is a blank text, which would be a value
/// without content.
pub(super) fn check_translations(words: &WordTable, location: &str) -> Result<(), PipelineDefinitionError> {
    let mut seen = BTreeSet::new();
    let words_in_form = words.entries.keys().filter(|word| !word.is_ascii());
    if let Some(word) = words_in_form.into_iter().find(|word| !seen.insert(to_nfc(word))) {
        let fault =
            format!("`{word}` is listed twice, with accents that are written in two ways; remove one");
        return Err(PipelineDefinitionError::new(location, fault));
    }
    let is_empty = |called: &Option<String>| called.as_deref().is_some_and(is_blank);
    match words.entries.iter().find(|(_, called)| is_empty(called)) {
        Some((word, _)) => {
            let fault = format!("the translation of `{word}` is blank; use null to ignore the word");
            Err(PipelineDefinitionError::new(location, fault))
        }
        None => Ok(()),
    }
}
