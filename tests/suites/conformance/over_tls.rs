//! All cases of one server, over TLS. A process reads its trusted authorities from its environment,
//! which it can't change safely. So the cases run in a second process of this program.

use std::process::Command;

use leasehold_tests::tls::{Tls, authority};

#[test]
fn every_case_of_one_server() {
    let server = Tls::start();
    let cases = "conformance::redis::";
    let output = Command::new(std::env::current_exe().expect("this program"))
        .arg(cases)
        .env("LEASEHOLD_TEST_URL", server.url())
        .env("SSL_CERT_FILE", authority())
        .env_remove("SSL_CERT_DIR")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let passed = said.lines().filter(|line| line.starts_with("test ") && line.ends_with(" ok"));
    assert!(passed.count() > 200, "{said}");
}
