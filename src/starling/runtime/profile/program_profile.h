#pragma once

#include <memory>
#include <string>
#include <vector>

#include "starling/graph/cost/cost.h"
#include "starling/graph/graph.h"

namespace starling::runtime {

class Executable;

// Static properties of an instruction, independent of when it ran.
struct InstructionProfile {
  std::string op{};
  std::string kernel{};
  std::string scope{};
  std::string device{};
  graph::Lane lane = graph::Lane::compute;
  graph::NodeId node = -1;
  graph::Cost cost{};
};

// Range of the arena that holds one value, from the instruction that writes it to the last that reads it, or the
// scratch of one instruction.
struct ArenaValue {
  std::string name{};  // "%12" as in the graph's text, or "scratch"
  std::string op{};    // op that made it
  std::string scope{};
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

// Memory use of a program over its instructions.
struct MemoryTimeline {
  std::vector<std::size_t> in_use;  // live bytes of the arena at each instruction
  std::vector<ArenaValue> values;
  int peak = -1;  // instruction with the most in use; -1: the program needs no arena
  std::size_t arena_bytes = 0;
  std::size_t scratch_bytes = 0;

  std::size_t peak_bytes() const { return peak < 0 ? 0 : in_use[static_cast<std::size_t>(peak)]; }
  std::vector<ArenaValue> alive_at(int instruction) const;  // largest first
};

struct ProgramProfile {
  std::vector<InstructionProfile> instructions;
  MemoryTimeline memory;
  DType dtype = DType::f32;  // dtype of most arithmetic
  int threads = 1;
};

std::shared_ptr<const ProgramProfile> profile_of(const Executable& executable);

// Peak memory and the values alive there, at most `rows` of them.
std::string memory_summary(const ProgramProfile& profile, std::size_t rows = 20);

}  // namespace starling::runtime
