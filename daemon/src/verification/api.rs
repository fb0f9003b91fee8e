//! On the routes' socket.

pub mod verify;
