//! Why the tool ends with another status than 0.

use std::error::Error;
use std::process::ExitCode;

/// What went wrong, told on standard error, and how the tool ends.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or the configuration cannot be used.
    Usage(String),
    /// Something failed on the way.
    Runtime(String),
}

impl Failure {
    /// A configuration that was refused.
    pub(crate) fn usage(error: &dyn Error) -> Self {
        Self::Usage(chain(error))
    }

    /// What the library said while `doing` something; it checks some of the configuration only then.
    pub(crate) fn library(doing: &str, error: &kafka_zk_consumer::Error) -> Self {
        use kafka_zk_consumer::Error::InvalidArgument;
        use kafka_zk_consumer::Error::InvalidConfig;
        match error {
            InvalidArgument { .. } | InvalidConfig { .. } => Self::usage(error),
            _ => Self::runtime(doing, error),
        }
    }

    /// While `doing` something.
    pub(crate) fn runtime(doing: &str, error: &dyn Error) -> Self {
        Self::Runtime(format!("{doing}: {}", chain(error)))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Runtime(_) => ExitCode::FAILURE,
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Usage(text) | Self::Runtime(text) => text,
        }
    }
}

/// The error and all its sources in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn the_whole_chain_is_told() {
        let error = kafka_zk_consumer::Error::Thread {
            name: String::from("x"),
            source: io::Error::other("none left"),
        };
        let failure = Failure::runtime("starting", &error);
        assert_eq!(
            failure.text(),
            "starting: could not start thread x: none left"
        );
    }
}
