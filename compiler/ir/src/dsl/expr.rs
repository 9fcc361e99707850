//! Expressions inside a `compute`: operators, literals, names, conditionals, conversions.

use quote::ToTokens;
use syn::{BinOp, Block, Expr as Syntax, Lit, Stmt, UnOp};

use super::elaborate::{Binding, Elaborator};
use super::errors::{Location, axis_names};
use super::hints::{NO_ASSIGNMENT, no_element_type, no_statement, unsupported};
use super::signature::{plain_ident, type_name};
use super::value::{Choice, Kind, Value, cast, unify};
use crate::dag::limits::MAX_INDEX;
use crate::dag::{BinaryOp, CompareOp, DType, Expr, Literal, UnaryOp, integer_range};
use crate::half::{Bf16, F16};
use crate::poly::Poly;
use crate::similar;

/// Nesting beyond this could exhaust a stack.
const MAX_NESTING: usize = 200;

const OUT_OF_RANGE: &str = "this integer is out of range";

pub(super) struct LetParts<'a> {
    pub(super) ident: &'a syn::Ident,
    pub(super) ty: Option<&'a syn::Type>,
    pub(super) init: &'a Syntax,
}

impl Elaborator {
    /// Elaborates an expression; `None` after an error.
    pub(super) fn expr(&mut self, syntax: &Syntax) -> Option<Value> {
        if self.depth > MAX_NESTING {
            let message = "this is nested too deeply; bind parts of it with `let`";
            return self.errors.at(syntax, message);
        }
        if !self.may_expand(Location::of(&syntax)) {
            return None;
        }
        self.depth += 1;
        let value = self.expr_inner(syntax).map(|it| it.located(Location::of(&syntax)));
        self.depth -= 1;
        value
    }

    fn expr_inner(&mut self, syntax: &Syntax) -> Option<Value> {
        let location = Location::of(&syntax);
        match syntax {
            Syntax::Lit(it) => self.literal(&it.lit),
            Syntax::Path(it) => self.path(it),
            Syntax::Paren(it) => self.expr(&it.expr),
            Syntax::Group(it) => self.expr(&it.expr),
            Syntax::Unary(it) => self.unary_operator(it, location),
            Syntax::Binary(it) => self.binary_operator(it, location),
            Syntax::Cast(it) => self.cast_operator(it, location),
            Syntax::If(it) => self.choice(it, location),
            Syntax::Block(it) if it.label.is_none() => self.block(&it.block),
            Syntax::Index(it) => self.index_operator(it, location),
            Syntax::Call(it) => self.call(it, location),
            Syntax::MethodCall(it) => self.method_call(it, location),
            Syntax::Macro(it) if it.mac.path.is_ident("compile_error") => {
                // The reason why a function of the crate is not known.
                let reason = it.mac.parse_body::<syn::LitStr>();
                self.errors.at(it, reason.map_or_else(|_| unsupported(syntax), |it| it.value()))
            }
            other => self.errors.at(other, unsupported(other)),
        }
    }

    fn literal(&mut self, lit: &Lit) -> Option<Value> {
        let kind = match lit {
            Lit::Bool(it) => {
                Kind::Typed(Expr::Const(Literal::Bool(it.value), DType::Bool), DType::Bool)
            }
            Lit::Int(it) => {
                let Ok(value) = it.base10_parse::<i64>() else {
                    return self.errors.at(lit, OUT_OF_RANGE);
                };
                match it.suffix() {
                    // Another macro may have made a literal with a sign.
                    "" | "usize" if value.unsigned_abs() > MAX_INDEX as u64 => {
                        let message = "this is larger than any index; if it is no index, write its \
                                       type behind it, as in `1_i64`";
                        return self.errors.at(lit, message);
                    }
                    "" => Kind::Integer(value),
                    "usize" => Kind::Index(Poly::constant(value)),
                    suffix => return self.suffixed(lit, suffix, Kind::Integer(value)),
                }
            }
            Lit::Float(it) => {
                let value = match it.base10_parse::<f64>() {
                    Ok(value) if value.is_finite() => value,
                    _ => return self.errors.at(lit, "this float is out of range"),
                };
                let kind = Kind::Float(Expr::Const(Literal::Float(value), DType::F64));
                match it.suffix() {
                    "" => kind,
                    suffix => return self.suffixed(lit, suffix, kind),
                }
            }
            _ => {
                let message = "expected a number or a truth value, as in `1.0` or `true`";
                return self.errors.at(lit, message);
            }
        };
        Some(Value::new(kind, Location::of(&lit)))
    }

