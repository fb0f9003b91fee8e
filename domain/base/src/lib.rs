//! Shared by all features: decimals, units, dates, digests, JSON.

pub mod caller;
pub mod cluster;
pub mod decimal;
pub mod digest;
pub mod document;
pub mod event;
pub mod gate_path;
pub mod inbox;
pub mod metric_samples;
pub mod moment;
pub mod number_notation;
pub mod page;
pub mod payload;
pub mod problem;
pub mod raw;
pub mod row;
pub mod series;
pub mod service;
pub mod session_id;
pub mod sorted_json;
pub mod text_form;
pub mod time_format;
pub mod unit;
pub mod varint;
pub mod wording;
pub mod work;
