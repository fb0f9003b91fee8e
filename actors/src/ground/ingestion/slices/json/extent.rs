//! Where a JSON value ends, by its brackets and strings alone.

use super::super::input::is_white;
use memchr::memchr2;

/// A value of which some was seen.
#[derive(Debug, Default)]
pub(super) struct Extent {
    state: State,
    /// What closes the lists and objects that are open, from the outside in: no longer than the value.
    open: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Bare,
    Text,
    /// Behind a backslash in a string.
    Escaped,
    /// Behind a string. What stands there next tells a string's end from a quote that is missing or too many, behind
    /// which inside and outside would be taken for each other.
    Behind,
}

/// The value has ended; or what should stand in place of the next byte.
type Ended = Result<(), &'static str>;

impl Extent {
    /// Looks at more of the value: gives how many bytes of `chunk` are its own, and whether it ends behind those. A value of
    /// no bytes at all is none.
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
        // what ends the document ends nothing in it but a bare value, which is no list and no object
        let at_end = chunk.is_empty() && self.state == State::Bare && self.open.is_empty();
        (chunk.len(), at_end.then_some(Ok(())))
    }

    /// Looks at a byte outside of strings.
    fn step(&mut self, byte: u8) -> Step {
        if self.state == State::Behind && !is_white(byte) && !matches!(byte, b',' | b':' | b']' | b'}') {
            return Step::Wrong("`,`, `:`, `]` or `}`, behind a string");
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
                Some(b']') => return Step::Wrong("`]`, which closes what is open"),
                Some(_) => return Step::Wrong("`}`, which closes what is open"),
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

/// What a byte outside of strings is to a value.
enum Step {
    /// It is part of it.
    On,
    /// It is the last of it.
    Last,
    /// It is behind it.
    Beyond,
    /// It cannot be there.
    Wrong(&'static str),
}
