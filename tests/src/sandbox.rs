//! A crate that uses tvmtune, on disk, with a cache of its own.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use tvmtune_plan::handoff::{Answer, Handoff, ROLE, ROLE_EXPAND, Request};

/// A package in a temporary folder, and what is cached for it.
pub struct Sandbox {
    folder: TempDir,
}

/// The output of a process.
#[derive(Debug)]
pub struct Said {
    /// Its exit status.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// A program that is small in every way: to read, to compile, to tune.
pub const SOURCE: &str = "
use tvmtune_runtime::autotune;

#[autotune(dims(M = 1..=64, K = 32), buckets(M = [8, 64]))]
pub fn scaled_sum(x: Tensor<f32, M, K>) -> Tensor<f32, M> {
    compute(|i| sum(0..K, |k| x[[i, k]] * 0.5))
}
";

impl Sandbox {
    /// A library package of that name with this source.
    pub fn new(name: &str, source: &str) -> Self {
        let sandbox = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests has a parent");
        let crates = |it: &str| checkout.join(it).display().to_string();
        let (runtime, build) = (crates("tvmtune-runtime"), crates("tvmtune-build"));
        sandbox.write(
            "Cargo.toml",
            &format!(
                "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
                 [dependencies]\ntvmtune-runtime = {{ path = {runtime:?}, features = [\"half\"] }}\n\
                 [build-dependencies]\ntvmtune-build = {{ path = {build:?} }}\n\
                 [workspace]\n"
            ),
        );
        sandbox.write("build.rs", "fn main() { tvmtune_build::run() }\n");
        sandbox.write("src/lib.rs", source);
        sandbox
    }

    /// The same package without a build script, which takes long to compile.
    pub fn without_script(self) -> Self {
        let manifest = self.package().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).expect("it was written");
        let is_scripts =
            |it: &str| it.starts_with("[build-dependencies]") || it.starts_with("tvmtune-build");
        let kept: Vec<&str> = text.lines().filter(|it| !is_scripts(it)).collect();
        fs::write(&manifest, kept.join("\n") + "\n").expect("writable");
        fs::remove_file(self.package().join("build.rs")).expect("it was written");
        self
    }

    /// Cargo in a folder of the package, without a network, with a target folder that tests share:
    /// what a crate depends on compiles once.
    pub fn cargo(&self, folder: &str, target: &Path) -> Command {
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("Cargo.lock");
        let package = self.package().join(folder);
        if !package.join("Cargo.lock").exists() {
            fs::copy(lock, package.join("Cargo.lock")).expect("the lock file is there");
        }
        let mut command = self.command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
        command
            .current_dir(package)
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", target);
        command
    }

    /// The folder of the package.
    pub fn package(&self) -> PathBuf {
        self.folder.path().join("package")
    }

    /// The folder of the cached records.
    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Writes a file of the package.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.package().join(name);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("writable");
        fs::write(path, text).expect("writable");
    }

    /// The records in the cache.
    pub fn records(&self) -> Vec<PathBuf> {
        files(&self.cache().join("v4").join("records"))
            .into_iter()
            .filter(|it| it.extension().is_some_and(|it| it == "toml"))
            .collect()
    }

    /// The plans that a script wrote into `OUT_DIR` `out`, with their text.
    pub fn plans(&self, out: &str) -> Vec<(PathBuf, String)> {
        let plans = files(&self.folder.path().join(out)).into_iter();
        let plans = plans.filter(|it| it.extension().is_some_and(|it| it == "rs"));
        plans.map(|it| (it.clone(), fs::read_to_string(it).expect("readable"))).collect()
    }

    /// The folder of the plans of a script whose `OUT_DIR` is `out`.
    pub fn plan_dir(&self, out: &str) -> PathBuf {
        self.folder.path().join(out).join("tvmtune")
    }

    /// The handoff that a script left in `OUT_DIR` `out`.
    pub fn handoff(&self, out: &str) -> Handoff {
        Handoff::read(&self.plan_dir(out)).expect("a script ran")
    }

    /// Runs the build script of the package as cargo would, with these variables on top.
    pub fn script(&self, program: &str, out: &str, variables: &[(&str, &str)]) -> Said {
        fs::create_dir_all(self.folder.path().join(out)).expect("writable");
        let mut command = self.in_build(program, out);
        command.env("CARGO_CFG_TARGET_OS", std::env::consts::OS);
        command.env("HOST", "here").env("TARGET", "here");
        said(command.envs(variables.iter().copied()))
    }

    /// Runs the build script, and the session that a compiler which emits code would ask for; its
    /// lines are added to the warnings.
    pub fn build(&self, program: &str, out: &str, variables: &[(&str, &str)]) -> Said {
        let mut script = self.script(program, out, variables);
        if script.code != Some(0) {
            return script;
        }
        let mut command = self.in_build(program, out);
        command.env(ROLE, ROLE_EXPAND).envs(variables.iter().copied());
        let plans = self.folder.path().join(out).join("tvmtune");
        let session = asked(&mut command, &Request { plans, op: None }.to_toml());
        let answer = Answer::from_toml(&session.out).unwrap_or_default();
        for line in answer.lines {
            script.out += &format!("cargo::warning={line}\n");
        }
        Said { code: session.code, err: script.err + &session.err, ..script }
    }

    /// A program in the environment that scripts and compilers share.
    fn in_build(&self, program: &str, out: &str) -> Command {
        let mut command = self.command(program);
        command.env("OUT_DIR", self.folder.path().join(out));
        command.env("CARGO_MANIFEST_DIR", self.package()).env("CARGO_PKG_NAME", "sandbox");
        command
    }

    /// A command in the package's folder that sees nothing of the tests' own environment that
    /// decides anything.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.package()).env("TVMTUNE_CACHE", self.cache());
        command.env("TVMTUNE_BUDGET", "4");
        for name in ["CI", "TVMTUNE", "TVMTUNE_DB", "TVMTUNE_PACKAGES", "TVMTUNE_TRACE"] {
            command.env_remove(name);
        }
        for name in ["DOCS_RS", "RUSTFLAGS"] {
            command.env_remove(name);
        }
        command
    }
}

/// Runs a command to its end.
pub fn said(command: &mut Command) -> Said {
    ended(command.output().expect("it starts"))
}

/// Runs a command to its end, with a text on its standard input.
fn asked(command: &mut Command, text: &str) -> Said {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    ended(child.wait_with_output().expect("it ends"))
}

/// The text of an output.
fn ended(output: Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Said {
    /// The values of one directive, `warning` or `rerun-if-changed`.
    pub fn directives(&self, name: &str) -> Vec<&str> {
        let prefix = format!("cargo::{name}=");
        self.out.lines().filter_map(|it| it.strip_prefix(prefix.as_str())).collect()
    }
}

/// Every file below a folder, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}
