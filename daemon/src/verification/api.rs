//! Handlers of verification on the routes' socket.

pub mod verify;
