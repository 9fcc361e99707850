//! Functions that the language writes in itself: `tan`, `atan2`, `hypot` and others.
//!
//! ```text
//! y.atan2(x)  =>  the closure's body below, with `y` and `x` for its parameters
//! ```
//!
//! A call is elaborated as one of a function that the program binds ([`super::function`]), so that schedules,
//! code generators and the interpreter know nothing of them. They mean what Rust's functions of `f32` and
//! `f64` of that name do; docs/language.md says how exact they are.

use std::rc::Rc;

use syn::ExprClosure;

use super::elaborate::Elaborator;
use super::errors::{Location, count};
use super::function::Function;
use super::value::{Kind, Value};
use crate::dag::DType;

/// Functions of floats: names and definitions. A sum with `x - x` is finite where `x` is, and `x > 0.0` is false of a NaN.
const FUNCTIONS: [(&str, &str); 20] = [
    ("tan", "|x| sin(x) / cos(x)"),
    ("asin", "|x| atan(x / sqrt((1.0 - x) * (1.0 + x)))"),
    ("acos", "|x| 2.0 * atan(sqrt((1.0 - x) / (1.0 + x)))"),
    (
        "atan2",
        "|y, x| {
            let is_steep = abs(x) < abs(y);
            let less = if is_steep { abs(x) } else { abs(y) };
            let greater = if is_steep { abs(y) } else { abs(x) };
            // Of two zeros, and of two infinities.
            let share = if less == greater { if greater > 0.0 { 1.0 } else { 0.0 } } else { less / greater };
            let angle = atan(share);
            let angle = if is_steep { 1.570796326794896619 - angle } else { angle };
            let is_behind = x < 0.0 || 1.0 / x < 0.0;
            copysign(if is_behind { 3.141592653589793238 - angle } else { angle }, y)
        }",
    ),
    // From 20 on, the sum is its first term.
    (
        "sinh",
        "|x| {
            let rise = exp_m1(abs(x));
            let root = exp(0.5 * abs(x));
            let size = if abs(x) < 20.0 { 0.5 * (rise + rise / (rise + 1.0)) } else { (0.5 * root) * root };
            if x > 0.0 { size } else if x < 0.0 { -size } else { x }
        }",
    ),
    (
        "cosh",
        "|x| {
            let root = exp(0.5 * abs(x));
            (0.5 * root) * root + 0.5 / (root * root)
        }",
    ),
    (
        "asinh",
        "|x| {
            let size = abs(x);
            let near = ln_1p(size + size * size / (1.0 + sqrt(size * size + 1.0)));
            let size = if size < 1e9 { near } else { ln(size) + 0.693147180559945309 };
            if x > 0.0 { size } else if x < 0.0 { -size } else { x }
        }",
    ),
    (
        "acosh",
        "|x| {
            let above = x - 1.0;
            let near = ln_1p(above + sqrt(above) * sqrt(above + 2.0));
            if x > 1e9 { ln(x) + 0.693147180559945309 } else { near }
        }",
    ),
    (
        "atanh",
        "|x| {
            let size = 0.5 * ln_1p(2.0 * abs(x) / (1.0 - abs(x)));
            if x > 0.0 { size } else if x < 0.0 { -size } else { x }
        }",
    ),
    ("log10", "|x| log2(x) * 0.301029995663981195"),
    (
        "cbrt",
        "|x| {
            let size = abs(x);
            let root = exp2(log2(size) / 3.0);
            let better = root - (root - size / (root * root)) / 3.0;
            if size > 0.0 && size - size == 0.0 { if x > 0.0 { better } else { -better } } else { x }
        }",
    ),
    (
        "hypot",
        "|x, y| {
            let less = if abs(x) < abs(y) { abs(x) } else { abs(y) };
            let greater = if abs(x) < abs(y) { abs(y) } else { abs(x) };
            let share = less / greater;
            let is_usual = greater > 0.0 && greater - greater == 0.0;
            if is_usual { greater * sqrt(1.0 + share * share) } else { less + greater }
        }",
    ),
    ("trunc", "|x| if x < 0.0 { ceil(x) } else { floor(x) }"),
    ("fract", "|x| x - trunc(x)"),
    ("signum", "|x| if x == x { if x < 0.0 || 1.0 / x < 0.0 { -1.0 } else { 1.0 } } else { x }"),
    ("copysign", "|x, sign| if sign < 0.0 || 1.0 / sign < 0.0 { -abs(x) } else { abs(x) }"),
    (
        "rem_euclid",
        "|x, y| {
            let rest = x % y;
            if rest < 0.0 { rest + abs(y) } else { rest }
        }",
    ),
    ("is_nan", "|x| x != x"),
    ("is_infinite", "|x| x == x && x - x != 0.0"),
    ("is_finite", "|x| x - x == 0.0"),
];

