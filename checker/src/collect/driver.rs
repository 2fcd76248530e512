//! What the driver says beside operations: phases, stalls, births and deaths, what clients are, steps of a schedule.
//!
//! Owns the reading of these events. Must not know operations. Fills in [`crate::facts::Facts`].
use super::Collector;
use crate::event::Event;
use crate::names::Name;
use crate::section::{NO_SECTION, Ns};

impl Collector {
    pub(super) fn driver(&mut self, event: &Event<'_>) {
        match event.f.as_ref() {
            "phase" => match event.value.phase.as_deref() {
                Some("tail") => {
                    self.in_tail = true;
                    self.facts.tail_from = Some(event.time);
                }
                Some("final") => self.in_tail = false,
                Some("end") => self.facts.ended = true,
                _ => {}
            },
            "library" => {
                let says = event.value.proof.as_deref().unwrap_or_default();
                let says: serde_json::Value = serde_json::from_str(says).unwrap_or_default();
                if says["promises_notice"] == true {
                    self.facts.header.model.promises_notice = true;
                }
            }
            "stall" => {
                let ms = event.value.ms.unwrap_or(0.0);
                self.facts.faults.stall(event.time, ms);
            }
            "step" if event.error.is_some() => {
                let what = event.value.text.as_deref().unwrap_or("a step");
                let lacks = &mut self.facts.off_schedule;
                lacks.push(format!("the schedule did not happen as written: {what}"));
            }
            "proxy" if event.error.is_some() => {
                self.facts.proxy_lost = true;
                let what = event.value.proof.as_deref().unwrap_or("is lost");
                let ended = &mut self.facts.ended_by_themselves;
                ended.push(format!("Toxiproxy {what}"));
            }
            "server" if event.error.is_some() => {
                self.facts.server_lost = true;
                let what = event.value.proof.as_deref().unwrap_or("is not said");
                let ended = &mut self.facts.ended_by_themselves;
                ended.push(format!("a server was lost by no fault of the run ({what})"));
            }
            "adapter" if event.error.is_some() => {
                let client = event.client.as_deref().unwrap_or("?");
                let what = event.value.proof.as_deref().unwrap_or("is lost");
                let ended = &mut self.facts.ended_by_themselves;
                ended.push(format!("client {client} {what}"));
                if event.error.as_deref() == Some("stopped") {
                    let client = self.facts.names.number(client);
                    self.facts.stopped.push(client);
                }
            }
            "death" => {
                if let Some(client) = event.client.as_deref() {
                    if event.error.is_some() {
                        let how = event
                            .value
                            .proof
                            .as_deref()
                            .unwrap_or("it is not known how");
                        let ended = &mut self.facts.ended_by_themselves;
                        ended.push(format!(
                            "client {client} ended by no fault of the run ({how})"
                        ));
                    }
                    let client = self.facts.names.number(client);
                    self.holders_died(client, None, event.time);
                    self.seats.died(client);
                }
                self.counts_anew(event.time);
            }
            "thread-end" => self.thread_ended(event),
            _ => {}
        }
    }

    fn thread_ended(&mut self, event: &Event<'_>) {
        if let (Some(client), Some(worker)) = (event.client.as_deref(), event.worker) {
            let client = self.facts.names.number(client);
            // The earliest end accuses nobody wrongly.
            let since = event.value.not_before.unwrap_or(event.time);
            self.holders_died(client, Some(worker), since.min(event.time));
        }
        self.counts_anew(event.time);
    }

    /// A holder is gone: in the tail, what is waited for is counted from here.
    fn counts_anew(&mut self, at: Ns) {
        if self.in_tail {
            self.facts.tail_from = Some(at);
        }
    }

    /// What `client` held, or one `worker` of it, is held by nobody from `at` on.
    fn holders_died(&mut self, client: Name, worker: Option<u32>, at: Ns) {
        let sections = &mut self.facts.sections;
        let dead = |w: u32| worker.is_none_or(|of| of == w);
        let seats = self.seats.all().iter();
        for seat in seats.filter(|s| s.client == client && dead(s.worker)) {
            if seat.hold.section != NO_SECTION {
                let s = &mut sections[seat.hold.section as usize];
                if s.hold_end() > at {
                    s.over = at;
                    s.died = true;
                    self.crowds.let_go(seat.crowd, at);
                }
            }
        }
    }
}
