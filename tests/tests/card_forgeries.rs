//! Forged verdict cards: each reader gives the expected answer, and all give the same one. The browser is in `tests/console.sh`.

use domain_verdict::card::VerdictCard;
use fastrand::Rng;
use oracled_tests::card_forgeries::{
    ForgedCard, expected_key, forged_cards, hostile_cards, is_accepted, lines_of, random_card,
};
use oracled_tests::program;
use std::fs;
use std::process::Command;

/// The answers of a reader in another language; `None` if its program, or a package that it needs, is not here. `None` among them stands
/// for a card that the reader skips.
fn read_in(program: &str, script: &str, cards: &[ForgedCard]) -> Option<Vec<Option<bool>>> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("cards");
    fs::write(&file, lines_of(cards)).expect("the write succeeds");
    let output = Command::new(program).arg(script).arg(&file).output();
    let Some(output) = output.ok().filter(|output| output.status.code() != Some(3)) else {
        println!("skipped: cards in {program} (the program or its package is not here)");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    let answers = String::from_utf8(output.stdout).expect("valid UTF-8");
    let answers: Vec<_> =
        answers.lines().map(|line| (line != "skipped").then_some(line == "accepted")).collect();
    assert_eq!(answers.len(), cards.len());
    Some(answers)
}

/// Checks that these readers, and that in Rust, agree on each card, and that their answer is the expected one. Returns the number of
/// accepted cards.
fn check_readers(readers: &[(&str, String)], cards: &[ForgedCard]) -> usize {
    let own: Vec<bool> = cards.iter().map(is_accepted).collect();
    for (card, answer) in cards.iter().zip(&own) {
        assert_eq!(*answer, card.is_accepted.unwrap_or(*answer), "{}", card.name);
    }
    for (program, script) in readers {
        let answers = read_in(program, script, cards).unwrap_or_default();
        let different = cards
            .iter()
            .zip(&own)
            .zip(&answers)
            .filter(|((_, own), answer)| answer.is_some_and(|answer| answer != **own));
        let different: Vec<_> = different.map(|((card, own), _)| (&card.name, *own)).collect();
        assert!(different.is_empty(), "{script} has another answer than Rust: {different:?}");
        println!("{script}: {} cards compared", answers.iter().flatten().count());
    }
    own.into_iter().filter(|is_accepted| *is_accepted).count()
}

