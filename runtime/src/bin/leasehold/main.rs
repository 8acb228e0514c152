//! Looks at locks, frees them, and runs commands under them.

fn main() {}
