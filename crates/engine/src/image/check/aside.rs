//! Tests of what the kernel knows beside headers, of bytes, and of what few ask of headers.

use super::walk::{Checked, Checker, hold};
use crate::image::aside::{
    ASIDE_ETHERNET_AMONG, ASIDE_ETHERNET_MASKED, ASIDE_ETHERNET_TYPE, ASIDE_HEADER, ASIDE_LAST,
    ASIDE_NAME_IN, ASIDE_NAME_OUT, ASIDE_PORT_IN, ASIDE_PORT_OUT, ASIDE_SOCKET, ASIDE_TCP,
    ASIDE_TEXT, ASIDE_WORDS, Glob, HEADER_BYTES, PortName, TCP_DATA, TCP_SEQUENCE, TEXT_MAX,
    TEXT_ROWS, TextTable, WORD_AT, WORD_IN_LAST, WORD_OPS_MAX, WORD_READ, WordOp,
};
use crate::image::layout::Test;
use weir_policy::eval::ipfw::glob::NAME_BYTES_MAX;

impl Checker<'_, '_> {
    pub(super) fn aside(&self, test: &Test) -> Checked {
        hold(
            (ASIDE_SOCKET..=ASIDE_LAST).contains(&test.small),
            "a kind of test beside headers",
        )?;
        match test.small {
            ASIDE_PORT_IN | ASIDE_PORT_OUT if test.at != 0 => {
                self.array(test.at, 1, size_of::<PortName>(), "the name of a port")
            }
            ASIDE_WORDS | ASIDE_HEADER => {
                hold(test.count as usize <= WORD_OPS_MAX, "steps on words")?;
                self.array(test.at, test.count, size_of::<WordOp>(), "steps on words")?;
                let op = |at: u32| test.at + at * size_of::<WordOp>() as u32;
                (0..test.count).try_for_each(|at| {
                    let op: WordOp = self.image.read(op(at));
                    let beyond =
                        op.kind == WORD_AT || op.kind == WORD_READ && op.a > HEADER_BYTES - 4;
                    hold(
                        (WORD_READ..=WORD_IN_LAST).contains(&op.kind)
                            && !(beyond && test.small == ASIDE_HEADER),
                        "a step on words",
                    )
                })
            }
            ASIDE_TCP => {
                let known = (TCP_SEQUENCE..=TCP_DATA).contains(&test.a);
                hold(known, "a number of the TCP header")?;
                hold(test.count < 1 << 17, "the ranges of a test")?;
                self.array(test.at, test.count, 8, "the ranges of a test")
            }
            ASIDE_TEXT => self.text(test.at),
            ASIDE_ETHERNET_TYPE => {
                hold(test.count < 1 << 17, "the ranges of a test")?;
                self.array(test.at, test.count, 8, "the ranges of a test")
            }
            ASIDE_ETHERNET_MASKED => {
                hold(test.a < 2, "a side of a frame")?;
                self.array(test.at, 1, 16, "a MAC address")
            }
            ASIDE_ETHERNET_AMONG => {
                hold(test.a < 2, "a side of a frame")?;
                hold(test.count < 1 << 17, "the MAC addresses of a test")?;
                self.array(test.at, test.count, 16, "the MAC addresses of a test")
            }
            ASIDE_NAME_IN | ASIDE_NAME_OUT => {
                self.array(test.at, 1, size_of::<Glob>(), "a pattern of names")?;
                let glob: Glob = self.image.read(test.at);
                hold(
                    usize::from(glob.length) <= NAME_BYTES_MAX,
                    "the length of a pattern of names",
                )
            }
            _ => Ok(()),
        }
    }

    /// No byte leads beyond the end of the text, and no class beyond the rows.
    fn text(&self, at: u32) -> Checked {
        self.array(at, 1, TEXT_ROWS as usize, "a text")?;
        let table: TextTable = self.image.read(at);
        let most = TEXT_MAX as u32;
        hold((1..=most).contains(&table.length), "the length of a text")?;
        hold(
            (2..=most + 1).contains(&table.classes),
            "the classes of a text",
        )?;
        hold(table.to <= 1 << 16, "where a text may begin")?;
        let cells = table.length * table.classes;
        self.array(at + TEXT_ROWS, cells, 1, "the rows of a text")?;
        let byte = |at: u32| u32::from(self.image.read::<u8>(at));
        let classes_at = at + size_of::<TextTable>() as u32;
        hold(
            (0..256).all(|value| byte(classes_at + value) < table.classes),
            "a class of bytes",
        )?;
        hold(
            (0..cells).all(|cell| byte(at + TEXT_ROWS + cell) <= table.length),
            "a state of a text",
        )
    }
}
