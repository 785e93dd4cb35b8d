#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "starling/train/ranks/step_note.h"

namespace starling {

// What ranks did between two moments.
std::vector<RankStats> between(std::span<const RankStats> before, std::span<const RankStats> now);

// The rank that the others wait for: whoever waits least in collectives itself, where the one who waits most does so
// for a noticeable part of the time longer. Not set: they are even.
std::optional<int> straggler(std::span<const RankStats> ranks);

// {rank, samples_per_s, data_wait, comm_wait (shares of its time), sent, received (bytes), wait: {all_reduce: seconds}}
nlohmann::ordered_json to_json(int rank, const RankStats& stats);

}  // namespace starling
