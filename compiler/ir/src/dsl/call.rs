//! Functions and methods of numbers. `x.exp()` and `exp(x)` are the same.

use std::rc::Rc;

use syn::Expr as Syntax;

use super::activations::{constant, expand_float};
use super::elaborate::{Binding, Elaborator};
use super::errors::{Location, axis_names, count};
use super::hints::{no_function, no_function_at};
use super::library;
use super::reduce;
use super::signature::ident;
use super::value::{Kind, Value, unify};
use crate::dag::{BinaryOp, CompareOp, DType, Expr, Literal, UnaryOp};

#[derive(Clone, Copy)]
pub(super) enum Function {
    /// One operation on a float.
    Unary(UnaryOp),
    Abs,
    /// Ties away from zero, as Rust's.
    Round,
    /// Of an `f32` only.
    Tf32,
    /// One operation on two numbers.
    Binary(BinaryOp),
    Pow,
    Powi,
    Clamp,
    MulAdd,
    Relu,
    Gelu,
    GeluTanh,
    Sigmoid,
    Silu,
    Recip,
    Softplus,
    Mish,
    HardSwish,
    HardSigmoid,
    LeakyRelu,
    /// Of indices, and of integers without a sign.
    Difference,
}

/// Every function with a meaning of its own, with its number of arguments; [`library`] has the others.
const FUNCTIONS: [(&str, usize, Function); 39] = [
    ("exp", 1, Function::Unary(UnaryOp::Exp)),
    ("ln", 1, Function::Unary(UnaryOp::Ln)),
    ("exp2", 1, Function::Unary(UnaryOp::Exp2)),
    ("log2", 1, Function::Unary(UnaryOp::Log2)),
    ("exp_m1", 1, Function::Unary(UnaryOp::ExpM1)),
    ("ln_1p", 1, Function::Unary(UnaryOp::Ln1p)),
    ("sqrt", 1, Function::Unary(UnaryOp::Sqrt)),
    ("rsqrt", 1, Function::Unary(UnaryOp::Rsqrt)),
    ("tanh", 1, Function::Unary(UnaryOp::Tanh)),
    ("erf", 1, Function::Unary(UnaryOp::Erf)),
    ("sin", 1, Function::Unary(UnaryOp::Sin)),
    ("cos", 1, Function::Unary(UnaryOp::Cos)),
    ("atan", 1, Function::Unary(UnaryOp::Atan)),
    ("abs", 1, Function::Abs),
    ("floor", 1, Function::Unary(UnaryOp::Floor)),
    ("ceil", 1, Function::Unary(UnaryOp::Ceil)),
    ("round", 1, Function::Round),
    ("round_ties_even", 1, Function::Unary(UnaryOp::Round)),
    ("pow", 2, Function::Pow),
    ("powf", 2, Function::Pow),
    ("powi", 2, Function::Powi),
    ("min", 2, Function::Binary(BinaryOp::Min)),
    ("max", 2, Function::Binary(BinaryOp::Max)),
    ("clamp", 3, Function::Clamp),
    ("mul_add", 3, Function::MulAdd),
    ("relu", 1, Function::Relu),
    ("gelu", 1, Function::Gelu),
    ("gelu_tanh", 1, Function::GeluTanh),
    ("sigmoid", 1, Function::Sigmoid),
    ("silu", 1, Function::Silu),
    ("recip", 1, Function::Recip),
    ("softplus", 1, Function::Softplus),
    ("mish", 1, Function::Mish),
    ("hardswish", 1, Function::HardSwish),
    ("hardsigmoid", 1, Function::HardSigmoid),
    ("leaky_relu", 2, Function::LeakyRelu),
    ("tf32", 1, Function::Tf32),
    ("abs_diff", 2, Function::Difference),
    ("saturating_sub", 2, Function::Difference),
];

/// Powers beyond this are better written with `pow`.
const MAX_POWER: i64 = 64;

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, ..)| *name).chain(library::names())
}

/// Returns whether the language has a function or a reduction of that name.
pub(super) fn is_known_name(name: &str) -> bool {
    names().chain(reduce::NAMES).any(|it| it == name)
}

