//! The words of a command, one behind the other in one piece of memory.

/// Words that are keys, then words that are arguments.
#[derive(Clone, Debug)]
pub(super) struct Words {
    text: Vec<u8>,
    /// Where each word ends.
    ends: Vec<usize>,
}

impl Words {
    /// Room for what the commands of a lock with a short name need.
    pub(super) fn new() -> Self {
        Self { text: Vec::with_capacity(256), ends: Vec::with_capacity(12) }
    }

    pub(super) fn push(&mut self, word: &[u8]) {
        self.push_parts(&[word]);
    }

    /// One word, of several parts.
    pub(super) fn push_parts(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.text.extend_from_slice(part);
        }
        self.ends.push(self.text.len());
    }

    /// A number in digits.
    pub(super) fn push_number(&mut self, mut number: u64) {
        let (mut digits, mut start) = ([b'0'; 20], 20);
        while number > 0 || start == 20 {
            start -= 1;
            digits[start] += (number % 10) as u8;
            number /= 10;
        }
        self.push(&digits[start..]);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many bytes they have together.
    pub(super) fn size(&self) -> usize {
        self.text.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.text[std::mem::replace(&mut start, *end)..*end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_out_as_they_went_in() {
        let mut words = Words::new();
        words.push(b"a");
        words.push(b"");
        words.push_parts(&[b"b:", b"c"]);
        for number in [0, 7, 10, 30_000, u64::MAX] {
            words.push_number(number);
        }
        let all: Vec<_> = words.iter().map(|word| std::str::from_utf8(word).unwrap()).collect();
        assert_eq!(all, ["a", "", "b:c", "0", "7", "10", "30000", "18446744073709551615"]);
        assert_eq!((words.len(), words.size()), (8, 1 + 3 + 1 + 1 + 2 + 5 + 20));
    }
}
