//! Events of the harness itself: phases, stalls, deaths.
//!
//! Owns what they change. Must not know operations. Goes into [`Facts`](crate::facts::Facts).
use super::Collector;
use crate::event::Event;

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
            "stall" => {
                let ms = event.value.ms.unwrap_or(0.0);
                self.facts.faults.stall(event.time, ms);
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
                        ended.push(format!("client {client} ended by itself ({how})"));
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
}
