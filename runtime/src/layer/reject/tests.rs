use super::super::problem::TYPES;
use super::*;

#[test]
fn retry_after_is_rounded_up_and_at_least_1() {
    for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (29_500, 30)] {
        let rounded = whole_seconds(Duration::from_millis(millis));
        assert_eq!(rounded.as_secs(), seconds, "{millis} ms");
    }
    assert_eq!(whole_seconds(Duration::from_nanos(2_000_000_001)).as_secs(), 3);
    assert_eq!(whole_seconds(Duration::MAX).as_secs(), u64::MAX);
}

/// Each has a type of its own, and the guide has a line for each.
#[test]
fn the_guide_explains_each_type() {
    let key = LockKey::new("a").unwrap();
    let no_key = || KeyError::new("no header");
    let error = || LockError::ShutDown;
    let all = [
        Refusal::NoKey(no_key()),
        Refusal::NoWeight(no_key()),
        Refusal::NoLimit(no_key()),
        Refusal::NoOwner(no_key()),
        Refusal::Held(error()),
        Refusal::HeldByItself(error()),
        Refusal::Done(error()),
        Refusal::Full(error()),
        Refusal::Closed(error()),
        Refusal::RateLimited(error()),
        Refusal::crowded(key, true),
        Refusal::Unavailable(error()),
        Refusal::Lost(LossReason::Expired),
        Refusal::Misconfigured(error()),
    ];
    let guide = include_str!("../../../docs/guide/http.md");
    let mut types = std::collections::BTreeSet::new();
    for refusal in &all {
        let (kind, _) = refusal.kind();
        let line = guide.lines().find(|line| line.contains(&format!("`{kind}`")));
        let line = line.unwrap_or_else(|| panic!("{kind}"));
        assert!(line.contains(refusal.status().as_str()), "{line}");
        let body = refusal.to_response().into_body();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.starts_with(&format!("{{\"type\":\"{TYPES}{kind}\"")), "{body}");
        types.insert(kind);
    }
    assert_eq!(types.len(), all.len());
}

#[test]
fn client_and_server_errors_have_their_own_statuses() {
    for (error, status) in [
        (LockError::ShutDown, 503),
        (LockError::invalid_key("", "it is empty"), 400),
        (LockError::InvalidOption { option: "ttl", problem: "0".into() }, 500),
    ] {
        assert_eq!(Refusal::from(error).status(), status);
    }
}