impl Elaborator {
    /// `f(a, b)`
    pub(super) fn call(&mut self, call: &syn::ExprCall, location: Location) -> Option<Value> {
        let Some(ident) = ident(&call.func) else {
            let message = match &*call.func {
                Syntax::Path(it) => no_function_at(&it.path),
                _ => "expected the name of an intrinsic, as in `exp(x)`".to_owned(),
            };
            return self.errors.at(&call.func, message);
        };
        let name = ident.to_string();
        match self.lookup(&name) {
            Some(Binding::Function(function)) => {
                let function = Rc::clone(function);
                return self.call_function(&name, &function, &call.args, location);
            }
            // The function had an error, or is none: a name is one thing only.
            Some(Binding::Poisoned) if !is_known_name(&name) => return None,
            _ => {}
        }
        let both = matches!(name.as_str(), "max" | "min");
        if reduce::NAMES.contains(&name.as_str())
            && (!both || reduce::is_reduction_call(&call.args))
        {
            return self.reduction(&name, &call.args, location);
        }
        if name == "compute" {
            let message = "a tensor is defined in a statement of its own: `let t = compute(..);`";
            return self.errors.at(ident, message);
        }
        let is_known = names().any(|it| it == name);
        let has_meaning = |it: &&Syntax| {
            is_known || !(matches!(it, Syntax::Range(_) | Syntax::Closure(_)) || self.is_tensor(it))
        };
        // An argument that only the function meant could take is not reported as well.
        let args: Vec<&Syntax> = call.args.iter().filter(has_meaning).collect();
        let args: Vec<Option<Value>> = args.into_iter().map(|it| self.expr(it)).collect();
        self.function(ident, args, location)
    }

    /// `a.f(b)`
    pub(super) fn method_call(
        &mut self,
        call: &syn::ExprMethodCall,
        location: Location,
    ) -> Option<Value> {
        if let Some(it) = &call.turbofish {
            return self.errors.at(it, "there are no generics here: remove the `::<..>`");
        }
        match (call.method.to_string().as_str(), &*call.receiver) {
            ("unwrap_or", Syntax::MethodCall(get)) if get.method == "get" => {
                return match call.args.first() {
                    Some(otherwise) if call.args.len() == 1 => {
                        self.get_or(get, otherwise, location)
                    }
                    _ => self.errors.at(call, "`unwrap_or` takes one value"),
                };
            }
            ("get", _) => {
                let message = "a `.get([..])` is followed by `.unwrap_or(value)`";
                return self.errors.at(call, message);
            }
            ("unwrap_or" | "unwrap" | "expect" | "unwrap_or_default", _) => {
                let message = "expected `x.get([..]).unwrap_or(value)`";
                return self.errors.at(call, message);
            }
            _ => {}
        }
        if let Some(tensor) = ident(&call.receiver).map(ToString::to_string)
            && let Some(Binding::Tensor(id)) = self.lookup(&tensor)
        {
            let axes = axis_names(self.symbols.tensors[id.0 as usize].shape.len());
            let method = call.method.to_string();
            let hint = match method.as_str() {
                "argtop" => {
                    format!("write `argtop(r, 0..K, |k| {tensor}[[..]])`")
                }
                "scan" => format!("write `scan(0..K, 0.0, |h, k| .. {tensor}[[..]])`"),
                it if reduce::NAMES.contains(&it) => {
                    format!("a reduction names its range: write `{it}(0..K, |k| {tensor}[[..]])`")
                }
                it if names().any(|known| known == it) => {
                    format!("it applies to elements: write `{tensor}[[{axes}]].{it}(..)`")
                }
                _ => format!("read elements, as in `{tensor}[[{axes}]]`; extents are dimensions"),
            };
            let message = format!("the tensor `{tensor}` has no method `{method}`: {hint}");
            return self.errors.at(&call.method, message);
        }
        let args = std::iter::once(&*call.receiver).chain(&call.args);
        let args: Vec<Option<Value>> = args.map(|it| self.expr(it)).collect();
        self.function(&call.method, args, location)
    }

    fn is_tensor(&self, syntax: &Syntax) -> bool {
        let binding = ident(syntax).and_then(|it| self.lookup(&it.to_string()));
        matches!(binding, Some(Binding::Tensor(_)))
    }

    fn function(
        &mut self,
        ident: &syn::Ident,
        args: Vec<Option<Value>>,
        location: Location,
    ) -> Option<Value> {
        let name = ident.to_string();
        if let Some(value) = self.library_function(&name, &args, location) {
            return value;
        }
        let Some((_, arity, function)) = FUNCTIONS.iter().find(|(it, ..)| *it == name) else {
            let mut all: Vec<&str> = reduce::NAMES.into_iter().chain(names()).collect();
            all.sort_unstable();
            all.dedup();
            return self.errors.at(ident, no_function(&name, &all));
        };
        if args.len() != *arity {
            let takes = count(*arity, "value", "values");
            let message = format!("`{name}` takes {takes}, not {}", args.len());
            return self.errors.at_location(location, message);
        }
        let args: Vec<Value> = args.into_iter().collect::<Option<_>>()?;
        self.apply(*function, &name, &args, location)
    }

