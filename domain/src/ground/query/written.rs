//! Values as requests write them: read without loss, typed by the axis, and described.

use crate::base::decimal::Decimal;
use crate::base::wording::excerpt;
use crate::ground::axis::Axis;
use crate::ground::value::Typed;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// Stands, where a request is described, for a value that [`typed`] takes.
#[derive(Debug)]
pub(crate) enum Written {}

impl PartialSchema for Written {
    fn schema() -> RefOr<Schema> {
        let kinds = SchemaType::from_iter([Type::Boolean, Type::Number, Type::String]);
        let description = "A value of an axis; a number or a date may stand as a text, too.";
        ObjectBuilder::new().schema_type(kinds).description(Some(description)).into()
    }
}

impl ToSchema for Written {
    fn name() -> Cow<'static, str> {
        "WrittenValue".into()
    }
}

/// Reads a value, or a list of them, in which each number is the one that is written: of what 64 bits do not hold JSON's
/// reader makes a binary fraction.
pub(crate) fn as_written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
    let written = Box::<RawValue>::deserialize(deserializer)?;
    let value: Json = serde_json::from_str(written.get()).map_err(D::Error::custom)?;
    match &value {
        Json::Array(values) => {
            let written: Vec<&RawValue> = serde_json::from_str(written.get()).map_err(D::Error::custom)?;
            let mut pairs = values.iter().zip(written);
            pairs.try_for_each(|(value, written)| check_written(value, written.get()))
        }
        value => check_written(value, written.get()),
    }
    .map_err(D::Error::custom)?;
    Ok(value)
}

fn check_written(value: &Json, written: &str) -> Result<(), String> {
    let Json::Number(read) = value else { return Ok(()) };
    let (read, exact) = (read.to_string().parse::<Decimal>(), written.parse::<Decimal>());
    if exact.is_ok() && exact == read {
        return Ok(());
    }
    let quoted = excerpt(written);
    Err(format!(
        "the number {quoted} has more digits than JSON's readers keep; it is taken as a text, like \"0.5\""
    ))
}

/// The value that `value` is on `axis`; else what is wrong with it.
pub(crate) fn typed(value: &Json, axis: &Axis) -> Result<Typed, String> {
    let typed = match value {
        Json::Bool(value) => Typed::of_bool(*value, axis),
        Json::String(text) => Typed::of_text(text, axis),
        Json::Number(number) => Typed::of_text(&number.to_string(), axis),
        Json::Null | Json::Array(_) | Json::Object(_) => {
            return Err(format!("a value of type {} is taken", axis.kind.into_str()));
        }
    };
    typed.map_err(|error| error.to_string())
}
