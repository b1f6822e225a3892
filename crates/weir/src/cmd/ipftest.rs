//! `weir ipftest -r RULES -i PACKETS`: packets through IPFilter rules, in the words of IPFilter's
//! own test program.
//!
//! In: rule and pool files, packets as text, hexadecimal digits or a capture. Out: a verdict a
//! line; without -b the packet too. States are kept from packet to packet, the clock stands still,
//! and as in the original closing connections are forgotten behind each packet. Saved tests of
//! users run unchanged: options combine as there (`-br rules -i packets`).

use crate::exit::{Exit, failure};
use crate::input::interface_pair;
use crate::ipf::files::{Reading, Rules};
use crate::ipf::packets::{Format, TestPacket, read};
use crate::ipf::sent::Sent;
use crate::ipf::test_log::TestLog;
use crate::ipf::text::fix_checksums;
use crate::ipf::{show, tunables};
use crate::output::Output;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use weir_engine::packet::ipf::ipf_packet;
use weir_policy::dialect::ipf::ast::Destination;
use weir_policy::dialect::ipf::{Language, PrintOptions, print_rule};
use weir_policy::eval::ipf::limit::host;
use weir_policy::eval::ipf::log::Reason;
use weir_policy::eval::ipf::{Evaluator, Judgement, Settings};
use weir_policy::model::Family;
use weir_policy::syntax::Severity;

/// Options of `weir ipftest`: the original's, and three of our own.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rules that nothing else fixes are for IPv6.
    #[arg(short = '6')]
    six: bool,
    /// Only the verdict of each packet.
    #[arg(short = 'b')]
    brief: bool,
    /// Put the checksums of hexadecimal and captured packets right.
    #[arg(short = 'C')]
    checksums: bool,
    /// Accepted, and means nothing here.
    #[arg(short = 'd', hide = true)]
    debug: bool,
    /// Print states, limits and rules with their hits at the end.
    #[arg(short = 'D')]
    dump: bool,
    /// Format of the packets.
    #[arg(short = 'F', value_name = "FORMAT", default_value = "text", ignore_case = true,
          value_parser = ["text", "hex", "pcap", "snoop"])]
    format: String,
    /// Packets; standard input without it, or with `-`.
    #[arg(short = 'i', value_name = "FILE")]
    input: Option<PathBuf>,
    /// Interface of packets that name none.
    #[arg(short = 'I', value_name = "INTERFACE", default_value = "anon0")]
    interface: String,
    /// Save what is logged; `weir ipmon -f FILE` prints it.
    #[arg(short = 'l', value_name = "FILE")]
    log: Option<PathBuf>,
    /// Translation rules: read; refused where one translates, as weir translates no addresses.
    #[arg(short = 'N', value_name = "FILE")]
    nat: Vec<PathBuf>,
    /// Save packets that are sent to /tmp/INTERFACE, from the IP header on.
    #[arg(short = 'o')]
    save: bool,
    /// Pools.
    #[arg(short = 'P', value_name = "FILE")]
    pools: Vec<PathBuf>,
    /// Rules; `-` is standard input.
    #[arg(short = 'r', value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Do not resolve names.
    #[arg(short = 'R')]
    no_names: bool,
    /// IPv4 packets from this address are inbound, all others outbound.
    #[arg(short = 'S', value_name = "ADDRESS")]
    source: Option<Ipv4Addr>,
    /// Tunables: name=value,name=value; `list` prints the names.
    #[arg(short = 'T', value_name = "TUNABLES")]
    tunables: Vec<String>,
    /// Tell on standard error which rules were loaded and which matched.
    #[arg(short = 'v')]
    verbose: bool,
    /// Print packets in hexadecimal digits.
    #[arg(short = 'x')]
    hex: bool,
    /// The original's word for text packets.
    #[arg(short = 'X', hide = true)]
    text: bool,
    /// Language of the rules; told by their content when absent.
    #[arg(long, value_name = "DIALECT", value_parser = ["ipf", "hpux"])]
    dialect: Option<String>,
    /// What an interface of the rules is called in the packets, such as lan0=eth0.
    #[arg(long = "interface", value_name = "OLD=NEW", value_parser = interface_pair)]
    interface_names: Vec<String>,
    /// Only warn of names that nobody knows; such rules match nothing.
    #[arg(long)]
    lenient: bool,
}

