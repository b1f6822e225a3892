//! The contenders: how each packet filter is given a rule set inside a namespace.
//!
//! In: a [`RuleSet`], a [`Namespace`]. Out: a loaded filter with the time and memory the loading
//! took, or the reason why this filter cannot hold these rules, in its own words. Every contender
//! is run as its users run it, through its own program and text; nothing is tuned behind its back.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::hook::Hook;
use crate::memory::Group;
use crate::netns::Namespace;
use crate::rules::{RuleSet, ipf, ipfw, ipset, iptables, nft};
use crate::space::Family;
use crate::sys;

/// A packet filter in one of its forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// No filter at all.
    None,
    /// An eBPF program in INPUT that accepts everything: the hook alone.
    Hook,
    /// iptables over the old kernel tables, rules as written.
    Legacy,
    /// The same file through iptables' nftables back end.
    IptablesNft,
    /// nft, one rule per rule.
    NftRules,
    /// nft, one set of concatenations.
    NftMap,
    /// One ipset and one rule (iptables-legacy).
    Ipset,
    /// weir, the iptables-save file as written.
    Weir,
    /// weir, the same rules in ipfw's language.
    WeirIpfw,
    /// weir, the same rules in IPFilter's language, without `quick`: the last match wins.
    WeirIpf,
    /// The same with `quick`.
    WeirIpfQuick,
    /// The same without `quick`, as a file of HP-UX.
    WeirHpux,
}

impl Contender {
    /// All contenders in the order of the reports.
    pub const ALL: [Contender; 12] = [
        Contender::None,
        Contender::Hook,
        Contender::Legacy,
        Contender::IptablesNft,
        Contender::NftRules,
        Contender::NftMap,
        Contender::Ipset,
        Contender::Weir,
        Contender::WeirIpfw,
        Contender::WeirIpf,
        Contender::WeirIpfQuick,
        Contender::WeirHpux,
    ];

    /// The language that weir is given; `None` for everybody else.
    fn dialect(self) -> Option<&'static str> {
        match self {
            Contender::Weir => Some("iptables"),
            Contender::WeirIpfw => Some("ipfw"),
            Contender::WeirIpf | Contender::WeirIpfQuick => Some("ipf"),
            Contender::WeirHpux => Some("hpux"),
            _ => None,
        }
    }

    /// The name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Contender::None => "none",
            Contender::Hook => "hook",
            Contender::Legacy => "legacy",
            Contender::IptablesNft => "iptables-nft",
            Contender::NftRules => "nft",
            Contender::NftMap => "nft-map",
            Contender::Ipset => "ipset",
            Contender::Weir => "weir",
            Contender::WeirIpfw => "weir-ipfw",
            Contender::WeirIpf => "weir-ipf",
            Contender::WeirIpfQuick => "weir-ipf-quick",
            Contender::WeirHpux => "weir-hpux",
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(text: &str) -> Result<Contender, String> {
        Contender::ALL
            .into_iter()
            .find(|one| one.name() == text)
            .ok_or_else(|| {
                let names: Vec<_> = Contender::ALL.iter().map(|one| one.name()).collect();
                format!(
                    "no contender is called '{text}'; there are {}",
                    names.join(", ")
                )
            })
    }
}

/// What loading took.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Loading {
    /// From starting the program to its end, rules enforced.
    pub seconds: f64,
    /// Its user and system time.
    pub cpu_seconds: f64,
    /// Its largest resident set.
    pub resident_bytes_max: u64,
    /// Kernel memory charged to it that is still there; nothing when nobody asked.
    pub kernel_bytes: Option<u64>,
}

/// A namespace with a filter in it. Dropping it takes the filter out and removes the namespace.
#[derive(Debug)]
pub struct Loaded {
    /// Which filter.
    pub contender: Contender,
    /// Where it is.
    pub namespace: Namespace,
    /// What loading took; nothing when there is no filter.
    pub loading: Option<Loading>,
    /// What the form does not check though the rules say so.
    pub lossy: Option<&'static str>,
    weir: Option<PathBuf>,
    _hook: Option<Hook>,
}

/// A filter that did not take the rules.
#[derive(Debug, Clone, Serialize)]
pub struct Refused {
    /// Why, in its own words or ours.
    pub reason: String,
}

/// Makes namespaces and loads filters into them.
#[derive(Debug, Clone, Default)]
pub struct Loader {
    /// The weir program, once there is one.
    pub weir: Option<PathBuf>,
    /// Where kernel memory is charged to, when it is to be known.
    pub group: Option<Arc<Group>>,
}

impl Loader {
    /// Makes a receiving namespace and loads the rule set.
    ///
    /// # Errors
    /// When the namespace cannot be made. A filter that refuses is not an error but [`Refused`].
    pub fn load(&self, contender: Contender, set: &RuleSet) -> Result<Result<Loaded, Refused>> {
        let namespace = Namespace::receiver(contender.name())?;
        self.load_into(contender, set, namespace)
    }

