//! Properties as text, parsed and checked one key at a time.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use crate::config::nearest_key;
use crate::error::Error;

/// Properties not read yet. Whatever is left at the end is a key that nobody knows.
pub(super) struct PropertyReader {
    unread: BTreeMap<String, String>,
    /// Every key that was asked for, set or not.
    known: Vec<String>,
}

impl PropertyReader {
    pub(super) fn new(properties: BTreeMap<String, String>) -> Self {
        Self {
            unread: properties,
            known: Vec::new(),
        }
    }

    /// The value without the blanks around it; `None` when the key is not set.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.known.push(key.to_owned());
        let value = self.unread.remove(key)?;
        // As in Kafka 1.1.1: every value is trimmed. Unlike Kafka 0.8.2.2, to which "100 " is no number.
        let value = value.trim_matches(|c: char| c <= ' ');
        log::info!("property {key} is set to {value}");
        Some(value.to_owned())
    }

    /// The value of a key that is still to be read, as it was written.
    pub(super) fn peek(&self, key: &str) -> Option<&str> {
        self.unread.get(key).map(|value| value.trim())
    }

    /// A text that must be there and must not be empty.
    pub(super) fn required(&mut self, key: &str) -> Result<String, Error> {
        match self.text(key) {
            None => {
                let hint = nearest_key::find(key, self.unread.keys())
                    .map(|given| format!("; is it meant by `{given}`?"))
                    .unwrap_or_default();
                Err(invalid(key, format!("is required, and missing{hint}")))
            }
            Some(text) if text.is_empty() => Err(invalid(key, "is required, and empty")),
            Some(text) => Ok(text),
        }
    }

    /// A decimal number of 32 bits.
    pub(super) fn int(&mut self, key: &str, default: i32) -> Result<i32, Error> {
        self.number(key, default, "32")
    }

    /// A decimal number of 64 bits.
    pub(super) fn long(&mut self, key: &str, default: i64) -> Result<i64, Error> {
        self.number(key, default, "64")
    }

    /// A number of 32 bits that must not be less than `least`.
    pub(super) fn int_from<T>(&mut self, key: &str, least: i32, default: i32) -> Result<T, Error>
    where
        T: TryFrom<i32>,
    {
        let value = self.int(key, default)?;
        let refused = || invalid(key, format!("{value} is less than {least}"));
        if value < least {
            return Err(refused());
        }
        T::try_from(value).map_err(|_| refused())
    }

    /// Milliseconds, in a file a number of 32 bits, not negative.
    pub(super) fn millis(&mut self, key: &str, default: Duration) -> Result<Duration, Error> {
        self.millis_from(key, 0, default)
    }

    /// Milliseconds that must not be less than `least`.
    pub(super) fn millis_from(
        &mut self,
        key: &str,
        least: i32,
        default: Duration,
    ) -> Result<Duration, Error> {
        let is_set = self.unread.contains_key(key);
        let millis: u32 = self.int_from(key, least, least)?;
        Ok(match is_set {
            true => Duration::from_millis(u64::from(millis)),
            false => default,
        })
    }

    /// Exactly `true` or `false`.
    pub(super) fn flag(&mut self, key: &str, default: bool) -> Result<bool, Error> {
        let Some(text) = self.text(key) else {
            return Ok(default);
        };
        let refused = || invalid(key, format!("`{text}` is neither `true` nor `false`"));
        text.parse().map_err(|_| refused())
    }

    /// One of the values of an enum, whose parser names the key.
    pub(super) fn choice<T>(&mut self, key: &str, default: T) -> Result<T, Error>
    where
        T: FromStr<Err = Error>,
    {
        self.text(key).map_or(Ok(default), |text| text.parse())
    }

    /// The keys that were never asked for, sorted, each with a warning. Asked last, when all that mean something were.
    pub(super) fn unrecognised(self) -> Vec<String> {
        let keys = self.unread.into_keys();
        let unknown: Vec<String> = keys.filter(|key| !key.starts_with("external")).collect();
        for key in &unknown {
            let hint = nearest_key::find(key, &self.known)
                .map(|known| format!("; did you mean {known}?"))
                .unwrap_or_default();
            log::warn!("property {key} is unknown, and ignored{hint}");
        }
        unknown
    }

    fn number<T>(&mut self, key: &str, default: T, bits: &str) -> Result<T, Error>
    where
        T: FromStr,
    {
        let Some(text) = self.text(key) else {
            return Ok(default);
        };
        let refused = || invalid(key, format!("`{text}` is not a number of {bits} bits"));
        text.parse().map_err(|_| refused())
    }
}

/// The error for a value of `key`.
pub(super) fn invalid(key: &str, reason: impl Display) -> Error {
    Error::InvalidConfig {
        key: key.to_owned(),
        reason: reason.to_string(),
    }
}