    fn suffixed(&mut self, lit: &Lit, suffix: &str, kind: Kind) -> Option<Value> {
        match suffix.parse::<DType>() {
            Ok(dtype) if dtype != DType::Bool => {
                let expr = Value::new(kind, Location::of(&lit)).stored(dtype, &mut self.errors)?;
                Some(Value::new(Kind::Typed(expr, dtype), Location::of(&lit)))
            }
            _ => self.errors.at(lit, no_element_type(suffix)),
        }
    }

    fn path(&mut self, path: &syn::ExprPath) -> Option<Value> {
        let Some(ident) = path.path.get_ident().filter(|_| path.qself.is_none()) else {
            return self.named_constant(path);
        };
        let name = ident.to_string();
        match self.lookup(&name) {
            Some(Binding::Value(value)) => Some(value.clone()),
            Some(Binding::Scalar(id)) => {
                let (expr, dtype) = (Expr::Scalar(*id), self.symbols.scalars[id.0 as usize].dtype);
                Some(Value::new(Kind::Typed(expr, dtype), Location::of(&ident)))
            }
            Some(Binding::Tensor(id)) => {
                let axes = axis_names(self.symbols.tensors[id.0 as usize].shape.len());
                let message =
                    format!("`{name}` is a tensor: read an element, as in `{name}[[{axes}]]`");
                self.errors.at(ident, message)
            }
            Some(Binding::Function(_)) => {
                self.errors.at(ident, format!("`{name}` is a function: call it, as in `{name}(x)`"))
            }
            Some(Binding::Poisoned) => None,
            None if name.chars().all(|it| !it.is_lowercase()) && name != "_" => {
                self.undeclared_dim(ident);
                None
            }
            None => {
                let known = self.scope.iter().rev().map(|(it, _)| it.as_str());
                let hint = similar::suggestion(&name, known);
                let hint = hint.unwrap_or_else(|| ": bind it with `let`, or pass it".to_owned());
                self.errors.unknown(ident, format!("cannot find `{name}` in this program{hint}"))
            }
        }
    }

