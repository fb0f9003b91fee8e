//! Values in requests: read without loss of digits, typed by the axis, and described in schemas.

use crate::axis::Axis;
use crate::value::TypedValue;
use domain_base::decimal::Decimal;
use domain_base::wording::excerpt;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// Represents in schemas a value that [`typed`] accepts.
#[derive(Debug)]
pub enum WrittenValue {}

impl PartialSchema for WrittenValue {
    fn schema() -> RefOr<Schema> {
        let kinds = SchemaType::from_iter([Type::Boolean, Type::Number, Type::String]);
        let description =
            "A value of an axis. A number may also be written as a text; a date is always a text.";
        ObjectBuilder::new().schema_type(kinds).description(Some(description)).into()
    }
}

impl ToSchema for WrittenValue {
    fn name() -> Cow<'static, str> {
        "WrittenValue".into()
    }
}

/// Represents in schemas a value of an axis, or null for an axis without a value.
#[derive(Debug)]
pub enum ValueOrNull {}

impl PartialSchema for ValueOrNull {
    fn schema() -> RefOr<Schema> {
        let kinds = SchemaType::from_iter([Type::Boolean, Type::String, Type::Null]);
        let description = "A value of an axis: true, false or a text; null if the record has no value.";
        ObjectBuilder::new().schema_type(kinds).description(Some(description)).into()
    }
}

impl ToSchema for ValueOrNull {}

/// Reads a value or a list of values with exact numbers. It rejects a number that does not fit into 64 bits, of which
/// the JSON reader makes a binary fraction.
pub fn as_written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
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
        "the number {quoted} has more digits than JSON readers keep; write it as a text, like \"0.5\""
    ))
}

/// The typed value of `value` on `axis`, or the fault.
pub fn typed(value: &Json, axis: &Axis) -> Result<TypedValue, String> {
    let typed = match value {
        Json::Bool(value) => TypedValue::from_bool(*value, axis),
        Json::String(text) => TypedValue::from_text(text, axis),
        Json::Number(number) => TypedValue::from_text(&number.to_string(), axis),
        Json::Null | Json::Array(_) | Json::Object(_) => {
            return Err(format!("a value of type {} is required", axis.kind.into_str()));
        }
    };
    typed.map_err(|error| error.to_string())
}