/// The readers of the clients.
fn clients() -> [(&'static str, String); 2] {
    [("python3", "cards.py"), ("node", "cards.mjs")]
        .map(|(program, script)| (program, format!("{}/readers/{script}", env!("CARGO_MANIFEST_DIR"))))
}

#[test]
fn forged_cards_are_refused_and_genuine_ones_accepted_in_each_reader() {
    compare_forged_cards(&clients(), 400);
}

/// The entries and the checkpoint of a card are a document of `oraclectl log prove`; those of a verdict and of an erasure have the same form.
#[test]
fn document_of_forged_entries_is_refused() {
    const FORGED: [&str; 5] =
        ["salts: ", "proof: ", "checkpoint: another size", "form of a line", "key: the checkpoint"];
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("document");
    let (mut counts, mut different) = ([0, 0], Vec::new());
    for ForgedCard { name, page, is_accepted, .. } in forged_cards(0) {
        let Ok(card) = VerdictCard::read(&String::from_utf8_lossy(&page)) else { continue };
        let is_genuine = is_accepted == Some(true);
        // an old entry has its salts in another order
        let is_old = name.starts_with("salts: reordered");
        if !is_genuine && (is_old || !FORGED.iter().any(|kind| name.starts_with(kind))) {
            // its entries are genuine, and only do not belong together
            continue;
        }
        fs::write(&file, serde_json::to_string(&card.bundle()).expect("JSON")).expect("the write succeeds");
        let arguments = ["verify-log", "--allow-test-mode", "--key", &expected_key()].map(str::to_owned);
        let output = Command::new(program("oraclectl")).args(arguments).arg(&file).output();
        let output = output.expect("the program starts");
        if output.status.code() != Some(i32::from(!is_genuine)) {
            different.push((name, output));
        }
        counts[usize::from(is_genuine)] += 1;
    }
    assert!(different.is_empty(), "{different:#?}");
    println!("{} forged documents, {} genuine ones", counts[0], counts[1]);
    assert!(counts[0] >= 50 && counts[1] > 10, "{counts:?}");
}

fn compare_forged_cards(readers: &[(&str, String)], flips: usize) {
    let cards = forged_cards(flips);
    let genuine = cards.iter().filter(|card| card.is_accepted == Some(true)).count();
    assert_eq!(check_readers(readers, &cards), genuine);
    println!("{} cards, {genuine} of them genuine", cards.len());
}

#[test]
fn random_cards_have_the_same_answer_in_each_reader() {
    compare_random_cards(&clients(), 300);
}

#[test]
#[ignore = "ten thousand cards; `just torture`"]
fn ten_thousand_random_cards_have_the_same_answer_in_each_reader() {
    compare_random_cards(&clients(), 10_000);
}

/// The reader in a browser; `tests/console.sh` calls it.
#[test]
#[ignore = "needs chromium and npm: `just console`"]
fn browser_walks_through_forged_and_random_cards() {
    let folder = std::env::var("ORACLED_CONSOLE_WALK").expect("`tests/console.sh` sets ORACLED_CONSOLE_WALK");
    let browser = [("node", format!("{folder}/cards.mjs"))];
    // `card.mjs` changes bytes: a browser shows the same for a tag in upper case
    compare_forged_cards(&browser, 0);
    let changes = std::env::var("CARD_CHANGES").ok().and_then(|count| count.parse().ok()).unwrap_or(60);
    compare_random_cards(&browser, changes);
}

fn compare_random_cards(readers: &[(&str, String)], count: usize) {
    let mut random = Rng::with_seed(7_600);
    let cards: Vec<_> = (0..count).map(|number| random_card(&mut random, number)).collect();
    let accepted = check_readers(readers, &cards);
    println!("{count} random cards, {accepted} of them accepted by each reader");
    assert!(
        accepted > count / 20 && accepted < count,
        "{accepted} of {count} are accepted: the comparison shows little"
    );
}

/// The most time that a reader needs for a hostile card, in times that for a genuine one of the same size, and the most further memory.
const TIMES_MAX: f64 = 10.0;
const MORE_KIB_MAX: f64 = 65_536.0;

/// Measures the time and the heap of the script in a browser; `tests/console.sh` calls it.
#[test]
#[ignore = "needs chromium and npm: `just console`"]
fn browser_needs_as_much_for_hostile_cards_of_1_mb_as_for_a_genuine_one() {
    let walk = std::env::var("ORACLED_CONSOLE_WALK").expect("`tests/console.sh` sets ORACLED_CONSOLE_WALK");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (file, cards) = (folder.path().join("cards"), hostile_cards(1_000_000));
    fs::write(&file, lines_of(&cards)).expect("the write succeeds");
    let script = format!("{walk}/cards.mjs");
    let output = Command::new("node").arg(script).arg(&file).env("HEAP", "1").output().expect("node starts");
    assert!(output.status.success(), "{output:?}");
    let answers = String::from_utf8(output.stdout).expect("valid UTF-8");
    let measured: Vec<_> = answers.lines().zip(&cards).filter(|(answer, _)| *answer != "skipped").collect();
    let figures = |answer: &str| {
        let mut figures = answer.split(' ').skip(1).map(|figure| figure.parse::<f64>().expect("a number"));
        (figures.next().expect("the bytes of the heap"), figures.next().expect("the seconds"))
    };
    let (heap, seconds) = figures(measured[0].0);
    for (answer, card) in &measured {
        let (own_heap, own_seconds) = figures(answer);
        let (times, more) = (own_seconds / seconds, (own_heap - heap) / 1024.0);
        println!("Chromium {}: {own_seconds:.2} s, × {times:.2}; {more:.0} KiB more", card.name);
        assert!(times <= TIMES_MAX && more <= MORE_KIB_MAX, "{}: {answer}", card.name);
    }
    assert!(measured.len() > 20, "{} cards are measured", measured.len());
}

/// Measures the processor time and the memory of each reader for hostile cards of 1 MB, beside those for a genuine one of the same size.
#[test]
#[ignore = "takes a minute, and needs an idle machine; `just torture`"]
fn hostile_cards_of_1_mb_cost_each_reader_as_much_as_a_genuine_one() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (key, measure) = (expected_key(), format!("{}/readers/measure.py", env!("CARGO_MANIFEST_DIR")));
    let mut readers: Vec<Vec<String>> =
        clients().map(|(program, script)| vec![program.to_owned(), script]).into();
    readers.push(
        [program("oraclectl").to_str().expect("valid UTF-8"), "card", "verify", "--key", &key]
            .map(str::to_owned)
            .into(),
    );
    for reader in readers {
        let mut genuine = None;
        for card in hostile_cards(1_000_000) {
            let file = folder.path().join("card");
            let is_page = reader.len() > 2;
            let content =
                if is_page { card.page.clone() } else { lines_of(std::slice::from_ref(&card)).into_bytes() };
            fs::write(&file, content).expect("the write succeeds");
            let measured = Command::new("python3").arg(&measure).args(&reader).arg(&file).output();
            let measured = measured.expect("Python starts");
            let text = String::from_utf8(measured.stdout).expect("valid UTF-8");
            let figures: Vec<f64> =
                text.split_whitespace().map(|figure| figure.parse().expect("a number")).collect();
            let [code, seconds, kib] = figures.as_slice() else { panic!("{text} {:?}", measured.stderr) };
            // `oraclectl` refuses with 1; the others print their answer
            let codes = if is_page && genuine.is_some() { 0.0..=1.0 } else { 0.0..=0.0 };
            assert!(codes.contains(code), "{reader:?} {}: exit code {code}", card.name);
            let (first_seconds, first_kib) = *genuine.get_or_insert((*seconds, *kib));
            let (times, more) = (seconds / first_seconds, kib - first_kib);
            println!(
                "{} {}: {seconds:.2} s, × {times:.2}; {more:.0} KiB more",
                reader[reader.len().min(2) - 1],
                card.name
            );
            assert!(times <= TIMES_MAX && more <= MORE_KIB_MAX, "{}: {seconds} s, {kib} KiB", card.name);
        }
    }
}
