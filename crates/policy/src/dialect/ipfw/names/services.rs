//! Services as FreeBSD's services(5) has them: the well-known ones.
//!
//! In: a name and a protocol, or a port and a protocol. Out: the other. The host's own list is
//! never asked: names must mean the same on Linux as they did at home (`natd` is 8668/divert).
//!
//! Source: FreeBSD 13 `/etc/services`, IANA "Service Name and Transport Protocol Port Number
//! Registry". A name that is missing here is a located error, never a guess.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Lines of name, port, protocols (t tcp, u udp, s sctp, d divert), aliases. The first line of a
/// port gives its name when printed.
const SERVICES: &str = "\
tcpmux 1 tu
compressnet 2 tu
rje 5 tu
echo 7 tu
discard 9 tus sink null
systat 11 tu users
daytime 13 tu
qotd 17 tu quote
msp 18 tu
chargen 19 tu ttytst source
ftp-data 20 tus
ftp 21 tus
ssh 22 tus
telnet 23 tu
smtp 25 tu mail
nsw-fe 27 tu
msg-icp 29 tu
time 37 tu timserver
rap 38 tu
rlp 39 tu resource
graphics 41 tu
nameserver 42 tu
nicname 43 tu whois
login 49 tu
tacacs 49 tu
re-mail-ck 50 tu
xns-time 52 tu
domain 53 tu
xns-ch 54 tu
whois++ 63 tu
bootps 67 tu
bootpc 68 tu
tftp 69 tu
gopher 70 tu
finger 79 tu
http 80 tus www www-http
kerberos-sec 88 tu kerberos
supdup 95 tu
hostname 101 tu hostnames
iso-tsap 102 tu tsap
acr-nema 104 tu
csnet-ns 105 tu cso-ns
rtelnet 107 tu
pop2 109 tu postoffice
pop3 110 tu
sunrpc 111 tu rpcbind portmapper
auth 113 tu ident tap
sftp 115 tu
uucp-path 117 tu
nntp 119 tu usenet
ntp 123 tu
epmap 135 tu loc-srv
netbios-ns 137 tu
netbios-dgm 138 tu
netbios-ssn 139 tu
imap 143 tu imap2 imap4
sql-net 150 tu
bftp 152 tu
sgmp 153 tu
snmp 161 tu
snmptrap 162 tu snmp-trap
cmip-man 163 tu
cmip-agent 164 tu
mailq 174 tu
xdmcp 177 tu
nextstep 178 tu
bgp 179 tus
prospero 191 tu
irc 194 tu
smux 199 tu
at-rtmp 201 tu
at-nbp 202 tu
at-echo 204 tu
at-zis 206 tu
z39.50 210 tu z3950 wais
ipx 213 tu
imap3 220 tu
pawserv 345 tu
zserv 346 tu
fatserv 347 tu
rpc2portmap 369 tu
codaauth2 370 tu
ulistserv 372 tu
ldap 389 tu
imsp 406 tu
svrloc 427 tu
https 443 tus
snpp 444 tu
microsoft-ds 445 tu
kpasswd5 464 tu
urd 465 t smtps ssmtp
photuris 468 tu
saft 487 tu
isakmp 500 tu
exec 512 t
biff 512 u comsat
login 513 t
who 513 u whod
shell 514 t cmd
syslog 514 u
printer 515 tu spooler
talk 517 tu
ntalk 518 tu
utime 519 tu unixtime
router 520 u route routed
efs 520 t
ripng 521 tu
timed 525 tu timeserver
tempo 526 tu newdate
courier 530 tu rpc
conference 531 tu chat
netnews 532 tu readnews
netwall 533 tu
uucp 540 tu uucpd
uucp-rlogin 541 tu
klogin 543 tu
kshell 544 tu krcmd
dhcpv6-client 546 tu
dhcpv6-server 547 tu
afpovertcp 548 tu
rtsp 554 tu
remotefs 556 tu rfs_server rfs
nntps 563 tu snntp
submission 587 tu
http-alt 591 tu
sunrpc-alt 592 tu
asf-rmcp 623 tu
ipp 631 tu
ldaps 636 tu sldap
msdp 639 tu
ldp 646 tu
dhcp-failover 647 tu
rrp 648 tu
mdqs 666 tu
acap 674 tu
olsr 698 tu
lmp 701 tu
silc 706 tu
kerberos-adm 749 tu
kerberos-iv 750 tu kdc
krbupdate 760 tu kreg
kpasswd 761 tu kpwd
supfilesrv 871 t
rsync 873 tu
swat 901 t
iscsi 860 tu
ftps-data 989 tu
ftps 990 tu
nas 991 tu
telnets 992 tu
imaps 993 tu
ircs 994 tu
pop3s 995 tu spop3
socks 1080 tu
nfsd-keepalive 1110 u
kpop 1109 t
lotusnote 1352 tu
ms-sql-s 1433 tu
ms-sql-m 1434 tu
ingreslock 1524 tu
prospero-np 1525 tu
orasrv 1525 tu
ncube-lm 1521 tu
l2f 1701 tu l2tp
pptp 1723 tu
radius 1812 tu
radius-acct 1813 tu
hsrp 1985 tu
nfsd 2049 tus nfs
cvsup 5999 tu
knetd 2053 t
bootserver 2016 tu
zephyr-srv 2102 tu
zephyr-clt 2103 tu
zephyr-hm 2104 tu
eklogin 2105 t
ekshell 2106 t
rkinit 2108 t
cvspserver 2401 tu
venus 2430 tu
gtp-control 2123 tu
gtp-user 2152 tu
ircd 6667 t
ivs-video 2232 tu
compaqdiag 2301 tu
postgresql 5432 tu
iscsi-target 3260 tu
squid 3128 tu
mysql 3306 tu
rdp 3389 tu ms-wbt-server
daap 3689 tu
svn 3690 tu
krb524 4444 tu
ipsec-nat-t 4500 tu sae-urn ipsec-msft
rfe 5002 tu
sip 5060 tus
sip-tls 5061 tus
xmpp-client 5222 tu
xmpp-server 5269 tu
mdns 5353 tu
canna 5680 tu
x11 6000 tu
x11-ssh 6010 tu
git 9418 tu
iax 4569 tu
http-alt 8080 tu webcache
natd 8668 dtu
jetdirect 9100 tu hp-pdl-datastr
bacula-dir 9101 tu
bacula-fd 9102 tu
bacula-sd 9103 tu
sane-port 6566 tu
amanda 10080 tu
amandaidx 10082 t
amidxtape 10083 t
openvpn 1194 tu
rpasswd 774 t
webster 765 tu
radmin-port 4899 tu
vnc-server 5900 tu rfb
zabbix-agent 10050 tu
zabbix-trapper 10051 tu
dict 2628 tu
corbaloc 2809 tu
icpv2 3130 tu
mqtt 1883 tu
secure-mqtt 8883 tu
redis 6379 t
memcache 11211 tu
afs3-fileserver 7000 tu
afs3-callback 7001 tu
afs3-prserver 7002 tu
afs3-vlserver 7003 tu
afs3-kaserver 7004 tu
afs3-volser 7005 tu
afs3-errors 7006 tu
afs3-bos 7007 tu
afs3-update 7008 tu
afs3-rmtsys 7009 tu
font-service 7100 tu xfs
subseven 27374 t
kx 2111 t
kauth 2120 t
sieve 4190 tu
puppet 8140 tu
distcc 3632 tu
";

