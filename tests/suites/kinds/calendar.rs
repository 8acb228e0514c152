//! Ticks of a calendar on a server whose clock is moved. The clients' clocks are those of today, so they
//! name other ticks at first.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::civil::{DateTime, datetime};
use jiff::tz::TimeZone;
use leasehold::{LockError, Locks, Mutex, Tick, distributed_lock};
use leasehold_tests::server::Server;
use leasehold_tests::waiting::until;

const HOUR: Duration = Duration::from_secs(3600);

/// A server whose clock stands, and is set to times of a zone.
struct Clock {
    server: Server,
    zone: &'static str,
    now: SystemTime,
}

impl Clock {
    async fn at(zone: &'static str, time: DateTime) -> (Self, Locks) {
        let server = Server::start_skewed();
        server.stop_clock();
        let locks = Locks::connect(&server.url()).await.unwrap();
        let mut redis = server.redis().await;
        let (secs, micros): (u64, u32) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
        let now = UNIX_EPOCH + Duration::new(secs, micros * 1000);
        let mut clock = Self { server, zone, now };
        clock.set(time);
        (clock, locks)
    }

    fn time(&self, time: DateTime) -> SystemTime {
        time.to_zoned(TimeZone::get(self.zone).unwrap()).unwrap().timestamp().into()
    }

    fn set(&mut self, time: DateTime) {
        let time = self.time(time);
        match time.duration_since(self.now) {
            Ok(on) => self.server.jump(on),
            Err(back) => self.server.jump_back(back.duration()),
        }
        self.now = time;
    }
}

/// The run of a tick that is not done yet.
async fn runs(mutex: &Mutex) -> Tick {
    let lease = mutex.try_lock().await.unwrap();
    let tick = lease.tick().unwrap();
    lease.complete().await.unwrap();
    tick
}

/// The end of a tick that is done.
async fn is_done(mutex: &Mutex) -> SystemTime {
    match mutex.try_lock().await {
        Err(LockError::Done { until, .. }) => until,
        other => panic!("{other:?}"),
    }
}

/// A report of other schedulers: a daily job at 01:30 lost the Monday after the clocks went forward,
/// because both runs were in one day of UTC.
#[tokio::test]
async fn a_day_is_a_day_of_the_zone() {
    let (mut clock, locks) = Clock::at("Europe/Berlin", datetime(2026, 3, 28, 1, 30, 0, 0)).await;
    let daily = locks.mutex("report").schedule("daily in Europe/Berlin");
    for (month, day) in [(3, 28), (3, 29), (3, 30), (3, 31)] {
        clock.set(datetime(2026, month, day, 1, 30, 0, 0));
        let tick = runs(&daily).await;
        assert_eq!(tick.began, clock.time(datetime(2026, month, day, 0, 0, 0, 0)));
        for hour in [2, 12, 23] {
            clock.set(datetime(2026, month, day, hour, 59, 59, 0));
            let next = datetime(2026, month, day, 0, 0, 0, 0).date().tomorrow().unwrap();
            assert_eq!(is_done(&daily).await, clock.time(next.into()), "{month}-{day}, {hour}");
        }
    }
    // An hour longer than others.
    clock.set(datetime(2026, 10, 25, 0, 0, 1, 0));
    runs(&daily).await;
    clock.now += HOUR * 24;
    clock.server.jump(HOUR * 24);
    is_done(&daily).await;
    clock.set(datetime(2026, 10, 26, 0, 0, 0, 0));
    runs(&daily).await;
}

#[tokio::test]
async fn a_month_is_as_long_as_it_is() {
    let (mut clock, locks) = Clock::at("UTC", datetime(2028, 1, 31, 12, 0, 0, 0)).await;
    let monthly = locks.mutex("bill").schedule("monthly in UTC");
    assert_eq!(runs(&monthly).await.missed, None);
    for month in 2..=12 {
        for day in [1, 28] {
            clock.set(datetime(2028, month, day, 0, 0, 0, 0));
            if day == 1 {
                assert_eq!(runs(&monthly).await.missed, Some(0), "{month}");
            } else {
                is_done(&monthly).await;
            }
        }
    }
    clock.set(datetime(2029, 5, 31, 23, 59, 59, 0));
    assert_eq!(runs(&monthly).await.missed, Some(4), "January to April");
}

/// By a pattern that names a time that never comes on one day, and comes twice on another.
#[tokio::test]
async fn a_time_that_never_comes_or_comes_twice_is_one_tick() {
    let (mut clock, locks) = Clock::at("Europe/Berlin", datetime(2026, 3, 28, 2, 30, 0, 0)).await;
    let job = locks.mutex("job").schedule("30 2 * * * in Europe/Berlin");
    runs(&job).await;
    clock.set(datetime(2026, 3, 29, 1, 59, 59, 0));
    is_done(&job).await;
    clock.set(datetime(2026, 3, 29, 4, 0, 0, 0));
    runs(&job).await;
    is_done(&job).await;
    clock.set(datetime(2026, 10, 25, 1, 0, 0, 0));
    assert_eq!(runs(&job).await.began, clock.time(datetime(2026, 10, 24, 2, 30, 0, 0)));
    // For the first time, and then for the second.
    clock.set(datetime(2026, 10, 25, 2, 30, 0, 0));
    runs(&job).await;
    clock.now += HOUR;
    clock.server.jump(HOUR);
    is_done(&job).await;
}

