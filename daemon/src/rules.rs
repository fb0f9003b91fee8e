//! Oracle-A: handlers that check text against facts.

pub mod api;
pub mod config;
pub(crate) mod problem;
pub mod sourced_check;
