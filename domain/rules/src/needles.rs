//! Searches for many needles in one pass (Aho and Corasick, 1975).
//!
//! A state represents the bytes read of a needle. Its number is the offset at which these bytes end in the needles' own
//! text, so the next state needs no table, and each byte of the needles takes eight bytes of memory. A fork is stored
//! only where needles with the same beginning diverge. Building takes time linear in the needles, and searching takes
//! time linear in the text. Nested, repeated or single-letter needles make no difference.

use super::normalization::NormalizedLines;

/// The initial state: no byte has been read.
const ROOT: u32 = 0;
/// No needle.
const NONE: u32 = u32::MAX;
/// A flag in `NeedleState::fallback`: the value is then the index of the state's fork.
const FORKED: u32 = 1 << 31;

/// The cost of building for each byte, in units of one compared byte.
const BYTE: u64 = 48;

/// Needles, ready to be searched for. Their texts are not stored; callers pass them to every call.
#[derive(Debug)]
pub(super) struct NeedleAutomaton {
    /// The states after the root, by their byte.
    roots: Box<[u32; 256]>,
    states: Vec<NeedleState>,
    forks: Vec<NeedleFork>,
    /// The states after forks; those of each fork are sorted by their bytes.
    next_states: Vec<(u8, u32)>,
    /// For each needle: an equal one, or else the longest needle that is a suffix of it.
    shorter: Vec<u32>,
    /// The lowest index among a needle and all that follow it in `shorter`.
    lowest: Vec<u32>,
}

/// The bytes read of a needle.
#[derive(Debug, Clone, Copy)]
struct NeedleState {
    /// The state of the longest suffix that is the beginning of a needle; or the index of the fork, if the state has
    /// one.
    fallback: u32,
    /// The longest needle that is a suffix of these bytes.
    longest: u32,
}

/// A state with more than one next state.
#[derive(Debug)]
struct NeedleFork {
    fallback: u32,
    from: usize,
    to: usize,
}

/// The bytes of a needle after the beginning that it shares with an alphabetically earlier one.
struct NeedleTail {
    /// The number of shared bytes.
    depth: usize,
    /// The state after the shared bytes.
    parent: u32,
    /// The next state to process.
    state: u32,
    /// The last state.
    end: u32,
    /// The needle, and the last of those that are equal to it.
    needle: u32,
    last_equal: u32,
}

impl NeedleAutomaton {
    /// The non-blank needles of `lines`; `None` if there are too many bytes to number.
    pub(super) fn of(lines: &NormalizedLines) -> Option<Self> {
        let states = lines.text().len() + 1;
        if states >= FORKED as usize {
            return None;
        }
        let mut needles = Self {
            roots: Box::new([ROOT; 256]),
            states: vec![NeedleState { fallback: ROOT, longest: NONE }; states],
            forks: Vec::new(),
            next_states: Vec::new(),
            shorter: vec![NONE; lines.len()],
            lowest: vec![NONE; lines.len()],
        };
        let mut tails = needles.tails(lines);
        needles.fork(lines, &tails);
        tails.sort_unstable_by_key(|tail| tail.depth);
        needles.fall_back(lines, tails);
        Some(needles)
    }

    /// The cost of building the needles of `lines`, in units of one compared byte.
    pub(super) const fn cost(lines: &NormalizedLines) -> u64 {
        (lines.text().len() as u64).saturating_mul(BYTE)
    }

    /// The maximum memory for the needles of `lines`, in bytes.
    pub(super) const fn weight_bytes(lines: &NormalizedLines) -> u64 {
        let state = size_of::<NeedleState>();
        let needle = size_of::<NeedleFork>() + size_of::<(u8, u32)>() + 2 * size_of::<u32>();
        (size_of::<[u32; 256]>() + (lines.text().len() + 1) * state + lines.len() * needle) as u64
    }