/// Functions of integers, which may have the name of one of floats.
const INTEGER_FUNCTIONS: [(&str, &str); 3] = [
    (
        "rem_euclid",
        "|x, y| {
            let rest = x % y;
            if rest < 0 { rest + abs(y) } else { rest }
        }",
    ),
    ("signum", "|x| if x < 0 { -1 } else if x > 0 { 1 } else { 0 }"),
    // Sums of two, four and eight bits side by side, and of the bytes in the uppermost one.
    (
        "count_ones",
        "|x| {
            let bits = x as u32;
            let pairs = bits - (bits >> 1 & 0x55555555);
            let fours = (pairs & 0x33333333) + (pairs >> 2 & 0x33333333);
            let bytes = fours + (fours >> 4) & 0x0f0f0f0f;
            bytes * 0x01010101 >> 24
        }",
    ),
];

/// Integers whose bits a conversion to `u32` keeps, and adds none.
const COUNTED: [DType; 3] = [DType::U8, DType::I32, DType::U32];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let is_new = |(name, _): &&(&str, &str)| !FUNCTIONS.iter().any(|it| it.0 == *name);
    FUNCTIONS.iter().chain(INTEGER_FUNCTIONS.iter().filter(is_new)).map(|(name, _)| *name)
}

/// Finds a function of floats, or of integers, by name.
pub(super) fn find(name: &str, of_integers: bool) -> Option<Function> {
    let table = if of_integers { &INTEGER_FUNCTIONS[..] } else { &FUNCTIONS };
    let (name, text) = table.iter().find(|(it, _)| *it == name)?;
    let closure: ExprClosure = syn::parse_str(text).expect("the tests parse all of them");
    Some(Function::of_library(name, closure))
}

impl Elaborator {
    /// Elaborates a call of a function of the library; none if there is no such function.
    pub(super) fn library_function(
        &mut self,
        name: &str,
        args: &[Option<Value>],
        location: Location,
    ) -> Option<Option<Value>> {
        if !names().any(|it| it == name) {
            return None;
        }
        let dtype = args.first()?.as_ref().map(Value::default_type);
        let of_integers = dtype.is_some_and(DType::is_integer);
        // Without one of integers, the error says that it is of floats.
        let function = find(name, of_integers).or_else(|| find(name, !of_integers))?;
        Some(self.call_library(name, &Rc::new(function), args, location))
    }

    fn call_library(
        &mut self,
        name: &str,
        function: &Rc<Function>,
        args: &[Option<Value>],
        location: Location,
    ) -> Option<Value> {
        if args.len() != function.arity() {
            let takes = count(function.arity(), "value", "values");
            let message = format!("`{name}` takes {takes}, not {}", args.len());
            return self.errors.at_location(location, message);
        }
        let args: Vec<Value> = args.iter().cloned().collect::<Option<_>>()?;
        let of_integers = find(name, true).is_some() && args[0].default_type().is_integer();
        if name == "count_ones" && !COUNTED.contains(&args[0].default_type()) {
            let found = args[0].type_name();
            let message = format!("`count_ones` applies to u8, i32 and u32, and this is {found}");
            return self.errors.at_location(args[0].location, message);
        }
        for it in args.iter().filter(|_| !of_integers) {
            self.float(it, name)?;
        }
        let dtype = args.iter().find_map(Value::compute_type);
        let args = args.into_iter().map(|it| self.of_type(it, dtype)).collect::<Option<_>>()?;
        self.call_with(function, args, location)
    }

    /// Gives literals the type of the arguments that have one.
    fn of_type(&mut self, value: Value, dtype: Option<DType>) -> Option<Value> {
        match dtype {
            Some(dtype) if value.takes(dtype) => {
                let expr = value.operand(dtype, &mut self.errors)?;
                Some(Value::new(Kind::Typed(expr, dtype), value.location))
            }
            _ => Some(value),
        }
    }
}
