//! Output of a command: its pipe, and the lines of it that are kept.

use std::collections::VecDeque;
use std::io::{PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Serialize, Serializer};

use super::super::logs::plain;

/// The first lines that are kept, and the last ones.
const FIRST_LINES: usize = 8;
const LAST_LINES: usize = 56;
/// The most octets of the last lines together. One line is kept in any case.
const LAST_OCTETS: usize = 16 << 10;
/// The longest line, in characters. A line may have the whole command to give.
const LONGEST_LINE: usize = 2_000;
/// Octets that a character has at most, in UTF-8.
const CHARACTER_OCTETS: usize = 4;

/// Lines of a command: the first ones say what it is about, and the last ones how it ended.
#[derive(Clone, Default, Debug)]
pub(super) struct Lines {
    first: Vec<String>,
    last: VecDeque<String>,
    /// Lines between them.
    left_out: usize,
}

/// Output of a command, as far as it is read.
#[derive(Debug)]
pub(super) struct Output {
    /// None: nobody writes there any more.
    pipe: Option<PipeReader>,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Lines {
    pub(super) fn takes(&mut self, line: &[u8]) {
        let line = plain(String::from_utf8_lossy(line).trim_end());
        let line: String = line.chars().take(LONGEST_LINE).collect();
        if self.last.is_empty() && self.first.len() < FIRST_LINES {
            self.first.push(line);
            return;
        }
        self.last.push_back(line);
        while self.last.len() > 1 && self.are_too_many() {
            self.last.pop_front();
            self.left_out += 1;
        }
    }

    fn are_too_many(&self) -> bool {
        self.last.len() > LAST_LINES || self.last.iter().map(String::len).sum::<usize>() > LAST_OCTETS
    }
}

impl Serialize for Lines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let left_out = (self.left_out > 0).then(|| format!("(lines left out here: {})", self.left_out));
        serializer.collect_seq(self.first.iter().chain(&left_out).chain(&self.last))
    }
}

impl Output {
    pub(super) const fn new(pipe: PipeReader) -> Self {
        Self { pipe: Some(pipe), begun: Vec::new() }
    }

    /// Waits up to `milliseconds` for octets, and gives the lines that they end to `take`. False if none came.
    pub(super) fn read(&mut self, milliseconds: u16, take: impl FnMut(&[u8])) -> bool {
        let Some(pipe) = &mut self.pipe else {
            thread::sleep(Duration::from_millis(milliseconds.into()));
            return false;
        };
        let mut looks = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut looks, PollTimeout::from(milliseconds)), Ok(1..)) {
            return false;
        }
        let mut octets = [0; 4096];
        match pipe.read(&mut octets) {
            Ok(count @ 1..) => self.split(&octets[..count], take),
            _ => self.pipe = None,
        }
        self.pipe.is_some()
    }

    /// Gives a last line without an end to `take`.
    pub(super) fn end(self, mut take: impl FnMut(&[u8])) {
        if !self.begun.is_empty() {
            take(&self.begun);
        }
    }

    fn split(&mut self, octets: &[u8], mut take: impl FnMut(&[u8])) {
        for octet in octets {
            match octet {
                b'\n' => {
                    take(&self.begun);
                    self.begun.clear();
                }
                // More of a line is not kept anyway.
                _ if self.begun.len() >= CHARACTER_OCTETS * LONGEST_LINE => {}
                octet => self.begun.push(*octet),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &Lines) -> Vec<String> {
        serde_json::from_value(serde_json::to_value(lines).unwrap()).unwrap()
    }

    /// Errors, and what a command has left undone, stand at its end.
    #[test]
    fn the_first_lines_stay_and_the_last_ones() {
        let mut lines = Lines::default();
        (0..64).for_each(|number: u32| lines.takes(number.to_string().as_bytes()));
        let all: Vec<_> = (0..64).map(|number: u32| number.to_string()).collect();
        assert_eq!(shown(&lines), all);
        (64..100).for_each(|number: u32| lines.takes(number.to_string().as_bytes()));
        let shown = shown(&lines);
        assert_eq!(shown.len(), FIRST_LINES + 1 + LAST_LINES);
        assert_eq!(shown[..FIRST_LINES], all[..FIRST_LINES]);
        assert_eq!(shown[FIRST_LINES], "(lines left out here: 36)");
        assert_eq!((shown[FIRST_LINES + 1].as_str(), shown.last().unwrap().as_str()), ("44", "99"));
    }

    #[test]
    fn long_lines_are_bounded_together() {
        let mut lines = Lines::default();
        (0..100).for_each(|_| lines.takes("ä".repeat(LONGEST_LINE + 1).as_bytes()));
        assert!(lines.first.iter().chain(&lines.last).all(|line| line.chars().count() == LONGEST_LINE));
        assert!(lines.last.iter().map(String::len).sum::<usize>() <= LAST_OCTETS);
        assert_eq!(lines.first.len() + lines.left_out + lines.last.len(), 100);
        // The last one stays, however long it is.
        lines.takes("𝄞".repeat(LONGEST_LINE).as_bytes());
        assert_eq!(lines.last.back().unwrap().chars().count(), LONGEST_LINE);
    }

    /// A line may come in pieces, and the last one without an end.
    #[test]
    fn a_pipe_is_read_in_lines() {
        use std::io::Write as _;
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut output = Output::new(reader);
        let mut lines: Vec<String> = Vec::new();
        let mut take = |line: &[u8]| lines.push(String::from_utf8(line.to_vec()).unwrap());
        assert!(!output.read(1, &mut take), "nothing was written");
        for piece in ["one\ntw", "o\nthree"] {
            writer.write_all(piece.as_bytes()).unwrap();
            assert!(output.read(1_000, &mut take));
        }
        drop(writer);
        assert!(!output.read(1_000, &mut take), "it has ended");
        output.end(&mut take);
        assert_eq!(lines, ["one", "two", "three"]);
    }
}
