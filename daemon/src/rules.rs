//! Oracle-A: handlers that check text against facts.

pub mod api;
pub mod config;
mod problem;
pub mod sourced_check;
