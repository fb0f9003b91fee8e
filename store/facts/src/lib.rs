//! Files that are written once and never changed, and the reading of payloads: bytes in, rows out.
//!
//! Each file has checksums of all its bytes, which are verified at each read from the disk. Which files are in use, and what their
//! rows mean, is decided elsewhere.

pub mod archive;
pub mod decoding;
pub mod file_end;
pub mod index;
pub mod objects;
pub mod slices;
pub mod sorted;
