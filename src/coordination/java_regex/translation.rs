//! From the syntax of Java to that of the crates `regex` and `fancy-regex`.

use crate::coordination::java_regex::escape::Escape;

/// The longest pattern that is translated, in bytes: enough for a list of thousands of topics.
const MAX_LENGTH: usize = 256 * 1024;

/// An expression in the syntax that `regex` and `fancy-regex` share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Translation {
    /// Each literal that is no letter, digit or `_` is written by its number, and each class of characters as
    /// a set, so that the two syntaxes cannot differ over them.
    pub(crate) regex: String,
    /// Whether only `fancy-regex` can evaluate it.
    pub(crate) backtracks: bool,
}

impl Translation {
    /// The error says what Java would refuse, or what cannot be translated.
    pub(crate) fn of(pattern: &str) -> Result<Self, String> {
        if pattern.len() > MAX_LENGTH {
            return Err(format!("longer than {MAX_LENGTH} bytes, unsupported"));
        }
        let mut translator = Translator {
            tokens: tokens(pattern),
            position: 0,
            out: String::new(),
            atom: None,
            groups: Vec::new(),
            backtracks: false,
            folds_case: false,
            case_matters: false,
        };
        match translator.run() {
            Ok(()) => Ok(Self {
                regex: translator.out,
                backtracks: translator.backtracks,
            }),
            Err(reason) => Err(format!("{reason} before character {}", translator.position)),
        }
    }
}

/// One character of a pattern, after `\Q...\E` is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// As it stands: it may have a meaning.
    Plain(char),
    /// Between `\Q` and `\E`: it stands for itself.
    Quoted(char),
}

/// A translation under way.
pub(super) struct Translator {
    tokens: Vec<Token>,
    /// Of the next token.
    position: usize,
    pub(super) out: String,
    /// Where in `out` that begins which a quantifier would repeat; `None` where Java allows none.
    pub(super) atom: Option<usize>,
    /// Where in `out` each open group begins.
    groups: Vec<usize>,
    backtracks: bool,
    /// Whether the flag `i` occurs.
    folds_case: bool,
    /// Whether something occurs for which versions of Java, or the engines, fold case differently.
    pub(super) case_matters: bool,
}

pub(super) type Outcome = Result<(), String>;

impl Translator {
    fn run(&mut self) -> Outcome {
        while let Some(token) = self.next() {
            match token {
                Token::Quoted(c) => self.literal(c),
                Token::Plain(c) => self.plain(c)?,
            }
        }
        if !self.groups.is_empty() {
            return Err(String::from("unclosed group"));
        }
        if self.folds_case && self.case_matters {
            let reason = "the flag `i` together with `\\p` or characters beyond ASCII, unsupported";
            return Err(String::from(reason));
        }
        Ok(())
    }