    fn apply(
        &mut self,
        function: Function,
        name: &str,
        args: &[Value],
        location: Location,
    ) -> Option<Value> {
        let x = &args[0];
        match function {
            Function::Binary(op) => self.arithmetic(op, x, &args[1], location),
            Function::Clamp => {
                let raised = self.arithmetic(BinaryOp::Max, x, &args[1], location)?;
                self.arithmetic(BinaryOp::Min, &raised, &args[2], location)
            }
            Function::MulAdd => {
                let product = self.arithmetic(BinaryOp::Mul, x, &args[1], location)?;
                self.arithmetic(BinaryOp::Add, &product, &args[2], location)
            }
            Function::Pow => {
                self.float(x, name)?;
                self.float(&args[1], name)?;
                self.arithmetic(BinaryOp::Pow, x, &args[1], location)
            }
            Function::Difference => self.difference(name, x, &args[1], location),
            Function::Powi => self.integer_power(x, &args[1], location),
            Function::Abs => {
                let (expr, dtype) = x.widened(&mut self.errors)?;
                if dtype == DType::Bool {
                    return self.errors.at_location(x.location, "`abs` applies to numbers");
                }
                self.typed_value(expr.unary(UnaryOp::Abs), dtype, location, &[x])
            }
            Function::Tf32 => {
                let (expr, dtype) = self.float(x, name)?;
                if dtype != DType::F32 {
                    let message =
                        format!("`tf32` rounds an f32, not {dtype}: convert with `as f32`");
                    return self.errors.at_location(x.location, message);
                }
                self.typed_value(expr.unary(UnaryOp::Tf32), dtype, location, &[x])
            }
            Function::Relu => {
                let (expr, dtype) = x.widened(&mut self.errors)?;
                let zero = match dtype {
                    DType::Bool => {
                        return self.errors.at_location(x.location, "`relu` applies to numbers");
                    }
                    it if it.is_integer() => Expr::Const(Literal::Int(0), it),
                    it => constant(0.0, it),
                };
                self.typed_value(expr.binary(BinaryOp::Max, zero), dtype, location, &[x])
            }
            Function::LeakyRelu => {
                self.float(x, name)?;
                let (expr, slope, dtype) = unify(x, &args[1], &mut self.errors)?;
                let is_positive = expr.clone().compare(CompareOp::Gt, constant(0.0, dtype));
                let scaled = slope.binary(BinaryOp::Mul, expr.clone());
                let value = is_positive.select(expr, scaled);
                self.typed_value(value, dtype, location, &[x, x, x, &args[1]])
            }
            _ => {
                let (expr, dtype) = self.float(x, name)?;
                let (expr, n_uses) = expand_float(function, expr, dtype);
                self.typed_value(expr, dtype, location, &vec![x; n_uses])
            }
        }
    }

    /// Checks the argument of a function of floats.
    pub(super) fn float(&mut self, x: &Value, name: &str) -> Option<(Expr, DType)> {
        match x.default_type() {
            it if it.is_float() => x.widened(&mut self.errors),
            _ => {
                let found = x.type_name();
                let message = format!(
                    "`{name}` applies to floats, and this is {found}: convert it with `as f32`"
                );
                self.errors.at_location(x.location, message)
            }
        }
    }

    /// `x` to a literal power, as a chain of products.
    fn integer_power(&mut self, x: &Value, power: &Value, location: Location) -> Option<Value> {
        let (expr, dtype) = self.float(x, "powi")?;
        let power = match power.kind {
            Kind::Integer(it) if it.abs() <= MAX_POWER => it,
            _ => {
                let message = format!("`powi` takes a literal of at most {MAX_POWER}; use `powf`");
                return self.errors.at_location(power.location, message);
            }
        };
        let n_uses = power.unsigned_abs().max(1) as usize;
        Value::measure(location, &vec![x; n_uses], &mut self.errors)?;
        let mut factors = Vec::new();
        let mut square = expr;
        let mut rest = power.unsigned_abs();
        while rest > 0 {
            if rest % 2 == 1 {
                factors.push(square.clone());
            }
            rest /= 2;
            square = square.clone().binary(BinaryOp::Mul, square);
        }
        let product = factors.into_iter().reduce(|a, b| a.binary(BinaryOp::Mul, b));
        let product = product.unwrap_or_else(|| constant(1.0, dtype));
        let value =
            if power < 0 { constant(1.0, dtype).binary(BinaryOp::Div, product) } else { product };
        self.typed_value(value, dtype, location, &vec![x; n_uses])
    }
}
