//! The wire of oracled: the requests and responses of the sockets, and a client of them.
//!
//! The daemon serves these types, and `oraclectl` reads them. Nothing here decides or stores anything.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

pub mod audit;
pub mod base;
pub mod documents;
pub mod ground;
pub mod rules;
pub mod status;
pub mod upstream;
pub mod verdict;
pub mod verification;
