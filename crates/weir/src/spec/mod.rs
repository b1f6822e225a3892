//! Packets written in words: `in=eth0 tcp 192.0.2.1:4242 > 198.51.100.7:22 syn`.
//!
//! In: the words of the command line. Out: a [`Spec`] (a packet of the rule model, and what only a
//! flow table or a clock would know), or an error that points at the word. What is left out gets a
//! default that [`Spec::describe`] prints, so nothing is assumed silently. Nothing is looked up: no
//! host names, no services.

mod draft;
mod error;
mod names;
mod parse;
mod print;

pub use error::SpecError;
pub use names::protocol_of;
pub use names::{hook_name, hook_of, state_name};
pub use parse::parse;
pub use print::{address, flag_names, packet as describe_packet, protocol};

use weir_policy::model::{CtState, Hook, Packet};

/// A packet with what its bytes would not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The packet; its hook is the last one on its way that was asked about.
    pub packet: Packet,
    /// The hook, when one was named; otherwise the way follows from the interfaces.
    pub hook: Option<Hook>,
    /// Connection tracking state that is to be assumed.
    pub state: Option<CtState>,
    /// Mark of the packet's flow that is to be assumed.
    pub connmark: Option<u32>,
}

/// A page about the language, for `--help` and for errors.
pub const GRAMMAR: &str = "\
PACKET is one text of words in any order:
  PROTOCOL      tcp udp udplite sctp dccp icmp icmpv6 ah esp, or proto=NUMBER
  ADDRESSES     SOURCE[:PORT] > DESTINATION[:PORT]; IPv6 with a port as [2001:db8::1]:22
  in=NAME       receiving interface        out=NAME    sending interface
  hook=NAME     INPUT FORWARD OUTPUT PREROUTING POSTROUTING (default: by the interfaces)
  state=NAME    NEW ESTABLISHED RELATED INVALID UNTRACKED (default: as a first packet)
  syn ack fin rst psh urg ece cwr          TCP flags (default: syn; ack when ESTABLISHED)
  echo-request, 8, 3/1 ...                 ICMP type or type/code (default: echo-request)
  mark=N connmark=N ttl=N tos=N dscp=N len=N id=N spi=N mss=N
  chunk=N chunk-flags=N                    an SCTP chunk
  mac=ADDRESS   uid=N gid=N    type=unicast|broadcast|multicast    frag=first|later
  groups=N,N class=N           further groups of the sender, its class (net_cls)
  bridge=FROM,TO               ports of the bridge that hands the packet over
  in-group=N out-group=N realm=N cpu=N     payload=TEXT (its last bytes)
Example: in=eth0 tcp 192.0.2.1:4242 > 198.51.100.7:22 syn";
