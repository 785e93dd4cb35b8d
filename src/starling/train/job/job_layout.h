#pragma once

#include <optional>
#include <string>
#include <vector>

#include "starling/dist/strategy/programs/planned_step.h"
#include "starling/dist/strategy/rank_strategy.h"
#include "starling/nn/deferred_weights.h"
#include "starling/train/job/prepared_job.h"

namespace starling::train {

// Where the state of a job lies on its mesh; nullopt: its strategy knows no meshes.
std::optional<dist::StatePlan> state_plan(const Job& job);

// True if ranks store pieces of weights of the job's network, so that it is made with nn::DeferredWeights: those whose
// network is made for them, on the CPU, and not pre-trained first.
bool defers_weights(const Job& job);
// Makes the weights of such a network: of each that is split the piece that this rank stores.
void make_weights(const PreparedJob& prepared, nn::DeferredWeights& deferred, dist::RankStrategy& strategy);

// Bytes of the state of a job on the ranks of this process, and what less of it `zero` would leave: for a run that
// met train.memory_mb. Allocates next to nothing.
std::string told_state(const PreparedJob& prepared, std::int64_t ranks_here);

// Throws Error, with what was expected, if the job's layout does not fit its network.
void check_layout(const PreparedJob& prepared);
// Throws it as a JobError, with the place of the layout in the job.
void expect_layout(const PreparedJob& prepared);
// "mesh data 2 x model 2 of 4 workers, layout megatron: at most 0.61 of 1.20 MB of weights on each"; empty: the job
// gives neither mesh nor layout.
std::string mesh_note(const PreparedJob& prepared);
// Notes of a layout that fits: where it overrides what the job says, and how many ops lose by it. Allocates next to
// nothing.
std::vector<std::string> layout_notes(const PreparedJob& prepared);

}  // namespace starling::train
