//! Which way a captured packet took through the host.
//!
//! In: what the capture says of a frame, and what the user said of the capture. Out: the last hook
//! of its way and its interfaces. The user's words win over the file's. An inbound frame whose
//! sending interface nobody names is taken as one for this host, an outbound one whose receiving
//! interface nobody names as one made here.

use super::{Frame, Way};
use weir_policy::model::{Hook, PacketType};

/// What the user said.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Receiving interface.
    pub in_iface: Option<String>,
    /// Sending interface.
    pub out_iface: Option<String>,
    /// Hook.
    pub hook: Option<Hook>,
}

/// The way of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    /// The hook that it ends at.
    pub hook: Hook,
    /// Receiving interface, empty for packets made here.
    pub in_iface: String,
    /// Sending interface, empty for packets that stay.
    pub out_iface: String,
}

/// The direction of a frame: from the file, from a Linux cooked header, or from the hook.
fn direction(frame: &Frame, given: &Given) -> Option<Way> {
    let cooked = frame
        .content
        .as_ref()
        .ok()
        .and_then(|network| (network.link.kind == PacketType::Outgoing).then_some(Way::Out));
    let hooked = match given.hook {
        Some(Hook::Prerouting | Hook::Input) => Some(Way::In),
        Some(Hook::Output | Hook::Postrouting) => Some(Way::Out),
        Some(Hook::Forward) | None => None,
    };
    frame.way.or(cooked).or(hooked)
}

/// Follows a frame.
pub fn journey(frame: &Frame, given: &Given) -> Journey {
    let way = direction(frame, given);
    let named = frame.interface.clone();
    let (file_in, file_out) = match way {
        Some(Way::Out) => (frame.received_on.clone(), named),
        // Without a direction, an interface name alone means where it was seen arriving, unless
        // the user named only the sending side.
        None if given.out_iface.is_some() && given.in_iface.is_none() => {
            (frame.received_on.clone(), None)
        }
        Some(Way::In) | None => (named, None),
    };
    let made_here =
        way == Some(Way::Out) && file_in.is_none() && !matches!(given.hook, Some(Hook::Forward));
    let in_iface = match made_here {
        true => None,
        false => given.in_iface.clone().or(file_in),
    };
    let out_iface = given.out_iface.clone().or(file_out);
    let hook = given.hook.unwrap_or(match (&in_iface, &out_iface) {
        (Some(_), Some(_)) => Hook::Forward,
        (None, Some(_)) => Hook::Output,
        (_, None) if way == Some(Way::Out) => Hook::Output,
        (_, None) => Hook::Input,
    });
    Journey {
        hook,
        in_iface: in_iface.unwrap_or_default(),
        out_iface: out_iface.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn frame(interface: Option<&str>, way: Option<Way>, received_on: Option<&str>) -> Frame {
        Frame {
            number: 1,
            time: Duration::ZERO,
            interface: interface.map(str::to_owned),
            way,
            received_on: received_on.map(str::to_owned),
            content: Err("not IP"),
            bare: None,
        }
    }

    fn given(in_iface: &str, out_iface: &str, hook: Option<Hook>) -> Given {
        let some = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        Given {
            in_iface: some(in_iface),
            out_iface: some(out_iface),
            hook,
        }
    }

    #[test]
    fn the_file_tells_the_way() {
        let (lan, wan) = (Some("lan"), Some("wan"));
        let (inward, outward) = (Some(Way::In), Some(Way::Out));
        let nothing = given("", "", None);
        let to_wan = given("", "wan", None);
        let forward = given("lan", "", Some(Hook::Forward));
        let cases = [
            (frame(lan, inward, None), &nothing, (Hook::Input, "lan", "")),
            (
                frame(wan, outward, None),
                &nothing,
                (Hook::Output, "", "wan"),
            ),
            (
                frame(wan, outward, lan),
                &nothing,
                (Hook::Forward, "lan", "wan"),
            ),
            (frame(lan, None, None), &nothing, (Hook::Input, "lan", "")),
            (frame(None, None, None), &nothing, (Hook::Input, "", "")),
            (
                frame(lan, inward, None),
                &to_wan,
                (Hook::Forward, "lan", "wan"),
            ),
            (frame(None, None, None), &to_wan, (Hook::Output, "", "wan")),
            (
                frame(wan, outward, None),
                &forward,
                (Hook::Forward, "lan", "wan"),
            ),
        ];
        for (frame, given, (hook, in_iface, out_iface)) in cases {
            let way = journey(&frame, given);
            let seen = (way.hook, way.in_iface.as_str(), way.out_iface.as_str());
            assert_eq!(seen, (hook, in_iface, out_iface), "{frame:?} {given:?}");
        }
    }

    #[test]
    fn the_user_tells_the_way_of_plain_captures() {
        let plain = frame(None, None, None);
        let way = |in_iface: &str, out_iface: &str, hook| {
            let way = journey(&plain, &given(in_iface, out_iface, hook));
            (way.hook, way.in_iface, way.out_iface)
        };
        let is = |hook, a: &str, b: &str| (hook, a.to_owned(), b.to_owned());
        assert_eq!(way("a", "", None), is(Hook::Input, "a", ""));
        assert_eq!(way("a", "b", None), is(Hook::Forward, "a", "b"));
        assert_eq!(way("", "b", Some(Hook::Output)), is(Hook::Output, "", "b"));
        assert_eq!(
            way("a", "b", Some(Hook::Forward)),
            is(Hook::Forward, "a", "b")
        );
        assert_eq!(
            way("a", "", Some(Hook::Prerouting)),
            is(Hook::Prerouting, "a", "")
        );
    }
}
