//! Tests over the whole layer.

mod group_offsets;
mod hostile;
mod recorded;
mod round_trips;
mod vectors;