struct Service {
    name: &'static str,
    port: u16,
    protocols: &'static str,
    aliases: std::str::SplitAsciiWhitespace<'static>,
}

fn services() -> impl Iterator<Item = Service> {
    SERVICES.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        let port = words.next()?.parse().ok()?;
        let protocols = words.next()?;
        Some(Service {
            name,
            port,
            protocols,
            aliases: words,
        })
    })
}

/// Port and protocols of each name and alias, in the order of the table: words of rules that may
/// be ports are looked up by the ten thousand.
static BY_NAME: LazyLock<HashMap<&str, Vec<(u16, &str)>>> = LazyLock::new(|| {
    let mut all: HashMap<_, Vec<_>> = HashMap::new();
    for service in services() {
        for name in service.aliases.chain([service.name]) {
            let entry = (service.port, service.protocols);
            all.entry(name).or_default().push(entry);
        }
    }
    all
});

/// The letter of a protocol in the table; other protocols have no services.
fn letter(protocol: u16) -> Option<char> {
    match protocol {
        6 => Some('t'),
        17 => Some('u'),
        132 => Some('s'),
        DIVERT => Some('d'),
        _ => None,
    }
}

/// The pseudo protocol of divert sockets.
pub const DIVERT: u16 = 258;

/// The port of a name; protocol 0 takes any.
#[must_use]
pub fn port(name: &str, protocol: u16) -> Option<u16> {
    let letter = match protocol {
        0 => None,
        other => Some(letter(other)?),
    };
    let all = BY_NAME.get(name)?;
    let found = all
        .iter()
        .find(|(_, protocols)| letter.is_none_or(|l| protocols.contains(l)));
    found.map(|(port, _)| *port)
}

/// The name of a port; protocol 0 takes any.
#[must_use]
pub fn name(port: u16, protocol: u16) -> Option<&'static str> {
    let letter = match protocol {
        0 => None,
        other => Some(letter(other)?),
    };
    services()
        .find(|s| s.port == port && letter.is_none_or(|l| s.protocols.contains(l)))
        .map(|service| service.name)
}

/// All names, for suggestions.
pub fn names() -> impl Iterator<Item = &'static str> {
    services().map(|service| service.name)
}