    /// Loads the rule set into a namespace.
    ///
    /// # Errors
    /// When something other than the filter fails.
    pub fn load_into(
        &self,
        contender: Contender,
        set: &RuleSet,
        namespace: Namespace,
    ) -> Result<Result<Loaded, Refused>> {
        // From here on the guard takes the filter out again, also when loading fails half-way.
        let mut loaded = Loaded {
            contender,
            namespace,
            loading: None,
            lossy: None,
            weir: None,
            _hook: None,
        };
        if contender == Contender::Hook {
            loaded._hook = Some(Hook::attach(&loaded.namespace, set.family)?);
        }
        if contender.dialect().is_some() {
            loaded.weir.clone_from(&self.weir);
        }
        let texts = match self.texts(contender, set, &loaded.namespace) {
            Ok(texts) => texts,
            Err(refused) => return Ok(Err(refused)),
        };
        loaded.lossy = texts.lossy;
        Ok(match self.run(texts.steps, &loaded.namespace)? {
            Ok(loading) => {
                loaded.loading = loading;
                Ok(loaded)
            }
            Err(refused) => Err(refused),
        })
    }

    /// Loads a rule set over the one that is there, as users of that filter reload; nothing for
    /// ipset, whose sets are exchanged in other ways, and where there is no filter.
    ///
    /// # Errors
    /// When something other than the filter fails.
    pub fn replace(
        &self,
        loaded: &Loaded,
        set: &RuleSet,
    ) -> Result<Option<Result<Loading, Refused>>> {
        if loaded.contender == Contender::Ipset {
            return Ok(None);
        }
        let mut texts = match self.texts(loaded.contender, set, &loaded.namespace) {
            Ok(texts) => texts,
            Err(refused) => return Ok(Some(Err(refused))),
        };
        if matches!(loaded.contender, Contender::NftRules | Contender::NftMap) {
            for step in &mut texts.steps {
                step.prepend(&nft::removal(set));
            }
        }
        Ok(self.run(texts.steps, &loaded.namespace)?.transpose())
    }

    /// Runs the steps of a loading; nothing when there is none.
    fn run(
        &self,
        steps: Vec<Step>,
        namespace: &Namespace,
    ) -> Result<Result<Option<Loading>, Refused>> {
        let mut total = None;
        for step in steps {
            match step.load(namespace, self.group.as_deref())? {
                Ok(loading) => total = Some(total.unwrap_or(Loading::NOTHING).and(loading)),
                Err(refused) => return Ok(Err(refused)),
            }
        }
        Ok(Ok(total))
    }

    fn texts(
        &self,
        contender: Contender,
        set: &RuleSet,
        namespace: &Namespace,
    ) -> Result<Texts, Refused> {
        let six = set.family == Family::V6;
        let tool = |four: &'static str, six_name: &'static str| if six { six_name } else { four };
        let refused = |error: &dyn fmt::Display| Refused {
            reason: error.to_string(),
        };
        let mut lossy = None;
        let steps = match contender {
            Contender::None | Contender::Hook => Vec::new(),
            Contender::Legacy => {
                let program = tool("iptables-legacy-restore", "ip6tables-legacy-restore");
                vec![Step::new(program, &["-w", "20"], iptables::text(set))]
            }
            Contender::IptablesNft => {
                let program = tool("iptables-nft-restore", "ip6tables-nft-restore");
                vec![Step::new(program, &[], iptables::text(set))]
            }
            Contender::NftRules => vec![Step::new("nft", &["-f", "-"], nft::rules(set))],
            Contender::NftMap => {
                let text = nft::map(set).map_err(|error| refused(&error))?;
                vec![Step::new("nft", &["-f", "-"], text)]
            }
            Contender::Ipset => {
                let texts = ipset::text(set).map_err(|error| refused(&error))?;
                lossy = texts.lossy;
                let program = tool("iptables-legacy-restore", "ip6tables-legacy-restore");
                vec![
                    Step::new("ipset", &["restore"], texts.sets),
                    Step::new(program, &["-w", "20"], texts.rules),
                ]
            }
            Contender::Weir
            | Contender::WeirIpfw
            | Contender::WeirIpf
            | Contender::WeirIpfQuick
            | Contender::WeirHpux => {
                let Some(weir) = &self.weir else {
                    return Err(Refused {
                        reason: "no weir program was given (--weir)".to_owned(),
                    });
                };
                let text = match contender {
                    Contender::WeirIpfw => ipfw::text(set),
                    Contender::WeirIpf | Contender::WeirHpux => ipf::text(set, false),
                    Contender::WeirIpfQuick => ipf::text(set, true),
                    _ => Ok(iptables::text(set)),
                };
                let text = text.map_err(|error| refused(&error))?;
                let dialect = contender.dialect().unwrap_or_default();
                let version = if six { "v6" } else { "v4" };
                let file = std::env::temp_dir().join(format!("{}.{version}", namespace.name));
                vec![Step {
                    program: weir.to_string_lossy().into_owned(),
                    arguments: ["apply", "--dialect", dialect, "--netns", &namespace.name]
                        .map(str::to_owned)
                        .to_vec(),
                    input: Input::File(file, text),
                }]
            }
        };
        Ok(Texts { steps, lossy })
    }
}

