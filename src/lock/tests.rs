//! Each lock in virtual time: Redlock's arithmetic, lost and late messages, and the one mistake of each wrong lock.
use super::sim::{Link, World};
use super::*;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(1);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
const KEY: &str = "fp:lock:0";

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn lock(name: &str) -> Box<dyn Lock<World>> {
    make(name, false)
}

fn make(name: &str, fencing: bool) -> Box<dyn Lock<World>> {
    let settings = Settings {
        ttl: TTL,
        node_timeout: NODE_TIMEOUT,
        fencing,
        wait: 0,
    };
    build(name, settings).expect("a built-in lock")
}

fn held(owner: &str) -> Held<'_> {
    Held { owner, until: None }
}

fn acquire(world: &World, lock: &dyn Lock<World>, owner: &str) -> Result<Grant, LockError> {
    world.run(lock.acquire(world, KEY, owner))
}

fn release(world: &World, lock: &dyn Lock<World>, owner: &str) -> Result<(), LockError> {
    world.run(lock.release(world, KEY, held(owner)))
}

fn holders(world: &World, owner: &str) -> usize {
    (0..world.nodes())
        .filter(|n| world.value(*n, KEY).as_deref() == Some(owner))
        .count()
}

#[test]
fn validity_is_lease_less_elapsed_less_drift() {
    assert_eq!(validity(millis(1000), millis(0)), Some(millis(988)));
    assert_eq!(validity(millis(1000), millis(987)), Some(millis(1)));
    assert_eq!(
        validity(millis(1000), millis(988)),
        None,
        "nothing left is no grant"
    );
    assert_eq!(validity(millis(1000), millis(5000)), None);
    assert_eq!(validity(millis(2), millis(0)), None);
    let short = Settings {
        ttl: millis(2),
        node_timeout: millis(1),
        fencing: false,
        wait: 0,
    };
    assert!(matches!(
        build::<World>("redlock", short),
        Err(BuildError::TooShort(_))
    ));
}

#[test]
fn quorum_is_the_smallest_majority() {
    let quorums: Vec<usize> = (1..=7).map(redlock::quorum).collect();
    assert_eq!(quorums, [1, 2, 2, 3, 3, 4, 4]);
}

#[test]
fn every_lock_in_the_registry_can_be_built_and_says_why_it_has_no_tokens() {
    for info in LOCKS {
        assert!(
            build::<World>(
                info.name,
                Settings {
                    ttl: TTL,
                    node_timeout: NODE_TIMEOUT,
                    fencing: false,
                    wait: 0,
                }
            )
            .is_ok()
        );
        let fenced = build::<World>(
            info.name,
            Settings {
                ttl: TTL,
                node_timeout: NODE_TIMEOUT,
                fencing: true,
                wait: 0,
            },
        );
        assert_eq!(fenced.is_err(), info.no_fencing.is_some(), "{}", info.name);
    }
    let error = build::<World>(
        "redlok",
        Settings {
            ttl: TTL,
            node_timeout: NODE_TIMEOUT,
            fencing: false,
            wait: 0,
        },
    );
    assert!(
        error
            .err()
            .expect("no such lock")
            .to_string()
            .contains("redlock")
    );
}

#[test]
fn redlock_reads_the_clock_after_the_reply_that_counts() {
    let world = World::new(5);
    // The third OK comes after 2 · 15 ms; the slowest two do not count.
    for (node, way) in [1, 5, 15, 20, 24].into_iter().enumerate() {
        world.link(node, Link::Takes(millis(way), millis(way)));
    }
    let grant = acquire(&world, &*lock("redlock"), "a").expect("free");
    assert_eq!(world.now(), millis(30));
    assert_eq!(grant.validity, Some(millis(1000 - 30 - 12)));
    assert_eq!(grant.token, None);
}

