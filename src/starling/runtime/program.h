#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "starling/graph/pass.h"
#include "starling/runtime/container.h"
#include "starling/runtime/executable.h"
#include "starling/runtime/profiler.h"

namespace starling {

struct BuildOptions {
  std::set<std::string> disable;  // names of passes, or "all"
  int threads = 0;                // 0: as many as parallel_for may use now
  bool reuse_memory = true;
  bool reference_only = false;  // reference kernels: the oracle
  bool check_aliases = checks_by_default();
  std::size_t memory_budget = 0;  // bytes of arena; 0: as many as it takes to be fast
  int branches = 1;               // compute lanes, which share the threads
  std::size_t arguments = 0;      // how many of the graph's inputs are arguments; the rest are captured tensors
  bool overlap = true;            // off: collectives take their turn among the compute, nothing hides them
  // Of small gradients that are reduced together (PassContext).
  std::size_t bucket_bytes = PassContext{}.bucket_bytes;
  std::size_t first_bucket_bytes = PassContext{}.first_bucket_bytes;
};

// A step that can be run: one executable and its instance, or one per rank.
class Program {
 public:
  virtual ~Program() = default;
  // Global inputs and outputs: a distributed program cuts and joins them itself.
  virtual void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) = 0;
  virtual const Graph& graph() const = 0;  // after all passes (of rank 0)
  virtual std::string explain() const = 0;
  virtual void set_profiler(Profiler* profiler) = 0;
  virtual std::size_t memory_bytes() const = 0;                   // arenas and scratch of all ranks here
  virtual std::vector<PassReport> reports() const { return {}; }  // of the passes and of lowering (of rank 0)
  // Of the outputs, where they are not those of the graph it was built from: one rank's rows of what is split. Empty:
  // they are.
  virtual std::vector<TensorType> output_types() const { return {}; }
};

// Where, when, what and by which route ranks exchange: it makes a program of a traced, global graph.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::string name() const = 0;
  virtual std::unique_ptr<Program> build(const Graph& global, const Container& container,
                                         const BuildOptions& options) = 0;
};

// One rank, no communication.
class SingleStrategy final : public Strategy {
 public:
  std::string name() const override { return "single"; }
  std::unique_ptr<Program> build(const Graph& global, const Container& container, const BuildOptions& options) override;
};

struct BuiltProgram {
  std::shared_ptr<const Executable> executable;
  std::vector<PassReport> reports;
};

// Runs the passes and lowers what they make, with `threads` threads in all. Under a budget as often as it takes for the
// arena to fit; throws, naming the least that can be reached, where it cannot.
BuiltProgram build_program(const Graph& global, PassContext context, int threads, const BuildOptions& options);
// Executable::build, with how long it took as a further row "lower": from nodes to instructions.
std::shared_ptr<const Executable> lower(Graph graph, const ExecutableOptions& options,
                                        std::vector<PassReport>& reports);

std::string describe(const std::vector<PassReport>& reports);  // the table of passes that explain() begins with

}  // namespace starling
