//! A line of standard input as a message.

/// How lines become messages.
#[derive(Clone, Debug)]
pub(crate) struct LineParser {
    /// Stands between key and value; `None` when lines have no keys.
    key_separator: Option<String>,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Vec<u8>,
}

impl Line {
    /// Bytes of key and value.
    pub(crate) fn len(&self) -> usize {
        self.value.len() + self.key.as_ref().map_or(0, Vec::len)
    }
}

impl LineParser {
    pub(crate) fn new(key_separator: Option<String>) -> Self {
        Self { key_separator }
    }

    /// Takes the end of the line off, and splits at the first separator. As in Kafka 0.8.2.2, a line without one is
    /// an error.
    pub(crate) fn parse(&self, line: &[u8]) -> Result<Line, String> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(separator) = &self.key_separator else {
            let value = line.to_vec();
            return Ok(Line { key: None, value });
        };
        let bytes = separator.as_bytes();
        let position = line.windows(bytes.len()).position(|part| part == bytes);
        let (key, rest) = position
            .and_then(|position| line.split_at_checked(position))
            .ok_or_else(|| format!("there is no key separator `{separator}`"))?;
        Ok(Line {
            key: Some(key.to_vec()),
            value: rest.strip_prefix(bytes).unwrap_or(rest).to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: Option<&str>, value: &str) -> Line {
        Line {
            key: key.map(|key| key.as_bytes().to_vec()),
            value: value.as_bytes().to_vec(),
        }
    }

    #[test]
    fn without_a_separator_the_whole_line_is_the_value() {
        let parser = LineParser::new(None);
        for (text, value) in [
            ("one\n", "one"),
            ("one\r\n", "one"),
            ("one", "one"),
            ("\n", ""),
        ] {
            assert_eq!(parser.parse(text.as_bytes()), Ok(line(None, value)));
        }
    }

    #[test]
    fn the_first_separator_ends_the_key() {
        let parser = LineParser::new(Some(String::from("::")));
        assert_eq!(parser.parse(b"a::b::c\n"), Ok(line(Some("a"), "b::c")));
        assert_eq!(parser.parse(b"::b\n"), Ok(line(Some(""), "b")));
        assert_eq!(parser.parse(b"a::\n"), Ok(line(Some("a"), "")));
        assert!(parser.parse(b"a:b\n").unwrap_err().contains("`::`"));
        assert!(parser.parse(b"\n").is_err());
    }
}
