//! Secrets that no log may contain: a password, and the name of a lock.

/// Part of every password of the worker's command `secrets`. It has characters that are special in
/// a URL, so it is percent-encoded there.
pub const PASSWORD: &str = "canary-password/@:%";

/// The name of the lock there.
pub const KEY: &str = "canary-key:42";

/// A secret in the form that it has in a URL.
#[must_use]
pub fn in_url(secret: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    secret.bytes().map(encode).collect()
}

/// True if a text contains the word, as it is or byte by byte.
#[must_use]
pub fn has(text: &str, word: &str) -> bool {
    let numbers = format!("{:?}", word.as_bytes());
    let hex: Vec<_> = word.bytes().map(|byte| format!("{byte:02x}")).collect();
    let text = text.to_lowercase();
    [word, numbers.trim_matches(['[', ']']), &hex.concat()].iter().any(|form| text.contains(form))
}