    /// `f32::INFINITY`, `i32::MAX`, `std::f32::consts::PI` and the like.
    fn named_constant(&mut self, path: &syn::ExprPath) -> Option<Value> {
        let names: Vec<String> = path.path.segments.iter().map(|it| it.ident.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let names = match names.as_slice() {
            ["std" | "core", rest @ ..] => rest,
            all => all,
        };
        let found = match names {
            [dtype, "consts", name] => dtype.parse().ok().zip(math_constant(name)),
            [dtype, name] => dtype.parse().ok().and_then(|it| Some((it, limit(it, name)?))),
            _ => None,
        };
        let Some((dtype, literal)) = found.filter(|_| path.qself.is_none()) else {
            let constants = [
                "f32::INFINITY",
                "f32::NEG_INFINITY",
                "f32::MAX",
                "f32::MIN",
                "f32::EPSILON",
                "f32::consts::PI",
                "i32::MAX",
                "i32::MIN",
            ];
            let written = path.to_token_stream().to_string().replace(' ', "");
            let meant = similar::suggestion(&written, constants).unwrap_or_else(|| {
                "; constants are written as `f32::INFINITY`, `i32::MAX` or `f32::consts::PI`"
                    .to_owned()
            });
            let message = format!("`{written}` is not part of the language{meant}");
            return self.errors.at(path, message);
        };
        let expr = Expr::Const(literal, dtype);
        Some(Value::new(Kind::Typed(expr, dtype), Location::of(&path)))
    }

    fn unary_operator(&mut self, unary: &syn::ExprUnary, location: Location) -> Option<Value> {
        if let (UnOp::Neg(_), Syntax::Lit(it)) = (unary.op, &*unary.expr)
            && let Lit::Int(lit) = &it.lit
            && let Ok(value) = lit.base10_parse::<i128>()
            && !matches!(lit.suffix(), "" | "usize")
        {
            // At once, so that the least integers can be written.
            let Some(value) = value.checked_neg().and_then(|it| i64::try_from(it).ok()) else {
                return self.errors.at(unary, OUT_OF_RANGE);
            };
            return self.suffixed(&it.lit, lit.suffix(), Kind::Integer(value));
        }
        let value = self.expr(&unary.expr)?;
        match unary.op {
            UnOp::Neg(_) => self.negate(&value, location),
            UnOp::Not(_) if value.default_type().is_integer() => self.complement(&value, location),
            UnOp::Not(_) => {
                let condition = value.operand(DType::Bool, &mut self.errors)?;
                self.typed_value(condition.unary(UnaryOp::Not), DType::Bool, location, &[&value])
            }
            _ => self.errors.at(unary.op, "there are no references to follow here: remove the `*`"),
        }
    }

    fn negate(&mut self, value: &Value, location: Location) -> Option<Value> {
        let kind = match &value.kind {
            Kind::Integer(it) => Kind::Integer(-it),
            Kind::Index(poly) => Kind::Index(-poly.clone()),
            Kind::Float(expr) => Kind::Float(expr.clone().unary(UnaryOp::Neg)),
            Kind::Typed(_, DType::Bool) => {
                let message = "`-` applies to numbers; `!` negates a condition";
                return self.errors.at_location(location, message);
            }
            Kind::Choice(_) | Kind::Typed(..) => {
                let (expr, dtype) = value.widened(&mut self.errors)?;
                Kind::Typed(expr.unary(UnaryOp::Neg), dtype)
            }
        };
        Value::of_parts(kind, location, &[value], &mut self.errors)
    }

    fn binary_operator(&mut self, binary: &syn::ExprBinary, location: Location) -> Option<Value> {
        let (a, b) = (self.expr(&binary.left), self.expr(&binary.right));
        let (a, b) = (a?, b?);
        match binary.op {
            BinOp::Add(_) => self.arithmetic(BinaryOp::Add, &a, &b, location),
            BinOp::Sub(_) => self.arithmetic(BinaryOp::Sub, &a, &b, location),
            BinOp::Mul(_) => self.arithmetic(BinaryOp::Mul, &a, &b, location),
            BinOp::Div(_) => self.arithmetic(BinaryOp::Div, &a, &b, location),
            BinOp::Rem(_) => self.arithmetic(BinaryOp::Rem, &a, &b, location),
            BinOp::And(_) => self.logic(BinaryOp::And, &a, &b, location),
            BinOp::Or(_) => self.logic(BinaryOp::Or, &a, &b, location),
            BinOp::Eq(_) => self.comparison(CompareOp::Eq, &a, &b, location),
            BinOp::Ne(_) => self.comparison(CompareOp::Ne, &a, &b, location),
            BinOp::Lt(_) => self.comparison(CompareOp::Lt, &a, &b, location),
            BinOp::Le(_) => self.comparison(CompareOp::Le, &a, &b, location),
            BinOp::Gt(_) => self.comparison(CompareOp::Gt, &a, &b, location),
            BinOp::Ge(_) => self.comparison(CompareOp::Ge, &a, &b, location),
            BinOp::BitAnd(_) => self.bits(BinaryOp::BitAnd, binary, &a, &b),
            BinOp::BitOr(_) => self.bits(BinaryOp::BitOr, binary, &a, &b),
            BinOp::BitXor(_) => self.bits(BinaryOp::BitXor, binary, &a, &b),
            BinOp::Shl(_) => self.bits(BinaryOp::Shl, binary, &a, &b),
            BinOp::Shr(_) => self.bits(BinaryOp::Shr, binary, &a, &b),
            _ => self.errors.at(binary.op, NO_ASSIGNMENT),
        }
    }

    /// `a op b` on numbers.
    pub(super) fn arithmetic(
        &mut self,
        op: BinaryOp,
        a: &Value,
        b: &Value,
        location: Location,
    ) -> Option<Value> {
        let kind = match (&a.kind, &b.kind) {
            (Kind::Integer(_) | Kind::Index(_), Kind::Integer(_) | Kind::Index(_)) => {
                let index = self.index_binary(op, &a.as_index()?, &b.as_index()?, location)?;
                match (&a.kind, &b.kind) {
                    (Kind::Integer(_), Kind::Integer(_)) => Kind::Integer(index.as_constant()?),
                    _ => Kind::Index(index),
                }
            }
            (Kind::Float(a), Kind::Float(b)) => Kind::Float(a.clone().binary(op, b.clone())),
            _ => {
                let (a, b, dtype) = unify(a, b, &mut self.errors)?;
                if dtype == DType::Bool {
                    let message = "expected numbers, found truth values";
                    return self.errors.at_location(location, message);
                }
                Kind::Typed(a.binary(op, b), dtype)
            }
        };
        Value::of_parts(kind, location, &[a, b], &mut self.errors)
    }

    fn logic(&mut self, op: BinaryOp, a: &Value, b: &Value, location: Location) -> Option<Value> {
        let left = a.operand(DType::Bool, &mut self.errors);
        let right = b.operand(DType::Bool, &mut self.errors);
        self.typed_value(left?.binary(op, right?), DType::Bool, location, &[a, b])
    }

    fn comparison(
        &mut self,
        op: CompareOp,
        a: &Value,
        b: &Value,
        location: Location,
    ) -> Option<Value> {
        let known = |it: &Value| matches!(it.kind, Kind::Integer(_) | Kind::Index(_));
        let expr = match (a.as_index(), b.as_index()) {
            // Indices are compared as such, so that conditions on them can be proven.
            (Some(x), Some(y)) if known(a) && known(b) => {
                Expr::Index(x).compare(op, Expr::Index(y))
            }
            _ => {
                let (a, b, _) = unify(a, b, &mut self.errors)?;
                a.compare(op, b)
            }
        };
        self.typed_value(expr, DType::Bool, location, &[a, b])
    }

    fn cast_operator(&mut self, syntax: &syn::ExprCast, location: Location) -> Option<Value> {
        let value = self.expr(&syntax.expr);
        let to = match type_name(&syntax.ty).as_deref() {
            Some("usize" | "isize") => {
                let value = value?;
                return match value.as_index() {
                    Some(poly) => Some(Value::new(Kind::Index(poly), location)),
                    None => self.convert(&value, DType::I64, location),
                };
            }
            Some(name) => name.parse::<DType>().ok(),
            None => None,
        };
        let Some(to) = to else {
            let name = syntax.ty.to_token_stream().to_string();
            return self.errors.at(&syntax.ty, no_element_type(&name));
        };
        self.convert(&value?, to, location)
    }

    /// The value as another type, as Rust's `as`.
    fn convert(&mut self, value: &Value, to: DType, location: Location) -> Option<Value> {
        // A literal takes the type at once if it can: `300.0 as f64` is not rounded to `f32`.
        let (expr, from) = if value.takes(to) {
            (value.stored(to, &mut self.errors)?, to)
        } else if let Kind::Index(poly) | Kind::Typed(Expr::Index(poly), _) = &value.kind {
            (Expr::Index(poly.clone()), DType::I64)
        } else if let Kind::Integer(it) = value.kind {
            (Expr::Const(Literal::Int(it), DType::I64), DType::I64)
        } else {
            value.typed(&mut self.errors)?
        };
        if to == DType::Bool && from != DType::Bool {
            let message = "a number is no truth value: compare it, as in `x != 0`";
            return self.errors.at_location(location, message);
        }
        if from == DType::Bool && to.is_float() {
            let message = "a truth value becomes a float by choice: `if c { 1.0 } else { 0.0 }`";
            return self.errors.at_location(location, message);
        }
        self.typed_value(cast(to, from, expr), to, location, &[value])
    }

    fn choice(&mut self, syntax: &syn::ExprIf, location: Location) -> Option<Value> {
        if let Syntax::Let(it) = &*syntax.cond {
            return self.errors.at(it, "patterns are not part of the language: compare instead");
        }
        let condition = self.expr(&syntax.cond);
        let test = condition.as_ref().and_then(|it| it.operand(DType::Bool, &mut self.errors));
        let Some((_, otherwise)) = &syntax.else_branch else {
            let message = "an `if` needs an `else`, since every element has a value: write `else { 0.0 }`, say";
            return self.errors.at(syntax.if_token, message);
        };
        let then = self.under(test.as_ref(), true, |it| it.block(&syntax.then_branch));
        let otherwise = self.under(test.as_ref(), false, |it| it.expr(otherwise));
        let (condition, then, otherwise) = (condition?, then?, otherwise?);
        let (test, parts) = (test?, [&condition, &then, &otherwise]);
        if let Some(choice) = Choice::of_literals(&test, &then, &otherwise) {
            let kind = Kind::Choice(Box::new(choice));
            return Value::of_parts(kind, location, &parts, &mut self.errors);
        }
        let (a, b, dtype) = unify(&then, &otherwise, &mut self.errors)?;
        self.typed_value(test.select(a, b), dtype, location, &parts)
    }

    /// Runs `f` under the path condition that `condition` is `holds`.
    fn under<T>(
        &mut self,
        condition: Option<&Expr>,
        holds: bool,
        f: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let known = self.known.clone();
        if let Some(condition) = condition {
            self.known.assume(condition, holds);
        }
        let result = f(self);
        self.known.restore_conditions(known);
        result
    }

    /// `{ let a = ..; let b = ..; value }`
    pub(super) fn block(&mut self, block: &Block) -> Option<Value> {
        self.scoped(|this| {
            let Some((last, lets)) = block.stmts.split_last() else {
                return this.errors.at(block, "expected a value in this block");
            };
            for it in lets {
                this.scalar_let(it);
            }
            match last {
                Stmt::Expr(value, None) => this.expr(value),
                Stmt::Local(_) => {
                    this.scalar_let(last);
                    this.errors.at(last, "a block ends in a value, not in a `let`")
                }
                Stmt::Expr(_, Some(semicolon)) => {
                    this.errors.at(semicolon, "a block ends in a value, with no `;` after it")
                }
                other => this.errors.at(other, no_statement(other)),
            }
        })
    }

    fn scalar_let(&mut self, statement: &Stmt) {
        let Some(LetParts { ident, ty, init }) = self.let_parts(statement) else { return };
        if let Syntax::Closure(closure) = init {
            return self.bind_function(ident.to_string(), ty, closure);
        }
        let value = self.let_value(ty, init);
        self.bind(ident.to_string(), value.map_or(Binding::Poisoned, Binding::Value));
    }

    /// Returns the parts of a `let`; after an error, names that it binds are poisoned.
    pub(super) fn let_parts<'a>(&mut self, statement: &'a Stmt) -> Option<LetParts<'a>> {
        let Stmt::Local(local) = statement else {
            return self.errors.at(statement, no_statement(statement));
        };
        let (pat, ty) = match &local.pat {
            syn::Pat::Type(it) => (&*it.pat, Some(&*it.ty)),
            other => (other, None),
        };
        let Some(ident) = plain_ident(pat) else {
            if let syn::Pat::Ident(it) = pat {
                self.bind(it.ident.to_string(), Binding::Poisoned);
            }
            return self.errors.at(pat, "`let` binds one name, for good: no `mut`, no patterns; sums are `sum(0..K, |k| ..)`");
        };
        match &local.init {
            Some(init) if init.diverge.is_none() => Some(LetParts { ident, ty, init: &init.expr }),
            Some(_) => {
                self.bind(ident.to_string(), Binding::Poisoned);
                self.errors.at(local, "`let .. else` is not part of the language")
            }
            None => {
                self.bind(ident.to_string(), Binding::Poisoned);
                self.errors.at(local, "a `let` needs a value")
            }
        }
    }

    /// Elaborates the value of a `let`, converted to the type that it states.
    pub(super) fn let_value(&mut self, ty: Option<&syn::Type>, init: &Syntax) -> Option<Value> {
        let value = self.expr(init)?;
        self.value_as(ty, value)
    }

    /// Converts a value to the type that a `let` or a function states for it, if it states one.
    pub(super) fn value_as(&mut self, ty: Option<&syn::Type>, value: Value) -> Option<Value> {
        let Some(ty) = ty else { return Some(value) };
        let name = type_name(ty);
        if let (Some("usize"), Some(poly)) = (name.as_deref(), value.as_index()) {
            return Some(Value::new(Kind::Index(poly), value.location));
        }
        let dtype = match name.as_deref() {
            // Made by a choice of indices, or by `as usize` of data.
            Some("usize") if value.default_type() == DType::I64 => Some(DType::I64),
            name => name.and_then(|it| it.parse().ok()),
        };
        let Some(dtype) = dtype else {
            return self.errors.at(ty, "expected an element type, or no type at all");
        };
        let expr = value.stored(dtype, &mut self.errors)?;
        self.typed_value(expr, dtype, value.location, &[&value])
    }

    /// Makes a typed value of `parts`.
    pub(super) fn typed_value(
        &mut self,
        expr: Expr,
        dtype: DType,
        location: Location,
        parts: &[&Value],
    ) -> Option<Value> {
        Value::of_parts(Kind::Typed(expr, dtype), location, parts, &mut self.errors)
    }
}

