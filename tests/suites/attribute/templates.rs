//! The macro's parser of templates, beside the builder of keys: both accept the same.

use leasehold::{KeyTemplate, LockError, LockKey};
use proptest::prelude::*;
use proptest::string::string_regex;

use self::pieces::{Piece, pieces};

// The macros export nothing but macros.
#[expect(dead_code, reason = "of the parser, the pieces of a template alone are compared")]
#[path = "../../../macros/src/template/pieces.rs"]
mod pieces;

#[derive(Clone, Debug)]
enum Written {
    Text(String),
    Placeholder,
}

/// A text alone would be parsed again for each input, which takes longer than the test.
fn pattern(text: &str) -> impl Strategy<Value = String> {
    string_regex(text).expect("a pattern")
}

fn written() -> impl Strategy<Value = Written> {
    prop_oneof![
        pattern("[-_.%:/{}0Aaö→ ]{0,3}").prop_map(Written::Text),
        Just(Written::Text("%3A".to_owned())),
        Just(Written::Placeholder),
    ]
}

fn key(pieces: &[Piece], values: &[String]) -> Result<LockKey, LockError> {
    let (mut key, mut values) = (KeyTemplate::new(), values.iter());
    for piece in pieces {
        key = match piece {
            Piece::Text(text) => key.text(text),
            Piece::Placeholder(_) => key.part("id", values.next().expect("a value each")),
        };
    }
    key.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(5_000)))]

    /// The builder's own test shows that different values never make the same key in a
    /// template that it accepts.
    #[test]
    fn macro_and_builder_accept_the_same_templates(
        written in prop::collection::vec(written(), 1..8),
        values in prop::collection::vec(pattern("[-a%:{ö]{1,3}"), 8),
    ) {
        let (mut template, mut direct, mut parts) = (String::new(), KeyTemplate::new(), values.iter());
        for piece in &written {
            match piece {
                Written::Text(text) => {
                    template.push_str(&text.replace('{', "{{").replace('}', "}}"));
                    direct = direct.text(text);
                }
                Written::Placeholder => {
                    template.push_str("{id}");
                    direct = direct.part("id", parts.next().expect("a value each"));
                }
            }
        }
        match (pieces(&template), direct.finish()) {
            (Ok(pieces), Ok(direct)) => prop_assert_eq!(key(&pieces, &values).unwrap(), direct),
            (Err(_), Err(_)) => {}
            (compiled, built) => prop_assert!(
                false, "{}: it compiles: {}; the builder: {:?}", template, compiled.is_ok(), built
            ),
        }
    }
}
