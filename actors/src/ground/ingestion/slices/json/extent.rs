//! Finds the end of a JSON value by its brackets and strings alone.

use super::super::input::is_white;
use memchr::memchr2;

/// A partly scanned value.
#[derive(Debug, Default)]
pub(super) struct Extent {
    state: State,
    /// The closing brackets of the open lists and objects, from the outside in. It is never longer than the value.
    open: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Bare,
    Text,
    /// After a backslash in a string.
    Escaped,
    /// After a string. The next byte shows whether the string really ended. A missing or extra quote would otherwise swap
    /// the inside and the outside of strings.
    Behind,
}

/// The value has ended; or the text that is allowed in place of the next byte.
type Ended = Result<(), &'static str>;

impl Extent {
    /// Scans more of the value. Returns the number of bytes of `chunk` that belong to it, and whether it ends after them.
    /// A value without any bytes is invalid.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> (usize, Option<Ended>) {
        let mut rest = chunk;
        while let [byte, behind @ ..] = rest {
            let seen = chunk.len() - rest.len();
            match self.state {
                State::Text => {
                    let Some(place) = memchr2(b'"', b'\\', rest) else { return (chunk.len(), None) };
                    let (_, mark) = rest.split_at(place);
                    let [mark, behind @ ..] = mark else { return (chunk.len(), None) };
                    rest = behind;
                    self.state = if *mark == b'"' { State::Behind } else { State::Escaped };
                    if self.state == State::Behind && self.open.is_empty() {
                        return (chunk.len() - rest.len(), Some(Ok(())));
                    }
                    continue;
                }
                State::Escaped => self.state = State::Text,
                State::Start | State::Bare | State::Behind => match self.step(*byte) {
                    Step::On => {}
                    Step::Last => return (seen + 1, Some(Ok(()))),
                    Step::Beyond => return (seen, Some(Ok(()))),
                    Step::Wrong(wanted) => return (seen, Some(Err(wanted))),
                },
            }
            rest = behind;
        }
        // the end of the document ends only a scalar value
        let at_end = chunk.is_empty() && self.state == State::Bare && self.open.is_empty();
        (chunk.len(), at_end.then_some(Ok(())))
    }

    /// Scans a byte outside of strings.
    fn step(&mut self, byte: u8) -> Step {
        if self.state == State::Behind && !is_white(byte) && !matches!(byte, b',' | b':' | b']' | b'}') {
            return Step::Wrong("`,`, `:`, `]` or `}` after a string");
        }
        match byte {
            b'"' if self.state == State::Start || !self.open.is_empty() => {
                self.state = State::Text;
                return Step::On;
            }
            b'[' => self.open.push(b']'),
            b'{' => self.open.push(b'}'),
            b']' | b'}' => match self.open.pop() {
                Some(close) if close == byte && self.open.is_empty() => return Step::Last,
                Some(close) if close == byte => {}
                Some(b']') => return Step::Wrong("`]`, which closes the open list"),
                Some(_) => return Step::Wrong("`}`, which closes the open object"),
                None => return Step::Beyond,
            },
            b',' if self.open.is_empty() => return Step::Beyond,
            _ if is_white(byte) => {
                return if self.open.is_empty() { Step::Beyond } else { Step::On };
            }
            _ => {}
        }
        self.state = State::Bare;
        Step::On
    }
}

/// The role of a byte outside of strings.
enum Step {
    /// The byte is part of the value.
    On,
    /// The byte is the last one of the value.
    Last,
    /// The byte comes after the value.
    Beyond,
    /// The byte is not allowed here.
    Wrong(&'static str),
}
