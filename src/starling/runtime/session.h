#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>

#include "starling/graph/edge.h"
#include "starling/kernels/resources.h"
#include "starling/runtime/containers.h"

namespace starling {

struct SessionOptions {
  Queues queues = {};                  // that the graph's queue ops find by name
  std::set<std::string> disable = {};  // passes to leave out, or "all"
  int threads = 0;                     // 0: as many as parallel_for may use at the time of a run
  bool reuse_memory = true;
  bool reference_only = false;
  std::size_t cache = 32;  // programs kept, one for each set of feeds, fetches and targets
};

// A value in the place of whatever would have made the edge.
struct Feed {
  Edge edge;
  Tensor value;
};

// Runs parts of a graph built by hand (graph/builder.h) or read from text. Any edge can be fed and fetched, by handle
// or name; what runs is what the fetches and targets need, and nothing else. Variables live in the container. The first
// run with a set of feeds, fetches and targets compiles a program for it, later ones reuse it.
//
// Several threads may call run() at once: each run has memory of its own. Runs that assign variables follow each other
// and never overlap a reader of the same container: a run is atomic, except that while one of its ops waits at a queue,
// others may run. A run that fails may have assigned some of its variables.
class Session {
 public:
  explicit Session(Graph graph, std::shared_ptr<SharedContainer> container = nullptr, SessionOptions options = {});
  Session(Graph graph, SessionOptions options) : Session(std::move(graph), nullptr, std::move(options)) {}
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Fresh tensors, one a fetch. Feeds must have exactly the edge's type and lie where the program runs; an edge is fed
  // once. Throws naming the edge, what was expected and what was given.
  TensorList run(std::span<const Edge> fetches, std::span<const Feed> feeds = {}, std::span<const Target> targets = {});
  TensorList run(std::initializer_list<Edge> fetches, std::initializer_list<Feed> feeds = {},
                 std::initializer_list<Target> targets = {}) {
    return run(std::span(fetches.begin(), fetches.size()), std::span(feeds.begin(), feeds.size()),
               std::span(targets.begin(), targets.size()));
  }

  const Graph& graph() const;
  SharedContainer& container() const;
  std::size_t programs() const;  // in the cache
  // The program that would run: its nodes after all passes, kernels, memory.
  std::string explain(std::initializer_list<Edge> fetches, std::initializer_list<Edge> feeds = {},
                      std::initializer_list<Target> targets = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace starling
