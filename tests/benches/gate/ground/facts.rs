//! The ingested data: population by area and year, in several releases, like those of the World Bank.

use domain_base::digest::Sha256Stream;
use fastrand::Rng;
use std::fmt::Write as _;

/// The number of years of each area.
pub(crate) const YEARS: usize = 60;
const FIRST_YEAR: u16 = 1960;
/// The share of facts that a later release revises. Of 16,400 rows of the World Bank, 13,268 changed in three years.
const REVISED: f64 = 0.8;
/// The year of the first release.
const FIRST_RELEASE: usize = 2023;

/// The population of an area in a year.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BenchFact {
    pub(crate) area: String,
    pub(crate) year: u16,
    pub(crate) name: String,
    pub(crate) population: i64,
}

/// The facts of one release.
#[derive(Debug)]
pub(crate) struct BenchRelease {
    /// The name of the version, which is its year.
    pub(crate) version: String,
    /// When it was released, in seconds since 1970.
    pub(crate) released_s: i64,
    pub(crate) facts: Vec<BenchFact>,
}

impl BenchRelease {
    fn new(number: usize, facts: Vec<BenchFact>) -> Self {
        let version = (FIRST_RELEASE + number).to_string();
        let released: jiff::Timestamp = format!("{version}-07-01T00:00:00Z").parse().expect("a valid time");
        Self { version, released_s: released.as_second(), facts }
    }

    /// The payload of the release, as CSV.
    pub(crate) fn payload(&self) -> String {
        let mut text = "Country Name,Country Code,Year,Value\n".to_owned();
        for fact in &self.facts {
            fact.write_to(&mut text);
            text.push('\n');
        }
        text
    }
}

impl BenchFact {
    fn write_to(&self, text: &mut String) {
        let Self { area, year, name, population } = self;
        write!(text, "{name},{area},{year},{population}").expect("a write to memory succeeds");
    }

    /// The digest of the fact's line.
    pub(crate) fn raw_hash(&self) -> [u8; 32] {
        let (mut line, mut digest) = (String::new(), Sha256Stream::default());
        self.write_to(&mut line);
        digest.push(line.as_bytes());
        digest.finish_bytes()
    }
}

/// Generates `count` releases of `facts` facts, the same in every run of the benchmark.
pub(crate) fn releases(count: usize, facts: usize) -> Vec<BenchRelease> {
    let mut releases: Vec<BenchRelease> = Vec::new();
    for number in 0..count {
        let facts = releases.last().map_or_else(|| first(facts), |before| revised(&before.facts, number));
        releases.push(BenchRelease::new(number, facts));
    }
    releases
}

fn first(facts: usize) -> Vec<BenchFact> {
    let mut random = Rng::with_seed(17);
    let mut all = Vec::with_capacity(facts + YEARS);
    for number in 0..facts.div_ceil(YEARS) {
        let letters = [number / 26 / 26 % 26, number / 26 % 26, number % 26];
        let area: String = letters
            .iter()
            .map(|letter| char::from(b'A' + u8::try_from(*letter).unwrap_or_default()))
            .collect();
        let name = format!("Land {area}");
        let mut people = 10_f64.powf(4.0 + 5.0 * random.f64());
        for year in (FIRST_YEAR..).take(YEARS) {
            people *= 0.99 + 0.04 * random.f64();
            all.push(BenchFact { area: area.clone(), year, name: name.clone(), population: people as i64 });
        }
    }
    all.truncate(facts);
    all
}

fn revised(before: &[BenchFact], number: usize) -> Vec<BenchFact> {
    let mut random = Rng::with_seed(number as u64);
    let revise = |fact: &BenchFact| {
        let more = 1 + fact.population / 1000 * random.i64(0..20);
        let changes = random.f64() < REVISED;
        BenchFact { population: fact.population + if changes { more } else { 0 }, ..fact.clone() }
    };
    before.iter().map(revise).collect()
}
