//! The routes of the worker's app `routes`: `/{kind}/{body}`.

/// The kinds of locks.
pub const KINDS: [&str; 3] = ["mutex", "semaphore", "writer"];

/// The kinds of bodies, and what else decides when a response has ended.
pub const BODIES: [&str; 12] = [
    "empty",
    "known",
    "stream",
    "sized_stream",
    "large",
    "head",
    "no_content",
    "compressed",
    "compressed_inside",
    "until_head",
    "error",
    "panic",
];
