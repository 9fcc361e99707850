//! Evaluates `cfg` predicates from the variables cargo hands to build scripts.

use std::collections::BTreeMap;

use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Lit, Meta, Token};

/// The configuration that a package is compiled in, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Cfg {
    /// Values by option, `target_os` to `["linux"]`; of an option without a value, none.
    options: BTreeMap<String, Vec<String>>,
    /// Set if the enabled features are known.
    has_features: bool,
    /// Set if every other option that is not the compiler's own is known.
    has_options: bool,
    /// The value of a predicate that can't be decided.
    undecided: bool,
}

impl Cfg {
    /// From `CARGO_CFG_*` and `CARGO_FEATURE_*`, as a build script sees them. Other predicates, such
    /// as `test`, count as false: where they hold, the macro expands the op, and reports it.
    pub fn from_variables<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut cfg = Cfg { has_features: true, ..Cfg::default() };
        for (name, value) in variables {
            if let Some(option) = name.strip_prefix("CARGO_CFG_") {
                let values = value.split(',').filter(|it| !it.is_empty()).map(str::to_owned);
                cfg.options.entry(option.to_ascii_lowercase()).or_default().extend(values);
            } else if let Some(feature) = name.strip_prefix("CARGO_FEATURE_") {
                cfg.options.entry("feature".to_owned()).or_default().push(spelling(feature));
            }
        }
        cfg
    }

    /// Of this machine, with features unknown: for a tool that no build script runs. What can't be
    /// decided counts as true.
    pub fn of_host() -> Self {
        use std::env::consts::{ARCH, FAMILY, OS};
        let options = [("target_arch", ARCH), ("target_os", OS), ("target_family", FAMILY)];
        let mut cfg = Cfg { undecided: true, ..Cfg::default() };
        for (option, value) in options {
            cfg.options.insert(option.to_owned(), vec![value.to_owned()]);
        }
        cfg.options.insert(FAMILY.to_owned(), Vec::new());
        cfg
    }

    /// The same, with what the arguments of a compiler say, and so all features and options.
    #[must_use]
    pub fn with_arguments<'a>(mut self, arguments: impl Iterator<Item = &'a str>) -> Self {
        (self.has_features, self.has_options, self.undecided) = (true, true, true);
        for argument in arguments {
            let (option, value) = argument.split_once('=').unwrap_or((argument, ""));
            let values = self.options.entry(option.to_owned()).or_default();
            values.extend((!value.is_empty()).then(|| value.trim_matches('"').to_owned()));
        }
        self
    }

    /// The same, with these features and no others.
    #[must_use]
    pub fn with_features(mut self, features: impl IntoIterator<Item = String>) -> Self {
        self.options.insert("feature".to_owned(), features.into_iter().collect());
        self.has_features = true;
        self
    }

    /// Returns whether an item with that predicate is there.
    pub fn holds(&self, predicate: &Meta) -> bool {
        self.evaluate(predicate).unwrap_or(self.undecided)
    }

    /// Returns whether an item with that predicate is certainly not there.
    pub(super) fn is_off(&self, predicate: &Meta) -> bool {
        self.evaluate(predicate) == Some(false)
    }

    /// Evaluates a predicate; `None` if that is not possible.
    fn evaluate(&self, predicate: &Meta) -> Option<bool> {
        match predicate {
            Meta::Path(path) => self.option(&path.get_ident()?.to_string()),
            Meta::NameValue(pair) => {
                let Expr::Lit(ExprLit { lit: Lit::Str(value), .. }) = &pair.value else {
                    return None;
                };
                self.value(&pair.path.get_ident()?.to_string(), &value.value())
            }
            Meta::List(list) => {
                let parse = Punctuated::<Meta, Token![,]>::parse_terminated;
                let parts = list.parse_args_with(parse).ok()?;
                let not = |it: &Option<bool>| it.map(|it| !it);
                let parts: Vec<Option<bool>> = parts.iter().map(|it| self.evaluate(it)).collect();
                if list.path.is_ident("not") {
                    not(parts.first()?)
                } else if list.path.is_ident("all") {
                    not(&any(&parts.iter().map(not).collect::<Vec<_>>()))
                } else if list.path.is_ident("any") {
                    any(&parts)
                } else {
                    None
                }
            }
        }
    }

    fn option(&self, option: &str) -> Option<bool> {
        match option {
            "unix" | "windows" => Some(self.options.contains_key(option)),
            _ if self.options.contains_key(option) => Some(true),
            _ => (self.has_options && !is_compilers(option)).then_some(false),
        }
    }

    fn value(&self, option: &str, value: &str) -> Option<bool> {
        let values = self.options.get(option);
        if option == "feature" {
            let same = |it: &String| spelling(it) == spelling(value);
            return self.has_features.then(|| values.is_some_and(|them| them.iter().any(same)));
        }
        let known = values.map(|them| them.iter().any(|it| it == value));
        known.or((self.has_options && !is_compilers(option)).then_some(false))
    }
}