#[tokio::test]
async fn a_run_that_fails_leaves_the_tick_to_others() {
    let (_clock, locks) = Clock::at("UTC", datetime(2026, 2, 28, 0, 0, 0, 0)).await;
    let weekdays = locks.mutex("job").schedule("0 9 * * 1-5 in UTC");
    let lease = weekdays.try_lock().await.unwrap();
    assert!(matches!(weekdays.try_lock().await, Err(LockError::Busy { .. })));
    lease.release().await.unwrap();
    runs(&weekdays).await;
    is_done(&weekdays).await;
}

/// A deploy goes from a period to a calendar, and back.
#[tokio::test]
async fn the_last_success_counts_by_the_new_ticks() {
    let (mut clock, locks) = Clock::at("Europe/Berlin", datetime(2026, 7, 1, 0, 30, 0, 0)).await;
    let of_utc = locks.mutex("job").once_per(HOUR * 24);
    let of_berlin = locks.mutex("job").schedule("daily in Europe/Berlin");
    runs(&of_utc).await;
    is_done(&of_berlin).await;
    clock.set(datetime(2026, 7, 1, 3, 0, 0, 0));
    is_done(&of_berlin).await;
    // It is 01:00 in UTC, and that day has no success yet.
    runs(&of_utc).await;
    clock.set(datetime(2026, 7, 2, 0, 30, 0, 0));
    is_done(&of_utc).await;
    runs(&of_berlin).await;
}

/// One that asks a little too early waits for its tick, also where the ticks around it differ in length.
#[tokio::test]
async fn a_call_that_comes_early_waits_for_its_tick() {
    let (mut clock, locks) = Clock::at("Europe/Berlin", datetime(2026, 3, 29, 12, 0, 0, 0)).await;
    let daily = locks.mutex("job").schedule("daily in Europe/Berlin");
    runs(&daily).await;
    clock.set(datetime(2026, 3, 29, 23, 59, 59, 0));
    clock.now += Duration::from_millis(500);
    clock.server.jump(Duration::from_millis(500));
    let early = daily.clone().wait(Duration::from_secs(60));
    let asks = clock.server.script_calls().await;
    let call = tokio::spawn(async move { early.lock().await });
    until("it has asked", async || clock.server.script_calls().await > asks).await;
    assert!(!call.is_finished());
    clock.set(datetime(2026, 3, 30, 0, 0, 0, 0));
    let lease = call.await.unwrap().unwrap();
    assert_eq!(lease.tick().unwrap().began, clock.now);
    lease.complete().await.unwrap();
    is_done(&daily).await;
}

/// A client whose clock is right asks once; another one asks once more.
#[tokio::test]
async fn a_clock_that_differs_costs_one_command() {
    let server = Server::start_skewed();
    let locks = Locks::connect(&server.url()).await.unwrap();
    let yearly = locks.mutex("a").schedule("yearly in UTC");
    runs(&yearly).await;
    server.forget_stats().await;
    is_done(&yearly).await;
    assert_eq!(server.script_calls().await, 1);
    server.jump(HOUR * 24 * 366);
    runs(&yearly).await;
    server.forget_stats().await;
    is_done(&yearly).await;
    assert!(server.script_calls().await <= 2);
}

#[distributed_lock(key = "job", schedule = "0 4 * * * in Asia/Kathmandu", if_held = "skip", locks = locks)]
async fn by_attribute(locks: &Locks) -> Result<Option<u32>, LockError> {
    Ok(Some(1))
}

#[tokio::test]
async fn the_attribute_has_schedules() {
    let (mut clock, locks) = Clock::at("Asia/Kathmandu", datetime(2026, 6, 1, 4, 0, 0, 0)).await;
    assert_eq!(by_attribute(&locks).await.unwrap(), Some(1));
    clock.set(datetime(2026, 6, 2, 3, 59, 59, 0));
    assert_eq!(by_attribute(&locks).await.unwrap(), None);
    clock.set(datetime(2026, 6, 2, 4, 0, 0, 0));
    assert_eq!(by_attribute(&locks).await.unwrap(), Some(1));
}

#[tokio::test]
async fn what_is_no_schedule_is_reported_by_the_acquisition() {
    let locks = Locks::in_memory();
    let daily = locks.mutex("a").schedule("daily in Mars/Olympus");
    let error = daily.try_lock().await.unwrap_err().to_string();
    assert!(error.contains("schedule") && error.contains("Mars/Olympus"), "{error}");
    let both = locks.mutex("a").schedule("daily in UTC").once_per(HOUR);
    let error = both.try_lock().await.unwrap_err().to_string();
    assert!(error.contains("`once_per`") && error.contains("leave out one"), "{error}");
    let error = Locks::in_memory().mutex("a").schedule("daily in UTC").linger(HOUR).lock().await;
    assert!(matches!(error, Err(LockError::InvalidOption { option: "schedule", .. })), "{error:?}");
}

/// In memory, for two years: each day has one success, however often it is tried.
#[tokio::test(start_paused = true)]
async fn each_day_has_one_success() {
    let locks = Locks::in_memory();
    let daily = locks.mutex("a").schedule("daily in America/New_York");
    let (mut runs, mut last) = (0, None);
    for _ in 0..730 * 5 {
        match daily.try_lock().await {
            Ok(lease) => {
                let tick = lease.tick().unwrap();
                assert_ne!(Some(tick.began), last);
                last = Some(tick.began);
                assert!(tick.missed.unwrap_or_default() == 0, "{tick:?}");
                lease.complete().await.unwrap();
                runs += 1;
            }
            Err(error) => assert!(error.is_done(), "{error}"),
        }
        tokio::time::sleep(Duration::from_secs(24 * 3600 / 5)).await;
    }
    assert!((730..=731).contains(&runs), "{runs}");
}
