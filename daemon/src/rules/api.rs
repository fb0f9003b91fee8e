//! On the routes' socket.

pub mod rules;
