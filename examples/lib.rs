//! The examples are beside this file: `cargo run --example quickstart`.
