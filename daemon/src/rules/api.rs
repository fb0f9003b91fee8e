//! Handlers of Oracle-A on the routes' socket.

pub mod rules;
