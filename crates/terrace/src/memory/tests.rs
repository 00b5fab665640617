//! The script in tests/golden/memory.txt: a budget and consumers in, shares out;
//! `TERRACE_BLESS=1` writes the answers again.

use proptest::prelude::*;
use terrace_lsm::golden::check_script;

use super::*;

const WRITE_SETS: &str = "write sets";
const NAMES: [&str; 3] = [READ_BUFFER, WRITE_SETS, BLOCKS];

fn name(text: &str) -> &'static str {
    let names = NAMES.into_iter();
    let mut like = names.filter(|name| name.replace(' ', "_") == text);
    like.next().unwrap_or_else(|| panic!("no consumer {text}"))
}

fn request(line: &str, budget_bytes: u64) -> Request {
    let (consumer, measures) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let mut request = Request {
        consumer: name(consumer),
        floor_bytes: 0,
        demand_bytes: 0,
        max_bytes: budget_bytes,
        ceiling_bytes: u64::MAX,
    };
    for measure in measures.split_whitespace() {
        let (name, value) = measure.split_once('=').unwrap();
        let place = match name {
            "floor" => &mut request.floor_bytes,
            "demand" => &mut request.demand_bytes,
            "max" => &mut request.max_bytes,
            "ceiling" => &mut request.ceiling_bytes,
            _ => panic!("no measure {name}"),
        };
        *place = value.parse().unwrap();
    }
    request
}

fn answer(line: &str) -> String {
    let (budget, consumers) = line.split_once(": ").unwrap();
    let budget_bytes = budget.strip_prefix("budget=").unwrap().parse().unwrap();
    let consumers = consumers.split('|');
    let requests = consumers.map(|consumer| request(consumer, budget_bytes));
    let requests: Vec<Request> = requests.collect();
    let shares = requests
        .iter()
        .zip(divide(budget_bytes, &requests))
        .map(|(request, share)| {
            let Share {
                bytes, limit_bytes, ..
            } = share;
            format!("{} {bytes}, limit {limit_bytes}", request.consumer)
        });
    shares.collect::<Vec<_>>().join("; ")
}

#[test]
fn the_script_is_answered_as_it_was() {
    check_script(env!("CARGO_MANIFEST_DIR"), "memory.txt", 18, answer);
}

fn asks(consumer: &'static str, floor_bytes: u64, demand_bytes: u64, max_bytes: u64) -> Request {
    Request {
        consumer,
        floor_bytes,
        demand_bytes,
        max_bytes,
        ceiling_bytes: u64::MAX,
    }
}

/// A third consumer is one entry more.
#[test]
fn a_third_consumer_takes_its_share_from_the_blocks_and_then_from_the_buffer() {
    let shares = |write_sets| {
        let requests = [
            asks(READ_BUFFER, 100, 500, 500),
            write_sets,
            asks(BLOCKS, 200, 1000, 1000),
        ];
        let shares: Vec<Share> = divide(1000, &requests).collect();
        let [buffer, write_sets, blocks] = shares.try_into().unwrap();
        [buffer.bytes, write_sets.bytes, blocks.bytes]
    };
    assert_eq!(shares(asks(WRITE_SETS, 0, 0, 400)), [500, 0, 500]);
    assert_eq!(shares(asks(WRITE_SETS, 50, 250, 400)), [500, 250, 250]);
    assert_eq!(shares(asks(WRITE_SETS, 50, 900, 400)), [500, 300, 200]);
    assert_eq!(shares(asks(WRITE_SETS, 350, 350, 400)), [450, 350, 200]);
    assert_eq!(shares(asks(WRITE_SETS, 900, 900, 900)), [100, 900, 200]);
}

#[test]
fn all_but_the_blocks_may_take_their_maxima_and_no_more_than_there_is() {
    let requests = [
        asks(READ_BUFFER, 1, 2, 500),
        asks(WRITE_SETS, 3, 4, 300),
        asks(BLOCKS, 0, 1000, 1000),
    ];
    assert_eq!(max_of_others(1000, &requests, BLOCKS), 800);
    assert_eq!(max_of_others(700, &requests, BLOCKS), 700);
}

proptest! {
    /// Floors are kept, nothing is given twice, and a consumer that demands all takes the rest.
    #[test]
    fn shares_are_at_least_floors_and_fill_the_budget(
        budget in 0_u64..2000,
        numbers in prop::collection::vec((0_u64..800, 0_u64..1500, 0_u64..1500), 0..4),
        blocks_floor in 0_u64..800,
    ) {
        let others = numbers
            .iter()
            .map(|&(floor, demand, max)| asks(READ_BUFFER, floor, demand, max));
        let blocks = asks(BLOCKS, blocks_floor, budget, budget);
        let requests: Vec<Request> = others.chain([blocks]).collect();
        let floors: u64 = requests.iter().map(|request| request.floor_bytes).sum();
        let shares: Vec<Share> = divide(budget, &requests).collect();
        let bytes: u64 = shares.iter().map(|share| share.bytes).sum();
        prop_assert_eq!(bytes, budget.max(floors));
        for (request, share) in requests.iter().zip(&shares) {
            prop_assert!(share.bytes >= request.floor_bytes);
            prop_assert!(share.bytes <= request.max_bytes.max(request.floor_bytes));
            prop_assert!(share.max_bytes <= request.max_bytes.min(budget));
        }
    }
}
