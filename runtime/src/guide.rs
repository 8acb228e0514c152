// The pages of docs/guide, for rustdoc alone; `tests/harness` runs their examples. Links on
// a page lead to files. `links.md` in front of it leads the same names to the modules here,
// since of two definitions of a link the first counts. It leads pictures, which are no part of
// the crate, nowhere: their texts are shown.
#![doc = include_str!("guide/links.md")]
#![doc = include_str!("../docs/guide/README.md")]

macro_rules! pages {
    ($($name:ident: $file:literal,)*) => {$(
        #[doc = include_str!("guide/links.md")]
        #[doc = include_str!($file)]
        pub mod $name {}
    )*};
}

pages! {
    concepts: "../docs/guide/concepts.md",
    attribute: "../docs/guide/attribute.md",
    jobs: "../docs/guide/jobs.md",
    schedulers: "../docs/guide/schedulers.md",
    http: "../docs/guide/http.md",
    idempotency: "../docs/guide/idempotency.md",
    ai_gateway: "../docs/guide/ai-gateway.md",
    kinds: "../docs/guide/kinds.md",
    options: "../docs/guide/options.md",
    long_work: "../docs/guide/long-work.md",
    lingering: "../docs/guide/lingering.md",
    command_line: "../docs/guide/command-line.md",
    operating: "../docs/guide/operating.md",
    monitoring: "../docs/guide/monitoring.md",
    console: "../docs/guide/console.md",
    troubleshooting: "../docs/guide/troubleshooting.md",
    doctor: "../docs/guide/doctor.md",
    testing: "../docs/guide/testing.md",
    servers: "../docs/guide/servers.md",
    deployments: "../docs/guide/deployments.md",
    guarantees: "../docs/guide/guarantees.md",
    evidence: "../docs/guide/evidence.md",
    performance: "../docs/guide/performance.md",
    comparison: "../docs/guide/comparison.md",
    moving: "../docs/guide/moving.md",
    stored_keys: "../docs/keys.md",
    decisions: "../docs/decisions.md",
}
