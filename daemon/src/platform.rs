//! Shared by all routes: the listeners, the configuration, problems, and the service that handlers call.

pub mod access_log;
pub mod api;
pub mod cluster;
pub mod config;
pub mod control;
pub(crate) mod inbox;
pub mod listen;
pub mod logged_read;
pub(crate) mod metrics_listener;
pub(crate) mod openapi;
pub mod problem;
pub(crate) mod routes;
pub(crate) mod schema_check;
pub(crate) mod series;
pub mod service;
pub mod telemetry;
pub mod traces;
