pub mod cluster_marker;
pub mod disk;
pub mod error;
pub mod files;
pub mod ordered_rows;
pub mod sorter;
