//! What is gone once all faults are healed: Toxiproxy or its proxies, and servers that do not run or do not answer.
//!
//! Owns the two looks and their events. Must not know what follows from a loss: that is the checker's. Where members of a
//! cluster stand in for each other, nothing else need tell that one is gone.
use super::driver_event;
use crate::fault::World;
use crate::record::Sink;

/// Asks Toxiproxy for its version and each link's proxy; what it lacks goes on record, for then nothing went through.
pub(super) async fn proxy(world: &World, when: &str) -> bool {
    let what = match world.cluster.toxiproxy().version().await {
        Err(error) => format!("gave no answer {when}: {error}"),
        Ok(_) => match world.cluster.link_lost().await {
            Some(why) => format!("had lost a link {when}: {why}"),
            None => return false,
        },
    };
    say(world, ("proxy", "silent"), &what);
    true
}

/// Looks at every server; no fault of the run took one that does not run or answer now. Whether there is such a one.
pub(super) async fn servers(world: &World) -> bool {
    let lost = world.cluster.lost().await;
    for what in &lost {
        say(world, ("server", "lost"), what);
    }
    !lost.is_empty()
}

fn say(world: &World, (f, error): (&'static str, &'static str), what: &str) {
    let mut event = driver_event(world.clock.now(), f, |value| {
        value.proof = Some(what.into());
    });
    event.error = Some(error.into());
    world.recorder.emit(event);
}
