//! Shared by all features: the client, streamed bodies, pages, the state of the daemon.

pub mod client;
pub mod directories;
pub mod page;
pub mod problem;
pub mod service;
pub mod streamed_body;
