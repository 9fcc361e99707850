//! Bindings of a C header, as `bindgen` writes them: the struct that kernels take, and constants.
//!
//! In: Rust, and the name of a struct. Out: its fields with their places, by the layout of C, which the
//! bindings themselves hold against the compiler of C. Next: fields get the values of scalars and
//! dimensions of their names.

use std::collections::BTreeMap;

use proc_macro2::Ident;
use quote::ToTokens;
use syn::{Expr, Item, Lit, Type};

use super::errors::Errors;
use crate::dag::DType;
use crate::dag::kernel_template::MAX_PARAM_BYTES;
use crate::dag::limits::MAX_INDEX;

/// The struct and the constants of a header that an op uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Bindings {
    pub(super) bytes: u32,
    pub(super) fields: Vec<BoundField>,
    /// Constants and enumerators that are not negative.
    pub(super) constants: Vec<(String, i64)>,
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub(super) struct BoundField {
    pub(super) name: String,
    pub(super) ty: Primitive,
    pub(super) offset: u32,
}

/// A type of C that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Primitive {
    pub(super) bytes: u32,
    /// The element type with its values; `None` of one that no scalar of a program has.
    pub(super) dtype: Option<DType>,
    pub(super) is_integer: bool,
}

impl Bindings {
    /// Reads bindings; `None` after an error, which is about the struct.
    pub(super) fn read(text: &str, name: &Ident, errors: &mut Errors) -> Option<Self> {
        let Ok(file) = syn::parse_file(text) else {
            return errors.at(name, "the bindings of its header are no Rust: make them anew");
        };
        let mut bindings = Self::default();
        let (mut found, mut is_union, mut aliases) = (None, false, BTreeMap::new());
        for item in &file.items {
            match item {
                Item::Const(it) => bindings.constants.extend(constant(it)),
                Item::Struct(it) if it.ident == *name => found = Some(it),
                Item::Union(it) => is_union |= it.ident == *name,
                Item::Type(it) => {
                    aliases.insert(it.ident.to_string(), &*it.ty);
                }
                _ => {}
            }
        }
        let added = match found {
            Some(found) => bindings.add_fields(found, &aliases),
            None if is_union => Err("it is a union: make it a struct".to_owned()),
            None => {
                return errors.at(name, format!("the header has no struct `{name}` with fields"));
            }
        };
        match added {
            Ok(()) => Some(bindings),
            Err(why) => errors.at(name, format!("`{name}` cannot be passed by value: {why}")),
        }
    }

    /// Places fields as C does: each at the next multiple of its size.
    fn add_fields(&mut self, found: &syn::ItemStruct, aliases: &Aliases<'_>) -> Result<(), String> {
        let mut align = explicit_alignment(found)?;
        let mut end = 0_u32;
        for field in &found.fields {
            let field_name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
            let named = resolved(&field.ty, aliases);
            let ty = primitive(named).ok_or_else(|| refusal(&field_name, named))?;
            let offset = end.next_multiple_of(ty.bytes);
            end = offset + ty.bytes;
            if end > MAX_PARAM_BYTES {
                return Err(format!("it has more than {MAX_PARAM_BYTES} bytes"));
            }
            align = align.max(ty.bytes);
            // Padding that `bindgen` writes out has no value, nor has the byte of an empty struct.
            let is_padding =
                field_name.starts_with("__bindgen_padding") || field_name == "_address";
            if !is_padding {
                let name = field_name.strip_prefix("r#").unwrap_or(&field_name).to_owned();
                self.fields.push(BoundField { name, ty, offset });
            }
        }
        self.bytes = end.next_multiple_of(align);
        match self.fields.is_empty() {
            true => Err("it has no fields".to_owned()),
            false => Ok(()),
        }
    }
}

/// The types that a header has names for, as those of its enums.
type Aliases<'a> = BTreeMap<String, &'a Type>;

