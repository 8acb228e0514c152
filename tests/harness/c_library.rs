//! Libraries in C, built with the system's compiler, once each. The simulation has this file, too, and
//! not the rest of the harness, whose dependencies it would have to build.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A library, named after its source. The file appears when it is complete, because other processes
/// may build it at the same time.
pub(crate) fn build(folder: &Path, name: &str, source: &str) -> PathBuf {
    let mut hash = DefaultHasher::new();
    source.hash(&mut hash);
    let library = folder.join(format!("{name}-{:016x}.so", hash.finish()));
    if library.exists() {
        return library;
    }
    let draft = library.with_extension(std::process::id().to_string());
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"])
        .arg(&draft)
        .stdin(Stdio::piped())
        .spawn()
        .expect("there is a C compiler, `cc`");
    let mut input = compiler.stdin.take().expect("it is piped");
    input.write_all(source.as_bytes()).expect("it reads its input");
    drop(input);
    assert!(compiler.wait().expect("it ends").success(), "{name}.c does not compile");
    fs::rename(draft, &library).expect("the target folder can be written to");
    library
}
