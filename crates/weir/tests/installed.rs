//! What `scripts/install.sh` puts in place, and what the unit's script does at boot: the files of a
//! folder are enforced, those of last time where they can't be, and stopping leaves nothing.

mod common;

use common::{Folder, Namespace};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts")
}

/// Everything under a folder, as it would be under the root.
fn install(folder: &Folder, more: &[&str]) -> Output {
    Command::new(scripts().join("install.sh"))
        .args([
            "--prefix",
            "/usr",
            "--binary",
            env!("CARGO_BIN_EXE_weir"),
            "--root",
        ])
        .arg(&folder.0)
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn what_is_installed_runs_and_goes_away_again() {
    let folder = Folder::new();
    let done = install(&folder, &[]);
    assert!(done.status.success(), "{done:?}");
    let version = Command::new(folder.0.join("usr/sbin/weir"))
        .arg("--version")
        .output()
        .unwrap();
    assert!(version.stdout.starts_with(b"weir "), "{version:?}");
    let page = std::fs::read_to_string(folder.0.join("usr/share/man/man1/weir-apply.1")).unwrap();
    assert!(page.contains("confirm"), "{page}");
    let unit = folder.0.join("etc/systemd/system/weir.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    assert!(
        unit.contains("ExecStart=/usr/lib/weir/boot start"),
        "{unit}"
    );
    assert!(
        folder.0.join("usr/lib/weir/boot").exists() && !unit.contains('@'),
        "{unit}"
    );
    let rules = folder.file("etc/weir/policy.d/rules.v4", "*filter\nCOMMIT\n");
    let gone = install(&folder, &["--uninstall"]);
    assert!(gone.status.success(), "{gone:?}");
    assert!(!folder.0.join("usr/sbin/weir").exists() && folder.0.join(rules).exists());
}

#[test]
fn links_are_made_on_request_and_never_over_a_program() {
    let folder = Folder::new();
    let place = |tool: &str| folder.0.join("usr/sbin").join(tool);
    assert!(install(&folder, &[]).status.success());
    assert!(!place("ipf").exists(), "nobody asked for links");
    std::fs::write(place("ipfw"), "somebody's own").unwrap();
    let done = install(&folder, &["--tools", "ipf,ipfstat,ipfw"]);
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8(done.stdout).unwrap() + &String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("ipfw is there already"), "{said}");
    assert_eq!(std::fs::read(place("ipfw")).unwrap(), b"somebody's own");
    folder.file("rules", "block in all\n");
    let printed = Command::new(place("ipf"))
        .args(["-nvf", "rules"])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert_eq!(printed.stdout, b"block in all\n", "{printed:?}");
    let wrong = install(&folder, &["--tools", "nft"]);
    assert!(!wrong.status.success(), "{wrong:?}");
    assert!(
        install(&folder, &["--tools", "ipf"]).status.success(),
        "again"
    );
    assert!(install(&folder, &["--uninstall"]).status.success());
    assert!(!place("ipf").is_symlink() && !place("ipfstat").is_symlink());
    assert_eq!(std::fs::read(place("ipfw")).unwrap(), b"somebody's own");
}

#[test]
fn rules_of_last_time_hold_where_the_new_ones_cannot() {
    let name = "rules_of_last_time_hold_where_the_new_ones_cannot";
    let Some(()) = weir_plane::kernel_or_skip(name) else {
        return;
    };
    let (folder, netns) = (Folder::new(), Namespace::new("boot"));
    std::fs::create_dir(folder.0.join("policy.d")).unwrap();
    let boot = |word: &str| {
        Command::new(scripts().join("boot.sh"))
            .arg(word)
            .env("WEIR", env!("CARGO_BIN_EXE_weir"))
            .env("WEIR_FILES", folder.0.join("policy.d"))
            .env("WEIR_KEPT", folder.0.join("kept"))
            .env("WEIR_OPTIONS", format!("--netns {}", netns.0))
            .output()
            .unwrap()
    };
    let enforced = || folder.weir(&["status", "--netns", &netns.0]);
    assert_eq!(boot("start").status.code(), Some(1), "no files yet");
    enforced().expect(1);

    folder.file(
        "policy.d/rules.v4",
        "*filter\n:INPUT DROP\n-A INPUT -i lo -j ACCEPT\nCOMMIT\n",
    );
    folder.file("policy.d/rules.v4~", "what an editor left behind\n");
    folder.file("policy.d/sets", "create bad hash:ip\nadd bad 192.0.2.1\n");
    let first = boot("start");
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    let status = enforced().expect(0);
    assert!(status.out.contains("policy.d/rules.v4"), "{status:?}");

    folder.file(
        "policy.d/rules.v4",
        "*filter\n-A INPUT -p tpc -j DROP\nCOMMIT\n",
    );
    let reloaded = boot("reload");
    assert_ne!(reloaded.status.code(), Some(0), "{reloaded:?}");
    assert_eq!(
        enforced().expect(0).out,
        status.out,
        "a failed reload changes nothing"
    );

    // As after a boot: nothing is enforced, and the files are wrong.
    assert_eq!(boot("stop").status.code(), Some(0));
    enforced().expect(1);
    let second = boot("start");
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{told}");
    assert!(
        told.contains("unknown protocol `tpc`") && told.contains("last time"),
        "{told}"
    );
    let status = enforced().expect(0);
    assert!(status.out.contains("kept/rules.v4"), "{status:?}");
    assert_eq!(boot("stop").status.code(), Some(0));
}
