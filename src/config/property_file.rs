//! The syntax of `java.util.Properties`.

use std::fs::File;
use std::io;
use std::io::Read;
use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;

use crate::error::Error;

/// Bytes of a file of which there is no doubt that it is no configuration.
const LARGEST_FILE: u64 = 1 << 20;

/// The properties of a file in the order of their lines; a key may occur more than once.
///
/// The text is UTF-8, or else ISO-8859-1, the only one that Java reads.
pub(super) fn read(path: &Path) -> Result<Vec<(String, String)>, Error> {
    let failed = |line, reason| Error::PropertyFile {
        path: path.to_owned(),
        line,
        reason,
    };
    let bytes = read_bounded(path).map_err(|error| failed(None, error.to_string()))?;
    parse(&decode(bytes)).map_err(|(line, reason)| failed(Some(line), reason))
}

/// Some files never end.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(LARGEST_FILE + 1)
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= LARGEST_FILE) {
        return Ok(bytes);
    }
    let reason = format!("more than {LARGEST_FILE} bytes");
    Err(io::Error::other(reason))
}

fn decode(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| error.as_bytes().iter().copied().map(char::from).collect())
}

/// Fails with the number of the line, from 1, on which the malformed property begins.
fn parse(text: &str) -> Result<Vec<(String, String)>, (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    logical_lines(text)
        .into_iter()
        .map(|(number, line)| split(&line).map_err(|reason| (number, reason)))
        .collect()
}

/// Joins continued lines, and drops blank lines and comments, which cannot be continued.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let text = text.replace("\r\n", "\n");
    let mut lines = Vec::new();
    let mut begun: Option<(usize, String)> = None;
    for (number, natural) in (1..).zip(text.split(['\n', '\r'])) {
        let natural = natural.trim_start_matches(is_blank);
        if begun.is_none() && (natural.is_empty() || natural.starts_with(['#', '!'])) {
            continue;
        }
        let backslashes = natural.len() - natural.trim_end_matches('\\').len();
        let continued = backslashes % 2 == 1;
        let kept = natural.strip_suffix('\\').filter(|_| continued);
        let (first, mut line) = begun.take().unwrap_or((number, String::new()));
        line.push_str(kept.unwrap_or(natural));
        if !continued {
            lines.push((first, line));
        } else if !line.is_empty() {
            begun = Some((first, line));
        }
    }
    lines.extend(begun);
    lines
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

/// Key and value: separated by `=`, `:` or blanks, with blanks around a sign ignored.
fn split(line: &str) -> Result<(String, String), String> {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && (is_blank(c) || matches!(c, '=' | ':'));
        escaped = c == '\\' && !escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    Ok((
        unescape(key)?,
        unescape(value.trim_start_matches(is_blank))?,
    ))
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match rest.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\x0c'),
            Some('u') => plain.push(unicode(&mut rest)?),
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Ok(plain)
}

/// One character behind `\u`; one beyond 16 bits is written as two such escapes.
fn unicode(rest: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    let unit = code_unit(rest)?;
    let mut units = vec![unit];
    if (0xd800..0xdc00).contains(&unit) && rest.next_if_eq(&'\\').is_some() {
        rest.next_if_eq(&'u')
            .ok_or_else(|| format!("lone surrogate `\\u{unit:04x}`"))?;
        units.push(code_unit(rest)?);
    }
    match char::decode_utf16(units).next() {
        Some(Ok(c)) => Ok(c),
        _ => Err(format!("lone surrogate `\\u{unit:04x}`")),
    }
}

fn code_unit(rest: &mut Peekable<Chars<'_>>) -> Result<u16, String> {
    let digits: String = rest.take(4).collect();
    let all_hex = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u16::from_str_radix(&digits, 16)
        .ok()
        .filter(|_| all_hex)
        .ok_or_else(|| format!("malformed escape `\\u{digits}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn a_key_ends_at_a_sign_or_a_blank() {
        for text in ["a=1", "a:1", "a 1", "a\t1", "a = 1", "  a  :  1", "a\x0c=1"] {
            assert_eq!(pairs(text), [pair("a", "1")], "{text:?}");
        }
        assert_eq!(pairs("a==1"), [pair("a", "=1")]);
        assert_eq!(pairs("a : = 1"), [pair("a", "= 1")]);
        assert_eq!(pairs("a"), [pair("a", "")]);
        assert_eq!(pairs("=1"), [pair("", "1")]);
        assert_eq!(pairs(r"a\=b\:c\ d=1"), [pair("a=b:c d", "1")]);
        assert_eq!(pairs(r"a\\=1"), [pair(r"a\", "1")]);
    }

    #[test]
    fn comments_and_blank_lines_are_no_properties() {
        let text =
            "# one\r\n\r\n  ! two\n \t\x0c\na=1 # no comment\n#ends in a backslash \\\nb=2\r";
        assert_eq!(pairs(text), [pair("a", "1 # no comment"), pair("b", "2")]);
    }

    #[test]
    fn an_odd_number_of_backslashes_continues_a_line() {
        assert_eq!(pairs("a=1,\\\n   2,\\\r\n\t3"), [pair("a", "1,2,3")]);
        assert_eq!(pairs("a=1\\\\\nb=2"), [pair("a", "1\\"), pair("b", "2")]);
        assert_eq!(pairs("a=1\\\n\nb=2"), [pair("a", "1"), pair("b", "2")]);
        assert_eq!(pairs("a=1\\\n#2"), [pair("a", "1#2")]);
        assert_eq!(pairs("a\\\n=1\\"), [pair("a", "1")]);
        assert_eq!(pairs("\\\n# comment\nb=2"), [pair("b", "2")]);
    }

    #[test]
    fn escapes_are_those_of_java() {
        assert_eq!(
            pairs(r"a=\t\n\r\f\q\u00e9\\"),
            [pair("a", "\t\n\r\x0cq\u{e9}\\")]
        );
        assert_eq!(pairs(r"a=\ud83d\ude00"), [pair("a", "\u{1f600}")]);
        assert_eq!(pairs("a=1  "), [pair("a", "1  ")], "the reader trims");
    }

    #[test]
    fn a_malformed_escape_names_the_line_where_its_property_begins() {
        for (text, line, escape) in [
            ("a=1\n\nb=\\u00g0", 3, "`\\u00g0`"),
            ("a=\\\n\\u12", 1, "`\\u12`"),
            ("\\u+123=1", 1, "`\\u+123`"),
            ("a=\\ud83d", 1, "`\\ud83d`"),
            ("a=\\ud83d\\u0041", 1, "`\\ud83d`"),
            ("a=\\ude00", 1, "`\\ude00`"),
        ] {
            let (number, reason) = parse(text).unwrap_err();
            assert_eq!(number, line, "{text:?}");
            assert!(reason.contains(escape), "{reason}");
        }
    }

    /// A device that gives zeros was read until memory ran out.
    #[cfg(unix)]
    #[test]
    fn a_file_without_end_is_refused() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("more than 1048576"), "{error}");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_latin1() {
        assert_eq!(decode(vec![b'a', 0xc3, 0xa9]), "a\u{e9}");
        assert_eq!(decode(vec![b'a', 0xe9]), "a\u{e9}");
        assert_eq!(pairs("\u{feff}a=1"), [pair("a", "1")]);
    }
}
