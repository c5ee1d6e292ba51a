//! Classes of characters in Java: `[...]`.

use crate::coordination::java_regex::escape::Escape;
use crate::coordination::java_regex::translation::Outcome;
use crate::coordination::java_regex::translation::Token;
use crate::coordination::java_regex::translation::Translator;

/// A class of characters that is being read.
struct Level {
    negated: bool,
    /// A `]` that comes first stands for itself.
    is_empty: bool,
}

impl Translator {
    /// After `[`. Versions of Java disagree over negated classes with other classes in them, or with `&&`:
    /// these are refused.
    pub(super) fn class(&mut self) -> Outcome {
        let start = self.out.len();
        let mut levels = vec![self.open_level()];
        while let Some(level) = levels.last_mut() {
            let Some(token) = self.next() else {
                return Err(String::from("unclosed character class"));
            };
            match token {
                Token::Plain(']') if !level.is_empty => {
                    self.out.push(']');
                    levels.pop();
                }
                Token::Plain('[') => {
                    level.refuse_if_negated()?;
                    level.is_empty = false;
                    levels.push(self.open_level());
                }
                Token::Plain('&') if self.next_if('&') => {
                    level.refuse_if_negated()?;
                    let is_last = matches!(self.peek(0), Some(Token::Plain('&' | ']')));
                    if level.is_empty || is_last {
                        return Err(String::from("`&&` without two operands, unsupported"));
                    }
                    self.out.push_str("&&");
                }
                token => {
                    level.is_empty = false;
                    self.class_item(token)?;
                }
            }
        }
        self.atom = Some(start);
        Ok(())
    }

    fn open_level(&mut self) -> Level {
        let negated = self.next_if('^');
        self.out.push_str(if negated { "[^" } else { "[" });
        Level {
            negated,
            is_empty: true,
        }
    }

    /// A character, a range, or a class of one letter.
    fn class_item(&mut self, token: Token) -> Outcome {
        let first = match self.class_escape(token)? {
            Escape::Literal(c) => c,
            Escape::Set(set) => {
                self.out.push_str(&set);
                return Ok(());
            }
            Escape::Assertion(_) | Escape::BackReference(_) => {
                return Err(String::from("illegal escape sequence in a character class"));
            }
        };
        self.write_literal(first);
        let is_range = self.peek(0) == Some(Token::Plain('-'))
            && !matches!(self.peek(1), None | Some(Token::Plain(']' | '[')));
        if !is_range {
            return Ok(());
        }
        self.next();
        let end = self.next().ok_or("unclosed character class")?;
        match self.class_escape(end)? {
            Escape::Literal(last) if first <= last => {
                self.out.push('-');
                self.write_literal(last);
                Ok(())
            }
            _ => Err(String::from("illegal range of characters")),
        }
    }

    fn class_escape(&mut self, token: Token) -> Result<Escape, String> {
        match token {
            Token::Plain('\\') => self.escaped(true),
            Token::Plain(c) | Token::Quoted(c) => Ok(Escape::Literal(c)),
        }
    }
}

impl Level {
    fn refuse_if_negated(&self) -> Outcome {
        match self.negated {
            true => Err(String::from(
                "a negated character class with another one in it, unsupported",
            )),
            false => Ok(()),
        }
    }
}
