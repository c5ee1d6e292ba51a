//! Tests that need no server: the tree's own rules, and the tool against broken input.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

#[cfg(feature = "cli")]
mod kzc;
mod layering;
