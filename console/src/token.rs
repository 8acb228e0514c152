//! The secret by which a console knows its own forms.

use uuid::Uuid;

/// What each form has in it. A page of another origin can make a browser send a form, but it can't
/// read one.
#[derive(Debug)]
pub(super) struct Token(String);

impl Token {
    pub(super) fn random() -> Self {
        Self(Uuid::new_v4().to_string())
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Takes the same time for each wrong text.
    pub(super) fn is(&self, text: &str) -> bool {
        let pairs = text.bytes().zip(self.0.bytes());
        text.len() == self.0.len() && pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}
