//! A package on disk, and what the scan says of it.

mod constants;
mod functions;

use super::*;

/// A package of those files.
fn package(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        std::fs::write(path, text).expect("writable");
    }
    folder
}

/// The configuration of a build script.
fn cfg() -> Cfg {
    Cfg::from_variables([("CARGO_CFG_TARGET_OS", "linux")].into_iter())
}

/// The names of the functions found in a package of those files, and the files watched.
#[track_caller]
fn check(files: &[(&str, &str)], functions: &[&str], watched: &[&str]) {
    let (folder, cfg) = (package(files), cfg());
    let scan = scan(folder.path(), &cfg);
    let found: Vec<String> =
        scan.functions.iter().map(|it| it.item.sig.ident.to_string()).collect();
    assert_eq!(found, functions);
    let relative = |it: &PathBuf| {
        let it = it.strip_prefix(folder.path()).expect("inside the package");
        it.to_string_lossy().replace('\\', "/").replace("/./", "/")
    };
    assert_eq!(scan.watched.iter().map(relative).collect::<Vec<_>>(), watched);
}

#[test]
fn modules_are_followed_as_the_compiler_does() {
    check(
        &[
            ("src/lib.rs", "mod a; mod b; mod c { mod d; } #[path = \"other/e.rs\"] mod f;"),
            ("src/a.rs", "mod g; #[autotune] fn in_a() {}"),
            ("src/a/g.rs", "#[autotune] fn in_g() {}"),
            ("src/b/mod.rs", "mod h; #[autotune] fn in_b() {}"),
            ("src/b/h.rs", "#[autotune] fn in_h() {}"),
            ("src/c/d.rs", "#[autotune] fn in_d() {}"),
            ("src/other/e.rs", "mod i; #[autotune] fn in_e() {}"),
            ("src/other/i.rs", "#[autotune] fn in_i() {}"),
            ("src/stray.rs", "#[autotune] fn never_included() {}"),
        ],
        &["in_g", "in_a", "in_h", "in_b", "in_d", "in_i", "in_e"],
        &[
            "src/a/g.rs",
            "src/a.rs",
            "src/b/h.rs",
            "src/b/mod.rs",
            "src/c/d.rs",
            "src/lib.rs",
            "src/other/e.rs",
            "src/other/i.rs",
        ],
    );
}

#[test]
fn the_attribute_is_known_by_its_last_segment() {
    let text = "
        #[tvmtune_runtime::autotune(dims(M = 4))] fn by_path() {}
        #[cfg_attr(all(), doc = \"\", autotune)] fn conditional() {}
        #[cfg_attr(any(), autotune)] fn not_active() {}
        #[inline] fn another() { #[autotune] fn nested() {} }
        mod inline { #[autotune] fn in_inline() {} }
    ";
    let functions = ["by_path", "conditional", "nested", "in_inline"];
    check(&[("src/lib.rs", text)], &functions, &["src/lib.rs"]);
}

#[test]
fn what_the_configuration_leaves_out_is_left_out() {
    let text = "
        #[cfg(target_os = \"macos\")] #[autotune] fn elsewhere() {}
        #[cfg(target_os = \"macos\")] mod gone;
        #[cfg(target_os = \"linux\")] #[autotune] fn here() {}
        #[cfg(test)] mod tests { #[autotune] fn where_the_macro_finds_it() {} }
    ";
    check(&[("src/lib.rs", text)], &["here"], &["src/lib.rs"]);
}

#[test]
fn every_target_is_read_and_trials_are_watched_where_they_matter() {
    let text = "#[autotune] fn op() {}";
    check(
        &[
            ("Cargo.toml", "[lib]\npath = \"code/it.rs\"\n[[bin]]\nname = \"b\"\npath = \"b.rs\""),
            ("code/it.rs", text),
            ("b.rs", "fn main() {}"),
            ("src/bin/c.rs", text),
            ("src/bin/d/main.rs", text),
            ("examples/e.rs", text),
            ("tests/plain.rs", "fn main() {}"),
        ],
        &["op"; 4],
        &["b.rs", "code/it.rs", "examples/e.rs", "src/bin/c.rs", "src/bin/d/main.rs"],
    );
}

#[test]
fn a_file_that_does_not_parse_hides_no_other() {
    let files = [
        ("src/lib.rs", "mod broken; mod fine;"),
        ("src/broken.rs", "#[autotune] fn ("),
        ("src/fine.rs", "#[autotune] fn fine() {}"),
    ];
    check(&files, &["fine"], &["src/broken.rs", "src/fine.rs", "src/lib.rs"]);
}

#[test]
fn functions_know_the_modules_around_them() {
    let folder = package(&[
        ("src/lib.rs", "mod a; mod b { mod c { #[autotune] fn f() {} } } #[autotune] fn f() {}"),
        ("src/a.rs", "fn outer() { #[autotune] fn f() {} }"),
        ("src/main.rs", "#[autotune] fn f() {}"),
        ("tests/end-to-end.rs", "mod r#mod { #[autotune] fn f() {} }"),
        ("examples/show/main.rs", "#[autotune] fn f() {}"),
    ]);
    let scan = scan(folder.path(), &Cfg::from_variables(std::iter::empty()));
    let mut modules: Vec<String> = scan.functions.iter().map(|it| it.module.join("::")).collect();
    modules.sort();
    assert_eq!(modules, ["", "a", "b::c", "end_to_end::mod", "main", "show"]);
}