/// Follows names of types to one that is no alias.
fn resolved<'a>(mut ty: &'a Type, aliases: &Aliases<'a>) -> &'a Type {
    // A chain of names that are all different ends.
    for _ in 0..=aliases.len() {
        let Type::Path(path) = ty else { break };
        let next = path.path.get_ident().and_then(|it| aliases.get(&it.to_string()));
        let Some(next) = next else { break };
        ty = next;
    }
    ty
}

/// The alignment in `#[repr(C, align(16))]`, or 1.
fn explicit_alignment(found: &syn::ItemStruct) -> Result<u32, String> {
    let mut align = 1;
    for attribute in found.attrs.iter().filter(|it| it.path().is_ident("repr")) {
        let read = attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("align") {
                let inside;
                syn::parenthesized!(inside in meta.input);
                align = inside.parse::<syn::LitInt>()?.base10_parse()?;
            } else if !meta.path.is_ident("C") {
                return Err(meta.error("packed"));
            }
            Ok(())
        });
        if read.is_err() {
            return Err("its fields are packed".to_owned());
        }
    }
    match align {
        1 | 2 | 4 | 8 | 16 | 32 | 64 | 128 => Ok(align),
        other => Err(format!("it is aligned to {other} bytes")),
    }
}

/// The reason why a field is none that a launch can fill.
fn refusal(name: &str, ty: &Type) -> String {
    let text = ty.to_token_stream().to_string().replace(' ', "");
    if text.contains("BitfieldUnit") {
        return "it has a bit field: give each value a field of its own".to_owned();
    }
    match ty {
        // The names that `bindgen` gives what has none in C++.
        _ if name == "vtable_" => "it has virtual functions".to_owned(),
        _ if name.starts_with("_base") => {
            "it has a base class: give it all of its fields itself".to_owned()
        }
        _ if name == "_unused" => "the header declares it and does not define it".to_owned(),
        Type::Ptr(_) => {
            format!("its field `{name}` is a pointer: tensors are parameters of kernels")
        }
        Type::Array(_) => format!("its field `{name}` is an array: give each value its own field"),
        _ => format!("its field `{name}` is no number, but `{text}`"),
    }
}

/// `pub const NAME: u32 = 256;`
fn constant(item: &syn::ItemConst) -> Option<(String, i64)> {
    let Expr::Lit(value) = &*item.expr else { return None };
    let Lit::Int(value) = &value.lit else { return None };
    let value: i64 = value.base10_parse().ok().filter(|it| *it <= MAX_INDEX)?;
    Some((item.ident.to_string(), value))
}

/// A type by its last name, as that of `::core::ffi::c_int`.
fn primitive(ty: &Type) -> Option<Primitive> {
    let Type::Path(path) = ty else { return None };
    let name = path.path.segments.last()?.ident.to_string();
    let number = |bytes, dtype, is_integer| Some(Primitive { bytes, dtype, is_integer });
    match name.as_str() {
        "bool" => number(1, Some(DType::Bool), false),
        "i8" | "c_schar" => number(1, Some(DType::I8), true),
        "u8" | "c_uchar" => number(1, Some(DType::U8), true),
        // Its sign depends on the platform.
        "c_char" => number(1, None, true),
        "i16" | "c_short" | "u16" | "c_ushort" => number(2, None, true),
        "i32" | "c_int" => number(4, Some(DType::I32), true),
        "u32" | "c_uint" => number(4, Some(DType::U32), true),
        "i64" | "c_longlong" | "c_long" => number(8, Some(DType::I64), true),
        // `size_t` too. No scalar of a program is unsigned and has 64 bits; a dimension fits.
        "u64" | "c_ulonglong" | "c_ulong" | "usize" => number(8, None, true),
        "f32" | "c_float" => number(4, Some(DType::F32), false),
        "f64" | "c_double" => number(8, Some(DType::F64), false),
        _ => None,
    }
}
