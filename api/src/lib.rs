//! A client of oracled's sockets. Their requests and responses are in `domain`.

#![warn(missing_docs)]

pub mod client;
pub mod directories;
pub mod streamed_body;
