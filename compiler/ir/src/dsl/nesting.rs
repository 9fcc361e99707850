//! The nesting of tokens, measured before anything recurses over them.
//!
//! The parser of Rust's syntax and every walk over what it makes recurse, and a stack has an end: a
//! program that nests too deeply is refused by its tokens. A group is a level; so is every operator of
//! a chain, since `a + b + c` is a sum in a sum, and `a.exp().exp()` a call in a call. Operators that
//! bind closer than the one between two operands begin anew behind it, so a sum of long products is as
//! deep as it has terms, not as it has factors.
//!
//! The measure is one of tokens, not of syntax: it may be too large where tokens are no program.

use proc_macro2::{Delimiter, Group, Spacing, Span, TokenStream, TokenTree};

/// The deepest nesting of a program. The limits of expressions, which say more, are below.
const MAX_DEPTH: usize = 400;
/// The additional depth of a file, which has modules around a program.
const AROUND: usize = 64;
/// The most tokens of a program: each is looked at once for every level around it.
pub(super) const MAX_TOKENS: usize = 1 << 14;

/// Checks tokens before they are parsed.
///
/// # Errors
///
/// If they nest too deeply, or are too many; at the token where that is found.
pub fn check(tokens: &TokenStream) -> syn::Result<()> {
    let mut scan = Scan { n_tokens: 0 };
    scan.level(tokens.clone(), 0).map_err(|found| match found {
        Excess::Depth(span) => syn::Error::new(
            span,
            "this is nested too deeply; bind parts of it with `let`, or compute parts of it with \
             `let t = compute(..)`",
        ),
        Excess::Tokens(span) => syn::Error::new(
            span,
            format!("a program has at most {MAX_TOKENS} tokens: write several functions"),
        ),
    })
}

/// Empties the groups of a file whose tokens nest too deeply to be parsed: nothing is read in them.
pub fn without_deep_groups(tokens: TokenStream) -> TokenStream {
    prune(tokens, 0).unwrap_or_default()
}

fn prune(tokens: TokenStream, depth: usize) -> Option<TokenStream> {
    let mut chains = Chains::default();
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        chains.see(&token, tokens.peek());
        let here = depth + chains.depth();
        if here > MAX_DEPTH + AROUND {
            return None;
        }
        kept.push(match token {
            TokenTree::Group(group) => {
                let inside = prune(group.stream(), here + 1).unwrap_or_default();
                let mut pruned = Group::new(group.delimiter(), inside);
                pruned.set_span(group.span());
                pruned.into()
            }
            other => other,
        });
    }
    Some(kept.into_iter().collect())
}

enum Excess {
    Depth(Span),
    Tokens(Span),
}

struct Scan {
    n_tokens: usize,
}

impl Scan {
    fn level(&mut self, tokens: TokenStream, depth: usize) -> Result<(), Excess> {
        let mut chains = Chains::default();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            self.n_tokens += 1;
            if self.n_tokens > MAX_TOKENS {
                return Err(Excess::Tokens(token.span()));
            }
            chains.see(&token, tokens.peek());
            let here = depth + chains.depth();
            if here > MAX_DEPTH {
                return Err(Excess::Depth(match &token {
                    TokenTree::Group(group) => group.span_open(),
                    other => other.span(),
                }));
            }
            if let TokenTree::Group(group) = &token {
                self.level(group.stream(), here + 1)?;
            }
        }
        Ok(())
    }
}

/// Precedence classes of operators, the loosest first. Each is a chain of its own.
const N_CLASSES: usize = 8;
/// Whatever nests to the right, or is nothing of an expression: keywords, `=`, closures, angles.
const LOOSEST: usize = 0;
const LOGIC: usize = 1;
const COMPARISON: usize = 2;
const BITS: usize = 3;
const SUM: usize = 4;
const PRODUCT: usize = 5;
const PREFIX: usize = 6;
const POSTFIX: usize = 7;

/// The chains of operators at one level, since the last statement or argument began.
#[derive(Default)]
struct Chains {
    /// The operators of each class in the open chain.
    counts: [usize; N_CLASSES],
    /// The last token was the end of an operand.
    after_operand: bool,
    /// The last token was a pair of braces, which may end a statement.
    after_braces: bool,
    /// The last token is the first of an operator of several.
    joint: Option<char>,
    /// Open angle brackets, or comparisons that look like them.
    n_angles: usize,
    /// Between the bars of a closure's axes.
    in_bars: bool,
    /// The words that the last token was, where the next one goes with it.
    word: Word,
}