#[test]
fn redlock_survives_a_minority_and_no_more() {
    for bad in [
        Link::Refused,
        Link::RequestLost,
        Link::AnswerLost(millis(1)),
    ] {
        let world = World::new(5);
        let redlock = lock("redlock");
        for node in 3..5 {
            world.link(node, bad);
        }
        let grant = acquire(&world, &*redlock, "a").expect("three of five");
        assert_eq!(
            grant.validity,
            Some(millis(986)),
            "a silent minority costs no time"
        );
        assert_eq!(
            acquire(&world, &*redlock, "b").expect_err("held"),
            LockError::NoQuorum {
                clean: bad == Link::Refused
            }
        );
        assert_eq!(holders(&world, "a").min(3), 3);
        assert_eq!(release(&world, &*redlock, "a"), Ok(()));
        world.link(2, bad);
        let start = world.now();
        let failed = acquire(&world, &*redlock, "c").expect_err("two of five");
        assert_eq!(
            failed,
            LockError::NoQuorum {
                clean: bad == Link::Refused
            }
        );
        assert!(
            world.now() <= start + 2 * NODE_TIMEOUT,
            "bounded by the node timeout"
        );
        assert_eq!(world.value(0, KEY), None, "given back");
    }
}

#[test]
fn redlock_unlocks_all_nodes_those_that_seemed_not_locked_too() {
    let world = World::new(5);
    for node in 0..3 {
        world.plant(node, KEY, "another");
    }
    // Its SET is executed, though nobody hears of it.
    world.link(4, Link::AnswerLost(millis(1)));
    let failed = acquire(&world, &*lock("redlock"), "a").expect_err("two of five");
    world.pass(millis(100));
    for node in 0..5 {
        assert_eq!(world.sent(node, "Unlock"), 1, "node {node}");
    }
    assert_eq!(holders(&world, "a"), 0);
    assert_eq!(
        holders(&world, "another"),
        3,
        "and nobody else's key is touched"
    );
    assert_eq!(
        failed,
        LockError::NoQuorum { clean: false },
        "the unlock of one node was not confirmed"
    );
}

#[test]
fn redlock_refuses_a_grant_that_came_after_its_lease() {
    let world = World::new(3);
    let settings = Settings {
        ttl: TTL,
        node_timeout: millis(5000),
        fencing: false,
        wait: 0,
    };
    let redlock: Box<dyn Lock<World>> = build("redlock", settings).expect("built");
    for node in 0..3 {
        world.link(node, Link::Takes(millis(1), millis(987)));
    }
    let late = world.run(redlock.acquire(&world, KEY, "a"));
    assert_eq!(
        late,
        Err(LockError::TooLate { clean: true }),
        "988 ms of 1000 leave nothing"
    );
    assert_eq!(holders(&world, "a"), 0);
}

#[test]
fn redlock_gives_up_on_a_hung_majority_and_a_late_set_stays_a_ghost_for_its_lease_only() {
    let world = World::new(3);
    let redlock = lock("redlock");
    for node in 0..2 {
        world.link(node, Link::Takes(millis(300), millis(1)));
    }
    let failed = acquire(&world, &*redlock, "a").expect_err("hung");
    assert_eq!(failed, LockError::NoQuorum { clean: false });
    assert!(world.now() <= 2 * NODE_TIMEOUT);
    world.pass(millis(400));
    assert_eq!(holders(&world, "a"), 0, "the unlock travels behind the SET");
    // Overtaken: the SET is on its way for long, the unlock is not.
    world.link(0, Link::AnswerLost(millis(500)));
    world.link(1, Link::RequestLost);
    let doubtful = world.run(async {
        let attempt = redlock.acquire(&world, KEY, "b");
        let heal = async {
            world.sleep(millis(10)).await;
            world.link(0, Link::Takes(millis(1), millis(1)));
        };
        futures_util::future::join(attempt, heal).await.0
    });
    assert_eq!(
        doubtful,
        Err(LockError::NoQuorum { clean: false }),
        "an unlock that says 0 proves nothing"
    );
    world.pass(millis(600));
    assert_eq!(holders(&world, "b"), 1, "the ghost");
    world.pass(TTL);
    assert_eq!(holders(&world, "b"), 0);
}

