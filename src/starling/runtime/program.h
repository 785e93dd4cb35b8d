#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/graph/pass.h"
#include "starling/ops/def/scopes/comm_world.h"
#include "starling/runtime/container.h"
#include "starling/runtime/profile/profiler.h"

namespace starling::runtime {

class Executable;

struct BuildOptions {
  graph::ProgramOptions program = {};
  std::size_t arguments = 0;  // inputs of the graph that are arguments; the rest are captured tensors
  CommWorld world = {};       // ranks that collectives of the graph itself go to, if it was compiled for some
};

// Runnable step: one executable with its instance, or one per rank.
class Program {
 public:
  virtual ~Program() = default;
  // Inputs and outputs are global: a distributed program splits and joins them itself.
  virtual void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) = 0;
  virtual const graph::Graph& graph() const = 0;  // after all passes (rank 0)
  virtual std::string explain() const = 0;
  virtual void set_profiler(Profiler* profiler) = 0;
  virtual std::size_t memory_bytes() const = 0;                          // arenas and scratch of all local ranks
  virtual std::vector<graph::PassReport> reports() const { return {}; }  // passes and lowering (rank 0)
  // Local output types of this rank, with its rows of split outputs. Empty when they equal the global graph's.
  virtual std::vector<TensorType> output_types() const { return {}; }
};

// Distribution strategy: makes a program of a traced, global graph, and decides where, when, what and by which route
// ranks exchange.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual std::string name() const = 0;
  virtual std::unique_ptr<Program> build(const graph::Graph& global, const Container& container,
                                         const BuildOptions& options) = 0;
  // Empties a gradient slot without memory, which this strategy stores in pieces. Throws if it does not.
  virtual void clear(const Tensor& slot);
};

// One rank, no communication.
class SingleStrategy final : public Strategy {
 public:
  std::string name() const override { return "single"; }
  std::unique_ptr<Program> build(const graph::Graph& global, const Container& container,
                                 const BuildOptions& options) override;
};

struct BuiltProgram {
  std::shared_ptr<const Executable> executable;
  std::vector<graph::PassReport> reports;
};

// Runs the context's passes and lowers the result. Under a memory budget the passes that read it and lowering repeat
// until the arena fits; if it cannot, throws naming the smallest size reached.
BuiltProgram build_program(const graph::Graph& global, const graph::PassContext& context);
// Executable::build, with its time reported as a row "lower".
std::shared_ptr<const Executable> lower(graph::Graph graph, const graph::ProgramOptions& options,
                                        std::vector<graph::PassReport>& reports);

std::string describe(const std::vector<graph::PassReport>& reports);  // table of passes at the head of explain()

}  // namespace starling::runtime
