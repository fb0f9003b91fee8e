//! sled, its rows, and the functions that the log and the journal share.

pub(crate) mod bundle;
pub(crate) mod database;
pub(crate) mod database_error;
pub(crate) mod engine;
pub(crate) mod log_hashes;
pub(crate) mod meta;
pub(crate) mod postings;
pub(crate) mod random;
pub(crate) mod read;
pub(crate) mod row_batch;
pub(crate) mod row_write;
pub mod rows;
pub(crate) mod schema;
pub(crate) mod watermark;
