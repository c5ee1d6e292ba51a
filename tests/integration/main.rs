//! Tests that need no server: the tree's own rules, and the tool against broken input.

//! Tests of the whole crate that need neither Java nor servers; see tests/README.md.

// Clippy takes only functions with the attribute `test` for tests; what they share is test code as
// well.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

mod layering;
#[cfg(feature = "cli")]
mod kzc;
