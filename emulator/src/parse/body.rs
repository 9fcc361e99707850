//! The body of a function: nested scopes of registers, variables, labels and statements.

use std::collections::BTreeMap;

use super::lexer::Kind;
use super::module::Parser;
use super::{Function, Operand, Result, Statement};
use crate::registers::{Class, Slot};

/// What a name stands for.
#[derive(Clone, Copy)]
pub(super) enum Name {
    Register(Class, Slot),
    Variable(usize),
}

/// The state of a walk over the body of one function.
pub(super) struct Scope<'a> {
    /// Names, the innermost scope last.
    names: Vec<BTreeMap<&'a str, Name>>,
    /// Registers declared in bulk, `%r<74>`: prefix, class, first slot and count.
    ranges: Vec<(&'a str, Class, Slot, u32)>,
    /// The numbers of the open scopes, for labels.
    open: Vec<usize>,
    n_scopes: usize,
    labels: BTreeMap<(usize, &'a str), usize>,
    tables: BTreeMap<(usize, &'a str), Vec<&'a str>>,
    /// Operands that name labels: statement, operand, name, and the scopes it was seen in.
    pending: Vec<(usize, usize, &'a str, Vec<usize>)>,
    place: u32,
    /// What a pragma says of the load that comes next.
    used: Option<u32>,
    statements: Vec<Statement<'a>>,
}

impl<'a> Scope<'a> {
    /// Reads the body of a function, after its opening brace.
    pub(super) fn function(parser: &mut Parser<'a>, function: &mut Function<'a>) -> Result<()> {
        let parameters = function.variables.iter().enumerate();
        let names = parameters.map(|(n, it)| (it.name, Name::Variable(n))).collect();
        let mut scope = Scope {
            names: vec![names],
            ranges: Vec::new(),
            open: vec![0],
            n_scopes: 1,
            labels: BTreeMap::new(),
            tables: BTreeMap::new(),
            pending: Vec::new(),
            place: 0,
            used: None,
            statements: Vec::new(),
        };
        while !scope.open.is_empty() {
            scope.item(parser, function)?;
        }
        scope.resolve(parser)?;
        function.body = Some(scope.statements);
        Ok(())
    }

    /// What a name means here.
    pub(super) fn find(&self, name: &str) -> Option<Name> {
        let named = self.names.iter().rev().find_map(|it| it.get(name).copied());
        named.or_else(|| {
            let digits = name.trim_start_matches(|it: char| !it.is_ascii_digit());
            let prefix = &name[..name.len() - digits.len()];
            let n: u32 = digits.parse().ok()?;
            let mut ranges = self.ranges.iter();
            let (_, class, first, _) =
                ranges.find(|(base, _, _, count)| *base == prefix && n < *count)?;
            Some(Name::Register(*class, first + n))
        })
    }

    fn item(&mut self, parser: &mut Parser<'a>, function: &mut Function<'a>) -> Result<()> {
        match parser.next()? {
            Kind::Mark('{') => {
                self.names.push(BTreeMap::new());
                self.open.push(self.n_scopes);
                self.n_scopes += 1;
            }
            Kind::Mark('}') => {
                self.names.pop();
                self.open.pop();
            }
            Kind::Mark(';') => {}
            Kind::Mark('@') => {
                let negated = parser.take('!');
                let name = parser.word()?;
                let Some(Name::Register(Class::Predicate, slot)) = self.find(name) else {
                    return Err(parser.error(format!("no predicate `{name}`")));
                };
                self.statement(parser, Some((slot, negated)))?;
            }
            Kind::Word(".reg") => self.registers(parser, function)?,
            Kind::Word(".loc") => self.place = parser.location()?,
            Kind::Word(".pragma") => {
                if let Kind::Text(text) = parser.next()? {
                    self.used = used_bytes(text);
                }
                parser.expect(';')?;
            }
            Kind::Word(".shared" | ".local" | ".param" | ".const" | ".global") => {
                parser.at -= 1;
                for variable in parser.variables()? {
                    let scope = self.names.last_mut().expect("a scope is open");
                    scope.insert(variable.name, Name::Variable(function.variables.len()));
                    function.variables.push(variable);
                }
            }
            Kind::Word(word) if parser.take(':') => self.label(parser, word)?,
            Kind::Word(word) if !word.starts_with('.') => {
                parser.at -= 1;
                self.statement(parser, None)?;
            }
            _ => {
                parser.at -= 1;
                return Err(parser.error("expected an instruction"));
            }
        }
        Ok(())
    }

    fn label(&mut self, parser: &mut Parser<'a>, name: &'a str) -> Result<()> {
        let scope = *self.open.last().expect("a scope is open");
        if parser.take_word(".branchtargets") {
            let mut targets = vec![parser.word()?];
            while parser.take(',') {
                targets.push(parser.word()?);
            }
            parser.expect(';')?;
            self.tables.insert((scope, name), targets);
        } else {
            self.labels.insert((scope, name), self.statements.len());
        }
        Ok(())
    }

    /// `.reg .b32 %r<74>, %x;`
    fn registers(&mut self, parser: &mut Parser<'a>, function: &mut Function<'a>) -> Result<()> {
        let class = match parser.word()? {
            ".pred" => Class::Predicate,
            ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" | ".b32" | ".u32" | ".s32" | ".f32"
            | ".f16x2" | ".bf16x2" => Class::Word,
            ".b64" | ".u64" | ".s64" | ".f64" => Class::Double,
            other => return Err(parser.error(format!("registers of type `{other}`"))),
        };
        loop {
            let name = parser.word()?;
            let count = match class {
                Class::Predicate => &mut function.n_predicates,
                Class::Word => &mut function.n_words,
                Class::Double => &mut function.n_doubles,
            };
            if parser.take('<') {
                let more = parser.number()? as u32;
                parser.expect('>')?;
                self.ranges.push((name, class, *count, more));
                *count += more;
            } else {
                let scope = self.names.last_mut().expect("a scope is open");
                scope.insert(name, Name::Register(class, *count));
                *count += 1;
            }
            if !parser.take(',') {
                return parser.expect(';');
            }
        }
    }

    fn statement(&mut self, parser: &mut Parser<'a>, guard: Option<(Slot, bool)>) -> Result<()> {
        let line = parser.line();
        let opcode = parser.word()?;
        let mut operands = Vec::new();
        while !parser.take(';') {
            let operand = parser.operand(self)?;
            if let Operand::Symbol(name) = operand
                && matches!(opcode.split('.').next(), Some("bra" | "brx"))
            {
                self.pending.push((self.statements.len(), operands.len(), name, self.open.clone()));
            }
            operands.push(operand);
            if !parser.take(',') {
                parser.expect(';')?;
                break;
            }
        }
        let (place, used) = (self.place, self.used.take());
        self.statements.push(Statement { line, place, guard, opcode, operands, used });
        Ok(())
    }

    /// Puts statements for the names of labels.
    fn resolve(&mut self, parser: &Parser<'a>) -> Result<()> {
        for (statement, operand, name, scopes) in std::mem::take(&mut self.pending) {
            let find = |name: &'a str| {
                scopes.iter().rev().find_map(|scope| self.labels.get(&(*scope, name)).copied())
            };
            let table = scopes.iter().rev().find_map(|scope| self.tables.get(&(*scope, name)));
            let targets: Option<Vec<usize>> = match table {
                Some(names) => names.iter().map(|it| find(it)).collect(),
                None => find(name).map(|it| vec![it]),
            };
            let at = &mut self.statements[statement];
            let targets = targets
                .ok_or_else(|| super::ParseError::new(at.line, format!("no label `{name}`")))?;
            at.operands[operand] = Operand::Targets(targets);
        }
        if self.statements.is_empty() {
            return Err(parser.error("a function without instructions"));
        }
        Ok(())
    }
}

/// The bytes that `used_bytes_mask 4095` says are used.
fn used_bytes(pragma: &str) -> Option<u32> {
    let mask = pragma.strip_prefix("used_bytes_mask")?.trim();
    match mask.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => mask.parse().ok(),
    }
}
