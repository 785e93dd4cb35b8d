#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "starling/train/ranks/step_note.h"

namespace starling::train {

// Difference of the statistics of two moments.
std::vector<RankStats> between(std::span<const RankStats> before, std::span<const RankStats> now);

// The straggler: the rank that leaves out noticeably more of its rows than any other, if the strategy allows that; else
// the rank that waits least, if the one that waits most does so for a noticeably larger part of the time. nullopt if
// they are even.
std::optional<int> straggler(std::span<const RankStats> ranks);

// Message about the straggler: "rank 3 is slower: the others waited for it 61 % of their time". Empty if there is none,
// or it hardly matters.
std::string describe_straggler(std::span<const RankStats> ranks);

// {rank, samples_per_s, samples (computed), left_out (samples), data_wait, comm_wait (shares of its time), sent,
// received (bytes),
//  wait: {all_reduce: seconds}}
nlohmann::ordered_json to_json(int rank, const RankStats& stats);

}  // namespace starling::train