    fn plain(&mut self, c: char) -> Outcome {
        match c {
            '\\' => self.escape(),
            '[' => self.class(),
            '(' => self.group(),
            ')' => self.close_group(),
            '*' | '+' | '?' => self.repeat(&c.to_string()),
            '{' => self.repeat_counted(),
            '|' => {
                self.out.push('|');
                self.atom = None;
                Ok(())
            }
            '.' => {
                self.atom = Some(self.out.len());
                self.out.push('.');
                Ok(())
            }
            '^' => self.assertion(r"\A"),
            '$' => self.assertion(r"\z"),
            c => {
                self.literal(c);
                Ok(())
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<Token> {
        let token = self.peek(0)?;
        self.position += 1;
        Some(token)
    }

    pub(super) fn peek(&self, ahead: usize) -> Option<Token> {
        self.tokens
            .get(self.position.saturating_add(ahead))
            .copied()
    }

    pub(super) fn next_if(&mut self, c: char) -> bool {
        let is_next = self.peek(0) == Some(Token::Plain(c));
        if is_next {
            self.position += 1;
        }
        is_next
    }

    /// The next token, if it has no quotation and `wanted` says so.
    pub(super) fn next_where(&mut self, wanted: impl Fn(char) -> bool) -> Option<char> {
        match self.peek(0) {
            Some(Token::Plain(c)) if wanted(c) => {
                self.position += 1;
                Some(c)
            }
            _ => None,
        }
    }

    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        std::iter::from_fn(|| self.next_where(&wanted)).collect()
    }

    fn literal(&mut self, c: char) {
        self.atom = Some(self.out.len());
        self.write_literal(c);
    }

    pub(super) fn write_literal(&mut self, c: char) {
        self.case_matters |= !c.is_ascii();
        if c.is_ascii_alphanumeric() || c == '_' {
            self.out.push(c);
        } else {
            self.out.push_str(&format!(r"\x{{{:x}}}", u32::from(c)));
        }
    }

    fn assertion(&mut self, text: &str) -> Outcome {
        self.out.push_str(text);
        self.atom = None;
        Ok(())
    }

    fn group(&mut self) -> Outcome {
        let start = self.out.len();
        self.atom = None;
        if !self.next_if('?') {
            self.out.push('(');
            self.groups.push(start);
            return Ok(());
        }
        let opening = match self.peek(0) {
            Some(Token::Plain(c @ (':' | '=' | '!' | '>'))) => {
                self.position += 1;
                self.backtracks |= c != ':';
                format!("(?{c}")
            }
            Some(Token::Plain('<')) => {
                self.position += 1;
                self.named_or_behind()?
            }
            _ => return self.flags(start),
        };
        self.out.push_str(&opening);
        self.groups.push(start);
        Ok(())
    }

    /// After `(?<`.
    fn named_or_behind(&mut self) -> Result<String, String> {
        if let Some(c) = self.next_where(|c| matches!(c, '=' | '!')) {
            self.backtracks = true;
            return Ok(format!("(?<{c}"));
        }
        Ok(format!("(?<{}>", self.group_name()?))
    }

    /// Up to and including the `>`.
    pub(super) fn group_name(&mut self) -> Result<String, String> {
        let name = self.take_while(|c| c.is_ascii_alphanumeric());
        let is_legal = name.starts_with(|c: char| c.is_ascii_alphabetic());
        match is_legal && self.next_if('>') {
            true => Ok(name),
            false => Err(String::from("no name of a group")),
        }
    }

    /// After `(?`: flags for the rest of the group, or for a group of their own. Those about line ends and
    /// about characters beyond ASCII change nothing here.
    fn flags(&mut self, start: usize) -> Outcome {
        let flags = self.take_while(|c| matches!(c, 'i' | 'd' | 'm' | 's' | 'u' | 'U' | '-'));
        let (on, off) = flags.split_once('-').unwrap_or((&flags, ""));
        let fold = match (on.contains('i'), off.contains('i')) {
            (_, true) => "-i",
            (true, false) => "i",
            (false, false) => "",
        };
        self.folds_case |= fold == "i";
        if self.next_if(':') {
            self.out.push_str(&format!("(?{fold}:"));
            self.groups.push(start);
            return Ok(());
        }
        if !self.next_if(')') {
            return Err(String::from("unknown or unsupported kind of group"));
        }
        if !fold.is_empty() {
            self.out.push_str(&format!("(?{fold})"));
        }
        Ok(())
    }

    fn close_group(&mut self) -> Outcome {
        let start = self.groups.pop().ok_or("unmatched closing `)`")?;
        self.out.push(')');
        self.atom = Some(start);
        Ok(())
    }

    /// After `{`.
    fn repeat_counted(&mut self) -> Outcome {
        let mut count = self.take_while(|c| c.is_ascii_digit());
        let mut is_legal = !count.is_empty();
        if self.next_if(',') {
            count.push(',');
            count.push_str(&self.take_while(|c| c.is_ascii_digit()));
        }
        is_legal &= self.next_if('}');
        match is_legal {
            true => self.repeat(&format!("{{{count}}}")),
            false => Err(String::from("illegal repetition")),
        }
    }

    /// Unlike the engines, Java allows no second quantifier.
    fn repeat(&mut self, quantifier: &str) -> Outcome {
        let start = self
            .atom
            .take()
            .ok_or_else(|| format!("dangling `{quantifier}`"))?;
        self.out.push_str(quantifier);
        if self.next_if('?') {
            self.out.push('?');
        } else if self.next_if('+') {
            self.backtracks = true;
            self.out.insert_str(start, "(?>");
            self.out.push(')');
        }
        Ok(())
    }

    fn escape(&mut self) -> Outcome {
        let start = self.out.len();
        match self.escaped(false)? {
            Escape::Literal(c) => self.write_literal(c),
            Escape::Set(set) => self.out.push_str(&set),
            Escape::Assertion(text) => return self.assertion(text),
            Escape::BackReference(text) => {
                self.backtracks = true;
                self.out.push_str(&text);
            }
        }
        self.atom = Some(start);
        Ok(())
    }
}

/// The characters of `pattern`. A quotation without `\E` goes on to the end, as in Java.
fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = pattern.chars().peekable();
    let mut is_quoted = false;
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        match (is_quoted, c, next) {
            (false, '\\', Some('Q')) | (true, '\\', Some('E')) => {
                chars.next();
                is_quoted = !is_quoted;
            }
            (true, c, _) => tokens.push(Token::Quoted(c)),
            (false, '\\', Some(escaped)) => {
                chars.next();
                tokens.extend([Token::Plain(c), Token::Plain(escaped)]);
            }
            (false, c, _) => tokens.push(Token::Plain(c)),
        }
    }
    tokens
}
