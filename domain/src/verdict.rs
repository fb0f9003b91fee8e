//! Verdicts: the crosscheck, sessions, delivery, regeneration, divergence and mail.

pub mod application;
pub mod cost;
pub mod crosscheck;
pub mod delivery;
pub mod divergence;
pub mod flag;
pub mod gate_path;
pub mod generation;
pub mod generation_outcome;
pub mod health;
pub mod held;
pub mod interaction;
pub mod label;
pub mod lookup;
pub mod mail;
pub mod oracle;
pub mod order;
mod outbox_retry;
pub mod policy;
pub mod prompt;
pub mod query;
pub mod regen;
pub mod response_schema;
pub mod rules_gate;
pub mod session;
pub mod tmm;
pub mod webhook;
