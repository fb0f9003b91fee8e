//! The ground-truth layer: what authoritative sources say, exactly, and since when (seed: `rfc-0002-ground-truth`, Part I).

pub mod decimal;
pub mod unit;