/// The clock of a test: it stands still.
const NOW_MS: u64 = 1_000_000_000_000;

/// Tests.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    refuse(args)?;
    let (reading, rules, settings) = prepare(args)?;
    if args.tunables.iter().any(|list| list == "list") {
        for name in tunables::names() {
            out.line(name)?;
        }
        return Ok(Exit::Done);
    }
    let format = match &*args.format.to_ascii_lowercase() {
        "hex" => Format::Hex,
        "pcap" => Format::Pcap,
        "snoop" => Format::Snoop,
        _ => Format::Text,
    };
    let packets = read(args.input.as_deref(), format, !reading.no_names)?;
    let mut test = Test {
        args,
        evaluator: Evaluator::new(&rules.set, rules.tables.clone(), settings),
        log: TestLog::default(),
        sent: args.save.then(Sent::new),
    };
    if args.verbose {
        for rule in &rules.set.rules {
            eprintln!("{}", print_rule(rule, &PrintOptions::default()));
        }
    }
    for mut packet in packets {
        test.one(&mut packet, out)?;
    }
    if let Some(path) = &args.log {
        test.log.write(path)?;
    }
    if args.dump {
        dump(&test.evaluator, out)?;
    }
    Ok(Exit::Done)
}

fn refuse(args: &Args) -> anyhow::Result<()> {
    let list = args.tunables.iter().any(|list| list == "list");
    let none = args.rules.is_empty() && args.pools.is_empty() && args.nat.is_empty();
    if none && !list {
        return Err(failure(Exit::Usage, "no rules loaded: give -r, -P or -N"));
    }
    let from_stdin = |path: &PathBuf| path.as_os_str() == "-";
    let packets_too = args.input.as_ref().is_none_or(from_stdin);
    if packets_too && args.rules.iter().any(from_stdin) {
        let message = "rules and packets can't both come from standard input";
        return Err(failure(Exit::Usage, message));
    }
    Ok(())
}

fn prepare(args: &Args) -> anyhow::Result<(Reading, Rules, Settings)> {
    let mut reading = Reading {
        language: match args.dialect.as_deref() {
            Some("hpux") => Language::Hpux,
            _ => Language::Ipf,
        },
        family: args.six.then_some(Family::V6),
        lenient: args.lenient,
        no_names: args.no_names,
        told: args.dialect.is_some(),
        interface: args.interface_names.clone(),
    };
    let mut rules = Rules::read(&args.rules, &args.pools, &reading)?;
    reading.language = rules.file.language;
    rules.add_translations_of(&args.nat)?;
    rules.refuse_translations();
    rules.tell(Severity::Warning);
    rules.check()?;
    let mut settings = Settings::of(reading.language);
    for setting in rules.settings() {
        let changed = tunables::set(&mut settings, &setting.name, setting.value);
        match changed {
            Ok(true) => {}
            Ok(false) => eprintln!("weir: {} has no effect here", setting.name),
            Err(why) => eprintln!("weir: {why}: left out"),
        }
    }
    for list in args.tunables.iter().filter(|list| *list != "list") {
        let notes = tunables::set_list(&mut settings, list);
        for note in notes.map_err(|why| failure(Exit::Usage, format!("-T: {why}")))? {
            eprintln!("weir: {note}");
        }
    }
    Ok((reading, rules, settings))
}

/// A test while it runs.
struct Test<'t> {
    args: &'t Args,
    evaluator: Evaluator<'t>,
    log: TestLog,
    /// With -o: the files of sent packets.
    sent: Option<Sent>,
}