    /// The tail of each needle, in alphabetical order. Equal needles share one tail and are linked in `shorter`.
    fn tails(&mut self, lines: &NormalizedLines) -> Vec<NeedleTail> {
        let mut sorted: Vec<(u32, &[u8])> = lines
            .iter()
            .map(|(index, line)| (index, line.as_bytes()))
            .filter(|(_, line)| !line.is_empty())
            .collect();
        sorted.sort_by_key(|(_, line)| *line);
        let mut tails: Vec<NeedleTail> = Vec::new();
        // the depths from which the last needle's beginning uses the states of earlier needles, with the starts of
        // these
        let mut owners: Vec<(usize, usize)> = Vec::new();
        let mut last: &[u8] = &[];
        for (needle, line) in sorted {
            let depth = line.iter().zip(last).take_while(|(one, other)| one == other).count();
            if depth == line.len() {
                if let Some(tail) = tails.last_mut() {
                    set(&mut self.shorter, tail.last_equal, needle);
                    tail.last_equal = needle;
                }
                continue;
            }
            while owners.pop_if(|(from, _)| *from >= depth).is_some() {}
            let parent = owners.last().map_or(ROOT, |(_, start)| number(start + depth));
            let start = lines.start(needle);
            owners.push((depth, start));
            let (state, end) = (number(start + depth + 1), number(start + line.len()));
            tails.push(NeedleTail { depth, parent, state, end, needle, last_equal: needle });
            last = line;
        }
        tails
    }

    /// Stores the state at which each tail begins.
    fn fork(&mut self, lines: &NormalizedLines, tails: &[NeedleTail]) {
        let mut begins: Vec<(u32, u8, u32)> =
            tails.iter().map(|tail| (tail.parent, byte_before(lines, tail.state), tail.state)).collect();
        begins.sort_unstable();
        // reserves exactly the memory that `weight_bytes` declares
        self.next_states.reserve_exact(begins.len());
        self.forks.reserve_exact(begins.len());
        for siblings in begins.chunk_by(|one, other| one.0 == other.0) {
            let Some((parent, ..)) = siblings.first() else { continue };
            if *parent == ROOT {
                for (_, byte, state) in siblings {
                    set(self.roots.as_mut_slice(), u32::from(*byte), *state);
                }
                continue;
            }
            if let Some(state) = self.states.get_mut(*parent as usize) {
                state.fallback = FORKED | number(self.forks.len());
            }
            let from = self.next_states.len();
            self.next_states.extend(siblings.iter().map(|(_, byte, state)| (*byte, *state)));
            self.forks.push(NeedleFork { fallback: ROOT, from, to: self.next_states.len() });
        }
    }

    /// Computes the fallback of every state. A fallback is less deep than its state, so states are processed by depth.
    fn fall_back(&mut self, lines: &NormalizedLines, tails: Vec<NeedleTail>) {
        let mut waiting = tails.into_iter().peekable();
        let mut growing: Vec<NeedleTail> = Vec::new();
        let mut depth = 0;
        while !growing.is_empty() || waiting.peek().is_some() {
            growing.extend(std::iter::from_fn(|| waiting.next_if(|tail| tail.depth == depth)));
            growing.retain_mut(|tail| {
                self.fall_back_from(lines, tail);
                (tail.parent, tail.state) = (tail.state, tail.state + 1);
                tail.parent != tail.end
            });
            depth += 1;
        }
    }

    fn fall_back_from(&mut self, lines: &NormalizedLines, tail: &NeedleTail) {
        let fallback = match tail.parent {
            ROOT => ROOT,
            parent => self.step(lines, self.fallback(parent).0, byte_before(lines, tail.state)),
        };
        let shorter = self.longest(fallback);
        let ends = tail.state == tail.end;
        if let Some(state) = self.states.get_mut(tail.state as usize) {
            state.longest = if ends { tail.needle } else { shorter };
            match self.forks.get_mut((state.fallback ^ FORKED) as usize) {
                Some(fork) => fork.fallback = fallback,
                None => state.fallback = fallback,
            }
        }
        if ends {
            set(&mut self.shorter, tail.last_equal, shorter);
            let lowest = tail.needle.min(get(&self.lowest, shorter));
            set(&mut self.lowest, tail.needle, lowest);
        }
    }

