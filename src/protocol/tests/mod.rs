//! Tests over the whole layer.

mod group_offsets;
mod hostile;
mod indexed_request;
mod indexed_response;
mod indexed_set;
pub(crate) mod recorded;
mod round_trips;
mod vectors;
