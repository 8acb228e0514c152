//! Answers, and how they are written to a connection.

use std::borrow::Cow;

/// An answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Nil,
    /// In RESP2, in place of an array.
    NilArray,
    Ok,
    Simple(Cow<'static, str>),
    Int(i64),
    /// A score. In scripts, and on a connection of RESP2, it is a string.
    Double(f64),
    Bulk(Vec<u8>),
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    /// Code and text, without the leading `-`.
    Error(String),
}

impl Reply {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Bulk(text.into().into_bytes())
    }

    #[must_use]
    pub fn simple(text: &'static str) -> Self {
        Self::Simple(Cow::Borrowed(text))
    }

    pub fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    #[must_use]
    pub fn bulk(value: Option<&[u8]>) -> Self {
        value.map_or(Self::Nil, |value| Self::Bulk(value.to_vec()))
    }

    #[must_use]
    pub fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).expect("fewer than 2^63"))
    }

    /// Appends it as this protocol writes it.
    pub fn write(&self, protocol: Protocol, to: &mut Vec<u8>) {
        match (self, protocol) {
            (Self::Nil, Protocol::Resp2) => to.extend_from_slice(b"$-1\r\n"),
            (Self::NilArray, Protocol::Resp2) => to.extend_from_slice(b"*-1\r\n"),
            (Self::Nil | Self::NilArray, Protocol::Resp3) => to.extend_from_slice(b"_\r\n"),
            (Self::Ok, _) => to.extend_from_slice(b"+OK\r\n"),
            (Self::Simple(text), _) => line(b'+', text, to),
            (Self::Int(number), _) => line(b':', &number.to_string(), to),
            (Self::Double(number), Protocol::Resp2) => bulk(format_double(*number).as_bytes(), to),
            (Self::Double(number), Protocol::Resp3) => line(b',', &format_double(*number), to),
            (Self::Bulk(value), _) => bulk(value, to),
            (Self::Array(items), _) => {
                line(b'*', &items.len().to_string(), to);
                for item in items {
                    item.write(protocol, to);
                }
            }
            (Self::Map(pairs), _) => {
                match protocol {
                    Protocol::Resp2 => line(b'*', &(2 * pairs.len()).to_string(), to),
                    Protocol::Resp3 => line(b'%', &pairs.len().to_string(), to),
                }
                for (key, value) in pairs {
                    key.write(protocol, to);
                    value.write(protocol, to);
                }
            }
            (Self::Error(text), _) => line(b'-', text, to),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// Writes what no command asked for.
pub fn write_push(items: &[Reply], protocol: Protocol, to: &mut Vec<u8>) {
    let kind = if protocol == Protocol::Resp3 { b'>' } else { b'*' };
    line(kind, &items.len().to_string(), to);
    for item in items {
        item.write(protocol, to);
    }
}

fn line(kind: u8, text: &str, to: &mut Vec<u8>) {
    to.push(kind);
    to.extend_from_slice(text.as_bytes());
    to.extend_from_slice(b"\r\n");
}

fn bulk(value: &[u8], to: &mut Vec<u8>) {
    line(b'$', &value.len().to_string(), to);
    to.extend_from_slice(value);
    to.extend_from_slice(b"\r\n");
}

/// A number as C's `%.17g` prints it.
#[must_use]
pub fn format_double(number: f64) -> String {
    const DIGITS: i32 = 17;
    if number.is_infinite() {
        return if number > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0".to_owned() } else { "0".to_owned() };
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    let trimmed = |text: &str| {
        let has_point = text.contains('.');
        let text = if has_point { text.trim_end_matches('0').trim_end_matches('.') } else { text };
        text.to_owned()
    };
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).expect("not negative");
        trimmed(&format!("{number:.decimals$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_printed_as_c_does() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (1_764_000_000_123_456.0, "1764000000123456"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e-7, "1.4999999999999999e-07"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_double(number), text);
        }
    }
}
