//! Oracle-A.

pub mod api;
