#pragma once

#include <memory>
#include <vector>

#include "starling/graph/placement/cut.h"
#include "starling/runtime/execution/instance.h"
#include "starling/runtime/execution/lane_thread.h"
#include "starling/runtime/placed/transfers.h"
#include "starling/runtime/program.h"

namespace starling::runtime {

// Device copy of a host variable, for a device of another kind.
struct Mirror {
  Tensor original;
  Tensor copy;
  bool written = false;
  std::uint32_t version = 0;  // version of the original when both last agreed

  void refresh();
  void give_back();
};

// Part of a placed program that one device runs, with its memory.
struct PlacedPart {
  std::unique_ptr<Instance> instance;
  std::unique_ptr<LaneThread> thread;  // null for the home device, which the calling thread serves
  std::vector<int> input_indices;      // indices of the program's inputs that are read here
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<Mirror> mirrors;
  std::int64_t variable_bytes = 0;

  std::int64_t bytes() const { return variable_bytes + static_cast<std::int64_t>(instance->memory_bytes()); }
  void run();
};

// `position`: index of the device in the program; its events are recorded under that rank.
PlacedPart build_part(graph::GraphPart cut, const graph::PlacedDevice& device, int position, const Container& container,
                      const Transfers& transfers, const BuildOptions& options);

}  // namespace starling::runtime