impl Test<'_> {
    fn one(&mut self, packet: &mut TestPacket, out: &mut Output) -> anyhow::Result<()> {
        let args = self.args;
        let four = packet.bytes.first().is_some_and(|byte| byte >> 4 == 4);
        if four && args.checksums {
            fix_checksums(&mut packet.bytes);
        }
        if let (true, Some(source), Some(own)) = (four, args.source, packet.bytes.get(12..16)) {
            packet.out = own != source.octets();
        }
        let interface = match packet.interface.as_deref() {
            None | Some("") => args.interface.as_str(),
            Some(name) => name,
        };
        if let Some(address) = packet.address {
            let own = vec![(Family::V4, u128::from(address))];
            let interfaces = &mut self.evaluator.interfaces;
            interfaces.insert(interface.to_owned(), own);
        }
        let read = ipf_packet(&packet.bytes, packet.out, interface, packet.link);
        let judgement = self.evaluator.judge(&read, NOW_MS);
        self.log.packet(&mut self.evaluator, &packet.bytes, NOW_MS);
        if args.verbose {
            explain(&self.evaluator, &judgement);
        }
        self.send(&judgement, packet, interface, out)?;
        let shown = || show_packet(args, &packet.bytes, packet.out, interface);
        let word = judgement.outcome.words();
        match (args.brief, args.nat.is_empty()) {
            (true, true) => out.line(word)?,
            (false, true) => out.raw(format!("{word} {}--------------\n", shown()).as_bytes())?,
            // With translation rules the packet is the answer, or why there is none any more.
            (true, false) if judgement.passes => out.raw(shown().as_bytes())?,
            (true, false) => {
                let number = judgement.reason.map_or(0, Reason::number);
                out.line(number.to_string())?;
            }
            (false, false) => out.raw(format!(" {}--------------\n", shown()).as_bytes())?,
        }
        self.log.flushed(&mut self.evaluator, NOW_MS);
        Ok(())
    }

    /// Packets that rules send elsewhere are printed; all that are sent are saved with -o.
    fn send(
        &mut self,
        judgement: &Judgement,
        packet: &TestPacket,
        interface: &str,
        out: &mut Output,
    ) -> anyhow::Result<()> {
        let mut sent = Vec::new();
        for destination in judgement.routed.iter().flatten() {
            if let Some(name) = destination_name(destination) {
                out.raw(show_packet(self.args, &packet.bytes, true, &name).as_bytes())?;
                // Behind the colon stands the next hop.
                sent.push(name.split(':').next().unwrap_or_default().to_owned());
            }
        }
        if packet.out && judgement.passes {
            sent.push(interface.to_owned());
        }
        if let Some(files) = &mut self.sent {
            for name in &sent {
                files.packet(name, &packet.bytes)?;
            }
        }
        Ok(())
    }
}

fn show_packet(args: &Args, bytes: &[u8], out: bool, interface: &str) -> String {
    match args.hex {
        true => show::hex(bytes),
        false => show::line(bytes, out, interface),
    }
}

/// The interface of a re-routed packet, with its next hop.
fn destination_name(destination: &Destination) -> Option<String> {
    match destination {
        Destination::Interface(name, None) => Some(name.to_string()),
        Destination::Interface(name, Some(hop)) => Some(format!("{name}:{hop}")),
        // Which of a list it would be depends on traffic that a test does not have.
        Destination::List(_) => None,
    }
}

fn explain(evaluator: &Evaluator<'_>, judgement: &Judgement) {
    for rule in &judgement.matched {
        let rule = &evaluator.rules.rules[*rule];
        eprintln!("  matched: {}", print_rule(rule, &PrintOptions::default()));
    }
    if let Some(state) = judgement.state {
        eprintln!("  state {state}");
    }
    if let Some(reason) = judgement.reason {
        eprintln!("  reason: {}", reason.word());
    }
}

fn dump(evaluator: &Evaluator<'_>, out: &mut Output) -> anyhow::Result<()> {
    out.line("states:")?;
    for state in evaluator.states.entries() {
        let end = |address: u128, port: u16| {
            let host = host(state.family, address);
            match state.proto {
                6 | 17 => format!("{host},{port}"),
                _ => host,
            }
        };
        out.line(format!(
            "{} {} > {} {}/{}",
            state.proto,
            end(state.source, state.ports.0),
            end(state.destination, state.ports.1),
            state.machine.states[0],
            state.machine.states[1]
        ))?;
    }
    out.line("limits:")?;
    for limit in evaluator.limits.entries() {
        let source = limit
            .source
            .map_or_else(|| "*".to_owned(), |s| host(limit.family, s));
        let destination = host(limit.family, limit.destination);
        out.line(format!(
            "{} {source} > {destination},{} {} ({})/{}",
            limit.kind.letter(),
            limit.port,
            limit.current,
            limit.exceeded,
            limit.configured
        ))?;
    }
    out.line("rules:")?;
    for (rule, counters) in evaluator.rules.rules.iter().zip(&evaluator.counters) {
        let text = print_rule(rule, &PrintOptions::default());
        out.line(format!("{} {text}", counters.packets))?;
    }
    Ok(())
}
