//! Mistakes that are planted in a copy of the client: each is built in beside the code that it
//! replaces, and is switched on by its name.

/// A mistake in the client.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) name: &'static str,
    /// A file of `runtime/src`.
    pub(crate) file: &'static str,
    /// What stands there, once.
    pub(crate) code: &'static str,
    /// What is done instead.
    pub(crate) wrong: &'static str,
}

impl Mistake {
    /// The file's text with both, and the switch between them: `crate::is_planted`.
    #[allow(dead_code, reason = "not each program that has the mistakes plants them")]
    pub(crate) fn plant(&self, text: &str) -> String {
        let Self { name, code, wrong, .. } = self;
        let either = format!("if crate::is_planted(\"{name}\") {{ {wrong} }} else {{ {code} }}");
        replace_once(self.file, text, code, &either)
    }
}

/// Replaces what occurs once.
#[allow(dead_code, reason = "not each program that has the mistakes plants them")]
pub(crate) fn replace_once(file: &str, text: &str, from: &str, to: &str) -> String {
    let count = text.matches(from).count();
    assert_eq!(count, 1, "{file} has changed, and a copy of it is made elsewhere: `{from}`");
    text.replace(from, to)
}