/// Returns whether compilers set an option without an argument that says so.
fn is_compilers(option: &str) -> bool {
    const OTHERS: [&str; 11] = [
        "unix",
        "windows",
        "debug_assertions",
        "overflow_checks",
        "ub_checks",
        "panic",
        "proc_macro",
        "miri",
        "clippy",
        "doc",
        "doctest",
    ];
    option.starts_with("target_") || OTHERS.contains(&option)
}

/// Cargo upper-cases the names of features in variables, and turns `-` into `_`.
fn spelling(feature: &str) -> String {
    feature.to_ascii_lowercase().replace('-', "_")
}

/// Returns whether a value is true, of which some may be unknown (Kleene's logic).
fn any(parts: &[Option<bool>]) -> Option<bool> {
    match parts.contains(&Some(true)) {
        true => Some(true),
        false if parts.contains(&None) => None,
        false => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(predicate: &str, expected: Option<bool>) {
        let variables = [
            ("CARGO_CFG_TARGET_OS", "linux"),
            ("CARGO_CFG_TARGET_FEATURE", "fxsr,sse,sse2"),
            ("CARGO_CFG_UNIX", ""),
            ("CARGO_FEATURE_FAST_MATH", "1"),
            ("PATH", "/bin"),
        ];
        let cfg = Cfg::from_variables(variables.into_iter());
        let predicate = syn::parse_str(predicate).expect("a predicate");
        assert_eq!(cfg.evaluate(&predicate), expected);
        assert_eq!(cfg.holds(&predicate), expected == Some(true));
        let undecided = expected.unwrap_or(true);
        assert_eq!(Cfg { undecided: true, ..cfg }.holds(&predicate), undecided);
    }

    #[test]
    fn options_and_values_come_from_the_variables() {
        check("unix", Some(true));
        check("windows", Some(false));
        check(r#"target_os = "linux""#, Some(true));
        check(r#"target_os = "macos""#, Some(false));
        check(r#"target_feature = "sse2""#, Some(true));
        check(r#"feature = "fast-math""#, Some(true));
        check(r#"feature = "slow""#, Some(false));
    }

    #[test]
    fn options_without_a_variable_are_unknown() {
        check("test", None);
        check("my_own", None);
        check(r#"my_own = "1""#, None);
        check("not(test)", None);
    }

    #[test]
    fn features_can_be_chosen_and_are_unknown_otherwise() {
        let holds = |cfg: &Cfg| cfg.holds(&syn::parse_str(r#"feature = "fast-math""#).unwrap());
        assert!(holds(&Cfg::of_host()));
        assert!(holds(&Cfg::of_host().with_features(["fast-math".to_owned()])));
        assert!(!holds(&Cfg::of_host().with_features([])));
    }

    #[test]
    fn a_compiler_says_what_is_on() {
        let arguments = ["feature=\"fast-math\"", "test", "backend=\"a\""];
        let cfg = Cfg::of_host().with_arguments(arguments.into_iter());
        let evaluate = |text: &str| cfg.evaluate(&syn::parse_str(text).unwrap());
        assert_eq!(evaluate("all(test, feature = \"fast-math\", backend = \"a\")"), Some(true));
        assert_eq!(evaluate("any(feature = \"slow\", backend = \"b\")"), Some(false));
        assert_eq!(evaluate("any(my_own, my_other = \"1\")"), Some(false));
        assert_eq!(evaluate("any(debug_assertions, target_vendor = \"pc\")"), None);
    }

    #[test]
    fn combinations_decide_as_soon_as_they_can() {
        check("all(test, windows)", Some(false));
        check("all(test, unix)", None);
        check("any(test, unix)", Some(true));
        check("any(test, windows)", None);
        check("all()", Some(true));
        check("any()", Some(false));
        check("not(any(windows, feature = \"slow\"))", Some(true));
    }
}
