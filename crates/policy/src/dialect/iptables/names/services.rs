//! Service names, as Debian's `/etc/services` has them (netbase 6.4; numbers by IANA).
//!
//! Embedded, because a rule file must mean the same on every machine: `/etc` is never read.

use super::Transport;

const T: u8 = Transport::Tcp.bit();
const U: u8 = Transport::Udp.bit();
const S: u8 = Transport::Sctp.bit();

/// Name, port, and the transports for which the name stands for that port. Sorted by name.
#[rustfmt::skip]
static SERVICES: &[(&str, u16, u8)] = &[
    ("Clearcase", 371, U), ("acr-nema", 104, T), ("afpovertcp", 548, T), ("afs3-bos", 7007, U),
    ("afs3-callback", 7001, U), ("afs3-fileserver", 7000, U), ("afs3-kaserver", 7004, U),
    ("afs3-prserver", 7002, U), ("afs3-rmtsys", 7009, U), ("afs3-update", 7008, U),
    ("afs3-vlserver", 7003, U), ("afs3-volser", 7005, U), ("amanda", 10080, T),
    ("amandaidx", 10082, T), ("amidxtape", 10083, T), ("amqp", 5672, S | T), ("amqps", 5671, T),
    ("asf-rmcp", 623, U), ("asp", 27374, T | U), ("auth", 113, T), ("authentication", 113, T),
    ("babel", 6696, U), ("bacula-dir", 9101, T), ("bacula-fd", 9102, T), ("bacula-sd", 9103, T),
    ("bbs", 7000, T), ("bgp", 179, T), ("bgpd", 2605, T), ("biff", 512, U), ("binkp", 24554, T),
    ("bootpc", 68, U), ("bootps", 67, U), ("canna", 5680, T), ("cfengine", 5308, T),
    ("chargen", 19, T | U), ("cisco-sccp", 2000, T), ("clc-build-daemon", 8990, T),
    ("clearcase", 371, U), ("cmd", 514, T), ("cmip-agent", 164, T | U), ("cmip-man", 163, T | U),
    ("codaauth2", 370, T | U), ("codasrv", 2432, T | U), ("codasrv-se", 2433, T | U),
    ("comsat", 512, U), ("csync2", 30865, T), ("cvspserver", 2401, T), ("daap", 3689, T),
    ("datametrics", 1645, T | U), ("daytime", 13, T | U), ("db-lsp", 17500, T),
    ("dcap", 22125, T), ("dhcpv6-client", 546, U), ("dhcpv6-server", 547, U), ("dicom", 104, T),
    ("dict", 2628, T), ("dircproxy", 57000, T), ("discard", 9, T | U), ("distcc", 3632, T),
    ("domain", 53, T | U), ("domain-s", 853, T | U), ("echo", 7, T | U), ("epmap", 135, T),
    ("epmd", 4369, T), ("exec", 512, T), ("f5-globalsite", 2792, T), ("f5-iquery", 4353, T),
    ("fax", 4557, T), ("fido", 60179, T), ("finger", 79, T), ("font-service", 7100, T),
    ("freeciv", 5556, T), ("fsp", 21, U), ("fspd", 21, U), ("ftp", 21, T), ("ftp-data", 20, T),
    ("ftps", 990, T), ("ftps-data", 989, T), ("gdomap", 538, T | U), ("gds-db", 3050, T),
    ("gds_db", 3050, T), ("git", 9418, T), ("gnunet", 2086, T | U), ("gnutella-rtr", 6347, T | U),
    ("gnutella-svc", 6346, T | U), ("gopher", 70, T), ("gpsd", 2947, T), ("gris", 2135, T),
    ("groupwise", 1677, T), ("gsidcap", 22128, T), ("gsiftp", 2811, T),
    ("gsigatekeeper", 2119, T), ("hkp", 11371, T), ("hprop", 754, T), ("http", 80, T),
    ("http-alt", 8080, T), ("https", 443, T | U), ("hylafax", 4559, T), ("iax", 4569, U),
    ("icp", 3130, U), ("icpv2", 3130, U), ("ident", 113, T), ("imap", 143, T), ("imap2", 143, T),
    ("imaps", 993, T), ("ingreslock", 1524, T), ("ipp", 631, T), ("iprop", 2121, T),
    ("ipsec-nat-t", 4500, U), ("ipx", 213, U), ("ircd", 6667, T), ("ircs-u", 6697, T),
    ("isakmp", 500, U), ("iscsi-target", 3260, T), ("isisd", 2608, T), ("isns", 3205, T | U),
    ("iso-tsap", 102, T), ("jabber-client", 5222, T), ("jabber-server", 5269, T),
    ("kamanda", 10081, T), ("kdc", 750, T | U), ("kerberos", 88, T | U), ("kerberos-adm", 749, T),
    ("kerberos-iv", 750, T | U), ("kerberos-master", 751, T | U), ("kerberos-sec", 88, T | U),
    ("kerberos4", 750, T | U), ("kerberos5", 88, T | U), ("kerberos_master", 751, U),
    ("kermit", 1649, T), ("klogin", 543, T), ("kpasswd", 464, T | U), ("krb-prop", 754, T),
    ("krb5", 88, T | U), ("krb5_prop", 754, T), ("krb_prop", 754, T), ("krcmd", 544, T),
    ("kshell", 544, T), ("l2f", 1701, U), ("l2tp", 1701, U), ("ldap", 389, T | U),
    ("ldaps", 636, T | U), ("ldp", 646, T | U), ("loc-srv", 135, T), ("login", 513, T),
    ("lotusnote", 1352, T), ("lotusnotes", 1352, T), ("lrrd", 4949, T), ("mail", 25, T),
    ("mailq", 174, T), ("mdns", 5353, U), ("microsoft-ds", 445, T), ("moira-db", 775, T),
    ("moira-update", 777, T), ("moira-ureg", 779, U), ("moira_db", 775, T),
    ("moira_update", 777, T), ("moira_ureg", 779, U), ("mon", 2583, T | U), ("ms-sql-m", 1434, U),
    ("ms-sql-s", 1433, T), ("ms-wbt-server", 3389, T), ("mtn", 4691, T), ("munin", 4949, T),
    ("mysql", 3306, T), ("mysql-proxy", 6446, T), ("nbd", 10809, T), ("netbios-dgm", 138, U),
    ("netbios-ns", 137, U), ("netbios-ssn", 139, T), ("netstat", 15, T), ("nfs", 2049, T | U),
    ("nicname", 43, T), ("nntp", 119, T), ("nntps", 563, T), ("nqs", 607, T), ("nrpe", 5666, T),
    ("nsca", 5667, T), ("ntalk", 518, U), ("ntp", 123, U), ("ntske", 4460, T), ("null", 9, T | U),
    ("nut", 3493, T | U), ("old-radacct", 1646, T | U), ("old-radius", 1645, T | U),
    ("omniorb", 8088, T), ("openvpn", 1194, T | U), ("ospf6d", 2606, T), ("ospfapi", 2607, T),
    ("ospfd", 2604, T), ("passwd-server", 752, U), ("passwd_server", 752, U), ("pawserv", 345, T),
    ("pop-3", 110, T), ("pop3", 110, T), ("pop3s", 995, T), ("poppassd", 106, T),
    ("portmapper", 111, T | U), ("postgres", 5432, T), ("postgresql", 5432, T),
    ("predict", 1210, U), ("printer", 515, T), ("proofd", 1093, T), ("ptp-event", 319, U),
    ("ptp-general", 320, U), ("puppet", 8140, T), ("qmqp", 628, T), ("qmtp", 209, T),
    ("qotd", 17, T), ("quote", 17, T), ("radacct", 1813, T | U), ("radius", 1812, T | U),
    ("radius-acct", 1813, T | U), ("radmin-port", 4899, T), ("readnews", 119, T),
    ("redis", 6379, T), ("remctl", 4373, T), ("ripd", 2602, T), ("ripngd", 2603, T),
    ("rmiregistry", 1099, T), ("rmtcfg", 1236, T), ("rootd", 1094, T), ("route", 520, U),
    ("routed", 520, U), ("router", 520, U), ("rpc2portmap", 369, T | U), ("rplay", 5555, U),
    ("rptp", 5556, T), ("rsync", 873, T), ("rtcm-sc104", 2101, T | U), ("rtsp", 554, T | U),
    ("sa-msg-port", 1646, T | U), ("saft", 487, T), ("sane", 6566, T), ("sane-port", 6566, T),
    ("saned", 6566, T), ("sge-execd", 6445, T), ("sge-qmaster", 6444, T), ("sge_execd", 6445, T),
    ("sge_qmaster", 6444, T), ("sgi-cad", 17004, T), ("sgi-cmsd", 17001, U),
    ("sgi-crsd", 17002, U), ("sgi-gcd", 17003, U), ("shell", 514, T), ("sieve", 4190, T),
    ("silc", 706, T), ("sink", 9, T | U), ("sip", 5060, T | U), ("sip-tls", 5061, T | U),
    ("skkserv", 1178, T), ("smtp", 25, T), ("smtps", 465, T), ("smux", 199, T),
    ("snmp", 161, T | U), ("snmp-trap", 162, T | U), ("snmptrap", 162, T | U), ("snntp", 563, T),
    ("snpp", 444, T), ("socks", 1080, T), ("source", 19, T | U), ("spamd", 783, T),
    ("spooler", 515, T), ("ssh", 22, T), ("ssmtp", 465, T), ("submission", 587, T),
    ("submissions", 465, T), ("subversion", 3690, T), ("sunrpc", 111, T | U),
    ("supfiledbg", 1127, T), ("supfilesrv", 871, T), ("suucp", 4031, T), ("svn", 3690, T),
    ("svrloc", 427, T | U), ("syslog", 514, T | U), ("syslog-tls", 6514, T), ("sysrqd", 4094, T),
    ("systat", 11, T), ("tacacs", 49, T | U), ("talk", 517, U), ("tap", 113, T), ("tcpmux", 1, T),
    ("telnet", 23, T), ("telnets", 992, T), ("tfido", 60177, T), ("tftp", 69, U),
    ("time", 37, T | U), ("timserver", 37, T | U), ("tinc", 655, T | U), ("tproxy", 8081, T),
    ("tsap", 102, T), ("ttytst", 19, T | U), ("untp", 119, T), ("urd", 465, T), ("users", 11, T),
    ("uucp", 540, T), ("uucpd", 540, T), ("venus", 2430, T | U), ("venus-se", 2431, T | U),
    ("wais", 210, T), ("webcache", 8080, T), ("webmin", 10000, T), ("who", 513, U),
    ("whod", 513, U), ("whois", 43, T), ("wnn6", 22273, T), ("www", 80, T), ("x11", 6000, T),
    ("x11-0", 6000, T), ("x11-1", 6001, T), ("x11-2", 6002, T), ("x11-3", 6003, T),
    ("x11-4", 6004, T), ("x11-5", 6005, T), ("x11-6", 6006, T), ("x11-7", 6007, T),
    ("xdmcp", 177, U), ("xfs", 7100, T), ("xinetd", 9098, T), ("xmms2", 9667, T),
    ("xmpp-client", 5222, T), ("xmpp-server", 5269, T), ("xtel", 1313, T), ("xtelw", 1314, T),
    ("z3950", 210, T), ("zabbix-agent", 10050, T), ("zabbix-trapper", 10051, T),
    ("zebra", 2601, T), ("zebrasrv", 2600, T), ("zephyr-clt", 2103, U), ("zephyr-hm", 2104, U),
    ("zephyr-srv", 2102, U), ("zope", 9673, T), ("zope-ftp", 8021, T), ("zserv", 346, T),
];

