//! Storage of the ground-truth layer outside the database: files that are written once and never changed
//! (RFC-0002, Data Ingestion Pipeline).
//!
//! A file is complete on the disk before a commit of the journal names it. A file that no row names is
//! unused. Each file has checksums of all its bytes, which are verified at each read from the disk.

pub mod export;
pub mod files;
pub mod objects;
pub(crate) mod offline;
mod open_files;
pub mod payloads;
mod places;
pub mod prune;
pub mod query;
pub mod rebuild;
pub mod run_pages;
pub mod staging;
pub mod statement;
#[cfg(test)]
mod storage_costs;
mod tables;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod verify;
pub mod view;

pub use tables::Store;