#[test]
fn redlock_extends_on_a_majority_and_within_the_validity() {
    let world = World::new(5);
    let redlock = lock("redlock");
    let grant = acquire(&world, &*redlock, "a").expect("free");
    let until = grant.validity.map(|v| world.now() + v);
    let extend = |owner| {
        let held = Held { owner, until };
        world.run(redlock.extend(&world, KEY, held, millis(3000)))
    };
    world.empty(0);
    world.link(1, Link::RequestLost);
    assert_eq!(
        extend("a"),
        Ok(Some(millis(3000 - 2 - 32))),
        "three of five"
    );
    world.empty(2);
    assert_eq!(
        extend("a"),
        Err(LockError::NoQuorum { clean: false }),
        "two, and one that is silent"
    );
    world.empty(3);
    assert_eq!(extend("a"), Err(LockError::NotOwner), "three said no");
    let sent = world.sent(4, "Extend");
    world.pass(millis(2000));
    assert_eq!(extend("a"), Err(LockError::LeaseOver));
    assert_eq!(
        world.sent(4, "Extend"),
        sent,
        "nothing is sent after the lease"
    );
}

#[test]
fn redlock_grants_twice_when_a_node_of_a_thin_quorum_restarts_empty() {
    let world = World::new(5);
    let redlock = lock("redlock");
    for node in 3..5 {
        world.link(node, Link::Refused);
    }
    assert!(acquire(&world, &*redlock, "a").is_ok());
    for node in 3..5 {
        world.link(node, Link::Takes(millis(1), millis(1)));
    }
    assert!(acquire(&world, &*redlock, "b").is_err());
    world.empty(2);
    assert!(
        acquire(&world, &*redlock, "c").is_ok(),
        "what no Redlock can see"
    );
    assert_eq!(release(&world, &*redlock, "a"), Err(LockError::NotOwner));
    assert_eq!(release(&world, &*redlock, "c"), Ok(()));
}

/// Three clients that begin together, each with some of five servers next to it; the round of the first grant.
fn first_grant(rounds: u32, pause: impl Fn(&World) -> Duration + Copy) -> Option<u32> {
    let world = World::new(5);
    let each = [0..2, 2..4, 4..5].map(|near: std::ops::Range<usize>| {
        let far = |n| if near.contains(&n) { 1 } else { 15 };
        let links = (0..5).map(|n| Link::Takes(millis(far(n)), millis(far(n))));
        let place = world.seen_over(links.collect());
        let redlock = lock("redlock");
        async move {
            for round in 0..rounds {
                let owner = place.random().to_string();
                if redlock.acquire(&place, KEY, &owner).await.is_ok() {
                    return Some(round);
                }
                place.sleep(pause(&place)).await;
            }
            None
        }
    });
    let all = world.run(futures_util::future::join_all(each));
    all.into_iter().flatten().min()
}

#[test]
fn redlock_with_equal_fixed_retry_delays_splits_the_vote_again_and_again() {
    let retry = millis(40);
    assert_eq!(first_grant(1000, |_| retry), None);
    let drawn = |world: &World| retry / 2 + millis(world.random() % 20);
    assert!(first_grant(1000, drawn).is_some_and(|round| round < 100));
}

