#pragma once

#include <memory>
#include <string>
#include <vector>

#include "starling/graph/cost.h"
#include "starling/runtime/executable.h"

namespace starling {

// What an instruction is and takes, independent of when it ran.
struct InstructionProfile {
  std::string op{};
  std::string kernel{};
  std::string scope{};
  std::string device{};
  Lane lane = Lane::compute;
  NodeId node = -1;
  Cost cost{};
};

// A stretch of the arena that holds one value, from the instruction that writes it to the last that reads it, or what
// one instruction computes with.
struct ArenaValue {
  std::string name{};  // "%12" as in the graph's text, or "scratch"
  std::string op{};    // that made it
  std::string scope{};
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

// The memory of a program over its instructions.
struct MemoryTimeline {
  std::vector<std::size_t> in_use;  // bytes of the arena with what is still needed, at each instruction
  std::vector<ArenaValue> values;
  int peak = -1;  // the instruction with most in use; -1: the program needs no arena
  std::size_t arena_bytes = 0;
  std::size_t scratch_bytes = 0;

  std::size_t peak_bytes() const { return peak < 0 ? 0 : in_use[static_cast<std::size_t>(peak)]; }
  std::vector<ArenaValue> alive_at(int instruction) const;  // largest first
};

struct ProgramProfile {
  std::vector<InstructionProfile> instructions;
  MemoryTimeline memory;
  DType dtype = DType::f32;  // of most arithmetic
  int threads = 1;
};

std::shared_ptr<const ProgramProfile> profile_of(const Executable& executable);

// The peak and what is alive there, at most `rows` values.
std::string memory_summary(const ProgramProfile& profile, std::size_t rows = 20);

}  // namespace starling