/// Words that count together with what follows them.
#[derive(Clone, Copy, Default, PartialEq)]
enum Word {
    #[default]
    Other,
    /// `else`, before `if`.
    Else,
    /// The point before the name of a method.
    Dot,
    /// The name of a method, before its arguments.
    Method,
}

impl Chains {
    fn depth(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Extends the chain of a class; what binds closer begins anew.
    fn extend(&mut self, class: usize) {
        self.counts[class] += 1;
        self.counts[class + 1..].fill(0);
    }

    fn restart(&mut self) {
        *self = Self::default();
    }

    fn see(&mut self, token: &TokenTree, next: Option<&TokenTree>) {
        let joint = self.joint.take();
        let after_braces = std::mem::take(&mut self.after_braces);
        let word = std::mem::take(&mut self.word);
        match token {
            TokenTree::Group(group) => {
                let is_braces = group.delimiter() == Delimiter::Brace;
                // A call or an index; braces are the body of what came before.
                if self.after_operand && !is_braces && word != Word::Method {
                    self.extend(POSTFIX);
                }
                (self.after_operand, self.after_braces) = (true, is_braces);
            }
            TokenTree::Literal(_) => self.operand(after_braces),
            TokenTree::Ident(_) if joint == Some('\'') => self.after_operand = false,
            TokenTree::Ident(ident) => self.ident(&ident.to_string(), word, after_braces),
            TokenTree::Punct(mark) => {
                let next = match next {
                    Some(TokenTree::Punct(it)) if mark.spacing() == Spacing::Joint => {
                        Some(it.as_char())
                    }
                    // A quote and the name of a lifetime.
                    Some(TokenTree::Ident(_)) if mark.as_char() == '\'' => Some('_'),
                    _ => None,
                };
                if after_braces && mark.as_char() == '#' {
                    self.begin_statement();
                }
                let is_whole = self.mark(mark.as_char(), joint, next);
                self.joint = (!is_whole && next.is_some()).then_some(mark.as_char());
            }
        }
    }

    fn ident(&mut self, ident: &str, before: Word, after_braces: bool) {
        match ident {
            "if" if before == Word::Else => {}
            "else" => {
                self.extend(LOOSEST);
                (self.word, self.after_operand) = (Word::Else, false);
            }
            "as" => {
                self.extend(PREFIX);
                self.after_operand = false;
            }
            word if is_keyword(word) => {
                if after_braces {
                    self.begin_statement();
                }
                self.extend(LOOSEST);
                self.after_operand = false;
            }
            _ => {
                self.operand(after_braces);
                if before == Word::Dot {
                    self.word = Word::Method;
                }
            }
        }
    }

    fn operand(&mut self, after_braces: bool) {
        if after_braces {
            self.begin_statement();
        }
        self.after_operand = true;
    }

    /// Braces ended a statement or an item: what follows is no part of it.
    fn begin_statement(&mut self) {
        self.restart();
        self.after_operand = false;
    }

    /// Takes a mark, the one joined to it before, and the one joined to it behind; returns whether it
    /// ends an operator of two.
    fn mark(&mut self, mark: char, before: Option<char>, next: Option<char>) -> bool {
        if let Some(before) = before
            && is_second(before, mark)
        {
            self.second(before, mark);
            return true;
        }
        match mark {
            ';' => self.restart(),
            ',' => {
                if self.n_angles == 0 && !self.in_bars {
                    self.restart();
                }
                self.after_operand = false;
            }
            // Axes of a closure: they begin where an operand could.
            '|' if self.in_bars => (self.in_bars, self.after_operand) = (false, false),
            '|' if !self.after_operand => {
                self.in_bars = true;
                self.extend(LOOSEST);
            }
            '.' => {
                self.extend(POSTFIX);
                (self.word, self.after_operand) = (Word::Dot, false);
            }
            '?' => self.extend(POSTFIX),
            ':' | '#' | '@' | '$' | '~' | '\'' => self.after_operand = false,
            '<' => {
                self.n_angles += 1;
                self.operator(COMPARISON);
            }
            // The end of a type's arguments is the end of a type.
            '>' => (self.n_angles, self.after_operand) = (self.n_angles.saturating_sub(1), true),
            '=' if next == Some('=') => self.operator(COMPARISON),
            '=' => self.operator(LOOSEST),
            '&' | '|' => self.operator(LOGIC),
            '!' => self.operator(COMPARISON),
            '^' => self.operator(BITS),
            '+' | '-' => self.operator(SUM),
            _ => self.operator(PRODUCT),
        }
        false
    }

    /// An operator: one before its operand where none has come.
    fn operator(&mut self, class: usize) {
        self.extend(if self.after_operand { class } else { PREFIX });
        self.after_operand = false;
    }

    /// The second mark of an operator, which was counted with the first.
    fn second(&mut self, before: char, mark: char) {
        match (before, mark) {
            ('|', '|') => (self.in_bars, self.after_operand) = (false, false),
            ('<', '=') => self.n_angles = self.n_angles.saturating_sub(1),
            _ => {}
        }
        self.after_operand = false;
        self.word = Word::Other;
    }
}

/// Returns whether two marks are one operator.
fn is_second(before: char, mark: char) -> bool {
    match mark {
        '>' => matches!(before, '-' | '='),
        '=' => "=!<>+-*/%^&|.".contains(before),
        '&' | '|' | ':' | '.' => before == mark,
        _ => false,
    }
}

/// Returns whether a word may begin an expression, a type or a pattern that nests to the right.
fn is_keyword(word: &str) -> bool {
    const KEYWORDS: [&str; 24] = [
        "if", "match", "while", "for", "loop", "in", "let", "return", "break", "continue", "move",
        "async", "await", "unsafe", "const", "static", "mut", "ref", "dyn", "impl", "fn", "yield",
        "box", "where",
    ];
    KEYWORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: Option<&str>) {
        let found = super::check(&source.parse().unwrap()).err().map(|it| it.to_string());
        assert_eq!(found.as_deref().map(|it| &it[..20]), expected);
    }

