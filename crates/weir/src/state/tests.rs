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
        changed: None,
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
    store.prune(&[Some(2)]).unwrap();
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
        renewed: None,
        generation: 4,
        previous: Some(3),
        deadline_ms: now + 1500,
    };
    store.set_pending(Some(&pending)).unwrap();
    assert_eq!(store.pending().unwrap(), Some(pending));
    assert!(!pending.is_due(now + 1499) && pending.is_due(now + 1500));
    assert_eq!(
        (pending.seconds_left(now), pending.seconds_left(now + 9999)),
        (2, 0)
    );
    store.set_pending(None).unwrap();
    store.set_pending(None).unwrap();
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

/// A store with a policy of two rules, and its numbers.
fn with_rules(name: &str) -> (Scratch, Numbers) {
    let scratch = Scratch::new(name);
    let text = "*filter\n:INPUT ACCEPT\n-A INPUT -s 10.0.0.1/32 -j DROP\n-A INPUT -s 10.0.0.2/32 \
                -j DROP\nCOMMIT\n";
    let rules = Saved {
        sources: vec![SavedSource {
            name: "rules.v4".to_owned(),
            text: text.to_owned(),
        }],
        ..Saved::default()
    };
    let lock = scratch.0.lock().unwrap();
    scratch.0.save(3, &rules).unwrap();
    drop(lock);
    let chain = |chain: &str, end, rules: &[u32]| (input(chain), Some(end), rules.to_vec());
    let numbers = Numbers {
        chains: vec![
            chain("INPUT", 2, &[0, 1]),
            chain("FORWARD", 3, &[]),
            chain("OUTPUT", 4, &[]),
        ],
    };
    (scratch, numbers)
}

fn input(chain: &str) -> ChainName {
    ChainName {
        family: 4,
        table: "filter".to_owned(),
        chain: chain.to_owned(),
    }
}

fn text_of(store: &Store) -> (Vec<String>, Changed) {
    let saved = store.load(3).unwrap().unwrap();
    let lines = saved.sources[0].text.lines();
    let rules = lines
        .filter(|line| line.starts_with("-A"))
        .map(str::to_owned);
    (rules.collect(), saved.changed.unwrap())
}

#[test]
fn changes_are_read_with_the_texts_that_they_change() {
    let (scratch, numbers) = with_rules("journal");
    let store = &scratch.0;
    let mut journal = Journal::open(store, 3, &numbers).unwrap();
    let line = "-A INPUT -s 10.0.0.3/32 -j ACCEPT".to_owned();
    let _ = journal
        .write(&Step::Insert(input("INPUT"), 2, 9, line))
        .unwrap();
    let _ = journal.write(&Step::Delete(input("INPUT"), 1)).unwrap();
    let taken = journal.write(&Step::Delete(input("INPUT"), 1)).unwrap();
    journal.take_back(taken).unwrap();
    let (rules, changed) = text_of(store);
    let wanted = [
        "-A INPUT -s 10.0.0.3/32 -j ACCEPT",
        "-A INPUT -s 10.0.0.2/32 -j DROP",
    ];
    assert_eq!(rules, wanted);
    assert_eq!(changed.numbers.chains[0].2, [9, 1]);
    assert!(changed.steps.is_empty());

    // A line that was cut off by a kill was never made; who goes on cuts it away.
    let stamp = store.stamp(3).unwrap();
    let path = store.root().join("policy-3/journal");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"{\"delete\":[{\"fam"].concat()).unwrap();
    assert_eq!(text_of(store).0, wanted);
    let mut journal = Journal::open(store, 3, &numbers).unwrap();
    assert_eq!((fs::read(&path).unwrap(), journal.lines()), (whole, 2));
    assert_eq!(store.stamp(3).unwrap(), stamp);

    // Texts written anew say the same, and changes go on from them.
    let saved = store.load(3).unwrap().unwrap();
    journal.renew(&saved.sources, &changed.numbers).unwrap();
    let (again, numbers) = text_of(store);
    assert_eq!(again, wanted);
    assert_eq!(numbers.numbers, changed.numbers);
    let _ = journal.write(&Step::Delete(input("INPUT"), 2)).unwrap();
    let (rules, changed) = text_of(store);
    assert_eq!(rules, wanted[..1]);
    assert_eq!(changed.numbers.chains[0].2, [9]);
    assert!(!path.exists(), "old files are gone");
    let loaded = crate::input::load_saved(&store.load(3).unwrap().unwrap()).unwrap();
    let policy = loaded.policy().unwrap();
    assert_eq!(policy.chains[0].rules[0].id.0, 9);
    assert_eq!(policy.rule_count, 10);
}

#[test]
fn a_journal_that_does_not_fit_its_texts_is_an_error() {
    let (scratch, numbers) = with_rules("misfit");
    let mut journal = Journal::open(&scratch.0, 3, &numbers).unwrap();
    let _ = journal.write(&Step::Delete(input("INPUT"), 7)).unwrap();
    let error = scratch.0.load(3).unwrap_err().to_string();
    assert!(error.contains("journal"), "{error}");
}
