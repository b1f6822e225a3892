//! Records of logging rules as ipfw's kernel writes them to syslog.
//!
//! In: a record of the kernel, what stands in front of its line (`ipfw: NUMBER ACTION `, made with
//! the rule). Out: the line, without time and host.

use weir_engine::packet::ipfw::{Met, Read, frame, read};
use weir_plane::events::Event;
use weir_policy::dialect::ipfw::Settings;
use weir_policy::dialect::ipfw::log::what;
use weir_policy::eval::ipfw::{Pass, log_packet};

/// The line of a record.
pub fn line(event: &Event, front: &str) -> String {
    // It tells of no packet.
    if front.starts_with("ipfw: limit ") {
        return front.to_owned();
    }
    let sent = !event.out_iface.is_empty();
    let met = Met {
        pass: if sent { Pass::Out } else { Pass::In },
        recv: event.in_iface.clone(),
        xmit: event.out_iface.clone(),
        frame: None,
        to_many: false,
    };
    // What a rule logged was read before; the rest of it may not have been captured.
    let settings = Settings {
        deny_unknown_exthdrs: false,
        ..Settings::default()
    };
    match read(&event.bytes, event.length, &met, &settings) {
        Read::Packet(packet) => format!("{front}{}", what(&log_packet(&packet))),
        // Only frames are judged that hold no packet.
        Read::NotIp => {
            let frame = frame(&met, event.length, None);
            format!("{front}{}", what(&log_packet(&frame)))
        }
        Read::Dropped(_) => {
            let (word, name) = match sent {
                true => ("out", &event.out_iface),
                false => ("in", &event.in_iface),
            };
            format!("{front}P:{} {word} via {name}", event.key.proto)
        }
    }
}
