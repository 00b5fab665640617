//! The frames of the arenas that are taken after a crash: a pure decision, executed by the open.
//!
//! Goal: a prefix of the writes, never a hole. Frames are taken in generation order while each
//! starts at the number after the last one taken. The first gap ends it for all arenas, because a
//! later frame may depend on a lost one.
//!
//! A torn tail is not corruption: a power cut leaves any part of unpersisted writes. Damage is
//! corruption where it *cannot* be a tail: (1) below a number that some surviving frame or the
//! manifest says was persisted. (2) with a whole frame behind it while the page cache of the same
//! boot is still there: frames are written in order, and a dying process tears only the last.

use terrace_lsm::key::MAX_STORED_SEQUENCE;
use terrace_region::{FRAMES_START, FrameRun, Scan};

use crate::SequenceNumber;

/// Facts of one live arena.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArenaFacts {
    /// Whether the arena's header was written under the boot that is running now.
    pub(crate) same_boot: bool,
    /// Whether the header is intact and of this generation. It was durable before the first frame.
    pub(crate) activated: bool,
    /// The frames and the damage.
    pub(crate) scan: Scan,
}

/// The frames that recovery takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The last number that recovery takes from each arena, if any, in the order given. It takes
    /// the arena's frames up to that.
    pub last_taken: Vec<Option<SequenceNumber>>,
    /// The last number taken.
    pub last_sequence: SequenceNumber,
    /// The numbers of readable frames that were dropped as a torn tail.
    pub dropped: Option<(SequenceNumber, SequenceNumber)>,
}

/// The reason why nothing may be taken: acknowledged writes would vanish silently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Index of the arena, in the order given; `None` if no arena is left to blame.
    pub(crate) arena: Option<usize>,
    pub(crate) offset: usize,
    pub(crate) detail: String,
}

/// Judges the live arenas, given in generation order.
///
/// `flushed_sequence` is the highest number held in tables, `persisted_until` the manifest's.
pub(crate) fn judge(
    arenas: &[ArenaFacts],
    flushed_sequence: SequenceNumber,
    persisted_until: SequenceNumber,
) -> Result<Plan, Damage> {
    let mut plan = Plan {
        last_sequence: flushed_sequence,
        ..Plan::default()
    };
    // The arena and offset where the walk met its first gap.
    let mut gap: Option<(usize, usize)> = None;
    let mut highest_left = 0;
    let mut left_in_this_boot = 0;
    let mut promised = persisted_until;
    for (position, arena) in arenas.iter().enumerate() {
        if let Some(damage) = undecidable(position, arena, position + 1 == arenas.len()) {
            return Err(damage);
        }
        let scan = &arena.scan;
        let next = plan.last_sequence.checked_add(1);
        let is_next = |run: &FrameRun| gap.is_none() && Some(run.first_sequence) == next;
        let taken = scan.run.filter(is_next);
        let left = scan.run.filter(|_| taken.is_none());
        if let Some(run) = taken {
            plan.last_sequence = run.last_sequence;
        }
        if gap.is_none() && (left.is_some() || scan.behind.is_some()) {
            let offset = if left.is_some() {
                FRAMES_START
            } else {
                scan.end_bytes
            };
            gap = Some((position, offset));
        }
        plan.last_taken.push(taken.map(|run| run.last_sequence));
        let left = left.map(|run| run.last_sequence);
        let left = left.max(scan.behind.map(|span| span.last_sequence));
        highest_left = highest_left.max(left.unwrap_or(0));
        if arena.same_boot {
            left_in_this_boot = left_in_this_boot.max(left.unwrap_or(0));
        }
        promised = promised.max(scan.max_persisted_until.unwrap_or(0));
    }

    let place = gap.or_else(|| {
        arenas
            .iter()
            .enumerate()
            .next_back()
            .map(|(position, arena)| (position, arena.scan.end_bytes))
    });
    let damage = |detail: String| {
        let (arena, offset) = place.map_or((None, 0), |(arena, offset)| (Some(arena), offset));
        Err(Damage {
            arena,
            offset,
            detail,
        })
    };
    if plan.last_sequence < promised {
        return damage(format!(
            "writes up to number {promised} were persisted, but the frames end at {}",
            plan.last_sequence
        ));
    }
    if left_in_this_boot > plan.last_sequence {
        return damage(format!(
            "the frame after number {} is damaged and whole frames follow it: the file was \
             damaged, or its disk lost what it had cached while the machine went on, which cannot \
             be told apart; `terrace repair` keeps the writes up to that number",
            plan.last_sequence
        ));
    }
    if highest_left > plan.last_sequence {
        plan.dropped = Some((plan.last_sequence + 1, highest_left));
    }
    Ok(plan)
}

