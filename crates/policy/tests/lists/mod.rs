//! Lists of spellings: a line each, `#` before remarks.

/// Checks each line of a list, and gives how many there are. `wrong`: what is wrong with one.
pub fn check(list: &str, wrong: impl Fn(&str) -> Option<String>) -> usize {
    let is_one = |line: &&str| !line.starts_with('#') && !line.is_empty();
    let lines: Vec<&str> = list.lines().filter(is_one).collect();
    let wrong: Vec<String> = lines.iter().filter_map(|line| wrong(line)).collect();
    let (bad, all) = (wrong.len(), lines.len());
    assert!(bad == 0, "{bad} of {all}:\n{}", wrong.join("\n"));
    all
}
