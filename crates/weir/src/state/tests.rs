//! The store: texts come back as they were, trials end in time, locks exclude.

use super::*;

struct Scratch(Store);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = format!("weir-state-{}-{name}", std::process::id());
        Scratch(Store::at(std::env::temp_dir().join(folder)))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.root());
    }
}

fn saved(text: &str) -> Saved {
    Saved {
        sources: vec![
            SavedSource {
                name: "dir/rules.v4".to_owned(),
                text: text.to_owned(),
            },
            SavedSource {
                name: "rules.v6".to_owned(),
                text: "*filter\nCOMMIT\n".to_owned(),
            },
        ],
        dialect: Some("iptables".to_owned()),
        allow_unsupported: true,
        names: crate::input::Answers {
            hosts: vec![(
                "gate.example".to_owned(),
                vec!["192.0.2.1".parse().unwrap()],
            )],
            ..Default::default()
        },
        kernel_nat: false,
        applied_at: 1_700_000_000,
    }
}

#[test]
fn policies_are_kept_by_generation_until_pruned() {
    let scratch = Scratch::new("saved");
    let store = &scratch.0;
    let _lock = store.lock().unwrap();
    assert_eq!(store.load(1).unwrap(), None);
    store.save(1, &saved("one\r\n")).unwrap();
    store.save(2, &saved("two")).unwrap();
    store.save(2, &saved("two again")).unwrap();
    assert_eq!(store.load(1).unwrap(), Some(saved("one\r\n")));
    assert_eq!(store.load(2).unwrap(), Some(saved("two again")));
    store.prune(&[2]).unwrap();
    assert_eq!(store.load(1).unwrap(), None);
    assert_eq!(store.load(2).unwrap(), Some(saved("two again")));
    store.remove_all().unwrap();
    assert!(!store.root().exists());
}

#[test]
fn trials_are_remembered_and_end() {
    let scratch = Scratch::new("pending");
    let store = &scratch.0;
    let _lock = store.lock().unwrap();
    assert_eq!(store.pending().unwrap(), None);
    let now = boot_time_ms();
    let pending = Pending {
        generation: 4,
        previous: Some(3),
        deadline_ms: now + 1500,
    };
    store.set_pending(&pending).unwrap();
    assert_eq!(store.pending().unwrap(), Some(pending));
    assert!(!pending.is_due(now + 1499) && pending.is_due(now + 1500));
    assert_eq!(
        (pending.seconds_left(now), pending.seconds_left(now + 9999)),
        (2, 0)
    );
    store.clear_pending().unwrap();
    store.clear_pending().unwrap();
    assert_eq!(store.pending().unwrap(), None);
    assert!(boot_time_ms() >= now);
}

#[test]
fn one_agent_and_one_writer_at_a_time() {
    let scratch = Scratch::new("locks");
    let store = &scratch.0;
    let agent = store.lock_agent().unwrap();
    assert!(agent.is_some());
    assert!(store.lock_agent().unwrap().is_none());
    drop(agent);
    assert!(store.lock_agent().unwrap().is_some());

    let lock = store.lock().unwrap();
    let other = store.clone();
    let waiting = std::thread::spawn(move || other.lock().map(drop).is_ok());
    // The folder goes while the other waits: it must notice and start with a fresh one.
    store.remove_all().unwrap();
    drop(lock);
    assert!(waiting.join().unwrap());
    assert!(store.root().exists());
}
