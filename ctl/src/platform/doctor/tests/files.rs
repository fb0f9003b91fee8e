use crate::platform::doctor::CheckLevel::{Fault, Pass, Warning};
use crate::platform::doctor::*;

#[test]
fn free_space_is_compared_with_the_reserve_of_the_daemon() {
    for (free, level) in [(9, Fault), (10, Warning), (39, Warning), (40, Pass)] {
        assert_eq!(judge_space(free, Some(10)).level, level, "{free}");
    }
    assert_eq!(judge_space(0, Some(0)).level, Pass);
    assert_eq!(judge_space(64 << 20, None).value, "64 MiB are free");
}

#[test]
fn inodes_are_judged_only_if_the_file_system_has_a_limit() {
    for (free, all, level) in [(0, 0, Pass), (0, 100, Fault), (4, 100, Warning), (5, 100, Pass)] {
        assert_eq!(judge_inodes(free, all).level, level, "{free} of {all}");
    }
}
