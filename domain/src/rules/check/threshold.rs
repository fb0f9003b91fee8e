//! The schema of [`super::UnsupportedClaimLimit`].

use super::{UNSUPPORTED_MAX, UNSUPPORTED_MAX_MAX};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

/// A number, or the name of the configured one.
pub(super) fn schema() -> RefOr<Schema> {
    let number = ObjectBuilder::new().schema_type(Type::Integer);
    let number = number.minimum(Some(0)).maximum(Some(UNSUPPORTED_MAX_MAX));
    let config = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([UNSUPPORTED_MAX]));
    OneOfBuilder::new()
        .item(number)
        .item(config)
        .description(Some("A number, or the configured number."))
        .into()
}
