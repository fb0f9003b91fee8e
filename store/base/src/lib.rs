pub mod disk;
pub mod error;
pub mod files;
