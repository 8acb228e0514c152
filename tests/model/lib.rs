//! The model is in `main.rs`, and is a test.
