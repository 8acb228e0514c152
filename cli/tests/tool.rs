//! The tool starts. What it does is tested beside the library's suites, with servers; that Cargo
//! has built the tool for this test lets them find it.

use std::process::Command;

#[test]
fn it_says_its_version() {
    let told = Command::new(env!("CARGO_BIN_EXE_leasehold")).arg("--version").output();
    let told = String::from_utf8(told.expect("it starts").stdout).expect("UTF-8");
    assert_eq!(told, format!("leasehold {}\n", env!("CARGO_PKG_VERSION")));
}