    fn chain(n: usize, first: &str, each: &str) -> String {
        format!("fn f() {{ {first}{} }}", each.repeat(n))
    }

    const DEEP: Option<&str> = Some("this is nested too d");
    const LONG: Option<&str> = Some("a program has at mos");

    #[test]
    fn chains_and_groups_are_levels() {
        let nested = |n: usize, open: &str, close: &str| {
            format!("fn f() {{ {}x{} }}", open.repeat(n), close.repeat(n))
        };
        for (open, close) in
            [("(", ")"), ("relu(", ")"), ("{", "}"), ("x[[", "]]"), ("if x { ", "} else { y }")]
        {
            check(&nested(90, open, close), None);
            check(&nested(500, open, close), DEEP);
        }
        for prefix in
            ["-", "!", "& ", "&&", "|a| ", "|| ", "return ", "if ", "x = ", "*const ", "..", "&'a "]
        {
            check(&nested(90, prefix, ""), None);
            check(&nested(500, prefix, ""), DEEP);
        }
        for each in [" + x[[i]] * w[[j]]", ".exp()", " else if x == 1 { y }", " as f32", "?", "(x)"]
        {
            let first = if each.contains("else") { "if x { y }" } else { "x" };
            check(&chain(200, first, each), None);
            check(&chain(500, first, each), DEEP);
        }
        check(&format!("fn f(x: {}) {{}}", "A<B, ".repeat(500)), DEEP);
    }

    #[test]
    fn what_stands_side_by_side_is_no_level() {
        check(&chain(500, "", "let a = x[[i]] + 2 < 3;"), None);
        check(&chain(500, "", "if a == b { c } else { d } "), None);
        check(&chain(500, "", "#[a(b)] fn g(x: A<B, C>) -> D { -1 } "), None);
        check(&format!("fn f() {{ g({}) }}", "x[[i]], -y <= 2, ".repeat(500)), None);
        check(&chain(150, "x == 1", " || x.exp() >= -1.0 && !y"), None);
        check(&format!("fn f({}) {{}}", "x: Tensor<f32, M, { N * 2 }>, ".repeat(500)), None);
    }

    #[test]
    fn long_programs_are_refused() {
        check(&chain(20_000, "", "a; "), LONG);
        check(&chain(100_000, "if x { y }", " else if x == 1 { y }"), DEEP);
        check(&chain(100_000, "x", " + x[[i]]"), DEEP);
    }

    #[test]
    fn deep_groups_of_a_file_are_emptied_and_the_rest_is_read() {
        let deep = format!("fn f() {{ {}x{} }}", "(".repeat(100_000), ")".repeat(100_000));
        let long = chain(100_000, "if x { y }", " else if x { y }");
        let text = format!("mod a {{ {deep} }} {long} fn g() {{ 1 }}");
        let file: syn::File = syn::parse2(without_deep_groups(text.parse().unwrap())).unwrap();
        assert_eq!(file.items.len(), 3);
        let syn::Item::Fn(last) = &file.items[2] else { panic!("no function") };
        assert_eq!(last.block.stmts.len(), 1);
    }
}
