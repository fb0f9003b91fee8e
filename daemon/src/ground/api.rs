//! Handlers of ground truth on the routes' socket.

pub mod changes;
pub mod query;
pub mod records;
pub mod signals;
pub mod sources;
