//! Tests over the whole layer.

mod hostile;
mod recorded;
mod round_trips;
mod vectors;
