//! Lists of ipfw and IPFilter: the rules of both families and directions as the text of a file.
//!
//! In: items of each family and direction. Out: lines. Rules that are the same for both families
//! stand once. Where lists have places that rules skip to, or differ too much, those of IPv6 follow
//! those of IPv4.

use super::flat::{Does, Item};
use crate::model::Family;

/// Items of a list, in two spellings: with and without a word for the family.
pub struct Spelled {
    /// Without.
    pub plain: Vec<Item>,
    /// With; as many, and alike.
    pub told: Vec<Item>,
}

/// Rules of one list that are compared with one another.
const MERGED_MAX: usize = 4000;

fn has_labels(items: &[Item]) -> bool {
    items.iter().any(|item| matches!(item, Item::Label(_)))
}

/// A rule with the comments over it, in both spellings.
struct Line<'i> {
    comments: Vec<&'i Item>,
    plain: &'i Item,
    told: &'i Item,
}

fn lines(list: &Spelled) -> Vec<Line<'_>> {
    let mut out = Vec::new();
    let mut comments = Vec::new();
    for (plain, told) in list.plain.iter().zip(&list.told) {
        match plain {
            Item::Comment(_) => comments.push(plain),
            _ => out.push(Line {
                comments: std::mem::take(&mut comments),
                plain,
                told,
            }),
        }
    }
    out
}

/// One list for both families; `six` is how a rule about every IPv6 packet is said, and `label` a
/// label that isn't in use.
pub fn both(four: &Spelled, six: &Spelled, every_six: &str, label: usize) -> Vec<Item> {
    let rules = |list: &Spelled| -> Vec<Item> {
        let rule = |item: &&Item| !matches!(item, Item::Comment(_));
        list.plain.iter().filter(rule).cloned().collect()
    };
    if renumbered(rules(four)) == renumbered(rules(six)) {
        return four.plain.clone();
    }
    let short = four.plain.len().max(six.plain.len()) <= MERGED_MAX;
    if short && !has_labels(&four.plain) && !has_labels(&six.plain) {
        return merged(&lines(four), &lines(six));
    }
    let mut out = vec![
        Item::Comment("the rules for IPv6 are behind those for IPv4".to_owned()),
        Item::Rule(every_six.to_owned(), Does::Skip(label)),
    ];
    out.extend(four.plain.iter().cloned());
    out.push(Item::Label(label));
    // With their family, so that none is the same as a rule for IPv4: IPFilter loads a rule once.
    out.extend(six.told.iter().cloned());
    out
}

/// Labels by the order in which they are met, so that equal lists are equal.
fn renumbered(mut items: Vec<Item>) -> Vec<Item> {
    let mut known: Vec<usize> = Vec::new();
    let mut number = |label: &mut usize| {
        let at = known.iter().position(|one| one == label);
        *label = at.unwrap_or_else(|| {
            known.push(*label);
            known.len() - 1
        });
    };
    for item in &mut items {
        match item {
            Item::Label(label) | Item::Rule(_, Does::Skip(label)) => number(label),
            _ => {}
        }
    }
    items
}

/// The longest common lines once, the others with their family.
fn merged(four: &[Line<'_>], six: &[Line<'_>]) -> Vec<Item> {
    let (n, m) = (four.len(), six.len());
    let mut longest = vec![0u32; (n + 1) * (m + 1)];
    let at = |i: usize, j: usize| i * (m + 1) + j;
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            longest[at(i, j)] = match four[i].plain == six[j].plain {
                true => longest[at(i + 1, j + 1)] + 1,
                false => longest[at(i + 1, j)].max(longest[at(i, j + 1)]),
            };
        }
    }
    let mut out: Vec<Item> = Vec::new();
    let mut put = |line: &Line<'_>, item: &Item| {
        for comment in &line.comments {
            if !out.contains(comment) {
                out.push((*comment).clone());
            }
        }
        out.push(item.clone());
    };
    let (mut i, mut j) = (0, 0);
    while i < n || j < m {
        if i < n && j < m && four[i].plain == six[j].plain {
            put(&four[i], four[i].plain);
            (i, j) = (i + 1, j + 1);
        } else if j == m || i < n && longest[at(i + 1, j)] >= longest[at(i, j + 1)] {
            put(&four[i], four[i].told);
            i += 1;
        } else {
            put(&six[j], six[j].told);
            j += 1;
        }
    }
    out
}

/// The family that a list is not for, where the source says nothing of it.
pub fn other(family: Family) -> Family {
    match family {
        Family::V4 => Family::V6,
        Family::V6 => Family::V4,
    }
}
