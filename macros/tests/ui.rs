//! Wrong code fails to compile with the messages in `ui/*.stderr`.
//!
//! After a change that is meant, run with `TRYBUILD=overwrite` and read the
//! diff of `ui/*.stderr` as a user would. The messages are those of
//! Rust 1.95: other versions word and draw theirs differently.

#[rustversion::stable(1.95)]
#[test]
fn ui() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
