//! What lets a client believe an offer: a secret that only the scripts and the client know.
//!
//! The secret travels with each ask that waits, and stands beside the waiter on the server. An
//! offer ends with a proof: the first digits of the hash of the secret and the offer. Anybody who
//! may publish can send a message, and anybody who may subscribe can read one. Neither can make a
//! proof without the right to read the keys.

use std::fmt;

use sha1_smol::Sha1;

use crate::store::ClientId;

/// How many hexadecimal digits a proof has: 80 bits.
const PROOF: usize = 20;

/// The secret of a client.
#[derive(Clone, Copy)]
pub(super) struct Secret(ClientId);

impl Secret {
    /// A new secret of 122 random bits.
    pub(super) fn random() -> Self {
        // It has the form of a client's id, and the same source of randomness.
        Self(ClientId::random())
    }

    /// The secret as the scripts take it.
    pub(super) fn text(&self) -> ClientId {
        self.0
    }

    /// Takes the proof from the end of a message. `None` if the message was not made with the
    /// secret.
    pub(super) fn proven<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        let (message, proof) = message.split_at_checked(message.len().checked_sub(PROOF)?)?;
        (self.proof(message).as_bytes() == proof).then_some(message)
    }

    fn proof(self, message: &[u8]) -> String {
        let mut hash = Sha1::new();
        hash.update(self.0.as_bytes());
        hash.update(message);
        let mut digits = hash.digest().to_string();
        digits.truncate(PROOF);
        digits
    }

    /// A message with its proof.
    #[cfg(test)]
    pub(super) fn sign(&self, message: &str) -> String {
        message.to_owned() + &self.proof(message.as_bytes())
    }
}

/// Shows nothing of it.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
