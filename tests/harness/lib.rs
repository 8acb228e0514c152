//! The harness: real servers, the processes that use them, and the stores behind one interface.
//!
//! Everything it starts ends with the test, and with the test's process even
//! if that is killed.

// The examples of README and guide give no warnings where they are pasted. What is declared there
// and not used is for the reader's code.
#![cfg_attr(doctest, doc(test(attr(deny(warnings), allow(dead_code, unused_variables)))))]

pub mod backend;
mod c_library;
pub mod cluster;
pub mod hints;
pub mod kinds;
pub mod leaks;
pub mod logs;
pub mod masters;
pub mod members;
pub mod no_flags;
pub mod overridden;
pub mod polls;
pub mod process;
pub mod proxy;
pub mod refusing;
pub mod requests;
pub mod rights;
pub mod routes;
pub mod secrets;
pub mod sentinel;
pub mod server;
mod shell;
pub mod shim;
pub mod skew;
pub mod tls;
pub mod waiting;

/// The examples of README and guide compile, and run if they need no server.
#[cfg(doctest)]
mod pages {
    macro_rules! pages {
        ($($name:ident: $file:literal,)*) => {$(
            #[doc = include_str!($file)]
            mod $name {}
        )*};
    }

    #[doc = include_str!("../../README.md")]
    #[doc(test(attr(deny(unused_variables))))]
    mod readme {}

    pages! {
        concepts: "../../docs/guide/concepts.md",
        attribute: "../../docs/guide/attribute.md",
        jobs: "../../docs/guide/jobs.md",
        schedulers: "../../docs/guide/schedulers.md",
        http: "../../docs/guide/http.md",
        idempotency: "../../docs/guide/idempotency.md",
        ai_gateway: "../../docs/guide/ai-gateway.md",
        kinds: "../../docs/guide/kinds.md",
        options: "../../docs/guide/options.md",
        long_work: "../../docs/guide/long-work.md",
        lingering: "../../docs/guide/lingering.md",
        command_line: "../../docs/guide/command-line.md",
        operating: "../../docs/guide/operating.md",
        monitoring: "../../docs/guide/monitoring.md",
        console: "../../docs/guide/console.md",
        troubleshooting: "../../docs/guide/troubleshooting.md",
        doctor: "../../docs/guide/doctor.md",
        testing: "../../docs/guide/testing.md",
        deployments: "../../docs/guide/deployments.md",
        evidence: "../../docs/guide/evidence.md",
        moving: "../../docs/guide/moving.md",
    }
}
