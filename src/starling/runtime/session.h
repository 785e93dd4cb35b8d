#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>

#include "starling/graph/edge.h"
#include "starling/graph/program_options.h"
#include "starling/runtime/containers.h"
#include "starling/tensor/queue.h"

namespace starling {

struct SessionOptions {
  Queues queues = {};                  // queues that the graph's queue ops find by name
  std::set<std::string> disable = {};  // passes to disable, or "all"
  int threads = 0;                     // 0: num_threads() at the time of a run
  bool reuse_memory = true;
  bool reference_only = false;
  bool check_aliases = graph::checks_by_default();  // prove memory use when a program is built (alias_check.h)
  std::size_t cache = 32;                           // programs kept, one per set of feeds, fetches and targets
};

// Value given for an edge of the graph, in place of the one that its node would make: that node does not run.
struct Feed {
  Edge edge;
  Tensor value;
};

// Runs parts of a graph built by hand (graph/builder.h) or read from text. Any edge can be fed and fetched, by handle
// or name; only what the fetches and targets need runs. Variables live in the container. The first run with a set of
// feeds, fetches and targets compiles a program for it, later ones reuse it.
//
// Several threads may call run() at once: each run has its own memory. Runs that assign variables are serialised and
// never overlap a reader of the same container: a run is atomic, except that other runs may proceed while one of its
// ops waits at a queue. A run that fails may have assigned some of its variables.
class Session {
 public:
  explicit Session(graph::Graph graph, std::shared_ptr<SharedContainer> container = nullptr,
                   SessionOptions options = {});
  Session(graph::Graph graph, SessionOptions options) : Session(std::move(graph), nullptr, std::move(options)) {}
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns fresh tensors, one per fetch. A feed must have exactly the edge's type and lie on the program's device; an
  // edge is fed once. Errors name the edge, what was expected and what was given.
  TensorList run(std::span<const Edge> fetches, std::span<const Feed> feeds = {}, std::span<const Target> targets = {});
  TensorList run(std::initializer_list<Edge> fetches, std::initializer_list<Feed> feeds = {},
                 std::initializer_list<Target> targets = {}) {
    return run(std::span(fetches.begin(), fetches.size()), std::span(feeds.begin(), feeds.size()),
               std::span(targets.begin(), targets.size()));
  }

  const graph::Graph& graph() const;
  SharedContainer& container() const;
  std::size_t programs() const;  // number in the cache
  // Description of the program that would run: nodes after all passes, kernels, memory.
  std::string explain(std::initializer_list<Edge> fetches, std::initializer_list<Edge> feeds = {},
                      std::initializer_list<Target> targets = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace starling
