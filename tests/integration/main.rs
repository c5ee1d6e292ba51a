//! Tests that need neither Java nor servers: the tree's own rules, and the tool against broken input.

// Clippy takes only functions with the attribute `test` for tests; what they share is test code as
// well.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

#[cfg(feature = "cli")]
mod kzc;
mod layering;
