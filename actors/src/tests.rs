//! Tests of the whole system.

mod audit;
mod ground;
mod rules;
mod upstream;
mod verdict;
mod verification;
