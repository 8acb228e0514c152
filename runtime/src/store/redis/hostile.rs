//! Answers that no script of ours gives. A server that only speaks the same protocol may give them.

use proptest::prelude::*;
use redis::Value;

use super::answer::numbers;
use super::decode::Decoder;
use super::server_info::{ServerInfo, eviction_risk, persistence_warning, warnings};
use super::{decode, errors, listing, script_errors};
use crate::core::name_pattern::NamePattern;
use crate::store::ListCursor;

/// Digits that are a number, or nearly one.
pub(super) fn digits() -> impl Strategy<Value = String> {
    let odd = ["", "-", "+1", "1e3", " 1", "18446744073709551616", "0x1", "١"];
    prop_oneof![
        8 => any::<u64>().prop_map(|number| number.to_string()),
        2 => Just(u64::MAX.to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => prop::sample::select(odd.to_vec()).prop_map(str::to_owned),
    ]
}

/// Any answer of a server.
pub(super) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        Just(Value::Okay),
        any::<i64>().prop_map(Value::Int),
        (-2_i64..12).prop_map(Value::Int),
        any::<bool>().prop_map(Value::Boolean),
        any::<f64>().prop_map(Value::Double),
        digits().prop_map(|text| Value::BulkString(text.into_bytes())),
        prop::collection::vec(any::<u8>(), 0..120).prop_map(Value::BulkString),
        any::<String>().prop_map(Value::SimpleString),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| prop::collection::vec(inner, 0..6).prop_map(Value::Array))
}

/// Numbers of which most begin as a script's answer does.
fn codes() -> impl Strategy<Value = Value> {
    let rest = prop_oneof![3 => 0_i64..4, 1 => any::<i64>()];
    (0_i64..11, prop::collection::vec(rest, 0..5)).prop_map(|(code, rest)| {
        Value::Array([code].into_iter().chain(rest).map(Value::Int).collect())
    })
}

/// An error as a server sends it.
fn error() -> impl Strategy<Value = String> {
    let with_meaning = [
        "ERR ",
        "Error running script (call to f_0): ",
        "@user_script:",
        "5: ",
        ": ",
        "-",
        "OOM ",
        "MOVED ",
        "ASK ",
        "16384 ",
        "3 ",
        "a:7",
        ":",
        "?",
        "[::1]:65536",
        "compil",
        "shebang",
        " ",
    ];
    let piece = prop_oneof![
        4 => prop::sample::select(with_meaning.to_vec()).prop_map(str::to_owned),
        1 => "[^\r\n]{0,4}",
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// What is said of an error is what the server said, whatever was packed into it.
    #[test]
    fn no_error_makes_it_panic(line in error()) {
        let answer = redis::parse_redis_value(format!("-{line}\r\n").as_bytes());
        let Some(error) = answer.ok().and_then(|it| it.extract_error().err()) else {
            return Ok(());
        };
        let _ = (error.redirect_node(), script_errors::refuses_flags(&error));
        let unpacked = script_errors::of_command(error.clone());
        prop_assert!(line.contains(unpacked.detail().unwrap_or_default()), "{}", unpacked);
        let (_, classified) = errors::classify(error);
        prop_assert!(errors::redis_error(&classified).is_some(), "{:?}", classified);
    }

    #[test]
    fn no_answer_makes_the_decoder_panic(
        answer in prop_oneof![value(), codes()],
        counts in (0_usize..4, 0_usize..3),
    ) {
        let numbers = numbers(&answer);
        prop_assert_eq!(decode::is_grant(&numbers), numbers.first() == Some(&1));
        if let Some(Ok(tokens)) = decode::all(&numbers, counts) {
            prop_assert_eq!(tokens.len(), counts.0 + counts.1);
        }
        let decoders: [Decoder; 9] = [
            decode::to_acquire,
            decode::to_renew,
            decode::to_adopt,
            decode::to_release,
            decode::to_linger,
            decode::to_repair,
            decode::to_question,
            decode::to_notice,
            decode::to_force,
        ];
        for decode in decoders {
            prop_assert!(decode(Ok(answer.clone())).is_err() || !numbers.is_empty());
        }
    }

    /// The numbers of an array are read all together, or not at all.
    #[test]
    fn a_number_is_never_left_out(values in prop::collection::vec(any::<i64>(), 0..9)) {
        let answer = Value::Array(values.iter().copied().map(Value::Int).collect());
        let expected: Option<Vec<_>> = values.iter().map(|it| u64::try_from(*it).ok()).collect();
        prop_assert_eq!(&*numbers(&answer), expected.unwrap_or_default());
    }

    #[test]
    fn no_page_of_a_list_makes_it_panic(
        cursor in digits(),
        names in prop::collection::vec("\\PC{0,20}|\\{[a%7BD{}]{0,9}\\}", 0..4),
        other in value(),
        pattern in "[a*?{}]{0,6}",
        server in 0_usize..3,
    ) {
        let bulk = |text: &String| Value::BulkString(text.as_bytes().to_vec());
        let page = Value::Array(vec![bulk(&cursor), Value::Array(names.iter().map(bulk).collect())]);
        let (pattern, from) = (NamePattern::new(&pattern), ListCursor { server, at: 7 });
        for answer in [&page, &other] {
            if let Ok(page) = listing::page(answer, &pattern, from, 3) {
                prop_assert!(page.keys.iter().all(|key| pattern.matches(key.name())));
            }
        }
    }

    #[test]
    fn no_information_makes_it_panic(
        text in any::<String>(),
        number in digits(),
        version in "[0-9.x]{0,12}",
    ) {
        let info = format!(
            "run_id:{text}\r\nuptime_in_seconds:{number}\r\nredis_version:{version}\r\n\
             maxmemory_policy:{text}\r\naof_enabled:{number}\r\n"
        );
        for info in [&text, &info] {
            let server = ServerInfo::parse(info);
            let _ = (warnings(server.as_ref(), info), eviction_risk(info));
            let _ = persistence_warning(info, Some(&number));
        }
    }
}