#[test]
fn the_wrong_locks_make_their_one_mistake_and_the_right_one_none() {
    let late_release = |name| {
        let world = World::new(1);
        let lock = lock(name);
        acquire(&world, &*lock, "a").expect("free");
        world.pass(TTL);
        acquire(&world, &*lock, "b").expect("expired");
        let released = release(&world, &*lock, "a");
        (released, holders(&world, "b"))
    };
    assert_eq!(late_release("set-nx-del"), (Ok(()), 0), "deletes b's key");
    assert_eq!(
        late_release("set-nx-get-del"),
        (Err(LockError::NotOwner), 1)
    );
    assert_eq!(late_release("set-nx-lua"), (Err(LockError::NotOwner), 1));

    // The lease ends between GET and DEL.
    let world = World::new(1);
    let get_del = lock("set-nx-get-del");
    acquire(&world, &*get_del, "a").expect("free");
    world.pass(millis(994));
    let (released, granted) = world.run(async {
        let second = async {
            world.sleep(millis(4)).await;
            get_del.acquire(&world, KEY, "b").await
        };
        let release = async {
            world.link(0, Link::Takes(millis(4), millis(4)));
            let release = get_del.release(&world, KEY, held("a"));
            release.await
        };
        futures_util::future::join(release, second).await
    });
    assert!(released.is_ok() && granted.is_ok());
    assert_eq!(holders(&world, "b"), 0, "b's key is gone");

    let world = World::new(1);
    let forever = lock("set-nx-no-ttl");
    acquire(&world, &*forever, "a").expect("free");
    world.pass(millis(1_000_000));
    assert_eq!(acquire(&world, &*forever, "b"), Err(LockError::Held));
    assert_eq!(release(&world, &*forever, "a"), Ok(()));
}

#[test]
fn one_server_outcomes_are_definite_or_not_as_the_table_says() {
    for name in [
        "set-nx-no-ttl",
        "set-nx-del",
        "set-nx-get-del",
        "set-nx-lua",
    ] {
        for fencing in [false, true] {
            let world = World::new(1);
            let lock = make(name, fencing);
            world.link(0, Link::Refused);
            let refused = LockError::Call(CallError::NotSent(Cut::Refused));
            assert_eq!(acquire(&world, &*lock, "a"), Err(refused.clone()));
            assert_eq!(release(&world, &*lock, "a"), Err(refused));
            let silent = LockError::Call(CallError::Unknown(Cut::Timeout));
            world.link(0, Link::AnswerLost(millis(1)));
            assert_eq!(acquire(&world, &*lock, "b"), Err(silent.clone()));
            assert_eq!(holders(&world, "b"), 1, "silence is no failure");
            world.link(0, Link::Takes(millis(1), millis(1)));
            assert_eq!(
                release(&world, &*lock, "b"),
                Ok(()),
                "the doubtful one is cleaned up"
            );
            let grant = acquire(&world, &*lock, "c").expect("free");
            assert_eq!(
                grant.token,
                fencing.then_some(2),
                "{name}: one a grant, answered or not"
            );
            world.link(0, Link::RequestLost);
            assert_eq!(release(&world, &*lock, "c"), Err(silent));
        }
    }
}

#[test]
fn set_nx_lua_gives_back_what_came_too_late() {
    let world = World::new(1);
    let settings = Settings {
        ttl: TTL,
        node_timeout: millis(5000),
        fencing: false,
        wait: 0,
    };
    let lua: Box<dyn Lock<World>> = build("set-nx-lua", settings).expect("built");
    world.link(0, Link::Takes(millis(500), millis(488)));
    assert_eq!(
        acquire(&world, &*lua, "a"),
        Err(LockError::TooLate { clean: true })
    );
    assert_eq!(holders(&world, "a"), 0);
    let naive: Box<dyn Lock<World>> = build("set-nx-del", settings).expect("built");
    assert_eq!(
        acquire(&world, &*naive, "b").expect("granted").validity,
        Some(Duration::ZERO)
    );
}

#[test]
fn replays_are_equal() {
    let play = || {
        let world = World::new(5);
        let redlock = lock("redlock");
        let owner = owner_value(&world);
        world.link(1, Link::Takes(millis(3), millis(70)));
        let grant = acquire(&world, &*redlock, &owner);
        (owner, grant, world.now())
    };
    assert_eq!(play(), play());
}
