//! Traffic for the comparison with iptables: scripts, frames, conversations, captures.
//!
//! A script (`*.traffic` beside the rule files) has one step per line; `#` starts a comment.
//!
//! ```text
//! tcp client->server:22 syn              a crafted segment (flags, seq, ack, win, mss, len, ...)
//! udp6 client.5:1000->gw:53 len 20       IPv6 by the digit; client.5 is the client's address .5
//! tcp client[203.0.113.9]->server:80 ack the address may be any other
//! icmp client->server echo               or: type T code C; error T/C about udp A:1->B:2
//! tcp client->server:80 talk 3           real sockets: connect, 3 requests with answers, close
//! tcp client->server:80 talk 1 hold a    the same, left open; then: more a 2, end a, reset a
//! tcp ... talk 1 via 198.51.100.1:80     connects to that, which something translates
//! wait 1100                              milliseconds
//! ```
//!
//! `script` parses, `craft` makes bytes, `wire` sends and captures, `describe` turns captured
//! frames into comparable text, `talk` drives sockets, `play` does one step after the other and
//! records what came out at which end. Nothing here knows rules.

pub mod craft;
pub mod describe;
pub mod play;
pub mod script;
pub mod talk;
pub mod wire;
