//! Why bytes could not be read.

use std::io;

/// Why a frame or a part of it could not be read, with the field that was due.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    /// The frame ends inside the field.
    #[error("{field} needs {needed} bytes, the frame has {left} left")]
    Truncated {
        field: &'static str,
        needed: usize,
        left: usize,
    },

    /// A length, count or size that is negative, or more than the frame can hold.
    #[error("{field} claims a length of {length}, the frame has {left} bytes left")]
    Length {
        field: &'static str,
        length: i64,
        left: usize,
    },

    /// The size of a frame is less than its header or more than the reader takes.
    #[error("frame size {size} is not within {least} to {most}")]
    FrameSize {
        size: i32,
        least: usize,
        most: usize,
    },

    /// A string is not UTF-8.
    #[error("{field} is not UTF-8: {text:?}")]
    Utf8 { field: &'static str, text: String },

    /// A value that is not known.
    #[error("{field} has the unknown value {value}")]
    Value { field: &'static str, value: i64 },

    /// The layout of this version is not known.
    #[error("version {version} of {api} is not supported")]
    Version { api: &'static str, version: i16 },

    /// The stream failed, ended or timed out before the field was whole; the bytes that came are not to blame.
    #[error("stream failed in {field}")]
    Io {
        field: &'static str,
        source: io::Error,
    },
}

#[cfg(test)]
impl DecodeError {
    /// Whether the stream is to blame, not what came over it.
    pub(crate) fn is_io(&self) -> bool {
        matches!(self, Self::Io { .. })
    }

    /// The field that was due.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::Truncated { field, .. }
            | Self::Length { field, .. }
            | Self::Utf8 { field, .. }
            | Self::Value { field, .. }
            | Self::Io { field, .. } => field,
            Self::FrameSize { .. } => "size",
            Self::Version { .. } => "api_version",
        }
    }
}
