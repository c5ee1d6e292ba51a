//! The public object.

mod message;
mod stream_error;

mod chunk_reader;
mod message_stream;
mod owned_partitions;

pub use message::Message;
pub use message_stream::MessageStream;
pub use stream_error::StreamError;
