//! JSON as the members of all versions write it.

use serde_json::Value;

/// Parses `bytes` as JSON; if that fails, as JSON in which nobody escaped the backslashes.
///
/// As in Kafka 1.1.1: members up to 0.8.1 put a regular expression into their registration as it is.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let strict = |text: &str| serde_json::from_str(text).map_err(|error| error.to_string());
    let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    strict(text).or_else(|first| strict(&text.replace('\\', r"\\")).map_err(|_| first))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_read_as_it_is() {
        for (text, expected) in [
            ("{}", json!({})),
            (
                " {\n\t\"a\" : [1, [2, null], {\"b\": \"c\"}] } ",
                json!({"a": [1, [2, null], {"b": "c"}]}),
            ),
            (r#"{"a":"\\d\n"}"#, json!({"a": "\\d\n"})),
            (
                r#"{"port":123456789012345}"#,
                json!({"port": 123_456_789_012_345_i64}),
            ),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn backslashes_that_nobody_escaped_are_kept() {
        assert_eq!(
            parse(br#"{"test-\d+":1}"#).unwrap(),
            json!({r"test-\d+": 1})
        );
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for text in ["", "{", "\"{", "a", r#"{"a":1,}"#, "{\"\\d\": }"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse(&[0xff]).is_err());
    }

    #[test]
    fn json_nested_without_end_is_an_error_and_no_overflow() {
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }
}
