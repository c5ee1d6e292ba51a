//! Message sets of format 0: what a partition's data is made of.

mod set;

pub use set::MessageSet;
