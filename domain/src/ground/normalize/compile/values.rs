//! Values, date forms and words of a definition.

use super::BadDefinition;
use crate::base::blank::is_blank;
use crate::ground::axis::Axis;
use crate::ground::normalize::steps::Dates;
use crate::ground::pipeline::tables::Words;
use crate::ground::value::Typed;
use serde_json::Value as Json;

/// A value of `axis` that stands in a definition.
pub(super) fn typed(value: &Json, axis: &Axis, place: &str) -> Result<Typed, BadDefinition> {
    let bad = |fault: String| BadDefinition::new(place, fault);
    let typed = match value {
        Json::Bool(value) => Typed::of_bool(*value, axis),
        Json::String(text) if is_blank(text) => return Err(bad("a blank text is no value".into())),
        Json::String(text) => Typed::of_text(text, axis),
        // such a number has been a binary one, whatever its digits were
        Json::Number(number) if number.is_f64() => {
            let fault =
                "a number that is not whole, or of more than 64 bits, is written as a text, like \"0.5\"";
            return Err(bad(fault.into()));
        }
        Json::Number(number) => Typed::of_text(&number.to_string(), axis),
        Json::Null | Json::Array(_) | Json::Object(_) => {
            return Err(bad(format!("a value of type {} is taken", axis.kind.into_str())));
        }
    };
    typed.map_err(|error| bad(error.to_string()))
}

/// Date forms that are `strftime`'s, each of which names a day or a moment.
pub(super) fn dates(formats: Vec<String>, place: &str) -> Result<Dates, BadDefinition> {
    let probe = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
    for format in &formats {
        let bad = |fault: &dyn std::fmt::Display| BadDefinition::new(place, format!("`{format}`: {fault}"));
        let written = jiff::fmt::strtime::format(format, &probe).map_err(|error| bad(&error))?;
        let one = Dates { formats: vec![format.clone()] };
        one.date(&written).ok_or_else(|| bad(&"it names neither a day nor a moment"))?;
        // which offset a name stands for is another thing from year to year, and not in the payload
        let parts = jiff::fmt::strtime::parse(format, &written);
        if parts.is_ok_and(|parts| parts.iana_time_zone().is_some()) {
            return Err(bad(
                &"no time zone is known by its name (`%Q`, `%:Q`); an offset is taken (`%z`, `%:z`)",
            ));
        }
    }
    Ok(Dates { formats })
}

/// Whether nothing is called by a blank text, which would be there and say nothing.
pub(super) fn check_called(words: &Words, place: &str) -> Result<(), BadDefinition> {
    let is_empty = |called: &Option<String>| called.as_deref().is_some_and(is_blank);
    match words.entries.iter().find(|(_, called)| is_empty(called)) {
        Some((word, _)) => {
            let fault = format!("`{word}` is called by a blank text; null says that it is not taken");
            Err(BadDefinition::new(place, fault))
        }
        None => Ok(()),
    }
}