fn math_constant(name: &str) -> Option<Literal> {
    use std::f64::consts as c;
    let value = match name {
        "PI" => c::PI,
        "TAU" => c::TAU,
        "E" => c::E,
        "SQRT_2" => c::SQRT_2,
        "FRAC_1_SQRT_2" => c::FRAC_1_SQRT_2,
        "FRAC_2_SQRT_PI" => c::FRAC_2_SQRT_PI,
        "FRAC_PI_2" => c::FRAC_PI_2,
        "FRAC_2_PI" => c::FRAC_2_PI,
        "LN_2" => c::LN_2,
        "LOG2_E" => c::LOG2_E,
        _ => return None,
    };
    Some(Literal::Float(value))
}

fn limit(dtype: DType, name: &str) -> Option<Literal> {
    if dtype.is_integer() {
        let range = integer_range(dtype);
        return match name {
            "MAX" => Some(Literal::Int(range.hi)),
            "MIN" => Some(Literal::Int(range.lo)),
            _ => None,
        };
    }
    let (max, epsilon, least) = match dtype {
        DType::F32 => (f64::from(f32::MAX), f64::from(f32::EPSILON), f64::from(f32::MIN_POSITIVE)),
        DType::F64 => (f64::MAX, f64::EPSILON, f64::MIN_POSITIVE),
        DType::F16 => (F16::MAX.to_f64(), F16::EPSILON.to_f64(), F16::MIN_POSITIVE.to_f64()),
        DType::Bf16 => (Bf16::MAX.to_f64(), Bf16::EPSILON.to_f64(), Bf16::MIN_POSITIVE.to_f64()),
        _ => return None,
    };
    let value = match name {
        "MAX" => max,
        "MIN" => -max,
        "EPSILON" => epsilon,
        "MIN_POSITIVE" => least,
        "INFINITY" => f64::INFINITY,
        "NEG_INFINITY" => f64::NEG_INFINITY,
        "NAN" => f64::NAN,
        _ => return None,
    };
    Some(Literal::Float(value))
}
