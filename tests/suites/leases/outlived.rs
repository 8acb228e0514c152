//! The end of a process whose server does not answer: it says once what is left, and no thread panics.

use leasehold_tests::server::Server;

use super::ready;

/// The lease, and the requests that are given up.
const LEFT: usize = 1 + 8;

/// All that the process says after the server is frozen.
async fn said(flavour: &str, how: &str) -> Vec<String> {
    let server = Server::start();
    let mut process = ready(&server, &["outlived", flavour, how]);
    let _frozen = server.freeze().await;
    process.go_on();
    let said = tokio::task::spawn_blocking(move || (process.rest(), process.is_success()));
    let (said, is_success) = said.await.unwrap();
    assert!(is_success, "{flavour}, {how}: {said:#?}");
    let panicked = said.iter().any(|line| line.contains("panicked"));
    assert!(!panicked, "{flavour}, {how}: {said:#?}");
    said
}

fn lines_about_what_is_left(said: &[String]) -> Vec<&String> {
    said.iter().filter(|line| line.contains("their TTLs end them")).collect()
}

/// Each of its threads has used the client, and all of them end.
#[tokio::test]
async fn a_process_says_once_what_is_left() {
    for flavour in ["one", "many"] {
        for how in ["main", "pool", "exit", "static"] {
            let said = said(flavour, how).await;
            let lines = lines_about_what_is_left(&said);
            assert_eq!(lines.len(), 1, "{flavour}, {how}: {said:#?}");
            let labels = lines[0].contains("asked") && lines[0].contains("dropped");
            assert!(labels, "{flavour}, {how}: {said:#?}");
            if how == "static" {
                assert!(said.iter().any(|line| line == "asked: true"), "{said:#?}");
            } else {
                assert!(lines[0].contains(&format!("left={LEFT}")), "{flavour}, {how}: {said:#?}");
            }
        }
    }
}

/// The report, the log and the end of the process say the same, once; and the end does not wait again for
/// what the shutdown has waited for.
#[tokio::test]
async fn a_process_that_was_shut_down_says_no_more() {
    for flavour in ["one", "many"] {
        for how in ["shutdown", "shutdown-without"] {
            let said = said(flavour, how).await;
            let lines = lines_about_what_is_left(&said);
            assert_eq!(lines.len(), 1, "{flavour}, {how}: {said:#?}");
            let report = format!("report: {LEFT} [\"asked\", \"dropped\"]");
            assert!(said.contains(&report), "{flavour}, {how}: {said:#?}");
            let logged = format!("left={LEFT} locks=\"asked, dropped\"");
            assert!(lines[0].contains(&logged), "{flavour}, {how}: {said:#?}");
        }
    }
}
