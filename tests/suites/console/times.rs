//! Times: how long ago, the time of day, and the chart.

use std::time::{Duration, SystemTime};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use leasehold::{Locks, Wait};
use tokio::time::sleep;

use super::live::Viewer;
use super::{app, get, lock_page};

const LONG: Duration = Duration::from_secs(600);

/// How far the tooltip of a cell is from now, in seconds, and the text of the cell.
fn times(text: &str, label: &str) -> Vec<(i64, String)> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let cell = format!("data-label=\"{label}\">");
    let cells = text.split(&cell).skip(1);
    let cells = cells.map(|cell| cell.split("</td>").next().unwrap());
    let times = cells.map(|cell| {
        let time = cell.split("<time title=\"").nth(1).unwrap_or_else(|| panic!("{cell}"));
        let (at, rest) = time.split_once("\">").unwrap();
        let at: DateTime = at.strip_suffix(" UTC").expect("a zone").parse().unwrap();
        let at = at.to_zoned(TimeZone::UTC).unwrap().timestamp().as_second();
        (at - i64::try_from(now).unwrap(), rest.split('<').next().unwrap().to_owned())
    });
    times.collect()
}

#[tokio::test(start_paused = true)]
async fn times_have_the_time_of_day() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("a").ttl(LONG).auto_renew(false).lock().await.unwrap();
    let waiting = locks.mutex("a").wait(Wait::Forever);
    let waiting = tokio::spawn(async move { waiting.lock().await });
    sleep(Duration::from_secs(200)).await;
    let app = app(&locks);
    let (lock, list) = (get(&app, &lock_page("a")).await.text, get(&app, "/locks").await.text);
    for (text, label, wanted, shown) in [
        (&lock, "Held for", -200, "3m20s"),
        (&lock, "Waits for", -200, "3m20s"),
        (&lock, "Lease ends in", 400, "6m40s"),
        (&list, "For", -200, "3m20s"),
    ] {
        let times = times(text, label);
        let [(at, short)] = &times[..] else { panic!("{label}: {times:?}") };
        // A busy machine takes its time from one to the other.
        assert!((at - wanted).abs() < 20, "{label}: {at}");
        // The waiter begins a bit later.
        assert_eq!(&short[..3], &shown[..3], "{label}");
    }
    waiting.abort();
}

/// Whom to call comes first. The chart comes last, and says how high and how long it is.
#[tokio::test(start_paused = true)]
async fn the_chart_is_below_the_holders_and_has_a_scale() {
    let locks = Locks::in_memory();
    let _lease = locks.mutex("a").owner("worker-1").ttl(LONG).lock().await.unwrap();
    sleep(Duration::from_secs(60)).await;
    let mut viewer = Viewer::of(&app(&locks), "/locks/lock-events?name=a").await;
    let html = loop {
        let (_, html) = viewer.next().await.expect("it goes on");
        if html.contains("<polyline") {
            break html;
        }
    };
    let place = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text}: {html}"));
    assert!(place("worker-1") < place("<h2>Queue</h2>"), "{html}");
    assert!(place("<h2>Queue</h2>") < place("<figure"), "{html}");
    let scale = html.split("class=\"scale\"").nth(1).unwrap().split("</div>").next().unwrap();
    let marks: Vec<_> = scale.split("<span>").skip(1).map(|it| &it[..3]).collect();
    assert_eq!((marks[0], marks[1], marks[2]), ("1m0", "30s", "0s<"), "{html}");
    assert!(html.contains("2 minutes ago") && html.contains("<span>now</span>"), "{html}");
}
