//! The schemas of decimals in registered documents, which are less strict than the canonical form.

use super::TEXT_MAX_BYTES;
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// Every text that is parsed as a decimal matches this pattern.
const PATTERN: &str = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$";

/// The schema of a decimal that is read from a text.
#[derive(Debug)]
pub(crate) enum DecimalText {}

/// The schema of a decimal that is read from a number or a text.
#[derive(Debug)]
pub(crate) enum DecimalNumber {}

fn decimal(kind: impl Into<SchemaType>, description: &str) -> RefOr<Schema> {
    let builder = ObjectBuilder::new().schema_type(kind).pattern(Some(PATTERN));
    builder.max_length(Some(TEXT_MAX_BYTES)).description(Some(description)).into()
}

impl PartialSchema for DecimalText {
    fn schema() -> RefOr<Schema> {
        decimal(Type::String, "A decimal number as a string, such as \"0.5\".")
    }
}

impl PartialSchema for DecimalNumber {
    fn schema() -> RefOr<Schema> {
        let kinds = SchemaType::from_iter([Type::Number, Type::String]);
        decimal(kinds, "A decimal number. As a string, such as \"0.5\", it keeps all its digits.")
    }
}

impl ToSchema for DecimalText {
    fn name() -> Cow<'static, str> {
        "DecimalText".into()
    }
}

impl ToSchema for DecimalNumber {
    fn name() -> Cow<'static, str> {
        "DecimalNumber".into()
    }
}
