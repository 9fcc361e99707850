//! Hints: how to write what is not part of the language, and what was meant by a misspelt name.

use quote::ToTokens;
use syn::{BinOp, Expr as Syntax, Stmt};

use super::call::is_known_name;
use crate::dag::DType;
use crate::similar;

/// Functions that other languages have, and how to write them.
const FUNCTIONS: [(&str, &str); 22] = [
    (
        "softmax",
        "tensors of their own: the `max`, `exp` of the difference, its `sum`, the quotient",
    ),
    ("layer_norm", "tensors of their own: the `mean`, that of the squares, the quotient"),
    ("matmul", "`sum(0..K, |k| a[[i, k]] * b[[k, j]])`"),
    ("dot", "`sum(0..K, |k| a[[k]] * b[[k]])`"),
    ("log", "`ln(x)`"),
    ("log1p", "`ln_1p(x)`"),
    ("expm1", "`exp_m1(x)`"),
    ("square", "`x * x`"),
    (
        "sign",
        "`signum(x)`, or `if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { 0.0 }`, which is 0 of 0",
    ),
    ("frac", "`fract(x)`"),
    ("fmod", "`x % y`"),
    ("arctan", "`atan(x)`"),
    ("arcsin", "`asin(x)`"),
    ("arccos", "`acos(x)`"),
    ("neg", "`-x`"),
    ("relu6", "`clamp(x, 0.0, 6.0)`"),
    ("elu", "`if x > 0.0 { x } else { exp_m1(x) }`"),
    ("swish", "`silu(x)`"),
    ("where", "`if c { a } else { b }`"),
    ("select", "`if c { a } else { b }`"),
    ("fold", "a reduction: `sum`, `prod`, `min`, `max`, `any` or `all`"),
    ("len", "the dimension itself, as in `M as f32`"),
];

/// Element types that other languages have, or that only Rust has, and what stands for them.
const ELEMENT_TYPES: [(&str, &str); 25] = [
    ("float", "f32"),
    ("float32", "f32"),
    ("fp32", "f32"),
    ("double", "f64"),
    ("float64", "f64"),
    ("fp64", "f64"),
    ("half", "f16"),
    ("float16", "f16"),
    ("fp16", "f16"),
    ("bfloat16", "bf16"),
    ("int8", "i8"),
    ("uint8", "u8"),
    ("byte", "u8"),
    ("int", "i32"),
    ("int32", "i32"),
    ("i16", "i32"),
    ("u16", "i32"),
    ("int64", "i64"),
    ("long", "i64"),
    ("uint32", "u32"),
    ("uint", "u32"),
    ("u64", "i64"),
    ("usize", "i64"),
    ("isize", "i64"),
    ("boolean", "bool"),
];

/// The message for a call of a function that there is not, among those that there are.
pub(super) fn no_function(name: &str, known: &[&str]) -> String {
    let written = FUNCTIONS.iter().find(|(it, _)| *it == name);
    let written = written.map(|(_, how)| format!(": write {how}"));
    let hint = written.or_else(|| similar::suggestion(name, known.iter().copied()));
    let hint = hint.unwrap_or_else(|| {
        format!(
            ", nor a function of this crate that is marked for it: write `#[autotune::inline]` before \
             one, or bind it here, `let {name} = |x| ..`"
        )
    });
    format!("`{name}` is not a tvmtune intrinsic{hint}")
}

/// The message for a call of a path that leads to no function for programs.
pub(super) fn no_function_at(path: &syn::Path) -> String {
    let written = path.to_token_stream().to_string().replace(' ', "");
    let last = path.segments.last().map(|it| it.ident.to_string()).unwrap_or_default();
    if is_known_name(&last) {
        return format!("functions of the language have no paths: write `{last}(..)`");
    }
    format!(
        "`{written}` is no function of this crate that is marked for programs: write \
         `#[autotune::inline]` before it, where its sources can be read"
    )
}

/// The message for an element type that there is not.
pub(super) fn no_element_type(name: &str) -> String {
    let all = || DType::ALL.map(DType::name).join(", ");
    let hint = element_type(name).unwrap_or_else(|| format!(": write one of {}", all()));
    format!("`{name}` is not an element type{hint}")
}

/// Returns the end of a message about an element type that there is not, if it is known what was
/// meant.
pub(super) fn element_type(name: &str) -> Option<String> {
    let instead = ELEMENT_TYPES.iter().find(|(it, _)| *it == name);
    let instead = instead.map(|(_, instead)| match name {
        "u64" | "usize" => {
            format!(": write `{instead}`, for which callers may pass slices of `{name}`")
        }
        _ => format!(": write `{instead}`"),
    });
    instead.or_else(|| similar::suggestion(name, DType::ALL.map(DType::name)))
}

/// The message for a statement that is not part of the language.
pub(super) fn no_statement(statement: &Stmt) -> String {
    match statement {
        Stmt::Expr(it, _) => match it {
            Syntax::Binary(binary) if is_assignment(&binary.op) => NO_ASSIGNMENT.to_owned(),
            Syntax::If(_) | Syntax::Block(_) | Syntax::Binary(_) | Syntax::Path(_) => {
                "this value is not used: bind it with `let`, or remove it".to_owned()
            }
            other => unsupported(other),
        },
        Stmt::Macro(_) => "macros are not part of the language".to_owned(),
        Stmt::Item(_) | Stmt::Local(_) => "only `let` statements stand before a value".to_owned(),
    }
}

pub(super) const NO_ASSIGNMENT: &str = "nothing can be assigned: bind a new name with `let`";

fn is_assignment(op: &BinOp) -> bool {
    let text = op.to_token_stream().to_string();
    text.len() > 1 && text.ends_with('=') && !["==", "<=", ">=", "!="].contains(&text.as_str())
}

/// The message for an expression that is not part of the language.
pub(super) fn unsupported(syntax: &Syntax) -> String {
    let message = match syntax {
        Syntax::ForLoop(_) | Syntax::While(_) | Syntax::Loop(_) => {
            "there are no loops: `compute` covers every element, `sum` and its like every term, `scan` \
             the steps of a recurrence"
        }
        Syntax::Match(_) => "there is no `match`: write `if .. else if .. else ..`",
        Syntax::Macro(_) => "macros are not part of the language",
        Syntax::Reference(_) | Syntax::RawAddr(_) => "there are no references: remove the `&`",
        Syntax::Return(_) => "there is no `return`: the last expression is the value",
        Syntax::Closure(_) => {
            "a closure stands only in `compute(..)`, in a reduction, or bound by a `let`"
        }
        Syntax::Assign(_) => NO_ASSIGNMENT,
        Syntax::Tuple(_) | Syntax::Array(_) | Syntax::Repeat(_) | Syntax::Struct(_) => {
            "an element is one number, not several"
        }
        Syntax::Range(_) => "a range stands only as the first argument of a reduction",
        Syntax::Field(_) => "there are no fields here",
        Syntax::Unsafe(_) => "there is no `unsafe` here",
        Syntax::Async(_) | Syntax::Await(_) => "there is no `async` here",
        Syntax::Try(_) | Syntax::TryBlock(_) => "nothing here can fail: remove the `?`",
        Syntax::Break(_) | Syntax::Continue(_) => "there are no loops to leave",
        Syntax::Let(_) => "patterns are not part of the language: compare instead",
        Syntax::Block(_) => "blocks have no labels here",
        _ => "this is not part of the language",
    };
    message.to_owned()
}
