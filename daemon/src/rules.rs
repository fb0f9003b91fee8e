//! Oracle-A: handlers that check text against facts.

pub mod api;
mod problem;
