//! Constants that attributes mention, as a build script and as an expansion reads them.

use super::*;

/// An op of a package of those files, as the scan and as an expansion of it sees its `dims(..)`.
#[track_caller]
fn check(files: &[(&str, &str)], expected: &str) {
    let folder = package(files);
    let scan = scan(folder.path(), &cfg());
    let of_scan: Vec<String> = scan.functions.iter().map(|it| it.options.to_string()).collect();
    let (mut of_macro, roots) = (Vec::new(), roots(folder.path()));
    let mut sources =
        Sources::read(&roots.iter().map(|it| it.path.clone()).collect::<Vec<_>>(), &cfg());
    for root in &roots {
        let mut found = Vec::new();
        Tree::read(&root.path, &cfg(), &mut |it| found.push(it));
        for it in found {
            let text = std::fs::read_to_string(&it.file).expect("readable");
            let name = it.item.sig.ident.to_string();
            let defined = text.lines().position(|line| line.contains(&format!("fn {name}")));
            let place = Place {
                name,
                options: it.options.to_string(),
                file: Some(it.file.clone()),
                line: defined.expect("it stands there") + 1,
                written: Some(it.file),
            };
            let options = dsl::with_constants(it.options, &mut |path| {
                let path = segments(path).expect("plain names");
                sources.constant(&place, &path).map_err(|it| it.to_string())
            });
            of_macro.push(options.to_string());
        }
    }
    assert_eq!(of_scan, of_macro);
    let expected: TokenStream = expected.parse().expect("tokens");
    assert_eq!(of_scan, [expected.to_string()]);
}

/// The same for the value of one constant in the root of a library, or the reason why it has none.
#[track_caller]
fn value(path: &str, files: &[(&str, &str)], expected: &str) {
    let folder = package(files);
    let mut tree = Tree::read(&folder.path().join("src/lib.rs"), &cfg(), &mut |_| {});
    let path: Vec<String> = path.split("::").map(str::to_owned).collect();
    let value = Search::new(&mut tree).constant(ModuleId(0), &path);
    assert_eq!(value.map_or_else(|it| it.to_string(), |it| it.to_string()), expected);
}

#[test]
fn extents_ranges_and_buckets_may_be_constants() {
    let text = "
        const HIDDEN: usize = 1 << 10;
        mod config { pub const MAX: u32 = super::HIDDEN as u32 / 2 - 1; }
        #[autotune(dims(K = HIDDEN, F = K * 4, M = 1..=config::MAX), buckets(M = [config::MAX]))]
        fn op() {}
    ";
    check(&[("src/lib.rs", text)], "dims(K = 1024, F = K * 4, M = 1..=511), buckets(M = [511])");
}

#[test]
fn names_are_found_as_the_compiler_finds_them() {
    let files = [
        ("src/lib.rs", "mod config; mod layers; const K: usize = 1;"),
        ("src/config.rs", "pub const HIDDEN: usize = 64; pub use self::heads::*; mod heads;"),
        ("src/config/heads.rs", "pub const HEADS: usize = super::super::K + 7;"),
        (
            "src/layers.rs",
            "use crate::config::{self as conf, HIDDEN as WIDTH};
             mod deep {
                 use super::*;
                 fn around() {
                     const LOCAL: usize = 3;
                     #[autotune(dims(A = WIDTH, B = conf::HEADS, C = LOCAL, D = crate::K))]
                     fn op() {}
                 }
             }",
        ),
    ];
    check(&files, "dims(A = 64, B = 8, C = 3, D = 1)");
}

