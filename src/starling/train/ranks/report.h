#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "starling/train/ranks/step_note.h"

namespace starling {

// What ranks did between two moments.
std::vector<RankStats> between(std::span<const RankStats> before, std::span<const RankStats> now);

// The rank that cannot keep up: the one that leaves out noticeably more of its rows than any other, where the strategy
// lets it; else the one that the others wait for, who waits least itself, where the one who waits most does so for a
// noticeable part of the time longer. Not set: they are even.
std::optional<int> straggler(std::span<const RankStats> ranks);

// What the one who ran the job should know of it: "rank 3 is slower: the others waited for it 61 % of their time".
// Empty where there is no straggler, or it hardly matters.
std::string describe_straggler(std::span<const RankStats> ranks);

// {rank, samples_per_s, left_out (samples), data_wait, comm_wait (shares of its time), sent, received (bytes),
//  wait: {all_reduce: seconds}}
nlohmann::ordered_json to_json(int rank, const RankStats& stats);

}  // namespace starling
