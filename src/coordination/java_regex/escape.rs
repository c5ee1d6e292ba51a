//! What follows a backslash in Java.

use crate::coordination::java_regex::translation::Token;
use crate::coordination::java_regex::translation::Translator;

/// What a backslash and its followers stand for.
pub(super) enum Escape {
    Literal(char),
    /// A class of characters, ready to be written.
    Set(String),
    /// Matches without taking a character.
    Assertion(&'static str),
    /// To a group, ready to be written.
    BackReference(String),
}

impl Translator {
    /// After a backslash.
    pub(super) fn escaped(&mut self, in_class: bool) -> Result<Escape, String> {
        let Some(Token::Plain(c)) = self.next() else {
            return Err(String::from("unfinished escape"));
        };
        if let Some(set) = set_of(c) {
            return Ok(Escape::Set(String::from(set)));
        }
        match c {
            'p' | 'P' => self.property(c == 'P'),
            '0' | 'x' | 'u' | 'c' => self.numbered(c).map(Escape::Literal),
            'a' => Ok(Escape::Literal('\u{7}')),
            'e' => Ok(Escape::Literal('\u{1b}')),
            'f' => Ok(Escape::Literal('\u{c}')),
            'n' => Ok(Escape::Literal('\n')),
            'r' => Ok(Escape::Literal('\r')),
            't' => Ok(Escape::Literal('\t')),
            'b' if !in_class && self.peek(0) != Some(Token::Plain('{')) => {
                Ok(Escape::Assertion(r"\b"))
            }
            'B' if !in_class => Ok(Escape::Assertion(r"\B")),
            'A' if !in_class => Ok(Escape::Assertion(r"\A")),
            'Z' | 'z' if !in_class => Ok(Escape::Assertion(r"\z")),
            'k' if !in_class && self.next_if('<') => {
                let name = self.group_name()?;
                Ok(Escape::BackReference(format!(r"\k<{name}>")))
            }
            '1'..='9' if !in_class => match self.peek(0) {
                Some(Token::Plain('0'..='9')) => Err(String::from("unsupported back reference")),
                // Apart from the digits that may follow in the translation.
                _ => Ok(Escape::BackReference(format!(r"(?:\{c})"))),
            },
            c if c.is_ascii_alphanumeric() => {
                Err(format!("illegal or unsupported escape sequence `\\{c}`"))
            }
            c => Ok(Escape::Literal(c)),
        }
    }

    /// After `\0`, `\x`, `\u` or `\c`.
    fn numbered(&mut self, kind: char) -> Result<char, String> {
        let illegal = || format!("illegal escape sequence `\\{kind}`");
        let number = match kind {
            'c' => self.next_where(|c| c.is_ascii()).map(|c| u32::from(c) ^ 64),
            '0' => self.octal(),
            'x' if self.next_if('{') => {
                let digits = self.take_while(|c| c.is_ascii_hexdigit());
                let number = u32::from_str_radix(&digits, 16).ok();
                number.filter(|_| self.next_if('}'))
            }
            'x' => self.hexadecimal(2),
            _ => self.hexadecimal(4),
        };
        number.and_then(char::from_u32).ok_or_else(illegal)
    }

    fn hexadecimal(&mut self, length: usize) -> Option<u32> {
        let digits: String = (0..length)
            .map_while(|_| self.next_where(|c| c.is_ascii_hexdigit()))
            .collect();
        let number = u32::from_str_radix(&digits, 16).ok();
        number.filter(|_| digits.len() == length)
    }

    /// One to three digits, no more than 377.
    fn octal(&mut self) -> Option<u32> {
        let length = match self.peek(0) {
            Some(Token::Plain('0'..='3')) => 3,
            _ => 2,
        };
        let digits: String = (0..length)
            .map_while(|_| self.next_where(|c| matches!(c, '0'..='7')))
            .collect();
        u32::from_str_radix(&digits, 8).ok()
    }

    /// After `\p` or `\P`: the classes of POSIX and the general categories of Unicode.
    fn property(&mut self, negated: bool) -> Result<Escape, String> {
        self.case_matters = true;
        let name = if self.next_if('{') {
            let name = self.take_while(|c| c.is_ascii_alphanumeric());
            let is_closed = self.next_if('}');
            Some(name).filter(|_| is_closed)
        } else {
            self.next_where(|c| c.is_ascii_alphabetic())
                .map(String::from)
        };
        let name = name.ok_or("illegal or unsupported property")?;
        let set = match posix(&name) {
            Some(set) => String::from(set),
            None => format!(r"\p{{{}}}", category(&name)?),
        };
        Ok(Escape::Set(match negated {
            true => format!("[^{set}]"),
            false => format!("[{set}]"),
        }))
    }
}

/// The classes of one letter; without flags they are about ASCII.
fn set_of(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Z_a-z]",
        'W' => "[^0-9A-Z_a-z]",
        's' => r"[\x{9}-\x{d}\x{20}]",
        'S' => r"[^\x{9}-\x{d}\x{20}]",
        // Of what lies beyond ASCII, nothing is part of a name.
        'h' => r"[\x{9}\x{20}]",
        'H' => r"[^\x{9}\x{20}]",
        'v' => r"[\x{a}-\x{d}]",
        'V' => r"[^\x{a}-\x{d}]",
        _ => return None,
    })
}

fn posix(name: &str) -> Option<&'static str> {
    Some(match name {
        "Lower" => "a-z",
        "Upper" => "A-Z",
        "ASCII" => r"\x{0}-\x{7f}",
        "Alpha" => "A-Za-z",
        "Digit" => "0-9",
        "Alnum" => "0-9A-Za-z",
        "Punct" => r"\x{21}-\x{2f}\x{3a}-\x{40}\x{5b}-\x{60}\x{7b}-\x{7e}",
        "Graph" => r"\x{21}-\x{7e}",
        "Print" => r"\x{20}-\x{7e}",
        "Blank" => r"\x{9}\x{20}",
        "Cntrl" => r"\x{0}-\x{1f}\x{7f}",
        "XDigit" => "0-9A-Fa-f",
        "Space" => r"\x{9}-\x{d}\x{20}",
        _ => return None,
    })
}

/// A general category of Unicode; Java allows `Is` before it.
fn category(name: &str) -> Result<&str, String> {
    const CATEGORIES: [&str; 36] = [
        "C", "Cc", "Cf", "Cn", "Co", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N",
        "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm",
        "So", "Z", "Zl", "Zp", "Zs",
    ];
    let short = name.strip_prefix("Is").unwrap_or(name);
    match CATEGORIES.contains(&short) {
        true => Ok(short),
        false => Err(format!("unknown or unsupported property `{name}`")),
    }
}
