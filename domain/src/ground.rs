//! The ground-truth layer: what registered sources say, exactly, since when, and where it comes from (RFC-0002, Part I).

pub mod decimal;
pub mod frequency;
pub mod freshness;
pub mod timeline;
pub mod unit;
