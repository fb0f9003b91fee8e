pub mod disk;
pub mod error;
