//! Reads the errors of scripts: which command said what, and whether the server refuses the
//! script's first line.
//!
//! From Redis 7.0 on, an error of a command in a script is the script's error. Older servers pack
//! it into one of their own, such as `ERR Error running script (call to f_…): @user_script:5:
//! WRONGTYPE …`.

use redis::RedisError;

/// The error of the command that ended a script, as a later server would give it. Any other error
/// stays as it is.
pub(super) fn of_command(error: RedisError) -> RedisError {
    unpacked(&error).unwrap_or(error)
}

fn unpacked(error: &RedisError) -> Option<RedisError> {
    let (code, detail) = (error.code()?, error.detail().unwrap_or_default());
    let whole = format!("{code} {detail}");
    let mut said = whole.as_str();
    if let Some(rest) = said.strip_prefix("ERR Error running script (call to ") {
        said = rest.split_once("): ")?.1;
    }
    // The place, once or twice: `@user_script:5: `, `@user_script: 5: -`.
    while let Some(rest) = said.strip_prefix("@user_script:") {
        said = rest.trim_start().split_once(": ")?.1;
    }
    let said = said.strip_prefix('-').unwrap_or(said).trim_end();
    if said.len() == whole.len() {
        return None;
    }
    let code = said.split(' ').next().unwrap_or_default();
    let has_code = code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    let line = if has_code { format!("-{said}\r\n") } else { format!("-ERR {said}\r\n") };
    redis::parse_redis_value(line.as_bytes()).ok()?.extract_error().err()
}

/// Returns true if the server refuses a script for its first line, `#!lua`: then nothing of it has
/// run. The server may be unable to compile the line, or may not know a flag.
pub(super) fn refuses_flags(error: &RedisError) -> bool {
    is_refusal_of_flags(error.code().unwrap_or_default(), error.detail().unwrap_or_default())
}

/// The same by the error's first word and its other words.
pub(super) fn is_refusal_of_flags(code: &str, text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    code == "ERR" && ["compil", "near '#'", "shebang"].iter().any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error as the server sends it.
    fn sent(line: &str) -> RedisError {
        let reply = format!("-{line}\r\n");
        redis::parse_redis_value(reply.as_bytes()).unwrap().extract_error().unwrap_err()
    }

    #[test]
    fn the_error_of_a_command_is_unpacked() {
        let call = "ERR Error running script (call to f_0123456789012345678901234567890123456789)";
        for (line, code, detail) in [
            ("@user_script:5: WRONGTYPE Operation against a key", "WRONGTYPE", "Operation against"),
            ("@user_script:5: @user_script: 5: -OOM command not allowed", "OOM", "command not"),
            (
                "@user_script:5: @user_script: 5: -READONLY You can't write  ",
                "READONLY",
                "You can't",
            ),
            (
                "@user_script:5: @user_script: 5: The user executing the script can't run this",
                "ERR",
                "The user",
            ),
            (
                "@user_script:5: user_script:5: attempt to index a nil value",
                "ERR",
                "user_script:5:",
            ),
            (
                "@user_script:5: @user_script: 5: Script attempted to access a non local key",
                "ERR",
                "Script attempted",
            ),
        ] {
            let error = of_command(sent(&format!("{call}: {line}")));
            assert_eq!(error.code(), Some(code), "{line}");
            assert!(error.detail().unwrap().starts_with(detail), "{error}");
        }
        // As the answer of one of several requests.
        let error = of_command(sent("@user_script: 5: -OOM command not allowed"));
        assert_eq!((error.code(), error.detail()), (Some("OOM"), Some("command not allowed")));
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        for line in [
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR user_script:3: attempt to index a nil value script: f_0, on @user_script:3.",
            "NOSCRIPT No matching script. Please use EVAL.",
            "MOVED 3999 127.0.0.1:6381",
            "OOM",
        ] {
            assert_eq!(of_command(sent(line)).to_string(), sent(line).to_string());
        }
    }

    #[test]
    fn a_refused_first_line_is_recognised() {
        for (line, is_it) in [
            // Redis 6.2, Dragonfly, Garnet, Redis 7 with a flag it does not know.
            (
                "ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'",
                true,
            ),
            ("ERR user_script:2: unexpected symbol near '#'", true),
            ("ERR Compilation error: unexpected symbol near '#'", true),
            ("ERR Unexpected flag in script shebang: allow-key-locking", true),
            ("ERR unknown command 'EVAL'", false),
            ("NOSCRIPT No matching script. Please use EVAL.", false),
            ("NOPERM this user has no permissions to run the 'eval' command", false),
        ] {
            assert_eq!(refuses_flags(&sent(line)), is_it, "{line}");
        }
    }
}
