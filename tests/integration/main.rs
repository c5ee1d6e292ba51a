//! Tests that need nothing installed: the tree's own rules, and whole consumers against an embedded cluster.

// Clippy takes only functions with the attribute `test` for tests; what they share is test code as
// well.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

#[cfg(all(feature = "cli", feature = "embedded"))]
#[path = "../scenarios/mod.rs"]
mod scenarios;
#[cfg(all(feature = "cli", feature = "embedded"))]
#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "cli")]
mod kzc;
mod layering;

#[cfg(feature = "embedded")]
mod advertised_addresses;
#[cfg(feature = "embedded")]
mod assignments;
#[cfg(feature = "embedded")]
mod bounded;
#[cfg(feature = "embedded")]
mod consuming;
#[cfg(feature = "embedded")]
mod control;
#[cfg(feature = "embedded")]
mod decoding;
#[cfg(feature = "embedded")]
mod failing_brokers;
#[cfg(feature = "embedded")]
mod filters;
#[cfg(feature = "embedded")]
mod groups;
#[cfg(feature = "embedded")]
mod hand_over;
#[cfg(feature = "embedded")]
mod jobs_in_trouble;
#[cfg(feature = "embedded")]
mod keeping;
#[cfg(all(feature = "cli", feature = "embedded"))]
mod kzc_embedded;
#[cfg(all(feature = "cli", feature = "embedded"))]
mod later_versions;
#[cfg(feature = "embedded")]
mod offset_stores;
#[cfg(feature = "embedded")]
mod offsets;
#[cfg(feature = "embedded")]
mod offsets_by_hand;
#[cfg(feature = "embedded")]
mod offsets_in_kafka;
#[allow(dead_code, reason = "its main")]
#[cfg(feature = "embedded")]
#[path = "../../docs/examples/offsets_with_results.rs"]
mod offsets_with_results;
#[cfg(all(feature = "cli", feature = "embedded"))]
mod on_embedded;
#[cfg(feature = "embedded")]
mod polling;
#[cfg(feature = "embedded")]
mod random_run;
#[cfg(feature = "embedded")]
mod reading;
