//! The wire of oracled: the requests and responses of both sockets, and a client of them.
//!
//! The daemon serves these types, and `oraclectl` reads them. Nothing here decides or stores anything.

pub mod audit;
pub mod base;
pub mod ground;
pub mod rules;
pub mod verdict;
pub mod verification;
