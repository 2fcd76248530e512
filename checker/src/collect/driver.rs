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
                    self.client_died(client, event.time);
                }
                if self.in_tail {
                    self.facts.tail_from = Some(event.time);
                }
            }
            _ => {}
        }
    }

    fn client_died(&mut self, client: Name, at: Ns) {
        let sections = &mut self.facts.sections;
        for seat in self.seats.all().iter().filter(|s| s.client == client) {
            if seat.hold.section != NO_SECTION {
                let s = &mut sections[seat.hold.section as usize];
                if s.hold_end() > at {
                    s.over = at;
                    s.died = true;
                    self.crowds.let_go(seat.crowd, at);
                }
            }
        }
        self.seats.died(client);
    }
}
