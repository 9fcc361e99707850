//! The parser of kernel templates: the lines of canonical text that follow the program.

use super::Reader;
use super::cursor::{Cursor, Parsed};
use crate::dag::kernel_template::{
    Constraint, FieldValue, KernelLaunch, KernelTemplate, Knob, LaunchExpr, LaunchOp, MAX_DEPTH,
    ParamField, ParamStruct, RustFunction,
};
use crate::dag::{CompareOp, ScalarId};
use crate::poly::DimId;

/// The comparisons of constraints, by their spelling.
const COMPARISONS: [(&str, CompareOp); 6] = [
    ("lt(", CompareOp::Lt),
    ("le(", CompareOp::Le),
    ("eq(", CompareOp::Eq),
    ("ne(", CompareOp::Ne),
    ("ge(", CompareOp::Ge),
    ("gt(", CompareOp::Gt),
];

impl Reader {
    /// Reads a line of a kernel template; `false` if it is none.
    pub(super) fn template(&mut self, it: &mut Cursor<'_>) -> Parsed<bool> {
        if self.dag.kernel_template.is_none() {
            if !it.eat("template ") {
                return Ok(false);
            }
            let file = rest(it).to_owned();
            self.dag.kernel_template = Some(KernelTemplate {
                file,
                source: String::new(),
                macros: Vec::new(),
                knobs: Vec::new(),
                constraints: Vec::new(),
                params: None,
                kernels: Vec::new(),
                reference: None,
            });
            return Ok(true);
        }
        let Some(template) = &mut self.dag.kernel_template else { return Ok(false) };
        if it.eat("|") {
            let source = match &mut template.reference {
                Some(reference) => &mut reference.source,
                None => &mut template.source,
            };
            source.push_str(rest(it));
            source.push('\n');
        } else if it.eat("reference ") {
            let name = name(it, " of ")?;
            let file = rest(it).to_owned();
            template.reference = Some(RustFunction { file, name, source: String::new() });
        } else if it.eat("macro ") {
            template.macros.push((name(it, " = ")?, it.number()?));
        } else if it.eat("knob ") {
            let name = name(it, " in [")?;
            let mut values = Vec::new();
            it.list("]", |it| {
                values.push(it.number()?.unsigned_abs());
                Ok(())
            })?;
            template.knobs.push(Knob { name, values });
        } else if it.eat("constraint ") {
            template.constraints.push(constraint(it)?);
        } else if it.eat("params ") {
            template.params = Some(params(it)?);
        } else if it.eat("launch ") {
            let name = name(it, ": grid ")?;
            let grid = extents(it)?;
            it.expect(", block ")?;
            let block = extents(it)?;
            it.expect(", shared ")?;
            template.kernels.push(KernelLaunch { name, grid, block, shared: expr(it)? });
        } else {
            it.expect("source")?;
        }
        Ok(true)
    }
}

fn rest<'a>(it: &mut Cursor<'a>) -> &'a str {
    std::mem::take(&mut it.rest)
}

/// A name, and what follows it.
fn name(it: &mut Cursor<'_>, after: &str) -> Parsed<String> {
    let Some((name, rest)) = it.rest.split_once(after) else {
        return Err(it.expected(&format!("a name before `{after}`")));
    };
    it.rest = rest;
    Ok(name.to_owned())
}

/// `name of 16 bytes: n = d0 in 4 at 0`
fn params(it: &mut Cursor<'_>) -> Parsed<ParamStruct> {
    let name = name(it, " of ")?;
    let bytes = small(it.number()?)?;
    it.expect(" bytes: ")?;
    let mut fields = Vec::new();
    it.list("", |it| {
        let name = self::name(it, " = ")?;
        let value = if it.eat("d") {
            FieldValue::Dim(DimId(small(it.number()?)?))
        } else {
            it.expect("s")?;
            FieldValue::Scalar(ScalarId(small(it.number()?)?))
        };
        it.expect(" in ")?;
        let bytes = small(it.number()?)?;
        it.expect(" at ")?;
        fields.push(ParamField { name, value, offset: small(it.number()?)?, bytes });
        Ok(())
    })?;
    Ok(ParamStruct { name, bytes, fields })
}

fn small(n: i64) -> Parsed<u32> {
    u32::try_from(n).map_err(|_| format!("there is no number {n} here"))
}

/// `le(mul(k0, k1), 4096)`
fn constraint(it: &mut Cursor<'_>) -> Parsed<Constraint> {
    let op = COMPARISONS.into_iter().find(|(name, _)| it.eat(name)).map(|(_, op)| op);
    let op = op.ok_or_else(|| it.expected("a comparison"))?;
    let (left, right) = operands(it)?;
    Ok(Constraint { op, left, right })
}

/// `a, b)`
fn operands(it: &mut Cursor<'_>) -> Parsed<(LaunchExpr, LaunchExpr)> {
    let left = expr(it)?;
    it.expect(", ")?;
    let right = expr(it)?;
    it.expect(")")?;
    Ok((left, right))
}

/// `k0`, or `(d0, 4)`
fn extents(it: &mut Cursor<'_>) -> Parsed<Vec<LaunchExpr>> {
    if !it.eat("(") {
        return Ok(vec![expr(it)?]);
    }
    let mut all = Vec::new();
    it.list(")", |it| {
        all.push(expr(it)?);
        Ok(())
    })?;
    if all.len() < 2 {
        return Err("a number alone stands without parentheses".to_owned());
    }
    Ok(all)
}

fn expr(it: &mut Cursor<'_>) -> Parsed<LaunchExpr> {
    it.depth += 1;
    if it.depth > MAX_DEPTH {
        return Err(format!("nested more than {MAX_DEPTH} deep"));
    }
    let op = LaunchOp::ALL.into_iter().find(|op| it.eat(&format!("{}(", op.name())));
    let expr = if let Some(op) = op {
        let (left, right) = operands(it)?;
        LaunchExpr::binary(op, left, right)
    } else if it.eat("d") {
        LaunchExpr::Dim(DimId(small(it.number()?)?))
    } else if it.eat("k") {
        LaunchExpr::Knob(small(it.number()?)?)
    } else {
        LaunchExpr::Int(it.number()?)
    };
    it.depth -= 1;
    Ok(expr)
}
