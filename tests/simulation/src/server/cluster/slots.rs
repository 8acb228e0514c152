//! The slot of a key, as the specification of clusters says.

/// The number of slots.
pub const COUNT: u16 = 16_384;

/// The slot of a key. Where it has braces, the text in the first pair counts, unless there is none.
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let length = rest.iter().position(|byte| *byte == b'}').filter(|length| *length > 0)?;
        rest.get(..length)
    });
    crc16(tag.unwrap_or(key)) % COUNT
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc: u16, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_the_slot_of_its_tag() {
        // As CLUSTER KEYSLOT says.
        for (key, slot) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("leasehold:lock:{foo}", 12_182),
            ("{foo}{bar}", 12_182),
            ("{}foo", 9_500),
            ("{foo", 13_308),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }
}