/// Returns damage that leaves nothing to judge.
fn undecidable(position: usize, arena: &ArenaFacts, is_youngest: bool) -> Option<Damage> {
    let damage = |offset, detail: &str| {
        Some(Damage {
            arena: Some(position),
            offset,
            detail: detail.to_owned(),
        })
    };
    if arena.scan.has_frames() && !arena.activated {
        return damage(0, "the header is damaged but frames follow it");
    }
    // A generation is issued only when the one before it is activated, or given up.
    if !arena.activated && !is_youngest {
        return damage(
            0,
            "its header is damaged, or the file is of another time or of a copy of this store: a \
             younger arena was issued since",
        );
    }
    if !arena.scan.search_complete {
        return damage(
            arena.scan.end_bytes,
            "too much that looks like frames and is none",
        );
    }
    frame_without_room(&arena.scan).and_then(|offset| damage(offset, LEAVES_NO_ROOM))
}

pub(crate) const LEAVES_NO_ROOM: &str =
    "the frame's sequence numbers leave no room for those to come";

/// Returns the offset of a frame with a number so large that no store gives it.
pub(crate) fn frame_without_room(scan: &Scan) -> Option<usize> {
    let (number, offset) = scan.largest?;
    (number > MAX_STORED_SEQUENCE).then_some(offset)
}

#[cfg(test)]
mod tests {
    use terrace_region::FrameInfo;

    use super::*;

    fn frame(first_sequence: u64, record_count: u32) -> FrameInfo {
        let offset = 4096 + first_sequence as usize * 64;
        FrameInfo {
            offset,
            payload_bytes: 8,
            first_sequence,
            record_count,
            persisted_until: 0,
        }
    }

    fn arena(frames: &[FrameInfo]) -> ArenaFacts {
        damaged(frames, &[])
    }

    fn damaged(frames: &[FrameInfo], behind: &[FrameInfo]) -> ArenaFacts {
        let mut scan = Scan::empty();
        frames.iter().for_each(|frame| scan.add(frame));
        behind.iter().for_each(|frame| scan.add_behind(frame));
        ArenaFacts {
            same_boot: false,
            activated: true,
            scan,
        }
    }

    #[test]
    fn frames_continue_over_arenas_and_empty_ones_are_skipped() {
        let arenas = [
            arena(&[frame(6, 2), frame(8, 1)]),
            arena(&[]),
            arena(&[frame(9, 3)]),
        ];
        let plan = judge(&arenas, 5, 0).unwrap();
        assert_eq!(
            plan,
            Plan {
                last_taken: vec![Some(8), None, Some(11)],
                last_sequence: 11,
                dropped: None
            }
        );
        assert_eq!(judge(&[], 5, 5).unwrap().last_sequence, 5);
    }

    #[test]
    fn a_gap_ends_the_taking_in_all_arenas() {
        let arenas = [
            arena(&[frame(1, 1)]),
            arena(&[frame(3, 1)]),
            arena(&[frame(2, 1)]),
        ];
        let plan = judge(&arenas, 0, 0).unwrap();
        assert_eq!(plan.last_taken, [Some(1), None, None]);
        assert_eq!((plan.last_sequence, plan.dropped), (1, Some((2, 3))));
    }

