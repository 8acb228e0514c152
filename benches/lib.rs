//! The benches are beside this file: `cargo bench -p leasehold-benches`.