struct Texts {
    steps: Vec<Step>,
    lossy: Option<&'static str>,
}

enum Input {
    /// Fed to standard input, from inside the namespace.
    Standard(String),
    /// Written to a file whose name is the last argument, from outside (weir enters by itself).
    File(PathBuf, String),
}

struct Step {
    program: String,
    arguments: Vec<String>,
    input: Input,
}

impl Step {
    fn new(program: &str, arguments: &[&str], input: String) -> Step {
        let arguments = arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect();
        Step {
            program: program.to_owned(),
            arguments,
            input: Input::Standard(input),
        }
    }

    fn prepend(&mut self, words: &str) {
        match &mut self.input {
            Input::Standard(text) | Input::File(_, text) => text.insert_str(0, words),
        }
    }

    fn load(
        self,
        namespace: &Namespace,
        group: Option<&Group>,
    ) -> Result<Result<Loading, Refused>> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        if let Some(group) = group {
            command = group.command(&command);
        }
        // Files for everything: a pipe would make the loader wait for us.
        let (path, text, as_argument) = match &self.input {
            Input::Standard(text) => (
                std::env::temp_dir().join(format!("{}.input", namespace.name)),
                text,
                false,
            ),
            Input::File(path, text) => (path.clone(), text, true),
        };
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        let result = if as_argument {
            command.arg(&path).stdin(Stdio::null());
            timed(&self.program, &mut command)
        } else {
            command.stdin(fs::File::open(&path)?);
            namespace.enter(|| timed(&self.program, &mut command))
        };
        fs::remove_file(&path).ok();
        let kernel_bytes = group.map(Group::kernel_bytes).transpose()?;
        result.map(|loaded| {
            loaded.map(|loading| Loading {
                kernel_bytes,
                ..loading
            })
        })
    }
}

impl Loading {
    const NOTHING: Loading = Loading {
        seconds: 0.0,
        cpu_seconds: 0.0,
        resident_bytes_max: 0,
        kernel_bytes: None,
    };

    fn and(self, other: Loading) -> Loading {
        Loading {
            seconds: self.seconds + other.seconds,
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            resident_bytes_max: self.resident_bytes_max.max(other.resident_bytes_max),
            // Steps are charged to the same group: the last one sees all.
            kernel_bytes: other.kernel_bytes,
        }
    }
}

/// Runs a program to its end and measures it.
fn timed(name: &str, command: &mut Command) -> Result<Result<Loading, Refused>> {
    let errors = tempfile_for_errors()?;
    command.stdout(Stdio::null()).stderr(errors.0.try_clone()?);
    let start = Instant::now();
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let used = sys::wait_with_use(child.id())?;
    let elapsed = start.elapsed();
    if used.status != 0 {
        let words = fs::read_to_string(&errors.1).unwrap_or_default();
        let words: Vec<_> = words
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .take(2)
            .collect();
        fs::remove_file(&errors.1).ok();
        let mut reason = format!("{name}: {}", words.join(" / "));
        // Errors quote the whole offending line or element list; the beginning says it all.
        if let Some((end, _)) = reason.char_indices().nth(200) {
            reason.truncate(end);
        }
        return Ok(Err(Refused { reason }));
    }
    fs::remove_file(&errors.1).ok();
    Ok(Ok(Loading {
        seconds: elapsed.as_secs_f64(),
        cpu_seconds: used.cpu.as_secs_f64(),
        resident_bytes_max: used.resident_bytes_max,
        kernel_bytes: None,
    }))
}

fn tempfile_for_errors() -> Result<(fs::File, PathBuf)> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!(
        "{}{}-{number}.errors",
        crate::netns::PREFIX,
        std::process::id()
    );
    let path = std::env::temp_dir().join(name);
    let file = fs::File::create(&path).with_context(|| format!("cannot make {path:?}"))?;
    Ok((file, path))
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // weir's links are pinned and would outlive the namespace's name.
        if let Some(weir) = &self.weir {
            let mut command = Command::new(weir);
            command.args(["unload", "--netns", &self.namespace.name]);
            if let Err(error) = crate::netns::run(&mut command, None) {
                eprintln!("weir-lab: weir was not unloaded: {error:#}");
            }
        }
    }
}