    #[test]
    fn frames_that_tables_hold_already_are_not_taken_again() {
        let plan = judge(&[arena(&[frame(1, 1), frame(2, 1)])], 2, 0).unwrap();
        assert_eq!((plan.last_taken, plan.last_sequence), (vec![None], 2));
    }

    #[test]
    fn damage_below_the_persisted_number_is_corruption_wherever_the_number_is_found() {
        let arenas = [arena(&[frame(1, 1)])];
        assert_eq!(judge(&arenas, 0, 1).unwrap().last_sequence, 1);
        assert!(judge(&arenas, 0, 2).is_err());
        assert!(judge(&[], 0, 1).is_err());
        let behind = FrameInfo {
            persisted_until: 2,
            ..frame(3, 1)
        };
        assert!(judge(&[damaged(&[frame(1, 1)], &[behind])], 0, 0).is_err());
        let tail = damaged(&[frame(1, 1)], &[frame(3, 1)]);
        assert_eq!(judge(&[tail], 0, 0).unwrap().dropped, Some((2, 3)));
    }

    #[test]
    fn frames_behind_damage_are_corruption_while_the_page_cache_lives() {
        for same_boot in [false, true] {
            let behind = ArenaFacts {
                same_boot,
                ..damaged(&[frame(1, 1)], &[frame(3, 1)])
            };
            assert_eq!(judge(&[behind], 0, 0).is_err(), same_boot);
            let younger = [
                ArenaFacts {
                    same_boot,
                    ..arena(&[frame(1, 1)])
                },
                ArenaFacts {
                    same_boot,
                    ..arena(&[frame(3, 1)])
                },
            ];
            assert_eq!(judge(&younger, 0, 0).is_err(), same_boot);
        }
    }

    #[test]
    fn damage_in_this_boot_may_be_a_lost_cache_and_the_message_says_both() {
        let behind = ArenaFacts {
            same_boot: true,
            ..damaged(&[frame(1, 1)], &[frame(3, 1)])
        };
        let detail = judge(&[behind], 0, 0).unwrap_err().detail;
        for said in [
            "was damaged",
            "disk lost what it had cached",
            "terrace repair",
        ] {
            assert!(detail.contains(said), "{detail}");
        }
    }

    #[test]
    fn a_frame_whose_numbers_leave_no_room_is_damage() {
        let last = MAX_STORED_SEQUENCE;
        assert!(judge(&[arena(&[frame_at(last, 1)])], last - 1, 0).is_ok());
        assert!(judge(&[arena(&[frame_at(last, 2)])], last - 1, 0).is_err());
        assert!(judge(&[arena(&[frame_at(u64::MAX, 1)])], 0, 0).is_err());
        let promising = FrameInfo {
            persisted_until: last + 1,
            ..frame(1, 1)
        };
        let damage = judge(&[arena(&[promising])], 0, 0).unwrap_err();
        assert_eq!((damage.arena, damage.offset), (Some(0), promising.offset));
    }

    fn frame_at(first_sequence: u64, record_count: u32) -> FrameInfo {
        FrameInfo {
            first_sequence,
            record_count,
            ..frame(1, 1)
        }
    }

    #[test]
    fn a_damaged_header_is_corruption_only_if_frames_follow() {
        let torn = ArenaFacts {
            activated: false,
            ..arena(&[])
        };
        assert!(judge(&[arena(&[frame(1, 1)]), torn], 0, 0).is_ok());
        let flipped = ArenaFacts {
            activated: false,
            ..arena(&[frame(1, 1)])
        };
        assert_eq!(judge(&[flipped], 0, 0).unwrap_err().offset, 0);
    }

    #[test]
    fn only_the_youngest_arena_may_lack_its_header() {
        let blank = ArenaFacts {
            activated: false,
            ..arena(&[])
        };
        assert!(judge(std::slice::from_ref(&blank), 0, 0).is_ok());
        assert!(judge(&[arena(&[]), blank], 0, 0).is_ok());
        let damage = judge(&[blank, arena(&[])], 0, 0).unwrap_err();
        assert_eq!((damage.arena, damage.offset), (Some(0), 0));
    }
}
