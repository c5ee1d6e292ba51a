//! Why values could not be written.

/// Why a request or response cannot be put into bytes, with the field at fault.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodeError {
    /// Longer than the field's length prefix can say.
    #[error("{field} has a length of {length}, the most is {most}")]
    Length {
        field: &'static str,
        length: usize,
        most: usize,
    },

    /// A duration of more milliseconds than 32 bits hold.
    #[error("{field} of {milliseconds} ms is too long")]
    Duration {
        field: &'static str,
        milliseconds: u128,
    },

    /// The version's layout has no form for it.
    #[error("version {version} of {api} cannot say {field}")]
    Inexpressible {
        api: &'static str,
        version: i16,
        field: &'static str,
    },

    /// The layout of this version is not known.
    #[error("version {version} of {api} is not supported")]
    Version { api: &'static str, version: i16 },
}
