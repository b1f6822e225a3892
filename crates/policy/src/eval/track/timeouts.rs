//! How long a flow lives after its last packet, by protocol and state.
//!
//! Defaults are those of Linux (kernel documentation, nf_conntrack-sysctl), in milliseconds.

/// Names of a timeout; the numbers index [`Timeouts`] and the settings of the kernel programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "named after the states")]
pub enum Timeout {
    Generic = 0,
    TcpSynSent = 1,
    TcpSynRecv = 2,
    TcpEstablished = 3,
    TcpFinWait = 4,
    TcpCloseWait = 5,
    TcpLastAck = 6,
    TcpTimeWait = 7,
    TcpClose = 8,
    TcpSynSent2 = 9,
    /// After so many retransmissions without an answer ([`super::tcp::RETRANSMISSIONS_MAX`]).
    TcpRetransmission = 10,
    /// While data is not acknowledged.
    TcpUnacknowledged = 11,
    /// UDP seen in one direction, or not yet for two seconds.
    Udp = 12,
    /// UDP seen in both directions for more than two seconds.
    UdpStream = 13,
    Icmp = 14,
    Icmp6 = 15,
}

/// How many there are.
pub const TIMEOUT_COUNT: usize = 16;

/// All timeouts, in milliseconds, indexed by [`Timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts(pub [u32; TIMEOUT_COUNT]);

impl Default for Timeouts {
    fn default() -> Self {
        const SECONDS: [u32; TIMEOUT_COUNT] = [
            600, 120, 60, 432_000, 120, 60, 30, 120, 10, 120, 300, 300, 30, 120, 30, 30,
        ];
        Timeouts(SECONDS.map(|s| s * 1000))
    }
}

impl Timeouts {
    /// One of them.
    pub fn get(&self, which: Timeout) -> u32 {
        self.0[which as usize]
    }
}
