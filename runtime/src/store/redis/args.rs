//! The keys and arguments of a command, one after the other in a single buffer.

/// The role of the key that has no name of a lock. On one server it has the greatest token that was
/// given. On a cluster, where a script may use the keys of one slot only, and on a quorum, it is
/// the lock's channel for hints, and nothing is stored there.
pub(super) const TOKENS_KEY: &str = "tokens";

/// A list of byte strings that costs two allocations, however long it is.
#[derive(Clone, Debug)]
pub(super) struct Args {
    bytes: Vec<u8>,
    /// Where each argument ends in `bytes`.
    ends: Vec<usize>,
}

impl Args {
    /// Has room for a command of a lock with a short name.
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(256), ends: Vec::with_capacity(12) }
    }

    pub(super) fn push(&mut self, arg: &[u8]) {
        self.push_parts(&[arg]);
    }

    /// Adds one argument that is made of several parts.
    pub(super) fn push_parts(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.ends.push(self.bytes.len());
    }

    /// Adds a number in decimal digits.
    pub(super) fn push_number(&mut self, mut number: u64) {
        let (mut digits, mut start) = ([b'0'; 20], 20);
        while number > 0 || start == 20 {
            start -= 1;
            digits[start] += (number % 10) as u8;
            number /= 10;
        }
        self.push(&digits[start..]);
    }

    /// The number of arguments.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The length of all arguments in bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.bytes[std::mem::replace(&mut start, *end)..*end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_out_as_they_went_in() {
        let mut args = Args::new();
        args.push(b"a");
        args.push(b"");
        args.push_parts(&[b"b:", b"c"]);
        for number in [0, 7, 10, 30_000, u64::MAX] {
            args.push_number(number);
        }
        let all: Vec<_> = args.iter().map(|arg| std::str::from_utf8(arg).unwrap()).collect();
        assert_eq!(all, ["a", "", "b:c", "0", "7", "10", "30000", "18446744073709551615"]);
        assert_eq!((args.len(), args.size()), (8, 1 + 3 + 1 + 1 + 2 + 5 + 20));
    }
}