    fn fallback(&self, state: u32) -> (u32, Option<&NeedleFork>) {
        let fallback = self.states.get(state as usize).map_or(ROOT, |state| state.fallback);
        // a value without the flag gives an index beyond all forks
        match self.forks.get((fallback ^ FORKED) as usize) {
            Some(fork) => (fork.fallback, Some(fork)),
            None => (fallback, None),
        }
    }

    /// The longest needle that is a suffix of `state`.
    fn longest(&self, state: u32) -> u32 {
        self.states.get(state as usize).map_or(NONE, |state| state.longest)
    }

    /// The state after `state` when `byte` is read.
    fn step(&self, lines: &NormalizedLines, mut state: u32, byte: u8) -> u32 {
        while state != ROOT {
            if lines.text().as_bytes().get(state as usize) == Some(&byte) {
                return state + 1;
            }
            let (fallback, fork) = self.fallback(state);
            let rest = fork.and_then(|fork| self.next_states.get(fork.from..fork.to)).unwrap_or_default();
            if let Ok(index) = rest.binary_search_by_key(&byte, |(byte, _)| *byte) {
                return rest.get(index).map_or(ROOT, |(_, state)| *state);
            }
            state = fallback;
        }
        get(self.roots.as_slice(), u32::from(byte))
    }

    /// The ends of needles in `text`: the offset after each, and the longest needle that ends there.
    pub(super) fn ends(&self, lines: &NormalizedLines, text: &str) -> impl Iterator<Item = (usize, u32)> {
        let mut state = ROOT;
        (1..).zip(text.bytes()).filter_map(move |(end, byte)| {
            state = self.step(lines, state, byte);
            let longest = self.longest(state);
            (longest != NONE).then_some((end, longest))
        })
    }

    /// `needle`, then all needles that are equal to it or a suffix of it.
    pub(super) fn with_shorter(&self, needle: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(needle), |needle| {
            Some(get(&self.shorter, *needle)).filter(|next| *next != NONE)
        })
    }

    /// The lowest index among those of [`with_shorter`](Self::with_shorter).
    pub(super) fn lowest(&self, needle: u32) -> u32 {
        get(&self.lowest, needle)
    }
}

/// The number of a state or a needle; [`NeedleAutomaton::of`] has checked that it fits.
fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}

/// The byte that leads to `state`.
fn byte_before(lines: &NormalizedLines, state: u32) -> u8 {
    lines.text().as_bytes().get((state as usize).wrapping_sub(1)).copied().unwrap_or_default()
}

fn get(numbers: &[u32], at: u32) -> u32 {
    numbers.get(at as usize).copied().unwrap_or(NONE)
}

fn set(numbers: &mut [u32], at: u32, number: u32) {
    if let Some(slot) = numbers.get_mut(at as usize) {
        *slot = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needles_use_at_most_their_declared_memory() {
        for needles in [vec![], vec!["a".to_owned()], (0..1_000).map(|at| format!("{at}")).collect()] {
            let lines = NormalizedLines::normalized(&needles);
            let needles = NeedleAutomaton::of(&lines).expect("the needles are few");
            let weight = size_of_val(needles.roots.as_slice())
                + needles.states.capacity() * size_of::<NeedleState>()
                + needles.forks.capacity() * size_of::<NeedleFork>()
                + needles.next_states.capacity() * size_of::<(u8, u32)>()
                + (needles.shorter.capacity() + needles.lowest.capacity()) * size_of::<u32>();
            assert!(weight as u64 <= NeedleAutomaton::weight_bytes(&lines), "{weight}");
        }
    }
}
