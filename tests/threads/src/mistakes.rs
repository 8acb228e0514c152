//! The planted mistakes. Each is built into the copy of the client beside the code that it
//! replaces, and a test switches it on.

#[path = "../../harness/planting.rs"]
pub(crate) mod planting;

pub(crate) use self::planting::Mistake;

/// All of them.
pub(crate) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "the task sleeps although something came after its last look",
        file: "store/redis/work_queue.rs",
        code: "queue.sleeper = Some(context.waker().clone());
                return Poll::Pending;",
        wrong: "drop(queue);
                lock(&self.queue).sleeper = Some(context.waker().clone());
                return Poll::Pending;",
    },
    Mistake {
        name: "a caller leaves its item to whoever is at work",
        file: "store/redis/work_queue.rs",
        code: "self.work.try_lock().is_ok_and(|mut work| work_here(&mut work))",
        wrong: "self.work.try_lock().map_or(true, |mut work| work_here(&mut work))",
    },
    Mistake {
        name: "the queue is emptied before it is closed",
        file: "store/redis/work_queue.rs",
        code: "queue.is_closed = true;
            std::mem::take(&mut queue.items)",
        wrong: "let items = std::mem::take(&mut queue.items);
            drop(queue);
            lock(&self.queue).is_closed = true;
            items",
    },
    Mistake {
        name: "an answer of an abandoned call is waited for",
        file: "store/redis/work_queue.rs",
        code: "std::mem::take(&mut *self.work())",
        wrong: "self.work.try_lock().map_or_else(|_| W::default(), |mut work| std::mem::take(&mut *work))",
    },
    Mistake {
        name: "the driver looks for wakes before it lets them through",
        file: "store/redis/driver.rs",
        code: "self.wake.is_held_back.store(false, Ordering::SeqCst);",
        wrong: "if self.wake.was_woken.swap(false, Ordering::SeqCst) {
            self.wake.task.wake();
        }
        self.wake.is_held_back.store(false, Ordering::SeqCst);
        return;",
    },
    Mistake {
        name: "the driver forgets the wakes of its own poll",
        file: "store/redis/driver.rs",
        code: "self.poll_once(&mut work).is_ready()",
        wrong: "let has_ended = self.poll_once(&mut work).is_ready();
            self.wake.was_woken.store(false, Ordering::SeqCst);
            has_ended",
    },
    Mistake {
        name: "a wake is noted after it was held back",
        file: "store/redis/driver.rs",
        code: "self.was_woken.store(true, Ordering::SeqCst);
        if !self.is_held_back.load(Ordering::SeqCst) {
            self.task.wake();
        }",
        wrong: "if self.is_held_back.load(Ordering::SeqCst) {
            self.was_woken.store(true, Ordering::SeqCst);
        } else {
            self.task.wake();
        }",
    },
    Mistake {
        name: "the connection outlives its task while a caller polls it",
        file: "store/redis/driver.rs",
        code: "lock(&self.0.work).take()",
        wrong: "self.0.work.try_lock().ok().and_then(|mut work| work.take())",
    },
    Mistake {
        name: "a shutdown is looked at before it is listened to",
        file: "state/shutdown.rs",
        code: "let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if condition(self) {
                return;
            }
            changed.await;",
        wrong: "if condition(self) {
                return;
            }
            self.changed.notified().await;",
    },
    Mistake {
        name: "a lease is counted out before its release is counted",
        file: "state/shutdown.rs",
        code: "if by_release {
            self.note_release();
        }
        self.counts.left.fetch_sub(LEASE, Ordering::SeqCst);",
        wrong: "self.counts.left.fetch_sub(LEASE, Ordering::SeqCst);
        if by_release {
            self.note_release();
        }",
    },
    Mistake {
        name: "a shutdown looks at acquisitions after what they leave",
        file: "state/shutdown.rs",
        code: "it.counts.acquiring.load(Ordering::SeqCst) == 0 && it.is_drained()",
        wrong: "it.is_drained() && it.counts.acquiring.load(Ordering::SeqCst) == 0",
    },
    Mistake {
        name: "a shutdown reads activities and leases one after the other",
        file: "state/shutdown.rs",
        code: "self.counts.left.load(Ordering::SeqCst) == 0",
        wrong: "self.counts.left.load(Ordering::SeqCst) % LEASE == 0
            && self.counts.left.load(Ordering::SeqCst) / LEASE == 0",
    },
    Mistake {
        name: "a lease looks at its phase before it changes it",
        file: "state/lease/phase.rs",
        code: "self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()",
        wrong: "let is_there = self.get() == from;
        if is_there {
            self.0.store(to, Ordering::Release);
        }
        is_there",
    },
    Mistake {
        name: "a lease looks whether it was counted out before it notes it",
        file: "state/lease.rs",
        code: "!self.is_counted_out.swap(true, Ordering::AcqRel)",
        wrong: "{
            let is_counted_out = self.is_counted_out.load(Ordering::Acquire);
            self.is_counted_out.store(true, Ordering::Release);
            !is_counted_out
        }",
    },
    Mistake {
        name: "a lease is looked at before it is listened to",
        file: "state/lease/loss.rs",
        code: "let mut changed = std::pin::pin!(self.changed.notified());
        changed.as_mut().enable();
        if self.is_held() {
            tokio::select! {
                () = changed => {}
                () = self.context.shutdown.over() => {}
            }
        }",
        wrong: "if self.is_held() {
            tokio::select! {
                () = self.changed.notified() => {}
                () = self.context.shutdown.over() => {}
            }
        }",
    },
    Mistake {
        name: "a waiter is woken while the queues are locked",
        file: "local_queue/queues.rs",
        code: "while let Some(waiter) = queue.admit_first(self.now()) {
                admitted.push(waiter);
            }",
        wrong: "while let Some(waiter) = queue.admit_first(self.now()) {
                self.admit(name, waiter, AdmissionState::Asks(generation).into());
            }",
    },
    Mistake {
        name: "a waiter that goes looks for its admission, and may get one after that",
        file: "local_queue/waiter.rs",
        code: "self.admitted.close();",
        wrong: "",
    },
    Mistake {
        name: "an acquisition looks whether it must wait, and then waits",
        file: "local_queue/waiter.rs",
        code: "let waiter = self.wait_in(queue, name, spec, (ttl, whole));
        drop(queues);
        cancel(unsuitable);
        if lingers {
            self.be_patient(&waiter.name, waiter.number);
        }
        Entry::Waiter(waiter)",
        wrong: "drop(queues);
        cancel(unsuitable);
        let mut queues = self.lock();
        let queue = self.queue(&mut queues, &name, now);
        let waiter = self.wait_in(queue, name, spec, (ttl, whole));
        drop(queues);
        if lingers {
            self.be_patient(&waiter.name, waiter.number);
        }
        Entry::Waiter(waiter)",
    },
    Mistake {
        name: "a renewed lease is put back although its holder has ended it",
        file: "keeper/timetable.rs",
        code: "if local.has_ended() {
            return false;
        }",
        wrong: "",
    },
    Mistake {
        name: "a lease's slot is read before the timetable is locked",
        file: "keeper/state.rs",
        code: "let mut agenda = self.agenda();
        if let Some(slot) = slot_of(local).take() {
            agenda.timetable.take_out(slot);
        }",
        wrong: "let slot = slot_of(local).take();
        if let Some(slot) = slot {
            self.agenda().timetable.take_out(slot);
        }",
    },
    Mistake {
        name: "the keeper is woken before its job is there",
        file: "keeper/state.rs",
        code: "agenda.jobs.push((id, job));
        drop(agenda);
        self.changed.notify_one();",
        wrong: "drop(agenda);
        self.changed.notify_one();
        self.agenda().jobs.push((id, job));",
    },
    Mistake {
        name: "the end of a job is told before it is noted",
        file: "keeper/state.rs",
        code: "let mut agenda = self.shared.agenda();
        let was_unfinished = agenda.unfinished.remove(&self.id);
        debug_assert!(was_unfinished || agenda.is_closed, \"a job finishes twice\");
        drop(agenda);
        self.shared.finished.notify_all();",
        wrong: "self.shared.finished.notify_all();
        self.shared.agenda().unfinished.remove(&self.id);",
    },
];