#[test]
fn constants_of_types_and_of_included_files_are_read() {
    let files = [
        (
            "src/lib.rs",
            "include!(\"sizes.inc\");
             pub struct Model;
             impl Model { pub const LAYERS: usize = Self::HEADS + WIDTH; const HEADS: usize = 2; }
             mod ops { use super::Model;
                 #[autotune(dims(L = Model::LAYERS, W = crate::WIDTH))] fn op() {} }",
        ),
        ("src/sizes.inc", "pub const WIDTH: usize = 0x20;"),
    ];
    check(&files, "dims(L = 34, W = 32)");
}

#[test]
fn functions_of_one_text_are_told_apart_by_their_place() {
    let folder = package(&[(
        "src/lib.rs",
        "mod small { const H: usize = 8;\n #[autotune(dims(N = H))] fn op() {} }\n\
         mod large { const H: usize = 9;\n #[autotune(dims(N = H))] fn op() {} }\n",
    )]);
    let root = folder.path().join("src/lib.rs");
    let mut sources = Sources::read(std::slice::from_ref(&root), &cfg());
    let mut at = |line| {
        let (name, options) = ("op".to_owned(), "dims(N=H)".to_owned());
        let place = Place { name, options, file: Some(root.clone()), line, written: None };
        sources.constant(&place, &["H".to_owned()])
    };
    assert_eq!([at(2), at(4)], [Ok(8), Ok(9)]);
    assert_eq!(at(0), Err(Unread::Several("H".to_owned())));
}

#[test]
fn what_another_macro_writes_is_read_where_its_path_stands() {
    let folder = package(&[("src/lib.rs", "mod a; mod b;"), ("src/a.rs", ""), ("src/b.rs", "")]);
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("writable");
    };
    write("src/a.rs", "pub const H: usize = 8; macro_rules! op { () => {} } // mod x;");
    write("src/b.rs", "const H: usize = 9;");
    let mut sources = Sources::read(&[folder.path().join("src/lib.rs")], &cfg());
    let mut written_in = |file: &str| {
        let written = Some(folder.path().join(file));
        let (name, options) = ("op".to_owned(), "dims(N = H)".to_owned());
        let place = Place { name, options, file: written.clone(), line: 1, written };
        sources.constant(&place, &["H".to_owned()])
    };
    assert_eq!([written_in("src/a.rs"), written_in("src/b.rs")], [Ok(8), Ok(9)]);
    assert!(written_in("src/lib.rs").is_err());
}

#[test]
fn what_can_not_be_read_says_why() {
    let unknown = "is no constant in the sources of this crate, as far as they can be read";
    let text = "
        const CALLED: usize = f(3);
        const LOOP: usize = OTHER; const OTHER: usize = LOOP;
        const BY_ZERO: usize = 1 / 0;
        use elsewhere::FOREIGN;
        #[cfg(my_own)] const SIZE: usize = 1;
        #[cfg(not(my_own))] const SIZE: usize = 2;
        made! { MADE }
    ";
    let files = [("src/lib.rs", text)];
    let opaque = "is defined by more than integers, constants and `+ - * / %`";
    value("CALLED", &files, &format!("`CALLED` {opaque}"));
    value("BY_ZERO", &files, &format!("`BY_ZERO` {opaque}"));
    value("OTHER", &files, &format!("`LOOP` {opaque}"));
    value("FOREIGN", &files, &format!("`FOREIGN` {unknown}"));
    value("MADE", &files, &format!("`MADE` {unknown}"));
    value("other::SIZE", &files, &format!("`other::SIZE` {unknown}"));
    value("SIZE", &files, "`SIZE` has several values, by `cfg` or by place");
}

#[test]
fn the_configuration_decides_between_definitions() {
    let text = "
        #[cfg(target_os = \"macos\")] const SIZE: usize = 1;
        #[cfg(target_os = \"linux\")] const SIZE: usize = 2;
        #[cfg(my_own)] const EITHER: usize = 4;
        #[cfg(not(my_own))] const EITHER: usize = 2 * SIZE;
    ";
    value("SIZE", &[("src/lib.rs", text)], "2");
    value("EITHER", &[("src/lib.rs", text)], "4");
}

#[test]
fn files_with_constants_that_are_read_are_watched() {
    let files = [
        ("src/lib.rs", ""),
        ("tests/it.rs", "mod sizes; mod other; #[autotune(dims(N = sizes::N))] fn op() {}"),
        ("tests/sizes.rs", "pub const N: usize = 8;"),
        ("tests/other.rs", ""),
    ];
    super::check(&files, &["op"], &["src/lib.rs", "tests/it.rs", "tests/sizes.rs"]);
}

#[test]
fn modules_that_import_each_other_end() {
    let files = [
        ("src/lib.rs", "mod a; mod b; pub use a::*; pub use b::*;"),
        ("src/a.rs", "pub use super::*; pub use super::b::*;"),
        ("src/b.rs", "pub use super::*; pub use super::a::*; pub const FOUND: usize = 5;"),
    ];
    value("a::FOUND", &files, "5");
    value("a::b::a::FOUND", &files, "5");
    value(
        "a::LOST",
        &files,
        &format!(
            "`a::LOST` {}",
            "is no constant in the sources of this crate, as far as they can be read"
        ),
    );
}
