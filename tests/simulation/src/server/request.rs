//! Takes the commands out of the bytes of a connection.

/// A command: its name and its arguments.
pub(super) type Args = Vec<Vec<u8>>;

/// The bytes of a connection that are not yet a command.
#[derive(Debug, Default)]
pub(super) struct Parser {
    bytes: Vec<u8>,
    /// How many of them were taken.
    taken: usize,
}

/// Bytes that no client of this protocol sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl Parser {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next command, if all of it is there.
    pub(super) fn next(&mut self) -> Result<Option<Args>, Malformed> {
        let mut at = self.taken;
        let Some(count) = self.number(b'*', &mut at)? else { return Ok(None) };
        let mut args = Args::new();
        for _ in 0..count {
            let Some(length) = self.number(b'$', &mut at)? else { return Ok(None) };
            let Some(value) = self.bytes.get(at..at + length) else { return Ok(None) };
            let value = value.to_vec();
            match self.bytes.get(at + length..at + length + 2) {
                Some(b"\r\n") => at += length + 2,
                Some(_) => return Err(Malformed),
                None => return Ok(None),
            }
            args.push(value);
        }
        self.taken = at;
        Ok(Some(args))
    }

    /// The number in a line that begins with `kind`.
    fn number(&self, kind: u8, at: &mut usize) -> Result<Option<usize>, Malformed> {
        let rest = &self.bytes[*at..];
        let Some(end) = rest.windows(2).position(|it| it == b"\r\n") else {
            let is_malformed = rest.first().is_some_and(|it| *it != kind) || rest.len() > 64;
            return if is_malformed { Err(Malformed) } else { Ok(None) };
        };
        let line = rest[..end].strip_prefix(&[kind]).ok_or(Malformed)?;
        let number = std::str::from_utf8(line).ok().and_then(|it| it.parse().ok());
        *at += end + 2;
        number.filter(|it| *it <= 1 << 29).map(Some).ok_or(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_wherever_the_bytes_are_cut() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nPING\r\n";
        let whole = [vec![b"GET".to_vec(), b"a\r\nb".to_vec()], vec![b"PING".to_vec()]];
        for cut in 0..=bytes.len() {
            let (mut parser, mut found) = (Parser::default(), Vec::new());
            for part in [&bytes[..cut], &bytes[cut..]] {
                parser.push(part);
                while let Some(args) = parser.next().unwrap() {
                    found.push(args);
                }
            }
            assert_eq!(found, whole, "{cut}");
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"*1\r\n+OK\r\n", b"*1\r\n$1\r\nabc", b"*-1\r\n"]
        {
            let mut parser = Parser::default();
            parser.push(bytes);
            assert_eq!(parser.next(), Err(Malformed));
        }
    }
}