/// The port of a service. `None` asks for any transport, the first that has the name.
#[must_use]
pub fn port(name: &str, transport: Option<Transport>) -> Option<u16> {
    let first = SERVICES.partition_point(|row| row.0 < name);
    let wanted = transport.map_or(T | U | S, Transport::bit);
    SERVICES[first..]
        .iter()
        .take_while(|row| row.0 == name)
        .find(|row| row.2 & wanted != 0)
        .map(|row| row.1)
}

/// All names, for suggestions.
pub fn names() -> impl Iterator<Item = &'static str> {
    SERVICES.iter().map(|row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_every_name_is_found() {
        assert!(SERVICES.is_sorted_by(|a, b| (a.0, a.1) <= (b.0, b.1)));
        for &(name, number, transports) in SERVICES {
            for transport in [Transport::Tcp, Transport::Udp, Transport::Sctp] {
                if transports & transport.bit() != 0 {
                    assert_eq!(port(name, Some(transport)), Some(number), "{name}");
                }
            }
        }
    }

    #[test]
    fn names_depend_on_the_transport() {
        assert_eq!(port("ssh", Some(Transport::Tcp)), Some(22));
        assert_eq!(port("ssh", Some(Transport::Udp)), None);
        assert_eq!(port("syslog", Some(Transport::Udp)), Some(514));
        assert_eq!(port("who", Some(Transport::Udp)), Some(513));
        assert_eq!(port("login", Some(Transport::Tcp)), Some(513));
        assert_eq!(port("www", None), Some(80));
        assert_eq!(port("nonsense", None), None);
    }
}
