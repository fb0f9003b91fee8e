//! What the ground-truth layer keeps beside the database: files that are written once and never changed (RFC-0002, Data
//! Ingestion Pipeline).
//!
//! A file here is whole on the disk before a commit of the journal names it, and what no row names is nobody's. Each
//! carries checksums of all of its bytes, which are checked whenever they are read from the disk.

pub mod archive;
pub mod checked;
pub mod export;
pub mod files;
mod index;
mod pages;
pub mod payloads;
pub mod prune;
pub mod query;
pub mod rebuild;
mod sealed;
pub mod sorted;
pub mod sorter;
pub mod staging;
pub mod state;
pub mod statement;
mod tables;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod verify;
pub mod view;

pub use tables::Store;
