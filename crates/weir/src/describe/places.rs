//! Where programs are attached, in words.
//!
//! In: names of pinned links, as `weir_plane` gives them, and the interfaces of the namespace. Out:
//! lines for people, such as `IPv4: PREROUTING INPUT FORWARD (fragments put together first)`.

/// The hooks of netfilter in the order in which packets meet them.
const HOOKS: [&str; 5] = ["prerouting", "input", "forward", "output", "postrouting"];
/// Links on interfaces: the beginning of their names, and what the programs do.
const INTERFACES: [(&str, &str); 3] = [
    ("link_xdp_", "early drop (XDP)"),
    ("link_tcxin_", "on the way in"),
    ("link_tcx_", "on the way out"),
];

/// One line for each family that has hooks, then one for each kind of link on interfaces.
pub fn places(links: &[String], interfaces: &[(u32, String)]) -> Vec<String> {
    let families = [("IPv4", "link_v4_"), ("IPv6", "link_v6_")];
    let hooks = families.into_iter().filter_map(|(name, start)| {
        let words = hooks_of(links, start)?;
        Some(format!("{name}: {words}"))
    });
    let on_interfaces = INTERFACES.into_iter().filter_map(|(start, what)| {
        let names: Vec<String> = links
            .iter()
            .filter_map(|link| link.strip_prefix(start))
            .map(|number| interface(number, interfaces))
            .collect();
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(" ")))
    });
    hooks.chain(on_interfaces).collect()
}

/// The hooks of a family; `None` when it has none.
fn hooks_of(links: &[String], start: &str) -> Option<String> {
    let own: Vec<&str> = links
        .iter()
        .filter_map(|link| link.strip_prefix(start))
        .collect();
    let names: Vec<String> = HOOKS
        .into_iter()
        .filter(|hook| own.iter().any(|link| link.split('_').next() == Some(hook)))
        .map(str::to_ascii_uppercase)
        .collect();
    if names.is_empty() {
        return None;
    }
    let together = own.iter().any(|link| link.contains("_defrag"));
    let end = match together {
        true => " (fragments put together first)",
        false => "",
    };
    Some(format!("{}{end}", names.join(" ")))
}

/// The name of an interface by its number; one that is gone keeps its number.
fn interface(number: &str, interfaces: &[(u32, String)]) -> String {
    let known = interfaces
        .iter()
        .find(|(index, _)| number.parse() == Ok(*index));
    known.map_or_else(
        || format!("number {number} (gone)"),
        |(_, name)| name.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_told_in_the_order_of_the_packets() {
        let links = [
            "link_tcx_2",
            "link_tcx_9",
            "link_v4_input_defrag",
            "link_v4_prerouting_defrag_tracked",
            "link_v6_output",
            "link_xdp_2",
        ]
        .map(str::to_owned);
        let told = places(&links, &[(1, "lo".to_owned()), (2, "eth0".to_owned())]);
        assert_eq!(
            told,
            [
                "IPv4: PREROUTING INPUT (fragments put together first)",
                "IPv6: OUTPUT",
                "early drop (XDP): eth0",
                "on the way out: eth0 number 9 (gone)",
            ]
        );
    }
}
