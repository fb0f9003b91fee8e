//! Shared by all features: decimals, units, dates, digests, JSON.

pub mod actor_report;
pub mod blank;
pub mod date;
pub mod decimal;
pub mod digest;
pub mod due_time;
pub mod duplicate_keys;
pub mod given;
pub mod key_names;
pub mod moment;
pub mod number_notation;
pub mod pattern;
pub mod payload;
pub mod period;
pub mod raw;
pub mod schema;
pub mod text_form;
pub(crate) mod text_id;
pub mod time_format;
pub mod time_zone;
pub mod trace;
pub mod unit;
pub mod varint;
pub mod visible;
pub mod wording;
