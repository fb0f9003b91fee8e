//! Shared by all features: decimals, units, dates, digests, JSON.

pub mod actor_report;
pub mod application;
pub mod caller;
pub mod count;
pub mod decimal;
pub mod digest;
pub mod document;
pub mod event;
pub mod gate_path;
pub mod json_members;
pub mod moment;
pub mod number_notation;
pub mod payload;
pub mod raw;
pub mod row;
pub mod schema;
pub mod session_id;
pub mod text_form;
pub mod time_format;
pub mod unit;
pub mod varint;
pub mod visible;
pub mod wording;
pub mod work;
