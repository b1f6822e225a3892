//! The socket on which the agent of a namespace is asked for changes.
//!
//! In: the store of a namespace. Out: a socket in it that only root can open, and threads that
//! answer. They end with the agent.

use super::editor::Editor;
use super::wire::{Answer, Request, SOCKET};
use crate::exit::{Exit, OrExit};
use crate::state::Store;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How often it looks whether there is something to do beside requests.
const TICK: Duration = Duration::from_millis(100);

type Shared = Arc<Mutex<Editor>>;

/// Begins to answer. The caller is the agent of the namespace.
pub fn start(store: &Store) -> anyhow::Result<()> {
    let path = store.root().join(SOCKET);
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)
        .and_then(|listener| {
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            Ok(listener)
        })
        .or_exit(Exit::Kernel, "can't listen for changes")?;
    let editor: Shared = Arc::new(Mutex::new(Editor::of(store)));
    let resting = Arc::clone(&editor);
    std::thread::spawn(move || {
        tell(held(&resting).finish());
        loop {
            std::thread::sleep(TICK);
            tell(held(&resting).rest());
        }
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let editor = Arc::clone(&editor);
            std::thread::spawn(move || answer(&stream, &editor));
        }
    });
    Ok(())
}

/// What goes wrong beside requests is in agent.log.
fn tell(done: anyhow::Result<()>) {
    if let Err(error) = done {
        eprintln!("weir agent: {error:#}");
    }
}

/// The editor. One that failed in the midst of something begins anew with what is in force.
fn held(editor: &Shared) -> MutexGuard<'_, Editor> {
    editor.lock().unwrap_or_else(|poisoned| {
        editor.clear_poison();
        let mut editor = poisoned.into_inner();
        editor.let_go();
        editor
    })
}

/// Answers until the other side has no more requests.
fn answer(stream: &UnixStream, editor: &Shared) {
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let answer = match serde_json::from_str::<Request>(&line) {
            Ok(request) => held(editor).carry_out(&request),
            Err(_) => Ok(Answer::Unable("a request of another version".to_owned())),
        };
        let answer = answer.unwrap_or_else(|error| Answer::Unable(format!("{error:#}")));
        let Ok(mut text) = serde_json::to_vec(&answer) else {
            return;
        };
        text.push(b'\n');
        if writer.write_all(&text).is_err() {
            return;
        }
    }
}
