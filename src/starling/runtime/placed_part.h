#pragma once

#include <memory>
#include <vector>

#include "starling/graph/placement/cut.h"
#include "starling/runtime/instance.h"
#include "starling/runtime/lane_thread.h"
#include "starling/runtime/program.h"
#include "starling/runtime/transfers.h"

namespace starling {

// A variable that lies on the host and is used on a device of another kind.
struct Mirror {
  Tensor original;
  Tensor copy;
  bool written = false;
  std::uint32_t version = 0;  // of the original when both last agreed

  void refresh();
  void give_back();
};

// What one device of a placed program runs, and the memory it takes for it.
struct PlacedPart {
  std::unique_ptr<Instance> instance;
  std::unique_ptr<LaneThread> thread;  // none for the home device, which the caller's thread serves
  std::vector<int> input_indices;      // which of the program's inputs are read here
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<Mirror> mirrors;
  std::int64_t variable_bytes = 0;

  std::int64_t bytes() const { return variable_bytes + static_cast<std::int64_t>(instance->memory_bytes()); }
  void run();
};

// `position` is the device's among those of the program: its events are recorded under that rank.
PlacedPart build_part(GraphPart cut, const PlacedDevice& device, int position, const Container& container,
                      const Transfers& transfers, const BuildOptions& options);

}  // namespace starling
